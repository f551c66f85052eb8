//! The timeout of maintenance calls, after which their connection counts as dead.
//!
//! A connection can die silently. If the next call waited for `command_timeout_ms`, it would delay tasks that are due
//! every second, so the limit starts lower. If the server is only slow, a low limit fails too: each timeout doubles the
//! limit, up to `command_timeout_ms`, and fast calls reduce it again.

use std::time::Duration;

use crate::error::Error;

/// The shortest timeout. It must be shorter than the time after which another worker takes over the maintenance
/// (sql/060_duties.sql), so that there is time left to reconnect.
const SHORTEST: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(in crate::worker) struct AdaptiveTimeout {
    limit: Duration,
    longest: Duration,
}

impl AdaptiveTimeout {
    pub(in crate::worker) fn up_to(command_timeout: Duration) -> AdaptiveTimeout {
        AdaptiveTimeout { limit: SHORTEST.min(command_timeout), longest: command_timeout }
    }

    pub(in crate::worker) fn limit(&self) -> Duration {
        self.limit
    }

    /// Adapts the limit to the duration and the result of a call.
    pub(in crate::worker) fn after<T>(&mut self, took: Duration, result: &Result<T, Error>) {
        let was_too_short = match result {
            Err(Error::TimedOut { .. }) => true,
            // A token or a ticket did not arrive in time.
            Err(Error::Credentials { .. }) => took >= self.limit,
            _ => false,
        };
        if was_too_short {
            self.limit = (2 * self.limit).min(self.longest);
        } else if took < self.limit / 8 {
            self.limit = (self.limit / 2).max(SHORTEST).min(self.longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed_out() -> Result<(), Error> {
        Err(Error::TimedOut { call: "promote".to_string(), after: SHORTEST })
    }

    #[test]
    fn a_slow_server_gets_more_time_and_keeps_it_while_it_is_slow() {
        let mut patience = AdaptiveTimeout::up_to(Duration::from_secs(30));
        for seconds in [2, 4, 8, 16, 30, 30] {
            assert_eq!(patience.limit(), Duration::from_secs(seconds));
            patience.after(patience.limit(), &timed_out());
        }
        patience.after(Duration::from_secs(10), &Ok(()));
        assert_eq!(patience.limit(), Duration::from_secs(30));
        for _ in 0..10 {
            patience.after(Duration::from_millis(5), &Ok(()));
        }
        assert_eq!(patience.limit(), SHORTEST);
    }

    #[test]
    fn what_a_connection_logs_in_with_gets_more_time_too() {
        let mut patience = AdaptiveTimeout::up_to(Duration::from_secs(30));
        let no_token = Err(Error::Credentials { source_name: "the vault".to_string(), message: String::new() });
        patience.after::<()>(Duration::from_millis(5), &no_token);
        assert_eq!(patience.limit(), SHORTEST, "it fails, and more time is no help");
        patience.after::<()>(SHORTEST, &no_token);
        assert_eq!(patience.limit(), 2 * SHORTEST);
    }

    #[test]
    fn no_limit_is_longer_than_the_command_time_out() {
        let mut patience = AdaptiveTimeout::up_to(Duration::from_secs(1));
        patience.after(Duration::from_millis(5), &Ok(()));
        assert_eq!(patience.limit(), Duration::from_secs(1));
    }
}
