//! Schedules that are due.

use std::time::{Duration, SystemTime};

/// A schedule that a worker must check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DueSchedule {
    pub(crate) name: String,
    /// The version of the schedule. Only this version is fired.
    pub(crate) revision: i32,
    pub(crate) cron: String,
    pub(crate) time_zone: String,
    pub(crate) make_up: u32,
    pub(crate) jitter: Duration,
    /// The next time or, if it is not known yet, from when on times count.
    pub(crate) next_at: SystemTime,
    /// Why it could not be fired the last time.
    pub(crate) error: Option<String>,
    /// SQL Server's time.
    pub(crate) now: SystemTime,
}

/// What to do with a schedule at one of its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Firing {
    /// The time to fire, or `None` to only move the schedule on.
    pub(crate) at: Option<SystemTime>,
    /// When its job may start.
    pub(crate) due_at: Option<SystemTime>,
    /// The next time.
    pub(crate) next_at: SystemTime,
}

/// The result of a [`Firing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fired {
    /// The schedule's new version, or `None` if nothing was done because another session had changed or locked the
    /// schedule.
    pub(crate) revision: Option<i32>,
    /// Whether a job was added.
    pub(crate) added: bool,
}
