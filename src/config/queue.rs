//! Section `queue`.

use crate::error::Error;
use crate::text::MAX_NAME_UNITS;

use super::settings_table::{Section, Table, check, defaults};

/// Section `queue`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct QueueConfig {
    /// Queue name, compared by code point: `Mail` and `mail` are two queues.
    ///
    /// Default: `default`. Allowed: 1 to 128 characters (UTF-16), with no leading or trailing spaces. Key:
    /// `queue.name`.
    pub name: String,
}

impl Default for QueueConfig {
    fn default() -> QueueConfig {
        defaults()
    }
}

impl Section for QueueConfig {
    fn rows(table: &mut Table<'_, QueueConfig>) -> QueueConfig {
        let rule = "1 to 128 characters (UTF-16), with no leading or trailing spaces";
        QueueConfig { name: table.text("queue.name", |queue| &queue.name, "default", rule, is_name) }
    }
}

pub(super) fn is_name(name: &str) -> bool {
    let is_trimmed = name.trim() == name; // SQL Server takes 'mail' and 'mail ' for equal
    !name.is_empty() && is_trimmed && name.encode_utf16().count() <= MAX_NAME_UNITS
}

impl QueueConfig {
    pub(crate) fn validate(&self) -> Result<(), Error> {
        check(self)
    }
}
