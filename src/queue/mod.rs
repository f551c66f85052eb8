//! What producers do: enqueueing jobs, and waiting for their end.

mod batch;
mod enqueue;
mod queue;
mod wait;
mod waiters;

pub(crate) use queue::CancelledHere;
pub use queue::Queue;
