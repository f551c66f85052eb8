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
//! - **Which logins go alone.** SQL Server locks a login after a few wrong passwords (CHECK_POLICY; "Password policy" in
//!   Microsoft's SQL documentation), and a password may have been changed since it was last right. So only what was let
//!   in within the last half a minute is sent by many connections at once. Anything else is tried by one connection,
//!   and the others wait for the outcome. They do not wait long, because the first may hang.
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

use super::entra;
use crate::access_token::{Granted, TokenSource};
use crate::connection_string::{Login, Password};
use crate::error::Error;
use crate::growing_pauses::Pauses;
use crate::secret::Secret;

/// How long a password, token or account that was let in counts as proved. Connections that break together are made
/// anew within less.
const PROVED_FOR: Duration = Duration::from_secs(30);

/// How long connections wait for the outcome of the one that logs in alone. A login takes less than a second; one that
/// hangs must not hold up the others, among which is the heartbeat's.
const OUTCOME_WITHIN: Duration = Duration::from_secs(2);

/// The first and the longest pause after a refusal. Ten tries within half an hour, which many policies of locking
/// forgive; and a refusal that was a matter of seconds costs no more than that.
const PAUSES: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(5 * 60));

/// Shared by all connections of a queue and its clones.
#[derive(Debug)]
pub(super) struct Credentials {
    source: Source,
    standing: Mutex<Standing>,
    /// Of the logins with what is not proved.
    turn: tokio::sync::Mutex<()>,
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
    /// What was let in last, and when, unless something was refused since.
    proved: Option<(Option<Secret>, Instant)>,
    /// The last refusal, unless something was let in since.
    refused: Option<Refused>,
}

#[derive(Debug)]
struct Refused {
    password: Option<Secret>,
    number: i32,
    message: String,
    pauses: Pauses,
    /// Before that, it is not sent again.
    again_at: Instant,
}

/// What one login is tried with.
#[derive(Debug)]
pub(super) enum Proof {
    Password { user: Secret, password: Secret },
    Integrated,
    Token(Granted),
}

/// One login. Its caller reports what became of it; one that is dropped had no outcome.
#[must_use]
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    credentials: &'a Credentials,
    proof: Proof,
    /// Held where it goes alone.
    _turn: Option<MutexGuard<'a, ()>>,
}

impl Credentials {
    pub(super) fn new(login: Login) -> Credentials {
        let source = match login {
            Login::Sql { user, password } => Source::Sql { user, password },
            Login::Integrated => Source::Integrated,
            Login::Entra(identity) => Source::Tokens(entra::tokens(identity)),
            Login::Own(tokens) => Source::Tokens(tokens),
        };
        Credentials { source, standing: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Begins a login; waits for its turn, where it has to. A source of tokens has until `deadline`, which is `limit`
    /// after the call.
    ///
    /// # Errors
    ///
    /// [`Error::Credentials`]; [`Error::LoginFailed`] where the same was refused, and its pause is not over.
    pub(super) async fn attempt(&self, deadline: Instant, limit: Duration) -> Result<Attempt<'_>, Error> {
        let proof = self.proof(deadline, limit).await?;
        if self.standing.lock().proves(&proof) {
            return Ok(Attempt { credentials: self, proof, _turn: None });
        }
        let patience = deadline.min(Instant::now() + OUTCOME_WITHIN);
        let turn = tokio::time::timeout_at(patience, self.turn.lock()).await.ok();
        // Those before may have been refused, or have proved it for all.
        let proof = self.proof(deadline, limit).await?;
        let turn = turn.filter(|_| !self.standing.lock().proves(&proof));
        Ok(Attempt { credentials: self, proof, _turn: turn })
    }

    async fn proof(&self, deadline: Instant, limit: Duration) -> Result<Proof, Error> {
        match &self.source {
            Source::Sql { user, password } => {
                let password = password.read()?;
                self.check_pause(Some(&password))?;
                Ok(Proof::Password { user: user.clone(), password })
            }
            Source::Integrated => {
                self.check_pause(None)?;
                Ok(Proof::Integrated)
            }
            Source::Tokens(tokens) => {
                self.check_pause(None)?;
                tokens.token(deadline, limit).await.map(Proof::Token)
            }
        }
    }

    fn check_pause(&self, password: Option<&Secret>) -> Result<(), Error> {
        let standing = self.standing.lock();
        match &standing.refused {
            Some(refused) if refused.password.as_ref() == password && Instant::now() < refused.again_at => {
                Err(self.login_failed(&standing, refused.number, refused.message.clone()))
            }
            _ => Ok(()),
        }
    }

    fn login_failed(&self, standing: &Standing, number: i32, message: String) -> Error {
        let can_change = !matches!(self.source, Source::Sql { password: Password::Given(_), .. });
        let may_pass = standing.was_let_in && can_change;
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

impl Standing {
    /// Whether many may log in with it at once.
    fn proves(&self, proof: &Proof) -> bool {
        match &self.proved {
            Some((password, at)) => password.as_ref() == proof.password() && at.elapsed() < PROVED_FOR,
            None => false,
        }
    }
}

impl Attempt<'_> {
    pub(super) fn proof(&self) -> &Proof {
        &self.proof
    }

    /// SQL Server has let the connection in.
    pub(super) fn was_let_in(self) {
        if let (Proof::Token(granted), Source::Tokens(tokens)) = (&self.proof, &self.credentials.source) {
            tokens.has_let_in(&granted.token);
        }
        let proved = (self.proof.password().cloned(), Instant::now());
        *self.credentials.standing.lock() = Standing { was_let_in: true, proved: Some(proved), refused: None };
    }

    /// SQL Server has refused the login. Returns whether it is worth another attempt at once.
    ///
    /// # Errors
    ///
    /// [`Error::LoginFailed`], where it is not.
    pub(super) fn was_refused(self, number: i32, message: String) -> Result<(), Error> {
        let mut standing = self.credentials.standing.lock();
        standing.proved = None;
        if let (Proof::Token(granted), Source::Tokens(tokens)) = (&self.proof, &self.credentials.source) {
            tokens.forget(&granted.token);
            if granted.has_let_in {
                tracing::debug!(number, message, "a token was refused; fetching another");
                return Ok(());
            }
        }
        let password = self.proof.password().cloned();
        let now = Instant::now();
        let before = standing.refused.take().filter(|refused| refused.password == password);
        let (mut pauses, again_at) = match before {
            Some(refused) => (refused.pauses, refused.again_at),
            None => (Pauses::new(PAUSES.0, PAUSES.1), now),
        };
        // Within the pause, this is the answer to an attempt that began before it.
        let again_at = if again_at > now { again_at } else { now + pauses.next() };
        standing.refused = Some(Refused { password, number, message: message.clone(), pauses, again_at });
        Err(self.credentials.login_failed(&standing, number, message))
    }
}

impl Proof {
    /// As the driver has it.
    pub(super) fn method(&self) -> AuthMethod {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::access_token::AccessToken;

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

        tokio::time::sleep(PROVED_FOR).await;
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
    async fn what_was_refused_is_sent_ever_more_seldom() {
        let credentials = password();
        let began_at = Instant::now();
        let mut sent_at = Vec::new();
        while began_at.elapsed() < Duration::from_secs(3600) {
            if let Ok(attempt) = credentials.begin().await {
                sent_at.push(began_at.elapsed());
                let error = attempt.was_refused(18456, String::new()).unwrap_err();
                assert!(!error.is_transient(), "a password in the connection string cannot change");
            }
            tokio::time::sleep(SECOND / 10).await;
        }
        let pauses: Vec<_> = sent_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses[0] <= PAUSES.0 + SECOND && pauses[0] >= PAUSES.0 / 2, "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= PAUSES.1 + SECOND), "{pauses:?}");
        assert!((12..30).contains(&pauses.len()), "{}", pauses.len());

        tokio::time::sleep(PAUSES.1).await;
        credentials.is_let_in().await;
        credentials.is_refused(18456).await;
        tokio::time::sleep(PAUSES.0).await;
        credentials.is_let_in().await;
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
        tokio::time::sleep(PAUSES.0).await;
        credentials.is_let_in().await;
    }

    /// 18452: the login is from an untrusted domain, or nobody could be asked.
    #[tokio::test(start_paused = true)]
    async fn a_refused_windows_account_is_final_at_the_start_and_passes_later() {
        let credentials = Credentials::new(Login::Integrated);
        assert!(!credentials.is_refused(18452).await.is_transient());
        assert!(!credentials.begin().await.unwrap_err().is_transient(), "within the pause as well");
        tokio::time::sleep(PAUSES.0).await;
        credentials.is_let_in().await;
        assert!(credentials.is_refused(18452).await.is_transient());
        assert!(credentials.begin().await.unwrap_err().is_transient(), "within the pause as well");
        tokio::time::sleep(PAUSES.0).await;
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
        while began_at.elapsed() < Duration::from_secs(3600) {
            if let Ok(attempt) = credentials.begin().await
                && let Err(error) = attempt.was_refused(18456, String::new())
            {
                assert!(error.is_transient());
            }
            tokio::time::sleep(SECOND / 10).await;
        }
        assert!((12..35).contains(&*fetched.borrow()), "{}", *fetched.borrow());
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_number_says_is_the_remedy() {
        for (number, remedy) in [
            (18456, "check User ID and Password"),
            (18470, "ALTER LOGIN [login] ENABLE"),
            (18486, "CHECK_POLICY = OFF"),
            (18487, "WITH PASSWORD"),
            (18488, "WITH PASSWORD"),
        ] {
            let message = password().is_refused(number).await.to_string();
            assert!(message.contains(remedy), "{message}");
        }
    }
}
