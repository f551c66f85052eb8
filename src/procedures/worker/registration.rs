//! A worker's registration: registering, renewing the lease, unregistering; and what all registered workers have.

use std::time::Duration;

use tiberius::Command;

use crate::connection::{Columns, Session, all_rows, big, int, ms};
use crate::error::Error;
use crate::id::{Fence, JobId, WorkerId};
use crate::job::{CompletionPolicy, Delivery, Needs};
use crate::time::{DurationHistogram, to_json};

use super::depth::{DepthSample, read_sample};
use crate::procedures::schema_info::Held;

/// The name of the call in an [`Error::TimedOut`].
pub(crate) const MOST_RESOURCES: &str = "most_resources";

/// The length of the columns of a worker's resources.
const MAX_RESOURCES: usize = 1_000;

/// The most threads that a worker may be asked to have.
const MAX_THREADS: u32 = 1_024;

/// The queue's settings, as returned to a worker that registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueSettings {
    pub(crate) completion: CompletionPolicy,
    pub(crate) delivery: Delivery,
    pub(crate) max_attempts: u32,
    pub(crate) paused: bool,
    /// Whether all queues of the schema are held: 1 by pause_all, 2 because the database is a copy, 3 by both.
    pub(crate) holds: i32,
    /// Whether the queue has a sink.
    pub(crate) has_sink: bool,
}

impl QueueSettings {
    /// What holds all queues of the schema.
    pub(crate) fn held(&self) -> Option<Held> {
        match self.holds {
            0 => None,
            1 => Some(Held::Schema),
            _ => Some(Held::Copy),
        }
    }
}

/// The result of taking over from predecessors with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakenOver {
    /// Workers that were marked lost: the predecessors, and all workers with expired leases.
    pub(crate) workers: u32,
    /// Jobs of lost workers that are ready again.
    pub(crate) jobs_ready: u32,
    /// Jobs of lost workers that are dead.
    pub(crate) jobs_dead: u32,
}

/// What operators have asked of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// Claim no more jobs.
    pub(crate) quiet: bool,
    /// Stop in order.
    pub(crate) stops: bool,
    /// How many jobs to run at once; `None`: as many as configured.
    pub(crate) threads: Option<u32>,
    /// Write debug messages to the log.
    pub(crate) debugs: bool,
}

/// The response to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    /// Whether this is the elected worker, which promotes, reaps, samples and expires on behalf of the queue.
    pub(crate) elected: bool,
    /// The oldest version of workers that works with the schema installed now.
    pub(crate) min_compatible: i32,
    pub(crate) wishes: Wishes,
    /// The last sample of the queue's depth, if there is one.
    pub(crate) sample: Option<DepthSample>,
    /// Running jobs of this worker to cancel.
    pub(crate) cancelled: Vec<(JobId, Fence)>,
}

/// A worker's report for operators, sent with a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkerReport {
    /// Running jobs.
    pub(crate) running: usize,
    /// The worker's bottleneck, as a word.
    pub(crate) limited_by: &'static str,
    /// Whether one of the queue's duties fails on this worker, so that another one should be elected.
    pub(crate) yields: bool,
    /// What jobs use of the worker's resources, as JSON; `None` if no job needs more than its thread.
    pub(crate) in_use: Option<String>,
    /// What the worker has for jobs, as JSON, if that has changed since it registered.
    pub(crate) resources: Option<String>,
    pub(crate) work: WorkReport,
}

/// A report of the work that a worker has done since it registered. It contains totals, so that a lost, repeated or
/// late report does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkReport {
    /// The number of the report, from 1 on.
    pub(crate) number: u64,
    pub(crate) worked: Worked,
}

/// The totals of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Worked {
    /// Jobs done.
    pub(crate) done: u64,
    /// Failed attempts.
    pub(crate) failed: u64,
    /// Failed attempts after which the job was dead.
    pub(crate) dead: u64,
    /// How long the started jobs had been ready.
    pub(crate) wait: DurationHistogram,
    /// How long the runs took.
    pub(crate) run: DurationHistogram,
}

impl Worked {
    /// Returns what was done since another total.
    pub(crate) fn since(&self, before: &Worked) -> Worked {
        Worked {
            done: self.done - before.done,
            failed: self.failed - before.failed,
            dead: self.dead - before.dead,
            wait: self.wait.since(&before.wait),
            run: self.run.since(&before.run),
        }
    }
}

impl WorkReport {
    fn bind(&self, command: &mut Command<'_>) {
        let Worked { done, failed, dead, wait, run } = &self.worked;
        command.bind_param("@done", big(*done));
        command.bind_param("@failed", big(*failed));
        command.bind_param("@dead", big(*dead));
        command.bind_param("@times", to_json(wait, run));
        command.bind_param("@report_no", big(self.number));
    }
}

/// Resources as JSON, unless they are too many for their column.
pub(crate) fn short_json(resources: &Needs) -> Option<String> {
    Some(resources.json()).filter(|json| json.len() <= MAX_RESOURCES)
}

impl Wishes {
    fn read(row: &mut Columns) -> Result<Wishes, Error> {
        Ok(Wishes {
            quiet: row.optional("quiet")?.unwrap_or_default(),
            stops: row.optional("stops")?.unwrap_or_default(),
            // As worker_wish allows, whatever the server says.
            threads: row.optional_count("threads")?.map(|threads| threads.min(MAX_THREADS)),
            debugs: row.required::<i32>("debugs")? == 1,
        })
    }
}

impl Session {
    /// Registers a worker under a new id and starts its lease. With `take_over`, other workers of the same name are
    /// marked lost immediately, and the jobs of lost workers are returned to the queue. `replaces` is the id under which
    /// the worker was registered before.
    #[allow(clippy::too_many_arguments)] // those of the procedure
    pub(crate) async fn register_worker(
        &mut self,
        queue: &str,
        worker: WorkerId,
        name: &str,
        lease: Duration,
        take_over: bool,
        resources: &Needs,
        replaces: Option<WorkerId>,
    ) -> Result<(QueueSettings, TakenOver, Wishes), Error> {
        let mut command = self.command("register_worker");
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker.0);
        command.bind_param("@name", name);
        command.bind_param("@lease_ms", int(ms(lease)));
        command.bind_param("@take_over", take_over);
        command.bind_param("@resources", short_json(resources));
        if let Some(replaces) = replaces {
            command.bind_param("@replaces", replaces.0);
        }
        let mut row = self.row("register_worker", command).await?;
        let completion = row.one_of("completion", &CompletionPolicy::WORDS)?;
        let delivery = row.one_of("delivery", &Delivery::WORDS)?;
        let max_attempts = row.count("max_attempts")?;
        let paused = row.required("paused")?;
        let holds = row.required("holds")?;
        let jobs = row.count("taken_over")?;
        let has_sink = row.required("has_sink")?;
        let workers = row.count("workers_lost")?;
        let jobs_dead = row.count("jobs_dead")?;
        let jobs_ready = jobs.saturating_sub(jobs_dead);
        Ok((
            QueueSettings { completion, delivery, max_attempts, paused, holds, has_sink },
            TakenOver { workers, jobs_ready, jobs_dead },
            Wishes::read(&mut row)?,
        ))
    }

    /// Renews the lease and, with a report, sends the worker's counts.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if the worker was marked lost.
    pub(crate) async fn heartbeat(
        &mut self,
        worker: WorkerId,
        report: Option<WorkerReport>,
    ) -> Result<Heartbeat, Error> {
        let mut command = self.command("heartbeat");
        command.bind_param("@worker_id", worker.0);
        if let Some(report) = report {
            command.bind_param("@running", int(report.running));
            report.work.bind(&mut command);
            command.bind_param("@limited_by", report.limited_by);
            command.bind_param("@yields", report.yields);
            if let Some(in_use) = report.in_use {
                command.bind_param("@in_use", in_use);
            }
            if let Some(resources) = report.resources {
                command.bind_param("@resources", resources);
            }
        }
        let answer = self.run("heartbeat", command).await?;
        let mut rows: Vec<_> = all_rows("heartbeat", answer).collect();
        // The last row is the worker's own.
        let mut row = rows.pop().ok_or_else(|| Error::Protocol { message: "heartbeat did not answer".to_string() })?;
        let job = |mut row: Columns| Ok((JobId(row.required("job_id")?), Fence(row.required("fence")?)));
        Ok(Heartbeat {
            elected: row.required("elected")?,
            min_compatible: row.required("min_compatible")?,
            wishes: Wishes::read(&mut row)?,
            sample: read_sample(&mut row)?,
            cancelled: rows.into_iter().map(job).collect::<Result<_, Error>>()?,
        })
    }

    /// Unregisters the worker, with its last report. Jobs that it still holds are returned to the queue by the next
    /// reap.
    pub(crate) async fn unregister_worker(
        &mut self,
        queue: &str,
        worker: WorkerId,
        work: &WorkReport,
    ) -> Result<(), Error> {
        let mut command = self.command("unregister_worker");
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker.0);
        work.bind(&mut command);
        self.run("unregister_worker", command).await?;
        Ok(())
    }

    /// Returns the largest amount of each resource that any worker of the queue had in the last day.
    pub(crate) async fn most_resources(&mut self, queue: &str) -> Result<Needs, Error> {
        let mut command = self.command(MOST_RESOURCES);
        command.bind_param("@queue", queue);
        let mut rows = self.rows(MOST_RESOURCES, command).await?.into_iter();
        rows.try_fold(Needs::new(), |most, mut row| {
            Ok(most.with(&row.required::<String>("name")?, row.big_count("most")?))
        })
    }
}
