//! The queue's maintenance by its elected worker.

mod adaptive_timeout;
mod fire_schedules;
mod firing_plan;
mod maintenance;

pub(super) use maintenance::Maintenance;
