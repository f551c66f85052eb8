//! What SQL Server has said to a queue's credentials, and what follows for the next login.

use std::time::Duration;

use tokio::time::Instant;

use crate::time::Pauses;

use super::secrets::Secret;

/// How long a password that was let in counts as proved. Connections that break together are made anew within less.
pub(super) const PROVED_FOR: Duration = Duration::from_secs(30);

/// What SQL Server has said to these credentials. Passwords are told apart; with the others, there is none.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Ever.
    pub(super) was_let_in: bool,
    pub(super) last: Option<LastAnswer>,
    /// The last password whose answer nobody has waited for, unless something was let in since.
    pub(super) unanswered: Option<Unanswered>,
}

/// What SQL Server said last.
#[derive(Debug)]
pub(super) struct LastAnswer {
    pub(super) password: Option<Secret>,
    /// When the attempt began.
    pub(super) begun_at: Instant,
    pub(super) outcome: LoginOutcome,
}

#[derive(Debug)]
pub(super) enum LoginOutcome {
    /// When, by the boot clock.
    LetIn(Duration),
    Refused(Refusal),
}

#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) number: i32,
    pub(super) message: String,
    pub(super) pauses: Pauses,
    /// Before that, it is not sent again.
    pub(super) again_at: Instant,
}

#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) password: Secret,
    /// How long it was waited for.
    pub(super) after: Duration,
    /// That was all the time that there was. Some calls have two seconds; the heartbeat has more, and need not wait.
    pub(super) was_out_of_time: bool,
    /// Before that, it is not sent again.
    pub(super) again_at: Instant,
}

impl Standing {
    /// Whether many may log in with this password at once. `now` is the boot clock's.
    pub(super) fn proves(&self, password: &Secret, now: Duration) -> bool {
        match &self.last {
            Some(LastAnswer { password: Some(last), outcome: LoginOutcome::LetIn(at), .. }) => {
                last == password && now.saturating_sub(*at) < PROVED_FOR
            }
            _ => false,
        }
    }

    /// Whether an attempt's outcome says anything new: not where the last verdict is about another password that was
    /// read later.
    pub(super) fn learns_from(&self, password: Option<&Secret>, begun_at: Instant) -> bool {
        match &self.last {
            Some(last) => last.password.as_ref() == password || last.begun_at <= begun_at,
            None => true,
        }
    }
}
