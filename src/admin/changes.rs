//! Changing jobs by one call.

use super::admin::Admin;
use std::time::{Duration, Instant};

use crate::connection::Session;
use crate::error::Error;
use crate::id::{BatchId, JobId};
use crate::job::JobState;
use crate::procedures::operator::{CancelAnswer, Cancelled, IDS, JobChange, JobFilter, OPERATOR_BATCH};

impl Admin<'_> {
    /// Cancels a batch: seals it and cancels its unfinished jobs as [`cancel`](crate::admin::Admin::cancel) does,
    /// whatever their queues, and those of the batches whose follow-ups belong to it. Returns how many.
    ///
    /// The follow-up is enqueued all the same, when the jobs that run have ended;
    /// [`Job::batch_end`](crate::job::Job::batch_end) says how many were cancelled. Of the jobs that run, the workers
    /// are told at once that were started with this `Queue` or a clone of it, others with their next heartbeats.
    ///
    /// # Errors
    ///
    /// [`Error::BatchNotOpen`] where there is no such batch; [`Error::Refused`] when `why` has more than 1,000
    /// characters (UTF-16); [`Error::PermissionDenied`] without an operator's rights. Jobs that were cancelled before
    /// the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were cancelled before stay so.
    pub async fn cancel_batch(self, batch: BatchId, why: &str) -> Result<Cancelled, Error> {
        let mut session = self.queue.session().await?;
        let mut total = Cancelled::default();
        loop {
            let cancelled = self.tell_workers(session.cancel_batch(batch, why).await?);
            if cancelled == Cancelled::default() {
                return Ok(total);
            }
            total.add(cancelled);
        }
    }

    /// Cancels a job. Returns what it was doing; nothing of both where the queue does not have it or it has ended.
    ///
    /// A job that waits is cancelled at once: it stays in the table as [`JobState::Cancelled`] like a dead one, with
    /// who (the login) and `why` in its [`error`](crate::admin::JobRow::error), until it is purged, expires
    /// ([`QueueOptions::keep_dead`](crate::admin::QueueOptions::keep_dead)) or is brought back by
    /// [`requeue`](crate::admin::Admin::requeue). Its de-duplication key is free.
    ///
    /// Of a job that runs, the worker is told: at once where it was started with this `Queue` or a clone of it,
    /// otherwise with its next heartbeat. [`Context::is_cancelled`](crate::handler::Context::is_cancelled) turns true.
    /// If the job is done all the same, it is done; whatever else becomes of the run, the job is cancelled. A job of a
    /// queue with [`Delivery::AtMostOnce`](crate::admin::Delivery::AtMostOnce) cannot be cancelled once it runs.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, job_id: readpast::JobId) -> Result<(), readpast::Error> {
    /// let cancelled = queue.admin().cancel(job_id, "the customer has left").await?;
    /// if cancelled.running > 0 {
    ///     println!("it runs; its worker is told");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when `why` has more than 1,000 characters (UTF-16); [`Error::UnknownQueue`];
    /// [`Error::PermissionDenied`] without an operator's rights.
    pub async fn cancel(self, job_id: JobId, why: &str) -> Result<Cancelled, Error> {
        let mut session = self.queue.session().await?;
        self.cancel_some(&mut session, &[job_id], why).await
    }

    /// Cancels all jobs that have not ended and match the filter, as [`cancel`](crate::admin::Admin::cancel) does with
    /// one. Where the filter names no state, these are scheduled, waiting, ready and running ones. Returns how many.
    ///
    /// It lists them page by page ([`matching`](crate::admin::Admin::matching)), and cancels each page: jobs that are
    /// enqueued meanwhile are not among them.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::admin::JobFilter;
    ///
    /// let cancelled = queue.admin().cancel_all(&JobFilter::all().kind("resize"), "the sizes were wrong").await?;
    /// println!("{} cancelled, {} told to stop", cancelled.waiting, cancelled.running);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`cancel`](crate::admin::Admin::cancel), and [`Error::Refused`] when the filter names a state of jobs that
    /// have ended, or asks for what its states do not have. Jobs that were cancelled before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were cancelled before stay so.
    pub async fn cancel_all(self, filter: &JobFilter, why: &str) -> Result<Cancelled, Error> {
        let mut total = Cancelled::default();
        let mut pages = self.matching(filter, JobChange::Cancel { why: why.to_owned() })?;
        while let Some(page) = pages.next().await? {
            total.add(self.cancel_jobs(&page.jobs, why).await?);
        }
        Ok(total)
    }

    pub(super) async fn cancel_some(
        self,
        session: &mut Session,
        jobs: &[JobId],
        why: &str,
    ) -> Result<Cancelled, Error> {
        let answer = session.cancel(self.queue.name(), jobs, why).await?;
        Ok(self.tell_workers(answer))
    }

    /// Tells the workers of this process which of the cancelled jobs run.
    fn tell_workers(self, answer: CancelAnswer) -> Cancelled {
        if !answer.running.is_empty() {
            let _ = self.queue.cancelled.send(answer.running.into()); // an error: this process has no worker of the queue
        }
        answer.cancelled
    }

    /// Makes one dead or cancelled job ready again, or, with `None`, all dead ones; their attempts count from 0.
    /// Returns how many.
    ///
    /// A job whose de-duplication key belongs to an unfinished job by now stays dead; of several dead jobs with one
    /// key, the newest comes back. With `None`, jobs that die after the call began stay dead, also those that it has
    /// made ready; jobs that are locked at the moment are passed over.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer. Jobs that were requeued before the error
    /// stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were requeued before stay so.
    pub async fn requeue(self, job_id: Option<JobId>) -> Result<u64, Error> {
        let begin = Instant::now();
        let mut session = self.queue.session().await?;
        if let Some(job_id) = job_id {
            return Ok(session.requeue(self.queue.name(), job_id).await?.into());
        }
        let (mut place, mut total) = (None, 0);
        loop {
            let filter = JobFilter::from(JobState::Dead).older_than(begin.elapsed());
            let (jobs, next) =
                session.peek(self.queue.name(), JobState::Dead, &filter, place.as_ref(), OPERATOR_BATCH, &IDS).await?;
            // Without any jobs, too: a login that may only look is refused, whether there are any or not.
            total += u64::from(session.requeue_listed(self.queue.name(), &jobs).await?);
            place = next;
            if place.is_none() {
                return Ok(total);
            }
        }
    }

    /// Makes one dead or cancelled job ready again as [`requeue`](crate::admin::Admin::requeue) does, with another
    /// payload: bytes, or text as UTF-8. Returns whether it was; if not, its payload is as it was.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, job_id: readpast::JobId) -> Result<(), readpast::Error> {
    /// if !queue.admin().requeue_with(job_id, r#"{"width": 640}"#).await? {
    ///     println!("it is not dead any more");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights.
    pub async fn requeue_with(self, job_id: JobId, payload: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.queue.session().await?.requeue_with(self.queue.name(), job_id, payload.as_ref()).await
    }

    /// Makes one scheduled job ready before its time: a delayed one, or one that waits for its next attempt. Workers
    /// that were started with this `Queue` or a clone of it claim it at once. Returns whether it was scheduled.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights.
    pub async fn promote_now(self, job_id: JobId) -> Result<bool, Error> {
        let mut session = self.queue.session().await?;
        Ok(self.promote_some(&mut session, &[job_id]).await? > 0)
    }

    pub(super) async fn promote_some(self, session: &mut Session, jobs: &[JobId]) -> Result<u64, Error> {
        let promoted = session.promote_now(self.queue.name(), jobs).await?;
        if promoted > 0 {
            self.queue.enqueued.send_replace(());
        }
        Ok(promoted.into())
    }

    /// Gives all jobs that have not ended and match the filter another priority; smaller runs first. Of a running job
    /// it counts when it comes back. Where the filter names no state, these are scheduled, ready and running jobs.
    /// Returns how many had another priority before. It lists the jobs as
    /// [`cancel_all`](crate::admin::Admin::cancel_all) does.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::admin::JobFilter;
    ///
    /// queue.admin().set_priority(&JobFilter::all().kind("invoice"), -10).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when the filter names a state of jobs that have ended, or asks for what its states do not
    /// have; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights. Jobs that were changed
    /// before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were changed before stay so.
    pub async fn set_priority(self, filter: &JobFilter, priority: i16) -> Result<u64, Error> {
        let mut total = 0;
        let mut pages = self.matching(filter, JobChange::SetPriority(priority))?;
        while let Some(page) = pages.next().await? {
            total += self.set_priority_of(&page.jobs, priority).await?;
        }
        Ok(total)
    }

    /// Deletes the jobs in one state that have been in it for `older_than` (whole seconds) and more: done, dead,
    /// cancelled and archived ones counted from their end, ready and scheduled ones from when they were enqueued.
    /// Returns how many. Jobs that are locked at the moment stay. For what is to be deleted regularly there are
    /// [`QueueOptions::keep_done`](crate::admin::QueueOptions::keep_done) and
    /// [`QueueOptions::keep_dead`](crate::admin::QueueOptions::keep_dead).
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use std::time::Duration;
    ///
    /// use readpast::admin::JobState;
    ///
    /// let a_week = Duration::from_secs(7 * 86_400);
    /// let deleted = queue.admin().purge(JobState::Dead, a_week).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for [`JobState::Claimed`]; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a
    /// producer. Jobs that were deleted before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were deleted before stay so.
    pub async fn purge(self, state: JobState, older_than: Duration) -> Result<u64, Error> {
        let mut session = self.queue.session().await?;
        let mut total = 0;
        loop {
            let purged = session.purge(self.queue.name(), state, older_than, OPERATOR_BATCH).await?;
            total += u64::from(purged);
            if (purged as usize) < OPERATOR_BATCH {
                return Ok(total);
            }
        }
    }
}
