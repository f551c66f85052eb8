//! What producers do: enqueueing jobs, and waiting for their end.

mod enqueue;
mod enqueue_tries;
mod queue;
mod waiters;

pub(crate) use queue::CancelledHere;
pub use queue::Queue;
