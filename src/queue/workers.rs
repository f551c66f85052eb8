//! A worker's life in SQL Server: registering, renewing its lease, going; and what some worker must do for the whole
//! queue, promote and reap.

use std::time::Duration;

use super::claim::int;
use super::connection::{Columns, Lane};
use super::finish::millis;
use super::sample::{QueueSample, read_sample};
use super::{ClaimOrder, Completion, Delivery, WorkerId};
use crate::error::Error;

/// What a worker learns about its queue when it registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueSettings {
    pub(crate) claim_order: ClaimOrder,
    pub(crate) completion: Completion,
    pub(crate) delivery: Delivery,
    pub(crate) max_attempts: u32,
    pub(crate) paused: bool,
    /// The jobs of predecessors of the same name that were given back.
    pub(crate) taken_over: u32,
}

/// What a worker learns with each renewal of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    /// This worker does for the queue what one must do: promote, reap, sample, expire.
    pub(crate) elected: bool,
    /// The oldest version whose workers work with the schema that is installed now.
    pub(crate) min_compatible: i32,
    /// The last sample of the queue's depth, if there is one.
    pub(crate) sample: Option<QueueSample>,
}

/// What a call of `promote` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Promoted {
    pub(crate) jobs: u32,
    /// The worker still has the duties of its queue.
    pub(crate) elected: bool,
}

/// What a reap did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reaped {
    /// Workers whose lease ran out, and that are lost from now on.
    pub(crate) lost: Vec<LostWorker>,
    /// Jobs of lost workers that are ready again.
    pub(crate) jobs_ready: u32,
    /// Jobs of lost workers that are dead, because their attempts are used up.
    pub(crate) jobs_dead: u32,
}

/// A worker whose lease ran out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostWorker {
    pub(crate) worker: WorkerId,
    pub(crate) name: String,
}

impl Lane {
    /// Registers a worker under a new id and starts its lease. With `take_over`, other workers of the same name are
    /// lost at once.
    pub(crate) async fn register_worker(
        &mut self,
        queue: &str,
        worker: WorkerId,
        name: &str,
        lease: Duration,
        take_over: bool,
    ) -> Result<QueueSettings, Error> {
        let mut command = self.command("register_worker");
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker.0);
        command.bind_param("@name", name);
        command.bind_param("@lease_ms", i32::try_from(millis(lease)).unwrap_or(i32::MAX));
        command.bind_param("@take_over", take_over);
        let mut row = self.row("register_worker", command).await?;
        Ok(QueueSettings {
            claim_order: row.one_of("claim_order", &ClaimOrder::WORDS)?,
            completion: row.one_of("completion", &Completion::WORDS)?,
            delivery: row.one_of("delivery", &Delivery::WORDS)?,
            max_attempts: row.count("max_attempts")?,
            paused: row.required("paused")?,
            taken_over: row.count("taken_over")?,
        })
    }

    /// Renews the lease.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] when the worker was marked lost.
    pub(crate) async fn heartbeat(&mut self, worker: WorkerId) -> Result<Heartbeat, Error> {
        let mut command = self.command("heartbeat");
        command.bind_param("@worker_id", worker.0);
        let mut row = self.row("heartbeat", command).await?;
        Ok(Heartbeat {
            elected: row.required("elected")?,
            min_compatible: row.required("min_compatible")?,
            sample: read_sample(&mut row)?,
        })
    }

    /// Ends the worker. Jobs that it still holds are left to the next reap.
    pub(crate) async fn unregister_worker(&mut self, queue: &str, worker: WorkerId) -> Result<(), Error> {
        let mut command = self.command("unregister_worker");
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker.0);
        self.run("unregister_worker", command).await?;
        Ok(())
    }

    /// Makes up to `max` scheduled jobs ready whose time has come, if the worker has the duties of the queue, or nobody has.
    pub(crate) async fn promote(&mut self, queue: &str, worker: WorkerId, max: usize) -> Result<Promoted, Error> {
        let mut command = self.command("promote");
        command.bind_param("@queue", queue);
        command.bind_param("@max", int(max));
        command.bind_param("@worker_id", worker.0);
        let mut row = self.row("promote", command).await?;
        Ok(Promoted { jobs: row.count("promoted")?, elected: row.required("elected")? })
    }

    /// Deletes up to `max` finished jobs that are no longer to be kept; returns how many.
    pub(crate) async fn expire(&mut self, queue: &str, max: usize) -> Result<u32, Error> {
        let mut command = self.command("expire");
        command.bind_param("@queue", queue);
        command.bind_param("@max", int(max));
        self.row("expire", command).await?.count("expired")
    }

    /// Marks up to `max` workers lost whose lease ran out, and gives back up to `max` jobs of lost workers.
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
