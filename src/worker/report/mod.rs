//! What a worker tells about itself: what it has done, what it holds, what limits it.

pub(super) mod bottleneck;
pub(super) mod bottleneck_time;
pub(super) mod gauges;
pub(super) mod monitor;
pub(super) mod queue_depth;
pub(super) mod stats;
pub(super) mod tally;
