//! Changing many jobs, those of a list or those that a filter matches: page by page, so that a program can show its
//! progress and stop in between.
//!
//! [`Admin::matching`] ─ a page of ids ─▶ [`Admin::change`] ─▶ the next page, until there is none

use super::admin::Admin;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::id::JobId;
use crate::job::JobState;
use crate::procedures::operator::{Cancelled, IDS, IdPage, JobChange, JobCursor, JobFilter, OPERATOR_BATCH};
use crate::queue::Queue;

/// The jobs of a filter that a change can be done to, page by page; made by [`Admin::matching`]. Holds no more than a
/// page.
#[derive(Debug, Clone)]
pub struct MatchingJobs {
    queue: Queue,
    change: JobChange,
    /// What is left: the state of which the next page is, and those after it.
    filters: VecDeque<(JobState, JobFilter)>,
    after: Option<JobCursor>,
    begin: Instant,
    /// How old jobs must have been at the beginning.
    age: Duration,
}

/// Some of the jobs that match.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatchingPage {
    /// The state that they are in.
    pub state: JobState,
    /// The jobs. There may be none although later pages have some.
    pub jobs: Vec<JobId>,
}

impl MatchingPage {
    /// Jobs that were named one by one: any number.
    pub fn new(state: JobState, jobs: Vec<JobId>) -> MatchingPage {
        MatchingPage { state, jobs }
    }
}

impl MatchingJobs {
    /// The next page, of up to 1,000 jobs; `None` after the last.
    ///
    /// # Errors
    ///
    /// As [`Admin::list`]. The page can be asked for again.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the next call returns the same page.
    pub async fn next(&mut self) -> Result<Option<MatchingPage>, Error> {
        let Some((state, filter)) = self.filters.front() else { return Ok(None) };
        let state = *state;
        let filter = filter.clone().older_than(self.age.saturating_add(self.begin.elapsed()));
        let (jobs, next) = match self.change {
            // Ready jobs are listed by priority, so one that gets a larger number may be met again.
            JobChange::SetPriority(priority) => {
                let page = self.queue.admin().list(&filter.cut_at(0), self.after.as_ref(), OPERATOR_BATCH).await?;
                let others = page.jobs.iter().filter(|job| job.priority != priority);
                (others.map(|job| job.job_id).collect(), page.next)
            }
            _ => {
                let page = self.queue.admin().list_ids(&filter, self.after.as_ref(), OPERATOR_BATCH).await?;
                (page.jobs, page.next)
            }
        };
        self.after = next;
        if self.after.is_none() {
            self.filters.pop_front();
        }
        Ok(Some(MatchingPage { state, jobs }))
    }
}

impl Admin<'_> {
    /// The jobs that `filter` asks for and that `change` can be done to; a filter without a state means all states of
    /// [`JobChange::states`]. Jobs that have ended, or were enqueued, since this call do not count, so that a loop over
    /// them comes to an end even where jobs die faster than it makes them ready.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::admin::{JobChange, JobFilter, JobState};
    ///
    /// let filter = JobFilter::from(JobState::Dead).kind("resize");
    /// let mut pages = queue.admin().matching(&filter, JobChange::Requeue)?;
    /// let mut requeued = 0;
    /// while let Some(page) = pages.next().await? {
    ///     requeued += queue.admin().change(&JobChange::Requeue, &page).await?;
    ///     println!("{requeued} requeued");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a filter with a state that the change does not fit.
    pub fn matching(self, filter: &JobFilter, change: JobChange) -> Result<MatchingJobs, Error> {
        let allowed = change.states();
        let states = match &filter.state {
            None => allowed.to_vec(),
            Some(state) if allowed.contains(state) => vec![*state],
            Some(state) => {
                let words: Vec<String> = allowed.iter().map(JobState::to_string).collect();
                let message = format!("the filter's state is {state}; it must be one of {}, or none", words.join(", "));
                return Err(Error::Refused { message });
            }
        };
        let in_state = |state| (state, JobFilter { state: Some(state), ..filter.clone() });
        Ok(MatchingJobs {
            queue: self.queue.clone(),
            change,
            filters: states.into_iter().map(in_state).collect(),
            after: None,
            begin: Instant::now(),
            age: filter.older_than.unwrap_or_default(),
        })
    }

    /// Changes the jobs of a page. Jobs whose state has changed meanwhile, and those that are locked at the moment, are
    /// passed over. Returns how many were changed.
    ///
    /// # Errors
    ///
    /// Those of the call that [`JobChange`] names.
    ///
    /// # Cancel safety
    ///
    /// That of the call.
    pub async fn change(self, change: &JobChange, page: &MatchingPage) -> Result<u64, Error> {
        match change {
            JobChange::Requeue => self.requeue_jobs(&page.jobs).await,
            JobChange::Cancel { why } => {
                self.cancel_jobs(&page.jobs, why).await.map(|cancelled| cancelled.waiting + cancelled.running)
            }
            JobChange::Purge => self.purge_jobs(page.state, &page.jobs).await,
            JobChange::SetPriority(priority) => self.set_priority_of(&page.jobs, *priority).await,
            JobChange::Promote => self.promote_jobs(&page.jobs).await,
        }
    }
}

impl Admin<'_> {
    /// As [`list`](crate::admin::Admin::list), but only the ids: for what is done to many jobs
    /// ([`cancel_jobs`](crate::admin::Admin::cancel_jobs), [`requeue_jobs`](crate::admin::Admin::requeue_jobs),
    /// [`purge_jobs`](crate::admin::Admin::purge_jobs), [`set_priority_of`](crate::admin::Admin::set_priority_of),
    /// [`promote_jobs`](crate::admin::Admin::promote_jobs)), page by page. A job that is requeued and dies again is on
    /// a later page once more, so that a loop over all of them may not end; with [`JobFilter::older_than`] it does not
    /// meet what has ended since it began:
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::admin::{JobFilter, JobState};
    ///
    /// let begin = std::time::Instant::now();
    /// let (mut after, mut requeued) = (None, 0);
    /// loop {
    ///     let filter = JobFilter::from(JobState::Dead).kind("resize").older_than(begin.elapsed());
    ///     let page = queue.admin().list_ids(&filter, after.as_ref(), 1_000).await?;
    ///     requeued += queue.admin().requeue_jobs(&page.jobs).await?;
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
    /// As [`list`](crate::admin::Admin::list).
    pub async fn list_ids(self, filter: &JobFilter, after: Option<&JobCursor>, max: usize) -> Result<IdPage, Error> {
        let (jobs, next) = self.page(&IDS, filter, after, max).await?;
        Ok(IdPage { jobs, next })
    }

    /// Cancels these jobs as [`cancel`](crate::admin::Admin::cancel) does with one: any number, up to 1,000 in a
    /// transaction. Jobs that have ended, or that the queue does not have, are passed over. Returns how many were
    /// cancelled.
    ///
    /// # Errors
    ///
    /// As [`cancel`](crate::admin::Admin::cancel). Jobs that were cancelled before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were cancelled before stay so.
    pub async fn cancel_jobs(self, jobs: &[JobId], why: &str) -> Result<Cancelled, Error> {
        let mut session = self.queue.session().await?;
        let mut total = Cancelled::default();
        for some in jobs.chunks(OPERATOR_BATCH) {
            total.add(self.cancel_some(&mut session, some, why).await?);
        }
        Ok(total)
    }

    /// Makes these dead and cancelled jobs ready again, as [`requeue`](crate::admin::Admin::requeue) does with one: any
    /// number, up to 1,000 in a call. Other jobs, and those that are locked at the moment, are passed over. Returns how
    /// many came back.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights. Jobs that were requeued
    /// before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were requeued before stay so.
    pub async fn requeue_jobs(self, jobs: &[JobId]) -> Result<u64, Error> {
        let mut session = self.queue.session().await?;
        let mut total = 0;
        for some in jobs.chunks(OPERATOR_BATCH) {
            total += u64::from(session.requeue_listed(self.queue.name(), some).await?);
        }
        Ok(total)
    }

    /// Deletes those of these jobs that are still in this state, as [`purge`](crate::admin::Admin::purge) does: any
    /// number, up to 1,000 in a transaction. Jobs whose state has changed meanwhile, and those that are locked at the
    /// moment, stay. Returns how many were deleted.
    ///
    /// # Errors
    ///
    /// As [`purge`](crate::admin::Admin::purge).
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were deleted before stay so.
    pub async fn purge_jobs(self, state: JobState, jobs: &[JobId]) -> Result<u64, Error> {
        let mut session = self.queue.session().await?;
        let mut total = 0;
        for some in jobs.chunks(OPERATOR_BATCH) {
            total += u64::from(session.purge_listed(self.queue.name(), state, some).await?);
        }
        Ok(total)
    }

    /// Makes these scheduled jobs ready before their time, as [`promote_now`](crate::admin::Admin::promote_now) does
    /// with one: any number, up to 1,000 in a transaction. Other jobs are passed over. Returns how many were scheduled.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights. Jobs that were made ready
    /// before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were made ready before stay so.
    pub async fn promote_jobs(self, jobs: &[JobId]) -> Result<u64, Error> {
        let mut session = self.queue.session().await?;
        let mut total = 0;
        for some in jobs.chunks(OPERATOR_BATCH) {
            total += self.promote_some(&mut session, some).await?;
        }
        Ok(total)
    }

    /// Gives these jobs another priority as [`set_priority`](crate::admin::Admin::set_priority) does: any number, up to
    /// 1,000 in a transaction. Jobs that have ended, or that the queue does not have, are passed over. Returns how many
    /// had another priority before.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights. Jobs that were changed before
    /// the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were changed before stay so.
    pub async fn set_priority_of(self, jobs: &[JobId], priority: i16) -> Result<u64, Error> {
        let mut session = self.queue.session().await?;
        let mut total = 0;
        for some in jobs.chunks(OPERATOR_BATCH) {
            total += u64::from(session.set_priority(self.queue.name(), some, priority).await?);
        }
        Ok(total)
    }
}
