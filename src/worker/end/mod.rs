//! How a worker ends: stopped, or when nothing is left of its queue.

pub(super) mod drain_progress;
pub(super) mod shutdown_steps;
pub(super) mod stop_when_empty;
