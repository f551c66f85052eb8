//! Filters for lists of jobs.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use uuid::Uuid;

use crate::id::{BatchId, WorkerId};
use crate::job::JobState;
use crate::time::{json_seconds, json_time};

/// Selects the jobs that [`Admin::list`](crate::admin::Admin::list) returns. A job must meet every condition.
///
/// Only these conditions use an index: the state and, together with it, the [`worker`](JobFilter::worker) or, for
/// finished jobs, the age and the times. Every other condition is tested row by row, up to 10,000 rows for a page,
/// because an index would slow down every job.
///
/// Serialized as JSON, for audit entries ([`NewAudit::filter`](super::audit::NewAudit::filter)), it contains only
/// the conditions that are set, with times in RFC 3339 format and the age in seconds (`older_than_s`).
///
/// ```
/// use readpast::admin::{JobFilter, JobState};
///
/// let dead_resizes = JobFilter::from(JobState::Dead).kind("resize").error("out of memory");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[must_use = "a filter does nothing until it is passed to Queue::list"]
pub struct JobFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<JobState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) correlation_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dedup_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<BatchId>,
    #[serde(rename = "older_than_s", skip_serializing_if = "Option::is_none", serialize_with = "json_seconds")]
    pub(crate) older_than: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "json_time")]
    pub(crate) since: Option<SystemTime>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "json_time")]
    pub(crate) until: Option<SystemTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<WorkerId>,
    #[serde(skip)] // these two choose no jobs
    pub(crate) newest_first: bool,
    #[serde(skip)]
    pub(crate) cut_at: Option<usize>,
}

impl JobFilter {
    /// All jobs of the queue and its archive, one state after the other in the order of [`JobState`]. A page ends where
    /// a state ends, so continue until [`JobPage::next`](super::job_page::JobPage::next) is `None`. For a single state,
    /// use `From<JobState>`.
    pub fn all() -> JobFilter {
        JobFilter::default()
    }

    /// Jobs of this [kind](crate::job::NewJob::kind).
    pub fn kind(mut self, kind: impl Into<String>) -> JobFilter {
        self.kind = Some(kind.into());
        self
    }

    /// Jobs with this [correlation id](crate::job::NewJob::correlation_id).
    pub fn correlation_id(mut self, id: Uuid) -> JobFilter {
        self.correlation_id = Some(id);
        self
    }

    /// Jobs whose last error contains this text. The database's collation decides how it is compared, and most
    /// collations ignore case. An empty text sets no condition.
    pub fn error(mut self, text: impl Into<String>) -> JobFilter {
        self.error = Some(text.into());
        self
    }

    /// Jobs with this [deduplication key](crate::job::NewJob::dedup_key), including finished ones.
    pub fn dedup_key(mut self, key: impl Into<String>) -> JobFilter {
        self.dedup_key = Some(key.into());
        self
    }

    /// Jobs of this [group](crate::job::NewJob::group_key).
    pub fn group_key(mut self, key: impl Into<String>) -> JobFilter {
        self.group_key = Some(key.into());
        self
    }

    /// Jobs of this [batch](crate::job::NewJob::batch).
    pub fn batch(mut self, batch: BatchId) -> JobFilter {
        self.batch = Some(batch);
        self
    }

    /// Jobs of at least this age, in whole milliseconds. The age of a finished job counts from when it finished, the
    /// age of any other job from when it was enqueued.
    pub fn older_than(mut self, age: Duration) -> JobFilter {
        self.older_than = Some(age);
        self
    }

    /// Jobs from this time on. A finished job counts by when it finished, any other job by when it was enqueued, by SQL
    /// Server's clock. The time is in whole milliseconds, in the years 1 to 9999.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use readpast::admin::{JobFilter, JobState};
    ///
    /// let since = SystemTime::now() - Duration::from_secs(3_600);
    /// let died_in_the_last_hour = JobFilter::from(JobState::Dead).since(since).newest_first();
    /// ```
    pub fn since(mut self, time: SystemTime) -> JobFilter {
        self.since = Some(time);
        self
    }

    /// Jobs before this time, which is compared as for [`since`](JobFilter::since). A job of exactly this time is not
    /// included.
    pub fn until(mut self, time: SystemTime) -> JobFilter {
        self.until = Some(time);
        self
    }

    /// Jobs that this worker holds. Only for [`JobState::Claimed`]. Any other state, or none, is refused
    /// ([`Error::Refused`](crate::error::Error::Refused)), because only claimed jobs are held by a worker.
    pub fn worker(mut self, worker: WorkerId) -> JobFilter {
        self.worker = Some(worker);
        self
    }

    /// Lists the jobs that finished last first. Only for [`JobState::Done`], [`JobState::Dead`],
    /// [`JobState::Cancelled`] and [`JobState::Archived`]. Any other state, or none, is refused
    /// ([`Error::Refused`](crate::error::Error::Refused)), because its jobs have an order of their own. A
    /// [`JobCursor`](super::job_page::JobCursor) works in both directions: with the opposite direction, it yields the
    /// page before it.
    pub fn newest_first(mut self) -> JobFilter {
        self.newest_first = true;
        self
    }

    /// Reads only the first `bytes` bytes of each payload and output, for lists: payloads may have up to 2 GiB.
    /// [`JobRow::payload_bytes`](super::job_row::JobRow::payload_bytes) is the length of the whole payload. This does
    /// not affect which jobs are selected.
    pub fn cut_at(mut self, bytes: usize) -> JobFilter {
        self.cut_at = Some(bytes);
        self
    }
}

impl From<JobState> for JobFilter {
    fn from(state: JobState) -> JobFilter {
        JobFilter { state: Some(state), ..JobFilter::default() }
    }
}
