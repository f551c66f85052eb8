//! Who may look and act, and from where.

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
    /// Who may look. Default: [`Access::Local`].
    pub fn access(mut self, access: Access) -> Options {
        self.access = access;
        self
    }

    /// Nobody may act, whatever the login of the connection may do. Default: false.
    pub fn read_only(mut self, read_only: bool) -> Options {
        self.read_only = read_only;
        self
    }

    /// Payloads, outputs and checkpoints are not shown and cannot be downloaded: they may be personal data. Errors,
    /// headers and what a job says of its progress are shown. Default: false.
    pub fn hide_payloads(mut self, hide_payloads: bool) -> Options {
        self.hide_payloads = hide_payloads;
        self
    }

    /// The browser speaks HTTPS with whatever is in front of the page, so its cookie goes over HTTPS only. Default:
    /// false.
    pub fn secure_cookie(mut self, secure_cookie: bool) -> Options {
        self.secure_cookie = secure_cookie;
        self
    }
}

/// Who may look.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Access {
    /// Everybody who can reach a page on this machine's loopback address: requests to another host name are refused, so
    /// that no page from elsewhere can read this one through the browser.
    ///
    /// Only for a listener on loopback: a router does not see where it listens, and whoever can reach the port from
    /// elsewhere can say any name.
    #[default]
    Local,
    /// Who knows this token.
    Token(String),
    /// These users, each with a password.
    Users(Vec<User>),
    /// Whoever the program or the proxy in front of the page lets through. Where it says who in a header, such as
    /// `x-forwarded-user`, that name stands in the audit; make sure that nobody else can send that header. A name is
    /// UTF-8; a request with another is refused, and so is one with several. Without a name a visitor may look and not
    /// act.
    Trusted {
        /// The header.
        user_header: Option<HeaderName>,
    },
}

/// Somebody who may log in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct User {
    /// The name to log in with.
    pub name: String,
    /// The password's hash, as [`hash_password`] makes it.
    pub password_hash: String,
    /// May look, and not act.
    pub read_only: bool,
}

impl User {
    /// A user who may act. `password_hash` is what [`hash_password`] returns: an argon2 hash in the PHC format.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] when the hash is none, or of another algorithm.
    pub fn new(name: impl Into<String>, password_hash: impl Into<String>) -> Result<User, OptionsError> {
        let (name, password_hash) = (name.into(), password_hash.into());
        let is_argon2 =
            PasswordHash::new(&password_hash).is_ok_and(|hash| hash.algorithm.as_str().starts_with("argon2"));
        if name.is_empty() || !is_argon2 {
            return Err(OptionsError { user: name });
        }
        Ok(User { name, password_hash, read_only: false })
    }

    /// May look, and not act.
    pub fn read_only(mut self, read_only: bool) -> User {
        self.read_only = read_only;
        self
    }
}

/// A user who cannot log in: without a name, or with a password hash that is no argon2 hash in the PHC format
/// (`$argon2id$v=19$…`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("user '{user}' needs a name and a password hash that begins with $argon2id$; make one with hash_password")]
pub struct OptionsError {
    user: String,
}

/// The hash of a password, for [`User::new`]: argon2id with the parameters that its authors recommend and a salt of its
/// own. Takes some tens of milliseconds and 19 MiB.
///
/// # Panics
///
/// When the system has no random numbers.
pub fn hash_password(password: &str) -> String {
    let hash: Result<PasswordHash, _> = Argon2::default().hash_password(password.as_bytes());
    hash.expect("the default parameters are valid").to_string()
}
