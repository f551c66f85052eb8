//! Reads a worker's stats at any time, for programs, health pages and progress bars: [`Monitor`].

use std::fmt;
use std::sync::Arc;

use crate::metrics::Health;
use crate::worker::lease::Lease;
use crate::worker::state::{WorkerState, WorkerStats};

/// Reads a worker's stats while something else waits for its end.
#[derive(Clone)]
pub struct Monitor {
    pub(in crate::worker) state: Arc<WorkerState>,
    pub(in crate::worker) lease: Lease,
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Monitor").field(&self.stats()).finish()
    }
}

impl Monitor {
    /// What the worker holds and has done, and how it is, at this moment. Cheap: a few atomic reads and two locks that
    /// nobody holds long.
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

    /// Whether the worker's own thread runs: the one on which it claims, keeps its lease and acknowledges. False when
    /// it has been blocked for ten seconds, by a log that nobody reads for example; then nothing but a new process
    /// helps. While SQL Server is away it is true: the worker waits for it, and holds its results. Of a worker that has
    /// ended it says nothing.
    ///
    /// `/healthz` says the same of all workers of the process.
    pub fn is_alive(&self) -> bool {
        self.state.pulse.is_felt()
    }

    /// Which of the queue's duties this worker has and fails at, each with the error: `promote`, `reap`, `sample`,
    /// `expire`, `schedules`. Empty in a worker that does not have the duties. Its jobs run all the same, the duties
    /// are tried again, and another worker of the queue takes them over where one can.
    pub fn failing_duties(&self) -> Vec<(&'static str, String)> {
        self.state.duty_failures.standing()
    }
}

impl Health for Monitor {
    fn has_ended(&self) -> bool {
        self.state.stop.has_ended()
    }

    fn is_alive(&self) -> bool {
        Monitor::is_alive(self)
    }

    fn holds_lease(&self) -> bool {
        self.stats().lease_held
    }

    fn last_claim_succeeded(&self) -> bool {
        self.stats().last_claim_succeeded
    }

    fn failing_duties(&self) -> Vec<&'static str> {
        Monitor::failing_duties(self).into_iter().map(|(duty, _)| duty).collect()
    }
}
