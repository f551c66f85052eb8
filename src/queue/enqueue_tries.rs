//! [`EnqueueTries`]: the time and the pauses of the tries of one enqueue call.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;

/// The first and the longest pause between tries: short enough for a deadlock victim, long enough not to overload a
/// server that is just starting.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The tries of one call.
pub(super) struct EnqueueTries {
    limit: Duration,
    deadline: Instant,
    tries: u32,
    pause: Duration,
}

impl EnqueueTries {
    /// Creates the tries of a call. None begins after `limit`.
    pub(super) fn within(limit: Duration) -> EnqueueTries {
        EnqueueTries { limit, deadline: Instant::now() + limit, tries: 0, pause: PAUSES.0 }
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(super) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Pauses before the next try. Returns false if there is not enough time left for one.
    pub(super) async fn pause(&mut self, call: &'static str, error: &Error) -> bool {
        self.tries += 1;
        let pause = self.pause.mul_f64(0.5 + 0.5 * fastrand::f64()); // so that two deadlock victims do not collide again
        if pause >= self.time_left() {
            return false;
        }
        let (attempt, sql_error) = (self.tries, error.sql_number());
        tracing::warn!(procedure = call, attempt, sql_error, %error, retry_in = ?pause, "enqueue failed; retrying");
        tokio::time::sleep(pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        true
    }
}
