//! Which jobs an operator wants to see.

use std::slice;
use std::time::Duration;

use uuid::Uuid;

use super::job_state::JobState;
use crate::error::Error;
use crate::ids::BatchId;

/// Which jobs [`Queue::list`](super::Queue::list) shows: all that have everything that is asked for.
///
/// Only the state uses an index, and in the states of jobs that have ended the age. Every other condition is tested row
/// by row, up to 10,000 rows for a page, because each job would pay for an index.
///
/// ```
/// use readpast::{JobFilter, JobState};
///
/// let dead_resizes = JobFilter::from(JobState::Dead).kind("resize").error("out of memory");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a filter does nothing until it is passed to Queue::list"]
pub struct JobFilter {
    pub(super) state: Option<JobState>,
    pub(super) kind: Option<String>,
    pub(super) correlation_id: Option<Uuid>,
    pub(super) error: Option<String>,
    pub(super) dedup_key: Option<String>,
    pub(super) group_key: Option<String>,
    pub(super) batch: Option<BatchId>,
    pub(super) older_than: Option<Duration>,
    pub(super) cut_at: Option<usize>,
}

impl JobFilter {
    /// All jobs of the queue and its archive, one state after the other in the order of [`JobState`]. A page ends where a
    /// state does: go on until [`JobPage::next`](super::JobPage::next) is `None`. For one state there is `From<JobState>`.
    pub fn all() -> JobFilter {
        JobFilter::default()
    }

    /// Jobs of this [kind](crate::NewJob::kind).
    pub fn kind(mut self, kind: impl Into<String>) -> JobFilter {
        self.kind = Some(kind.into());
        self
    }

    /// Jobs with this [correlation id](crate::NewJob::correlation_id).
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

    /// Jobs with this [de-duplication key](crate::NewJob::dedup_key), ended ones among them.
    pub fn dedup_key(mut self, key: impl Into<String>) -> JobFilter {
        self.dedup_key = Some(key.into());
        self
    }

    /// Jobs of this [group](crate::NewJob::group_key).
    pub fn group_key(mut self, key: impl Into<String>) -> JobFilter {
        self.group_key = Some(key.into());
        self
    }

    /// Jobs of this [batch](crate::NewJob::batch).
    pub fn batch(mut self, batch: BatchId) -> JobFilter {
        self.batch = Some(batch);
        self
    }

    /// Jobs that are this old (whole milliseconds) and older, as [`Queue::purge`](super::Queue::purge) counts: those that
    /// have ended from their end, the others from when they were enqueued.
    pub fn older_than(mut self, age: Duration) -> JobFilter {
        self.older_than = Some(age);
        self
    }

    /// Of each job's payload and output only the first `bytes` bytes, for lists: payloads may have up to 2 GiB.
    /// [`JobRow::payload_bytes`](super::JobRow::payload_bytes) says how many there are. It does not choose jobs.
    pub fn cut_at(mut self, bytes: usize) -> JobFilter {
        self.cut_at = Some(bytes);
        self
    }

    /// The states that are asked for, of those in which a job has not ended.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] where it asks for another one.
    pub(super) fn unfinished_states(&self) -> Result<&[JobState], Error> {
        match &self.state {
            None => Ok(JobState::UNFINISHED),
            Some(state) if JobState::UNFINISHED.contains(state) => Ok(slice::from_ref(state)),
            Some(state) => {
                let message =
                    format!("the filter's state is {state}; it must be ready, scheduled, waiting or claimed, or none");
                Err(Error::Refused { message })
            }
        }
    }
}

impl From<JobState> for JobFilter {
    fn from(state: JobState) -> JobFilter {
        JobFilter { state: Some(state), ..JobFilter::default() }
    }
}
