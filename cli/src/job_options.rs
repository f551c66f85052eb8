//! How new jobs are to be, for all commands that make some.

use std::time::{Duration, SystemTime};

use clap::Args;
use jiff::Timestamp;
use readpast::{BatchId, NewJob, Uuid};

use crate::texts::duration;

/// How new jobs are to be.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "How the jobs are to be")]
pub struct JobOptions {
    /// What sort of job it is: chooses the handler
    #[arg(long)]
    pub kind: Option<String>,
    /// Smaller runs first
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub priority: Option<i16>,
    /// Run it so much later
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "at")]
    pub delay: Option<Duration>,
    /// Run it at this time, such as 2027-01-31T04:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub at: Option<SystemTime>,
    /// The group that it belongs to: jobs of one group run one after the other
    #[arg(long, value_name = "KEY")]
    pub group: Option<String>,
    /// The batch that it belongs to (`readpast batch create`)
    #[arg(long, value_name = "NUMBER")]
    pub batch: Option<i64>,
    /// An id of your own, to find it by
    #[arg(long, value_name = "UUID")]
    pub correlation_id: Option<Uuid>,
    /// A header; may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    pub headers: Vec<(String, String)>,
    /// After how many attempts it is dead, instead of the queue's number
    #[arg(long, value_name = "NUMBER")]
    pub max_attempts: Option<u32>,
    /// How long it may run, instead of the worker's limit
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub time_limit: Option<Duration>,
}

impl JobOptions {
    /// The job, with what is given.
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
        if let Some(group) = &self.group {
            job = job.group_key(group);
        }
        if let Some(batch) = self.batch {
            job = job.batch(BatchId(batch));
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
        job
    }
}

/// Reads a time with its zone or offset.
pub fn time(text: &str) -> Result<SystemTime, String> {
    let timestamp: Timestamp =
        text.parse().map_err(|_| "it must be a time with its offset, such as 2027-01-31T04:00:00Z".to_owned())?;
    Ok(timestamp.into())
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
