//! A job's row, for operators.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::connection::{Columns, Session};
use crate::error::Error;
use crate::id::{BatchId, Fence, JobId, WorkerId};
use crate::job::{JobState, Needs, Usage, read_headers};
use crate::text::{decode_text, hex};
use crate::time::rfc3339;

/// A job as an operator sees it. All times are SQL Server's.
///
/// If the filter cuts payloads and outputs ([`JobFilter::cut_at`](super::job_filter::JobFilter::cut_at)), `payload` and
/// `output` contain only their beginnings. `payload_bytes` and `output_bytes` are always the full lengths.
///
/// Serialized as JSON, times are in RFC 3339 format, the run time, the CPU time and the time limit are in seconds
/// (`run_s`, `cpu_s`, `time_limit_s`), and the memory is in bytes (`peak_memory_bytes`). The payload is text (`payload_text`) or, if it is not text, hexadecimal digits (`payload_hex`). The
/// same holds for the output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobRow {
    /// The job's id.
    pub job_id: JobId,
    /// The job's state.
    pub state: JobState,
    /// The job's priority. Smaller values run first.
    pub priority: i16,
    /// Whether the job must run alone, on a worker that holds no other job. This is so if workers were lost while they
    /// held the job.
    pub alone: bool,
    /// How often the job was started since it was enqueued or requeued.
    pub attempt: u32,
    /// How often the job was claimed.
    pub fence: Fence,
    /// When the job was enqueued.
    pub enqueued_at: SystemTime,
    /// When the job is due, or became ready.
    pub due_at: SystemTime,
    /// The worker that holds the job, or held it last.
    pub worker_id: Option<WorkerId>,
    /// When the job was last claimed.
    pub claimed_at: Option<SystemTime>,
    /// When the job's last run ended.
    pub finished_at: Option<SystemTime>,
    /// How long the job's last run took.
    pub run: Option<Duration>,
    /// What the job's last run used.
    pub usage: Usage,
    /// The job's kind, if the producer set one.
    pub kind: Option<String>,
    /// The job's own time limit, or `None` if its worker's setting applies.
    pub time_limit: Option<Duration>,
    /// The job's deduplication key.
    pub dedup_key: Option<String>,
    /// The producer's own id.
    pub correlation_id: Option<Uuid>,
    /// Whether the payload is UTF-16, from a producer in T-SQL.
    pub payload_utf16: bool,
    /// The payload.
    pub payload: Vec<u8>,
    /// How many bytes the payload has.
    pub payload_bytes: u64,
    /// The error of the last failed attempt. For a cancelled job: who cancelled it, and why, or `expired` and its limit.
    pub error: Option<String>,
    /// The handler's output.
    pub output: Option<Vec<u8>>,
    /// How many bytes the output has.
    pub output_bytes: Option<u64>,
    /// The job's headers. `None` also if a T-SQL producer attached headers that cannot be read.
    pub headers: Option<serde_json::Map<String, serde_json::Value>>,
    /// The batch to which the job belongs.
    pub batch_id: Option<BatchId>,
    /// The group to which the job belongs.
    pub group_key: Option<String>,
    /// What the job itself needs, if the producer stated anything. Its kind may need more.
    pub needs: Option<Needs>,
    /// When the job expires if it has not started ([`NewJob::start_by`](crate::job::NewJob::start_by)).
    pub start_by: Option<SystemTime>,
    /// Whether the job is dead and its group waits for it
    /// ([`QueueOptions::halt_groups`](super::queue_options::QueueOptions::halt_groups)).
    pub halts_group: bool,
}

impl JobRow {
    /// The payload as text, as [`Job::text`](crate::job::Job::text) reads it, or `None` if it is not text. A payload
    /// that is cut loses an incomplete last character.
    pub fn payload_text(&self) -> Option<Cow<'_, str>> {
        let is_cut = (self.payload.len() as u64) < self.payload_bytes;
        let bytes = match (is_cut, self.payload_utf16) {
            (false, _) => &self.payload[..],
            (true, false) => whole_utf8(&self.payload),
            (true, true) => whole_utf16(&self.payload),
        };
        decode_text(bytes, self.payload_utf16).ok()
    }

    /// The output as text, or `None` if there is no output or it is not UTF-8. An output that is cut loses an
    /// incomplete last character.
    pub fn output_text(&self) -> Option<&str> {
        let output = self.output.as_deref()?;
        let is_cut = self.output_bytes.is_some_and(|bytes| (output.len() as u64) < bytes);
        std::str::from_utf8(if is_cut { whole_utf8(output) } else { output }).ok()
    }

    /// Reads a row of `peek`.
    pub(crate) fn read(mut row: Columns) -> Result<JobRow, Error> {
        let read = JobRow {
            job_id: JobId(row.required("job_id")?),
            state: row.one_of("state", &JobState::WORDS)?,
            priority: row.required("priority")?,
            alone: row.required("alone")?,
            attempt: row.count("attempt")?,
            fence: Fence(row.required("fence")?),
            enqueued_at: row.required_time("enqueued_at")?,
            due_at: row.required_time("due_at")?,
            worker_id: row.optional("worker_id")?.map(WorkerId),
            claimed_at: row.optional_time("claimed_at")?,
            finished_at: row.optional_time("finished_at")?,
            run: row.optional_us("run_us")?,
            kind: row.optional("kind")?,
            dedup_key: row.optional("dedup_key")?,
            correlation_id: row.optional("correlation_id")?,
            payload_utf16: row.required("payload_utf16")?,
            payload: row.required("payload")?,
            error: {
                row.optional::<String>("payload_text")?; // not asked for
                row.optional("error")?
            },
            output: row.optional("output")?,
            time_limit: {
                row.optional::<String>("output_text")?; // nor this
                row.optional_count_ms("time_limit_ms")?
            },
            headers: row.optional_headers("headers")?,
            batch_id: row.optional("batch_id")?.map(BatchId),
            group_key: row.optional("group_key")?,
            payload_bytes: row.big_count("payload_bytes")?,
            output_bytes: row.optional_big_count("output_bytes")?,
            needs: row.optional_needs("needs")?,
            usage: row.usage()?,
            start_by: row.optional_time("start_by")?,
            halts_group: row.required("halts")?,
        };
        Ok(read)
    }
}

/// Returns the beginning of a UTF-8 text without a last character that is cut.
fn whole_utf8(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Returns the beginning of a UTF-16 text without a last character that is cut.
fn whole_utf16(bytes: &[u8]) -> &[u8] {
    let bytes = &bytes[..bytes.len() / 2 * 2];
    match bytes.as_chunks::<2>().0 {
        [before @ .., last] if (0xd800..0xdc00).contains(&u16::from_le_bytes(*last)) => before.as_flattened(),
        _ => bytes,
    }
}

impl Serialize for JobRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let payload_text = self.payload_text();
        let payload_hex = payload_text.is_none().then(|| hex(&self.payload));
        let output_text = self.output_text();
        let output_hex = self.output.as_deref().filter(|_| output_text.is_none()).map(hex);
        let mut job = serializer.serialize_struct("JobRow", 31)?;
        job.serialize_field("job_id", &self.job_id)?;
        job.serialize_field("state", &self.state)?;
        job.serialize_field("kind", &self.kind)?;
        job.serialize_field("priority", &self.priority)?;
        job.serialize_field("alone", &self.alone)?;
        job.serialize_field("attempt", &self.attempt)?;
        job.serialize_field("fence", &self.fence)?;
        job.serialize_field("enqueued_at", &rfc3339(self.enqueued_at))?;
        job.serialize_field("due_at", &rfc3339(self.due_at))?;
        job.serialize_field("start_by", &self.start_by.map(rfc3339))?;
        job.serialize_field("worker_id", &self.worker_id)?;
        job.serialize_field("claimed_at", &self.claimed_at.map(rfc3339))?;
        job.serialize_field("finished_at", &self.finished_at.map(rfc3339))?;
        job.serialize_field("run_s", &self.run.map(|run| run.as_secs_f64()))?;
        job.serialize_field("cpu_s", &self.usage.cpu.map(|cpu| cpu.as_secs_f64()))?;
        job.serialize_field("peak_memory_bytes", &self.usage.peak_memory)?;
        job.serialize_field("time_limit_s", &self.time_limit.map(|limit| limit.as_secs_f64()))?;
        job.serialize_field("dedup_key", &self.dedup_key)?;
        job.serialize_field("correlation_id", &self.correlation_id)?;
        job.serialize_field("headers", &self.headers)?;
        job.serialize_field("batch_id", &self.batch_id)?;
        job.serialize_field("group_key", &self.group_key)?;
        job.serialize_field("halts_group", &self.halts_group)?;
        job.serialize_field("needs", &self.needs)?;
        job.serialize_field("payload_text", &payload_text)?;
        job.serialize_field("payload_hex", &payload_hex)?;
        job.serialize_field("payload_bytes", &self.payload_bytes)?;
        job.serialize_field("error", &self.error)?;
        job.serialize_field("output_text", &output_text)?;
        job.serialize_field("output_hex", &output_hex)?;
        job.serialize_field("output_bytes", &self.output_bytes)?;
        job.end()
    }
}

impl Session {
    /// The queue that has a job.
    pub(crate) async fn find_job(&mut self, job_id: JobId) -> Result<Option<String>, Error> {
        let mut command = self.command("find_job");
        command.bind_param("@job_id", job_id.0);
        self.row("find_job", command).await?.optional("queue")
    }
}

impl Columns {
    /// Reads what a run used.
    pub(super) fn usage(&mut self) -> Result<Usage, Error> {
        let cpu = self.optional_us("cpu_us")?;
        let bytes: Option<i64> = self.optional("peak_bytes")?;
        // A worker in another language may have written anything.
        Ok(Usage { cpu, peak_memory: bytes.and_then(|bytes| u64::try_from(bytes).ok()) })
    }

    /// Reads a job's headers, or `None` if they cannot be read.
    pub(crate) fn optional_headers(&mut self, name: &str) -> Result<Option<Map<String, Value>>, Error> {
        Ok(self.optional::<String>(name)?.and_then(|json| read_headers(&json)))
    }

    /// Reads a job's needs, or `None` if they cannot be read, because somebody changed the table.
    pub(crate) fn optional_needs(&mut self, name: &str) -> Result<Option<Needs>, Error> {
        Ok(self.optional::<String>(name)?.and_then(|json| serde_json::from_str(&json).ok()))
    }
}
