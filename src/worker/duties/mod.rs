//! What one worker of a queue does for all of them.

mod duty_failures;
mod fire_schedules;
mod firing_plan;
mod maintenance;
mod patience;

pub(super) use duty_failures::DutyFailures;
pub(super) use maintenance::Maintenance;
