//! Schedules that are due.

use std::time::{Duration, SystemTime};

use tiberius::ColumnData;

use crate::connection::{Columns, Session, int};
use crate::error::Error;
use crate::time::to_datetime2;

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
    /// The next time or, if that is not known yet, the time from which to search for it.
    pub(crate) next_at: SystemTime,
    /// Why the last try to fire the schedule failed.
    pub(crate) error: Option<String>,
    /// SQL Server's time.
    pub(crate) now: SystemTime,
}

/// The action for a schedule at one of its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Firing {
    /// The time to fire, or `None` to only advance the schedule.
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

impl Session {
    /// Returns up to `max` schedules that are due to be checked.
    pub(crate) async fn due_schedules(&mut self, queue: &str, max: usize) -> Result<Vec<DueSchedule>, Error> {
        let mut command = self.command("due_schedules");
        command.bind_param("@queue", queue);
        command.bind_param("@max", int(max));
        let read = |mut row: Columns| {
            Ok(DueSchedule {
                name: row.required("name")?,
                revision: row.required("revision")?,
                cron: row.required("cron")?,
                time_zone: row.required("time_zone")?,
                make_up: row.count("make_up")?,
                jitter: row.optional_count_ms("jitter_ms")?.unwrap_or_default(),
                next_at: row.required_time("next_at")?,
                error: row.optional("error")?,
                now: row.required_time("now")?,
            })
        };
        self.rows("due_schedules", command).await?.into_iter().map(read).collect()
    }

    /// Fires one time of a schedule, or only advances the schedule. Does nothing if the schedule's revision has
    /// changed, or if SQL Server's clock was set back since the schedule was read.
    pub(crate) async fn fire_schedule(
        &mut self,
        queue: &str,
        due: &DueSchedule,
        firing: &Firing,
    ) -> Result<Fired, Error> {
        let mut command = self.command("fire_schedule");
        command.bind_param("@queue", queue);
        command.bind_param("@name", due.name.as_str());
        command.bind_param("@revision", due.revision);
        command.bind_param("@fire_at", ColumnData::DateTime2(firing.at.and_then(to_datetime2)));
        command.bind_param("@due_at", ColumnData::DateTime2(firing.due_at.and_then(to_datetime2)));
        command.bind_param("@next_at", ColumnData::DateTime2(to_datetime2(firing.next_at)));
        command.bind_param("@looked_at", ColumnData::DateTime2(to_datetime2(due.now)));
        let mut row = self.row("fire_schedule", command).await?;
        let revision = row.optional("revision")?;
        row.optional::<i64>("job_id")?;
        Ok(Fired { revision, added: row.optional("duplicate")? == Some(false) })
    }

    /// Records why a schedule could not be fired, if its revision has not changed.
    pub(crate) async fn fail_schedule(&mut self, queue: &str, due: &DueSchedule, error: &str) -> Result<(), Error> {
        let mut command = self.command("fail_schedule");
        command.bind_param("@queue", queue);
        command.bind_param("@name", due.name.as_str());
        command.bind_param("@revision", due.revision);
        command.bind_param("@error", error);
        self.run("fail_schedule", command).await?;
        Ok(())
    }
}
