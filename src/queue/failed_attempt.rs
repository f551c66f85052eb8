//! The failed attempts of a job.

use std::time::{Duration, SystemTime};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::lasting_session::Session;
use super::result_columns::Columns;
use crate::error::Error;
use crate::ids::{Fence, JobId, WorkerId};
use crate::json_formats::rfc3339;

/// An attempt of a job that has failed, as [`Queue::attempts`](super::Queue::attempts) shows it.
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
