//! A job in memory that has not started.

use std::time::Instant;

use crate::handler::Permit;
use crate::ids::Fence;
use crate::job::Job;

use super::held_job::Held;

/// A job in memory, as the prefetcher hands it over.
pub(super) struct Claimed {
    pub(super) job: Job,
    pub(super) held: Held,
    pub(super) claimed_at: Instant,
    /// Of its kind's limit, where that has one.
    pub(super) permit: Option<Permit>,
}

impl Claimed {
    /// False for a job of an `at_most_once` queue: its claim has deleted the row, and it cannot be given back.
    pub(super) fn has_row(&self) -> bool {
        self.job.fence() != Fence::NONE
    }
}
