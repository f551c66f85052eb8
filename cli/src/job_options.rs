//! The options that set the attributes of new jobs.

use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use readpast::crates::uuid::Uuid;
use readpast::{BatchId, JobId, Needs, NewJob};
use serde::Deserialize;

use crate::texts::{bytes, duration};

/// The options of new jobs.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Job options")]
pub struct JobOptions {
    /// Kind of the job: chooses the handler
    #[arg(long)]
    pub kind: Option<String>,
    /// Priority, -32768 to 32767; smaller runs first [default: 0]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub priority: Option<i16>,
    /// Delay before the job is due
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "at")]
    pub delay: Option<Duration>,
    /// Time at which the job is due, such as 2027-01-31T04:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub at: Option<SystemTime>,
    /// Cancel the job if it has not started this long after it was due
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "start_by")]
    pub start_within: Option<Duration>,
    /// Cancel the job if it has not started by this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub start_by: Option<SystemTime>,
    /// Group key; jobs of one group run one at a time, in order
    #[arg(long, value_name = "KEY")]
    pub group: Option<String>,
    /// Batch of the job (see `readpast batch create`)
    #[arg(long, value_name = "NUMBER")]
    pub batch: Option<i64>,
    /// Job to wait for: it starts when that one is done; can be repeated
    #[arg(long, value_name = "JOB")]
    pub after: Vec<i64>,
    /// What becomes of it if one that it waits for dies [default: hold]
    #[arg(long, value_name = "WHAT")]
    pub on_dead: Option<OnDead>,
    /// Your own id, to find the job by
    #[arg(long, value_name = "UUID")]
    pub correlation_id: Option<Uuid>,
    /// Header; can be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    pub headers: Vec<(String, String)>,
    /// Attempts after which the job becomes dead [default: as for the queue]
    #[arg(long, value_name = "NUMBER")]
    pub max_attempts: Option<u32>,
    /// Maximum run time [default: as for the worker]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub time_limit: Option<Duration>,
    /// Memory that the job needs, such as 3GiB [default: as for its kind]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<usize>,
    /// Threads that the job needs [default: as for its kind]
    #[arg(long, value_name = "NUMBER")]
    pub threads: Option<u32>,
    /// Tokens that the job needs, such as gpu=1; can be repeated
    #[arg(long = "token", value_name = "NAME=NUMBER", value_parser = token)]
    pub tokens: Vec<(String, u32)>,
}

impl JobOptions {
    /// Applies the options to a job.
    pub fn apply(&self, mut job: NewJob) -> NewJob {
        if let Some(kind) = &self.kind {
            job = job.kind(kind);
        }
        if let Some(priority) = self.priority {
            job = job.priority(priority);
        }
        if let Some(delay) = self.delay {
            job = job.delay(delay);
        }
        if let Some(at) = self.at {
            job = job.due_at(at);
        }
        if let Some(time) = self.start_within {
            job = job.start_within(time);
        }
        if let Some(time) = self.start_by {
            job = job.start_by(time);
        }
        if let Some(group) = &self.group {
            job = job.group_key(group);
        }
        if let Some(batch) = self.batch {
            job = job.batch(BatchId(batch));
        }
        job = job.after(self.after.iter().copied().map(JobId));
        if let Some(on_dead) = self.on_dead {
            job = job.on_dead(on_dead.into());
        }
        if let Some(id) = self.correlation_id {
            job = job.correlation_id(id);
        }
        for (name, value) in &self.headers {
            job = job.header(name, value);
        }
        if let Some(max_attempts) = self.max_attempts {
            job = job.max_attempts(max_attempts);
        }
        if let Some(limit) = self.time_limit {
            job = job.time_limit(limit);
        }
        match self.needs() {
            Some(needs) => job.needs(needs),
            None => job,
        }
    }

    /// What the options say that the job needs.
    pub fn needs(&self) -> Option<Needs> {
        if self.memory.is_none() && self.threads.is_none() && self.tokens.is_empty() {
            return None;
        }
        let mut needs = Needs::new();
        if let Some(memory) = self.memory {
            needs = needs.memory(memory as u64);
        }
        if let Some(threads) = self.threads {
            needs = needs.threads(threads);
        }
        Some(self.tokens.iter().fold(needs, |needs, (name, tokens)| needs.token(name, *tokens)))
    }
}

/// What becomes of a job if one that it waits for dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDead {
    /// it waits until that one is requeued
    Hold,
    /// it is cancelled
    Cancel,
    /// it runs when all have ended, however they have ended
    Run,
}

impl From<OnDead> for readpast::OnDead {
    fn from(on_dead: OnDead) -> readpast::OnDead {
        match on_dead {
            OnDead::Hold => readpast::OnDead::Hold,
            OnDead::Cancel => readpast::OnDead::Cancel,
            OnDead::Run => readpast::OnDead::Run,
        }
    }
}

/// Reads a time with its offset.
pub fn time(text: &str) -> Result<SystemTime, String> {
    let timestamp: Timestamp =
        text.parse().map_err(|_| "it must be a time with its offset, such as 2027-01-31T04:00:00Z".to_owned())?;
    Ok(timestamp.into())
}

/// Reads tokens with their number, such as `gpu=1`.
pub fn token(text: &str) -> Result<(String, u32), String> {
    let (name, number) = text.split_once('=').ok_or("it must be NAME=NUMBER")?;
    if matches!(name, "memory" | "threads") {
        return Err("neither memory nor threads is a token; each has an option of its own".to_owned());
    }
    let number = number.parse().map_err(|_| format!("the number of {name} is '{number}'; it must be 1 to 1000000"))?;
    Ok((name.to_owned(), number))
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
