//! What a connection logs in with, at the moment of its login: passwords in files and tokens change while workers run.
//!
//! ```text
//! password file, token source, the system ──▶ Proof ──▶ Attempt ──▶ SQL Server ──▶ let in, or refused
//!                                               ▲ pause   ▲ turn                        │
//!                                               └─────────┴───────── Standing ◀─────────┘
//! ```
//!
//! What SQL Server said last, to any connection of a queue and its clones, is the [`Standing`], and three things follow
//! from it:
//!
//! - **Which logins go alone.** SQL Server locks a login after a few wrong passwords (CHECK_POLICY; "Password policy"
//!   in Microsoft's SQL documentation), and a password may have been changed since it was last right. So only a
//!   password that was let in within the last half a minute is sent by many connections at once. Any other is tried by
//!   one connection, and the others wait for the outcome. The first may hang: every two seconds, one more goes. Tokens
//!   and the system's accounts lock nothing, and go without.
//! - **When the next login is.** What was refused is not sent again before a pause is over, which grows as long as
//!   logins are refused. Until then, every connection gets the error of the refusal. Another password in the file is
//!   tried at once. So is another token in place of one that has let connections in, which may have been withdrawn.
//! - **Whether the refusal is final.** At the start it is: somebody waits for the message. Where these credentials have
//!   let a connection in before and can change without this process, it may pass: the file follows the password some
//!   time later (a mounted Secret of Kubernetes' within a minute or two), or a domain controller or Azure is under
//!   maintenance. Workers wait for that. A password in the connection string cannot change.
//!
//! Open connections are not touched by any of it.

use std::time::Duration;

use parking_lot::Mutex;
use tiberius::AuthMethod;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

use crate::error::Error;
use crate::time::{BootClock, Pauses};

#[cfg(feature = "entra")]
use super::entra::tokens;
use super::login::Login;
use super::secrets::{Password, Secret};
use super::token_source::{Granted, TokenSource};

/// How long a password that was let in counts as proved. Connections that break together are made anew within less.
const PROVED_FOR: Duration = Duration::from_secs(30);

/// How long the next connection waits for the outcome of the one that logs in alone. A login takes less than a second;
/// one that hangs must not hold up the others for long, among which is the heartbeat's.
const OUTCOME_WITHIN: Duration = Duration::from_secs(2);

/// How long after its sending a password is not sent again whose answer nobody has waited for: it may have been
/// refused.
const UNANSWERED_FOR: Duration = Duration::from_secs(15);

/// The error of a login with a wrong password.
const WRONG_PASSWORD: i32 = 18456;

/// The longest pause before a wrong password is tried once more, because a replica may be behind.
const ONCE_MORE_AFTER: Duration = Duration::from_secs(15);

/// The first and the longest pause after that. Each try counts towards the account's being locked, and gains little:
/// the policy's count begins anew when there was no wrong password for a while, which is half an hour or less with
/// most.
const WRONG_PASSWORD_PAUSES: (Duration, Duration) = (Duration::from_secs(5 * 60), Duration::from_secs(3600));

/// The same where the login is disabled or locked, or needs another password: that is mended at the server.
const ACCOUNT_PAUSES: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(5 * 60));

/// The same for tokens and the system's accounts, which no try locks. Much less than a lease.
const OTHER_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// Shared by all connections of a queue and its clones.
#[derive(Debug)]
pub(crate) struct Credentials {
    source: Source,
    standing: Mutex<Standing>,
    clock: BootClock,
    /// Of the logins with a password that is not proved.
    turn: tokio::sync::Mutex<()>,
    /// Held by who waits for the turn; the others wait for this.
    next: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
enum Source {
    Sql { user: Secret, password: Password },
    Integrated,
    Tokens(TokenSource),
}

/// What SQL Server has said to these credentials. Passwords are told apart; with the others, there is none.
#[derive(Debug, Default)]
struct Standing {
    /// Ever.
    was_let_in: bool,
    last: Option<Verdict>,
    /// The last password whose answer nobody has waited for, unless something was let in since.
    unanswered: Option<Unanswered>,
}

/// What SQL Server said last.
#[derive(Debug)]
struct Verdict {
    password: Option<Secret>,
    /// When the attempt began.
    begun_at: Instant,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    /// When, by the boot clock.
    LetIn(Duration),
    Refused(Refused),
}

#[derive(Debug)]
struct Refused {
    number: i32,
    message: String,
    pauses: Pauses,
    /// Before that, it is not sent again.
    again_at: Instant,
}

#[derive(Debug)]
struct Unanswered {
    password: Secret,
    /// How long it was waited for.
    after: Duration,
    /// That was all the time that there was. Some calls have two seconds; the heartbeat has more, and need not wait.
    was_out_of_time: bool,
    /// Before that, it is not sent again.
    again_at: Instant,
}

/// What one login is tried with.
#[derive(Debug)]
pub(crate) enum Proof {
    Password { user: Secret, password: Secret },
    Integrated,
    Token(Granted),
}

/// One login. Its caller reports what became of it; one that is dropped had no outcome.
#[must_use]
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    credentials: &'a Credentials,
    proof: Proof,
    begun_at: Instant,
    /// Of its caller.
    deadline: Instant,
    /// It may have been sent, and the answer has not come.
    awaits_answer: bool,
    /// Held where it goes alone.
    _turn: Option<MutexGuard<'a, ()>>,
}

impl Credentials {
    pub(crate) fn new(login: Login) -> Credentials {
        let source = match login {
            Login::Sql { user, password } => Source::Sql { user, password },
            Login::Integrated => Source::Integrated,
            Login::Entra(identity) => Source::Tokens(tokens(identity)),
            Login::Own(tokens) => Source::Tokens(tokens),
        };
        Credentials {
            source,
            standing: Mutex::default(),
            clock: BootClock::default(),
            turn: tokio::sync::Mutex::default(),
            next: tokio::sync::Mutex::default(),
        }
    }

    /// Begins a login; waits for its turn, where it has to, for half of the time that there is. A source of tokens has
    /// until `deadline`, which is `limit` after the call.
    ///
    /// # Errors
    ///
    /// [`Error::Credentials`]; [`Error::LoginFailed`] where the same was refused, and its pause is not over;
    /// [`Error::TimedOut`] where the turn does not come, or the same was sent just now and nobody waited for the
    /// answer.
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
        // Those before may have been refused, or have proved it for all.
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
            Source::Sql { user, password } => {
                let reading = tokio::time::timeout_at(deadline, password.read()).await;
                let password = reading.map_err(|_| no_password_within(limit))??;
                self.check_pause(Some(&password), deadline)?;
                Ok(Proof::Password { user: user.clone(), password })
            }
            Source::Integrated => {
                self.check_pause(None, deadline)?;
                Ok(Proof::Integrated)
            }
            Source::Tokens(tokens) => {
                self.check_pause(None, deadline)?;
                tokens.token(deadline, limit).await.map(Proof::Token)
            }
        }
    }

    fn check_pause(&self, password: Option<&Secret>, deadline: Instant) -> Result<(), Error> {
        let standing = self.standing.lock();
        let now = Instant::now();
        if let Some(Verdict { password: refused_password, outcome: Outcome::Refused(refused), .. }) = &standing.last
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

    /// The first pause after a refusal, and those that follow.
    fn pauses(&self, number: i32) -> (Duration, Pauses) {
        let from = |(first, longest)| {
            let mut pauses = Pauses::new(first, longest);
            (pauses.next(), pauses)
        };
        match &self.source {
            Source::Sql { .. } if number == WRONG_PASSWORD => {
                let (once_more_after, _) = from((ONCE_MORE_AFTER, ONCE_MORE_AFTER));
                (once_more_after, Pauses::new(WRONG_PASSWORD_PAUSES.0, WRONG_PASSWORD_PAUSES.1))
            }
            Source::Sql { .. } => from(ACCOUNT_PAUSES),
            Source::Integrated | Source::Tokens(_) => from(OTHER_PAUSES),
        }
    }

    fn login_failed(&self, was_let_in: bool, number: i32, message: String) -> Error {
        let can_change = !matches!(self.source, Source::Sql { password: Password::Given(_), .. });
        let may_pass = was_let_in && can_change;
        let check = match &self.source {
            Source::Sql { password: Password::Given(_), .. } => "check User ID and Password".to_string(),
            Source::Sql { password: Password::File(file), .. } if may_pass => {
                format!("waiting for another password in {}", file.display())
            }
            Source::Sql { password: Password::File(file), .. } => {
                format!("check User ID and the password in {}", file.display())
            }
            Source::Integrated => {
                "SQL Server needs a login for the Windows account (CREATE LOGIN [DOMAIN\\account] FROM WINDOWS)"
                    .to_string()
            }
            Source::Tokens(tokens) => format!(
                "the database needs a user for whom {} has a token (CREATE USER [name] FROM EXTERNAL PROVIDER)",
                tokens.name()
            ),
        };
        Error::login_failed(number, message, check, may_pass)
    }
}

fn no_password_within(limit: Duration) -> Error {
    Error::Credentials {
        source_name: "the password file".to_string(),
        message: format!("no answer within {} ms", limit.as_millis()),
    }
}

/// Of a login that does not go because of another, which may have sent a wrong password.
fn no_answer_before(after: Duration) -> Error {
    Error::TimedOut { call: "the login before this one".to_string(), after }
}

impl Standing {
    /// Whether many may log in with this password at once. `now` is the boot clock's.
    fn proves(&self, password: &Secret, now: Duration) -> bool {
        match &self.last {
            Some(Verdict { password: Some(last), outcome: Outcome::LetIn(at), .. }) => {
                last == password && now.saturating_sub(*at) < PROVED_FOR
            }
            _ => false,
        }
    }

    /// Whether an attempt's outcome says anything new: not where the last verdict is about another password that was
    /// read later.
    fn learns_from(&self, attempt: &Attempt<'_>) -> bool {
        match &self.last {
            Some(last) => last.password.as_ref() == attempt.proof.password() || last.begun_at <= attempt.begun_at,
            None => true,
        }
    }
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

    /// It is sent now, or soon.
    pub(crate) fn is_sent(&mut self) {
        self.awaits_answer = true;
    }

    /// SQL Server has answered, or the connection is lost.
    pub(crate) fn is_over(&mut self) {
        self.awaits_answer = false;
    }

    /// SQL Server has let the connection in.
    pub(crate) fn was_let_in(self) {
        if let (Proof::Token(granted), Source::Tokens(tokens)) = (&self.proof, &self.credentials.source) {
            tokens.has_let_in(&granted.token);
        }
        let at = self.credentials.clock.now();
        let mut standing = self.credentials.standing.lock();
        standing.was_let_in = true;
        standing.unanswered = None;
        if standing.learns_from(&self) {
            standing.last = Some(self.verdict(Outcome::LetIn(at)));
        }
    }

    /// SQL Server has refused the login. Returns whether it is worth another attempt at once.
    ///
    /// # Errors
    ///
    /// [`Error::LoginFailed`], where it is not.
    pub(crate) fn was_refused(self, number: i32, message: String) -> Result<(), Error> {
        if let (Proof::Token(granted), Source::Tokens(tokens)) = (&self.proof, &self.credentials.source) {
            tokens.forget(&granted.token);
            if granted.has_let_in {
                tracing::debug!(number, message, "a token was refused; fetching another");
                return Ok(());
            }
        }
        let mut standing = self.credentials.standing.lock();
        if standing.learns_from(&self) {
            let now = Instant::now();
            let (pauses, again_at) = match standing.last.take() {
                Some(Verdict { password, outcome: Outcome::Refused(mut refused), .. })
                    if password.as_ref() == self.proof.password() && refused.number == number =>
                {
                    // Within the pause, this is the answer to an attempt that began before it.
                    let again_at = if refused.again_at > now { refused.again_at } else { now + refused.pauses.next() };
                    (refused.pauses, again_at)
                }
                _ => {
                    let (pause, pauses) = self.credentials.pauses(number);
                    (pauses, now + pause)
                }
            };
            let refused = Refused { number, message: message.clone(), pauses, again_at };
            standing.last = Some(self.verdict(Outcome::Refused(refused)));
        }
        Err(self.credentials.login_failed(standing.was_let_in, number, message))
    }

    fn verdict(&self, outcome: Outcome) -> Verdict {
        Verdict { password: self.proof.password().cloned(), begun_at: self.begun_at, outcome }
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
    /// As the driver has it.
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

/// Without the feature `entra`: each fetch of a token fails.
#[cfg(not(feature = "entra"))]
fn tokens(_: super::login::Identity) -> TokenSource {
    TokenSource::named("Microsoft Entra ID", || async { Err("the crate was built without its feature entra".into()) })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::login::secrets::AccessToken;

    const LIMIT: Duration = Duration::from_secs(15);
    const SECOND: Duration = Duration::from_secs(1);

    fn password() -> Credentials {
        let password = Password::Given(Secret::new("p"));
        Credentials::new(Login::Sql { user: Secret::new("u"), password })
    }

    impl Credentials {
        async fn begin(&self) -> Result<Attempt<'_>, Error> {
            self.attempt(Instant::now() + LIMIT, LIMIT).await
        }

        async fn is_let_in(&self) {
            self.begin().await.unwrap().was_let_in();
        }

        async fn is_refused(&self, number: i32) -> Error {
            self.begin().await.unwrap().was_refused(number, "refused".to_string()).unwrap_err()
        }
    }

    /// Begins so many logins at once; each takes a second, and ends as is said. Returns how many were sent.
    async fn log_in_at_once(credentials: &Arc<Credentials>, logins: usize, are_let_in: bool) -> usize {
        let logging_in: Vec<_> = (0..logins)
            .map(|_| {
                let credentials = credentials.clone();
                tokio::spawn(async move {
                    let Ok(attempt) = credentials.begin().await else { return 0 };
                    tokio::time::sleep(SECOND).await;
                    match are_let_in {
                        true => attempt.was_let_in(),
                        false => assert!(attempt.was_refused(18456, String::new()).is_err()),
                    }
                    1
                })
            })
            .collect();
        let mut sent = 0;
        for login in logging_in {
            sent += login.await.unwrap();
        }
        sent
    }

    #[tokio::test(start_paused = true)]
    async fn one_connection_tries_what_is_not_proved_and_the_others_wait_for_the_outcome() {
        let credentials = Arc::new(password());
        let began_at = Instant::now();
        assert_eq!(log_in_at_once(&credentials, 10, true).await, 10);
        assert_eq!(began_at.elapsed(), 2 * SECOND, "one, and then the others at once");
        assert_eq!(log_in_at_once(&credentials, 10, true).await, 10);
        assert_eq!(began_at.elapsed(), 3 * SECOND, "it is proved for a while");

        // Perhaps the machine was suspended.
        credentials.clock.shift(PROVED_FOR);
        assert_eq!(log_in_at_once(&credentials, 10, false).await, 1, "it was changed meanwhile");
        assert!(matches!(credentials.begin().await, Err(Error::LoginFailed { number: 18456, .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn a_login_that_hangs_does_not_hold_up_the_others_for_long() {
        let credentials = password();
        let hanging = credentials.begin().await.unwrap();
        let began_at = Instant::now();
        credentials.is_let_in().await;
        assert_eq!(began_at.elapsed(), OUTCOME_WITHIN);
        drop(hanging);
    }

    #[tokio::test(start_paused = true)]
    async fn while_no_outcome_comes_one_more_goes_every_two_seconds() {
        let credentials = Arc::new(password());
        let (hung_up, hangs) = tokio::sync::watch::channel(());
        let began_at = Instant::now();
        let logging_in: Vec<_> = (0..10)
            .map(|_| {
                let (credentials, mut hangs) = (credentials.clone(), hangs.clone());
                tokio::spawn(async move {
                    match credentials.begin().await {
                        Ok(attempt) => {
                            let sent_after = began_at.elapsed().as_secs();
                            let _ = hangs.changed().await;
                            drop(attempt);
                            Ok(sent_after)
                        }
                        Err(error) => Err((began_at.elapsed(), error)),
                    }
                })
            })
            .collect();
        tokio::time::sleep(LIMIT).await;
        drop(hung_up);
        let mut sent_after = Vec::new();
        for login in logging_in {
            match login.await.unwrap() {
                Ok(after) => sent_after.push(after),
                Err((after, error)) => {
                    assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
                    assert!(after.abs_diff(LIMIT / 2) < SECOND / 10, "half of the time is left: {after:?}");
                }
            }
        }
        sent_after.sort();
        assert_eq!(sent_after, [0, 2, 4, 6]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_password_that_was_sent_and_given_up_is_not_sent_again_at_once() {
        let credentials = password();
        drop(credentials.begin().await.unwrap());
        let mut attempt = credentials.begin().await.expect("that was not sent");
        attempt.is_sent();
        tokio::time::sleep(SECOND).await;
        drop(attempt);
        assert!(matches!(credentials.begin().await, Err(Error::TimedOut { after: SECOND, .. })));
        tokio::time::sleep(UNANSWERED_FOR - SECOND).await;
        let mut attempt = credentials.begin().await.unwrap();
        attempt.is_sent();
        attempt.is_over();
        drop(attempt);
        credentials.is_let_in().await;
        let mut attempt = credentials.begin().await.unwrap();
        attempt.is_sent();
        drop(attempt);
        assert!(credentials.begin().await.is_ok(), "it is proved");
    }

    /// Otherwise maintenance, which begins with two seconds a call, would keep the heartbeat out while logins are slow.
    #[tokio::test(start_paused = true)]
    async fn who_has_much_more_time_need_not_wait_for_a_login_that_had_too_little() {
        let credentials = password();
        let soon = || Instant::now() + 2 * SECOND;
        let mut attempt = credentials.attempt(soon(), 2 * SECOND).await.unwrap();
        attempt.is_sent();
        tokio::time::sleep(2 * SECOND).await;
        drop(attempt);
        assert!(matches!(credentials.attempt(soon(), 2 * SECOND).await, Err(Error::TimedOut { .. })));
        credentials.is_let_in().await;
    }

    #[tokio::test(start_paused = true)]
    async fn late_words_about_an_older_password_do_not_count() {
        let file = std::env::temp_dir().join(format!("readpast-{}.txt", uuid::Uuid::new_v4()));
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        write("old");
        let credentials =
            Credentials::new(Login::Sql { user: Secret::new("u"), password: Password::File(file.clone()) });
        credentials.is_let_in().await;
        let (refused_late, let_in_late) = (credentials.begin().await.unwrap(), credentials.begin().await.unwrap());
        tokio::time::sleep(SECOND).await;
        write("new");
        credentials.is_let_in().await;
        assert!(refused_late.was_refused(18456, String::new()).is_err());
        assert!(credentials.begin().await.unwrap().may_go_with_others());

        credentials.is_refused(18470).await;
        let_in_late.was_let_in();
        assert!(matches!(credentials.begin().await, Err(Error::LoginFailed { number: 18470, .. })));
        std::fs::remove_file(&file).unwrap();
    }

    /// After how long each login is sent that is refused so within a day.
    async fn refusals(credentials: &Credentials, number: i32) -> Vec<Duration> {
        let began_at = Instant::now();
        let mut sent_after = Vec::new();
        while began_at.elapsed() < Duration::from_secs(24 * 3600) {
            if let Ok(attempt) = credentials.begin().await {
                sent_after.push(began_at.elapsed());
                let _ = attempt.was_refused(number, String::new());
            }
            tokio::time::sleep(SECOND).await;
        }
        sent_after
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_password_is_sent_once_more_and_then_seldom() {
        let credentials = password();
        let sent_after = refusals(&credentials, 18456).await;
        let pauses: Vec<_> = sent_after.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses[0] <= ONCE_MORE_AFTER + SECOND, "{pauses:?}");
        assert!(pauses[1] >= WRONG_PASSWORD_PAUSES.0 / 2, "{pauses:?}");
        assert!(pauses[5..].iter().all(|pause| *pause >= WRONG_PASSWORD_PAUSES.1 / 2), "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= WRONG_PASSWORD_PAUSES.1 + SECOND), "{pauses:?}");

        tokio::time::sleep(WRONG_PASSWORD_PAUSES.1).await;
        credentials.is_let_in().await;
        let error = credentials.is_refused(18456).await;
        assert!(!error.is_transient(), "a password in the connection string cannot change");
        tokio::time::sleep(ONCE_MORE_AFTER).await;
        credentials.is_let_in().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_locked_account_is_tried_every_five_minutes_in_the_end() {
        let sent_after = refusals(&password(), 18486).await;
        let pauses: Vec<_> = sent_after.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses[0] <= ACCOUNT_PAUSES.0 + SECOND, "{pauses:?}");
        assert!(pauses[5..].iter().all(|pause| *pause >= ACCOUNT_PAUSES.1 / 2), "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= ACCOUNT_PAUSES.1 + SECOND), "{pauses:?}");
    }

    /// The default lease is 30 seconds, and a try has to be left after the longest pause.
    #[tokio::test(start_paused = true)]
    async fn what_no_try_locks_is_tried_again_within_seconds_and_by_all_at_once() {
        let credentials = Arc::new(Credentials::new(Login::Integrated));
        let sent_after = refusals(&credentials, 18456).await;
        assert!(sent_after[1] <= OTHER_PAUSES.0 + SECOND);
        assert!(sent_after.windows(2).all(|pair| pair[1] - pair[0] <= OTHER_PAUSES.1 + SECOND));
        tokio::time::sleep(OTHER_PAUSES.1).await;
        assert_eq!(log_in_at_once(&credentials, 10, false).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_to_attempts_that_began_before_the_refusal_add_nothing_to_the_pause() {
        let credentials = password();
        credentials.is_let_in().await;
        let mut under_way = Vec::new();
        for _ in 0..10 {
            under_way.push(credentials.begin().await.unwrap());
        }
        for attempt in under_way {
            assert!(attempt.was_refused(18456, String::new()).is_err());
        }
        tokio::time::sleep(ONCE_MORE_AFTER).await;
        credentials.is_let_in().await;
    }

    /// 18452: the login is from an untrusted domain, or nobody could be asked.
    #[tokio::test(start_paused = true)]
    async fn a_refused_windows_account_is_final_at_the_start_and_passes_later() {
        let credentials = Credentials::new(Login::Integrated);
        assert!(!credentials.is_refused(18452).await.is_transient());
        assert!(!credentials.begin().await.unwrap_err().is_transient(), "within the pause as well");
        tokio::time::sleep(OTHER_PAUSES.0).await;
        credentials.is_let_in().await;
        assert!(credentials.is_refused(18452).await.is_transient());
        assert!(credentials.begin().await.unwrap_err().is_transient(), "within the pause as well");
        tokio::time::sleep(OTHER_PAUSES.0).await;
        credentials.is_let_in().await;
    }

    #[tokio::test(start_paused = true)]
    async fn each_token_that_is_refused_makes_the_pause_longer() {
        let (fetches, fetched) = tokio::sync::watch::channel(0);
        let tokens = TokenSource::new(move || {
            fetches.send_modify(|fetches| *fetches += 1);
            let expires_at = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 36);
            let token = AccessToken::new(format!("token {}", *fetches.borrow()), expires_at);
            async move { Ok(token) }
        });
        let credentials = Credentials::new(Login::Own(tokens));
        credentials.is_let_in().await;
        let began_at = Instant::now();
        while began_at.elapsed() < Duration::from_secs(60) {
            if let Ok(attempt) = credentials.begin().await
                && let Err(error) = attempt.was_refused(18456, String::new())
            {
                assert!(error.is_transient());
            }
            tokio::time::sleep(SECOND / 10).await;
        }
        assert!((6..20).contains(&*fetched.borrow()), "{}", *fetched.borrow());
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_number_says_is_the_remedy() {
        for (number, remedy) in [
            (18456, "check User ID and Password"),
            (18470, "ALTER LOGIN [login] ENABLE"),
            (18486, "WITH PASSWORD = '…' UNLOCK"),
            (18487, "WITH PASSWORD"),
            (18488, "WITH PASSWORD"),
        ] {
            let message = password().is_refused(number).await.to_string();
            assert!(message.contains(remedy), "{message}");
        }
    }
}
