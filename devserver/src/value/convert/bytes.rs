//! To the binary types, and bytes as hexadecimal digits.

use crate::error::SqlResult;
use crate::value::codepage;
use crate::value::convert::chart::{Group, group};
use crate::value::convert::error::{error_converting, invalid_binary_style, not_supported};
use crate::value::types::{Length, SqlType};
use crate::value::units::units;
use crate::value::values::Value;
use std::sync::Arc;

/// `0x` and upper-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        text += &format!("{byte:02X}");
    }
    text
}

/// The bytes of a value, before they are cut to the length of `to`.
pub(super) fn to_bytes(value: &Value, from: SqlType, to: SqlType, style: Option<i32>) -> SqlResult<Arc<[u8]>> {
    let bytes: Arc<[u8]> = match value {
        Value::Bytes(bytes) => Arc::clone(bytes),
        Value::String(text) => Arc::from(text_to_bytes(text, from, to, style)?),
        Value::Bit(v) => Arc::from([u8::from(*v)]),
        Value::TinyInt(v) => Arc::from([*v]),
        Value::SmallInt(v) => Arc::from(v.to_be_bytes()),
        Value::Int(v) => Arc::from(v.to_be_bytes()),
        Value::BigInt(v) => Arc::from(v.to_be_bytes()),
        Value::Uuid(id) => Arc::from(id.to_bytes_le()),
        // What the server stores of the other types is not promised to stay the same between its versions.
        _ => return Err(not_supported(from, to)),
    };
    let is_short = to.max_bytes().is_some_and(|limit| limit < bytes.len());
    if is_short && matches!(value, Value::Uuid(_)) {
        return Err(not_supported(from, to));
    }
    Ok(bytes)
}

fn text_to_bytes(text: &str, from: SqlType, to: SqlType, style: Option<i32>) -> SqlResult<Vec<u8>> {
    let digits = match style.unwrap_or(0) {
        0 if from.is_unicode() => {
            let mut bytes = Vec::with_capacity(2 * text.len());
            for unit in units(text) {
                bytes.extend_from_slice(&unit.to_le_bytes());
            }
            return Ok(bytes);
        }
        0 => return Ok(codepage::encode(text)),
        1 => text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")),
        2 => Some(text),
        other => return Err(invalid_binary_style(other)),
    };
    digits.and_then(bytes_from_hex).ok_or_else(|| error_converting(from, to))
}

/// The bytes of an even number of hexadecimal digits.
pub(in crate::value) fn bytes_from_hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

/// Numbers keep their last bytes and are filled up in front; everything else keeps its first and is filled up
/// behind.
pub(super) fn fit_bytes(bytes: Arc<[u8]>, from: SqlType, to: SqlType) -> Value {
    let (limit, is_fixed) = match to {
        SqlType::Binary(n) => (usize::from(n), true),
        SqlType::RowVersion => (8, true),
        _ => (to.length().and_then(Length::limit).unwrap_or(usize::MAX), false),
    };
    let is_number = group(from) == Group::Integer;
    if bytes.len() > limit {
        let kept = if is_number { &bytes[bytes.len() - limit..] } else { &bytes[..limit] };
        return Value::Bytes(Arc::from(kept));
    }
    if !is_fixed || bytes.len() == limit {
        return Value::Bytes(bytes);
    }
    let padding = vec![0; limit - bytes.len()];
    let padded = if is_number { [&padding, &*bytes].concat() } else { [&*bytes, &padding].concat() };
    Value::Bytes(Arc::from(padded))
}
