//! Batches: jobs that belong together, with a follow-up when all have finished.

use std::time::SystemTime;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::error::Error;
use crate::id::{BatchId, JobId};
use crate::text::MAX_NAME_UNITS;
use crate::time::rfc3339;

use super::job::Job;
use super::new_job::{NewJob, check_alone};

/// The header in which a follow-up receives its batch's [`BatchEnd`].
const END_HEADER: &str = "readpast-batch";

/// A batch to create ([`Queue::create_batch`](crate::queue::Queue::create_batch)).
///
/// ```
/// use readpast::{NewBatch, NewJob};
///
/// let batch = NewBatch::new().name("import of Monday").then(NewJob::text("add up"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a batch does nothing until it is created"]
pub struct NewBatch {
    pub(crate) name: Option<String>,
    pub(crate) follow_up: Option<NewJob>,
    pub(crate) parent: Option<BatchId>,
}

impl NewBatch {
    /// Creates a batch without a name and a follow-up.
    pub fn new() -> NewBatch {
        NewBatch::default()
    }

    /// Sets a name for people, up to 128 UTF-16 units. Several batches may have the same name.
    pub fn name(mut self, name: impl Into<String>) -> NewBatch {
        self.name = Some(name.into());
        self
    }

    /// Sets the follow-up: a job that is enqueued once when all jobs of the batch have finished, even if some are dead
    /// or cancelled. It is enqueued into the queue that created the batch, and reads the result from
    /// [`Job::batch_end`]. It cannot have a [`delay`](NewJob::delay), [`due_at`](NewJob::due_at),
    /// [`dedup_key`](NewJob::dedup_key) or [`group_key`](NewJob::group_key), nor a [`batch`](NewJob::batch) other than
    /// the [`parent`](NewBatch::parent).
    pub fn then(mut self, follow_up: NewJob) -> NewBatch {
        self.follow_up = Some(follow_up);
        self
    }

    /// Nests batches: adds the follow-up to another batch, the parent. The parent then cannot complete before the
    /// follow-up finishes. It must exist and must not be sealed.
    pub fn parent(mut self, parent: BatchId) -> NewBatch {
        self.parent = Some(parent);
        self
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let invalid = |reason: String| Err(Error::InvalidBatch { reason });
        let units = self.name.as_ref().map_or(0, |name| name.encode_utf16().count());
        if units > MAX_NAME_UNITS {
            return invalid(format!("its name has {units} UTF-16 units; it must have at most {MAX_NAME_UNITS}"));
        }
        let Some(job) = &self.follow_up else {
            return match self.parent {
                Some(_) => {
                    invalid("it has a parent but no follow-up; only a follow-up can belong to the parent".to_string())
                }
                None => Ok(()),
            };
        };
        let cannot_have = [
            ("delay", job.delay.is_some()),
            ("due_at", job.due_at.is_some()),
            ("start_by or start_within", job.latest_start.is_some()),
            ("dedup_key", job.dedup_key.is_some()),
            ("group_key", job.group_key.is_some()),
            ("batch", job.batch.is_some()),
        ];
        if let Some((what, _)) = cannot_have.iter().find(|(_, has)| *has) {
            let instead = if *what == "batch" { "; use NewBatch::parent" } else { "" };
            return invalid(format!("its follow-up cannot have {what}{instead}"));
        }
        match check_alone(job) {
            Err(Error::InvalidJob { reason }) => invalid(format!("its follow-up: {reason}")),
            checked => checked,
        }
    }
}

/// The result of sealing a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SealedBatch {
    /// How many jobs it has.
    pub jobs: u64,
    /// Whether all of them have already finished, so that the follow-up is enqueued.
    pub ended: bool,
}

/// A batch and its progress. Times are by SQL Server's clock; in JSON they are in RFC 3339 format.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchRow {
    /// The batch's id.
    pub batch_id: BatchId,
    /// The batch's name, if it has one.
    pub name: Option<String>,
    /// The batch to which its follow-up belongs.
    pub parent_id: Option<BatchId>,
    /// The queue of its follow-up. Its jobs may be in any queue.
    pub queue: String,
    /// When the batch was created.
    pub created_at: SystemTime,
    /// When the batch was sealed; `None` while jobs can be added.
    pub sealed_at: Option<SystemTime>,
    /// When the batch completed: it was sealed, and all its jobs had finished. `None` before.
    pub ended_at: Option<SystemTime>,
    /// How many jobs it has, without jobs that are not committed. A requeued job counts once.
    pub jobs: u64,
    /// How many of its jobs are done.
    pub done: u64,
    /// How many of its jobs are dead.
    pub dead: u64,
    /// How many of its jobs were cancelled, or purged while unfinished.
    pub cancelled: u64,
    /// The follow-up, once it is enqueued.
    pub follow_up_id: Option<JobId>,
}

impl BatchRow {
    /// How many of its jobs are unfinished.
    pub fn unfinished(&self) -> u64 {
        // The counts are read one after the other, without locks.
        self.jobs.saturating_sub(self.done + self.dead + self.cancelled)
    }
}

impl Serialize for BatchRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut batch = serializer.serialize_struct("BatchRow", 12)?;
        batch.serialize_field("batch_id", &self.batch_id)?;
        batch.serialize_field("name", &self.name)?;
        batch.serialize_field("parent_id", &self.parent_id)?;
        batch.serialize_field("queue", &self.queue)?;
        batch.serialize_field("created_at", &rfc3339(self.created_at))?;
        batch.serialize_field("sealed_at", &self.sealed_at.map(rfc3339))?;
        batch.serialize_field("ended_at", &self.ended_at.map(rfc3339))?;
        batch.serialize_field("jobs", &self.jobs)?;
        batch.serialize_field("done", &self.done)?;
        batch.serialize_field("dead", &self.dead)?;
        batch.serialize_field("cancelled", &self.cancelled)?;
        batch.serialize_field("follow_up_id", &self.follow_up_id)?;
        batch.end()
    }
}

/// How the jobs of a batch finished, for its follow-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BatchEnd {
    /// The batch.
    pub batch_id: BatchId,
    /// How many of its jobs were done.
    pub done: u64,
    /// How many of its jobs were dead.
    pub dead: u64,
    /// How many of its jobs were cancelled, or purged while unfinished.
    pub cancelled: u64,
}

impl Job {
    /// How the jobs of the batch finished, if this job is the follow-up of a batch.
    ///
    /// ```
    /// use readpast::{BoxError, Job, JobError};
    ///
    /// fn add_up(job: &Job) -> Result<(), BoxError> {
    ///     let end = job.batch_end().ok_or(JobError::dead("it follows no batch"))?;
    ///     if end.dead + end.cancelled > 0 {
    ///         return Err(JobError::dead(format!("{} parts are missing", end.dead + end.cancelled)).into());
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn batch_end(&self) -> Option<BatchEnd> {
        let header = self.details.as_ref()?.headers.as_ref()?.get(END_HEADER)?;
        BatchEnd::deserialize(header).ok() // only readpast's own procedures write it
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_a_batch_cannot_have_is_refused_before_anything_is_sent() {
        let message = |batch: NewBatch| batch.check().unwrap_err().to_string();
        let then = |job: NewJob| message(NewBatch::new().then(job));
        let job = || NewJob::text("");
        for (refused, what) in [
            (job().delay(Duration::ZERO), "delay"),
            (job().due_at(SystemTime::UNIX_EPOCH), "due_at"),
            (job().dedup_key("k"), "dedup_key"),
            (job().group_key("k"), "group_key"),
            (job().batch(BatchId(7)), "batch"),
        ] {
            let expected = format!("its follow-up cannot have {what}");
            let message = then(refused);
            assert!(message.contains(&expected), "{message}");
        }
        assert!(then(job().kind("two words")).contains("its follow-up: kind is 'two words'"));
        assert!(message(NewBatch::new().parent(BatchId(7))).contains("but no follow-up"));
        assert!(message(NewBatch::new().name("x".repeat(129))).contains("its name has 129 UTF-16 units"));
        let good = job().kind("k").priority(1).max_attempts(2).time_limit(Duration::from_secs(1)).header("a", "b");
        NewBatch::new().name("x".repeat(128)).then(good).parent(BatchId(7)).check().unwrap();
        NewBatch::new().check().unwrap();
    }
}
