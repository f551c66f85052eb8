//! Changing jobs: `cancel`, `cancel_batch`, `requeue`, `promote_now`, `run_again`, `skip`, `set_priority` and `purge`.

use serde::Serialize;
use tiberius::Command;

use crate::connection::{Columns, Session, all_rows, id_rows, int, table_type};
use crate::error::Error;
use crate::id::{BatchId, Enqueued, Fence, JobId};
use crate::job::JobState;

const CANCEL_BATCH: &str = "cancel_batch";

impl Session {
    /// Cancels up to 1,000 unfinished jobs of a batch and of its child batches.
    pub(crate) async fn cancel_batch(&mut self, batch: BatchId, why: &str) -> Result<CancelAnswer, Error> {
        let mut command = self.action(CANCEL_BATCH);
        command.bind_param("@batch_id", batch.0);
        command.bind_param("@why", why);
        command.bind_param("@max", int(OPERATOR_BATCH));
        CancelAnswer::read(all_rows(CANCEL_BATCH, self.run(CANCEL_BATCH, command).await?))
    }
}

/// How many jobs a [`JobChange`] has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Changed {
    /// Jobs that were changed.
    pub changed: u64,
    /// Running jobs whose workers are told to cancel them ([`JobChange::Cancel`]); 0 for every other change. Such a job
    /// is cancelled when its run ends, unless it is done then.
    pub requested: u64,
}

impl Changed {
    /// The sum of `changed` and `requested`.
    pub fn total(self) -> u64 {
        self.changed + self.requested
    }

    pub(crate) fn add(&mut self, other: Changed) {
        self.changed += other.changed;
        self.requested += other.requested;
    }
}

impl From<u32> for Changed {
    fn from(jobs: u32) -> Changed {
        Changed { changed: jobs.into(), requested: 0 }
    }
}

/// The result of one call.
pub(crate) struct CancelAnswer {
    pub(crate) cancelled: Changed,
    /// The running jobs.
    pub(crate) running: Vec<(JobId, Fence)>,
}

impl CancelAnswer {
    /// Reads the rows of `cancel`.
    pub(crate) fn read(rows: impl IntoIterator<Item = Columns>) -> Result<CancelAnswer, Error> {
        let mut answer = CancelAnswer { cancelled: Changed::default(), running: Vec::new() };
        for mut row in rows {
            let job = (JobId(row.required("job_id")?), Fence(row.required("fence")?));
            if row.required("running")? {
                answer.cancelled.requested += 1;
                answer.running.push(job);
            } else {
                answer.cancelled.changed += 1;
            }
        }
        Ok(answer)
    }
}

impl Session {
    /// Cancels jobs, at most 1,000.
    pub(crate) async fn cancel(&mut self, queue: &str, jobs: &[JobId], why: &str) -> Result<CancelAnswer, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.action("cancel");
        command.bind_param("@queue", queue);
        command.bind_param("@why", why);
        bind_jobs(&mut command, &list, jobs);
        CancelAnswer::read(self.rows("cancel", command).await?)
    }
}

/// A change of jobs, for [`Admin::change`](crate::admin::Admin::change).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobChange {
    /// Makes dead and cancelled jobs ready again; their attempts count from 0.
    ///
    /// A job stays dead if an unfinished job has the same deduplication key by now. Of several dead jobs with one key,
    /// only the newest becomes ready. [`Admin::requeue_with`](crate::admin::Admin::requeue_with) also changes the
    /// payload.
    Requeue,
    /// Cancels unfinished jobs.
    ///
    /// A job that is not running is cancelled immediately. It stays in the table as [`JobState::Cancelled`], with the
    /// login and `why` in its [`error`](crate::admin::JobRow::error), until it is purged, expires
    /// ([`QueueOptions::keep_dead`](crate::admin::QueueOptions::keep_dead)) or is requeued. Its deduplication key can
    /// be used again.
    ///
    /// If a job is running, its worker is told to cancel it: immediately if the worker was started from this `Queue` or
    /// a clone of it, otherwise with the worker's next heartbeat.
    /// [`Context::is_cancelled`](crate::handler::Context::is_cancelled) becomes true. If the handler still returns
    /// `Ok`, the job is done; after any other outcome it is cancelled. A running job of a queue with
    /// [`Delivery::AtMostOnce`](crate::admin::Delivery::AtMostOnce) cannot be cancelled.
    Cancel {
        /// The reason, for operators: up to 1,000 UTF-16 units.
        why: String,
    },
    /// Deletes jobs, except running ones. To delete regularly, set
    /// [`QueueOptions::keep_done`](crate::admin::QueueOptions::keep_done) and
    /// [`QueueOptions::keep_dead`](crate::admin::QueueOptions::keep_dead).
    Purge,
    /// Changes the priority of unfinished jobs; smaller values run first. For a running job it takes effect when the
    /// job becomes ready again. Jobs that already have this priority do not count as changed.
    SetPriority(i16),
    /// Makes scheduled jobs ready before they are due: delayed jobs, and jobs that wait for a retry. Workers that were
    /// started from this `Queue` or a clone of it claim them immediately.
    Promote,
    /// Runs done jobs again, also archived ones: each as a new job with the same payload, kind, priority, limits, needs,
    /// group, deduplication key, correlation id and headers, and with the header `readpast-run-again`, the id of the done
    /// job. The new job belongs to no batch and may start at any time, and after an archived job the queue's
    /// `max_attempts` applies. None is added while an unfinished job has the key. Done twice, the jobs run twice.
    /// [`Admin::run_again`](crate::admin::Admin::run_again) returns the new id.
    RunAgain,
    /// Lets groups go on that dead jobs halt ([`QueueOptions::halt_groups`](crate::admin::QueueOptions::halt_groups)).
    /// The jobs stay dead. Those that halt no group do not count as changed.
    Skip,
}

impl JobChange {
    /// [`JobChange::Cancel`] for this reason.
    pub fn cancel(why: impl Into<String>) -> JobChange {
        JobChange::Cancel { why: why.into() }
    }

    /// The states of the jobs that it applies to, in the order in which they are changed.
    pub fn states(&self) -> &'static [JobState] {
        use JobState::{Archived, Cancelled, Dead, Done, Ready, Scheduled, Waiting};
        match self {
            JobChange::Requeue => &[Dead, Cancelled],
            JobChange::Cancel { .. } | JobChange::SetPriority(_) => JobState::UNFINISHED,
            JobChange::Purge => &[Scheduled, Waiting, Ready, Done, Dead, Cancelled, Archived],
            JobChange::Promote => &[Scheduled],
            JobChange::RunAgain => &[Done, Archived],
            JobChange::Skip => &[Dead],
        }
    }

    /// The name of the change: `requeue`, `cancel`, `purge`, `set_priority`, `promote`, `run_again` or `skip`.
    pub fn word(&self) -> &'static str {
        match self {
            JobChange::Requeue => "requeue",
            JobChange::Cancel { .. } => "cancel",
            JobChange::Purge => "purge",
            JobChange::SetPriority(_) => "set_priority",
            JobChange::Promote => "promote",
            JobChange::RunAgain => "run_again",
            JobChange::Skip => "skip",
        }
    }
}

/// How many jobs one call of `requeue`, `purge`, `cancel` or `set_priority` changes, so that a transaction locks few
/// rows.
pub(crate) const OPERATOR_BATCH: usize = 1_000;

impl Session {
    /// Makes one dead or cancelled job ready again. Returns how many were requeued.
    pub(crate) async fn requeue(&mut self, queue: &str, job_id: JobId) -> Result<u32, Error> {
        let mut command = self.action("requeue");
        command.bind_param("@queue", queue);
        command.bind_param("@job_id", job_id.0);
        self.row("requeue", command).await?.count("requeued")
    }

    /// Makes up to 1,000 dead and cancelled jobs ready again. Returns how many were requeued.
    pub(crate) async fn requeue_listed(&mut self, queue: &str, jobs: &[JobId]) -> Result<u32, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.action("requeue");
        command.bind_param("@queue", queue);
        command.bind_param("@listed", true);
        command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs));
        self.row("requeue", command).await?.count("requeued")
    }

    /// Makes one dead or cancelled job ready again, with another payload. Returns whether it was requeued.
    pub(crate) async fn requeue_with(&mut self, queue: &str, job_id: JobId, payload: &[u8]) -> Result<bool, Error> {
        let mut command = self.action("requeue");
        command.bind_param("@queue", queue);
        command.bind_param("@job_id", job_id.0);
        command.bind_param("@payload", payload);
        Ok(self.row("requeue", command).await?.count("requeued")? > 0)
    }

    /// Makes up to 1,000 scheduled jobs ready. Returns how many were made ready.
    pub(crate) async fn promote_now(&mut self, queue: &str, jobs: &[JobId]) -> Result<u32, Error> {
        self.change_jobs("promote_now", queue, jobs, "promoted").await
    }

    /// Enqueues new jobs for up to 1,000 done ones. Returns what it has enqueued.
    pub(crate) async fn run_jobs_again(&mut self, queue: &str, jobs: &[JobId]) -> Result<Vec<Enqueued>, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.action("run_again");
        command.bind_param("@queue", queue);
        bind_jobs(&mut command, &list, jobs);
        let read = |mut row: Columns| {
            row.skip(1); // the done job
            Ok(Enqueued { job_id: JobId(row.required("new_id")?), duplicate: row.required("duplicate")? })
        };
        self.rows("run_again", command).await?.into_iter().map(read).collect()
    }

    /// Lets the groups go on that up to 1,000 dead jobs halt. Returns how many of the jobs did.
    pub(crate) async fn skip(&mut self, queue: &str, jobs: &[JobId]) -> Result<u32, Error> {
        self.change_jobs("skip", queue, jobs, "skipped").await
    }

    /// Calls a procedure that changes jobs. Returns the count in this column.
    async fn change_jobs(
        &mut self,
        call: &'static str,
        queue: &str,
        jobs: &[JobId],
        count: &str,
    ) -> Result<u32, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.action(call);
        command.bind_param("@queue", queue);
        bind_jobs(&mut command, &list, jobs);
        self.row(call, command).await?.count(count)
    }

    /// Changes the priority of up to 1,000 jobs. Returns how many had another priority before.
    pub(crate) async fn set_priority(&mut self, queue: &str, jobs: &[JobId], priority: i16) -> Result<u32, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.action("set_priority");
        command.bind_param("@queue", queue);
        command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs));
        command.bind_param("@priority", priority);
        self.row("set_priority", command).await?.count("changed")
    }

    /// Deletes up to 1,000 jobs if they are in this state. Returns how many were deleted.
    pub(crate) async fn purge_listed(&mut self, queue: &str, state: JobState, jobs: &[JobId]) -> Result<u32, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.action("purge");
        command.bind_param("@queue", queue);
        command.bind_param("@state", state.word());
        command.bind_param("@listed", true);
        command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs));
        self.row("purge", command).await?.count("purged")
    }
}

/// Binds one job without the round trip that a list costs.
fn bind_jobs<'a>(command: &mut Command<'a>, list: &'a str, jobs: &'a [JobId]) {
    match jobs {
        [job_id] => command.bind_param("@job_id", job_id.0),
        jobs => command.bind_table_with_dbtype("@jobs", list, id_rows(jobs)),
    }
}
