//! What operators do to jobs that they name: some page of ids after another, so that a program can show how far it is,
//! and stop in between.

use super::cancel::Cancelled;
use super::job_filter::JobFilter;
use super::job_page::{IdPage, JobCursor};
use super::job_state::JobState;
use super::peek::IDS;
use super::{OPERATOR_BATCH, Queue};
use crate::error::Error;
use crate::ids::JobId;

impl Queue {
    /// As [`list`](Queue::list), but only the ids: for what is done to many jobs
    /// ([`cancel_jobs`](Queue::cancel_jobs), [`requeue_jobs`](Queue::requeue_jobs), [`purge_jobs`](Queue::purge_jobs),
    /// [`set_priority_of`](Queue::set_priority_of), [`promote_jobs`](Queue::promote_jobs)), page by page. A job that is
    /// requeued and dies again is on a later page once more, so that a loop over all of them may not end; with
    /// [`JobFilter::older_than`] it does not meet what has ended since it began:
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::{JobFilter, JobState};
    ///
    /// let begin = std::time::Instant::now();
    /// let (mut after, mut requeued) = (None, 0);
    /// loop {
    ///     let filter = JobFilter::from(JobState::Dead).kind("resize").older_than(begin.elapsed());
    ///     let page = queue.list_ids(&filter, after.as_ref(), 1_000).await?;
    ///     requeued += queue.requeue_jobs(&page.jobs).await?;
    ///     println!("{requeued} requeued");
    ///     let Some(next) = page.next else { break };
    ///     after = Some(next);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`list`](Queue::list).
    pub async fn list_ids(&self, filter: &JobFilter, after: Option<&JobCursor>, max: usize) -> Result<IdPage, Error> {
        let (jobs, next) = self.page(&IDS, filter, after, max).await?;
        Ok(IdPage { jobs, next })
    }

    /// Cancels these jobs as [`cancel`](Queue::cancel) does with one: any number, up to 1,000 in a transaction. Jobs
    /// that have ended, or that the queue does not have, are passed over. Returns how many were cancelled.
    ///
    /// # Errors
    ///
    /// As [`cancel`](Queue::cancel). Jobs that were cancelled before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were cancelled before stay so.
    pub async fn cancel_jobs(&self, jobs: &[JobId], why: &str) -> Result<Cancelled, Error> {
        let mut session = self.session().await?;
        let mut total = Cancelled::default();
        for some in jobs.chunks(OPERATOR_BATCH) {
            total.add(self.cancel_some(&mut session, some, why).await?);
        }
        Ok(total)
    }

    /// Makes these dead and cancelled jobs ready again, as [`requeue`](Queue::requeue) does with one: any number, up to
    /// 1,000 in a call. Other jobs, and those that are locked at the moment, are passed over. Returns how many came
    /// back.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights. Jobs that were requeued
    /// before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were requeued before stay so.
    pub async fn requeue_jobs(&self, jobs: &[JobId]) -> Result<u64, Error> {
        let mut session = self.session().await?;
        let mut total = 0;
        for some in jobs.chunks(OPERATOR_BATCH) {
            total += u64::from(session.requeue_listed(&self.name, some).await?);
        }
        Ok(total)
    }

    /// Deletes those of these jobs that are still in this state, as [`purge`](Queue::purge) does: any number, up to
    /// 1,000 in a transaction. Jobs whose state has changed meanwhile, and those that are locked at the moment, stay.
    /// Returns how many were deleted.
    ///
    /// # Errors
    ///
    /// As [`purge`](Queue::purge).
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were deleted before stay so.
    pub async fn purge_jobs(&self, state: JobState, jobs: &[JobId]) -> Result<u64, Error> {
        let mut session = self.session().await?;
        let mut total = 0;
        for some in jobs.chunks(OPERATOR_BATCH) {
            total += u64::from(session.purge_listed(&self.name, state, some).await?);
        }
        Ok(total)
    }

    /// Makes these scheduled jobs ready before their time, as [`promote_now`](Queue::promote_now) does with one: any
    /// number, up to 1,000 in a transaction. Other jobs are passed over. Returns how many were scheduled.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights. Jobs that were made ready
    /// before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were made ready before stay so.
    pub async fn promote_jobs(&self, jobs: &[JobId]) -> Result<u64, Error> {
        let mut session = self.session().await?;
        let mut total = 0;
        for some in jobs.chunks(OPERATOR_BATCH) {
            total += self.promote_some(&mut session, some).await?;
        }
        Ok(total)
    }

    /// Gives these jobs another priority as [`set_priority`](Queue::set_priority) does: any number, up to 1,000 in a
    /// transaction. Jobs that have ended, or that the queue does not have, are passed over. Returns how many had
    /// another priority before.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights. Jobs that were changed before
    /// the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were changed before stay so.
    pub async fn set_priority_of(&self, jobs: &[JobId], priority: i16) -> Result<u64, Error> {
        let mut session = self.session().await?;
        let mut total = 0;
        for some in jobs.chunks(OPERATOR_BATCH) {
            total += u64::from(session.set_priority(&self.name, some, priority).await?);
        }
        Ok(total)
    }
}
