//! Login attempts: when a connection may log in, and with which password or token. Both may change while workers run.
//!
//! ```text
//! password file, token source, the system ──▶ Proof ──▶ Attempt ──▶ SQL Server ──▶ let in, or refused
//!                                               ▲ pause   ▲ turn                        │
//!                                               └─────────┴───────── Standing ◀─────────┘
//! ```
//!
//! SQL Server's last response to any connection of a queue and its clones is the [`Standing`]. It determines:
//!
//! - **Which logins are sent alone.** SQL Server locks a login after a few wrong passwords (CHECK_POLICY; "Password
//!   policy" in Microsoft's SQL documentation), and a password may have changed since it was last accepted. Several
//!   connections may therefore send a password at once only if it was accepted within the last half minute. Otherwise
//!   one connection tries it, and the others wait for the outcome. Because that login may hang, one more starts every
//!   two seconds. Tokens and the system's accounts cannot be locked in this way, so their logins are never sent alone.
//! - **When the next login is sent.** Refused credentials are sent again only after a pause, which grows while logins
//!   are refused. Until then, every attempt to connect returns the error of the refusal. A changed password is tried
//!   immediately. If a token is refused that was accepted before, it may have been revoked, so a new token is tried
//!   immediately.
//! - **Whether the refusal is final.** The refusal of the first login is final, so that the message reaches an
//!   operator. A later refusal is transient if these credentials were accepted before and can change outside this
//!   process, and workers wait. For example, the password file is updated some time after the password (a mounted
//!   Kubernetes Secret within a minute or two), or a domain controller or Azure is under maintenance. A password in the
//!   connection string cannot change.
//!
//! Open connections are not affected.

#[cfg(feature = "entra")]
use super::entra::tokens;
use super::login::Login;
use super::secrets::{Password, Secret};
use super::standing::{LastAnswer, LoginOutcome, Refusal, Standing, Unanswered};
use super::token_cache::Granted;
use super::token_source::TokenSource;
use crate::error::Error;
use crate::time::{BootClock, Pauses};
use parking_lot::Mutex;
use std::time::Duration;
use tiberius::AuthMethod;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

/// How long the next connection waits for the outcome of a login that is sent alone. A login takes less than a second.
/// A login that hangs must not block the others for long, because one of them is the heartbeat's.
const OUTCOME_WITHIN: Duration = Duration::from_secs(2);

/// How long a password is not sent again if its connection was dropped before SQL Server responded. The password may
/// have been refused.
const UNANSWERED_FOR: Duration = Duration::from_secs(15);

const WRONG_PASSWORD: i32 = 18456;

/// The longest pause before a wrong password is tried once more: a replica may not know a new password yet.
const ONCE_MORE_AFTER: Duration = Duration::from_secs(15);

/// The first and the longest pause after that. Each try counts towards locking the account, so tries are rare: most
/// policies reset the count after half an hour or less without a wrong password.
const WRONG_PASSWORD_PAUSES: (Duration, Duration) = (Duration::from_secs(5 * 60), Duration::from_secs(3600));

/// The pauses if the login is disabled or locked, or needs another password: an operator fixes that at the server.
const ACCOUNT_PAUSES: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(5 * 60));

/// The pauses for tokens and the system's accounts, which failed tries do not lock. They are much shorter than a lease.
const OTHER_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// The login attempts of a queue. All connections of the queue and its clones share this value.
#[derive(Debug)]
pub(crate) struct LoginAttempts {
    source: LoginSource,
    standing: Mutex<Standing>,
    clock: BootClock,
    /// Serializes logins with an unproved password.
    turn: tokio::sync::Mutex<()>,
    /// Held by the login that waits for `turn`; all others wait for `next`.
    next: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
enum LoginSource {
    Sql { user: Secret, password: Password },
    Integrated,
    Tokens(TokenSource),
}

/// The credentials that one login presents.
#[derive(Debug)]
pub(crate) enum Proof {
    Password { user: Secret, password: Secret },
    Integrated,
    Token(Granted),
}

/// One login. The caller reports its outcome. If it is dropped before, there was no outcome.
#[must_use]
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    credentials: &'a LoginAttempts,
    proof: Proof,
    begun_at: Instant,
    deadline: Instant,
    /// Whether the login may have been sent and SQL Server has not responded.
    awaits_answer: bool,
    /// Held by a login that is sent alone.
    _turn: Option<MutexGuard<'a, ()>>,
}

impl LoginAttempts {
    pub(crate) fn new(login: Login) -> LoginAttempts {
        let source = match login {
            Login::Sql { user, password } => LoginSource::Sql { user, password },
            Login::Integrated => LoginSource::Integrated,
            Login::Entra(identity) => LoginSource::Tokens(tokens(identity)),
            Login::Own(tokens) => LoginSource::Tokens(tokens),
        };
        LoginAttempts {
            source,
            standing: Mutex::default(),
            clock: BootClock::default(),
            turn: tokio::sync::Mutex::default(),
            next: tokio::sync::Mutex::default(),
        }
    }

    /// Begins a login. If necessary, waits for its turn, for at most half of the remaining time. A source of tokens has
    /// until `deadline`, which is `limit` after the caller's call.
    ///
    /// # Errors
    ///
    /// - [`Error::Credentials`]
    /// - [`Error::LoginFailed`] if the same credentials were refused and the pause has not passed
    /// - [`Error::TimedOut`] if the turn does not come, or if the same password was sent recently and its connection
    ///   was dropped before SQL Server responded
    pub(crate) async fn attempt(&self, deadline: Instant, limit: Duration) -> Result<Attempt<'_>, Error> {
        let attempt = self.attempt_now(deadline, limit).await?;
        if attempt.may_go_with_others() {
            return Ok(attempt);
        }
        let patience = deadline.saturating_duration_since(Instant::now()) / 2;
        match tokio::time::timeout(patience, self.attempt_in_turn(deadline, limit)).await {
            Ok(attempt) => attempt,
            Err(_) => Err(no_answer_before(patience)),
        }
    }

    async fn attempt_in_turn(&self, deadline: Instant, limit: Duration) -> Result<Attempt<'_>, Error> {
        let _next = self.next.lock().await;
        // Earlier logins may have been refused, or have proved the password for all.
        let attempt = self.attempt_now(deadline, limit).await?;
        if attempt.may_go_with_others() {
            return Ok(attempt);
        }
        let turn = tokio::time::timeout(OUTCOME_WITHIN, self.turn.lock()).await.ok();
        let mut attempt = self.attempt_now(deadline, limit).await?;
        if !attempt.may_go_with_others() {
            attempt._turn = turn;
        }
        Ok(attempt)
    }

    async fn attempt_now(&self, deadline: Instant, limit: Duration) -> Result<Attempt<'_>, Error> {
        let begun_at = Instant::now();
        let proof = self.proof(deadline, limit).await?;
        Ok(Attempt { credentials: self, proof, begun_at, deadline, awaits_answer: false, _turn: None })
    }

    async fn proof(&self, deadline: Instant, limit: Duration) -> Result<Proof, Error> {
        match &self.source {
            LoginSource::Sql { user, password } => {
                let reading = tokio::time::timeout_at(deadline, password.read()).await;
                let password = reading.map_err(|_| no_password_within(limit))??;
                self.check_pause(Some(&password), deadline)?;
                Ok(Proof::Password { user: user.clone(), password })
            }
            LoginSource::Integrated => {
                self.check_pause(None, deadline)?;
                Ok(Proof::Integrated)
            }
            LoginSource::Tokens(tokens) => {
                self.check_pause(None, deadline)?;
                tokens.token(deadline, limit).await.map(Proof::Token)
            }
        }
    }

    fn check_pause(&self, password: Option<&Secret>, deadline: Instant) -> Result<(), Error> {
        let standing = self.standing.lock();
        let now = Instant::now();
        if let Some(LastAnswer { password: refused_password, outcome: LoginOutcome::Refused(refused), .. }) =
            &standing.last
            && refused_password.as_ref() == password
            && now < refused.again_at
        {
            return Err(self.login_failed(standing.was_let_in, refused.number, refused.message.clone()));
        }
        match &standing.unanswered {
            Some(unanswered) if Some(&unanswered.password) == password && now < unanswered.again_at => {
                let has_much_more_time = deadline.saturating_duration_since(now) > 2 * unanswered.after;
                match unanswered.was_out_of_time && has_much_more_time {
                    true => Ok(()),
                    false => Err(no_answer_before(unanswered.after)),
                }
            }
            _ => Ok(()),
        }
    }

    /// Returns the first pause after a refusal, and the pauses after that.
    fn pauses(&self, number: i32) -> (Duration, Pauses) {
        let from = |(first, longest)| {
            let mut pauses = Pauses::new(first, longest);
            (pauses.next(), pauses)
        };
        match &self.source {
            LoginSource::Sql { .. } if number == WRONG_PASSWORD => {
                let (once_more_after, _) = from((ONCE_MORE_AFTER, ONCE_MORE_AFTER));
                (once_more_after, Pauses::new(WRONG_PASSWORD_PAUSES.0, WRONG_PASSWORD_PAUSES.1))
            }
            LoginSource::Sql { .. } => from(ACCOUNT_PAUSES),
            LoginSource::Integrated | LoginSource::Tokens(_) => from(OTHER_PAUSES),
        }
    }

    fn login_failed(&self, was_let_in: bool, number: i32, message: String) -> Error {
        let can_change = !matches!(self.source, LoginSource::Sql { password: Password::Given(_), .. });
        let may_pass = was_let_in && can_change;
        let check = match &self.source {
            LoginSource::Sql { password: Password::Given(_), .. } => "check User ID and Password".to_string(),
            LoginSource::Sql { password: Password::File(file), .. } if may_pass => {
                format!("waiting for another password in {}", file.display())
            }
            LoginSource::Sql { password: Password::File(file), .. } => {
                format!("check User ID and the password in {}", file.display())
            }
            LoginSource::Integrated => {
                "create a login for the Windows account (CREATE LOGIN [DOMAIN\\account] FROM WINDOWS)".to_string()
            }
            LoginSource::Tokens(tokens) => format!(
                "create a user in the database for the identity of {} (CREATE USER [name] FROM EXTERNAL PROVIDER)",
                tokens.name()
            ),
        };
        Error::login_failed(number, message, check, may_pass)
    }
}

fn no_password_within(limit: Duration) -> Error {
    Error::Credentials {
        source_name: "the password file".to_string(),
        message: format!("no response within {} ms", limit.as_millis()),
    }
}

/// The error of a login that was not sent, because another login may have sent a wrong password.
fn no_answer_before(after: Duration) -> Error {
    Error::TimedOut { call: "the login before this one".to_string(), after }
}

impl Attempt<'_> {
    pub(crate) fn proof(&self) -> &Proof {
        &self.proof
    }

    fn may_go_with_others(&self) -> bool {
        match self.proof.password() {
            Some(password) => self.credentials.standing.lock().proves(password, self.credentials.clock.now()),
            None => true,
        }
    }

    /// Records that the login is sent now, or soon.
    pub(crate) fn is_sent(&mut self) {
        self.awaits_answer = true;
    }

    pub(crate) fn is_over(&mut self) {
        self.awaits_answer = false;
    }

    pub(crate) fn was_let_in(self) {
        if let (Proof::Token(granted), LoginSource::Tokens(tokens)) = (&self.proof, &self.credentials.source) {
            tokens.has_let_in(&granted.token);
        }
        let at = self.credentials.clock.now();
        let mut standing = self.credentials.standing.lock();
        standing.was_let_in = true;
        standing.unanswered = None;
        if standing.learns_from(self.proof.password(), self.begun_at) {
            standing.last = Some(self.answer(LoginOutcome::LetIn(at)));
        }
    }

    /// Records that SQL Server refused the login. Returns `Ok` if another attempt should follow immediately, otherwise
    /// [`Error::LoginFailed`].
    pub(crate) fn was_refused(self, number: i32, message: String) -> Result<(), Error> {
        if let (Proof::Token(granted), LoginSource::Tokens(tokens)) = (&self.proof, &self.credentials.source) {
            tokens.forget(&granted.token);
            if granted.has_let_in {
                tracing::debug!(number, message, "a token was refused; fetching another");
                return Ok(());
            }
        }
        let mut standing = self.credentials.standing.lock();
        if standing.learns_from(self.proof.password(), self.begun_at) {
            let now = Instant::now();
            let (pauses, again_at) = match standing.last.take() {
                Some(LastAnswer { password, outcome: LoginOutcome::Refused(mut refused), .. })
                    if password.as_ref() == self.proof.password() && refused.number == number =>
                {
                    // Within the pause, this is the response to an attempt that began before the pause.
                    let again_at = if refused.again_at > now { refused.again_at } else { now + refused.pauses.next() };
                    (refused.pauses, again_at)
                }
                _ => {
                    let (pause, pauses) = self.credentials.pauses(number);
                    (pauses, now + pause)
                }
            };
            let refused = Refusal { number, message: message.clone(), pauses, again_at };
            standing.last = Some(self.answer(LoginOutcome::Refused(refused)));
        }
        Err(self.credentials.login_failed(standing.was_let_in, number, message))
    }

    fn answer(&self, outcome: LoginOutcome) -> LastAnswer {
        LastAnswer { password: self.proof.password().cloned(), begun_at: self.begun_at, outcome }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.awaits_answer || self.may_go_with_others() {
            return;
        }
        if let Some(password) = self.proof.password().cloned() {
            let unanswered = Unanswered {
                password,
                after: self.begun_at.elapsed(),
                was_out_of_time: Instant::now() >= self.deadline,
                again_at: self.begun_at + UNANSWERED_FOR,
            };
            self.credentials.standing.lock().unanswered = Some(unanswered);
        }
    }
}

impl Proof {
    pub(crate) fn method(&self) -> AuthMethod {
        match self {
            Proof::Password { user, password } => AuthMethod::sql_server(user.reveal(), password.reveal()),
            #[cfg(any(all(unix, feature = "gssapi"), all(windows, feature = "windows-auth")))]
            Proof::Integrated => AuthMethod::Integrated,
            #[cfg(not(any(all(unix, feature = "gssapi"), all(windows, feature = "windows-auth"))))]
            Proof::Integrated => unreachable!("the connection string was refused"),
            Proof::Token(granted) => AuthMethod::aad_token(granted.token.reveal()),
        }
    }

    fn password(&self) -> Option<&Secret> {
        match self {
            Proof::Password { password, .. } => Some(password),
            Proof::Integrated | Proof::Token(_) => None,
        }
    }
}

#[cfg(not(feature = "entra"))]
fn tokens(_: super::login::Identity) -> TokenSource {
    TokenSource::named("Microsoft Entra ID", || async { Err("the crate was built without its feature entra".into()) })
}

#[cfg(test)]
#[path = "login_attempts_tests.rs"]
mod tests;
