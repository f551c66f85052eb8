//! To the binary types, and bytes as hexadecimal digits.

use crate::error::SqlResult;
use crate::value::codepage;
use crate::value::convert::chart::{Group, group};
use crate::value::convert::error::{invalid_binary_style, not_supported};
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
        Value::String(text) => Arc::from(text_to_bytes(text, from, style)?),
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

fn text_to_bytes(text: &str, from: SqlType, style: Option<i32>) -> SqlResult<Vec<u8>> {
    if let Some(style) = style.filter(|&style| style != 0) {
        return Err(invalid_binary_style(style));
    }
    if !from.is_unicode() {
        return Ok(codepage::encode(text));
    }
    Ok(units(text).flat_map(u16::to_le_bytes).collect())
}

/// Numbers keep their last bytes and are filled up in front; everything else keeps its first and is filled up
/// behind.
pub(super) fn fit_bytes(bytes: Arc<[u8]>, from: SqlType, to: SqlType) -> Value {
    let (limit, is_fixed) = match to {
        SqlType::Binary(n) => (usize::from(n), true),
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
