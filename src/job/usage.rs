//! What an attempt of a job used.

use std::time::Duration;

/// What an attempt of a job used: CPU time and memory. `None` is unknown, which differs from nothing.
///
/// A worker measures the CPU time of a handler's own thread. A handler whose work happens elsewhere, such as in a
/// program that it starts, reports it with [`Context::report_usage`](crate::Context::report_usage).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The CPU time, of all threads and processes together.
    pub cpu: Option<Duration>,
    /// The most memory that was resident at once, in bytes.
    pub peak_memory: Option<u64>,
}
