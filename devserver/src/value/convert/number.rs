//! To `bit`, the integers, `decimal`, `real` and `float`.

use crate::error::{SqlError, SqlResult};
use crate::value::convert::error::{error_converting, not_convertible, not_supported, overflow, text_integer_overflow};
use crate::value::datetime::{DAY_1900, TICKS_PER_DAY, three_hundredths_from_ticks};
use crate::value::decimal::{Decimal, ParseDecimalError};
use crate::value::types::SqlType;
use crate::value::values::Value;

pub(super) fn to_bit(value: &Value, from: SqlType) -> SqlResult<Value> {
    let bit = match value {
        Value::Bit(v) => *v,
        Value::TinyInt(_) | Value::SmallInt(_) | Value::Int(_) | Value::BigInt(_) => value.as_i64() != Some(0),
        Value::Decimal(v) => v.mantissa != 0,
        Value::Real(v) => *v != 0.0,
        Value::Float(v) => *v != 0.0,
        Value::String(text) => {
            let text = text.trim_matches(' ');
            match parse_integer(text) {
                Ok(number) => number != 0,
                Err(_) if text.eq_ignore_ascii_case("true") => true,
                Err(_) if text.eq_ignore_ascii_case("false") => false,
                Err(_) => return Err(not_convertible(from, text, SqlType::Bit)),
            }
        }
        Value::Bytes(bytes) if bytes.len() == 1 => bytes[0] != 0,
        _ => return Err(not_supported(from, SqlType::Bit)),
    };
    Ok(Value::Bit(bit))
}

pub(super) fn to_integer(value: &Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let wide = match value {
        Value::Decimal(v) => v.trunc(),
        Value::Real(v) => float_to_integer(f64::from(*v), from, to)?,
        Value::Float(v) => float_to_integer(*v, from, to)?,
        Value::String(text) => {
            let text = text.trim_matches(' ');
            let number = match parse_integer(text) {
                Ok(number) => number,
                Err(IntegerText::Malformed) => return Err(not_convertible(from, text, to)),
                Err(IntegerText::Overflow) => return Err(text_integer_overflow(from, text, to)),
            };
            return integer_value(number, to).ok_or_else(|| text_integer_overflow(from, text, to));
        }
        Value::Bytes(bytes) => bytes_to_integer(bytes, to),
        Value::DateTime(day, ticks) if from == SqlType::DateTime => {
            // Days since 1900, rounded ("datetime to int" in the table of truncation and rounding).
            let half_day_passed = *ticks >= TICKS_PER_DAY / 2;
            i128::from(*day) - i128::from(DAY_1900) + i128::from(half_day_passed)
        }
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

fn float_to_integer(value: f64, from: SqlType, to: SqlType) -> SqlResult<i128> {
    // Casting saturates, and every saturated value is out of range for every integer type.
    let truncated = value.trunc() as i128;
    if to != SqlType::BigInt && integer_value(truncated, to).is_none() {
        let name = to.name();
        return Err(SqlError::new(232, format!("Arithmetic overflow error for type {name}, value = {value:.6}.")));
    }
    if integer_value(truncated, to).is_none() {
        return Err(overflow(from.message_name(), to));
    }
    Ok(truncated)
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

enum IntegerText {
    Malformed,
    Overflow,
}

/// An empty text is 0. A lone sign, which SQL Server takes for 0 too, is refused here.
fn parse_integer(text: &str) -> Result<i128, IntegerText> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(IntegerText::Malformed);
    }
    text.parse().map_err(|_| IntegerText::Overflow)
}

pub(super) fn to_decimal(value: &Value, from: SqlType, precision: u8, scale: u8) -> SqlResult<Value> {
    let to = SqlType::decimal(precision, scale);
    let decimal = match value {
        Value::Decimal(v) => v.resize(precision, scale),
        Value::Real(v) => Decimal::from_f64(f64::from(*v), precision, scale),
        Value::Float(v) => Decimal::from_f64(*v, precision, scale),
        Value::String(text) => match Decimal::parse(text, precision, scale) {
            Ok(decimal) => Some(decimal),
            Err(ParseDecimalError::Overflow) => None,
            Err(ParseDecimalError::Malformed) => return Err(error_converting(from, to)),
        },
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
        Value::String(text) => parse_float(text).ok_or_else(|| error_converting(from, to))?,
        Value::DateTime(day, ticks) if from == SqlType::DateTime => {
            let days = f64::from(*day) - f64::from(DAY_1900);
            days + three_hundredths_from_ticks(*ticks) as f64 / (300.0 * 86_400.0)
        }
        _ => match value.as_i64() {
            Some(number) => number as f64,
            None => return Err(not_supported(from, to)),
        },
    };
    float_value(float, to).ok_or_else(|| match to {
        SqlType::Real if float.is_finite() => {
            SqlError::new(232, format!("Arithmetic overflow error for type real, value = {float:.6}."))
        }
        _ => overflow(from.message_name(), to),
    })
}

/// A finite number as `real` or `float`.
pub(in crate::value) fn float_value(float: f64, to: SqlType) -> Option<Value> {
    if to == SqlType::Real {
        let real = float as f32;
        return real.is_finite().then_some(Value::Real(real));
    }
    float.is_finite().then_some(Value::Float(float))
}

fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(' ');
    if text.is_empty() {
        return Some(0.0);
    }
    // Rust would also read "inf" and "nan".
    let only_number_characters =
        text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    if only_number_characters { text.parse().ok() } else { None }
}
