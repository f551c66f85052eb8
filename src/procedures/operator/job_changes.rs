//! Changing jobs: `cancel`, `cancel_batch`, `requeue`, `promote_now`, `set_priority` and `purge`.

use std::time::Duration;

use serde::Serialize;

use crate::connection::{Columns, Session, all_rows, id_rows, int, table_type};
use crate::error::Error;
use crate::id::{BatchId, Fence, JobId};
use crate::job::JobState;

const CANCEL_BATCH: &str = "cancel_batch";

impl Session {
    /// Cancels up to 1,000 unfinished jobs of a batch and those below it.
    pub(crate) async fn cancel_batch(&mut self, batch: BatchId, why: &str) -> Result<CancelAnswer, Error> {
        let mut command = self.command(CANCEL_BATCH);
        command.bind_param("@batch_id", batch.0);
        command.bind_param("@why", why);
        command.bind_param("@max", int(OPERATOR_BATCH));
        CancelAnswer::read(all_rows(CANCEL_BATCH, self.run(CANCEL_BATCH, command).await?))
    }
}

/// What [`Admin::cancel`](crate::admin::Admin::cancel) has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Cancelled {
    /// Jobs that waited: they are cancelled now.
    pub waiting: u64,
    /// Jobs that run: their workers are told. They are cancelled when they end, unless they are done then.
    pub running: u64,
}

impl Cancelled {
    pub(crate) fn add(&mut self, other: Cancelled) {
        self.waiting += other.waiting;
        self.running += other.running;
    }
}

/// The answer to one call.
pub(crate) struct CancelAnswer {
    pub(crate) cancelled: Cancelled,
    /// Those that run.
    pub(crate) running: Vec<(JobId, Fence)>,
}

impl CancelAnswer {
    /// Reads the rows of `cancel`.
    pub(crate) fn read(rows: impl IntoIterator<Item = Columns>) -> Result<CancelAnswer, Error> {
        let mut answer = CancelAnswer { cancelled: Cancelled::default(), running: Vec::new() };
        for mut row in rows {
            let job = (JobId(row.required("job_id")?), Fence(row.required("fence")?));
            if row.required("running")? {
                answer.cancelled.running += 1;
                answer.running.push(job);
            } else {
                answer.cancelled.waiting += 1;
            }
        }
        Ok(answer)
    }
}

impl Session {
    /// Cancels jobs, at most 1,000.
    pub(crate) async fn cancel(&mut self, queue: &str, jobs: &[JobId], why: &str) -> Result<CancelAnswer, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command("cancel");
        command.bind_param("@queue", queue);
        command.bind_param("@why", why);
        match jobs {
            [job_id] => command.bind_param("@job_id", job_id.0), // without the round trip that a list costs
            jobs => command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs)),
        }
        CancelAnswer::read(self.rows("cancel", command).await?)
    }
}

/// What can be done to many jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobChange {
    /// As [`Admin::requeue_jobs`](crate::admin::Admin::requeue_jobs).
    Requeue,
    /// As [`Admin::cancel_jobs`](crate::admin::Admin::cancel_jobs).
    Cancel {
        /// Why, for whoever looks at the jobs.
        why: String,
    },
    /// As [`Admin::purge_jobs`](crate::admin::Admin::purge_jobs).
    Purge,
    /// As [`Admin::set_priority_of`](crate::admin::Admin::set_priority_of).
    SetPriority(i16),
    /// As [`Admin::promote_jobs`](crate::admin::Admin::promote_jobs).
    Promote,
}

impl JobChange {
    /// The states of jobs that it can be done to, in the order in which it is done.
    pub fn states(&self) -> &'static [JobState] {
        use JobState::{Archived, Cancelled, Dead, Done, Ready, Scheduled, Waiting};
        match self {
            JobChange::Requeue => &[Dead, Cancelled],
            JobChange::Cancel { .. } | JobChange::SetPriority(_) => JobState::UNFINISHED,
            JobChange::Purge => &[Scheduled, Waiting, Ready, Done, Dead, Cancelled, Archived],
            JobChange::Promote => &[Scheduled],
        }
    }

    /// Its word: `requeue`, `cancel`, `purge`, `set_priority` or `promote`.
    pub fn word(&self) -> &'static str {
        match self {
            JobChange::Requeue => "requeue",
            JobChange::Cancel { .. } => "cancel",
            JobChange::Purge => "purge",
            JobChange::SetPriority(_) => "set_priority",
            JobChange::Promote => "promote",
        }
    }
}

/// How many jobs one call of `requeue`, `purge`, `cancel` or `set_priority` changes: a transaction that locks few rows.
pub(crate) const OPERATOR_BATCH: usize = 1_000;

impl Session {
    /// Makes one dead or cancelled job ready again; returns how many.
    pub(crate) async fn requeue(&mut self, queue: &str, job_id: JobId) -> Result<u32, Error> {
        let mut command = self.command("requeue");
        command.bind_param("@queue", queue);
        command.bind_param("@job_id", job_id.0);
        self.row("requeue", command).await?.count("requeued")
    }

    /// Makes up to 1,000 dead and cancelled jobs ready again; returns how many.
    pub(crate) async fn requeue_listed(&mut self, queue: &str, jobs: &[JobId]) -> Result<u32, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command("requeue");
        command.bind_param("@queue", queue);
        command.bind_param("@listed", true);
        command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs));
        self.row("requeue", command).await?.count("requeued")
    }

    /// Makes one dead or cancelled job ready again, with another payload; returns whether it was.
    pub(crate) async fn requeue_with(&mut self, queue: &str, job_id: JobId, payload: &[u8]) -> Result<bool, Error> {
        let mut command = self.command("requeue");
        command.bind_param("@queue", queue);
        command.bind_param("@job_id", job_id.0);
        command.bind_param("@payload", payload);
        Ok(self.row("requeue", command).await?.count("requeued")? > 0)
    }

    /// Makes up to 1,000 scheduled jobs ready; returns how many.
    pub(crate) async fn promote_now(&mut self, queue: &str, jobs: &[JobId]) -> Result<u32, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command("promote_now");
        command.bind_param("@queue", queue);
        match jobs {
            [job_id] => command.bind_param("@job_id", job_id.0), // without the round trip that a list costs
            jobs => command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs)),
        }
        self.row("promote_now", command).await?.count("promoted")
    }

    /// Gives up to 1,000 jobs another priority; returns how many had another one before.
    pub(crate) async fn set_priority(&mut self, queue: &str, jobs: &[JobId], priority: i16) -> Result<u32, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command("set_priority");
        command.bind_param("@queue", queue);
        command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs));
        command.bind_param("@priority", priority);
        self.row("set_priority", command).await?.count("changed")
    }

    /// Deletes up to `max` jobs; returns how many.
    pub(crate) async fn purge(
        &mut self,
        queue: &str,
        state: JobState,
        older_than: Duration,
        max: usize,
    ) -> Result<u32, Error> {
        let mut command = self.command("purge");
        command.bind_param("@queue", queue);
        command.bind_param("@state", state.word());
        command.bind_param("@older_than_s", int(older_than.as_secs()));
        command.bind_param("@max", int(max));
        self.row("purge", command).await?.count("purged")
    }

    /// Deletes those of up to 1,000 jobs that are in this state; returns how many.
    pub(crate) async fn purge_listed(&mut self, queue: &str, state: JobState, jobs: &[JobId]) -> Result<u32, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command("purge");
        command.bind_param("@queue", queue);
        command.bind_param("@state", state.word());
        command.bind_param("@listed", true);
        command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs));
        self.row("purge", command).await?.count("purged")
    }
}
