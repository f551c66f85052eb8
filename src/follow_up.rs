//! Jobs that are enqueued in the transaction in which another is acknowledged as done.

use crate::job::NewJob;

/// A job that is enqueued in the transaction in which another is acknowledged as done:
/// [`Output::enqueue`](crate::Output::enqueue).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowUp {
    /// The queue that it is enqueued in.
    pub queue: String,
    /// The job.
    pub job: NewJob,
}
