//! What a worker tells about itself at one moment: [`WorkerStats`].

use super::limit::Limit;

/// What a worker holds and has done, and how it is, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Claimed jobs that have not started.
    pub buffered: usize,
    /// Jobs that run.
    pub running: usize,
    /// Ended jobs that SQL Server has not confirmed yet.
    pub awaiting_finish: usize,
    /// Bytes of payloads, checkpoints and outputs of all these: the first two until the handler has returned, the
    /// output until it is confirmed.
    pub held_bytes: usize,
    /// Jobs that are done and confirmed. Where a handler has called [`finish_in`](crate::finish_in()), its transaction
    /// was rolled back, and the answer with which SQL Server said so was lost, the job counts here too, and again when
    /// it has run again.
    pub done: u64,
    /// Failed attempts that were confirmed and will be repeated.
    pub retried: u64,
    /// Jobs that will run again later without a counted attempt, confirmed: those that their handler snoozed, those of
    /// a kind that this worker has no handler for, and those that would have waited too long for others of their kind.
    pub snoozed: u64,
    /// Jobs that are dead and confirmed.
    pub dead: u64,
    /// Jobs that ran when they were asked to be cancelled ([`Queue::cancel`](crate::Queue::cancel)), and ended without
    /// being done, confirmed.
    pub cancelled: u64,
    /// Unstarted jobs that were given back.
    pub released: u64,
    /// Jobs that were no longer this worker's when they ended or were to start: its lease had run out, and they were
    /// given to others.
    pub lost: u64,
    /// Jobs that were seen to run longer than their time limit.
    pub overdue: u64,
    /// Jobs of a kind that this worker has no handler for.
    pub unknown_kind: u64,
    /// What limited the worker in the last seconds.
    pub limited_by: Limit,
    /// Whether SQL Server certainly believes the worker alive. False from when it is told to stop.
    pub lease_held: bool,
    /// Whether the last claim was answered, with jobs or without. False before the first.
    pub last_claim_succeeded: bool,
}
