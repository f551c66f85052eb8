//! Actions on queues, jobs, schedules and batches.
//!
//! a button ─▶ [`confirm`] (for many jobs with a [`count`]) ─▶ [`act`]: immediately, or as an [`operation`] page by
//! page, with progress and a stop button on [`operation_page`] ─▶ the library. Each action is logged and audited.
//! New jobs, schedules and settings are typed into forms in [`two_steps`].

pub mod act;
pub mod confirm;
pub mod confirm_one;
pub mod count;
pub mod job_action;
mod noted;
mod operation;
pub mod operation_page;
pub mod operations;
pub mod two_steps;
pub mod worker_action;
