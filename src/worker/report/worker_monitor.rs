//! [`WorkerMonitor`] reads a worker's stats at any time, for programs, health pages and progress bars.

use std::fmt;
use std::sync::Arc;

use crate::metrics::WorkerHealth;
use crate::worker::lease::Lease;
use crate::worker::state::{WorkerState, WorkerStats};

/// Reads a worker's stats while [`Worker::run`](crate::Worker::run) is running.
#[derive(Clone)]
pub struct WorkerMonitor {
    pub(in crate::worker) state: Arc<WorkerState>,
    pub(in crate::worker) lease: Lease,
}

impl fmt::Debug for WorkerMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkerMonitor").field(&self.stats()).finish()
    }
}

impl WorkerMonitor {
    /// Returns the worker's jobs, results and health at this moment. Cheap: a few atomic reads and two briefly held
    /// locks.
    pub fn stats(&self) -> WorkerStats {
        let WorkerState { in_flight, tally, limited_by, stop, .. } = &*self.state;
        let (_, limited_by) = limited_by.shares();
        WorkerStats {
            buffered: in_flight.unstarted() + in_flight.parked(),
            running: in_flight.running(),
            awaiting_finish: in_flight.awaiting_finish(),
            held_bytes: in_flight.bytes(),
            limited_by,
            lease_held: stop.is_running() && self.lease.is_held(),
            ..tally.stats()
        }
    }

    /// Whether the worker's own thread, which claims, renews the lease and finishes jobs, is running. False if it has
    /// been blocked for ten seconds, for example by a log that is not read; then only a restart of the process helps.
    /// True while SQL Server is away: the worker waits for it and keeps its outcomes. Meaningless after the worker has
    /// stopped.
    ///
    /// `/healthz` reports the same for all workers of the process.
    pub fn is_alive(&self) -> bool {
        self.state.pulse.is_felt()
    }

    /// Returns the maintenance tasks that fail in this worker, with their errors: `promote`, `reap`, `sample`,
    /// `expire`, `schedules`. Empty if another worker is elected. The worker's jobs run nevertheless, the tasks are
    /// retried, and another worker takes them over if it can.
    pub fn failing_duties(&self) -> Vec<(&'static str, String)> {
        self.state.duty_failures.standing()
    }
}

impl WorkerHealth for WorkerMonitor {
    fn has_ended(&self) -> bool {
        self.state.stop.has_ended()
    }

    fn is_alive(&self) -> bool {
        WorkerMonitor::is_alive(self)
    }

    fn holds_lease(&self) -> bool {
        self.stats().lease_held
    }

    fn last_claim_succeeded(&self) -> bool {
        self.stats().last_claim_succeeded
    }

    fn failing_duties(&self) -> Vec<&'static str> {
        WorkerMonitor::failing_duties(self).into_iter().map(|(duty, _)| duty).collect()
    }
}
