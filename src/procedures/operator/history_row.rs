//! The history of a queue: each row covers one or more minutes.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::connection::{Columns, Session, int};
use crate::error::Error;
use crate::time::{DurationHistogram, of_json, rfc3339};

/// The longest span: as long as history is kept.
const LONGEST: Duration = Duration::from_secs(90 * 24 * 60 * 60);

const MINUTE: Duration = Duration::from_secs(60);

/// The history of a queue in one minute or, if that is more than a day ago, in ten minutes. All times are SQL Server's.
///
/// The depth is the last sample of that minute; by default, a sample is taken every ten seconds. In a row of ten
/// minutes, each number of the depth is the greatest of these minutes, so that no backlog is missed. Finished jobs are
/// counted when the workers report them with their heartbeats, by default every ten seconds. A job may therefore be
/// counted one row late, but it is counted once. If no worker ran in a minute, there is no sample and no row.
///
/// Serialized as JSON, the time is in RFC 3339 format, durations are in seconds (`length_s`, `oldest_ready_s`), and the
/// wait and run times are in the format of [`DurationHistogram`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryRow {
    /// The queue.
    pub queue: String,
    /// When the row begins: a whole minute.
    pub at: SystemTime,
    /// How long the row is: one or ten minutes, or between one and ten minutes if `worker.sample_interval_ms` is more
    /// than a minute.
    pub length: Duration,
    /// Ready jobs.
    pub ready: u64,
    /// Scheduled jobs.
    pub scheduled: u64,
    /// Jobs waiting for their turn in their groups.
    pub waiting: u64,
    /// Claimed jobs.
    pub claimed: u64,
    /// Dead jobs.
    pub dead: u64,
    /// Cancelled jobs.
    pub cancelled: u64,
    /// Workers with a lease.
    pub workers: u64,
    /// How long the oldest ready job had been ready, or `None` if no job was ready.
    pub oldest_ready: Option<Duration>,
    /// Jobs that were done in this time.
    pub done: u64,
    /// Attempts that failed in this time: the job was retried or is dead.
    pub failed: u64,
    /// Jobs that died in this time after a failed attempt. Jobs that were lost with their worker are not included,
    /// because no worker can report them; they are counted in `dead`.
    pub died: u64,
    /// How long the jobs that started in this time had been ready. For a released or reaped job, this counts from when
    /// it was due.
    pub wait: DurationHistogram,
    /// How long the runs took that ended in this time, with any outcome.
    pub run: DurationHistogram,
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
    /// Returns the history of one queue or, with `None`, of all queues, in the last `span`.
    pub(crate) async fn list_history(&mut self, queue: Option<&str>, span: Duration) -> Result<Vec<HistoryRow>, Error> {
        let minutes = span.min(LONGEST).as_secs().div_ceil(MINUTE.as_secs()).max(1);
        let mut command = self.command("list_history");
        command.bind_param("@queue", queue);
        command.bind_param("@minutes", int(minutes));
        self.rows("list_history", command).await?.into_iter().map(HistoryRow::read).collect()
    }
}
