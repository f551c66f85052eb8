//! The worker's reports about itself: its jobs, results and bottleneck.

mod gauges;
mod monitor;
mod progress;

pub(super) use gauges::{keep_depth_shown, keep_levels_shown};
pub use monitor::Monitor;
pub use progress::DrainProgress;
pub(super) use progress::{Left, Readings, report_progress};
