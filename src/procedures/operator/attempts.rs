//! The runs of a job, for operators: failed attempts, their errors, and progress.

use std::time::{Duration, SystemTime};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::connection::{Columns, Session, id_rows, int, table_type};
use crate::error::Error;
use crate::id::{Fence, JobId, WorkerId};
use crate::job::{JobState, Usage};
use crate::time::rfc3339;

/// A failed attempt of a job, as returned by [`Admin::attempts`](crate::admin::Admin::attempts).
///
/// Serialized as JSON, the time is in RFC 3339 format, the run time and the CPU time are in seconds (`run_s`, `cpu_s`),
/// and the memory is in bytes (`peak_memory_bytes`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedAttempt {
    /// The number of the attempt, counted since the job was enqueued or requeued.
    pub attempt: u32,
    /// The fence under which the attempt ran. It grows with each attempt, and requeueing does not reset it.
    pub fence: Fence,
    /// The worker that ran the job.
    pub worker_id: WorkerId,
    /// The worker's name (`worker.name`).
    pub worker: String,
    /// When the attempt failed, by SQL Server's clock.
    pub failed_at: SystemTime,
    /// How long the attempt ran, or `None` if its worker was lost.
    pub run: Option<Duration>,
    /// What the attempt used.
    pub usage: Usage,
    /// Why the attempt failed, or `None` if a worker in another language gave no error.
    pub error: Option<String>,
    /// The queue in which the attempt failed: another one if the job was moved afterwards. `None` if that queue was
    /// deleted.
    pub queue: Option<String>,
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
            queue: row.optional("queue")?,
            usage: row.usage()?,
        })
    }
}

impl Serialize for FailedAttempt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut attempt = serializer.serialize_struct("FailedAttempt", 10)?;
        attempt.serialize_field("attempt", &self.attempt)?;
        attempt.serialize_field("fence", &self.fence)?;
        attempt.serialize_field("worker_id", &self.worker_id)?;
        attempt.serialize_field("worker", &self.worker)?;
        attempt.serialize_field("failed_at", &rfc3339(self.failed_at))?;
        attempt.serialize_field("run_s", &self.run.map(|run| run.as_secs_f64()))?;
        attempt.serialize_field("cpu_s", &self.usage.cpu.map(|cpu| cpu.as_secs_f64()))?;
        attempt.serialize_field("peak_memory_bytes", &self.usage.peak_memory)?;
        attempt.serialize_field("error", &self.error)?;
        attempt.serialize_field("queue", &self.queue)?;
        attempt.end()
    }
}

impl Session {
    /// Returns a job's failed attempts, the oldest first.
    pub(crate) async fn attempts(&mut self, queue: &str, job_id: JobId) -> Result<Vec<FailedAttempt>, Error> {
        let mut command = self.command("peek_attempts");
        command.bind_param("@queue", queue);
        command.bind_param("@job_id", job_id.0);
        self.rows("peek_attempts", command).await?.into_iter().map(FailedAttempt::read).collect()
    }
}

/// A row of `list_errors`.
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

/// A job's progress, as reported by its handler ([`Context::progress`](crate::handler::Context::progress)).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobProgress {
    /// The job.
    pub job_id: JobId,
    /// The progress as a fraction, from 0 to 1.
    pub fraction: Option<f32>,
    /// The progress as text.
    pub text: Option<String>,
    /// The size of its [checkpoint](crate::handler::Context::checkpoint) in bytes, or 0 if it has none.
    pub checkpoint_bytes: u64,
    /// How long ago the job last reported progress or a checkpoint, by SQL Server's clock.
    #[serde(rename = "noted_s", serialize_with = "crate::time::json_seconds_of")]
    pub noted: Duration,
}

impl Session {
    /// Returns the progress of the jobs that have reported progress.
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
