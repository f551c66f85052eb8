//! What a worker tells about itself: what it has done, what it holds, what limits it.

pub(super) mod bottleneck_time;
pub(super) mod depth_gauge;
pub(super) mod gauges;
pub(super) mod limit;
pub(super) mod pulse;
pub(super) mod stats;
pub(super) mod stats_reader;
pub(super) mod tally;
mod time_counts;
