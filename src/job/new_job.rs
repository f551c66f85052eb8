//! A job to enqueue, and its limits.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tiberius::ColumnData;
use uuid::Uuid;

use crate::error::Error;
use crate::id::{BatchId, Enqueued, JobId};
use crate::text::check_name;
use crate::time::{TEN_YEARS, to_datetime2};

use super::headers::Headers;
use super::needs::Needs;
use super::parents::{MAX_PARENTS, OnDead, ParentRef};

/// A job to enqueue: a payload and options.
///
/// ```
/// use std::time::Duration;
///
/// use readpast::NewJob;
///
/// # fn main() -> Result<(), readpast::Error> {
/// let report = NewJob::json(&("report", 2026))?.priority(-10).dedup_key("report-2026");
/// let reminder = NewJob::text("send it again").delay(Duration::from_secs(3600)).max_attempts(3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a job does nothing until it is enqueued"]
pub struct NewJob {
    pub(crate) payload: Vec<u8>,
    pub(crate) priority: i16,
    pub(crate) delay: Option<Duration>,
    pub(crate) due_at: Option<SystemTime>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) dedup_key: Option<String>,
    pub(crate) correlation_id: Option<Uuid>,
    pub(crate) kind: Option<String>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) headers: Option<Headers>,
    pub(crate) group_key: Option<String>,
    pub(crate) batch: Option<BatchId>,
    pub(crate) needs: Option<Needs>,
    pub(crate) latest_start: Option<LatestStart>,
    pub(crate) parents: Vec<ParentRef>,
    pub(crate) on_dead: OnDead,
}

/// When a job may start at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LatestStart {
    By(SystemTime),
    /// After it is due.
    Within(Duration),
}

const MAX_DEDUP_KEY_UNITS: usize = 256;

const MAX_GROUP_KEY_UNITS: usize = 128;

const MAX_KIND_LENGTH: usize = 64;

/// The column is an `int`, in milliseconds.
const TIME_LIMITS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(i32::MAX as u64);

pub(crate) const START_WITHIN: RangeInclusive<Duration> = Duration::from_millis(1)..=TEN_YEARS;

pub(crate) const ALLOWED_KIND: &str = "1 to 64 printable ASCII characters, no spaces";

pub(crate) fn is_kind(kind: &str) -> bool {
    (1..=MAX_KIND_LENGTH).contains(&kind.len()) && kind.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Shows the length of the payload, and no text of the producer.
impl fmt::Debug for NewJob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NewJob")
            .field("payload_bytes", &self.payload.len())
            .field("priority", &self.priority)
            .field("delay", &self.delay)
            .field("due_at", &self.due_at)
            .field("max_attempts", &self.max_attempts)
            .field("kind", &self.kind)
            .field("time_limit", &self.time_limit)
            .field("batch", &self.batch)
            .field("latest_start", &self.latest_start)
            .field("parents", &self.parents.len())
            .finish_non_exhaustive()
    }
}

impl NewJob {
    /// The size of everything that may be long.
    pub(crate) fn held_bytes(&self) -> usize {
        let keys = [&self.dedup_key, &self.group_key, &self.kind].into_iter().flatten().map(String::len).sum::<usize>();
        let objects = self.headers.as_ref().map_or(0, Headers::bytes) + self.needs.as_ref().map_or(0, Needs::bytes);
        self.payload.len() + keys + objects + size_of_val(self.parents.as_slice())
    }

    fn start_by_time(&self) -> Option<SystemTime> {
        match self.latest_start? {
            LatestStart::By(time) => Some(time),
            LatestStart::Within(_) => None,
        }
    }

    /// How long after it is due the job may start.
    pub(crate) fn start_within_time(&self) -> Option<Duration> {
        match self.latest_start? {
            LatestStart::Within(time) => Some(time),
            LatestStart::By(_) => None,
        }
    }

    /// Creates a job with `value` as JSON (UTF-8). The handler reads it with [`Job::json`](crate::Job::json).
    ///
    /// # Errors
    ///
    /// [`Error::Json`] if `value` cannot be written as JSON, for example a map with keys that are not strings.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<NewJob, Error> {
        Ok(NewJob::bytes(serde_json::to_vec(value).map_err(|error| Error::Json { message: error.to_string() })?))
    }

    /// Creates a job with `text` as its payload (UTF-8). The handler reads it with [`Job::text`](crate::Job::text).
    pub fn text(text: impl Into<String>) -> NewJob {
        NewJob::bytes(text.into().into_bytes())
    }

    /// Creates a job with `bytes` as its payload: 0 to 256 MiB.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> NewJob {
        NewJob {
            payload: bytes.into(),
            priority: 0,
            delay: None,
            due_at: None,
            max_attempts: None,
            dedup_key: None,
            correlation_id: None,
            kind: None,
            time_limit: None,
            headers: None,
            group_key: None,
            batch: None,
            needs: None,
            latest_start: None,
            parents: Vec::new(),
            on_dead: OnDead::default(),
        }
    }

    /// Sets the priority. Smaller values run first. Default: 0.
    pub fn priority(mut self, priority: i16) -> NewJob {
        self.priority = priority;
        self
    }

    /// Delays the job by this long, at most ten years, by SQL Server's clock. Excludes [`due_at`](NewJob::due_at).
    pub fn delay(mut self, delay: Duration) -> NewJob {
        self.delay = Some(delay);
        self
    }

    /// Delays the job until this time, by SQL Server's clock. Excludes [`delay`](NewJob::delay).
    pub fn due_at(mut self, due_at: SystemTime) -> NewJob {
        self.due_at = Some(due_at);
        self
    }

    /// Sets the number of attempts after which the job becomes dead, at least 1. Default: the queue's.
    pub fn max_attempts(mut self, max_attempts: u32) -> NewJob {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// Sets the deduplication key: the job is added only if no unfinished job of the queue has the same key. If one
    /// has, the result names that job. 1 to 256 UTF-16 units, no leading or trailing spaces, no control characters,
    /// compared by code point.
    ///
    /// When the job has finished, its key can be used again: if the same job is then enqueued again, it runs again.
    pub fn dedup_key(mut self, key: impl Into<String>) -> NewJob {
        self.dedup_key = Some(key.into());
        self
    }

    /// Sets the producer's own id for whatever the job belongs to.
    pub fn correlation_id(mut self, id: Uuid) -> NewJob {
        self.correlation_id = Some(id);
        self
    }

    /// Sets the job's kind: 1 to 64 printable ASCII characters, no spaces.
    pub fn kind(mut self, kind: impl Into<String>) -> NewJob {
        self.kind = Some(kind.into());
        self
    }

    /// Sets the time limit of each attempt. After that time, the handler is told that it is cancelled
    /// ([`Context::is_cancelled`](crate::handler::Context::is_cancelled)). 1 ms to 24 days (2,147,483,647 ms), rounded
    /// up to whole milliseconds.
    ///
    /// A job's own limit takes precedence, whether it is shorter or longer. Without it, the limit of the kind applies
    /// ([`KindOptions::time_limit`](crate::handler::KindOptions::time_limit)), or else the worker's
    /// (`worker.job_time_limit_ms`).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use readpast::{Context, Job, NewJob};
    ///
    /// let preview = NewJob::text("a.png").kind("resize").time_limit(Duration::from_secs(5));
    /// let context = Context::for_test(Job::for_test(preview));
    /// assert!(context.time_left().is_some_and(|left| left <= Duration::from_secs(5)));
    /// ```
    pub fn time_limit(mut self, limit: Duration) -> NewJob {
        self.time_limit = Some(limit);
        self
    }

    /// Attaches a header for the handler, such as a tenant: a name and a text. The last value of a name counts. All
    /// headers together may be 1,300 UTF-16 units as JSON. Names that begin with `readpast-` are reserved. Headers are
    /// kept as long as the job, and operators see them, so they must not contain secrets.
    ///
    /// With the feature `opentelemetry`, a job without a trace of its own joins the current trace: see
    /// [Traces](crate#traces).
    ///
    /// ```
    /// use readpast::{Job, NewJob};
    ///
    /// let job = Job::for_test(NewJob::text("a.png").header("tenant", "acme"));
    /// assert_eq!(job.header("tenant"), Some("acme"));
    /// ```
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> NewJob {
        self.headers.get_or_insert_default().set(name.into(), value.into());
        self
    }

    /// Puts the job into a group. Jobs of the queue with the same key run one at a time, in the order in which they
    /// were enqueued; [`QueueOptions::group_limit`](crate::procedures::operator::QueueOptions::group_limit) allows more
    /// at once. 1 to 128 UTF-16 units, no leading or trailing spaces, no control characters, compared by code point.
    ///
    /// A [delayed](NewJob::delay) job joins its group when it is due. A job that is retried keeps its turn, unless
    /// [`QueueOptions::retry_passes`](crate::procedures::operator::QueueOptions::retry_passes) is set. A dead or
    /// cancelled job passes its turn on. [Priorities](NewJob::priority) apply only among jobs that have a turn in their
    /// groups.
    ///
    /// In a [fair](crate::procedures::operator::QueueOptions::fair) queue, there are no turns: groups share the workers, and
    /// several jobs of a group run at once.
    ///
    /// The next job starts soon after the previous one is finished. If the finish or the enqueue is part of your own
    /// transaction ([`finish_in`](crate::transaction::finish_in()), [`enqueue_in`](crate::transaction::enqueue_in)), it
    /// starts within about a second after the commit. Queues with
    /// [`Delivery::AtMostOnce`](super::order_completion_delivery::Delivery::AtMostOnce) reject group keys.
    pub fn group_key(mut self, key: impl Into<String>) -> NewJob {
        self.group_key = Some(key.into());
        self
    }

    /// Adds the job to a batch ([`Queue::create_batch`](crate::queue::Queue::create_batch)). If the batch is sealed,
    /// nothing is enqueued ([`Error::BatchNotOpen`]), and a job with such a
    /// [follow-up](crate::handler::Output::enqueue) fails. A duplicate ([`dedup_key`](NewJob::dedup_key)) does not join
    /// the batch. Queues with [`Delivery::AtMostOnce`](super::order_completion_delivery::Delivery::AtMostOnce) reject
    /// batches.
    pub fn batch(mut self, batch: BatchId) -> NewJob {
        self.batch = Some(batch);
        self
    }

    /// Sets what the job needs while it runs: memory, threads and tokens. A resource that is not set is needed as
    /// its kind says. The needs as JSON may be 1,000 characters.
    pub fn needs(mut self, needs: Needs) -> NewJob {
        self.needs = Some(needs);
        self
    }

    /// Lets the job expire if it has not started by this time: it is cancelled, and its error begins with `expired`. For
    /// work that is worth nothing later. Replaces [`start_within`](NewJob::start_within).
    ///
    /// No attempt starts after that time, by SQL Server's clock, so a retry that would come later does not come. An
    /// attempt that has started runs to its end. A job that is not claimed is cancelled within about a second, if a
    /// worker runs. If it is requeued or moved to another queue, it may start at any time.
    pub fn start_by(mut self, time: SystemTime) -> NewJob {
        self.latest_start = Some(LatestStart::By(time));
        self
    }

    /// Lets the job expire if it has not started so long after it was due: after it was enqueued or, with a
    /// [`delay`](NewJob::delay) or [`due_at`](NewJob::due_at), after that time. 1 ms to ten years, rounded up to whole
    /// milliseconds. As [`start_by`](NewJob::start_by), which it replaces.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use readpast::NewJob;
    ///
    /// let quote = NewJob::text("EUR/USD").start_within(Duration::from_secs(30));
    /// ```
    pub fn start_within(mut self, time: Duration) -> NewJob {
        self.latest_start = Some(LatestStart::Within(time));
        self
    }

    /// Lets the job wait for other jobs of any queues, its parents: it starts when all of them are done. A call adds
    /// parents to those of earlier calls. For jobs of the same call, see [`after_earlier`](NewJob::after_earlier).
    ///
    /// Until then, the job is [`Waiting`](crate::admin::JobState::Waiting). A parent that is dead holds it, because the
    /// parent can be requeued; [`on_dead`](NewJob::on_dead) says otherwise. If a parent is cancelled or deleted without
    /// being done, the job is cancelled, and then the jobs that wait for it. A parent whose row is already gone when the
    /// job is enqueued counts as done, even if it was dead and purged. A duplicate ([`dedup_key`](NewJob::dedup_key))
    /// keeps the parents that it has; as a parent, it is the unfinished job with that key.
    ///
    /// The job starts soon after its last parent is finished or, if that is part of your own transaction, within about a
    /// second after its commit. The handler reads the parents' outputs with [`Context::parents`](crate::Context::parents).
    ///
    /// With a [delay](NewJob::delay), the job starts at the later of the two times; with a
    /// [group](NewJob::group_key), it waits for its turn from then on. At most 10,000 parents. An enqueue waits for an
    /// uncommitted finish of a parent. Queues with
    /// [`Delivery::AtMostOnce`](super::order_completion_delivery::Delivery::AtMostOnce) reject such jobs, and cannot
    /// have parents.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::NewJob;
    ///
    /// let render = queue.enqueue(&NewJob::text("scene 1").kind("render")).await?;
    /// queue.enqueue(&NewJob::text("scene 1").kind("publish").after([render.job_id])).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn after(mut self, parents: impl IntoIterator<Item = JobId>) -> NewJob {
        self.parents.extend(parents.into_iter().map(ParentRef::Job));
        self
    }

    /// As [`after`](NewJob::after), for jobs of the same call of
    /// [`Queue::enqueue_many`](crate::Queue::enqueue_many), [`Queue::enqueue_part`](crate::Queue::enqueue_part) or
    /// [`enqueue_in`](crate::transaction::enqueue_in): by their places there, from 0, which must be before this job's.
    /// So no job can wait for itself through others. To hand in the rest of a call that failed in part, use
    /// [`rest`](NewJob::rest).
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::NewJob;
    ///
    /// let thumbnails = ["a.png", "b.png"].map(|name| NewJob::text(name).kind("thumbnail"));
    /// let montage = NewJob::text("ab.png").kind("montage").after_earlier([0, 1]);
    /// queue.enqueue_many(&[thumbnails.as_slice(), &[montage]].concat()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn after_earlier(mut self, places: impl IntoIterator<Item = usize>) -> NewJob {
        self.parents.extend(places.into_iter().map(ParentRef::Earlier));
        self
    }

    /// What becomes of the job if one that it waits for dies. Default: [`OnDead::Hold`]. Of no effect without
    /// [`after`](NewJob::after) or [`after_earlier`](NewJob::after_earlier).
    pub fn on_dead(mut self, on_dead: OnDead) -> NewJob {
        self.on_dead = on_dead;
        self
    }

    /// The jobs that are left after [`Error::EnqueuedInPart`], with the `enqueued` ones as the parents that
    /// [`after_earlier`](NewJob::after_earlier) has named by their places in `jobs`.
    pub fn rest(jobs: &[NewJob], enqueued: &[Enqueued]) -> Vec<NewJob> {
        let mut rest = jobs.get(enqueued.len()..).unwrap_or_default().to_vec();
        for parent in rest.iter_mut().flat_map(|job| &mut job.parents) {
            if let ParentRef::Earlier(place) = *parent {
                *parent = match enqueued.get(place) {
                    Some(enqueued) => ParentRef::Job(enqueued.job_id),
                    None => ParentRef::Earlier(place - enqueued.len()),
                };
            }
        }
        rest
    }

    /// How many parents the job has been given.
    pub fn parents(&self) -> usize {
        self.parents.len()
    }

    /// Whether parents are named by their places.
    pub(crate) fn is_after_earlier(&self) -> bool {
        self.parents.iter().any(|parent| matches!(parent, ParentRef::Earlier(_)))
    }

    /// Rejects what SQL Server would reject or cut. Every enqueue checks its jobs before anything is sent. Call this to
    /// find an invalid job earlier, for example to name the line of an input.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidJob`].
    pub fn check(&self) -> Result<(), Error> {
        let invalid = |reason: String| Err(Error::InvalidJob { reason });
        due_at(self)?;
        start_by(self)?;
        if self.payload.len() > MAX_VALUE_BYTES {
            return invalid(format!(
                "the payload is {} bytes; it must be at most {MAX_VALUE_BYTES} (256 MiB); store it elsewhere and enqueue its address",
                self.payload.len()
            ));
        }
        if self.delay.is_some() && self.due_at.is_some() {
            return invalid("delay and due_at are both set; set one of them".to_string());
        }
        if let Some(delay) = self.delay.filter(|delay| *delay > TEN_YEARS) {
            return invalid(format!(
                "delay is {} s; it must be at most {} s (ten years)",
                delay.as_secs(),
                TEN_YEARS.as_secs()
            ));
        }
        if let Some(LatestStart::Within(time)) = self.latest_start
            && !START_WITHIN.contains(&time)
        {
            return invalid(format!("start_within is {time:?}; it must be 1 ms to ten years"));
        }
        if let Some(max_attempts) = self.max_attempts.filter(|max| i32::try_from(*max).is_err() || *max == 0) {
            return invalid(format!("max_attempts is {max_attempts}; it must be 1 to {}", i32::MAX));
        }
        for (name, key, max_units) in
            [("dedup_key", &self.dedup_key, MAX_DEDUP_KEY_UNITS), ("group_key", &self.group_key, MAX_GROUP_KEY_UNITS)]
        {
            if let Some(key) = key {
                check_name(name, key, max_units).or_else(invalid)?;
            }
        }
        if let Some(headers) = &self.headers {
            headers.check().or_else(invalid)?;
        }
        if let Some(needs) = &self.needs {
            needs.check().or_else(invalid)?;
        }
        if self.parents.len() > MAX_PARENTS {
            return invalid(format!(
                "the job waits for {} others; it must be at most {MAX_PARENTS}; give more to a batch with a follow-up",
                self.parents.len()
            ));
        }
        for parent in &self.parents {
            if let ParentRef::Job(JobId(id @ ..=0)) = parent {
                return invalid(format!("the job waits for job {id}; the id of a job is 1 or more"));
            }
        }
        if let Some(kind) = self.kind.as_deref().filter(|kind| !is_kind(kind)) {
            return invalid(format!("kind is '{kind}'; it must be {ALLOWED_KIND}"));
        }
        if let Some(limit) = self.time_limit.filter(|limit| !TIME_LIMITS.contains(limit)) {
            return invalid(format!("time_limit is {limit:?}; it must be 1 ms to {} ms (24 days)", i32::MAX));
        }
        Ok(())
    }
}

/// The largest payload or output, in bytes. SQL Server stores up to 2 GB. But the driver builds a message in memory,
/// and a value must cross the network within one command timeout, both when it is stored and when it is claimed.
pub(crate) const MAX_VALUE_BYTES: usize = 256 << 20;

/// The largest value in a table-valued parameter, in bytes. The driver cannot send a longer `varbinary(max)` there,
/// because it compares the length with 65,535, the number that stands for "max" on the wire. Larger values are sent as
/// parameters of their own.
pub(crate) const MAX_TABLE_VALUE_BYTES: usize = 65_535;

/// Checks jobs before anything is sent. The error names the index of the job if there are several.
pub(crate) fn check_jobs(jobs: &[NewJob]) -> Result<(), Error> {
    for (index, job) in jobs.iter().enumerate() {
        match job.check() {
            Err(Error::InvalidJob { reason }) if jobs.len() > 1 => {
                return Err(Error::InvalidJob { reason: format!("jobs[{index}]: {reason}") });
            }
            checked => checked?,
        }
        for parent in &job.parents {
            if let ParentRef::Earlier(place) = parent
                && *place >= index
            {
                return Err(Error::InvalidJob {
                    reason: format!("jobs[{index}] waits for jobs[{place}]; it can only wait for those before it"),
                });
            }
        }
    }
    Ok(())
}

/// Checks a job that is enqueued later, by a finish or a schedule, and cannot wait for others.
pub(crate) fn check_alone(job: &NewJob) -> Result<(), Error> {
    if !job.parents.is_empty() {
        return Err(Error::InvalidJob { reason: "it cannot wait for other jobs (after)".to_string() });
    }
    job.check()
}

pub(crate) fn due_at(job: &NewJob) -> Result<ColumnData<'static>, Error> {
    datetime2("due_at", job.due_at)
}

pub(crate) fn start_by(job: &NewJob) -> Result<ColumnData<'static>, Error> {
    datetime2("start_by", job.start_by_time())
}

fn datetime2(name: &str, time: Option<SystemTime>) -> Result<ColumnData<'static>, Error> {
    let Some(time) = time else { return Ok(ColumnData::DateTime2(None)) };
    match to_datetime2(time) {
        Some(time) => Ok(ColumnData::DateTime2(Some(time))),
        None => Err(Error::InvalidJob { reason: format!("{name} must be in the years 1 to 9999") }),
    }
}

#[cfg(test)]
#[path = "new_job_tests.rs"]
mod tests;
