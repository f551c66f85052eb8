//! Schedules.

use super::admin::Admin;
use std::slice;
use std::time::Instant;

use crate::error::Error;
use crate::id::Enqueued;
use crate::job::Schedule;
use crate::procedures::operator::ScheduleRow;

impl Admin<'_> {
    /// Sets a schedule: a new one, or all of an existing one of this name but its pause. Returns whether it is new.
    ///
    /// One worker of the queue at a time enqueues its jobs, each time once, normally within `promote_interval_ms`;
    /// while no worker runs, nothing is fired ([`Schedule::make_up`]). Where the expression and the time zone stay as
    /// they are, so does the next time: a program may set its schedules whenever it starts.
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
    /// [`Error::InvalidSchedule`] before anything is sent: what is wrong with the expression, the time zone or another
    /// part of it; without the feature `schedules`, which reads expressions, always. [`Error::UnknownQueue`];
    /// [`Error::PermissionDenied`] without an operator's rights.
    pub async fn set_schedule(self, schedule: &Schedule) -> Result<bool, Error> {
        self.queue.session().await?.set_schedule(self.queue.name(), schedule).await
    }

    /// The queue's schedules, by name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn schedules(self) -> Result<Vec<ScheduleRow>, Error> {
        self.queue.session().await?.list_schedules(self.queue.name()).await
    }

    /// Deletes a schedule; jobs that it has enqueued stay. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights.
    pub async fn delete_schedule(self, name: &str) -> Result<bool, Error> {
        self.queue.session().await?.delete_schedule(self.queue.name(), name).await
    }

    /// Stops a schedule: its times pass by until it is resumed. Jobs that it has enqueued stay.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] where there is no such schedule; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without
    /// an operator's rights.
    pub async fn pause_schedule(self, name: &str) -> Result<(), Error> {
        self.queue.session().await?.set_schedule_paused(self.queue.name(), name, true).await
    }

    /// Lets a paused schedule go on with its next time from now on; what has passed meanwhile is not made up for.
    ///
    /// # Errors
    ///
    /// As [`pause_schedule`](crate::admin::Admin::pause_schedule).
    pub async fn resume_schedule(self, name: &str) -> Result<(), Error> {
        self.queue.session().await?.set_schedule_paused(self.queue.name(), name, false).await
    }

    /// Enqueues the job of a schedule now, beside its times, which stay as they are; of a paused one, too. With a
    /// de-duplication key of its own it is a `duplicate` while the last one has not ended.
    ///
    /// # Errors
    ///
    /// As [`pause_schedule`](crate::admin::Admin::pause_schedule). After [`Error::TimedOut`] and
    /// [`Error::ConnectionLost`] the job may be in the queue or not.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the job may be in the queue or not.
    pub async fn run_schedule_now(self, name: &str) -> Result<Enqueued, Error> {
        let mut session = self.queue.session().await?;
        let started_at = Instant::now();
        let enqueued = session.run_schedule_now(self.queue.name(), name).await?;
        self.queue.connector.metrics().enqueued(slice::from_ref(&enqueued), started_at.elapsed());
        self.queue.wake_workers();
        Ok(enqueued)
    }
}
