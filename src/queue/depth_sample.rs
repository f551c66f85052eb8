//! The depth of a queue for metrics: sampled by one worker at a time, seen by all.

use std::time::Duration;

use super::lasting_session::Session;
use super::parameters::{int, ms};
use super::result_columns::Columns;
use crate::error::Error;

/// How deep a queue is, as `sample` (sql/350_sample.sql) counts and estimates it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueueSample {
    pub(crate) ready: u64,
    pub(crate) scheduled: u64,
    pub(crate) claimed: u64,
    pub(crate) dead: u64,
    pub(crate) cancelled: u64,
    pub(crate) waiting: u64,
    /// Batches that have not ended and whose follow-ups go to the queue.
    pub(crate) open_batches: u64,
    /// Workers with a lease.
    pub(crate) workers: u64,
    pub(crate) paused: bool,
    /// How long the oldest ready job has been ready.
    pub(crate) oldest_ready: Option<Duration>,
    /// How long ago the sample was taken, by SQL Server's clock.
    pub(crate) age: Duration,
}

impl QueueSample {
    /// Jobs that are not finished, held by any worker or by none.
    pub(crate) fn unfinished(&self) -> u64 {
        self.ready + self.scheduled + self.waiting + self.claimed
    }
}

impl Session {
    /// The last sample, or a new one where that is older than `max_age`; `None` while another worker takes the first.
    pub(crate) async fn sample(&mut self, queue: &str, max_age: Duration) -> Result<Option<QueueSample>, Error> {
        let mut command = self.command("sample");
        command.bind_param("@queue", queue);
        command.bind_param("@max_age_ms", int(ms(max_age)));
        let mut row = self.row("sample", command).await?;
        read_sample(&mut row)
    }
}

/// The columns of a sample; `None` where there is none yet.
pub(super) fn read_sample(row: &mut Columns) -> Result<Option<QueueSample>, Error> {
    let ready: Option<i64> = row.optional("ready")?;
    let scheduled: Option<i64> = row.optional("scheduled")?;
    let claimed: Option<i64> = row.optional("claimed")?;
    let dead: Option<i64> = row.optional("dead")?;
    let workers: Option<i64> = row.optional("workers")?;
    let paused = row.required("paused")?;
    let oldest_ready = row.optional_ms("oldest_ready_ms")?;
    let count = |column: Option<i64>| column.and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    let age = row.optional_ms("sample_age_ms")?;
    let cancelled: Option<i64> = row.optional("cancelled")?;
    let waiting: Option<i64> = row.optional("waiting")?;
    let open_batches: Option<i64> = row.optional("open_batches")?;
    Ok(age.map(|age| QueueSample {
        ready: count(ready),
        scheduled: count(scheduled),
        claimed: count(claimed),
        dead: count(dead),
        cancelled: count(cancelled),
        waiting: count(waiting),
        open_batches: count(open_batches),
        workers: count(workers),
        paused,
        oldest_ready,
        age,
    }))
}
