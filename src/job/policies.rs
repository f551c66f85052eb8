//! What a queue does with its jobs.

use serde::Serialize;

use crate::text::word;

/// In which order a queue's jobs are claimed; always within a priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClaimOrder {
    /// The oldest first.
    Fifo,
    /// The newest first.
    Lifo,
    /// Whatever SQL Server finds first; ignores priorities too.
    Any,
}

impl ClaimOrder {
    pub(crate) const WORDS: [(&'static str, ClaimOrder); 3] =
        [("fifo", ClaimOrder::Fifo), ("lifo", ClaimOrder::Lifo), ("any", ClaimOrder::Any)];

    pub(crate) fn word(self) -> &'static str {
        word(&ClaimOrder::WORDS, self)
    }
}

/// What becomes of a job's row when the job is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompletionPolicy {
    /// It is deleted.
    Delete,
    /// It stays, with its times and output, until it is purged.
    Annotate,
    /// It moves to the archive table, with its times and output, until it is purged.
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

/// What a claim promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Delivery {
    /// A job whose worker dies runs again.
    AtLeastOnce,
    /// The claim deletes the row: a job never runs twice, and is gone when its worker dies.
    AtMostOnce,
}

impl Delivery {
    pub(crate) const WORDS: [(&'static str, Delivery); 2] =
        [("at_least_once", Delivery::AtLeastOnce), ("at_most_once", Delivery::AtMostOnce)];

    pub(crate) fn word(self) -> &'static str {
        word(&Delivery::WORDS, self)
    }
}
