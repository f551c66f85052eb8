//! Repeating a producer's calls that failed for a passing reason.

use std::time::{Duration, Instant};

use crate::error::Error;

/// The first and the longest pause between tries: short enough for a deadlock victim, long enough not to press a server
/// that is just starting.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The tries of one call.
pub(super) struct Retries {
    first_at: Instant,
    limit: Duration,
    tries: u32,
    pause: Duration,
}

impl Retries {
    /// After `limit`, no other try begins.
    pub(super) fn within(limit: Duration) -> Retries {
        Retries { first_at: Instant::now(), limit, tries: 0, pause: PAUSES.0 }
    }

    /// Returns when the call is to be repeated.
    ///
    /// # Errors
    ///
    /// `error`, where it does not pass or there is no time left.
    pub(super) async fn after(&mut self, call: &'static str, error: Error) -> Result<(), Error> {
        self.tries += 1;
        let pause = self.pause.mul_f64(0.5 + 0.5 * fastrand::f64()); // of two deadlock victims, one comes first
        if !error.is_transient() || self.first_at.elapsed() + pause >= self.limit {
            return Err(error);
        }
        let (attempt, sql_error) = (self.tries, error.sql_number());
        tracing::warn!(procedure = call, attempt, sql_error, %error, retry_in = ?pause, "enqueueing failed and is repeated");
        tokio::time::sleep(pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        Ok(())
    }
}
