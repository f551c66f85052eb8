//! A queue's depth: its last sample, and the unfinished jobs that a drain waits for.

use std::time::Duration;

use crate::connection::{Columns, Session, int, ms};
use crate::error::Error;

/// A queue's depth, as counted and estimated by `sample` (sql/350_sample.sql).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DepthSample {
    pub(crate) ready: u64,
    pub(crate) scheduled: u64,
    pub(crate) claimed: u64,
    pub(crate) dead: u64,
    pub(crate) cancelled: u64,
    pub(crate) waiting: u64,
    /// Batches that are not complete and whose follow-ups go to the queue.
    pub(crate) open_batches: u64,
    /// Workers with a lease.
    pub(crate) workers: u64,
    pub(crate) paused: bool,
    /// How long the oldest ready job has been ready.
    pub(crate) oldest_ready: Option<Duration>,
    /// How long ago the sample was taken, by SQL Server's clock.
    pub(crate) age: Duration,
}

impl DepthSample {
    /// The number of unfinished jobs, including claimed ones.
    pub(crate) fn unfinished(&self) -> u64 {
        self.ready + self.scheduled + self.waiting + self.claimed
    }
}

impl Session {
    /// Returns the last sample, or a new one if it is older than `max_age`. `None` while another worker takes the first
    /// sample.
    pub(crate) async fn sample(&mut self, queue: &str, max_age: Duration) -> Result<Option<DepthSample>, Error> {
        let mut command = self.command("sample");
        command.bind_param("@queue", queue);
        command.bind_param("@max_age_ms", int(ms(max_age)));
        let mut row = self.row("sample", command).await?;
        read_sample(&mut row)
    }
}

/// Reads the columns of a sample, or `None` if there is no sample yet.
pub(crate) fn read_sample(row: &mut Columns) -> Result<Option<DepthSample>, Error> {
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
    Ok(age.map(|age| DepthSample {
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

/// The unfinished jobs of a queue, as far as a drain waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unfinished {
    pub(crate) ready: bool,
    /// Whether jobs are scheduled and due soon enough to count.
    pub(crate) scheduled: bool,
    /// Whether jobs are claimed, by any worker.
    pub(crate) claimed: bool,
    /// Whether jobs are waiting for their turn in their groups.
    pub(crate) waiting: bool,
    pub(crate) paused: bool,
    /// The time until the first scheduled job is due.
    pub(crate) next_due: Option<Duration>,
}

impl Unfinished {
    /// Whether nothing is left to wait for.
    pub(crate) fn is_empty(&self) -> bool {
        !(self.ready || self.scheduled || self.claimed || self.waiting)
    }
}

impl Session {
    /// Returns which unfinished jobs are left. Counts scheduled jobs that are due within `due_within`, or all of them
    /// with `None`. A job that changes its state during the call can be missed.
    pub(crate) async fn unfinished(&mut self, queue: &str, due_within: Option<Duration>) -> Result<Unfinished, Error> {
        let mut command = self.command("unfinished");
        command.bind_param("@queue", queue);
        command.bind_param("@due_within_ms", due_within.map(ms));
        let mut row = self.row("unfinished", command).await?;
        row.required::<bool>("unfinished")?; // follows from the others
        Ok(Unfinished {
            ready: row.required("ready")?,
            scheduled: row.required("scheduled")?,
            claimed: row.required("claimed")?,
            paused: row.required("paused")?,
            next_due: row.optional_ms("next_due_ms")?,
            waiting: row.required("waiting")?,
        })
    }
}
