//! How many jobs match a search: counted page by page, for as long as there is time.

use std::time::{Duration, Instant};

use askama::Template;
use readpast::admin::{JobCursor, JobState};
use readpast::{Error, Queue};

use super::job_action::JobAction;
use crate::app::App;
use crate::counts::MOST;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::job_search::JobSearch;
use crate::texts::number;

/// So many jobs are counted with a call.
const PAGE: usize = 10_000;

/// After so long no more are counted.
const LONGEST: Duration = Duration::from_secs(10);

/// Counts the jobs that match.
#[derive(Debug)]
pub struct Count {
    queue: Queue,
    search: JobSearch,
    /// The states that are left.
    states: Vec<JobState>,
    after: Option<JobCursor>,
    counted: u64,
    took: Duration,
}

/// What is known so far.
#[derive(Template)]
#[template(path = "count_live.html")]
pub struct Live {
    /// How many, in words.
    count: String,
    is_at_least: bool,
    pub is_none: bool,
    pub is_one: bool,
    goes_on: bool,
}

impl Count {
    /// Begins it for what an address asks for: a search and an action.
    pub async fn of(app: &App, fields: &Fields) -> Result<Count, Failure> {
        let (search, action) = (JobSearch::read(fields)?, JobAction::named(fields)?);
        Ok(Count::new(app.queue(&search.queue).await?, search, &action))
    }

    /// The jobs that match and that this can be done to.
    pub fn new(queue: Queue, search: JobSearch, action: &JobAction) -> Count {
        let mut states = action.states(search.state);
        states.reverse();
        Count { queue, search, states, after: None, counted: 0, took: Duration::ZERO }
    }

    /// Whether there is more to count.
    pub fn goes_on(&self) -> bool {
        !self.states.is_empty() && self.took < LONGEST
    }

    /// Goes on for as long, one call at least.
    pub async fn go_on(&mut self, time: Duration) -> Result<(), Error> {
        let begin = Instant::now();
        while let Some(state) = self.states.last()
            && begin.elapsed() < time
        {
            let filter = self.search.in_state(Some(*state)).filter();
            let page = self.queue.admin().list_ids(&filter, self.after.as_ref(), PAGE).await?;
            self.counted += page.jobs.len() as u64;
            self.after = page.next;
            if self.after.is_none() {
                self.states.pop();
            }
        }
        self.took += begin.elapsed();
        Ok(())
    }

    pub fn live(&self) -> Live {
        let is_at_least = !self.states.is_empty();
        let is_none = self.counted == 0 && !is_at_least;
        let is_one = self.counted == 1 && !is_at_least;
        Live { count: number(self.counted), is_at_least, is_none, is_one, goes_on: self.goes_on() }
    }
}

impl Live {
    /// Of jobs that were ticked.
    pub fn ticked(count: usize) -> Live {
        let (is_none, is_one) = (count == 0, count == 1);
        Live { count: number(count as u64), is_at_least: false, is_none, is_one, goes_on: false }
    }

    /// Of whole states: as they are counted for all pages.
    pub async fn of_states(app: &App, queue: &Queue, states: &[JobState]) -> Result<Live, Error> {
        let mut stats = queue.admin().stats(Some(MOST)).await?;
        let known = app.readings.complete(&mut stats);
        let sum = states.iter().map(|state| stats.jobs(*state)).sum();
        let count = match states {
            [state] => known.text(&stats, *state),
            _ => number(sum),
        };
        Ok(Live { count, is_at_least: false, is_none: sum == 0, is_one: sum == 1, goes_on: false })
    }
}
