//! What became of a queue, some minutes at a time.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::connection::{Columns, Session, int};
use crate::error::Error;
use crate::time::{Durations, of_json, rfc3339};

/// As long as it is kept.
const LONGEST: Duration = Duration::from_secs(90 * 24 * 60 * 60);

const MINUTE: Duration = Duration::from_secs(60);

/// What became of a queue in one minute or, when that is more than a day ago, in ten. All times are SQL Server's.
///
/// The depth is as it was last sampled in that minute, once in ten seconds by default; of ten minutes it is the
/// greatest of each, so that no backlog is missed. What was done is as the workers have said by then with their
/// heartbeats, also once in ten seconds, so that a job can be counted one row late; it is counted once. Minutes in
/// which nobody sampled the depth, because no worker ran, have no row.
///
/// As JSON it has the time as in RFC 3339, durations in seconds (`length_s`, `oldest_ready_s`), and the times as
/// [`Times`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryRow {
    /// The queue.
    pub queue: String,
    /// Where it begins, a whole minute.
    pub at: SystemTime,
    /// How long it is: 1 to 10 minutes. Between one and ten where `worker.sample_interval_ms` is more than a minute.
    pub length: Duration,
    /// Jobs that waited to be claimed.
    pub ready: u64,
    /// Jobs that waited for their time.
    pub scheduled: u64,
    /// Jobs that waited for their turn in their groups.
    pub waiting: u64,
    /// Jobs that workers held.
    pub claimed: u64,
    /// Dead jobs that were there.
    pub dead: u64,
    /// Cancelled jobs that were there.
    pub cancelled: u64,
    /// Workers with a lease.
    pub workers: u64,
    /// How long the oldest ready job had been ready; `None`: nothing was ready.
    pub oldest_ready: Option<Duration>,
    /// Jobs that were done in this time.
    pub done: u64,
    /// Attempts that failed in this time: the job was retried or is dead.
    pub failed: u64,
    /// Jobs that died in this time: that were dead after an attempt. Those that were lost with their worker are not
    /// among them, because no worker can say so; they are in `dead`.
    pub died: u64,
    /// How long the jobs that started in this time had been ready. Of one that was given back, from when it was due.
    pub wait: Durations,
    /// How long the jobs ran whose run ended in this time, however it ended.
    pub run: Durations,
}

impl HistoryRow {
    fn read(mut row: Columns) -> Result<HistoryRow, Error> {
        let (queue, at) = (row.required("queue")?, row.required_time("at")?);
        let length = MINUTE * row.count("minutes")?;
        let (ready, scheduled) = (row.big_count("ready")?, row.big_count("scheduled")?);
        let (waiting, claimed) = (row.big_count("waiting")?, row.big_count("claimed")?);
        let (dead, cancelled) = (row.big_count("dead")?, row.big_count("cancelled")?);
        let (workers, oldest_ready) = (row.big_count("workers")?, row.optional_ms("oldest_ready_ms")?);
        let (done, failed, died) = (row.big_count("done")?, row.big_count("failed")?, row.big_count("died")?);
        let counts: HashMap<String, u64> = row.optional_json("times")?.unwrap_or_default();
        let (wait, run) = of_json(&counts);
        Ok(HistoryRow {
            queue,
            at,
            length,
            ready,
            scheduled,
            waiting,
            claimed,
            dead,
            cancelled,
            workers,
            oldest_ready,
            done,
            failed,
            died,
            wait,
            run,
        })
    }
}

impl Serialize for HistoryRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("HistoryRow", 16)?;
        row.serialize_field("queue", &self.queue)?;
        row.serialize_field("at", &rfc3339(self.at))?;
        row.serialize_field("length_s", &self.length.as_secs())?;
        row.serialize_field("ready", &self.ready)?;
        row.serialize_field("scheduled", &self.scheduled)?;
        row.serialize_field("waiting", &self.waiting)?;
        row.serialize_field("claimed", &self.claimed)?;
        row.serialize_field("dead", &self.dead)?;
        row.serialize_field("cancelled", &self.cancelled)?;
        row.serialize_field("workers", &self.workers)?;
        row.serialize_field("oldest_ready_s", &self.oldest_ready.map(|oldest| oldest.as_secs_f64()))?;
        row.serialize_field("done", &self.done)?;
        row.serialize_field("failed", &self.failed)?;
        row.serialize_field("died", &self.died)?;
        row.serialize_field("wait", &self.wait)?;
        row.serialize_field("run", &self.run)?;
        row.end()
    }
}

impl Session {
    /// What became of one queue or, with `None`, of all, in the last `span`.
    pub(crate) async fn list_history(&mut self, queue: Option<&str>, span: Duration) -> Result<Vec<HistoryRow>, Error> {
        let minutes = span.min(LONGEST).as_secs().div_ceil(MINUTE.as_secs()).max(1);
        let mut command = self.command("list_history");
        command.bind_param("@queue", queue);
        command.bind_param("@minutes", int(minutes));
        self.rows("list_history", command).await?.into_iter().map(HistoryRow::read).collect()
    }
}
