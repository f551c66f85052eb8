//! The schedules of a queue, for operators.

use std::time::{Duration, SystemTime};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::connection::{Columns, Session, int, ms};
use crate::error::Error;
use crate::id::{Enqueued, JobId};
use crate::job::{Headers, JobState, Needs, Schedule};
use crate::text::{decode_text, hex};
use crate::time::{CronTimes, rfc3339};

/// A schedule as an operator sees it. All times are SQL Server's.
///
/// Serialized as JSON, times are in RFC 3339 format, and the jitter and the time limit are in seconds (`jitter_s`,
/// `time_limit_s`). The payload is text (`payload_text`) or, if it is not text, hexadecimal digits (`payload_hex`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleRow {
    /// The schedule's name.
    pub name: String,
    /// The cron expression.
    pub cron: String,
    /// The time zone of the cron expression.
    pub time_zone: String,
    /// How many of the most recent missed times are made up for.
    pub make_up: u32,
    /// The longest random delay by which a job starts after its time.
    pub jitter: Duration,
    /// The priority of the schedule's jobs. Smaller values run first.
    pub priority: i16,
    /// After how many attempts the schedule's jobs become dead, or `None` if the queue's setting applies.
    pub max_attempts: Option<u32>,
    /// The time limit of the schedule's jobs, or `None` if their worker's setting applies.
    pub time_limit: Option<Duration>,
    /// The kind of the schedule's jobs.
    pub kind: Option<String>,
    /// The deduplication key of the schedule's jobs, or `None` if each has its own.
    pub dedup_key: Option<String>,
    /// The correlation id of the schedule's jobs.
    pub correlation_id: Option<Uuid>,
    /// Whether the payload is UTF-16, because the schedule was set in T-SQL.
    pub payload_utf16: bool,
    /// The payload of the schedule's jobs.
    pub payload: Vec<u8>,
    /// Whether the schedule is paused. Its times pass without jobs.
    pub paused: bool,
    /// The next time. (Without the feature `schedules`, this is the time at which the schedule was set or resumed, for
    /// about a second after that.)
    pub next_at: SystemTime,
    /// The last time that was fired.
    pub last_at: Option<SystemTime>,
    /// The job of that time, or the unfinished job that had its key.
    pub last_job_id: Option<JobId>,
    /// The state of that job, or `None` if its row is gone. In the dead queue, it is dead.
    pub last_job_state: Option<JobState>,
    /// The queue that the job is in, if its row is there. It may have been moved.
    pub last_job_queue: Option<String>,
    /// Why a worker's last try to fire the schedule failed. It tries again every ten seconds.
    pub error: Option<String>,
    /// The headers of the schedule's jobs. `None` also if they were set in T-SQL and cannot be read.
    pub headers: Option<serde_json::Map<String, serde_json::Value>>,
    /// The group of the schedule's jobs.
    pub group_key: Option<String>,
    /// What the schedule's jobs need.
    pub needs: Option<Needs>,
    /// How long after their time the schedule's jobs expire.
    pub start_within: Option<Duration>,
}

impl ScheduleRow {
    fn read(mut row: Columns) -> Result<ScheduleRow, Error> {
        let mut schedule = ScheduleRow {
            name: row.required("name")?,
            cron: row.required("cron")?,
            time_zone: row.required("time_zone")?,
            make_up: row.count("make_up")?,
            jitter: row.optional_count_ms("jitter_ms")?.unwrap_or_default(),
            priority: row.required("priority")?,
            max_attempts: row.optional_count("max_attempts")?,
            time_limit: row.optional_count_ms("time_limit_ms")?,
            kind: row.optional("kind")?,
            dedup_key: row.optional("dedup_key")?,
            correlation_id: row.optional("correlation_id")?,
            payload_utf16: row.required("payload_utf16")?,
            payload: row.required("payload")?,
            paused: row.required("paused")?,
            next_at: row.required_time("next_at")?,
            last_at: row.optional_time("last_at")?,
            last_job_id: row.optional("last_job_id")?.map(JobId),
            last_job_state: row.optional_one_of("last_job_state", &JobState::WORDS)?,
            last_job_queue: row.optional("last_job_queue")?,
            error: row.optional("error")?,
            headers: row.optional_headers("headers")?,
            group_key: row.optional("group_key")?,
            needs: row.optional_needs("needs")?,
            start_within: row.optional_ms("start_within_ms")?,
        };
        // Until a worker has read the schedule, `next_at` is the time at which the schedule was set.
        if let Ok(times) = CronTimes::read(&schedule.cron, &schedule.time_zone)
            && let Ok(next_at) = times.first_from(schedule.next_at)
        {
            schedule.next_at = next_at;
        }
        Ok(schedule)
    }
}

impl Serialize for ScheduleRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let payload_text = decode_text(&self.payload, self.payload_utf16).ok();
        let payload_hex = payload_text.is_none().then(|| hex(&self.payload));
        let mut schedule = serializer.serialize_struct("ScheduleRow", 24)?;
        schedule.serialize_field("name", &self.name)?;
        schedule.serialize_field("cron", &self.cron)?;
        schedule.serialize_field("time_zone", &self.time_zone)?;
        schedule.serialize_field("make_up", &self.make_up)?;
        schedule.serialize_field("jitter_s", &self.jitter.as_secs_f64())?;
        schedule.serialize_field("priority", &self.priority)?;
        schedule.serialize_field("max_attempts", &self.max_attempts)?;
        schedule.serialize_field("time_limit_s", &self.time_limit.map(|limit| limit.as_secs_f64()))?;
        schedule.serialize_field("kind", &self.kind)?;
        schedule.serialize_field("dedup_key", &self.dedup_key)?;
        schedule.serialize_field("correlation_id", &self.correlation_id)?;
        schedule.serialize_field("payload_text", &payload_text)?;
        schedule.serialize_field("payload_hex", &payload_hex)?;
        schedule.serialize_field("paused", &self.paused)?;
        schedule.serialize_field("next_at", &rfc3339(self.next_at))?;
        schedule.serialize_field("last_at", &self.last_at.map(rfc3339))?;
        schedule.serialize_field("last_job_id", &self.last_job_id)?;
        schedule.serialize_field("last_job_state", &self.last_job_state)?;
        schedule.serialize_field("last_job_queue", &self.last_job_queue)?;
        schedule.serialize_field("error", &self.error)?;
        schedule.serialize_field("headers", &self.headers)?;
        schedule.serialize_field("group_key", &self.group_key)?;
        schedule.serialize_field("needs", &self.needs)?;
        schedule.serialize_field("start_within_s", &self.start_within.map(|time| time.as_secs_f64()))?;
        schedule.end()
    }
}

impl Session {
    /// Sets a schedule; returns whether it is new.
    pub(crate) async fn set_schedule(&mut self, queue: &str, schedule: &Schedule) -> Result<bool, Error> {
        schedule.check()?;
        let job = &schedule.job;
        let mut command = self.action("set_schedule");
        command.bind_param("@queue", queue);
        command.bind_param("@name", schedule.name.as_str());
        command.bind_param("@cron", schedule.cron.as_str());
        command.bind_param("@time_zone", schedule.time_zone.as_str());
        command.bind_param("@payload", job.payload.as_slice());
        command.bind_param("@priority", job.priority);
        command.bind_param("@max_attempts", job.max_attempts.map(int));
        command.bind_param("@dedup_key", job.dedup_key.as_deref());
        command.bind_param("@correlation_id", job.correlation_id);
        command.bind_param("@kind", job.kind.as_deref());
        command.bind_param("@time_limit_ms", job.time_limit.map(ms));
        command.bind_param("@headers", job.headers.as_ref().map(Headers::json));
        command.bind_param("@group_key", job.group_key.as_deref());
        if let Some(needs) = &job.needs {
            command.bind_param("@needs", needs.json());
        }
        if let Some(time) = job.start_within_time() {
            command.bind_param("@start_within_ms", ms(time));
        }
        command.bind_param("@make_up", int(schedule.make_up));
        command.bind_param("@jitter_ms", int(ms(schedule.jitter)));
        self.row("set_schedule", command).await?.required("created")
    }

    /// Deletes a schedule; returns whether there was one.
    pub(crate) async fn delete_schedule(&mut self, queue: &str, name: &str) -> Result<bool, Error> {
        let mut command = self.action("delete_schedule");
        command.bind_param("@queue", queue);
        command.bind_param("@name", name);
        self.row("delete_schedule", command).await?.required("deleted")
    }

    /// Pauses or resumes a schedule.
    pub(crate) async fn set_schedule_paused(&mut self, queue: &str, name: &str, paused: bool) -> Result<(), Error> {
        let call = if paused { "pause_schedule" } else { "resume_schedule" };
        let mut command = self.action(call);
        command.bind_param("@queue", queue);
        command.bind_param("@name", name);
        self.run(call, command).await?;
        Ok(())
    }

    /// Enqueues a schedule's job now, in addition to its times.
    pub(crate) async fn run_schedule_now(&mut self, queue: &str, name: &str) -> Result<Enqueued, Error> {
        let mut command = self.action("run_schedule_now");
        command.bind_param("@queue", queue);
        command.bind_param("@name", name);
        let mut row = self.row("run_schedule_now", command).await?;
        Ok(Enqueued { job_id: JobId(row.required("job_id")?), duplicate: row.required("duplicate")? })
    }

    /// Returns the schedules of a queue, by name.
    pub(crate) async fn list_schedules(&mut self, queue: &str) -> Result<Vec<ScheduleRow>, Error> {
        let mut command = self.command("list_schedules");
        command.bind_param("@queue", queue);
        self.rows("list_schedules", command).await?.into_iter().map(ScheduleRow::read).collect()
    }
}
