//! How a job finished.

/// How a job finished, as returned by [`Queue::wait`](crate::queue::Queue::wait) and, except [`Gone`](JobEnd::Gone), by
/// [`Context::parents`](crate::Context::parents).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobEnd {
    /// It is done.
    Done {
        /// The handler's output.
        output: Option<Vec<u8>>,
    },
    /// It is dead: out of attempts, or failed for good.
    Dead {
        /// The job's last error, or empty if the worker gave none.
        error: String,
    },
    /// It was cancelled.
    Cancelled {
        /// Who cancelled it, and why.
        error: String,
    },
    /// The queue does not contain the job: it was done and deleted
    /// ([`CompletionPolicy::Delete`](crate::job::CompletionPolicy)), it was purged or has expired, or it never existed.
    /// These cases cannot be told apart.
    Gone,
}
