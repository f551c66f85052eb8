//! What a worker tells about itself: what it has done, what it holds, what limits it.

pub(crate) mod gauges;
mod monitor;
pub(crate) mod progress;

pub use monitor::Monitor;
pub use progress::DrainProgress;
pub(super) use progress::{Left, Readings};
