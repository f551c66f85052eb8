//! The state of a worker at one moment, [`WorkerStats`], and its [`Bottleneck`].

/// The resource that limits a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Bottleneck {
    /// The queue has too few jobs: there is nothing to do, or there is one worker too many.
    #[default]
    Idle,
    /// Claims are slow or fail: the network, SQL Server, or a `batch_size` that is too small for such short jobs.
    Claim,
    /// All threads are busy, as they should be; only more cores make the worker faster.
    Busy,
    /// Finish calls are slow or fail, so that unconfirmed jobs use up `max_in_flight` or `max_in_flight_bytes`; or the
    /// jobs are so large that fewer jobs than threads fit into `max_in_flight_bytes`.
    Finish,
    /// The queue's own limits ([`QueueOptions::max_running`](crate::procedures::operator::QueueOptions::max_running),
    /// [`rate`](crate::procedures::operator::QueueOptions::rate)) keep ready jobs back.
    QueueLimit,
    /// The worker's memory or tokens ([`ResourcesConfig`](crate::config::ResourcesConfig)) are in use, or so many
    /// threads that the next job does not fit, and jobs wait for them while threads are idle.
    Resources,
    /// The machine or the process's control group has less free memory than `worker.resources.min_free_memory`, so that
    /// nothing is started.
    Memory,
    /// An operator has asked the worker to claim no more jobs ([`Wish::Quiet`](crate::admin::Wish::Quiet)).
    Quiet,
}

impl Bottleneck {
    /// All bottlenecks, in the order of the metric's label values.
    pub(in crate::worker) const ALL: [Bottleneck; 8] = [
        Bottleneck::Idle,
        Bottleneck::Claim,
        Bottleneck::Busy,
        Bottleneck::Finish,
        Bottleneck::QueueLimit,
        Bottleneck::Resources,
        Bottleneck::Memory,
        Bottleneck::Quiet,
    ];
}

/// The jobs, results and health of a worker at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Claimed jobs that have not started.
    pub buffered: usize,
    /// Running jobs.
    pub running: usize,
    /// Jobs that have run, but that SQL Server has not confirmed yet.
    pub awaiting_finish: usize,
    /// Bytes of all these jobs: payloads and checkpoints until the handler has returned, outputs until they are
    /// confirmed.
    pub held_bytes: usize,
    /// Confirmed done jobs. In one rare case a job is counted twice, again after its next run: its handler called
    /// [`finish_in`](crate::transaction::finish_in()), the transaction was rolled back, and SQL Server's response that
    /// said so was lost.
    pub done: u64,
    /// Confirmed failed attempts of jobs that will be retried, here or in the queue to which they were moved.
    pub retried: u64,
    /// Confirmed jobs that will run again without using up an attempt: snoozed jobs, jobs of a kind without a handler,
    /// jobs that need more than the worker has, and jobs that would have waited too long for others of their kind or
    /// for the worker's resources.
    pub snoozed: u64,
    /// Confirmed dead jobs.
    pub dead: u64,
    /// Confirmed cancelled jobs: jobs that were cancelled while running
    /// ([`JobChange::Cancel`](crate::admin::JobChange::Cancel)), and were not done.
    pub cancelled: u64,
    /// Jobs that expired ([`NewJob::start_by`](crate::job::NewJob::start_by)): those that this worker did not start in
    /// time, and those of the queue that it found.
    pub expired: u64,
    /// Unstarted jobs that were released.
    pub released: u64,
    /// Jobs that no longer belonged to this worker when they started or finished: its lease had expired, and they were
    /// returned to the queue.
    pub lost: u64,
    /// Jobs that exceeded their time limit.
    pub overdue: u64,
    /// Jobs of a kind that this worker has no handler for.
    pub unknown_kind: u64,
    /// The bottleneck of the last seconds.
    pub limited_by: Bottleneck,
    /// Whether SQL Server certainly considers the worker alive. False once the worker is told to stop.
    pub lease_held: bool,
    /// Whether the last claim was answered, with or without jobs. False before the first.
    pub last_claim_succeeded: bool,
}
