//! Counts the jobs that match a search, page by page, within a time limit.

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

/// Jobs counted per call.
const PAGE: usize = 10_000;

/// Counting stops after this time.
const LONGEST: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Count {
    queue: Queue,
    search: JobSearch,
    /// The states not counted yet.
    states: Vec<JobState>,
    after: Option<JobCursor>,
    counted: u64,
    took: Duration,
}

/// The result so far.
#[derive(Template)]
#[template(path = "count_live.html")]
pub struct Live {
    /// The count as text.
    count: String,
    is_at_least: bool,
    pub is_none: bool,
    pub is_one: bool,
    goes_on: bool,
}

impl Count {
    /// The count for a request with a search and an action.
    pub async fn of(app: &App, fields: &Fields) -> Result<Count, Failure> {
        let (search, action) = (JobSearch::read(fields)?, JobAction::named(fields)?);
        Ok(Count::new(app.queue(&search.queue).await?, search, &action))
    }

    /// Counts the jobs that match and to which the action applies.
    pub fn new(queue: Queue, search: JobSearch, action: &JobAction) -> Count {
        let mut states = action.states(search.state);
        states.reverse();
        Count { queue, search, states, after: None, counted: 0, took: Duration::ZERO }
    }

    pub fn goes_on(&self) -> bool {
        !self.states.is_empty() && self.took < LONGEST
    }

    /// Continues for this long, with at least one call.
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
    /// What has to be typed to confirm the action: the number if it is more than `many`, or "all" while it is unknown.
    pub fn typed(&self, many: u64) -> Option<String> {
        if self.goes_on || self.is_at_least {
            return Some("all".to_owned());
        }
        let digits: String = self.count.chars().filter(char::is_ascii_digit).collect();
        let count: u64 = digits.parse().unwrap_or(u64::MAX);
        (count > many).then_some(digits)
    }

    /// For ticked jobs.
    pub fn ticked(count: usize) -> Live {
        let (is_none, is_one) = (count == 0, count == 1);
        Live { count: number(count as u64), is_at_least: false, is_none, is_one, goes_on: false }
    }

    /// For all jobs of these states, from the counts that all pages share.
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
