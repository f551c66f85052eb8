//! What operators do to many jobs: page by page, so that a program can show how far it is, and stop in between.
//!
//! [`Queue::matching`] ─ a page of ids ─▶ [`Queue::change`] ─▶ the next page, until there is none

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::job_filter::JobFilter;
use super::job_page::JobCursor;
use super::job_state::JobState;
use super::{OPERATOR_BATCH, Queue};
use crate::error::Error;
use crate::ids::JobId;

/// What can be done to many jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobChange {
    /// As [`Queue::requeue_jobs`].
    Requeue,
    /// As [`Queue::cancel_jobs`].
    Cancel {
        /// Why, for whoever looks at the jobs.
        why: String,
    },
    /// As [`Queue::purge_jobs`].
    Purge,
    /// As [`Queue::set_priority_of`].
    SetPriority(i16),
    /// As [`Queue::promote_jobs`].
    Promote,
}

impl JobChange {
    /// The states of jobs that it can be done to, in the order in which it is done.
    pub fn states(&self) -> &'static [JobState] {
        use JobState::{Archived, Cancelled, Dead, Done, Ready, Scheduled, Waiting};
        match self {
            JobChange::Requeue => &[Dead, Cancelled],
            JobChange::Cancel { .. } | JobChange::SetPriority(_) => JobState::UNFINISHED,
            JobChange::Purge => &[Scheduled, Waiting, Ready, Done, Dead, Cancelled, Archived],
            JobChange::Promote => &[Scheduled],
        }
    }

    /// Its word: `requeue`, `cancel`, `purge`, `set_priority` or `promote`.
    pub fn word(&self) -> &'static str {
        match self {
            JobChange::Requeue => "requeue",
            JobChange::Cancel { .. } => "cancel",
            JobChange::Purge => "purge",
            JobChange::SetPriority(_) => "set_priority",
            JobChange::Promote => "promote",
        }
    }
}

/// The jobs of a filter that a change can be done to, page by page; made by [`Queue::matching`]. Holds no more than a
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
    /// As [`Queue::list`]. The page can be asked for again.
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
                let page = self.queue.list(&filter.cut_at(0), self.after.as_ref(), OPERATOR_BATCH).await?;
                let others = page.jobs.iter().filter(|job| job.priority != priority);
                (others.map(|job| job.job_id).collect(), page.next)
            }
            _ => {
                let page = self.queue.list_ids(&filter, self.after.as_ref(), OPERATOR_BATCH).await?;
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

impl Queue {
    /// The jobs that `filter` asks for and that `change` can be done to; a filter without a state means all states of
    /// [`JobChange::states`]. Jobs that have ended, or were enqueued, since this call do not count, so that a loop over
    /// them comes to an end even where jobs die faster than it makes them ready.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::{JobChange, JobFilter, JobState};
    ///
    /// let filter = JobFilter::from(JobState::Dead).kind("resize");
    /// let mut pages = queue.matching(&filter, JobChange::Requeue)?;
    /// let mut requeued = 0;
    /// while let Some(page) = pages.next().await? {
    ///     requeued += queue.change(&JobChange::Requeue, &page).await?;
    ///     println!("{requeued} requeued");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a filter with a state that the change does not fit.
    pub fn matching(&self, filter: &JobFilter, change: JobChange) -> Result<MatchingJobs, Error> {
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
            queue: self.clone(),
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
    pub async fn change(&self, change: &JobChange, page: &MatchingPage) -> Result<u64, Error> {
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
