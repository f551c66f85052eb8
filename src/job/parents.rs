//! The jobs that a job waits for.

use std::fmt;

use crate::id::JobId;

/// A job that another one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parent {
    Job(JobId),
    /// The job at this place in the same call.
    Earlier(usize),
}

/// What becomes of a job if one that it waits for dies ([`NewJob::on_dead`](crate::NewJob::on_dead)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnDead {
    /// It waits on, because the dead job may be requeued. If that is cancelled or deleted, it is cancelled.
    #[default]
    Hold,
    /// It is cancelled, and also if the other is cancelled or deleted.
    Cancel,
    /// It runs when all have ended, however they have ended.
    Run,
}

impl OnDead {
    pub(crate) const ALL: [OnDead; 3] = [OnDead::Hold, OnDead::Cancel, OnDead::Run];

    pub(crate) fn word(self) -> &'static str {
        match self {
            OnDead::Hold => "hold",
            OnDead::Cancel => "cancel",
            OnDead::Run => "run",
        }
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
