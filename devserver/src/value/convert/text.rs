//! To the character types, and lengths and cuts of text.

use crate::error::{SqlError, SqlResult};
use crate::value::convert::bytes::hex;
use crate::value::convert::chart::{Group, group};
use crate::value::convert::date_time::local_time;
use crate::value::convert::error::{invalid_binary_style, not_supported};
use crate::value::datetime::DAY_1900;
use crate::value::types::{Length, SqlType};
use crate::value::units::{self, unit_count};
use crate::value::values::Value;
use crate::value::{codepage, datetime_text};
use std::borrow::Cow;
use std::sync::Arc;
use uuid::Uuid;

/// The length in UTF-16 units.
pub(in crate::value) fn utf16_length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(unit_count).sum() }
}

/// Splits a text after a number of UTF-16 units; past its end, the second part is empty.
///
/// # Errors
/// A refusal of [`units::RESERVED`] text.
pub(in crate::value) fn split_units(text: &str, units: usize) -> SqlResult<(Cow<'_, str>, Cow<'_, str>)> {
    let whole = |(before, after)| Ok((Cow::Borrowed(before), Cow::Borrowed(after)));
    if text.is_ascii() {
        return whole(text.split_at(units.min(text.len())));
    }
    let mut seen = 0;
    for (at, character) in text.char_indices() {
        if seen == units {
            return whole(text.split_at(at));
        }
        seen += unit_count(character);
        if seen > units {
            let part = |units: &mut dyn Iterator<Item = u16>| {
                units::from_units(units).map(Cow::Owned).ok_or_else(|| SqlError::not_supported(units::RESERVED))
            };
            return Ok((part(&mut units::units(text).take(units))?, part(&mut units::units(text).skip(units))?));
        }
    }
    whole((text, ""))
}

/// The text of a value, before it is cut to the length of `to`; for `char` and `varchar`, in their code page.
pub(super) fn to_text(value: &Value, from: SqlType, to: SqlType, style: Option<i32>) -> SqlResult<Arc<str>> {
    let text = match value {
        Value::String(text) => Arc::clone(text),
        Value::Bit(v) => Arc::from(if *v { "1" } else { "0" }),
        Value::TinyInt(_) | Value::SmallInt(_) | Value::Int(_) | Value::BigInt(_) => {
            Arc::from(value.as_i64().unwrap_or(0).to_string())
        }
        Value::Decimal(v) => Arc::from(v.to_string()),
        Value::Real(v) => Arc::from(format_float(f64::from(*v), style)?),
        Value::Float(v) => Arc::from(format_float(*v, style)?),
        Value::Bytes(bytes) => Arc::from(bytes_to_text(bytes, to, style)?),
        Value::Date(day) => Arc::from(datetime_text::format(from, *day, 0, 0, style)?),
        Value::Time(ticks) => Arc::from(datetime_text::format(from, DAY_1900, *ticks, 0, style)?),
        Value::DateTime(day, ticks) => Arc::from(datetime_text::format(from, *day, *ticks, 0, style)?),
        Value::DateTimeOffset(day, ticks, offset) => {
            let (day, ticks) = local_time(*day, *ticks, *offset)?;
            Arc::from(datetime_text::format(from, day, ticks, *offset, style)?)
        }
        Value::Uuid(id) => Arc::from(&*id.hyphenated().encode_upper(&mut Uuid::encode_buffer())),
        Value::Null | Value::Variant(_) => return Err(not_supported(from, to)),
    };
    if to.is_unicode() {
        return Ok(text);
    }
    Ok(codepage::to_varchar(&text).map_or(text, Arc::from))
}

/// Cuts or fills up a text to the declared length.
pub(super) fn fit_text(text: Arc<str>, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let Some(limit) = to.length().and_then(Length::limit) else {
        return Ok(Value::String(text));
    };
    let length = utf16_length(&text);
    if length > limit {
        // "Truncating and rounding results": a number is not cut; SQL Server answers `*` or an error.
        if is_uncut(from) {
            return Err(SqlError::not_supported(format!("{from} as {to}, which is too short")));
        }
        let (kept, _) = split_units(&text, limit)?;
        return Ok(Value::String(Arc::from(kept)));
    }
    Ok(Value::String(match to {
        SqlType::Char(_) | SqlType::NChar(_) if length < limit => {
            Arc::from(format!("{text}{}", " ".repeat(limit - length)))
        }
        _ => text,
    }))
}

/// Types whose text cannot be cut.
pub(super) fn is_uncut(ty: SqlType) -> bool {
    matches!(group(ty), Group::Integer | Group::Decimal | Group::Float | Group::Uuid)
}

/// "float and real styles", 3: "always 17 digits", with an exponent.
fn format_float(value: f64, style: Option<i32>) -> SqlResult<String> {
    if style != Some(3) {
        return Err(SqlError::not_supported(format!("style {} of float and real as text", style.unwrap_or(0))));
    }
    let scientific = format!("{value:.16e}");
    let (significand, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    Ok(format!("{significand}e{sign}{digits:0>3}"))
}

fn bytes_to_text(bytes: &[u8], to: SqlType, style: Option<i32>) -> SqlResult<String> {
    match style.unwrap_or(0) {
        1 => return Ok(hex(bytes)),
        2 => return Ok(hex(bytes)[2..].to_string()),
        0 => {}
        other => return Err(invalid_binary_style(other)),
    }
    if !to.is_unicode() {
        return Ok(codepage::decode(bytes));
    }
    // An odd last byte is the lower half of a unit: 0x41 becomes N'A'.
    let units: Vec<u16> =
        bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])).collect();
    units::from_units(units).ok_or_else(|| SqlError::not_supported(units::RESERVED))
}
