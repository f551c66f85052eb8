//! What limits a worker: [`Limit`].

/// What limits a worker: where more would make it faster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
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
    /// The queue's own limits ([`QueueOptions::max_running`](crate::QueueOptions::max_running),
    /// [`rate`](crate::QueueOptions::rate)): jobs are ready, but may not be claimed yet.
    QueueLimit,
}

impl Limit {
    /// In the order of the metric's label values.
    pub(in crate::worker) const ALL: [Limit; 5] =
        [Limit::Idle, Limit::Claim, Limit::Busy, Limit::Finish, Limit::QueueLimit];
}
