//! The producers' side of a queue: enqueueing jobs, and waiting until they have finished.

mod batch;
mod enqueue;
mod enqueue_tries;
mod queue;
mod shared_calls;
mod wait;
mod waiters;

pub(crate) use queue::CancelledHere;
pub use queue::Queue;
