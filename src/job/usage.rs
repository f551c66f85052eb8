//! What an attempt of a job used.

use std::time::Duration;

/// What an attempt of a job used. `None` is unknown, which is not the same as nothing.
///
/// A worker measures the CPU time of a handler's own thread: on Linux and macOS, exactly for runs of a millisecond or
/// more; a shorter run counts its wall time. It cannot tell what other threads of the pool do for a job that uses rayon
/// inside, and it measures no memory. A handler that knows more, or whose work happens elsewhere, reports it by
/// [`Context::report_usage`](crate::Context::report_usage). `readpast work` does so for its programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The CPU time, of all threads and processes together.
    pub cpu: Option<Duration>,
    /// The most memory that was resident at once, in bytes.
    pub peak_memory: Option<u64>,
}
