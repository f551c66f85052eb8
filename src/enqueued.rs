//! The answer to a job that was handed in.

use serde::Serialize;

use crate::ids::JobId;

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
