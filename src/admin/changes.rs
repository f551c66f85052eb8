//! Changing jobs: one, several, or all that match a filter.

use super::admin::Admin;
use super::matching_jobs::MatchingPage;

use crate::connection::Session;
use crate::error::Error;
use crate::id::{BatchId, Enqueued, JobId};
use crate::job::JobState;
use crate::procedures::operator::{CancelAnswer, Changed, JobChange, JobFilter, OPERATOR_BATCH};

/// The jobs that [`Admin::change`] changes. Each variant has a `From`: the call takes an id, a list of ids, a page, a
/// filter, or a state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// One job. If it is locked, the call waits for it, but [`JobChange::Purge`] skips it.
    Job(JobId),
    /// Any number of jobs.
    Jobs(Vec<JobId>),
    /// The jobs of a page of [`Admin::matching`]. [`JobChange::Purge`] deletes only those still in the page's state.
    Page(MatchingPage),
    /// All jobs that match. A filter without a state means all states that the change applies to
    /// ([`JobChange::states`]).
    Matching(JobFilter),
}

impl From<JobId> for Target {
    fn from(job_id: JobId) -> Target {
        Target::Job(job_id)
    }
}

impl From<Vec<JobId>> for Target {
    fn from(jobs: Vec<JobId>) -> Target {
        Target::Jobs(jobs)
    }
}

impl From<&[JobId]> for Target {
    fn from(jobs: &[JobId]) -> Target {
        Target::Jobs(jobs.to_vec())
    }
}

impl From<&Vec<JobId>> for Target {
    fn from(jobs: &Vec<JobId>) -> Target {
        Target::Jobs(jobs.clone())
    }
}

impl From<MatchingPage> for Target {
    fn from(page: MatchingPage) -> Target {
        Target::Page(page)
    }
}

impl From<JobFilter> for Target {
    fn from(filter: JobFilter) -> Target {
        Target::Matching(filter)
    }
}

impl From<JobState> for Target {
    fn from(state: JobState) -> Target {
        Target::Matching(state.into())
    }
}

impl Admin<'_> {
    /// Changes jobs, up to 1,000 per transaction, and returns how many. Jobs that the change no longer applies to, or
    /// that the queue does not have, are skipped.
    ///
    /// [`JobChange::Requeue`] and [`JobChange::Purge`] also skip locked jobs; the other changes wait for them. A filter
    /// is evaluated page by page ([`matching`](crate::admin::Admin::matching)). Jobs that are enqueued or finish after
    /// the call began are not included, so the call ends even if jobs die faster than it requeues them.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, job_id: readpast::JobId) -> Result<(), readpast::Error> {
    /// use std::time::Duration;
    ///
    /// use readpast::admin::{JobChange, JobFilter, JobState};
    ///
    /// let cancelled = queue.admin().change(&JobChange::cancel("the customer has left"), job_id).await?;
    /// if cancelled.requested > 0 {
    ///     println!("it runs; its worker is told");
    /// }
    /// queue.admin().change(&JobChange::Requeue, JobState::Dead).await?; // all dead jobs
    /// queue.admin().change(&JobChange::SetPriority(-10), JobFilter::all().kind("invoice")).await?;
    ///
    /// let a_week = Duration::from_secs(7 * 86_400);
    /// queue.admin().change(&JobChange::Purge, JobFilter::from(JobState::Done).older_than(a_week)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the filter has a state that the change does not apply to or a condition that its states do
    /// not have, or if the reason of a cancellation is too long; [`Error::UnknownQueue`]; [`Error::PermissionDenied`]
    /// without an operator's permissions. Jobs that were changed before the error stay changed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the jobs that were already changed stay changed.
    pub async fn change(self, change: &JobChange, target: impl Into<Target>) -> Result<Changed, Error> {
        let mut total = Changed::default();
        match target.into() {
            Target::Job(job_id) if *change == JobChange::Requeue => {
                let requeued = self.session().await?.requeue(self.queue.name(), job_id).await?;
                total.add(self.made_ready(requeued));
            }
            Target::Job(job_id) => total.add(self.change_listed(change, None, &[job_id]).await?),
            Target::Jobs(jobs) => total.add(self.change_listed(change, None, &jobs).await?),
            Target::Page(page) => total.add(self.change_listed(change, Some(page.state), &page.jobs).await?),
            Target::Matching(filter) => {
                let mut pages = self.matching(&filter, change.clone())?;
                let mut asked = false;
                while let Some(page) = pages.next().await? {
                    // The first page is sent even if it is empty, so that a login without the permission is always
                    // refused.
                    if !asked || !page.jobs.is_empty() {
                        let mut session = self.session().await?;
                        total.add(self.change_some(&mut session, change, Some(page.state), &page.jobs).await?);
                        asked = true;
                    }
                }
            }
        }
        Ok(total)
    }

    async fn change_listed(
        self,
        change: &JobChange,
        state: Option<JobState>,
        jobs: &[JobId],
    ) -> Result<Changed, Error> {
        let mut session = self.session().await?;
        let mut total = Changed::default();
        for some in jobs.chunks(OPERATOR_BATCH) {
            total.add(self.change_some(&mut session, change, state, some).await?);
        }
        Ok(total)
    }

    /// Changes up to 1,000 jobs. `state` is the state in which they were found, if known.
    async fn change_some(
        self,
        session: &mut Session,
        change: &JobChange,
        state: Option<JobState>,
        jobs: &[JobId],
    ) -> Result<Changed, Error> {
        let queue = self.queue.name();
        match (change, state) {
            (JobChange::Requeue, _) => Ok(self.made_ready(session.requeue_listed(queue, jobs).await?)),
            (JobChange::Cancel { why }, _) => Ok(self.tell_workers(session.cancel(queue, jobs, why).await?)),
            (JobChange::SetPriority(priority), _) => Ok(session.set_priority(queue, jobs, *priority).await?.into()),
            (JobChange::Promote, _) => Ok(self.made_ready(session.promote_now(queue, jobs).await?)),
            (JobChange::RunAgain, _) => {
                let added = session.run_jobs_again(queue, jobs).await?.iter().filter(|added| !added.duplicate).count();
                Ok(self.made_ready(added as u32))
            }
            (JobChange::Skip, _) => Ok(self.made_ready(session.skip(queue, jobs).await?)),
            (JobChange::Purge, Some(state)) => Ok(session.purge_listed(queue, state, jobs).await?.into()),
            (JobChange::Purge, None) => {
                let mut total = Changed::default();
                for state in change.states() {
                    total.add(session.purge_listed(queue, *state, jobs).await?.into());
                    if total.changed == jobs.len() as u64 {
                        break;
                    }
                }
                Ok(total)
            }
        }
    }

    /// Requeues one dead or cancelled job as [`JobChange::Requeue`] does, with a new payload: bytes, or text as UTF-8.
    /// Returns whether the job was requeued; if not, its payload is unchanged.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, job_id: readpast::JobId) -> Result<(), readpast::Error> {
    /// if !queue.admin().requeue_with(job_id, r#"{"width": 640}"#).await? {
    ///     println!("it is no longer dead");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's permissions.
    pub async fn requeue_with(self, job_id: JobId, payload: impl AsRef<[u8]>) -> Result<bool, Error> {
        let requeued = self.session().await?.requeue_with(self.queue.name(), job_id, payload.as_ref()).await?;
        if requeued {
            self.queue.wake_workers();
        }
        Ok(requeued)
    }

    /// Runs a done job again, as [`JobChange::RunAgain`] does. Returns the new job, or the unfinished one that has its
    /// deduplication key; `None` if the queue has no such done job.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, job_id: readpast::JobId) -> Result<(), readpast::Error> {
    /// if let Some(again) = queue.admin().run_again(job_id).await? {
    ///     println!("job {job_id} runs again as job {}", again.job_id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's permissions.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the job may have been enqueued.
    pub async fn run_again(self, job_id: JobId) -> Result<Option<Enqueued>, Error> {
        let again = self.session().await?.run_jobs_again(self.queue.name(), &[job_id]).await?.pop();
        self.queue.wake_workers();
        Ok(again)
    }

    /// Cancels a batch: seals it, and cancels its unfinished jobs in all queues as [`JobChange::Cancel`] does. The same
    /// is done to its child batches. Returns how many jobs were cancelled.
    ///
    /// The follow-up is still enqueued once the running jobs have finished;
    /// [`Job::batch_end`](crate::job::Job::batch_end) contains the number of cancelled jobs.
    ///
    /// # Errors
    ///
    /// [`Error::BatchNotOpen`] if the batch does not exist; [`Error::Refused`] if `why` has more than 1,000 UTF-16
    /// units; [`Error::PermissionDenied`] without an operator's permissions. Jobs that were cancelled before the error
    /// stay cancelled.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the jobs that were already cancelled stay cancelled.
    pub async fn cancel_batch(self, batch: BatchId, why: &str) -> Result<Changed, Error> {
        let mut session = self.session().await?;
        let mut total = Changed::default();
        loop {
            let cancelled = self.tell_workers(session.cancel_batch(batch, why).await?);
            if cancelled == Changed::default() {
                return Ok(total);
            }
            total.add(cancelled);
        }
    }

    /// Wakes idle workers of this process if there are jobs for them.
    fn made_ready(self, jobs: u32) -> Changed {
        if jobs > 0 {
            self.queue.wake_workers();
        }
        jobs.into()
    }

    /// Tells the workers of this process which of their running jobs were cancelled.
    fn tell_workers(self, answer: CancelAnswer) -> Changed {
        if !answer.running.is_empty() {
            let _ = self.queue.cancelled.send(answer.running.into()); // an error: no worker of the queue is in this process
        }
        answer.cancelled
    }
}
