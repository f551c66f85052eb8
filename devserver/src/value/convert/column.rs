//! Storing into a column, where text that does not fit is an error instead of being cut.

use crate::error::{SqlError, SqlResult};
use crate::value::convert::bytes::{fit_bytes, hex, to_bytes};
use crate::value::convert::cast::{convert, is_as_it_must_be};
use crate::value::convert::chart::{Group, check_conversion, group};
use crate::value::convert::text::{fit_text, is_uncut, split_units, to_text, utf16_length};
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;

/// Converts a value for a column of type `to`, as INSERT, UPDATE and MERGE do: implicitly, and without cutting
/// anything but trailing blanks.
///
/// # Errors
/// What `truncated` makes of the part that would fit if text or bytes are too long; otherwise the errors of [`convert`].
pub fn assign(
    value: Value,
    from: SqlType,
    to: SqlType,
    truncated: impl FnOnce(String) -> SqlError,
) -> SqlResult<Value> {
    if from == to || is_as_it_must_be(&value, from, to) {
        return Ok(value);
    }
    if !to.is_character() && !to.is_binary() {
        return convert(value, from, to, None, false);
    }
    check_conversion(from, to, false)?;
    if value.is_null() {
        return Ok(value);
    }
    if to.is_character() {
        let Some(limit) = to.length().and_then(Length::limit) else {
            return convert(value, from, to, None, false);
        };
        let text = to_text(&value, from, to, None)?;
        let trimmed_length = utf16_length(text.trim_end_matches(' '));
        if trimmed_length > limit && !is_uncut(from) {
            let (kept, _) = split_units(&text, limit)?;
            return Err(truncated(kept.to_string()));
        }
        return fit_text(text, from, to);
    }
    let bytes = to_bytes(&value, from, to, None)?;
    let limit = to.length().and_then(Length::limit).unwrap_or(usize::MAX);
    if bytes.len() > limit {
        if group(from) != Group::Binary {
            return Err(SqlError::not_supported(format!("storing {from} into {to}, which is too short")));
        }
        return Err(truncated(hex(&bytes[..limit])));
    }
    Ok(fit_bytes(bytes, from, to))
}
