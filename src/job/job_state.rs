//! The states of a job.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::word;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum JobState {
    /// The job can be claimed now.
    Ready,
    /// The job is due later: it was delayed, or waits for a retry.
    Scheduled,
    /// The job waits for its turn in its group ([`NewJob::group_key`](super::new_job::NewJob::group_key)).
    Waiting,
    /// A worker holds the job.
    Claimed,
    /// The job is done, and is kept in the table (completion policy `annotate`).
    Done,
    /// The job is out of attempts, or has failed for good.
    Dead,
    /// The job was cancelled before it was done.
    Cancelled,
    /// The job is done, and was moved to the archive (completion policy `archive`).
    Archived,
}

impl JobState {
    /// All states, in the order of [`Admin::list`](crate::queue::Admin::list).
    pub(crate) const ALL: &[JobState] = &[
        JobState::Ready,
        JobState::Scheduled,
        JobState::Waiting,
        JobState::Claimed,
        JobState::Done,
        JobState::Dead,
        JobState::Cancelled,
        JobState::Archived,
    ];

    /// The states of unfinished jobs, in the order in which a job passes through them.
    pub(crate) const UNFINISHED: &[JobState] =
        &[JobState::Scheduled, JobState::Waiting, JobState::Ready, JobState::Claimed];

    pub(crate) const WORDS: [(&'static str, JobState); 8] = [
        ("ready", JobState::Ready),
        ("scheduled", JobState::Scheduled),
        ("waiting", JobState::Waiting),
        ("claimed", JobState::Claimed),
        ("done", JobState::Done),
        ("dead", JobState::Dead),
        ("cancelled", JobState::Cancelled),
        ("archived", JobState::Archived),
    ];

    /// Whether a job in this state is finished. It stays finished until it is requeued.
    pub fn has_ended(self) -> bool {
        !JobState::UNFINISHED.contains(&self)
    }

    pub(crate) fn word(self) -> &'static str {
        word(&JobState::WORDS, self)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
