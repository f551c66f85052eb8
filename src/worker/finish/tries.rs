//! Acknowledgements that fail are repeated, until SQL Server has answered. Where it refuses them for good, the worker
//! stops.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::Error;
use crate::time::Pauses;
use crate::worker::state::WorkerState;

/// For how long acknowledgements that SQL Server refuses for good are tried again: a procedure that a deployment
/// replaces is gone for less.
const GRACE: Duration = Duration::from_secs(3);

/// Whether acknowledging works, for all connections that do it.
pub(in crate::worker) struct Acknowledging {
    state: Arc<WorkerState>,
    /// When SQL Server refused an acknowledgement for good, if it has accepted none since.
    refused_at: Mutex<Option<Instant>>,
}

impl Acknowledging {
    pub(in crate::worker) fn new(state: Arc<WorkerState>) -> Acknowledging {
        Acknowledging { state, refused_at: Mutex::default() }
    }

    /// SQL Server has accepted an acknowledgement.
    pub(in crate::worker) fn accepted(&self) {
        *self.refused_at.lock() = None;
    }

    /// SQL Server has refused an acknowledgement, and will refuse it again until somebody mends the cause: the worker
    /// stops. In order, as long as others are accepted; when for a while none was, at once, because the results have
    /// nowhere to go.
    fn refused(&self, error: Error) {
        let WorkerState { stop, in_flight, .. } = &*self.state;
        stop.fail(error);
        let refused_at = *self.refused_at.lock().get_or_insert_with(Instant::now);
        if refused_at.elapsed() >= GRACE {
            tracing::error!(
                awaiting_finish = in_flight.awaiting_finish(),
                "the acknowledgement is still rejected; unacknowledged jobs will run again"
            );
            stop.stop_now();
        }
    }
}

/// The tries of one call.
pub(in crate::worker) struct FinishTries<'a> {
    acknowledging: &'a Acknowledging,
    pauses: Pauses,
    /// How many have failed.
    tries: u32,
}

impl<'a> FinishTries<'a> {
    /// The first and the longest pause between tries: short enough for a deadlock victim, long enough not to press a
    /// server that is just starting.
    const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

    pub(in crate::worker) fn new(acknowledging: &'a Acknowledging) -> FinishTries<'a> {
        FinishTries { acknowledging, pauses: Pauses::new(Self::PAUSES.0, Self::PAUSES.1), tries: 0 }
    }

    pub(in crate::worker) async fn pause(&mut self, procedure: &'static str, batch: usize, error: Error) {
        let mut pause = self.pauses.next();
        if !error.is_transient() {
            pause = pause.min(GRACE / 10);
        }
        self.note(procedure, batch, error, pause);
        tokio::time::sleep(pause).await;
    }

    /// Counts and logs a failure after which the call is repeated in `retry_in`.
    pub(in crate::worker) fn note(&mut self, procedure: &'static str, batch: usize, error: Error, retry_in: Duration) {
        self.tries += 1;
        self.acknowledging.state.metrics.finish_retries.increment(1);
        if error.is_transient() {
            if !self.acknowledging.state.outage.tells_of(ACKNOWLEDGING, &error) {
                let (attempt, sql_error) = (self.tries, error.sql_number());
                tracing::warn!(procedure, batch, attempt, sql_error, %error, ?retry_in, "acknowledgement failed; retrying");
            }
        } else {
            // Nothing is dropped yet: should the cause be mended soon, the results still arrive.
            self.acknowledging.refused(error);
        }
    }
}

/// For the log of outages, all calls that acknowledge are one: the worker has several connections for them.
const ACKNOWLEDGING: &str = "finish";

impl Drop for FinishTries<'_> {
    /// The call has succeeded, or is not repeated any more.
    fn drop(&mut self) {
        if self.tries > 0 {
            self.acknowledging.state.outage.answered(ACKNOWLEDGING);
        }
    }
}
