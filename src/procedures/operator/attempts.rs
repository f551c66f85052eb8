//! What is known of a job's runs: its failed attempts, their errors, its progress.

use std::time::{Duration, SystemTime};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::connection::{Columns, Session, id_rows, int, table_type};
use crate::error::Error;
use crate::id::{Fence, JobId, WorkerId};
use crate::job::JobState;
use crate::time::rfc3339;

/// An attempt of a job that has failed, as [`Admin::attempts`](crate::admin::Admin::attempts) shows it.
///
/// As JSON it has the time as in RFC 3339 and the run time in seconds (`run_s`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedAttempt {
    /// Which attempt it was, counted since the job was enqueued or requeued.
    pub attempt: u32,
    /// The fence that it ran under: it grows from attempt to attempt, also over a requeue.
    pub fence: Fence,
    /// The worker that ran it.
    pub worker_id: WorkerId,
    /// The worker's name (`worker.name`).
    pub worker: String,
    /// When it failed, by SQL Server's clock.
    pub failed_at: SystemTime,
    /// How long it ran; `None`: its worker was lost.
    pub run: Option<Duration>,
    /// Why it failed; `None` where a worker in another language gave no error.
    pub error: Option<String>,
}

impl FailedAttempt {
    fn read(mut row: Columns) -> Result<FailedAttempt, Error> {
        Ok(FailedAttempt {
            attempt: row.count("attempt")?,
            fence: Fence(row.required("fence")?),
            worker_id: WorkerId(row.required("worker_id")?),
            worker: row.required("worker")?,
            failed_at: row.required_time("failed_at")?,
            run: row.optional_us("run_us")?,
            error: row.optional("error")?,
        })
    }
}

impl Serialize for FailedAttempt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut attempt = serializer.serialize_struct("FailedAttempt", 7)?;
        attempt.serialize_field("attempt", &self.attempt)?;
        attempt.serialize_field("fence", &self.fence)?;
        attempt.serialize_field("worker_id", &self.worker_id)?;
        attempt.serialize_field("worker", &self.worker)?;
        attempt.serialize_field("failed_at", &rfc3339(self.failed_at))?;
        attempt.serialize_field("run_s", &self.run.map(|run| run.as_secs_f64()))?;
        attempt.serialize_field("error", &self.error)?;
        attempt.end()
    }
}

impl Session {
    /// The failed attempts of a job, the oldest first.
    pub(crate) async fn attempts(&mut self, queue: &str, job_id: JobId) -> Result<Vec<FailedAttempt>, Error> {
        let mut command = self.command("peek_attempts");
        command.bind_param("@queue", queue);
        command.bind_param("@job_id", job_id.0);
        self.rows("peek_attempts", command).await?.into_iter().map(FailedAttempt::read).collect()
    }
}

/// A job as `list_errors` has it.
pub(crate) struct FailedJob {
    pub(crate) job_id: JobId,
    pub(crate) kind: Option<String>,
    pub(crate) failed_at: SystemTime,
    pub(crate) error: Option<String>,
}

impl FailedJob {
    fn read(mut row: Columns) -> Result<FailedJob, Error> {
        Ok(FailedJob {
            job_id: JobId(row.required("job_id")?),
            kind: row.optional("kind")?,
            failed_at: row.required_time("finished_at")?,
            error: row.optional("error")?,
        })
    }
}

impl Session {
    pub(crate) async fn failures(&mut self, queue: &str, state: JobState, max: usize) -> Result<Vec<FailedJob>, Error> {
        let mut command = self.command("list_errors");
        command.bind_param("@queue", queue);
        command.bind_param("@state", state.word());
        command.bind_param("@max", int(max));
        let rows = self.rows("list_errors", command).await?;
        rows.into_iter().map(FailedJob::read).collect()
    }
}

/// How far a job is, as it has noted it itself ([`Context::progress`](crate::handler::Context::progress)).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobProgress {
    /// The job.
    pub job_id: JobId,
    /// From 0 to 1.
    pub fraction: Option<f32>,
    /// In words.
    pub text: Option<String>,
    /// How large its [checkpoint](crate::handler::Context::checkpoint) is; 0: it has none.
    pub checkpoint_bytes: u64,
    /// How long ago it noted something, by SQL Server's clock.
    #[serde(rename = "noted_s", serialize_with = "crate::time::seconds_of")]
    pub noted: Duration,
}

impl Session {
    /// How far jobs are that have noted something.
    pub(crate) async fn progress_of(&mut self, queue: &str, jobs: &[JobId]) -> Result<Vec<JobProgress>, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command("progress_of");
        command.bind_param("@queue", queue);
        command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs));
        let mut found = Vec::new();
        for mut row in self.rows("progress_of", command).await? {
            found.push(JobProgress {
                job_id: JobId(row.required("job_id")?),
                fraction: row.optional("fraction")?,
                text: row.optional("text")?,
                checkpoint_bytes: row.big_count("checkpoint_bytes")?,
                noted: row.required_ms("noted_ms")?,
            });
        }
        Ok(found)
    }
}
