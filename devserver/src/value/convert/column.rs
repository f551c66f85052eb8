//! Storing into a column, where text that does not fit is an error instead of being cut.

use crate::error::SqlError;
use crate::value::convert::bytes::{fit_bytes, hex, to_bytes};
use crate::value::convert::cast::{convert, is_as_it_must_be};
use crate::value::convert::chart::{Group, check_conversion, group};
use crate::value::convert::text::{fit_text, is_uncut, split_units, to_text, utf16_length};
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;

/// What can go wrong on the way into a column.
#[derive(Debug, Clone, PartialEq)]
pub enum AssignError {
    /// Text or bytes are longer than the column; this part of them would fit.
    Truncation { kept: String },
    /// The value does not convert.
    Other(SqlError),
}

impl AssignError {
    /// The error to report: 2628 with the names filled in, or the conversion's error. `table` is
    /// `database.schema.table`.
    ///
    /// "For database compatibility level 140 or lower versions, error message 2628 remains an opt-in error message"
    /// ("ALTER DATABASE SCOPED CONFIGURATION", MicrosoftDocs/sql-docs,
    /// docs/t-sql/statements/alter-database-scoped-configuration-transact-sql.md): then it is 8152.
    pub fn for_column(self, table: &str, column: &str, compatibility_level: u8) -> SqlError {
        match self {
            AssignError::Truncation { .. } if compatibility_level < 150 => {
                SqlError::new(8152, "String or binary data would be truncated.")
            }
            AssignError::Truncation { kept } => SqlError::new(
                2628,
                format!(
                    "String or binary data would be truncated in table '{table}', column '{column}'. \
                     Truncated value: '{kept}'."
                ),
            ),
            AssignError::Other(error) => error,
        }
    }
}

impl From<SqlError> for AssignError {
    fn from(error: SqlError) -> Self {
        AssignError::Other(error)
    }
}

/// Converts a value for a column of type `to`, as INSERT, UPDATE and MERGE do: implicitly, and without cutting
/// anything but trailing blanks.
///
/// # Errors
/// [`AssignError::Truncation`] if text or bytes are too long; otherwise the errors of [`convert`].
pub fn assign(value: Value, from: SqlType, to: SqlType) -> Result<Value, AssignError> {
    if from == to || is_as_it_must_be(&value, from, to) {
        return Ok(value);
    }
    if !to.is_character() && !to.is_binary() {
        return Ok(convert(value, from, to, None, false)?);
    }
    check_conversion(from, to, false)?;
    if value.is_null() {
        return Ok(value);
    }
    if to.is_character() {
        let Some(limit) = to.length().and_then(Length::limit) else {
            return Ok(convert(value, from, to, None, false)?);
        };
        let text = to_text(&value, from, to, None)?;
        let trimmed_length = utf16_length(text.trim_end_matches(' '));
        if trimmed_length > limit && !is_uncut(from) {
            let (kept, _) = split_units(&text, limit)?;
            return Err(AssignError::Truncation { kept: kept.to_string() });
        }
        return Ok(fit_text(text, from, to)?);
    }
    let bytes = to_bytes(&value, from, to, None)?;
    let limit = to.length().and_then(Length::limit).unwrap_or(usize::MAX);
    if bytes.len() > limit {
        if group(from) != Group::Binary {
            return Err(SqlError::not_supported(format!("storing {from} into {to}, which is too short")).into());
        }
        return Err(AssignError::Truncation { kept: hex(&bytes[..limit]) });
    }
    Ok(fit_bytes(bytes, from, to))
}
