//! Jobs: what a producer hands in ([`NewJob`]) and what a worker gets to run ([`Job`]).
//!
//! A payload is bytes. JSON and text go in as UTF-8; a producer in T-SQL hands in `nvarchar`, which arrives as UTF-16,
//! and [`Job::text`] and [`Job::json`] read both.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, InvalidPayload};
use crate::headers::{self, Headers};
use crate::ids::{BatchId, Fence, JobId};
use crate::maximums::{MAX_VALUE_BYTES, TEN_YEARS};
use crate::queue::enqueue::due_at;

/// A claimed job, as a handler gets it.
#[derive(Debug)]
pub struct Job {
    pub(crate) id: JobId,
    pub(crate) fence: Fence,
    pub(crate) attempt: u32,
    pub(crate) max_attempts: u32,
    pub(crate) priority: i16,
    pub(crate) waited: Duration,
    pub(crate) age: Duration,
    pub(crate) kind: Option<String>,
    pub(crate) payload_utf16: bool,
    pub(crate) payload: Vec<u8>,
    pub(crate) details: Option<Box<Details>>,
}

/// What few jobs have. It comes as JSON in one column, which is NULL for all others, so that those pay for one column
/// only (sql/230_claim.sql). What an older schema does not know is missing.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Details {
    pub(crate) dedup_key: Option<String>,
    pub(crate) correlation_id: Option<Uuid>,
    pub(crate) time_limit_ms: Option<u32>,
    /// There is a checkpoint, which does not come with the claim.
    #[serde(default)]
    pub(crate) checkpointed: bool,
    #[serde(skip)]
    pub(crate) checkpoint: Option<Vec<u8>>,
    #[serde(default, deserialize_with = "headers::read_member")]
    pub(crate) headers: Option<Headers>,
    #[serde(default)]
    pub(crate) batch_id: Option<BatchId>,
    #[serde(default)]
    pub(crate) group_key: Option<String>,
}

impl Job {
    /// The job's number.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The fence under which it was claimed. Pass it on to systems that can refuse late writers.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Which attempt this is; 1 is the first.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// After how many attempts the job is dead.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// Whether the job is dead if it fails now.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt >= self.max_attempts
    }

    /// The job's priority; smaller runs first.
    pub fn priority(&self) -> i16 {
        self.priority
    }

    /// How long it was ready before it was claimed, by SQL Server's clock.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How long ago it was enqueued when it was claimed, by SQL Server's clock.
    pub fn age(&self) -> Duration {
        self.age
    }

    /// The de-duplication key it was enqueued with.
    pub fn dedup_key(&self) -> Option<&str> {
        self.details.as_ref()?.dedup_key.as_deref()
    }

    /// The producer's own id for what the job belongs to.
    pub fn correlation_id(&self) -> Option<Uuid> {
        self.details.as_ref()?.correlation_id
    }

    /// A header that the producer has attached ([`NewJob::header`]); `None`: there is none of this name, or it is not
    /// text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.details.as_ref()?.headers.as_ref()?.text(name)
    }

    /// All headers, by name. A producer in T-SQL may have attached values that are not text.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &serde_json::Value)> {
        self.details.iter().filter_map(|details| details.headers.as_ref()).flat_map(Headers::iter)
    }

    /// The batch that it belongs to ([`NewJob::batch`]).
    pub fn batch_id(&self) -> Option<BatchId> {
        self.details.as_ref()?.batch_id
    }

    /// The key of the group that it belongs to ([`NewJob::group_key`]).
    pub fn group_key(&self) -> Option<&str> {
        self.details.as_ref()?.group_key.as_deref()
    }

    /// What sort of job it is, as far as the producer said.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// The time limit that it was enqueued with ([`NewJob::time_limit`]); `None`: it has none of its own.
    pub fn time_limit(&self) -> Option<Duration> {
        let ms = self.details.as_ref()?.time_limit_ms?;
        Some(Duration::from_millis(ms.into()))
    }

    /// The checkpoint that an earlier attempt has noted last ([`Context::checkpoint`](crate::Context::checkpoint)), to
    /// go on from; `None`: begin at the beginning.
    pub fn checkpoint(&self) -> Option<&[u8]> {
        self.details.as_ref()?.checkpoint.as_deref()
    }

    /// The payload as it stands in the table: the producer's bytes, or UTF-16 (little endian) from a producer that
    /// enqueued `nvarchar` text.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Whether the payload is UTF-16, from a producer that enqueued `nvarchar` text: for a handler that passes it on.
    pub fn payload_utf16(&self) -> bool {
        self.payload_utf16
    }

    /// The payload as text.
    ///
    /// # Errors
    ///
    /// [`Error::Payload`] when it is not valid UTF-8 (or UTF-16, where the producer enqueued `nvarchar`).
    pub fn text(&self) -> Result<Cow<'_, str>, Error> {
        decode_text(&self.payload, self.payload_utf16).map_err(|reason| self.payload_error(reason))
    }

    /// The payload as a value, from JSON.
    ///
    /// # Errors
    ///
    /// [`Error::Payload`] when it is not JSON or not of this type. With `?` in a handler, the job is then dead at once.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let parsed = if self.payload_utf16 {
            serde_json::from_str(&self.text()?)
        } else {
            serde_json::from_slice(&self.payload)
        };
        parsed.map_err(|error| self.payload_error(format!("not the expected JSON: {error}")))
    }

    /// A job as a worker would get it that claims it for the first time, for a test of a handler. Its number and its
    /// fence are 1.
    ///
    /// ```
    /// use readpast::{Job, NewJob};
    ///
    /// let job = Job::for_test(NewJob::text("to be").max_attempts(3));
    /// assert_eq!((job.text().unwrap().as_ref(), job.attempt(), job.is_last_attempt()), ("to be", 1, false));
    /// ```
    pub fn for_test(job: NewJob) -> Job {
        let time_limit_ms = job.time_limit.map(|limit| u32::try_from(limit.as_millis()).unwrap_or(u32::MAX));
        let details = Details {
            dedup_key: job.dedup_key,
            correlation_id: job.correlation_id,
            time_limit_ms,
            checkpointed: false,
            checkpoint: None,
            headers: job.headers,
            batch_id: job.batch,
            group_key: job.group_key,
        };
        Job {
            id: JobId(1),
            fence: Fence(1),
            attempt: 1,
            max_attempts: job.max_attempts.unwrap_or(5),
            priority: job.priority,
            waited: Duration::ZERO,
            age: Duration::ZERO,
            kind: job.kind,
            payload_utf16: false,
            payload: job.payload,
            details: Some(Box::new(details)),
        }
    }

    /// The same, but as an attempt that finds this checkpoint of an earlier one, for a test of a handler.
    ///
    /// ```
    /// use readpast::{Job, NewJob};
    ///
    /// let job = Job::for_test(NewJob::text("to be")).with_checkpoint("or not");
    /// assert_eq!(job.checkpoint(), Some(b"or not".as_slice()));
    /// ```
    #[must_use]
    pub fn with_checkpoint(mut self, checkpoint: impl Into<Vec<u8>>) -> Job {
        self.details.get_or_insert_default().checkpoint = Some(checkpoint.into());
        self
    }

    fn payload_error(&self, reason: String) -> Error {
        Error::Payload { job_id: self.id, reason: InvalidPayload::new(reason) }
    }
}

/// Bytes as text: UTF-8, or UTF-16 (little endian) from a producer that enqueued `nvarchar`. Or why they are none.
pub(crate) fn decode_text(bytes: &[u8], utf16: bool) -> Result<Cow<'_, str>, String> {
    if !utf16 {
        return match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(error) => Err(format!("not UTF-8: {error}")),
        };
    }
    let (pairs, odd_byte) = bytes.as_chunks::<2>();
    if !odd_byte.is_empty() {
        return Err("not UTF-16: its length is odd".to_string());
    }
    let units = pairs.iter().map(|pair| u16::from_le_bytes(*pair));
    match char::decode_utf16(units).collect::<Result<String, _>>() {
        Ok(text) => Ok(Cow::Owned(text)),
        Err(error) => Err(format!("not UTF-16: {error}")),
    }
}

/// A job to enqueue: a payload, and how it is to be run.
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// The longest de-duplication key, in UTF-16 units: the width of the column.
const MAX_DEDUP_KEY_UNITS: usize = 256;

/// The longest group key, in UTF-16 units: the width of the column.
const MAX_GROUP_KEY_UNITS: usize = 128;

/// The longest kind: the width of the column.
const MAX_KIND_LENGTH: usize = 64;

/// The shortest and the longest time limit of a job: the column is an `int`, in milliseconds.
const TIME_LIMITS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(i32::MAX as u64);

/// What [`is_kind`] accepts.
pub(crate) const ALLOWED_KIND: &str = "1 to 64 printable ASCII characters, no spaces";

/// Whether this can be the kind of a job.
pub(crate) fn is_kind(kind: &str) -> bool {
    (1..=MAX_KIND_LENGTH).contains(&kind.len()) && kind.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Refuses what is not 1 to `max_units` UTF-16 units without spaces at its ends: SQL Server takes texts that differ
/// only there for equal.
///
/// # Errors
///
/// What is wrong with `name`, and what is allowed.
pub(crate) fn check_name(name: &str, text: &str, max_units: usize) -> Result<(), String> {
    let units = text.encode_utf16().count();
    if units == 0 || units > max_units {
        return Err(format!("{name} has {units} UTF-16 units; it must have 1 to {max_units}"));
    }
    if text.trim() != text {
        return Err(format!("{name} is '{text}'; it must not have spaces at its ends"));
    }
    Ok(())
}

impl NewJob {
    /// A job whose payload is `value` as JSON (UTF-8). The handler reads it with [`Job::json`].
    ///
    /// # Errors
    ///
    /// [`Error::Json`] when `value` cannot be written as JSON, for example a map whose keys are no strings.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<NewJob, Error> {
        Ok(NewJob::bytes(serde_json::to_vec(value).map_err(|error| Error::Json { message: error.to_string() })?))
    }

    /// A job whose payload is `text` (UTF-8). The handler reads it with [`Job::text`].
    pub fn text(text: impl Into<String>) -> NewJob {
        NewJob::bytes(text.into().into_bytes())
    }

    /// A job whose payload is `bytes`, up to 256 MiB; none at all is fine too.
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
        }
    }

    /// Sets the priority; smaller runs first. Default: 0.
    pub fn priority(mut self, priority: i16) -> NewJob {
        self.priority = priority;
        self
    }

    /// Lets the job wait this long before it may run, by SQL Server's clock; at most ten years. Excludes
    /// [`due_at`](NewJob::due_at).
    pub fn delay(mut self, delay: Duration) -> NewJob {
        self.delay = Some(delay);
        self
    }

    /// Lets the job wait until this point in time, by SQL Server's clock. Excludes [`delay`](NewJob::delay).
    pub fn due_at(mut self, due_at: SystemTime) -> NewJob {
        self.due_at = Some(due_at);
        self
    }

    /// After how many attempts the job is dead; 1 and more. Default: the queue's.
    pub fn max_attempts(mut self, max_attempts: u32) -> NewJob {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// Adds the job only if no unfinished job of the queue has the same key (1 to 256 UTF-16 units, without spaces at
    /// its ends, compared by code point). The result says so, and names the job that has it.
    ///
    /// The key is free again when its job has ended: enqueued once more after that, the job runs once more.
    pub fn dedup_key(mut self, key: impl Into<String>) -> NewJob {
        self.dedup_key = Some(key.into());
        self
    }

    /// Notes the producer's own id for what the job belongs to.
    pub fn correlation_id(mut self, id: Uuid) -> NewJob {
        self.correlation_id = Some(id);
        self
    }

    /// Says what sort of job it is: 1 to 64 printable ASCII characters, no spaces.
    pub fn kind(mut self, kind: impl Into<String>) -> NewJob {
        self.kind = Some(kind.into());
        self
    }

    /// After this long, the handler is told that it is cancelled
    /// ([`Context::is_cancelled`](crate::Context::is_cancelled)); each attempt has it anew. 1 ms to 24 days
    /// (2,147,483,647 ms), in whole milliseconds; a part of one counts as one.
    ///
    /// The job's own limit wins, whether it is shorter or longer: without it, the job has that of its kind
    /// ([`KindOptions::time_limit`](crate::KindOptions::time_limit)) or else of the worker
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

    /// Attaches a header for the handler, such as a tenant: a name and a text. Given twice, the last one counts. All of
    /// them together, as JSON, may have 1,300 UTF-16 units; names that begin with `readpast-` are readpast's own. They
    /// stay with the job for as long as it is kept, and operators see them: no secrets.
    ///
    /// With the feature `opentelemetry`, a job that has no trace of its own gets that in which it is enqueued, see
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

    /// Puts the job into a group: jobs of the queue with the same key (1 to 128 UTF-16 units, without spaces at its
    /// ends, compared by code point) run one at a time, in the order in which they were enqueued, or as many at once as
    /// [`QueueOptions::group_limit`](crate::QueueOptions::group_limit) says.
    ///
    /// A [delayed](NewJob::delay) job joins its group when it is due. A job that is retried keeps its turn, unless
    /// [`QueueOptions::retry_passes`](crate::QueueOptions::retry_passes) says otherwise; a dead or cancelled one lets
    /// the next go. A [priority](NewJob::priority) counts among the jobs that have the turn in their groups.
    ///
    /// The next one starts soon after the acknowledgement of the last; where that, or the enqueueing, is part of a
    /// transaction of your own ([`finish_in`](crate::finish_in()), [`enqueue_in`](crate::enqueue_in)), within about a
    /// second after its commit. Queues with [`Delivery::AtMostOnce`](crate::Delivery::AtMostOnce) refuse it.
    pub fn group_key(mut self, key: impl Into<String>) -> NewJob {
        self.group_key = Some(key.into());
        self
    }

    /// Adds the job to a batch, which must not be sealed ([`Queue::create_batch`](crate::Queue::create_batch)): where
    /// it is, nothing is enqueued ([`Error::BatchNotOpen`]), and a job with such a
    /// [follow-up](crate::Output::enqueue) has failed. A job that is a duplicate of another
    /// ([`dedup_key`](NewJob::dedup_key)) is not added. Not for queues with
    /// [`Delivery::AtMostOnce`](crate::Delivery::AtMostOnce).
    pub fn batch(mut self, batch: BatchId) -> NewJob {
        self.batch = Some(batch);
        self
    }

    /// Refuses what SQL Server would refuse or cut. Every enqueue checks its jobs itself, before anything is sent; this
    /// is for who wants to know earlier, for example to say which line of an input is wrong.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidJob`].
    pub fn check(&self) -> Result<(), Error> {
        let invalid = |reason: String| Err(Error::InvalidJob { reason });
        due_at(self)?;
        if self.payload.len() > MAX_VALUE_BYTES {
            return invalid(format!(
                "its payload has {} bytes; it must have {MAX_VALUE_BYTES} (256 MiB) at most: store it elsewhere and enqueue its address",
                self.payload.len()
            ));
        }
        if self.delay.is_some() && self.due_at.is_some() {
            return invalid("it has both delay and due_at; set one of them".to_string());
        }
        if let Some(delay) = self.delay.filter(|delay| *delay > TEN_YEARS) {
            return invalid(format!(
                "delay is {} s; it must be {} s (ten years) at most",
                delay.as_secs(),
                TEN_YEARS.as_secs()
            ));
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
        if let Some(kind) = self.kind.as_deref().filter(|kind| !is_kind(kind)) {
            return invalid(format!("kind is '{kind}'; it must be {ALLOWED_KIND}"));
        }
        if let Some(limit) = self.time_limit.filter(|limit| !TIME_LIMITS.contains(limit)) {
            return invalid(format!("time_limit is {limit:?}; it must be 1 ms to {} ms (24 days)", i32::MAX));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(payload: &[u8], payload_utf16: bool) -> Job {
        Job {
            id: JobId(7),
            fence: Fence(1),
            attempt: 1,
            max_attempts: 5,
            priority: 0,
            waited: Duration::ZERO,
            age: Duration::ZERO,
            kind: None,
            payload_utf16,
            payload: payload.to_vec(),
            details: None,
        }
    }

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn json_is_read_from_utf8_and_from_utf16() {
        let text = r#"{"name":"Zoë 🦀","n":3}"#;
        let expected = serde_json::json!({"name": "Zoë 🦀", "n": 3});
        assert_eq!(job(text.as_bytes(), false).json::<serde_json::Value>().unwrap(), expected);
        assert_eq!(job(&utf16(text), true).json::<serde_json::Value>().unwrap(), expected);
        assert_eq!(job(&utf16(text), true).text().unwrap(), text);
    }

    #[test]
    fn a_payload_that_does_not_parse_names_the_job() {
        let lone_surrogate = [0x00, 0xD8];
        for broken in [job(b"\xFF", false), job(&utf16("x")[..1], true), job(&lone_surrogate, true)] {
            let error = broken.text().unwrap_err();
            assert!(matches!(error, Error::Payload { job_id: JobId(7), .. }), "{error}");
        }
        let error = job(b"{\"n\":", false).json::<serde_json::Value>().unwrap_err();
        assert!(error.to_string().starts_with("invalid payload of job 7: not the expected JSON"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn any_payload_is_read_or_refused_as_the_job_s(payload: Vec<u8>, payload_utf16: bool) {
            let job = job(&payload, payload_utf16);
            for error in [job.text().err(), job.json::<serde_json::Value>().err()].into_iter().flatten() {
                assert!(matches!(error, Error::Payload { job_id: JobId(7), .. }), "{error}");
            }
        }

        #[test]
        fn any_text_comes_back_from_utf8_and_from_utf16(text: String) {
            assert_eq!(job(text.as_bytes(), false).text().unwrap(), text.as_str());
            assert_eq!(job(&utf16(&text), true).text().unwrap(), text.as_str());
        }
    }

    #[test]
    fn what_sql_server_would_refuse_or_cut_is_refused_before() {
        let message = |job: NewJob| job.check().unwrap_err().to_string();
        let both = NewJob::text("").delay(Duration::ZERO).due_at(SystemTime::UNIX_EPOCH);
        assert!(message(both).contains("both delay and due_at"));
        assert!(message(NewJob::text("").max_attempts(0)).contains("max_attempts is 0"));
        assert!(message(NewJob::text("").max_attempts(u32::MAX)).contains("max_attempts"));
        assert!(message(NewJob::text("").delay(Duration::MAX)).contains("ten years"));
        let too_large = NewJob::bytes(vec![0; MAX_VALUE_BYTES + 1]);
        assert!(
            message(too_large).contains("its payload has 268435457 bytes; it must have 268435456 (256 MiB) at most")
        );
        // A crab is two UTF-16 units.
        assert!(NewJob::text("").dedup_key("🦀".repeat(128)).check().is_ok());
        assert!(message(NewJob::text("").dedup_key("🦀".repeat(129))).contains("258 UTF-16 units"));
        assert!(message(NewJob::text("").dedup_key("")).contains("0 UTF-16 units"));
        for key in [" ", "invoice ", " invoice"] {
            assert!(message(NewJob::text("").dedup_key(key)).contains("spaces at its ends"), "{key}");
        }
        assert!(NewJob::text("").kind("resize/v2").check().is_ok());
        for kind in ["", "two words", "größe", &"x".repeat(65)] {
            assert!(message(NewJob::text("").kind(kind)).contains("kind is '"), "{kind}");
        }
        for (limit, shown) in [
            (Duration::ZERO, "0ns"),
            (Duration::from_micros(999), "999µs"),
            (Duration::from_micros(2_147_483_647_001), "2147483.647001s"),
            (Duration::MAX, "18446744073709551615.999999999s"),
        ] {
            let expected = format!("time_limit is {shown}; it must be 1 ms to 2147483647 ms (24 days)");
            assert!(message(NewJob::text("").time_limit(limit)).ends_with(&expected), "{expected}");
        }
        for limit in [1, i32::MAX as u64] {
            assert!(NewJob::text("").time_limit(Duration::from_millis(limit)).check().is_ok());
        }
    }
}
