//! A worker seen from outside: its counts, its health and what limits it, for programs, metrics, health pages and progress bars.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;

use crate::metrics::{Levels, WorkerMetrics};

use super::counts::{Counts, WorkerStats};
use super::lease::Registration;
use super::occupancy::Occupancy;
use super::shutdown::StopHandle;

/// How often the levels are read.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reads a worker's stats while something else waits for its end.
#[derive(Clone)]
pub struct Monitor {
    pub(super) counts: Arc<Counts>,
    pub(super) occupancy: Arc<Occupancy>,
    pub(super) registration: watch::Receiver<Arc<Registration>>,
    pub(super) stop: StopHandle,
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Monitor").field(&self.stats()).finish()
    }
}

impl Monitor {
    /// What the worker holds and has done, and how it is, at this moment. Cheap: a few atomic reads and two locks that nobody holds long.
    pub fn stats(&self) -> WorkerStats {
        let (_, limited_by) = self.occupancy.shares();
        WorkerStats {
            limited_by,
            lease_held: self.stop.is_running() && self.registration.borrow().is_held(),
            last_claim_succeeded: self.counts.last_claim_succeeded.load(Ordering::Acquire),
            ..self.counts.stats()
        }
    }

    /// Whether the worker has ended or stops at once.
    #[cfg_attr(not(feature = "prometheus"), expect(dead_code, reason = "only the exporter asks"))]
    pub(crate) fn has_ended(&self) -> bool {
        self.stop.has_ended()
    }

    /// Keeps the gauges up to date until the task is ended.
    pub(super) async fn keep_gauges(self, metrics: Arc<WorkerMetrics>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        loop {
            ticks.tick().await;
            metrics.levels(&self.levels());
            self.occupancy.read();
        }
    }

    pub(super) fn levels(&self) -> Levels {
        Levels {
            buffered: self.counts.unstarted(),
            running: self.counts.running(),
            awaiting_finish: self.counts.awaiting_finish(),
            held_bytes: self.counts.held_bytes(),
            limited: self.occupancy.shares().0,
            lease_age: self.registration.borrow().clock().age(),
        }
    }
}
