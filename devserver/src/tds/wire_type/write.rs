//! Types and values on their way out.

use crate::tds::packet::put_utf16;
use crate::tds::wire_type::number::{
    BIG_BINARY, BIG_CHAR, BIG_VARBINARY, BIG_VARCHAR, BIT_N, DATE_N, DATETIME_N, DATETIME2_N, DATETIMEOFFSET_N,
    FLOAT_N, GUID, IMAGE, INT_N, LONGEST_LIMITED, MAX_LENGTH, NCHAR, NTEXT, NULL_LENGTH, NVARCHAR, PLP_NULL,
    ROWVERSION_USER_TYPE, TEXT, TEXT_POINTER, TEXT_TIMESTAMP, THIRD_CENTISECONDS_PER_DAY, TIME_N, VARIANT,
    VARIANT_LENGTH, decimal_type_byte,
};
use crate::tds::wire_type::variant::put_variant;
use crate::value::datetime::DAY_1900;
use crate::value::types::time_bytes;
use crate::value::{Collation, Decimal, Length, SqlType, Ticks, Value, codepage};

/// Appends the TYPE_INFO of an output parameter, or of a column of the server's collation.
pub fn put_type_info(out: &mut Vec<u8>, sql_type: SqlType) {
    put_column_type(out, sql_type, Collation::default());
}

/// Appends the TYPE_INFO of a column.
pub fn put_column_type(out: &mut Vec<u8>, sql_type: SqlType, collation: Collation) {
    let longest = sql_type.max_bytes().map_or(MAX_LENGTH, |bytes| bytes as u16);
    match sql_type {
        SqlType::Bit => out.extend_from_slice(&[BIT_N, 1]),
        SqlType::TinyInt => out.extend_from_slice(&[INT_N, 1]),
        SqlType::SmallInt => out.extend_from_slice(&[INT_N, 2]),
        SqlType::Int => out.extend_from_slice(&[INT_N, 4]),
        SqlType::BigInt => out.extend_from_slice(&[INT_N, 8]),
        SqlType::Decimal { precision, scale, name } => {
            out.extend_from_slice(&[decimal_type_byte(name), byte_count(sql_type), precision, scale]);
        }
        SqlType::Real => out.extend_from_slice(&[FLOAT_N, 4]),
        SqlType::Float => out.extend_from_slice(&[FLOAT_N, 8]),
        SqlType::Char(_) => put_character_type(out, BIG_CHAR, longest, collation),
        SqlType::VarChar(_) => put_character_type(out, BIG_VARCHAR, longest, collation),
        SqlType::NChar(_) => put_character_type(out, NCHAR, longest, collation),
        SqlType::NVarChar(_) => put_character_type(out, NVARCHAR, longest, collation),
        SqlType::Binary(_) | SqlType::RowVersion => put_sized_type(out, BIG_BINARY, longest),
        SqlType::VarBinary(_) => put_sized_type(out, BIG_VARBINARY, longest),
        SqlType::Date => out.push(DATE_N),
        SqlType::Time(scale) => out.extend_from_slice(&[TIME_N, scale]),
        SqlType::DateTime => out.extend_from_slice(&[DATETIME_N, 8]),
        SqlType::DateTime2(scale) => out.extend_from_slice(&[DATETIME2_N, scale]),
        SqlType::DateTimeOffset(scale) => out.extend_from_slice(&[DATETIMEOFFSET_N, scale]),
        SqlType::UniqueIdentifier => out.extend_from_slice(&[GUID, 16]),
        SqlType::Text => put_large_type(out, TEXT, i32::MAX, Some(collation)),
        SqlType::NText => put_large_type(out, NTEXT, i32::MAX - 1, Some(collation)),
        SqlType::Image => put_large_type(out, IMAGE, i32::MAX, None),
        SqlType::Variant => {
            out.push(VARIANT);
            out.extend_from_slice(&VARIANT_LENGTH.to_le_bytes());
        }
    }
}

/// The user type that goes with a column's TYPE_INFO.
pub fn user_type(sql_type: SqlType) -> u32 {
    if sql_type == SqlType::RowVersion { ROWVERSION_USER_TYPE } else { 0 }
}

fn put_sized_type(out: &mut Vec<u8>, type_byte: u8, length: u16) {
    out.push(type_byte);
    out.extend_from_slice(&length.to_le_bytes());
}

fn put_character_type(out: &mut Vec<u8>, type_byte: u8, length: u16, collation: Collation) {
    put_sized_type(out, type_byte, length);
    out.extend_from_slice(&collation.tds_bytes());
}

fn put_large_type(out: &mut Vec<u8>, type_byte: u8, longest: i32, collation: Option<Collation>) {
    out.push(type_byte);
    out.extend_from_slice(&longest.to_le_bytes());
    if let Some(collation) = collation {
        out.extend_from_slice(&collation.tds_bytes());
    }
}

/// The bytes of each value of a type; of a decimal with its sign.
fn byte_count(sql_type: SqlType) -> u8 {
    let bytes = sql_type.max_bytes().and_then(|bytes| u8::try_from(bytes).ok());
    bytes.expect("only types of a fixed length have one")
}

/// Appends a value of a column whose TYPE_INFO was written by [`put_type_info`]. The value is of the column's type
/// already; one that is not would be the executor's mistake and goes out as NULL.
pub fn put_value(out: &mut Vec<u8>, sql_type: SqlType, value: &Value) {
    match (sql_type, value) {
        (SqlType::Bit, Value::Bit(value)) => out.extend_from_slice(&[1, u8::from(*value)]),
        (SqlType::TinyInt, Value::TinyInt(value)) => out.extend_from_slice(&[1, *value]),
        (SqlType::SmallInt, Value::SmallInt(value)) => put_short(out, &value.to_le_bytes()),
        (SqlType::Int, Value::Int(value)) => put_short(out, &value.to_le_bytes()),
        (SqlType::BigInt, Value::BigInt(value)) => put_short(out, &value.to_le_bytes()),
        (SqlType::Real, Value::Real(value)) => put_short(out, &value.to_le_bytes()),
        (SqlType::Float, Value::Float(value)) => put_short(out, &value.to_le_bytes()),
        (SqlType::Decimal { .. }, Value::Decimal(value)) => put_decimal(out, byte_count(sql_type), value),
        (SqlType::UniqueIdentifier, Value::Uuid(value)) => put_short(out, &value.to_bytes_le()),
        (SqlType::Date, Value::Date(day)) => put_short(out, &day.to_le_bytes()[..3]),
        (SqlType::Time(scale), Value::Time(ticks)) => {
            out.push(byte_count(sql_type));
            put_time(out, scale, *ticks);
        }
        (SqlType::DateTime, Value::DateTime(day, ticks)) => put_datetime(out, *day, *ticks),
        (SqlType::DateTime2(scale), Value::DateTime(day, ticks)) => {
            out.push(byte_count(sql_type));
            put_time(out, scale, *ticks);
            out.extend_from_slice(&day.to_le_bytes()[..3]);
        }
        (SqlType::DateTimeOffset(scale), Value::DateTimeOffset(day, ticks, offset)) => {
            out.push(byte_count(sql_type));
            put_time(out, scale, *ticks);
            out.extend_from_slice(&day.to_le_bytes()[..3]);
            out.extend_from_slice(&offset.to_le_bytes());
        }
        (SqlType::Char(_) | SqlType::VarChar(Length::Limit(_)), Value::String(text)) => {
            put_limited(out, |out| put_code_page(out, text));
        }
        (SqlType::NChar(_) | SqlType::NVarChar(Length::Limit(_)), Value::String(text)) => {
            put_limited(out, |out| {
                put_utf16(out, text);
            });
        }
        (SqlType::Binary(_) | SqlType::VarBinary(Length::Limit(_)) | SqlType::RowVersion, Value::Bytes(bytes)) => {
            put_limited(out, |out| out.extend_from_slice(bytes));
        }
        (SqlType::VarChar(Length::Max), Value::String(text)) => put_partial(out, |out| put_code_page(out, text)),
        (SqlType::NVarChar(Length::Max), Value::String(text)) => put_partial(out, |out| {
            put_utf16(out, text);
        }),
        (SqlType::VarBinary(Length::Max), Value::Bytes(bytes)) => {
            put_partial(out, |out| out.extend_from_slice(bytes));
        }
        (SqlType::Text, Value::String(text)) => put_large(out, |out| put_code_page(out, text)),
        (SqlType::NText, Value::String(text)) => put_large(out, |out| {
            put_utf16(out, text);
        }),
        (SqlType::Image, Value::Bytes(bytes)) => put_large(out, |out| out.extend_from_slice(bytes)),
        (SqlType::Variant, Value::Variant(variant)) => put_variant(out, variant),
        _ => {
            debug_assert!(matches!(value, Value::Null), "{value:?} is not a value of {sql_type:?}");
            put_null(out, sql_type);
        }
    }
}

fn put_null(out: &mut Vec<u8>, sql_type: SqlType) {
    match sql_type {
        SqlType::VarChar(Length::Max) | SqlType::NVarChar(Length::Max) | SqlType::VarBinary(Length::Max) => {
            out.extend_from_slice(&PLP_NULL.to_le_bytes());
        }
        SqlType::Char(_)
        | SqlType::VarChar(_)
        | SqlType::NChar(_)
        | SqlType::NVarChar(_)
        | SqlType::Binary(_)
        | SqlType::VarBinary(_)
        | SqlType::RowVersion => out.extend_from_slice(&NULL_LENGTH.to_le_bytes()),
        SqlType::Variant => out.extend_from_slice(&0_u32.to_le_bytes()),
        _ => out.push(0),
    }
}

fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(u8::try_from(bytes.len()).expect("fixed-length values have at most 17 bytes"));
    out.extend_from_slice(bytes);
}

/// A value with two bytes of length in front, filled in afterwards.
fn put_limited(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let length_at = out.len();
    out.extend_from_slice(&[0, 0]);
    put(out);
    let start = length_at + 2;
    // A longer value would put client and server out of step; the column's declared length keeps it from happening.
    out.truncate(start + usize::from(LONGEST_LIMITED));
    let length = u16::try_from(out.len() - start).expect("cut at 8000 just before");
    out[length_at..start].copy_from_slice(&length.to_le_bytes());
}

/// A `(max)` value in one chunk: total length, the chunk with its own length unless it is empty, terminator.
fn put_partial(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let total_at = out.len();
    out.extend_from_slice(&[0; 8 + 4]);
    let start = out.len();
    put(out);
    let length = u32::try_from(out.len() - start).expect("a (max) value has less than 2 GB");
    out[total_at..total_at + 8].copy_from_slice(&u64::from(length).to_le_bytes());
    // Of an empty value the chunk's length is the terminator itself.
    out[total_at + 8..start].copy_from_slice(&length.to_le_bytes());
    if length > 0 {
        out.extend_from_slice(&0_u32.to_le_bytes());
    }
}

/// A value of `text`, `ntext` or `image`: a text pointer, a timestamp, four bytes of length.
fn put_large(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    out.push(TEXT_POINTER.len() as u8);
    out.extend_from_slice(TEXT_POINTER);
    out.extend_from_slice(TEXT_TIMESTAMP);
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out);
    let length = u32::try_from(out.len() - length_at - 4).expect("a value has less than 2 GB");
    out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
}

fn put_code_page(out: &mut Vec<u8>, text: &str) {
    if text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend_from_slice(&codepage::encode(text));
    }
}

fn put_decimal(out: &mut Vec<u8>, length: u8, value: &Decimal) {
    let sign = u8::from(value.mantissa >= 0);
    let magnitude = value.mantissa.unsigned_abs().to_le_bytes();
    out.extend_from_slice(&[length, sign]);
    out.extend_from_slice(&magnitude[..usize::from(length) - 1]);
}

/// How many ticks of 100 ns one unit of a scale has.
pub(super) fn ticks_per_unit(scale: u8) -> u64 {
    10_u64.pow(7 - u32::from(scale.min(7)))
}

fn put_time(out: &mut Vec<u8>, scale: u8, ticks: Ticks) {
    let units = ticks / ticks_per_unit(scale);
    out.extend_from_slice(&units.to_le_bytes()[..time_bytes(scale)]);
}

fn put_datetime(out: &mut Vec<u8>, day: u32, ticks: Ticks) {
    let days_from_1900 = i32::try_from(i64::from(day) - i64::from(DAY_1900)).unwrap_or(0);
    // One three-hundredth of a second is 100,000 / 3 ticks; rounded, as the value came from one.
    let time = u32::try_from((ticks * 3 + 50_000) / 100_000).unwrap_or(0).min(THIRD_CENTISECONDS_PER_DAY - 1);
    out.push(8);
    out.extend_from_slice(&days_from_1900.to_le_bytes());
    out.extend_from_slice(&time.to_le_bytes());
}
