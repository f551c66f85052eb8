//! Schedules.

use super::admin::Admin;
use std::slice;
use std::time::Instant;

use crate::error::Error;
use crate::id::Enqueued;
use crate::job::Schedule;
use crate::procedures::operator::ScheduleRow;

impl Admin<'_> {
    /// Creates a schedule, or replaces the one of this name except for its pause. Returns whether it is new.
    ///
    /// The queue's elected worker enqueues the jobs, once per due time, normally within `promote_interval_ms`. While no
    /// worker runs, nothing is enqueued ([`Schedule::make_up`]). If the expression and the time zone are unchanged, the
    /// next time stays the same, so a program may set its schedules each time it starts.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::NewJob;
    /// use readpast::admin::Schedule;
    ///
    /// let job = NewJob::text("all branches").kind("report");
    /// queue.admin().set_schedule(&Schedule::new("nightly-report", "30 2 * * MON-FRI", job).time_zone("Europe/Berlin")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Error::InvalidSchedule`] before anything is sent, if the expression, the time zone or another field is not
    ///   valid; without the feature `schedules`, always
    /// - [`Error::UnknownQueue`]
    /// - [`Error::PermissionDenied`] without an operator's permissions
    pub async fn set_schedule(self, schedule: &Schedule) -> Result<bool, Error> {
        self.session().await?.set_schedule(self.queue.name(), schedule).await
    }

    /// Returns the queue's schedules, by name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn schedules(self) -> Result<Vec<ScheduleRow>, Error> {
        self.session().await?.list_schedules(self.queue.name()).await
    }

    /// Deletes a schedule; jobs that it has enqueued stay. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's permissions.
    pub async fn delete_schedule(self, name: &str) -> Result<bool, Error> {
        self.session().await?.delete_schedule(self.queue.name(), name).await
    }

    /// Pauses a schedule: it enqueues nothing until it is resumed. Jobs it has already enqueued are kept.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the schedule does not exist; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without
    /// an operator's permissions.
    pub async fn pause_schedule(self, name: &str) -> Result<(), Error> {
        self.session().await?.set_schedule_paused(self.queue.name(), name, true).await
    }

    /// Resumes a paused schedule from its next time on; missed times are not made up for.
    ///
    /// # Errors
    ///
    /// Same as [`pause_schedule`](crate::admin::Admin::pause_schedule).
    pub async fn resume_schedule(self, name: &str) -> Result<(), Error> {
        self.session().await?.set_schedule_paused(self.queue.name(), name, false).await
    }

    /// Enqueues the job of a schedule now, even if the schedule is paused. The schedule's own times stay the same. If
    /// the schedule has a deduplication key and its last job is unfinished, the result is a `duplicate`.
    ///
    /// # Errors
    ///
    /// Same as [`pause_schedule`](crate::admin::Admin::pause_schedule). After [`Error::TimedOut`] and
    /// [`Error::ConnectionLost`] the job may or may not be in the queue.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the job may or may not be in the queue.
    pub async fn run_schedule_now(self, name: &str) -> Result<Enqueued, Error> {
        let mut session = self.session().await?;
        let started_at = Instant::now();
        let enqueued = session.run_schedule_now(self.queue.name(), name).await?;
        self.queue.connector.metrics().enqueued(slice::from_ref(&enqueued), started_at.elapsed());
        self.queue.wake_workers();
        Ok(enqueued)
    }
}
