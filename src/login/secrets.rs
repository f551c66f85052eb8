//! What shows nowhere: passwords and tokens.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::Error;

/// A token for SQL Server, as Microsoft Entra ID issues them. Its Debug output hides it.
///
/// Its audience must be `https://database.windows.net/` (the scope `https://database.windows.net/.default`), or what
/// that is called in another cloud of Azure's.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessToken {
    token: Secret,
    pub(super) expires_at: SystemTime,
}

impl AccessToken {
    /// A token, and when it runs out. One that has run out is refused by SQL Server.
    pub fn new(token: impl Into<String>, expires_at: SystemTime) -> AccessToken {
        AccessToken { token: Secret::new(token), expires_at }
    }

    /// When it runs out.
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

/// Where a password is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Password {
    Given(Secret),
    /// Read each time it is needed.
    File(PathBuf),
}

impl Password {
    /// The password as it is now. The file is read on a thread for it: this one serves connections, and a network drive
    /// may take its time.
    ///
    /// # Errors
    ///
    /// [`Error::Credentials`] where the file cannot be read, or is empty.
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
        // Some editors, and PowerShell, begin UTF-8 with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        // Editors and `echo` end the last line.
        let text = text.strip_suffix('\n').unwrap_or(text);
        match text.strip_suffix('\r').unwrap_or(text) {
            "" => Err(failed("it is empty".to_string())),
            password => Ok(Secret::new(password)),
        }
    }
}

/// Its Debug output hides it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, for whoever it is meant for.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What a token's end is told by. One that is used too long because this clock is wrong is refused, and replaced.
#[expect(clippy::disallowed_methods, reason = "Entra's tokens end by the calendar")]
pub(super) fn now() -> SystemTime {
    SystemTime::now()
}
