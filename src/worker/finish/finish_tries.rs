//! Retries calls that finish jobs until SQL Server has responded. If SQL Server rejects them permanently, the worker
//! stops.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::Error;
use crate::time::Pauses;
use crate::worker::state::WorkerState;

/// For how long calls that SQL Server rejects permanently are retried. A procedure that a deployment replaces is
/// missing for less time.
const GRACE: Duration = Duration::from_secs(3);

/// Whether SQL Server accepts finish calls, for all connections that send them.
pub(in crate::worker) struct FinishRefusals {
    state: Arc<WorkerState>,
    /// When SQL Server permanently rejected a call, if it has accepted none since.
    refused_at: Mutex<Option<Instant>>,
}

impl FinishRefusals {
    pub(in crate::worker) fn new(state: Arc<WorkerState>) -> FinishRefusals {
        FinishRefusals { state, refused_at: Mutex::default() }
    }

    /// Records that SQL Server has accepted a call.
    pub(in crate::worker) fn accepted(&self) {
        *self.refused_at.lock() = None;
    }

    /// Called when SQL Server has rejected a call and will keep rejecting it until the cause is fixed. Stops the
    /// worker: gracefully while other calls are accepted, and immediately if none was accepted for a while, because the
    /// results then cannot be delivered.
    fn refused(&self, error: Error) {
        let WorkerState { stop, in_flight, .. } = &*self.state;
        stop.fail(error);
        let refused_at = *self.refused_at.lock().get_or_insert_with(Instant::now);
        if refused_at.elapsed() >= GRACE {
            tracing::error!(
                awaiting_finish = in_flight.awaiting_finish(),
                "SQL Server still rejects finish calls; unconfirmed jobs will run again"
            );
            stop.stop_now();
        }
    }
}

/// The tries of one call.
pub(in crate::worker) struct FinishTries<'a> {
    refusals: &'a FinishRefusals,
    pauses: Pauses,
    /// How many tries have failed.
    tries: u32,
}

impl<'a> FinishTries<'a> {
    /// The first and the longest pause between tries: short enough for a deadlock victim, long enough to spare a server
    /// that is just starting.
    const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

    pub(in crate::worker) fn new(refusals: &'a FinishRefusals) -> FinishTries<'a> {
        FinishTries { refusals, pauses: Pauses::new(Self::PAUSES.0, Self::PAUSES.1), tries: 0 }
    }

    pub(in crate::worker) async fn pause(&mut self, procedure: &'static str, batch: usize, error: Error) {
        let mut pause = self.pauses.next();
        if !error.is_transient() {
            pause = pause.min(GRACE / 10);
        }
        self.note(procedure, batch, error, pause);
        tokio::time::sleep(pause).await;
    }

    /// Counts and logs a failure after which the call is retried in `retry_in`.
    pub(in crate::worker) fn note(&mut self, procedure: &'static str, batch: usize, error: Error, retry_in: Duration) {
        self.tries += 1;
        self.refusals.state.metrics.finish_retries.increment(1);
        if error.is_transient() {
            if !self.refusals.state.outage.tells_of(FINISHING, &error) {
                let (attempt, sql_error) = (self.tries, error.sql_number());
                tracing::warn!(procedure, batch, attempt, sql_error, %error, ?retry_in, "finish failed; retrying");
            }
        } else {
            // Nothing is dropped yet: if the cause is fixed soon, the outcomes still arrive.
            self.refusals.refused(error);
        }
    }
}

/// One name for all finish calls in the log of outages, because the worker sends them on several connections.
const FINISHING: &str = "finish";

impl Drop for FinishTries<'_> {
    /// Records that the call succeeded, or is no longer retried.
    fn drop(&mut self) {
        if self.tries > 0 {
            self.refusals.state.outage.answered(FINISHING);
        }
    }
}
