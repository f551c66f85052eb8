//! Whether a worker's own thread still runs what it has to: [`Pulse`].
//!
//! Claims, heartbeats and acknowledgements are tasks of one thread. What blocks it (a log that nobody reads, for
//! example) stops them all without an error, while the process lives and its other threads answer. So one more task
//! there beats each second, and whoever asks from another thread learns when it has not for long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::worker_state::WorkerState;

/// How often the thread beats.
const INTERVAL: Duration = Duration::from_secs(1);

/// After so long without a beat the thread is stuck. A thread that only gets no core is back within seconds.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// When the worker's thread was last known to run. (By a clock that stands still while the machine is suspended.)
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

/// Beats until the task is ended.
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
