//! A worker as operators see it.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::connection::{Columns, Session, int};
use crate::error::Error;
use crate::id::WorkerId;
use crate::job::{MEMORY, Needs, THREADS, bytes_in_words};
use crate::time::rfc3339;

/// How long after its stop a worker can be listed.
const DAY_S: u64 = 86_400;

/// A worker as an operator sees it. All times are SQL Server's.
///
/// The worker's activity is as of its last heartbeat; after it has stopped, `done` and `failed` are as of its stop. A
/// worker of an earlier release reports nothing. Serialized as JSON, times are in RFC 3339 format, and the remaining
/// lease is in seconds (`lease_left_s`).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WorkerRow {
    /// The worker's id, new at each start.
    pub worker_id: WorkerId,
    /// The queue from which the worker claims.
    pub queue: String,
    /// The worker's name, the same at each start.
    pub name: String,
    /// When the worker registered.
    pub registered_at: SystemTime,
    /// How long the lease lasts if it is not renewed, or zero if it has expired or the worker has stopped.
    pub lease_left: Duration,
    /// When the worker stopped or was marked lost.
    pub lost_at: Option<SystemTime>,
    /// When the worker last reported the fields from `running` on: with its last heartbeat, or when it stopped. `None`
    /// if it has not reported yet.
    pub reported_at: Option<SystemTime>,
    /// How many jobs the worker holds: claimed, and not finished yet.
    pub held: u64,
    /// When the oldest of these jobs was claimed.
    pub oldest_claimed_at: Option<SystemTime>,
    /// Running jobs.
    pub running: Option<u32>,
    /// Jobs done since the worker registered.
    pub done: Option<u64>,
    /// Failed attempts since the worker registered: the job was retried or is dead.
    pub failed: Option<u64>,
    /// Jobs done per second, between the last two heartbeats.
    pub done_per_s: Option<f64>,
    /// Failed attempts per second, between the last two heartbeats.
    pub failed_per_s: Option<f64>,
    /// The worker's bottleneck: `idle`, `claim`, `busy`, `finish`, `queue_limit`, `resources`, `memory` or `quiet`
    /// ([`Bottleneck`](crate::Bottleneck)).
    pub limited_by: Option<String>,
    /// What the worker has for jobs: threads, memory in bytes, tokens. `None`: the worker did not say.
    pub resources: Option<Needs>,
    /// What jobs use of it. `None`: no job needs more than its thread.
    pub in_use: Option<Needs>,
    /// What operators have asked of it.
    pub asked: Asked,
}

/// What operators have asked of a worker ([`WorkerWish`](super::WorkerWish)). Shown as `quiet, 4 threads, debug for 540 s`,
/// or as nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asked {
    /// To claim no more jobs.
    pub quiet: bool,
    /// To stop.
    pub stop: bool,
    /// How many jobs to run at once; `None`: as many as configured.
    pub threads: Option<u32>,
    /// For how much longer to write debug messages.
    pub debug_left: Duration,
    /// Whether a heartbeat has delivered this to the worker.
    pub is_delivered: bool,
}

impl Asked {
    /// Whether nothing is asked.
    pub fn is_nothing(&self) -> bool {
        !self.quiet && !self.stop && self.threads.is_none() && self.debug_left.is_zero()
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Asked { quiet, stop, threads, debug_left, is_delivered } = self;
        let threads =
            threads.map(|threads| if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") });
        let debug = (!debug_left.is_zero()).then(|| format!("debug for {} s", debug_left.as_secs()));
        let all = [quiet.then(|| "quiet".to_owned()), stop.then(|| "stop".to_owned()), threads, debug];
        let all: Vec<String> = all.into_iter().flatten().collect();
        let pending = if *is_delivered || all.is_empty() { "" } else { " (not delivered yet)" };
        write!(f, "{}{pending}", all.join(", "))
    }
}

impl Serialize for Asked {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut asked = serializer.serialize_struct("Asked", 5)?;
        asked.serialize_field("quiet", &self.quiet)?;
        asked.serialize_field("stop", &self.stop)?;
        asked.serialize_field("threads", &self.threads)?;
        asked.serialize_field("debug_left_s", &self.debug_left.as_secs_f64())?;
        asked.serialize_field("is_delivered", &self.is_delivered)?;
        asked.end()
    }
}

/// A resource of a worker, and how much of it jobs use. Shown as `4/8 threads` or `3 GiB/8 GiB memory`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceInUse<'a> {
    /// `threads`, `memory` or the name of a token.
    pub name: &'a str,
    /// Threads, bytes or tokens.
    pub used: u64,
    /// The worker's number of them.
    pub has: u64,
}

impl WorkerRow {
    /// Whether the worker has a lease.
    pub fn is_live(&self) -> bool {
        self.lost_at.is_none() && !self.lease_left.is_zero()
    }

    /// How much of its resources jobs use: of its threads; of its memory, if a job has stated how much it needs; and of
    /// each token.
    pub fn resources_in_use(&self) -> Vec<ResourceInUse<'_>> {
        let used = |name: &str| match self.in_use.as_ref().and_then(|in_use| in_use.get(name)) {
            None if name == THREADS => u64::from(self.running.unwrap_or_default()),
            used => used.unwrap_or_default(),
        };
        let all = self.resources.iter().flat_map(Needs::iter);
        let mut all: Vec<_> = all.map(|(name, has)| ResourceInUse { name, used: used(name), has }).collect();
        all.retain(|one| one.name != MEMORY || one.used > 0);
        all.sort_by_key(|one| [THREADS, MEMORY].iter().position(|first| *first == one.name).unwrap_or(usize::MAX));
        all
    }

    fn read(mut row: Columns) -> Result<WorkerRow, Error> {
        Ok(WorkerRow {
            worker_id: WorkerId(row.required("worker_id")?),
            queue: row.required("queue")?,
            name: row.required("name")?,
            registered_at: row.required_time("registered_at")?,
            lease_left: row.required_ms("lease_left_ms")?,
            lost_at: row.optional_time("lost_at")?,
            reported_at: row.optional_time("reported_at")?,
            held: row.big_count("held")?,
            oldest_claimed_at: row.optional_time("oldest_claimed_at")?,
            running: row.optional_count("running")?,
            done: row.optional_big_count("done")?,
            failed: row.optional_big_count("failed")?,
            done_per_s: row.optional("done_per_s")?,
            failed_per_s: row.optional("failed_per_s")?,
            limited_by: row.optional("limited_by")?,
            resources: read_resources(row.optional("resources")?),
            in_use: read_resources(row.optional("in_use")?),
            asked: Asked {
                quiet: row.required("quiet")?,
                stop: row.required("stops")?,
                threads: row.optional_count("threads")?,
                debug_left: row.required_ms("debug_left_ms")?,
                is_delivered: row.required("is_told")?,
            },
        })
    }
}

/// Another program may register a worker with any text.
fn read_resources(json: Option<String>) -> Option<Needs> {
    json.and_then(|json| serde_json::from_str(&json).ok())
}

impl fmt::Display for ResourceInUse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResourceInUse { name, used, has } = self;
        match *name {
            MEMORY => write!(f, "{}/{} memory", bytes_in_words(*used), bytes_in_words(*has)),
            _ => write!(f, "{used}/{has} {name}"),
        }
    }
}

impl Serialize for WorkerRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut worker = serializer.serialize_struct("WorkerRow", 18)?;
        worker.serialize_field("worker_id", &self.worker_id)?;
        worker.serialize_field("queue", &self.queue)?;
        worker.serialize_field("name", &self.name)?;
        worker.serialize_field("registered_at", &rfc3339(self.registered_at))?;
        worker.serialize_field("lease_left_s", &self.lease_left.as_secs_f64())?;
        worker.serialize_field("lost_at", &self.lost_at.map(rfc3339))?;
        worker.serialize_field("reported_at", &self.reported_at.map(rfc3339))?;
        worker.serialize_field("held", &self.held)?;
        worker.serialize_field("oldest_claimed_at", &self.oldest_claimed_at.map(rfc3339))?;
        worker.serialize_field("running", &self.running)?;
        worker.serialize_field("done", &self.done)?;
        worker.serialize_field("failed", &self.failed)?;
        worker.serialize_field("done_per_s", &self.done_per_s)?;
        worker.serialize_field("failed_per_s", &self.failed_per_s)?;
        worker.serialize_field("limited_by", &self.limited_by)?;
        worker.serialize_field("resources", &self.resources)?;
        worker.serialize_field("in_use", &self.in_use)?;
        worker.serialize_field("asked", &self.asked)?;
        worker.end()
    }
}

impl Session {
    /// Returns the workers of one queue or, with `None`, of all queues, including those that stopped within the last
    /// `ended`.
    pub(crate) async fn list_workers(&mut self, queue: Option<&str>, ended: Duration) -> Result<Vec<WorkerRow>, Error> {
        let mut command = self.command("list_workers");
        command.bind_param("@queue", queue);
        command.bind_param("@ended_s", int(ended.as_secs().min(DAY_S)));
        self.rows("list_workers", command).await?.into_iter().map(WorkerRow::read).collect()
    }
}
