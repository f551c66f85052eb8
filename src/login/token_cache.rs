//! The kept token and the last fetch of a source. Knows no lock and awaits nothing.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::time::Pauses;

use super::secrets::AccessToken;

/// A token with less time left is not used where another can be had. Entra's live for an hour or more, so that there is
/// time for a source that is out of order to come back.
const FETCH_BEFORE_END: Duration = Duration::from_secs(5 * 60);

/// How long a fetch may take. `azure_identity` tries several times, with pauses of its own.
pub(super) const FETCH_LIMIT: Duration = Duration::from_secs(90);

/// The first and the longest pause after a fetch that failed. Shorter than after a refused login: no account is locked
/// for it, and a source that is well again should be noticed soon.
pub(super) const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

#[derive(Default)]
pub(super) struct TokenCache {
    pub(super) kept: Option<Kept>,
    pub(super) fetch: Option<FetchBegun>,
    /// Of the last fetch, if it failed.
    pub(super) failure: Option<LastFailure>,
}

/// The last fetch.
pub(super) struct FetchBegun {
    /// By the boot clock.
    pub(super) at: Duration,
    /// Its other end is dropped when the fetch has ended, or its runtime has.
    pub(super) outcome: watch::Receiver<FetchOutcome>,
}

/// Of a fetch; `None` while it is under way.
pub(super) type FetchOutcome = Option<Result<AccessToken, String>>;

pub(super) struct Kept {
    pub(super) token: AccessToken,
    /// With less time left, another is fetched.
    pub(super) fetch_before_end: Duration,
    pub(super) has_let_in: bool,
}

pub(super) struct LastFailure {
    pub(super) message: String,
    pub(super) pauses: Pauses,
    /// Before that, nothing is fetched.
    pub(super) again_at: Instant,
}

/// For the log, which is not written while the lock is held.
pub(super) struct FetchFailed {
    pub(super) message: String,
    /// Of the kept token, if it lives.
    pub(super) seconds_left: Option<u64>,
    pub(super) retry_in: Duration,
}

/// A token for a login.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) token: AccessToken,
    /// SQL Server has let a connection in with it. Where it is refused now, it was withdrawn.
    pub(crate) has_let_in: bool,
}

/// A fetch whose task panicked, or whose runtime ended or stands still.
pub(super) const NO_OUTCOME: &str = "it ended without an answer";

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

    /// Takes the last fetch for a failure, where its task has ended without an outcome or has had its time: it is not
    /// run where its runtime stands still.
    pub(super) fn take_without_outcome(&mut self, now: Duration) -> Option<FetchFailed> {
        self.fetch.take_if(|begun| {
            let is_over = begun.outcome.has_changed().is_err() || now > begun.at + FETCH_LIMIT;
            is_over && begun.outcome.borrow().is_none()
        })?;
        Some(self.failed(NO_OUTCOME.to_string()))
    }

    /// The kept token, if it has not run out.
    pub(super) fn living(&self) -> Option<&Kept> {
        self.kept.as_ref().filter(|kept| !kept.token.time_left().is_zero())
    }

    /// A token that was fetched just now; perhaps others have used it already.
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
