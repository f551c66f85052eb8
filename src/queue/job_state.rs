//! Where a job is on its way.

use super::columns::word;

/// Where a job is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Waits to be claimed.
    Ready,
    /// Waits for its time.
    Scheduled,
    /// Held by a worker.
    Claimed,
    /// Run, and kept in the table (completion policy `annotate`).
    Done,
    /// Out of attempts, or failed for good.
    Dead,
    /// Run, and moved to the archive (completion policy `archive`).
    Archived,
}

impl JobState {
    pub(super) const WORDS: [(&'static str, JobState); 6] = [
        ("ready", JobState::Ready),
        ("scheduled", JobState::Scheduled),
        ("claimed", JobState::Claimed),
        ("done", JobState::Done),
        ("dead", JobState::Dead),
        ("archived", JobState::Archived),
    ];

    pub(super) fn word(self) -> &'static str {
        word(&JobState::WORDS, self)
    }
}
