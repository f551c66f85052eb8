//! `+` on text and on binary operands.

use crate::error::SqlResult;
use crate::value::convert::cast::convert;
use crate::value::convert::text::split_units;
use crate::value::types::{Length, MAX_BYTE_LENGTH, MAX_UNIT_LENGTH, SqlType};
use crate::value::units::joined;
use crate::value::values::Value;
use std::sync::Arc;

pub(super) fn concatenated_text(a: SqlType, b: SqlType) -> SqlType {
    let (a_length, b_length) = (a.text_length(), b.text_length());
    match (a, b) {
        (SqlType::Char(n), SqlType::Char(m)) => SqlType::Char(n.saturating_add(m).min(MAX_BYTE_LENGTH)),
        (SqlType::NChar(n), SqlType::NChar(m) | SqlType::Char(m)) | (SqlType::Char(n), SqlType::NChar(m)) => {
            SqlType::NChar(n.saturating_add(m).min(MAX_UNIT_LENGTH))
        }
        _ if a.is_unicode() || b.is_unicode() => SqlType::NVarChar(a_length.plus(b_length, MAX_UNIT_LENGTH)),
        _ => SqlType::VarChar(a_length.plus(b_length, MAX_BYTE_LENGTH)),
    }
}

pub(super) fn concatenated_bytes(a: SqlType, b: SqlType) -> SqlType {
    match (a, b) {
        (SqlType::Binary(n), SqlType::Binary(m)) => SqlType::Binary(n.saturating_add(m).min(MAX_BYTE_LENGTH)),
        _ => SqlType::VarBinary(a.text_length().plus(b.text_length(), MAX_BYTE_LENGTH)),
    }
}

pub(super) fn concatenate_text(
    a: &Value,
    a_type: SqlType,
    b: &Value,
    b_type: SqlType,
    result: SqlType,
) -> SqlResult<Value> {
    let text = |value: &Value, ty: SqlType| {
        let to = if result.is_unicode() { SqlType::NVarChar(Length::Max) } else { SqlType::VarChar(Length::Max) };
        convert(value.clone(), ty, to, None, false)
    };
    let (a, b) = (text(a, a_type)?, text(b, b_type)?);
    let joined = joined([a.as_str().unwrap_or_default(), b.as_str().unwrap_or_default()].concat())?;
    // Only at 8,000 bytes is anything cut: otherwise the result type holds both.
    match result.length().and_then(Length::limit) {
        Some(limit) => Ok(Value::String(Arc::from(split_units(&joined, limit)?.0))),
        None => Ok(Value::String(Arc::from(joined))),
    }
}

pub(super) fn concatenate_bytes(a: &Value, b: &Value, result: SqlType) -> Value {
    let mut joined = [a.as_bytes().unwrap_or_default(), b.as_bytes().unwrap_or_default()].concat();
    if let Some(limit) = result.length().and_then(Length::limit) {
        joined.truncate(limit);
    }
    Value::Bytes(Arc::from(joined))
}
