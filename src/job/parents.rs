//! The jobs that a job waits for, and how they ended.

use std::fmt;

use serde::Serialize;

use crate::id::JobId;

use crate::text::word;

use super::job_end::JobEnd;

/// A job that a new one is to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParentRef {
    Job(JobId),
    /// The job at this place in the same call.
    Earlier(usize),
}

/// A job that another one has waited for, as returned by [`Context::parents`](crate::Context::parents).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parent {
    /// The job.
    pub job_id: JobId,
    /// Its kind, if it had one and its row is still there.
    pub kind: Option<String>,
    /// How it had ended when it was no longer waited for. An error is empty if its row is gone, or has ended otherwise
    /// since then.
    pub end: JobEnd,
}

/// What becomes of a job if one that it waits for dies ([`NewJob::on_dead`](crate::NewJob::on_dead)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnDead {
    /// It waits on, because the dead job may be requeued. If the dead job is cancelled or deleted, it is cancelled.
    #[default]
    Hold,
    /// It is cancelled, as it is if the other job is cancelled or deleted.
    Cancel,
    /// It runs when all have ended, however they have ended.
    Run,
}

impl OnDead {
    pub(crate) const WORDS: [(&'static str, OnDead); 3] =
        [("hold", OnDead::Hold), ("cancel", OnDead::Cancel), ("run", OnDead::Run)];

    pub(crate) fn word(self) -> &'static str {
        word(&OnDead::WORDS, self)
    }
}

/// Its word: hold, cancel or run.
impl fmt::Display for OnDead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.word())
    }
}

/// The most jobs that one job can wait for, and the most of all jobs of one call.
pub(crate) const MAX_PARENTS: usize = 10_000;
