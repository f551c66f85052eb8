//! A queue's depth, and what its workers do.

use readpast::{QueueStats, WorkerRow};
use serde::Serialize;

/// A queue's depth and settings, and how fast its workers are. As JSON: that of [`QueueStats`] and, beside it,
/// `done_per_s` and `failed_per_s`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Activity {
    #[serde(flatten)]
    pub stats: QueueStats,
    /// Jobs done a second, by all workers of the queue together, each between its last two heartbeats. `None`: no worker
    /// has reported yet, or the login may not see workers.
    pub done_per_s: Option<f64>,
    /// Attempts failed a second, likewise.
    pub failed_per_s: Option<f64>,
}

impl Activity {
    /// Of a queue and all workers of the schema; `None`: they cannot be seen.
    pub fn new(stats: QueueStats, workers: Option<&[WorkerRow]>) -> Activity {
        let rate = |of: fn(&WorkerRow) -> Option<f64>| {
            let workers = workers?.iter().filter(|worker| worker.queue == stats.queue && worker.is_live());
            let rates: Vec<Option<f64>> = workers.map(of).collect();
            // Without a worker nothing is done, and that is known.
            let nobody_knows = !rates.is_empty() && rates.iter().all(Option::is_none);
            (!nobody_knows).then(|| rates.into_iter().flatten().fold(0.0, |sum, rate| sum + rate))
        };
        let (done_per_s, failed_per_s) = (rate(|worker| worker.done_per_s), rate(|worker| worker.failed_per_s));
        Activity { stats, done_per_s, failed_per_s }
    }
}
