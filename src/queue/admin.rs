//! What operators do: create a queue, look at it, stop and start it, bring dead jobs back, throw old ones away.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use tiberius::{ColumnData, Command};
use uuid::Uuid;

use super::claim::int;
use super::connection::{Columns, Lane, to_datetime2};
use super::{ClaimOrder, Completion, Delivery, Keep, QueueOptions, QueueStats};
use crate::error::Error;
use crate::job::{Fence, JobId, decode_text};

/// Where a job is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Waits to be claimed.
    Ready,
    /// Waits for its time.
    Scheduled,
    /// Held by a worker.
    Claimed,
    /// Run, and kept in the table (completion policy `annotate`).
    Done,
    /// Out of attempts, or failed for good.
    Dead,
    /// Run, and moved to the archive (completion policy `archive`).
    Archived,
}

impl JobState {
    const WORDS: [(&'static str, JobState); 6] = [
        ("ready", JobState::Ready),
        ("scheduled", JobState::Scheduled),
        ("claimed", JobState::Claimed),
        ("done", JobState::Done),
        ("dead", JobState::Dead),
        ("archived", JobState::Archived),
    ];

    fn word(self) -> &'static str {
        super::word(&JobState::WORDS, self)
    }
}

/// A job as an operator sees it. All times are SQL Server's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobRow {
    /// The job's number.
    pub job_id: JobId,
    /// Where it is on its way.
    pub state: JobState,
    /// Smaller runs first.
    pub priority: i16,
    /// It goes only to a worker that holds nothing else, because workers were lost while they held it.
    pub alone: bool,
    /// How often it was started since it was enqueued or requeued.
    pub attempt: u32,
    /// How often it was claimed.
    pub fence: Fence,
    /// When it was enqueued.
    pub enqueued_at: SystemTime,
    /// When it may run, or became ready.
    pub due_at: SystemTime,
    /// The worker that holds it, or held it last.
    pub worker_id: Option<Uuid>,
    /// When it was claimed last.
    pub claimed_at: Option<SystemTime>,
    /// When its last run ended.
    pub finished_at: Option<SystemTime>,
    /// How long its last run took.
    pub run: Option<Duration>,
    /// What sort of job it is, as far as the producer said.
    pub kind: Option<String>,
    /// Its de-duplication key.
    pub dedup_key: Option<String>,
    /// The producer's own id.
    pub correlation_id: Option<Uuid>,
    /// Whether the payload is UTF-16, from a producer in T-SQL.
    pub payload_utf16: bool,
    /// The payload.
    pub payload: Vec<u8>,
    /// The error of the last failed attempt.
    pub error: Option<String>,
    /// What the handler left behind.
    pub output: Option<Vec<u8>>,
}

impl JobRow {
    /// The payload as text, as [`Job::text`](crate::Job::text) reads it; `None` where it is none.
    pub fn payload_text(&self) -> Option<Cow<'_, str>> {
        decode_text(&self.payload, self.payload_utf16).ok()
    }

    /// The output as text; `None` where there is no output, or it is not UTF-8.
    pub fn output_text(&self) -> Option<&str> {
        std::str::from_utf8(self.output.as_deref()?).ok()
    }
}

impl Lane {
    /// Creates a queue or changes its settings; returns whether it is new.
    pub(crate) async fn create_queue(&mut self, queue: &str, options: &QueueOptions) -> Result<bool, Error> {
        let keep_done_s = kept_s("keep_done", options.keep_done)?;
        let keep_dead_s = kept_s("keep_dead", options.keep_dead)?;
        let mut command = self.command("create_queue");
        command.bind_param("@queue", queue);
        if let Some(claim_order) = options.claim_order {
            command.bind_param("@claim_order", claim_order.word());
        }
        if let Some(completion) = options.completion {
            command.bind_param("@completion", completion.word());
        }
        if let Some(delivery) = options.delivery {
            command.bind_param("@delivery", delivery.word());
        }
        if let Some(max_attempts) = options.max_attempts {
            command.bind_param("@max_attempts", i32::try_from(max_attempts).unwrap_or(i32::MAX));
        }
        command.bind_param("@keep_done_s", keep_done_s);
        command.bind_param("@keep_dead_s", keep_dead_s);
        let mut row = self.row("create_queue", command).await?;
        row.required::<i32>("queue_id")?;
        row.required("created")
    }

    /// Counts the queue's jobs.
    pub(crate) async fn stats(&mut self, queue: &str) -> Result<QueueStats, Error> {
        let mut command = self.command("stats");
        command.bind_param("@queue", queue);
        let mut row = self.row("stats", command).await?;
        Ok(QueueStats {
            queue: row.required("queue")?,
            claim_order: row.one_of("claim_order", &ClaimOrder::WORDS)?,
            completion: row.one_of("completion", &Completion::WORDS)?,
            delivery: row.one_of("delivery", &Delivery::WORDS)?,
            max_attempts: row.count("max_attempts")?,
            paused: row.required("paused")?,
            ready: row.big_count("ready")?,
            scheduled: row.big_count("scheduled")?,
            claimed: row.big_count("claimed")?,
            done: row.big_count("done")?,
            dead: row.big_count("dead")?,
            archived: row.big_count("archived")?,
            workers: row.big_count("workers")?,
            oldest_ready: row
                .optional::<i64>("oldest_ready_ms")?
                .map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
            keep_done: read_keep(&mut row, "keep_done_s")?,
            keep_dead: read_keep(&mut row, "keep_dead_s")?,
        })
    }

    /// Runs `pause` or `resume`.
    pub(crate) async fn set_paused(&mut self, queue: &str, paused: bool) -> Result<(), Error> {
        let name = if paused { "pause" } else { "resume" };
        let mut command = self.command(name);
        command.bind_param("@queue", queue);
        self.run(name, command).await?;
        Ok(())
    }

    /// Makes one dead job, or up to `max`, ready again; returns how many.
    pub(crate) async fn requeue(&mut self, queue: &str, job_id: Option<JobId>, max: usize) -> Result<u32, Error> {
        let mut command = self.command("requeue");
        command.bind_param("@queue", queue);
        if let Some(job_id) = job_id {
            command.bind_param("@job_id", job_id.0);
        }
        command.bind_param("@max", int(max));
        self.row("requeue", command).await?.count("requeued")
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
        command.bind_param("@older_than_s", i32::try_from(older_than.as_secs()).unwrap_or(i32::MAX));
        command.bind_param("@max", int(max));
        self.row("purge", command).await?.count("purged")
    }

    /// Looks at up to `max` jobs in one state, beginning after the row `after`.
    pub(crate) async fn peek(
        &mut self,
        queue: &str,
        state: JobState,
        after: Option<&JobRow>,
        max: usize,
    ) -> Result<Vec<JobRow>, Error> {
        let mut command = self.peek_command(queue);
        command.bind_param("@state", state.word());
        command.bind_param("@max", int(max));
        if let Some(after) = after {
            bind_after(&mut command, state, after)?;
        }
        self.rows("peek", command).await?.into_iter().map(read_row).collect()
    }

    /// Looks at one job.
    pub(crate) async fn peek_one(&mut self, queue: &str, job_id: JobId) -> Result<Option<JobRow>, Error> {
        let mut command = self.peek_command(queue);
        command.bind_param("@job_id", job_id.0);
        self.rows("peek", command).await?.pop().map(read_row).transpose()
    }

    fn peek_command<'a>(&self, queue: &'a str) -> Command<'a> {
        let mut command = self.command("peek");
        command.bind_param("@queue", queue);
        command.bind_param("@texts", false); // JobRow reads the bytes itself
        command
    }
}

/// The longest that finished jobs are kept, unless for ever: ten years.
const MAX_KEEP_S: u64 = 315_360_000;

/// As `create_queue` has it: 0 is for ever, NULL leaves it as it is.
fn kept_s(name: &str, keep: Option<Keep>) -> Result<Option<i32>, Error> {
    let duration = match keep {
        None => return Ok(None),
        Some(Keep::Forever) => return Ok(Some(0)),
        Some(Keep::For(duration)) => duration,
    };
    // A part of a second counts as one: nothing is deleted too early.
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    match i32::try_from(seconds) {
        Ok(in_int) if (1..=MAX_KEEP_S).contains(&seconds) => Ok(Some(in_int)),
        _ => Err(Error::Refused {
            message: format!("{name} is {seconds} s; it must be 1 s to {MAX_KEEP_S} s (ten years), or for ever"),
        }),
    }
}

fn read_keep(row: &mut Columns, name: &str) -> Result<Keep, Error> {
    let seconds: Option<i32> = row.optional(name)?;
    Ok(match seconds {
        None => Keep::Forever,
        Some(seconds) => Keep::For(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
    })
}

/// Names the row that a page begins after, by the columns in whose order the state's jobs stand.
fn bind_after(command: &mut Command<'_>, state: JobState, after: &JobRow) -> Result<(), Error> {
    if after.state != state {
        return Err(Error::Refused {
            message: format!(
                "the page of {} jobs cannot begin after job {}, which is {}",
                state.word(),
                after.job_id,
                after.state.word()
            ),
        });
    }
    command.bind_param("@after", after.job_id.0);
    match state {
        JobState::Ready => {
            command.bind_param("@after_priority", after.priority);
            command.bind_param("@after_alone", after.alone);
        }
        JobState::Scheduled => {
            command.bind_param("@after_time", ColumnData::DateTime2(to_datetime2(after.due_at)));
        }
        JobState::Claimed => {}
        JobState::Done | JobState::Dead | JobState::Archived => {
            command.bind_param("@after_time", ColumnData::DateTime2(after.finished_at.and_then(to_datetime2)));
        }
    }
    Ok(())
}

fn read_row(mut row: Columns) -> Result<JobRow, Error> {
    let read = JobRow {
        job_id: JobId(row.required("job_id")?),
        state: row.one_of("state", &JobState::WORDS)?,
        priority: row.required("priority")?,
        alone: row.required("alone")?,
        attempt: row.count("attempt")?,
        fence: Fence(row.required("fence")?),
        enqueued_at: row.required_time("enqueued_at")?,
        due_at: row.required_time("due_at")?,
        worker_id: row.optional("worker_id")?,
        claimed_at: row.optional_time("claimed_at")?,
        finished_at: row.optional_time("finished_at")?,
        run: row.optional::<i64>("run_us")?.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0))),
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
    };
    Ok(read)
}
