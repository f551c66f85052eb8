//! [`Pulse`] detects that the worker's own thread is stuck.
//!
//! Claims, heartbeats and finish calls are tasks of one thread. If that thread is blocked, for example by a log that is
//! not read, they all stop without an error, while the process and its other threads keep running. A task on that
//! thread therefore beats every second, and other threads check how old the last beat is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::worker_state::WorkerState;

const INTERVAL: Duration = Duration::from_secs(1);

/// After this time without a beat, the thread counts as stuck. A thread that is only short of CPU time beats again
/// within seconds.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// The time of the last beat, by a clock that stops while the machine is suspended.
#[derive(Debug)]
pub(in crate::worker) struct Pulse(Mutex<Instant>);

impl Pulse {
    pub(in crate::worker) fn new() -> Pulse {
        Pulse(Mutex::new(Instant::now()))
    }

    fn beat(&self) {
        *self.0.lock() = Instant::now();
    }

    pub(crate) fn is_felt(&self) -> bool {
        self.0.lock().elapsed() < LONGEST_SILENCE
    }
}

pub(in crate::worker) async fn keep_beating(state: Arc<WorkerState>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        state.pulse.beat();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_stuck_when_its_thread_has_not_run_for_ten_seconds() {
        let pulse = Pulse::new();
        assert!(pulse.is_felt());
        // The machine has just started.
        let Some(long_ago) = Instant::now().checked_sub(LONGEST_SILENCE) else { return };
        *pulse.0.lock() = long_ago;
        assert!(!pulse.is_felt());
        pulse.beat();
        assert!(pulse.is_felt());
    }
}
