//! The cached token and the last fetch of a source. This module neither locks nor awaits.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::time::Pauses;

use super::secrets::AccessToken;

/// A token with less time left is replaced if possible. Entra's tokens live for an hour or more, so this leaves time
/// for a failing source to recover.
const FETCH_BEFORE_END: Duration = Duration::from_secs(5 * 60);

/// The time limit of a fetch. `azure_identity` retries with pauses of its own.
pub(super) const FETCH_LIMIT: Duration = Duration::from_secs(90);

/// The first and the longest pause after a failed fetch. Shorter than after a refused login, because no account is
/// locked and a source's recovery should be noticed soon.
pub(super) const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

#[derive(Default)]
pub(super) struct TokenCache {
    pub(super) kept: Option<Kept>,
    pub(super) fetch: Option<FetchBegun>,
    pub(super) failure: Option<LastFailure>,
}

pub(super) struct FetchBegun {
    pub(super) at: Duration,
    /// The outcome. Its sender is dropped when the fetch or its runtime has ended.
    pub(super) outcome: watch::Receiver<FetchOutcome>,
}

/// The outcome of a fetch, or `None` while it is running.
pub(super) type FetchOutcome = Option<Result<AccessToken, String>>;

pub(super) struct Kept {
    pub(super) token: AccessToken,
    /// If less time is left, another token is fetched.
    pub(super) fetch_before_end: Duration,
    pub(super) has_let_in: bool,
}

pub(super) struct LastFailure {
    pub(super) message: String,
    pub(super) pauses: Pauses,
    pub(super) again_at: Instant,
}

/// The log entry of a failed fetch, to be written after the lock is released.
pub(super) struct FetchFailed {
    pub(super) message: String,
    pub(super) seconds_left: Option<u64>,
    pub(super) retry_in: Duration,
}

#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) token: AccessToken,
    /// Whether SQL Server has accepted this token before. If so and it is refused now, it was revoked.
    pub(crate) has_let_in: bool,
}

/// The error if the task of the fetch panicked, or if its runtime ended or is blocked.
pub(super) const NO_OUTCOME: &str = "the fetch ended without a result";

impl TokenCache {
    pub(super) fn keep(&mut self, token: AccessToken) {
        let fetch_before_end = FETCH_BEFORE_END.min(token.time_left() / 4);
        self.kept = Some(Kept { token, fetch_before_end, has_let_in: false });
        self.failure = None;
    }

    pub(super) fn failed(&mut self, message: String) -> FetchFailed {
        let mut pauses = self.failure.take().map_or_else(|| Pauses::new(PAUSES.0, PAUSES.1), |failure| failure.pauses);
        let retry_in = pauses.next();
        let seconds_left = self.living().map(|kept| kept.token.time_left().as_secs());
        self.failure = Some(LastFailure { message: message.clone(), pauses, again_at: Instant::now() + retry_in });
        FetchFailed { message, seconds_left, retry_in }
    }

    /// Records the last fetch as failed if its task ended without an outcome or exceeded its time. A blocked runtime
    /// does not enforce the time limit.
    pub(super) fn take_without_outcome(&mut self, now: Duration) -> Option<FetchFailed> {
        self.fetch.take_if(|begun| {
            let is_over = begun.outcome.has_changed().is_err() || now > begun.at + FETCH_LIMIT;
            is_over && begun.outcome.borrow().is_none()
        })?;
        Some(self.failed(NO_OUTCOME.to_string()))
    }

    pub(super) fn living(&self) -> Option<&Kept> {
        self.kept.as_ref().filter(|kept| !kept.token.time_left().is_zero())
    }

    /// Grants a token that was just fetched. Other logins may have used it already.
    pub(super) fn granted(&self, token: AccessToken) -> Granted {
        let has_let_in = self.kept.as_ref().is_some_and(|kept| kept.token == token && kept.has_let_in);
        Granted { token, has_let_in }
    }
}

impl Kept {
    pub(super) fn is_fresh(&self) -> bool {
        self.token.time_left() > self.fetch_before_end
    }

    pub(super) fn granted(&self) -> Granted {
        Granted { token: self.token.clone(), has_let_in: self.has_let_in }
    }
}

impl FetchFailed {
    pub(super) fn log(&self, source: &str) {
        tracing::warn!(source, error = self.message, seconds_left = self.seconds_left, retry_in = ?self.retry_in, "could not get a new token; retrying");
    }
}
