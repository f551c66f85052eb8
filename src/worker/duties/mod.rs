//! The queue's maintenance by its elected worker.

mod fire_schedules;
mod firing_plan;
mod maintenance;
mod patience;

pub(super) use maintenance::Maintenance;
