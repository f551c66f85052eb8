//! The options that select jobs by their state, kind, age and so on.

use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use readpast::BatchId;
use readpast::admin::{JobFilter, JobState};
use readpast::crates::uuid::Uuid;

use crate::texts::{duration, read_time};

/// Jobs that meet all conditions.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filter")]
pub struct FilterOptions {
    /// Only jobs in this state
    #[arg(long, value_name = "STATE")]
    pub state: Option<State>,
    /// Only jobs of this kind
    #[arg(long)]
    pub kind: Option<String>,
    /// Only jobs that finished longer ago than this; unfinished jobs: enqueued longer ago
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older_than: Option<Duration>,
    /// Only jobs that finished at this UTC time or later, such as 2026-11-23T10:20; unfinished jobs: enqueued
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    pub since: Option<SystemTime>,
    /// Only jobs that finished before this UTC time; unfinished jobs: enqueued
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    pub until: Option<SystemTime>,
    /// Only jobs with this deduplication key
    #[arg(long)]
    pub key: Option<String>,
    /// Only jobs of this group
    #[arg(long, value_name = "KEY")]
    pub group: Option<String>,
    /// Only jobs of this batch
    #[arg(long, value_name = "NUMBER")]
    pub batch: Option<i64>,
    /// Only jobs with this correlation id
    #[arg(long, value_name = "UUID")]
    pub correlation_id: Option<Uuid>,
    /// Only jobs with this text in their last error
    #[arg(long, value_name = "TEXT")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum State {
    Scheduled,
    Waiting,
    Ready,
    Claimed,
    Done,
    Dead,
    Cancelled,
    Archived,
}

impl From<State> for JobState {
    fn from(state: State) -> JobState {
        match state {
            State::Scheduled => JobState::Scheduled,
            State::Waiting => JobState::Waiting,
            State::Ready => JobState::Ready,
            State::Claimed => JobState::Claimed,
            State::Done => JobState::Done,
            State::Dead => JobState::Dead,
            State::Cancelled => JobState::Cancelled,
            State::Archived => JobState::Archived,
        }
    }
}

impl FilterOptions {
    pub fn is_empty(&self) -> bool {
        let FilterOptions { state, kind, older_than, since, until, key, group, batch, correlation_id, error } = self;
        state.is_none()
            && kind.is_none()
            && older_than.is_none()
            && since.is_none()
            && until.is_none()
            && key.is_none()
            && group.is_none()
            && batch.is_none()
            && correlation_id.is_none()
            && error.is_none()
    }

    /// The library's filter, with this state.
    pub fn in_state(&self, state: Option<JobState>) -> JobFilter {
        let mut filter = state.map_or_else(JobFilter::all, JobFilter::from);
        if let Some(kind) = &self.kind {
            filter = filter.kind(kind);
        }
        if let Some(age) = self.older_than {
            filter = filter.older_than(age);
        }
        if let Some(time) = self.since {
            filter = filter.since(time);
        }
        if let Some(time) = self.until {
            filter = filter.until(time);
        }
        if let Some(key) = &self.key {
            filter = filter.dedup_key(key);
        }
        if let Some(key) = &self.group {
            filter = filter.group_key(key);
        }
        if let Some(batch) = self.batch {
            filter = filter.batch(BatchId(batch));
        }
        if let Some(id) = self.correlation_id {
            filter = filter.correlation_id(id);
        }
        if let Some(error) = &self.error {
            filter = filter.error(error);
        }
        filter
    }
}
