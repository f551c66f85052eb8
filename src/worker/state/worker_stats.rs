//! What a worker tells about itself at one moment: [`WorkerStats`], and what limits it: [`Bottleneck`].

/// What limits a worker: where more would make it faster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Bottleneck {
    /// Too few jobs in the queue: nothing to do, or one worker too many.
    #[default]
    Idle,
    /// Claims are slow or fail: the network, SQL Server, or a `batch_size` that is too small for such short jobs.
    Claim,
    /// All threads are busy. This is how it should be; more cores make it faster.
    Busy,
    /// Acknowledgements are slow or fail, and what waits for them uses up `max_in_flight` or `max_in_flight_bytes`; or
    /// the jobs are so large that fewer than there are threads fit into the latter.
    Finish,
    /// The queue's own limits ([`QueueOptions::max_running`](crate::procedures::operator::QueueOptions::max_running),
    /// [`rate`](crate::procedures::operator::QueueOptions::rate)): jobs are ready, but may not be claimed yet.
    QueueLimit,
}

impl Bottleneck {
    /// In the order of the metric's label values.
    pub(in crate::worker) const ALL: [Bottleneck; 5] =
        [Bottleneck::Idle, Bottleneck::Claim, Bottleneck::Busy, Bottleneck::Finish, Bottleneck::QueueLimit];
}

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
    /// Jobs that are done and confirmed. Where a handler has called [`finish_in`](crate::transaction::finish_in()), its
    /// transaction was rolled back, and the answer with which SQL Server said so was lost, the job counts here too, and
    /// again when it has run again.
    pub done: u64,
    /// Failed attempts that were confirmed and will be repeated.
    pub retried: u64,
    /// Jobs that will run again later without a counted attempt, confirmed: those that their handler snoozed, those of
    /// a kind that this worker has no handler for, and those that would have waited too long for others of their kind.
    pub snoozed: u64,
    /// Jobs that are dead and confirmed.
    pub dead: u64,
    /// Jobs that ran when they were asked to be cancelled ([`JobChange::Cancel`](crate::admin::JobChange::Cancel)), and ended
    /// without being done, confirmed.
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
    pub limited_by: Bottleneck,
    /// Whether SQL Server certainly believes the worker alive. False from when it is told to stop.
    pub lease_held: bool,
    /// Whether the last claim was answered, with jobs or without. False before the first.
    pub last_claim_succeeded: bool,
}
