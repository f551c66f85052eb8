//! The options of the web UI: who may view and act, and from where.

use argon2::Argon2;
use argon2::password_hash::PasswordHasher;
use argon2::password_hash::phc::PasswordHash;
use axum::http::HeaderName;

/// How the page is served. The default is for a page that listens on loopback: no log-in.
///
/// ```
/// use readpast_web::{Access, HeaderName, Options};
///
/// let user_header = Some(HeaderName::from_static("x-forwarded-user"));
/// let options = Options::default().access(Access::Trusted { user_header }).hide_payloads(true).secure_cookie(true);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub(crate) access: Access,
    pub(crate) read_only: bool,
    pub(crate) hide_payloads: bool,
    pub(crate) secure_cookie: bool,
}

impl Options {
    /// Sets who may view the UI. Default: [`Access::Local`].
    pub fn access(mut self, access: Access) -> Options {
        self.access = access;
        self
    }

    /// Disables all actions, whatever the SQL Server login may do. Default: false.
    pub fn read_only(mut self, read_only: bool) -> Options {
        self.read_only = read_only;
        self
    }

    /// Neither shows payloads, outputs, logs and checkpoints nor offers them for download: they may be personal data.
    /// Errors, headers and the progress of jobs are shown. Default: false.
    pub fn hide_payloads(mut self, hide_payloads: bool) -> Options {
        self.hide_payloads = hide_payloads;
        self
    }

    /// Sends the cookie over HTTPS only, for an HTTPS proxy in front of the UI. Default: false.
    pub fn secure_cookie(mut self, secure_cookie: bool) -> Options {
        self.secure_cookie = secure_cookie;
        self
    }
}

/// Who may view the UI.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Access {
    /// Everyone who can reach it on this machine's loopback address. Requests to other host names are rejected, so no
    /// web site can read the UI through a browser.
    ///
    /// Only for a listener on loopback: a router does not see where it listens, and a remote client can send any host
    /// name.
    #[default]
    Local,
    /// Everyone who knows this token.
    Token(String),
    Users(Vec<User>),
    /// Everyone whom the program or a proxy admits. If a header such as `x-forwarded-user` contains the name, the audit
    /// has it; make sure that visitors cannot send this header. A name must be UTF-8. A request with an invalid name or
    /// several of these headers is rejected. A visitor without a name may view but not act.
    Trusted {
        /// The header.
        user_header: Option<HeaderName>,
    },
}

impl Access {
    /// Whether a visitor must log in.
    pub(crate) fn asks(&self) -> bool {
        matches!(self, Access::Token(_) | Access::Users(_))
    }
}

/// A user who may log in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct User {
    /// The login name.
    pub name: String,
    /// The password's hash, as [`hash_password`] makes it.
    pub password_hash: String,
    /// May view but not act.
    pub read_only: bool,
}

impl User {
    /// A user who may act. `password_hash` is an argon2 hash in PHC format, as [`hash_password`] returns it.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] if the hash is not valid.
    pub fn new(name: impl Into<String>, password_hash: impl Into<String>) -> Result<User, OptionsError> {
        let (name, password_hash) = (name.into(), password_hash.into());
        let is_argon2 =
            PasswordHash::new(&password_hash).is_ok_and(|hash| hash.algorithm.as_str().starts_with("argon2"));
        if name.is_empty() || !is_argon2 {
            return Err(OptionsError { user: name });
        }
        Ok(User { name, password_hash, read_only: false })
    }

    /// Lets the user view but not act.
    pub fn read_only(mut self, read_only: bool) -> User {
        self.read_only = read_only;
        self
    }
}

/// A user without a name, or without a valid argon2 hash in PHC format (`$argon2id$v=19$…`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("user '{user}' needs a name and a password hash that begins with $argon2id$; make one with hash_password")]
pub struct OptionsError {
    user: String,
}

/// Hashes a password for [`User::new`]: argon2id with its authors' recommended parameters and a random salt. Takes some
/// tens of milliseconds and 19 MiB.
///
/// # Panics
///
/// If the system has no random numbers.
pub fn hash_password(password: &str) -> String {
    let hash: Result<PasswordHash, _> = Argon2::default().hash_password(password.as_bytes());
    hash.expect("the default parameters are valid").to_string()
}
