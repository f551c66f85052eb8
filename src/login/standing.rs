//! SQL Server's last responses to a queue's credentials, and when the next login may be sent.

use std::time::Duration;

use tokio::time::Instant;

use crate::time::Pauses;

use super::secrets::Secret;

/// How long an accepted password counts as proved. Connections that break together reconnect in less time.
pub(super) const PROVED_FOR: Duration = Duration::from_secs(30);

/// SQL Server's responses to these credentials, with the password to which each response belongs. Other credentials
/// have no password.
#[derive(Debug, Default)]
pub(super) struct Standing {
    pub(super) was_let_in: bool,
    pub(super) last: Option<LastAnswer>,
    /// The last password that was sent on a connection that was dropped before SQL Server responded, unless a login was
    /// accepted since.
    pub(super) unanswered: Option<Unanswered>,
}

#[derive(Debug)]
pub(super) struct LastAnswer {
    pub(super) password: Option<Secret>,
    pub(super) begun_at: Instant,
    pub(super) outcome: LoginOutcome,
}

#[derive(Debug)]
pub(super) enum LoginOutcome {
    /// When the login was accepted, by the boot clock.
    LetIn(Duration),
    Refused(Refusal),
}

#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) number: i32,
    pub(super) message: String,
    pub(super) pauses: Pauses,
    /// The password is not sent again before.
    pub(super) again_at: Instant,
}

#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) password: Secret,
    pub(super) after: Duration,
    /// Whether the attempt used up its time. Some calls have only two seconds; the heartbeat has more time, and need
    /// not wait after such an attempt.
    pub(super) was_out_of_time: bool,
    /// The password is not sent again before.
    pub(super) again_at: Instant,
}

impl Standing {
    /// Whether many connections may log in with this password at once. `now` is the boot clock's.
    pub(super) fn proves(&self, password: &Secret, now: Duration) -> bool {
        match &self.last {
            Some(LastAnswer { password: Some(last), outcome: LoginOutcome::LetIn(at), .. }) => {
                last == password && now.saturating_sub(*at) < PROVED_FOR
            }
            _ => false,
        }
    }

    /// Whether an attempt's outcome is news. It is not if the last response is to a later attempt with a different
    /// password.
    pub(super) fn learns_from(&self, password: Option<&Secret>, begun_at: Instant) -> bool {
        match &self.last {
            Some(last) => last.password.as_ref() == password || last.begun_at <= begun_at,
            None => true,
        }
    }
}
