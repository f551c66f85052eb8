//! The numbers by which jobs, batches, claims and workers are known, and what an enqueue answers.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What became of a job that was handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Enqueued {
    /// The job's number; that of the unfinished job with the same de-duplication key if this is a `duplicate`.
    pub job_id: JobId,
    /// Whether nothing was added, because an unfinished job of the queue had the same de-duplication key at that
    /// moment.
    pub duplicate: bool,
}

/// The number of a job, given by SQL Server; grows in the order in which jobs are enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub i64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a batch, given by SQL Server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BatchId(pub i64);

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of an action that was noted ([`Admin::begin_audit`](crate::admin::Admin::begin_audit)), given by SQL
/// Server; grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AuditId(pub i64);

impl fmt::Display for AuditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts the claims of a job. An acknowledgement with an old fence changes nothing, so that a late worker cannot end a
/// job that another worker runs by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fence(pub i32);

impl Fence {
    /// The fence of a job of a queue with delivery `at_most_once`: its row is gone, and there is nothing to
    /// acknowledge.
    pub const NONE: Fence = Fence(0);
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a worker: new at each start of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkerId(pub Uuid);

impl WorkerId {
    /// A new id.
    pub(crate) fn new() -> WorkerId {
        WorkerId(Uuid::new_v4())
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
