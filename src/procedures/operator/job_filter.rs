//! Which jobs an operator wants to see.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use uuid::Uuid;

use crate::id::{BatchId, WorkerId};
use crate::job::JobState;
use crate::time::json;

/// Which jobs [`Admin::list`](crate::admin::Admin::list) shows: all that have everything that is asked for.
///
/// Only the state uses an index, with it the [`worker`](JobFilter::worker) and, of jobs that have ended, the age and
/// the times. Every other condition is tested row by row, up to 10,000 rows for a page, because each job would pay for
/// an index.
///
/// As JSON it has what is asked for and nothing else, the times as in RFC 3339 and the age in seconds (`older_than_s`):
/// for a note of what was done ([`NewAudit::filter`](super::audit_row::NewAudit::filter)).
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
    #[serde(rename = "older_than_s", skip_serializing_if = "Option::is_none", serialize_with = "json::seconds")]
    pub(crate) older_than: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "json::time")]
    pub(crate) since: Option<SystemTime>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "json::time")]
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
    /// a state does: go on until [`JobPage::next`](super::job_page::JobPage::next) is `None`. For one state there is
    /// `From<JobState>`.
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

    /// Jobs whose last error contains this text, compared as the database's collation does, mostly without regard to
    /// upper and lower case. An empty text is the same as none.
    pub fn error(mut self, text: impl Into<String>) -> JobFilter {
        self.error = Some(text.into());
        self
    }

    /// Jobs with this [de-duplication key](crate::job::NewJob::dedup_key), ended ones among them.
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

    /// Jobs that are this old (whole milliseconds) and older: those that have ended counted from their end, the others
    /// from when they were enqueued.
    pub fn older_than(mut self, age: Duration) -> JobFilter {
        self.older_than = Some(age);
        self
    }

    /// Jobs of this time and later: those that have ended by the time of their end, the others by when they were
    /// enqueued. By SQL Server's clock, in whole milliseconds; the years 1 to 9999.
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

    /// Jobs from before this time, counted as [`since`](JobFilter::since) does: a job of this very moment is none of
    /// them.
    pub fn until(mut self, time: SystemTime) -> JobFilter {
        self.until = Some(time);
        self
    }

    /// Jobs that this worker holds. For [`JobState::Claimed`] only, and refused
    /// ([`Error::Refused`](crate::error::Error::Refused)) for any other state or none: jobs of the others have no
    /// worker.
    pub fn worker(mut self, worker: WorkerId) -> JobFilter {
        self.worker = Some(worker);
        self
    }

    /// The jobs that have ended last come first. For [`JobState::Done`], [`JobState::Dead`], [`JobState::Cancelled`]
    /// and [`JobState::Archived`]; refused ([`Error::Refused`](crate::error::Error::Refused)) for any other state or
    /// none: jobs of the others have an order of their own. A [`JobCursor`](super::job_page::JobCursor) serves both
    /// directions: with the other one, the page goes back from it.
    pub fn newest_first(mut self) -> JobFilter {
        self.newest_first = true;
        self
    }

    /// Of each job's payload and output only the first `bytes` bytes, for lists: payloads may have up to 2 GiB.
    /// [`JobRow::payload_bytes`](super::job_row::JobRow::payload_bytes) says how many there are. It does not choose
    /// jobs.
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
