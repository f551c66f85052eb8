//! A queue's policies for its jobs.

use serde::Serialize;

use crate::text::word;

/// The order in which a queue's jobs are claimed within a priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClaimOrder {
    /// Oldest first.
    Fifo,
    /// Newest first.
    Lifo,
    /// In any order within a priority.
    Any,
}

impl ClaimOrder {
    pub(crate) const WORDS: [(&'static str, ClaimOrder); 3] =
        [("fifo", ClaimOrder::Fifo), ("lifo", ClaimOrder::Lifo), ("any", ClaimOrder::Any)];

    pub(crate) fn word(self) -> &'static str {
        word(&ClaimOrder::WORDS, self)
    }
}

/// What happens to a job's row when the job is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompletionPolicy {
    /// The row is deleted.
    Delete,
    /// The row stays, with its times and output, until it is purged.
    Annotate,
    /// The row moves to the archive table, with its times and output, until it is purged.
    Archive,
}

impl CompletionPolicy {
    pub(crate) const WORDS: [(&'static str, CompletionPolicy); 3] = [
        ("delete", CompletionPolicy::Delete),
        ("annotate", CompletionPolicy::Annotate),
        ("archive", CompletionPolicy::Archive),
    ];

    pub(crate) fn word(self) -> &'static str {
        word(&CompletionPolicy::WORDS, self)
    }
}

/// What happens to a job whose worker dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Delivery {
    /// The job runs again.
    AtLeastOnce,
    /// The claim deletes the row: the job never runs twice, and is lost.
    AtMostOnce,
}

impl Delivery {
    pub(crate) const WORDS: [(&'static str, Delivery); 2] =
        [("at_least_once", Delivery::AtLeastOnce), ("at_most_once", Delivery::AtMostOnce)];

    pub(crate) fn word(self) -> &'static str {
        word(&Delivery::WORDS, self)
    }
}
