//! Schedules that are due.

use std::time::{Duration, SystemTime};

/// A schedule that a worker has to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DueSchedule {
    pub(crate) name: String,
    /// Which version of the schedule this is: only that one is fired.
    pub(crate) revision: i32,
    pub(crate) cron: String,
    pub(crate) time_zone: String,
    pub(crate) make_up: u32,
    pub(crate) jitter: Duration,
    /// The next time, or since when times count.
    pub(crate) next_at: SystemTime,
    /// Why it could not be fired the last time.
    pub(crate) error: Option<String>,
    /// What SQL Server's clock said.
    pub(crate) now: SystemTime,
}

/// What becomes of a schedule at one of its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Firing {
    /// The time that is fired; `None`: the schedule only moves on.
    pub(crate) at: Option<SystemTime>,
    /// When its job may start.
    pub(crate) due_at: Option<SystemTime>,
    /// The time after it.
    pub(crate) next_at: SystemTime,
}

/// What SQL Server did with a [`Firing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fired {
    /// The schedule's version from now on; `None`: nothing was done, because somebody else had changed or locked it.
    pub(crate) revision: Option<i32>,
    /// A job was added.
    pub(crate) added: bool,
}
