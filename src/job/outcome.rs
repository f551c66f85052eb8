//! The outcome of a run, as its handler reports it, and the follow-up jobs.

use std::time::Duration;

use super::needs::Needs;
use super::new_job::NewJob;

/// A job that is enqueued in the transaction that finishes another as done:
/// [`Output::enqueue`](crate::handler::Output::enqueue).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowUp {
    /// The queue of the job.
    pub queue: String,
    /// The job.
    pub job: NewJob,
}

/// The outcome that a worker reports for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The job is done.
    Done {
        /// The output, for the queue's sink, and for queues that keep outputs.
        output: Option<Vec<u8>>,
        /// The jobs to enqueue in the same transaction.
        follow_ups: Vec<FollowUp>,
    },
    /// The job is done, and its handler has finished it: [`finish_in`](crate::transaction::finish_in()).
    ByHandler,
    /// The job failed. It runs again, or becomes dead if it has no attempts left.
    Retry {
        /// The time until it is due again.
        delay: Duration,
        /// Why it failed, with all causes, cut to 4,000 UTF-16 units.
        error: String,
        /// The job's needs from now on, if they change.
        needs: Option<Box<Needs>>,
    },
    /// The job runs again, without using up an attempt.
    Snooze {
        /// The time until it is due again.
        delay: Duration,
        /// The reason, cut to 4,000 UTF-16 units.
        error: String,
    },
    /// The job failed, and goes to another queue, where it has all its attempts again. If it cannot be moved, it
    /// becomes dead, and its error says why.
    Move {
        /// The queue, of the same schema.
        queue: String,
        /// Why it failed, with all causes, cut to 4,000 UTF-16 units.
        error: String,
    },
    /// The job was not started, because it was too late ([`NewJob::start_by`]). It is cancelled, and its attempt does not
    /// count. No hook sees this outcome, because nothing has run.
    Expired {
        /// What the limit was.
        error: String,
    },
    /// The job failed permanently.
    Dead {
        /// Why it failed, with all causes, cut to 4,000 UTF-16 units.
        error: String,
    },
}

impl Outcome {
    pub(crate) fn output(&self) -> Option<&[u8]> {
        match self {
            Outcome::Done { output, .. } => output.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn follow_ups(&self) -> &[FollowUp] {
        match self {
            Outcome::Done { follow_ups, .. } => follow_ups,
            _ => &[],
        }
    }

    /// The bytes of the output and of the follow-ups.
    pub(crate) fn bytes(&self) -> usize {
        let output = self.output().map_or(0, <[u8]>::len);
        output + self.follow_ups().iter().map(|follow_up| follow_up.job.held_bytes()).sum::<usize>()
    }

    /// The queue that the job goes to.
    pub(crate) fn moves_to(&self) -> Option<&str> {
        match self {
            Outcome::Move { queue, .. } => Some(queue),
            _ => None,
        }
    }

    /// The job's new needs, if they change.
    pub(crate) fn new_needs(&self) -> Option<&Needs> {
        match self {
            Outcome::Retry { needs, .. } => needs.as_deref(),
            _ => None,
        }
    }

    /// The size of its error.
    pub(crate) fn error_bytes(&self) -> usize {
        match self {
            Outcome::Retry { error, .. }
            | Outcome::Snooze { error, .. }
            | Outcome::Move { error, .. }
            | Outcome::Expired { error }
            | Outcome::Dead { error } => error.len(),
            Outcome::Done { .. } | Outcome::ByHandler => 0,
        }
    }
}
