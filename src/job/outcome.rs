//! What became of a run, from the handler to SQL Server, and the jobs that are enqueued with it.

use std::time::Duration;

use super::new_job::NewJob;

/// A job that is enqueued in the transaction in which another is acknowledged as done:
/// [`Output::enqueue`](crate::handler::Output::enqueue).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowUp {
    /// The queue that it is enqueued in.
    pub queue: String,
    /// The job.
    pub job: NewJob,
}

/// What a worker acknowledges about a job that it has run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is done.
    Done {
        /// What it leaves behind, for the queue's sink, and for queues that keep that.
        output: Option<Vec<u8>>,
        /// The jobs that are enqueued with its acknowledgement.
        follow_ups: Vec<FollowUp>,
    },
    /// It is done, and its handler has acknowledged it itself: [`finish_in`](crate::transaction::finish_in()).
    Acknowledged,
    /// It failed and runs again, unless its attempts are used up: then it is dead.
    Retry {
        /// How long it waits before that.
        delay: Duration,
        /// Why it failed, with all causes; as much as the column holds (4,000 UTF-16 units).
        error: String,
    },
    /// It runs again, and this attempt does not count.
    Snooze {
        /// How long it waits before that.
        delay: Duration,
        /// Why; as much as the column holds (4,000 UTF-16 units).
        error: String,
    },
    /// It failed for good.
    Dead {
        /// Why it failed, with all causes; as much as the column holds (4,000 UTF-16 units).
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

    /// The bytes that its acknowledgement carries: of its output and of the payloads of its follow-ups.
    pub(crate) fn bytes(&self) -> usize {
        let output = self.output().map_or(0, <[u8]>::len);
        output + self.follow_ups().iter().map(|follow_up| follow_up.job.payload.len()).sum::<usize>()
    }
}
