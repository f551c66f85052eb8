//! Section `queue`: which queue.

use crate::error::Error;
use crate::text::MAX_NAME_UNITS;

use super::ranges::refused_text;

/// Which queue: section `queue`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct QueueConfig {
    /// Queue name, compared by code point: `Mail` and `mail` are two queues.
    ///
    /// Default: `default`. Range: 1 to 128 characters (UTF-16), with no leading or trailing spaces.
    pub name: String,
}

impl Default for QueueConfig {
    fn default() -> QueueConfig {
        QueueConfig { name: "default".to_string() }
    }
}

impl QueueConfig {
    /// Checks this section alone.
    ///
    /// # Errors
    ///
    /// As [`Config::validate`](super::config::Config::validate).
    pub fn validate(&self) -> Result<(), Error> {
        let is_trimmed = self.name.trim() == self.name; // SQL Server takes 'mail' and 'mail ' for equal
        if self.name.is_empty() || !is_trimmed || self.name.encode_utf16().count() > MAX_NAME_UNITS {
            let allowed = "1 to 128 characters (UTF-16), with no leading or trailing spaces";
            return Err(refused_text("queue.name", &self.name, allowed));
        }
        Ok(())
    }
}
