//! To `bit`, the integers, `decimal`, `real` and `float`.

use crate::error::{SqlError, SqlResult};
use crate::value::convert::error::{not_convertible, not_supported, overflow, too_large};
use crate::value::decimal::Decimal;
use crate::value::types::SqlType;
use crate::value::values::Value;

pub(super) fn to_bit(value: &Value, from: SqlType) -> SqlResult<Value> {
    let bit = match value {
        Value::Bit(v) => *v,
        Value::TinyInt(_) | Value::SmallInt(_) | Value::Int(_) | Value::BigInt(_) => value.as_i64() != Some(0),
        _ => return Err(not_supported(from, SqlType::Bit)),
    };
    Ok(Value::Bit(bit))
}

pub(super) fn to_integer(value: &Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let wide = match value {
        Value::Decimal(v) => v.trunc(),
        // Casting saturates, and every saturated value is out of range for every integer type.
        Value::Real(v) => f64::from(*v).trunc() as i128,
        Value::Float(v) => v.trunc() as i128,
        Value::String(text) => {
            let text = text.trim_matches(' ');
            let number = parse_integer(text).ok_or_else(|| not_convertible(from, text, to))?;
            return integer_value(number, to).ok_or_else(|| too_large(from, to));
        }
        Value::Bytes(bytes) => bytes_to_integer(bytes, to),
        _ => match value.as_i64() {
            Some(number) => i128::from(number),
            None => return Err(not_supported(from, to)),
        },
    };
    integer_value(wide, to).ok_or_else(|| {
        let is_small_source = matches!(from, SqlType::SmallInt | SqlType::Int | SqlType::TinyInt);
        let name = to.name();
        if is_small_source {
            return SqlError::new(220, format!("Arithmetic overflow error for data type {name}, value = {wide}."));
        }
        match from {
            SqlType::Real | SqlType::Float => too_large(from, to),
            SqlType::Decimal { .. } => overflow(from.message_name(), to),
            _ => overflow("expression", to),
        }
    })
}

/// An integer in its type, if it fits.
pub(in crate::value) fn integer_value(number: i128, to: SqlType) -> Option<Value> {
    match to {
        SqlType::TinyInt => u8::try_from(number).ok().map(Value::TinyInt),
        SqlType::SmallInt => i16::try_from(number).ok().map(Value::SmallInt),
        SqlType::Int => i32::try_from(number).ok().map(Value::Int),
        SqlType::BigInt => i64::try_from(number).ok().map(Value::BigInt),
        _ => None,
    }
}

/// The last bytes, filled up in front: binary numbers are written with the highest byte first.
fn bytes_to_integer(bytes: &[u8], to: SqlType) -> i128 {
    let width = to.max_bytes().expect("integers have a size");
    let used = &bytes[bytes.len().saturating_sub(width)..];
    let unsigned = used.iter().fold(0i128, |sum, &byte| sum << 8 | i128::from(byte));
    let bits = 8 * width;
    let is_negative = to != SqlType::TinyInt && unsigned >> (bits - 1) & 1 == 1;
    if is_negative { unsigned - (1 << bits) } else { unsigned }
}

/// An empty text is 0. A lone sign, which SQL Server takes for 0 too, is refused here.
fn parse_integer(text: &str) -> Option<i128> {
    if text.is_empty() {
        return Some(0);
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    // Saturated, it is out of range for every type.
    is_number.then(|| text.parse().unwrap_or(i128::MAX))
}

pub(super) fn to_decimal(value: &Value, from: SqlType, precision: u8, scale: u8) -> SqlResult<Value> {
    let to = SqlType::decimal(precision, scale);
    let decimal = match value {
        Value::Decimal(v) => v.resize(precision, scale),
        _ => match value.as_i64() {
            Some(number) => Decimal { mantissa: i128::from(number), precision: 19, scale: 0 }.resize(precision, scale),
            None => return Err(not_supported(from, to)),
        },
    };
    match decimal {
        Some(decimal) => Ok(Value::Decimal(Box::new(decimal))),
        None => Err(overflow(from.message_name(), to)),
    }
}

pub(super) fn to_float(value: &Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let float = match value {
        Value::Real(v) => f64::from(*v),
        Value::Float(v) => *v,
        Value::Decimal(v) => v.to_f64(),
        _ => match value.as_i64() {
            Some(number) => number as f64,
            None => return Err(not_supported(from, to)),
        },
    };
    float_value(float, to).ok_or_else(|| too_large(from, to))
}

/// A finite number as `real` or `float`.
pub(in crate::value) fn float_value(float: f64, to: SqlType) -> Option<Value> {
    if to == SqlType::Real {
        let real = float as f32;
        return real.is_finite().then_some(Value::Real(real));
    }
    float.is_finite().then_some(Value::Float(float))
}
