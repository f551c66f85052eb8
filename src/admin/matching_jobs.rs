//! The jobs that a filter matches, page by page. A program that changes them can show its progress, and can stop after
//! any page.
//!
//! [`Admin::matching`] ─ a page of ids ─▶ [`Admin::change`] ─▶ the next page, until there is none

use super::admin::Admin;
use std::collections::VecDeque;
use std::time::Duration;

use crate::error::Error;
use crate::id::JobId;
use crate::job::JobState;
use crate::procedures::operator::{JobChange, JobCursor, JobFilter, OPERATOR_BATCH};
use crate::queue::Queue;
use crate::time::BootClock;

/// The jobs that a filter matches and a change applies to, page by page. Created by [`Admin::matching`]. Holds at most
/// one page in memory.
#[derive(Debug, Clone)]
pub struct MatchingJobs {
    queue: Queue,
    change: JobChange,
    /// The states still to read, the current one first.
    filters: VecDeque<(JobState, JobFilter)>,
    after: Option<JobCursor>,
    /// The time of the start, by the clock that runs on while the machine is suspended.
    begin: Duration,
    /// How old the jobs must have been at `begin`.
    age: Duration,
}

/// A page of the jobs that match.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatchingPage {
    /// The state of the jobs.
    pub state: JobState,
    /// The jobs. An empty page may be followed by others.
    pub jobs: Vec<JobId>,
}

impl MatchingPage {
    /// Creates a page of any number of jobs.
    pub fn new(state: JobState, jobs: Vec<JobId>) -> MatchingPage {
        MatchingPage { state, jobs }
    }
}

impl MatchingJobs {
    /// Returns the next page, of up to 1,000 jobs, or `None` after the last.
    ///
    /// # Errors
    ///
    /// Same as [`Admin::list`]. The page can be requested again.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the next call returns the same page.
    pub async fn next(&mut self) -> Result<Option<MatchingPage>, Error> {
        let Some((state, filter)) = self.filters.front() else { return Ok(None) };
        let state = *state;
        let filter = filter.clone().older_than(self.age.saturating_add(BootClock::default().now() - self.begin));
        let (jobs, next) = match self.change {
            // Ready jobs are listed by priority, so a job that was moved to a later priority may be listed again.
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
    /// Returns the jobs that match `filter` and that `change` applies to. A filter without a state means all states of
    /// [`JobChange::states`]. Jobs that are enqueued or finish after this call are not included, so a loop ends even if
    /// jobs die faster than it requeues them.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::admin::{JobChange, JobFilter, JobState};
    ///
    /// let filter = JobFilter::from(JobState::Dead).kind("resize");
    /// let mut pages = queue.admin().matching(&filter, JobChange::Requeue)?;
    /// let mut requeued = 0;
    /// while let Some(page) = pages.next().await? {
    ///     requeued += queue.admin().change(&JobChange::Requeue, page).await?.changed;
    ///     println!("{requeued} requeued");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the filter has a state that the change does not apply to.
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
            begin: BootClock::default().now(),
            age: filter.older_than.unwrap_or_default(),
        })
    }
}
