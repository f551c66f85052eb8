//! What is done to queues, jobs, schedules and batches.
//!
//! a button ─▶ [`confirm`] (how many, by [`count`], for many) ─▶ [`act`]: at once, or as an [`operation`] page by page, with progress and a
//! stop on [`operation_page`] ─▶ the library; who did what to how many goes into the log and the table `audit`

pub mod act;
pub mod confirm;
pub mod count;
pub mod job_action;
mod noted;
mod operation;
pub mod operation_page;
pub mod operations;
