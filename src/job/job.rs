//! [`Job`]: a claimed job, as passed to a handler.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::error::{Error, InvalidPayload};
use crate::id::{BatchId, Fence, JobId};
use crate::text::decode_text;

use super::headers;
use super::headers::Headers;
use super::needs::Needs;
use super::new_job::NewJob;

/// A claimed job, as passed to a handler.
///
/// `Debug` shows the lengths of payload and checkpoint, and no text of the producer.
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

/// Attributes that few jobs have. They arrive as JSON in one column, which is NULL for all other jobs, so that those
/// jobs pay for one column only (sql/230_claim.sql). Attributes unknown to an older schema are missing.
#[derive(Default, Deserialize)]
pub(crate) struct Details {
    pub(crate) dedup_key: Option<String>,
    pub(crate) correlation_id: Option<Uuid>,
    pub(crate) time_limit_ms: Option<u32>,
    /// Whether the job has a checkpoint, which the claim does not return.
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
    #[serde(default)]
    pub(crate) needs: Option<Needs>,
    #[serde(default)]
    pub(crate) has_parents: bool,
    /// Whether its group shares the queue with others, so that no job waits for this one's turn (sql/234_claim_fair.sql).
    #[serde(skip)]
    pub(crate) is_shared: bool,
    /// The latest start, counted from when the job was enqueued.
    #[serde(default)]
    pub(crate) start_by_ms: Option<i64>,
    /// The same by the [`BootClock`](crate::time::BootClock).
    #[serde(skip)]
    pub(crate) latest_start: Option<Duration>,
}

impl fmt::Debug for Job {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Job")
            .field("id", &self.id)
            .field("fence", &self.fence)
            .field("attempt", &self.attempt)
            .field("max_attempts", &self.max_attempts)
            .field("priority", &self.priority)
            .field("kind", &self.kind)
            .field("payload_bytes", &self.payload.len())
            .field("checkpoint_bytes", &self.checkpoint().map(<[u8]>::len))
            .finish_non_exhaustive()
    }
}

impl Job {
    /// The job's id.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The fence of its claim. Pass it to systems that can reject stale writes.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The number of attempts after which the job becomes dead.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// Whether the job becomes dead if this attempt fails.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt >= self.max_attempts
    }

    /// The job's priority. Smaller values run first.
    pub fn priority(&self) -> i16 {
        self.priority
    }

    /// How long the job was ready before it was claimed, by SQL Server's clock.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The time from enqueueing to the claim, by SQL Server's clock.
    pub fn age(&self) -> Duration {
        self.age
    }

    /// The deduplication key with which it was enqueued.
    pub fn dedup_key(&self) -> Option<&str> {
        self.details.as_ref()?.dedup_key.as_deref()
    }

    /// The producer's own id for whatever the job belongs to.
    pub fn correlation_id(&self) -> Option<Uuid> {
        self.details.as_ref()?.correlation_id
    }

    /// The value of a header ([`NewJob::header`]), or `None` if the header does not exist or is not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.details.as_ref()?.headers.as_ref()?.text(name)
    }

    /// All headers, by name. A T-SQL producer may have attached values that are not text.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &serde_json::Value)> {
        self.details.iter().filter_map(|details| details.headers.as_ref()).flat_map(Headers::iter)
    }

    /// The batch to which the job belongs ([`NewJob::batch`]).
    pub fn batch_id(&self) -> Option<BatchId> {
        self.details.as_ref()?.batch_id
    }

    /// The key of its group ([`NewJob::group_key`]).
    pub fn group_key(&self) -> Option<&str> {
        self.details.as_ref()?.group_key.as_deref()
    }

    /// Whether it has a turn of its group, for which others may wait.
    pub(crate) fn has_turn(&self) -> bool {
        self.details.as_ref().is_some_and(|details| details.group_key.is_some() && !details.is_shared)
    }

    /// Whether it has waited for other jobs ([`NewJob::after`]). [`Context::parents`](crate::Context::parents) says how
    /// they ended.
    pub fn has_parents(&self) -> bool {
        self.details.as_ref().is_some_and(|details| details.has_parents)
    }

    /// What the job itself needs ([`NewJob::needs`]), if the producer stated anything. Its kind may need more.
    pub fn needs(&self) -> Option<&Needs> {
        self.details.as_ref()?.needs.as_ref()
    }

    /// Until when the job may start ([`NewJob::start_by`]): by the boot clock, and counted from when it was enqueued.
    pub(crate) fn latest_start(&self) -> Option<(Duration, Duration)> {
        let details = self.details.as_ref()?;
        Some((details.latest_start?, Duration::from_millis(details.start_by_ms?.max(0) as u64)))
    }

    /// The job's kind, if the producer set one.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// The time limit with which it was enqueued ([`NewJob::time_limit`]), if any.
    pub fn time_limit(&self) -> Option<Duration> {
        let ms = self.details.as_ref()?.time_limit_ms?;
        Some(Duration::from_millis(ms.into()))
    }

    /// The latest checkpoint of an earlier attempt ([`Context::checkpoint`](crate::handler::Context::checkpoint)), to
    /// continue from. `None`: start from the beginning.
    pub fn checkpoint(&self) -> Option<&[u8]> {
        self.details.as_ref()?.checkpoint.as_deref()
    }

    /// The payload as stored: the producer's bytes, or UTF-16 (little endian) if the producer enqueued `nvarchar` text.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Whether the payload is UTF-16 because the producer enqueued `nvarchar` text. For handlers that pass it on.
    pub fn payload_utf16(&self) -> bool {
        self.payload_utf16
    }

    /// The payload as text.
    ///
    /// # Errors
    ///
    /// [`Error::Payload`] if it is not valid UTF-8 (or UTF-16, if the producer enqueued `nvarchar`).
    pub fn text(&self) -> Result<Cow<'_, str>, Error> {
        decode_text(&self.payload, self.payload_utf16).map_err(|reason| self.payload_error(reason))
    }

    /// The payload, deserialized from JSON.
    ///
    /// # Errors
    ///
    /// [`Error::Payload`] if it is not JSON or not of this type. If a handler returns this error with `?`, the job
    /// becomes dead immediately.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let parsed = if self.payload_utf16 {
            serde_json::from_str(&self.text()?)
        } else {
            serde_json::from_slice(&self.payload)
        };
        parsed.map_err(|error| self.payload_error(format!("not the expected JSON: {error}")))
    }

    /// Creates a job for a handler's test, as on its first claim. Its id and its fence are 1.
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
            needs: job.needs,
            has_parents: !job.parents.is_empty(),
            is_shared: false,
            start_by_ms: None,
            latest_start: None,
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

    /// Sets the id, for the test of a handler that uses it.
    ///
    /// ```
    /// use readpast::{Job, JobId, NewJob};
    ///
    /// let job = Job::for_test(NewJob::text("to be")).with_id(JobId(7));
    /// assert_eq!(job.id(), JobId(7));
    /// ```
    #[must_use]
    pub fn with_id(mut self, id: JobId) -> Job {
        self.id = id;
        self
    }

    /// Adds the checkpoint of an earlier attempt, for a handler's test.
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

    /// For a test's context.
    pub(crate) fn set_parents(&mut self, has_parents: bool) {
        self.details.get_or_insert_default().has_parents = has_parents;
    }

    fn payload_error(&self, reason: String) -> Error {
        Error::Payload { job_id: self.id, reason: InvalidPayload::new(reason) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_how_long_a_payload_is_and_nothing_of_it() {
        let mut job = job(b"secret", false);
        let headers = serde_json::from_str(r#"{"dedup_key":"secret","headers":{"secret":"secret"}}"#).unwrap();
        job.details = Some(Box::new(Details { checkpoint: Some(b"secret!".to_vec()), ..headers }));
        let shown = format!("{job:?}");
        assert!(shown.contains("payload_bytes: 6, checkpoint_bytes: Some(7)") && !shown.contains("secret"), "{shown}");
    }

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
}
