//! The worker's reports about itself: its jobs, results and bottleneck.

mod drain_progress;
mod gauges;
mod worker_monitor;

pub use drain_progress::DrainProgress;
pub(super) use drain_progress::{Left, Readings, report_progress};
pub(super) use gauges::{keep_depth_shown, keep_levels_shown};
pub use worker_monitor::WorkerMonitor;
