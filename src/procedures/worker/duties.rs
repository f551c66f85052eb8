//! The calls of the elected worker, on behalf of the whole queue: `promote`, `reap` and `expire`.

use crate::connection::{Columns, Session, int};
use crate::error::Error;
use crate::id::WorkerId;

/// The result of `promote`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Promoted {
    pub(crate) jobs: u32,
    /// Whether the worker is still the elected worker of its queue.
    pub(crate) elected: bool,
    /// Whether there are schedules to check.
    pub(crate) schedules_due: bool,
    /// How many jobs were cancelled because they may no longer start.
    pub(crate) expired: u32,
    /// A part that failed and can wait for the next call.
    pub(crate) error: Option<String>,
}

impl Session {
    /// Makes up to `max` due scheduled jobs ready, if this worker is the elected worker or the queue has none.
    pub(crate) async fn promote(&mut self, queue: &str, worker: WorkerId, max: usize) -> Result<Promoted, Error> {
        let mut command = self.command("promote");
        command.bind_param("@queue", queue);
        command.bind_param("@max", int(max));
        command.bind_param("@worker_id", worker.0);
        let mut row = self.row("promote", command).await?;
        Ok(Promoted {
            jobs: row.count("promoted")?,
            elected: row.required("elected")?,
            schedules_due: row.required("schedules_due")?,
            error: row.optional("error")?,
            expired: row.count("expired")?,
        })
    }
}

/// The result of `reap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reaped {
    /// Workers that are now marked lost, because their leases expired.
    pub(crate) lost: Vec<LostWorker>,
    /// Jobs of lost workers that are ready again.
    pub(crate) jobs_ready: u32,
    /// Jobs of lost workers that are dead, because their attempts are used up.
    pub(crate) jobs_dead: u32,
}

/// A worker with an expired lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostWorker {
    pub(crate) worker: WorkerId,
    pub(crate) name: String,
}

impl Session {
    /// Marks up to `max` workers with expired leases as lost, and returns up to `max` jobs of lost workers to the
    /// queue.
    pub(crate) async fn reap(&mut self, queue: &str, max: usize) -> Result<Reaped, Error> {
        let mut command = self.command("reap");
        command.bind_param("@queue", queue);
        command.bind_param("@max", int(max));
        let (mut row, lost) = self.row_and_list("reap", command).await?;
        row.count("workers_lost")?; // as many as are in the list
        Ok(Reaped {
            jobs_ready: row.count("jobs_ready")?,
            jobs_dead: row.count("jobs_dead")?,
            lost: lost.into_iter().map(read_lost).collect::<Result<_, _>>()?,
        })
    }
}

fn read_lost(mut row: Columns) -> Result<LostWorker, Error> {
    Ok(LostWorker { worker: WorkerId(row.required("worker_id")?), name: row.required("name")? })
}

impl Session {
    /// Deletes up to `max` finished jobs whose retention has passed. Returns how many were deleted.
    pub(crate) async fn expire(&mut self, queue: &str, max: usize) -> Result<u32, Error> {
        let mut command = self.command("expire");
        command.bind_param("@queue", queue);
        command.bind_param("@max", int(max));
        self.row("expire", command).await?.count("expired")
    }
}
