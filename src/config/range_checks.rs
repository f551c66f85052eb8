//! Range checks and their errors.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::connection_string::may_hold_password;
use crate::error::Error;

pub(crate) fn check_range<T: PartialOrd + Display>(key: &str, value: T, range: RangeInclusive<T>) -> Result<(), Error> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(refused(key, value, format!("{} to {}", range.start(), range.end())))
}

pub(super) fn check_time_at_most(key: &str, time: Duration, limit_key: &str, limit: Duration) -> Result<(), Error> {
    if time <= limit {
        return Ok(());
    }
    Err(refused(key, time.as_millis(), format!("at most {limit_key} ({})", limit.as_millis())))
}

pub(crate) fn refused(key: &str, value: impl Display, allowed: impl Display) -> Error {
    Error::Config { key: key.to_string(), value: value.to_string(), allowed: allowed.to_string() }
}

/// Like [`refused`], for a text. A text that may be a misplaced connection string is not shown.
pub(super) fn refused_text(key: &str, text: &str, allowed: impl Display) -> Error {
    refused(key, shown(text), allowed)
}

pub(super) fn shown(text: &str) -> String {
    match text {
        "" => "empty".to_string(),
        _ if may_hold_password(text) => "a text that is not shown here".to_string(),
        _ => format!("'{text}'"),
    }
}
