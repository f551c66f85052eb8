//! Ids of jobs, batches, claims and workers, and the result of an enqueue.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The result of enqueueing a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Enqueued {
    /// The job's id. If this is a `duplicate`, the id of the unfinished job with the same deduplication key.
    pub job_id: JobId,
    /// Whether the job was not added, because an unfinished job of the queue has the same deduplication key.
    pub duplicate: bool,
}

/// The id of a job, assigned by SQL Server. Jobs that are enqueued later have higher ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub i64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a batch, assigned by SQL Server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BatchId(pub i64);

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of an audit entry ([`Admin::begin_audit`](crate::admin::Admin::begin_audit)), assigned by SQL Server. Later
/// entries have higher ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AuditId(pub i64);

impl fmt::Display for AuditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A counter that grows with each claim of a job. A finish with an old fence changes nothing, so a late worker cannot
/// finish a job that another worker is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fence(pub i32);

impl Fence {
    /// The fence of a job of a queue with delivery `at_most_once`: its row is deleted, so there is nothing to finish.
    pub const NONE: Fence = Fence(0);
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a worker, new at each start of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkerId(pub Uuid);

impl WorkerId {
    pub(crate) fn new() -> WorkerId {
        WorkerId(Uuid::new_v4())
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
