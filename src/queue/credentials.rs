//! What a connection logs in with, at the moment of its login: passwords in files and tokens change while workers run.
//!
//! Open connections are not touched by a change. Where SQL Server refuses a token that was kept, another is fetched at
//! once; where it refuses a password from a file that let this process in before, somebody is changing the password,
//! and the file follows some time later (a mounted Secret of Kubernetes' within a minute or two). That is waited for,
//! and the refused password is not sent again meanwhile: SQL Server may lock a login after a few wrong ones
//! (CHECK_POLICY).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tiberius::AuthMethod;

use super::entra;
use crate::access_token::{Granted, TokenSource};
use crate::connection_string::{Login, Password};
use crate::error::Error;
use crate::secret::Secret;

/// After so long, a password that was refused is tried again though its file has not changed: perhaps the login was
/// locked, disabled or set back meanwhile. Most policies of locking forgive so few attempts.
const SAME_PASSWORD_AGAIN: Duration = Duration::from_secs(5 * 60);

/// Shared by all connections of a queue and its clones.
#[derive(Debug)]
pub(super) struct Credentials {
    source: Source,
    have_let_in: AtomicBool,
    refused: Mutex<Option<RefusedPassword>>,
}

#[derive(Debug)]
enum Source {
    Sql { user: Secret, password: Password },
    Integrated,
    Tokens(TokenSource),
}

#[derive(Debug)]
struct RefusedPassword {
    password: Secret,
    at: Instant,
    number: i32,
    message: String,
}

/// What one login is tried with.
#[derive(Debug)]
pub(super) enum Proof {
    Password { user: Secret, password: Secret },
    Integrated,
    Token(Granted),
}

impl Credentials {
    pub(super) fn new(login: Login) -> Credentials {
        let source = match login {
            Login::Sql { user, password } => Source::Sql { user, password },
            Login::Integrated => Source::Integrated,
            Login::Entra(identity) => Source::Tokens(entra::tokens(identity)),
            Login::Own(tokens) => Source::Tokens(tokens),
        };
        Credentials { source, have_let_in: AtomicBool::new(false), refused: Mutex::default() }
    }

    /// What to log in with now. A source of tokens has until `deadline`, which is `limit` after the call.
    ///
    /// # Errors
    ///
    /// [`Error::Credentials`]; [`Error::LoginFailed`] where the password file still has what was refused.
    pub(super) async fn proof(&self, deadline: tokio::time::Instant, limit: Duration) -> Result<Proof, Error> {
        match &self.source {
            Source::Sql { user, password } => {
                let password = password.read()?;
                match &*self.refused.lock() {
                    Some(refused) if refused.password == password && refused.at.elapsed() < SAME_PASSWORD_AGAIN => {
                        Err(self.login_failed(refused.number, refused.message.clone(), true))
                    }
                    _ => Ok(Proof::Password { user: user.clone(), password }),
                }
            }
            Source::Integrated => Ok(Proof::Integrated),
            Source::Tokens(tokens) => match tokio::time::timeout_at(deadline, tokens.token()).await {
                Ok(granted) => granted.map(Proof::Token),
                Err(_) => Err(Error::Credentials {
                    source_name: tokens.name().to_string(),
                    message: format!("no answer within {} ms", limit.as_millis()),
                }),
            },
        }
    }

    /// Notes that SQL Server has let a connection in.
    pub(super) fn have_let_in(&self) {
        self.have_let_in.store(true, Ordering::Release);
        *self.refused.lock() = None;
    }

    /// Notes that SQL Server has refused a login. Returns whether it is worth another attempt at once, or the error.
    pub(super) async fn were_refused(&self, proof: Proof, number: i32, message: String) -> Result<(), Error> {
        let mut password_changes = false;
        match (proof, &self.source) {
            (Proof::Token(granted), Source::Tokens(tokens)) => {
                tokens.forget(&granted.token).await;
                if granted.was_kept {
                    tracing::debug!(number, message, "a token was refused; fetching another");
                    return Ok(());
                }
            }
            (Proof::Password { password, .. }, Source::Sql { password: source, .. })
                if source.file().is_some() && self.have_let_in.load(Ordering::Acquire) =>
            {
                password_changes = true;
                let refused = RefusedPassword { password, at: Instant::now(), number, message: message.clone() };
                *self.refused.lock() = Some(refused);
            }
            _ => {}
        }
        Err(self.login_failed(number, message, password_changes))
    }

    fn login_failed(&self, number: i32, message: String, password_changes: bool) -> Error {
        let remedy = match &self.source {
            Source::Sql { password: Password::Given(_), .. } => "check User ID and Password".to_string(),
            Source::Sql { password: Password::File(file), .. } if password_changes => {
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
        Error::LoginFailed { number, message, remedy, password_changes }
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
}
