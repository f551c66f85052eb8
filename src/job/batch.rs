//! Batches: jobs that belong together, and a job that follows when all of them have ended.

use std::time::SystemTime;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::error::Error;
use crate::id::{BatchId, JobId};
use crate::text::MAX_NAME_UNITS;
use crate::time::rfc3339;

use super::job::Job;
use super::new_job::NewJob;

/// The header that a follow-up gets from its batch.
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
    /// A batch without a name and without a follow-up.
    pub fn new() -> NewBatch {
        NewBatch::default()
    }

    /// Names it, for people: up to 128 UTF-16 units; several may have one name.
    pub fn name(mut self, name: impl Into<String>) -> NewBatch {
        self.name = Some(name.into());
        self
    }

    /// Sets the follow-up: a job that is enqueued once, when all jobs of the batch have ended, into the queue by which
    /// the batch is created. It learns from [`Job::batch_end`] how they have ended, also where some are dead or
    /// cancelled. It can have no [`delay`](NewJob::delay), [`due_at`](NewJob::due_at), [`dedup_key`](NewJob::dedup_key)
    /// or [`group_key`](NewJob::group_key), and no [`batch`](NewJob::batch) but the [`parent`](NewBatch::parent).
    pub fn then(mut self, follow_up: NewJob) -> NewBatch {
        self.follow_up = Some(follow_up);
        self
    }

    /// Has the follow-up belong to another batch, which then does not end before: so batches nest. The parent must have
    /// been created and not be sealed.
    pub fn parent(mut self, parent: BatchId) -> NewBatch {
        self.parent = Some(parent);
        self
    }

    /// Refuses here what SQL Server would refuse, or could not keep.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidBatch`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        let invalid = |reason: String| Err(Error::InvalidBatch { reason });
        let units = self.name.as_ref().map_or(0, |name| name.encode_utf16().count());
        if units > MAX_NAME_UNITS {
            return invalid(format!("its name has {units} UTF-16 units; it must have {MAX_NAME_UNITS} at most"));
        }
        let Some(job) = &self.follow_up else {
            return match self.parent {
                Some(_) => invalid("it belongs to its parent by its follow-up, and has none".to_string()),
                None => Ok(()),
            };
        };
        let cannot_have = [
            ("delay", job.delay.is_some()),
            ("due_at", job.due_at.is_some()),
            ("dedup_key", job.dedup_key.is_some()),
            ("group_key", job.group_key.is_some()),
            ("batch", job.batch.is_some()),
        ];
        if let Some((what, _)) = cannot_have.iter().find(|(_, has)| *has) {
            let instead = if *what == "batch" { "; NewBatch::parent says which batch it belongs to" } else { "" };
            return invalid(format!("its follow-up has {what}, which a follow-up cannot have{instead}"));
        }
        match job.check() {
            Err(Error::InvalidJob { reason }) => invalid(format!("of its follow-up, {reason}")),
            checked => checked,
        }
    }
}

/// What became of a batch when it was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SealedBatch {
    /// How many jobs it has.
    pub jobs: u64,
    /// Whether all of them have ended already, so that the follow-up is enqueued.
    pub ended: bool,
}

/// A batch, and how far it is. All times are SQL Server's.
///
/// As JSON it has the times as in RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchRow {
    /// The batch's number.
    pub batch_id: BatchId,
    /// Its name.
    pub name: Option<String>,
    /// The batch that its follow-up belongs to.
    pub parent_id: Option<BatchId>,
    /// The queue of its follow-up; its jobs may be in any.
    pub queue: String,
    /// When it was created.
    pub created_at: SystemTime,
    /// When it was sealed; `None`: jobs can be added.
    pub sealed_at: Option<SystemTime>,
    /// When it was sealed and its last job had ended.
    pub ended_at: Option<SystemTime>,
    /// How many jobs it has, as far as they are committed; requeued ones count once.
    pub jobs: u64,
    /// How many of them are done.
    pub done: u64,
    /// How many are dead.
    pub dead: u64,
    /// How many were cancelled, or purged before they had ended.
    pub cancelled: u64,
    /// The follow-up, once it is enqueued.
    pub follow_up_id: Option<JobId>,
}

impl BatchRow {
    /// How many of its jobs have not ended.
    pub fn unfinished(&self) -> u64 {
        // The numbers are read without locks, one after the other.
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

/// How the jobs of a batch have ended, as its follow-up learns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BatchEnd {
    /// The batch.
    pub batch_id: BatchId,
    /// How many of its jobs were done.
    pub done: u64,
    /// How many were dead.
    pub dead: u64,
    /// How many were cancelled, or purged before they had ended.
    pub cancelled: u64,
}

impl Job {
    /// Of the follow-up of a batch: how the batch's jobs have ended. `None`: it is no such job.
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
            let expected = format!("its follow-up has {what}, which a follow-up cannot have");
            let message = then(refused);
            assert!(message.contains(&expected), "{message}");
        }
        assert!(then(job().kind("two words")).contains("of its follow-up, kind is 'two words'"));
        assert!(message(NewBatch::new().parent(BatchId(7))).contains("and has none"));
        assert!(message(NewBatch::new().name("x".repeat(129))).contains("its name has 129 UTF-16 units"));
        let good = job().kind("k").priority(1).max_attempts(2).time_limit(Duration::from_secs(1)).header("a", "b");
        NewBatch::new().name("x".repeat(128)).then(good).parent(BatchId(7)).check().unwrap();
        NewBatch::new().check().unwrap();
    }
}
