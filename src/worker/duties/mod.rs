//! What one worker of a queue does for all of them.

mod fire_schedules;
mod firing_plan;
mod maintenance;
mod patience;

pub(super) use maintenance::Maintenance;
