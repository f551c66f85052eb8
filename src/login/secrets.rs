//! Passwords and tokens, which must never be printed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::Error;

/// A token for SQL Server, issued by Microsoft Entra ID. Its `Debug` output hides it.
///
/// Its audience must be `https://database.windows.net/` (the scope `https://database.windows.net/.default`), or the
/// equivalent in another Azure cloud.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessToken {
    token: Secret,
    pub(super) expires_at: SystemTime,
}

impl AccessToken {
    /// Creates a token that expires at the given time. SQL Server refuses an expired token.
    pub fn new(token: impl Into<String>, expires_at: SystemTime) -> AccessToken {
        AccessToken { token: Secret::new(token), expires_at }
    }

    /// The time at which it expires.
    pub fn expires_at(&self) -> SystemTime {
        self.expires_at
    }

    pub(crate) fn reveal(&self) -> &str {
        self.token.reveal()
    }

    pub(super) fn time_left(&self) -> Duration {
        self.expires_at.duration_since(now()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Password {
    Given(Secret),
    /// The file is read each time the password is needed.
    File(PathBuf),
}

impl Password {
    /// Returns the current password. Reads the file on a separate thread, because this thread serves connections and a
    /// network drive may be slow.
    ///
    /// # Errors
    ///
    /// [`Error::Credentials`] if the file cannot be read, or is empty.
    pub(crate) async fn read(&self) -> Result<Secret, Error> {
        let path: &Path = match self {
            Password::Given(password) => return Ok(password.clone()),
            Password::File(path) => path,
        };
        let failed = |message: String| Error::Credentials {
            source_name: format!("the password file {}", path.display()),
            message,
        };
        let file = path.to_path_buf();
        let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(file));
        let read = reading.await.unwrap_or_else(|ended| Err(ended.into()));
        let text = read.map_err(|cause| failed(cause.to_string()))?;
        // Some editors, and PowerShell, write a byte order mark before UTF-8.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        // Editors and `echo` end the last line.
        let text = text.strip_suffix('\n').unwrap_or(text);
        match text.strip_suffix('\r').unwrap_or(text) {
            "" => Err(failed("the file is empty".to_string())),
            password => Ok(Secret::new(password)),
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The clock for a token's expiry. If this clock is wrong, an expired token may be used; SQL Server then refuses it,
/// and it is replaced.
#[expect(clippy::disallowed_methods, reason = "Entra's tokens end by the calendar")]
pub(super) fn now() -> SystemTime {
    SystemTime::now()
}
