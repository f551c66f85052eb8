//! [`SqlType`] and [`Value`] as TDS carries them: TYPE_INFO and the bytes of a value, in both directions.
//!
//! Results go out by [`put_type_info`] and [`put_value`]; parameters come in by [`read_type_info`] and [`read_value`].
//! Outgoing columns always use the nullable form of their type (INTN instead of INT4 and so on), so that a NULL can
//! never be unsendable. Source: MS-TDS, "2.2.5.4 Data Type Definitions" and "2.2.5.5 Data Type Dependent Data Streams".

use std::sync::Arc;

use uuid::Uuid;

use super::packet::{PayloadReader, ReadError, decode_utf16, put_utf16};
use crate::value::convert::variant_base;
use crate::value::datetime::{DAY_1900, TICKS_PER_DAY};
use crate::value::{Collation, Decimal, Length, SqlType, Ticks, Value, codepage};

const NULL_TYPE: u8 = 0x1F;
const IMAGE: u8 = 0x22;
const TEXT: u8 = 0x23;
const NTEXT: u8 = 0x63;
const INT1: u8 = 0x30;
const BIT: u8 = 0x32;
const INT2: u8 = 0x34;
const INT4: u8 = 0x38;
const DATETIME: u8 = 0x3D;
const FLOAT4: u8 = 0x3B;
const FLOAT8: u8 = 0x3E;
const INT8: u8 = 0x7F;
const GUID: u8 = 0x24;
const INT_N: u8 = 0x26;
const DATE_N: u8 = 0x28;
const TIME_N: u8 = 0x29;
const DATETIME2_N: u8 = 0x2A;
const DATETIMEOFFSET_N: u8 = 0x2B;
const BIT_N: u8 = 0x68;
const DECIMAL_N: u8 = 0x6A;
const NUMERIC_N: u8 = 0x6C;
const FLOAT_N: u8 = 0x6D;
const VARIANT: u8 = 0x62;
const DATETIME_N: u8 = 0x6F;
const BIG_VARBINARY: u8 = 0xA5;
const BIG_VARCHAR: u8 = 0xA7;
const BIG_BINARY: u8 = 0xAD;
const BIG_CHAR: u8 = 0xAF;
const NVARCHAR: u8 = 0xE7;
const NCHAR: u8 = 0xEF;

/// The type byte of a table-valued parameter.
pub const TABLE_TYPE: u8 = 0xF3;

/// The declared length that means `(max)`.
const MAX_LENGTH: u16 = 0xFFFF;

/// The longest value of a type that is not `(max)`, in bytes.
const LONGEST_LIMITED: u16 = 8000;

/// The longest `sql_variant`: 8,000 bytes, and what they are.
const VARIANT_LENGTH: u32 = 8_009;

/// The length of a NULL among values with two bytes of length.
const NULL_LENGTH: u16 = 0xFFFF;

/// The total length of a partially length-prefixed value: NULL, and unknown until its last chunk.
const PLP_NULL: u64 = u64::MAX;
const PLP_UNKNOWN_LENGTH: u64 = u64::MAX - 1;

/// 9999-12-31.
const LAST_DAY: u32 = 3_652_058;

/// 1753-01-01, the first day of `datetime`.
const FIRST_DATETIME_DAY: u32 = 639_905;

/// `datetime` counts three-hundredths of a second.
const THIRD_CENTISECONDS_PER_DAY: u32 = 25_920_000;

/// The user type (alias) of `rowversion` among the 8-byte binaries: 80, as sys.types lists it.
const ROWVERSION_USER_TYPE: u32 = 80;

/// How a value's length is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// No bytes at all; always NULL.
    Nothing,
    /// No length: so many bytes.
    Fixed(usize),
    /// One byte of length, 0 is NULL.
    ShortLength,
    /// Two bytes of length, 0xFFFF is NULL.
    LongLength,
    /// Four bytes of length, 0xFFFFFFFF is NULL: `text`, `ntext` and `image`.
    VeryLongLength,
    /// Chunks: `(max)` types.
    Partial,
}

/// The type of an incoming value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireType {
    /// What the values are.
    pub sql_type: SqlType,
    type_byte: u8,
    form: Form,
    /// Of `char` and `varchar`: whether bytes above 0x7F are understood.
    code_page: CodePage,
}

impl WireType {
    /// NULLTYPE, by which drivers send a NULL they know no type of.
    pub fn is_untyped_null(&self) -> bool {
        self.type_byte == NULL_TYPE
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CodePage {
    Windows1252,
    Utf8,
    /// Only the characters that all code pages share can be read.
    Other,
}

impl CodePage {
    /// From the five bytes of COLLATION: 20 bits of locale, 8 of flags (of which one is UTF-8), 4 of version, then the
    /// sort order's number.
    fn of_collation(collation: [u8; 5]) -> CodePage {
        const UTF8_FLAG: u32 = 1 << 26;
        let [a, b, c, d, sort_id] = collation;
        let bits = u32::from_le_bytes([a, b, c, d]);
        let locale = bits & 0x000F_FFFF;
        if bits & UTF8_FLAG != 0 {
            return CodePage::Utf8;
        }
        // Locale 0x409 is English (United States). Zeros stand for the server's own collation.
        let is_default_sort = sort_id == 0 || sort_id == Collation::default().tds_bytes()[4];
        if is_default_sort && (locale == 0x409 || locale == 0) { CodePage::Windows1252 } else { CodePage::Other }
    }
}

/// Appends the TYPE_INFO of a column or an output parameter.
pub fn put_type_info(out: &mut Vec<u8>, sql_type: SqlType) {
    match sql_type {
        SqlType::Bit => out.extend_from_slice(&[BIT_N, 1]),
        SqlType::TinyInt => out.extend_from_slice(&[INT_N, 1]),
        SqlType::SmallInt => out.extend_from_slice(&[INT_N, 2]),
        SqlType::Int => out.extend_from_slice(&[INT_N, 4]),
        SqlType::BigInt => out.extend_from_slice(&[INT_N, 8]),
        SqlType::Decimal { precision, scale } => {
            out.extend_from_slice(&[DECIMAL_N, decimal_length(precision), precision, scale]);
        }
        SqlType::Real => out.extend_from_slice(&[FLOAT_N, 4]),
        SqlType::Float => out.extend_from_slice(&[FLOAT_N, 8]),
        SqlType::Char(length) => put_character_type(out, BIG_CHAR, length),
        SqlType::VarChar(length) => put_character_type(out, BIG_VARCHAR, byte_length(length, 1)),
        SqlType::NChar(length) => put_character_type(out, NCHAR, length.saturating_mul(2)),
        SqlType::NVarChar(length) => put_character_type(out, NVARCHAR, byte_length(length, 2)),
        SqlType::Binary(length) => put_sized_type(out, BIG_BINARY, length),
        SqlType::VarBinary(length) => put_sized_type(out, BIG_VARBINARY, byte_length(length, 1)),
        SqlType::RowVersion => put_sized_type(out, BIG_BINARY, 8),
        SqlType::Date => out.push(DATE_N),
        SqlType::Time(scale) => out.extend_from_slice(&[TIME_N, scale]),
        SqlType::DateTime => out.extend_from_slice(&[DATETIME_N, 8]),
        SqlType::DateTime2(scale) => out.extend_from_slice(&[DATETIME2_N, scale]),
        SqlType::DateTimeOffset(scale) => out.extend_from_slice(&[DATETIMEOFFSET_N, scale]),
        SqlType::UniqueIdentifier => out.extend_from_slice(&[GUID, 16]),
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

fn put_character_type(out: &mut Vec<u8>, type_byte: u8, length: u16) {
    put_sized_type(out, type_byte, length);
    out.extend_from_slice(&Collation::default().tds_bytes());
}

fn byte_length(length: Length, bytes_per_unit: u16) -> u16 {
    match length {
        Length::Limit(units) => units.saturating_mul(bytes_per_unit),
        Length::Max => MAX_LENGTH,
    }
}

/// The storage of a decimal, its sign byte included (decimal and numeric, "Precision" table of MicrosoftDocs/sql-docs).
fn decimal_length(precision: u8) -> u8 {
    match precision {
        0..=9 => 5,
        10..=19 => 9,
        20..=28 => 13,
        _ => 17,
    }
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
        (SqlType::Decimal { precision, .. }, Value::Decimal(value)) => put_decimal(out, precision, value),
        (SqlType::UniqueIdentifier, Value::Uuid(value)) => put_short(out, &value.to_bytes_le()),
        (SqlType::Date, Value::Date(day)) => put_short(out, &day.to_le_bytes()[..3]),
        (SqlType::Time(scale), Value::Time(ticks)) => {
            out.push(time_length(scale));
            put_time(out, scale, *ticks);
        }
        (SqlType::DateTime, Value::DateTime(day, ticks)) => put_datetime(out, *day, *ticks),
        (SqlType::DateTime2(scale), Value::DateTime(day, ticks)) => {
            out.push(time_length(scale) + 3);
            put_time(out, scale, *ticks);
            out.extend_from_slice(&day.to_le_bytes()[..3]);
        }
        (SqlType::DateTimeOffset(scale), Value::DateTimeOffset(day, ticks, offset)) => {
            out.push(time_length(scale) + 5);
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
        (SqlType::Variant, value) if variant_base(value).is_some() => put_variant(out, value),
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

/// A `sql_variant`: four bytes of length, the base type with its properties, and the value without any length.
///
/// Source: MS-TDS, "2.2.5.5.4 sql_variant Values".
fn put_variant(out: &mut Vec<u8>, value: &Value) {
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    match value {
        Value::Bit(value) => out.extend_from_slice(&[BIT, 0, u8::from(*value)]),
        Value::TinyInt(value) => out.extend_from_slice(&[INT1, 0, *value]),
        Value::SmallInt(value) => put_variant_base(out, INT2, &value.to_le_bytes()),
        Value::Int(value) => put_variant_base(out, INT4, &value.to_le_bytes()),
        Value::BigInt(value) => put_variant_base(out, INT8, &value.to_le_bytes()),
        Value::Float(value) => put_variant_base(out, FLOAT8, &value.to_le_bytes()),
        Value::Uuid(value) => put_variant_base(out, GUID, &value.to_bytes_le()),
        Value::String(text) => {
            const PROPERTY_BYTES: u8 = 7;
            out.extend_from_slice(&[NVARCHAR, PROPERTY_BYTES]);
            out.extend_from_slice(&Collation::default().tds_bytes());
            out.extend_from_slice(&LONGEST_LIMITED.to_le_bytes());
            put_utf16(out, text);
        }
        other => unreachable!("{other:?} has no base type of a sql_variant"),
    }
    let start = length_at + 4;
    let length = u32::try_from(out.len() - start).expect("text in a sql_variant has at most 4,000 characters");
    out[length_at..start].copy_from_slice(&length.to_le_bytes());
}

fn put_variant_base(out: &mut Vec<u8>, type_byte: u8, bytes: &[u8]) {
    out.extend_from_slice(&[type_byte, 0]);
    out.extend_from_slice(bytes);
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

fn put_code_page(out: &mut Vec<u8>, text: &str) {
    if text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend_from_slice(&codepage::encode(text));
    }
}

fn put_decimal(out: &mut Vec<u8>, precision: u8, value: &Decimal) {
    let length = decimal_length(precision);
    let sign = u8::from(value.mantissa >= 0);
    let magnitude = value.mantissa.unsigned_abs().to_le_bytes();
    out.extend_from_slice(&[length, sign]);
    out.extend_from_slice(&magnitude[..usize::from(length) - 1]);
}

/// The bytes of a time of day at a scale.
fn time_length(scale: u8) -> u8 {
    match scale {
        0..=2 => 3,
        3..=4 => 4,
        _ => 5,
    }
}

/// How many ticks of 100 ns one unit of a scale has.
fn ticks_per_unit(scale: u8) -> u64 {
    10_u64.pow(7 - u32::from(scale.min(7)))
}

fn put_time(out: &mut Vec<u8>, scale: u8, ticks: Ticks) {
    let units = ticks / ticks_per_unit(scale);
    out.extend_from_slice(&units.to_le_bytes()[..usize::from(time_length(scale))]);
}

fn put_datetime(out: &mut Vec<u8>, day: u32, ticks: Ticks) {
    let days_from_1900 = i32::try_from(i64::from(day) - i64::from(DAY_1900)).unwrap_or(0);
    // One three-hundredth of a second is 100,000 / 3 ticks; rounded, as the value came from one.
    let time = u32::try_from((ticks * 3 + 50_000) / 100_000).unwrap_or(0).min(THIRD_CENTISECONDS_PER_DAY - 1);
    out.push(8);
    out.extend_from_slice(&days_from_1900.to_le_bytes());
    out.extend_from_slice(&time.to_le_bytes());
}

/// Reads the TYPE_INFO of a parameter or of a table-valued parameter's column, the type byte included.
pub fn read_type_info(reader: &mut PayloadReader<'_>) -> Result<WireType, ReadError> {
    let type_byte = reader.u8()?;
    let simple = |sql_type, form| Ok(WireType { sql_type, type_byte, form, code_page: CodePage::Windows1252 });
    match type_byte {
        // SQL Server, too, takes an untyped NULL for an int.
        NULL_TYPE => simple(SqlType::Int, Form::Nothing),
        INT1 => simple(SqlType::TinyInt, Form::Fixed(1)),
        BIT => simple(SqlType::Bit, Form::Fixed(1)),
        INT2 => simple(SqlType::SmallInt, Form::Fixed(2)),
        INT4 => simple(SqlType::Int, Form::Fixed(4)),
        INT8 => simple(SqlType::BigInt, Form::Fixed(8)),
        FLOAT4 => simple(SqlType::Real, Form::Fixed(4)),
        FLOAT8 => simple(SqlType::Float, Form::Fixed(8)),
        DATETIME => simple(SqlType::DateTime, Form::Fixed(8)),
        BIT_N | INT_N | FLOAT_N | DATETIME_N | GUID => {
            let length = reader.u8()?;
            let sql_type = match (type_byte, length) {
                (BIT_N, 1) => SqlType::Bit,
                (INT_N, 1) => SqlType::TinyInt,
                (INT_N, 2) => SqlType::SmallInt,
                (INT_N, 4) => SqlType::Int,
                (INT_N, 8) => SqlType::BigInt,
                (FLOAT_N, 4) => SqlType::Real,
                (FLOAT_N, 8) => SqlType::Float,
                (DATETIME_N, 8) => SqlType::DateTime,
                (DATETIME_N, 4) => return Err(ReadError::NotSupported("the type smalldatetime".to_owned())),
                (GUID, 16) => SqlType::UniqueIdentifier,
                _ => return Err(ReadError::InvalidLength(type_byte)),
            };
            simple(sql_type, Form::ShortLength)
        }
        DECIMAL_N | NUMERIC_N => {
            let [_length, precision, scale] = reader.array()?;
            if !(1..=38).contains(&precision) || scale > precision {
                return Err(ReadError::InvalidLength(type_byte));
            }
            simple(SqlType::Decimal { precision, scale }, Form::ShortLength)
        }
        DATE_N => simple(SqlType::Date, Form::ShortLength),
        TIME_N | DATETIME2_N | DATETIMEOFFSET_N => {
            let scale = reader.u8()?;
            if scale > 7 {
                return Err(ReadError::InvalidLength(type_byte));
            }
            let sql_type = match type_byte {
                TIME_N => SqlType::Time(scale),
                DATETIME2_N => SqlType::DateTime2(scale),
                _ => SqlType::DateTimeOffset(scale),
            };
            simple(sql_type, Form::ShortLength)
        }
        BIG_VARBINARY | BIG_BINARY | BIG_VARCHAR | BIG_CHAR | NVARCHAR | NCHAR => read_sized_type(reader, type_byte),
        IMAGE | TEXT | NTEXT => {
            let _longest = reader.u32()?;
            let code_page =
                if type_byte == IMAGE { CodePage::Windows1252 } else { CodePage::of_collation(reader.array()?) };
            // What took their place ("ntext, text, and image", MicrosoftDocs/sql-docs): a parameter of an old type is
            // converted to the procedure's own type like one of the new.
            let sql_type = match type_byte {
                IMAGE => SqlType::VarBinary(Length::Max),
                TEXT => SqlType::VarChar(Length::Max),
                _ => SqlType::NVarChar(Length::Max),
            };
            Ok(WireType { sql_type, type_byte, form: Form::VeryLongLength, code_page })
        }
        0x25 | 0x27 | 0x2D | 0x2F | 0x37 | 0x3F => Err(ReadError::NotSupported("types from before TDS 7".to_owned())),
        0x3A => Err(ReadError::NotSupported("the type smalldatetime".to_owned())),
        0x3C | 0x6E | 0x7A => Err(ReadError::NotSupported("the types money and smallmoney".to_owned())),
        0x62 => Err(ReadError::NotSupported("the type sql_variant".to_owned())),
        0xF0 => Err(ReadError::NotSupported("CLR types".to_owned())),
        0xF1 => Err(ReadError::NotSupported("the type xml".to_owned())),
        TABLE_TYPE => Err(ReadError::NotSupported("a table inside a table-valued parameter".to_owned())),
        0xF4 | 0xF5 => Err(ReadError::NotSupported("the types json and vector".to_owned())),
        _ => Err(ReadError::UnknownType(type_byte)),
    }
}

fn read_sized_type(reader: &mut PayloadReader<'_>, type_byte: u8) -> Result<WireType, ReadError> {
    let length = reader.u16()?;
    let is_character = !matches!(type_byte, BIG_VARBINARY | BIG_BINARY);
    let code_page = if is_character { CodePage::of_collation(reader.array()?) } else { CodePage::Windows1252 };

    let is_unicode = matches!(type_byte, NVARCHAR | NCHAR);
    let is_varying = matches!(type_byte, BIG_VARBINARY | BIG_VARCHAR | NVARCHAR);
    let is_max = length == MAX_LENGTH && is_varying;
    if !is_max && (length > LONGEST_LIMITED || (is_unicode && length % 2 != 0)) {
        return Err(ReadError::InvalidLength(type_byte));
    }
    // Some drivers declare an empty string or a NULL with length 0; no type has that, (1) is the nearest.
    let units = if is_unicode { length / 2 } else { length }.max(1);
    let varying_length = if is_max { Length::Max } else { Length::Limit(units) };
    let sql_type = match type_byte {
        BIG_VARBINARY => SqlType::VarBinary(varying_length),
        BIG_VARCHAR => SqlType::VarChar(varying_length),
        NVARCHAR => SqlType::NVarChar(varying_length),
        BIG_BINARY => SqlType::Binary(units),
        BIG_CHAR => SqlType::Char(units),
        _ => SqlType::NChar(units),
    };
    let form = if is_max { Form::Partial } else { Form::LongLength };
    Ok(WireType { sql_type, type_byte, form, code_page })
}

/// Reads a value of a type.
pub fn read_value(reader: &mut PayloadReader<'_>, wire_type: &WireType) -> Result<Value, ReadError> {
    let type_byte = wire_type.type_byte;
    let bytes = match wire_type.form {
        Form::Nothing => return Ok(Value::Null),
        Form::Fixed(length) => reader.bytes(length)?,
        Form::ShortLength => match reader.u8()? {
            0 => return Ok(Value::Null),
            length => reader.bytes(usize::from(length))?,
        },
        Form::LongLength => match reader.u16()? {
            NULL_LENGTH => return Ok(Value::Null),
            length => reader.bytes(usize::from(length))?,
        },
        Form::VeryLongLength => match reader.u32()? {
            u32::MAX => return Ok(Value::Null),
            length => reader.bytes(usize::try_from(length).map_err(|_| ReadError::Truncated)?)?,
        },
        Form::Partial => {
            return match read_partial(reader, type_byte)? {
                None => Ok(Value::Null),
                Some(bytes) => value_of(&bytes, wire_type),
            };
        }
    };
    value_of(bytes, wire_type)
}

/// The chunks of a `(max)` value, or `None` for NULL.
fn read_partial(reader: &mut PayloadReader<'_>, type_byte: u8) -> Result<Option<Vec<u8>>, ReadError> {
    let total = reader.u64()?;
    if total == PLP_NULL {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    loop {
        let length = usize::try_from(reader.u32()?).map_err(|_| ReadError::Truncated)?;
        if length == 0 {
            break;
        }
        bytes.extend_from_slice(reader.bytes(length)?);
    }
    if total != PLP_UNKNOWN_LENGTH && total != bytes.len() as u64 {
        return Err(ReadError::InvalidLength(type_byte));
    }
    Ok(Some(bytes))
}

fn value_of(bytes: &[u8], wire_type: &WireType) -> Result<Value, ReadError> {
    let type_byte = wire_type.type_byte;
    let wrong_length = |_| ReadError::InvalidLength(type_byte);
    let value = match wire_type.sql_type {
        SqlType::Bit => Value::Bit(u8::from_le_bytes(bytes.try_into().map_err(wrong_length)?) != 0),
        SqlType::TinyInt => Value::TinyInt(u8::from_le_bytes(bytes.try_into().map_err(wrong_length)?)),
        SqlType::SmallInt => Value::SmallInt(i16::from_le_bytes(bytes.try_into().map_err(wrong_length)?)),
        SqlType::Int => Value::Int(i32::from_le_bytes(bytes.try_into().map_err(wrong_length)?)),
        SqlType::BigInt => Value::BigInt(i64::from_le_bytes(bytes.try_into().map_err(wrong_length)?)),
        SqlType::Real => {
            let value = f32::from_le_bytes(bytes.try_into().map_err(wrong_length)?);
            if !value.is_finite() {
                return Err(ReadError::InvalidValue(type_byte));
            }
            Value::Real(value)
        }
        SqlType::Float => {
            let value = f64::from_le_bytes(bytes.try_into().map_err(wrong_length)?);
            if !value.is_finite() {
                return Err(ReadError::InvalidValue(type_byte));
            }
            Value::Float(value)
        }
        SqlType::Decimal { precision, scale } => decimal_of(bytes, precision, scale, type_byte)?,
        SqlType::UniqueIdentifier => Value::Uuid(Uuid::from_bytes_le(bytes.try_into().map_err(wrong_length)?)),
        SqlType::Date => Value::Date(day_of(bytes, type_byte)?),
        SqlType::Time(scale) => Value::Time(time_of(bytes, scale, type_byte)?),
        SqlType::DateTime => {
            let bytes: [u8; 8] = bytes.try_into().map_err(wrong_length)?;
            datetime_of(bytes, type_byte)?
        }
        SqlType::DateTime2(scale) => {
            let (time, date) =
                bytes.split_at_checked(bytes.len().wrapping_sub(3)).ok_or(ReadError::InvalidLength(type_byte))?;
            Value::DateTime(day_of(date, type_byte)?, time_of(time, scale, type_byte)?)
        }
        SqlType::DateTimeOffset(scale) => {
            let (instant, offset) = bytes.split_last_chunk::<2>().ok_or(ReadError::InvalidLength(type_byte))?;
            let (time, date) =
                instant.split_at_checked(instant.len().wrapping_sub(3)).ok_or(ReadError::InvalidLength(type_byte))?;
            let offset = i16::from_le_bytes(*offset);
            // 14 hours, the widest offset of datetimeoffset.
            if !(-840..=840).contains(&offset) {
                return Err(ReadError::InvalidValue(type_byte));
            }
            Value::DateTimeOffset(day_of(date, type_byte)?, time_of(time, scale, type_byte)?, offset)
        }
        SqlType::Char(_) | SqlType::VarChar(_) => Value::String(text_of(bytes, wire_type.code_page)?.into()),
        SqlType::NChar(_) | SqlType::NVarChar(_) => {
            if !bytes.len().is_multiple_of(2) {
                return Err(ReadError::InvalidLength(type_byte));
            }
            Value::String(decode_utf16(bytes)?.into())
        }
        SqlType::Binary(_) | SqlType::VarBinary(_) | SqlType::RowVersion => Value::Bytes(Arc::from(bytes)),
        // Refused with its TYPE_INFO.
        SqlType::Variant => return Err(ReadError::InvalidValue(type_byte)),
    };
    check_declared_length(bytes.len(), wire_type)?;
    Ok(value)
}

/// A value may not be longer than its parameter was declared.
fn check_declared_length(length: usize, wire_type: &WireType) -> Result<(), ReadError> {
    let declared = match wire_type.sql_type {
        SqlType::Char(units) | SqlType::VarChar(Length::Limit(units)) => usize::from(units),
        SqlType::Binary(units) | SqlType::VarBinary(Length::Limit(units)) => usize::from(units),
        SqlType::NChar(units) | SqlType::NVarChar(Length::Limit(units)) => usize::from(units) * 2,
        _ => return Ok(()),
    };
    if length > declared {
        return Err(ReadError::InvalidLength(wire_type.type_byte));
    }
    Ok(())
}

fn text_of(bytes: &[u8], code_page: CodePage) -> Result<String, ReadError> {
    match code_page {
        CodePage::Windows1252 => Ok(codepage::decode(bytes)),
        CodePage::Utf8 => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(ReadError::NotSupported("text that is not valid UTF-8".to_owned())),
        },
        CodePage::Other if bytes.is_ascii() => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
        CodePage::Other => {
            Err(ReadError::NotSupported("char and varchar parameters of a code page other than 1252".to_owned()))
        }
    }
}

fn decimal_of(bytes: &[u8], precision: u8, scale: u8, type_byte: u8) -> Result<Value, ReadError> {
    let (sign, magnitude_bytes) = bytes.split_first().ok_or(ReadError::InvalidLength(type_byte))?;
    if !matches!(magnitude_bytes.len(), 4 | 8 | 12 | 16) {
        return Err(ReadError::InvalidLength(type_byte));
    }
    let mut magnitude = [0; 16];
    magnitude[..magnitude_bytes.len()].copy_from_slice(magnitude_bytes);
    let magnitude = i128::try_from(u128::from_le_bytes(magnitude)).map_err(|_| ReadError::InvalidValue(type_byte))?;
    if magnitude >= 10_i128.pow(u32::from(precision)) {
        return Err(ReadError::InvalidValue(type_byte));
    }
    let mantissa = if *sign == 0 { -magnitude } else { magnitude };
    Ok(Value::Decimal(Box::new(Decimal { mantissa, precision, scale })))
}

fn day_of(bytes: &[u8], type_byte: u8) -> Result<u32, ReadError> {
    let [a, b, c] = bytes.try_into().map_err(|_| ReadError::InvalidLength(type_byte))?;
    let day = u32::from_le_bytes([a, b, c, 0]);
    if day > LAST_DAY {
        return Err(ReadError::InvalidValue(type_byte));
    }
    Ok(day)
}

fn time_of(bytes: &[u8], scale: u8, type_byte: u8) -> Result<Ticks, ReadError> {
    if bytes.len() != usize::from(time_length(scale)) {
        return Err(ReadError::InvalidLength(type_byte));
    }
    let mut units = [0; 8];
    units[..bytes.len()].copy_from_slice(bytes);
    // Five bytes of units of at most a second: no overflow.
    let ticks = u64::from_le_bytes(units) * ticks_per_unit(scale);
    if ticks >= TICKS_PER_DAY {
        return Err(ReadError::InvalidValue(type_byte));
    }
    Ok(ticks)
}

fn datetime_of(bytes: [u8; 8], type_byte: u8) -> Result<Value, ReadError> {
    let [a, b, c, d, e, f, g, h] = bytes;
    let days_from_1900 = i64::from(i32::from_le_bytes([a, b, c, d]));
    let time = u32::from_le_bytes([e, f, g, h]);
    let day = u32::try_from(i64::from(DAY_1900) + days_from_1900).map_err(|_| ReadError::InvalidValue(type_byte))?;
    if !(FIRST_DATETIME_DAY..=LAST_DAY).contains(&day) || time >= THIRD_CENTISECONDS_PER_DAY {
        return Err(ReadError::InvalidValue(type_byte));
    }
    let ticks = (u64::from(time) * 100_000 + 1) / 3;
    Ok(Value::DateTime(day, ticks))
}

/// Reads a column's value as a client does: unlike a parameter it can be a `sql_variant`, which `column` is `None` for.
#[cfg(test)]
pub fn read_result(reader: &mut PayloadReader<'_>, column: Option<&WireType>) -> Result<Value, ReadError> {
    if let Some(column) = column {
        return read_value(reader, column);
    }
    let length = reader.u32()? as usize;
    if length == 0 {
        return Ok(Value::Null);
    }
    let mut body = PayloadReader::new(reader.bytes(length)?);
    let (base, properties) = (body.u8()?, body.u8()?);
    let properties = body.bytes(usize::from(properties))?;
    let value = body.bytes(body.remaining())?;
    let as_column = match base {
        NVARCHAR => {
            let (collation, limit) = properties.split_at(5);
            [&[base][..], limit, collation, &(value.len() as u16).to_le_bytes(), value].concat()
        }
        GUID => [&[base, 16, 16][..], value].concat(),
        _ => [&[base][..], value].concat(),
    };
    let mut reader = PayloadReader::new(&as_column);
    let wire_type = read_type_info(&mut reader)?;
    read_value(&mut reader, &wire_type)
}

/// Reads a column's TYPE_INFO as a client does; `None` for a `sql_variant`.
#[cfg(test)]
pub fn read_result_type(reader: &mut PayloadReader<'_>) -> Result<Option<WireType>, ReadError> {
    let mut ahead = reader.clone();
    if ahead.u8()? == VARIANT && ahead.u32()? == VARIANT_LENGTH {
        *reader = ahead;
        return Ok(None);
    }
    read_type_info(reader).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(sql_type: SqlType, value: &Value) -> (SqlType, Value) {
        let mut bytes = Vec::new();
        put_type_info(&mut bytes, sql_type);
        put_value(&mut bytes, sql_type, value);
        let mut reader = PayloadReader::new(&bytes);
        let wire_type = read_type_info(&mut reader).unwrap();
        let read = read_value(&mut reader, &wire_type).unwrap();
        assert_eq!(reader.remaining(), 0, "{sql_type:?} {value:?}");
        (wire_type.sql_type, read)
    }

    fn samples() -> Vec<(SqlType, Value)> {
        let text = |text: &str| Value::String(text.into());
        let bytes = |bytes: &[u8]| Value::Bytes(bytes.into());
        let decimal = |mantissa, precision, scale| Value::Decimal(Box::new(Decimal { mantissa, precision, scale }));
        let long_text = "ü".repeat(5000);
        vec![
            (SqlType::Bit, Value::Bit(true)),
            (SqlType::TinyInt, Value::TinyInt(255)),
            (SqlType::SmallInt, Value::SmallInt(-2)),
            (SqlType::Int, Value::Int(i32::MIN)),
            (SqlType::BigInt, Value::BigInt(i64::MAX)),
            (SqlType::Decimal { precision: 5, scale: 2 }, decimal(-12345, 5, 2)),
            (SqlType::Decimal { precision: 38, scale: 0 }, decimal(10_i128.pow(38) - 1, 38, 0)),
            (SqlType::Real, Value::Real(1.5)),
            (SqlType::Float, Value::Float(-0.1)),
            (SqlType::Char(3), text("abc")),
            (SqlType::VarChar(Length::Limit(10)), text("")),
            (SqlType::VarChar(Length::Limit(10)), text("für 5 €")),
            (SqlType::VarChar(Length::Max), text(&long_text)),
            (SqlType::NChar(4), text("😀ab")),
            (SqlType::NVarChar(Length::Limit(4000)), text("日本語")),
            (SqlType::NVarChar(Length::Max), text("")),
            (SqlType::NVarChar(Length::Max), text(&long_text)),
            (SqlType::Binary(2), bytes(&[0, 255])),
            (SqlType::VarBinary(Length::Limit(8000)), bytes(&[7; 8000])),
            (SqlType::VarBinary(Length::Max), bytes(&[])),
            (SqlType::VarBinary(Length::Max), bytes(&[7; 8001])),
            (SqlType::Date, Value::Date(LAST_DAY)),
            (SqlType::Time(0), Value::Time(10_000_000 * 86_399)),
            (SqlType::Time(7), Value::Time(TICKS_PER_DAY - 1)),
            (SqlType::DateTime, Value::DateTime(FIRST_DATETIME_DAY, 0)),
            (SqlType::DateTime, Value::DateTime(DAY_1900, 33_333)),
            (SqlType::DateTime2(3), Value::DateTime(0, 1_230_000)),
            (SqlType::DateTime2(7), Value::DateTime(LAST_DAY, TICKS_PER_DAY - 1)),
            (SqlType::DateTimeOffset(7), Value::DateTimeOffset(738_000, 1, -330)),
            (SqlType::UniqueIdentifier, Value::Uuid(Uuid::from_u128(0x0123_4567_89AB_CDEF_0123_4567_89AB_CDEF))),
        ]
    }

    #[test]
    fn values_and_types_come_back() {
        for (sql_type, value) in samples() {
            assert_eq!(round_trip(sql_type, &value), (sql_type, value));
            assert_eq!(round_trip(sql_type, &Value::Null), (sql_type, Value::Null));
        }
    }

    #[test]
    fn truncated_types_and_values_are_refused() {
        for (sql_type, value) in samples() {
            let mut bytes = Vec::new();
            put_type_info(&mut bytes, sql_type);
            put_value(&mut bytes, sql_type, &value);
            for length in (0..bytes.len().min(64)).chain([bytes.len() - 1]) {
                let mut reader = PayloadReader::new(&bytes[..length]);
                let read = read_type_info(&mut reader).and_then(|wire_type| read_value(&mut reader, &wire_type));
                assert!(read.is_err(), "{length} of {} bytes of {sql_type:?}", bytes.len());
            }
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        // Every type byte with every short length, over zeros and over ones.
        for filling in [0x00, 0x01, 0x7F, 0xFF] {
            for type_byte in 0..=255 {
                for length in 0..=255 {
                    let mut bytes = vec![type_byte, length];
                    bytes.resize(48, filling);
                    let mut reader = PayloadReader::new(&bytes);
                    if let Ok(wire_type) = read_type_info(&mut reader) {
                        let _ = read_value(&mut reader, &wire_type);
                    }
                }
            }
        }
    }

    #[test]
    fn a_rowversion_is_eight_bytes_with_its_user_type() {
        let value = Value::Bytes([0, 0, 0, 0, 0, 0, 7, 209].as_slice().into());
        assert_eq!(round_trip(SqlType::RowVersion, &value), (SqlType::Binary(8), value));
        assert_eq!(user_type(SqlType::RowVersion), 80);
    }

    #[test]
    fn announced_lengths_are_not_trusted() {
        let huge_chunk = [&0_u64.wrapping_sub(2).to_le_bytes()[..], &u32::MAX.to_le_bytes()[..], b"x"].concat();
        let wire_type = read_type_info(&mut PayloadReader::new(&[BIG_VARBINARY, 0xFF, 0xFF])).unwrap();
        assert_eq!(read_value(&mut PayloadReader::new(&huge_chunk), &wire_type), Err(ReadError::Truncated));
        let wrong_total = [&9_u64.to_le_bytes()[..], &1_u32.to_le_bytes(), b"x", &0_u32.to_le_bytes()].concat();
        let read = read_value(&mut PayloadReader::new(&wrong_total), &wire_type);
        assert_eq!(read, Err(ReadError::InvalidLength(BIG_VARBINARY)));
    }

    #[test]
    fn the_old_long_types_are_read_as_their_successors() {
        let read = |bytes: &[u8]| {
            let mut reader = PayloadReader::new(bytes);
            let wire_type = read_type_info(&mut reader).unwrap();
            (wire_type.sql_type, read_value(&mut reader, &wire_type))
        };
        let text = [&[TEXT, 10, 0, 0, 0, 9, 4, 0xD0, 0, 0x34][..], &[2, 0, 0, 0, b'a', 0x80]].concat();
        assert_eq!(read(&text), (SqlType::VarChar(Length::Max), Ok(Value::String("a€".into()))));
        let ntext = [&[NTEXT, 10, 0, 0, 0, 9, 4, 0xD0, 0, 0x34][..], &[2, 0, 0, 0, 0xFC, 0]].concat();
        assert_eq!(read(&ntext), (SqlType::NVarChar(Length::Max), Ok(Value::String("ü".into()))));
        let image = [IMAGE, 10, 0, 0, 0, 1, 0, 0, 0, 7];
        assert_eq!(read(&image), (SqlType::VarBinary(Length::Max), Ok(Value::Bytes([7].as_slice().into()))));
        let null = [IMAGE, 10, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
        assert_eq!(read(&null), (SqlType::VarBinary(Length::Max), Ok(Value::Null)));
        let huge = [IMAGE, 10, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 7];
        assert_eq!(read(&huge).1, Err(ReadError::Truncated));
    }

    #[test]
    fn values_outside_their_type_are_refused() {
        let not_a_number = [&[FLOAT8][..], &f64::NAN.to_le_bytes()].concat();
        let after_9999 = [&[DATE_N, 3][..], &(LAST_DAY + 1).to_le_bytes()[..3]].concat();
        let too_many_digits = [DECIMAL_N, 5, 2, 0, 5, 1, 100, 0, 0, 0];
        for bytes in [&not_a_number[..], &after_9999, &too_many_digits] {
            let mut reader = PayloadReader::new(bytes);
            let wire_type = read_type_info(&mut reader).unwrap();
            assert_eq!(read_value(&mut reader, &wire_type), Err(ReadError::InvalidValue(bytes[0])));
        }
    }

    #[test]
    fn foreign_code_pages_are_refused_where_they_differ() {
        let greek = [BIG_VARCHAR, 10, 0, 0x08, 0x04, 0, 0, 0];
        let read = |text: &[u8]| {
            let bytes = [&greek[..], &[u8::try_from(text.len()).unwrap(), 0], text].concat();
            let mut reader = PayloadReader::new(&bytes);
            let wire_type = read_type_info(&mut reader).unwrap();
            read_value(&mut reader, &wire_type)
        };
        assert_eq!(read(b"abc"), Ok(Value::String("abc".into())));
        assert!(matches!(read(&[0xE1]), Err(ReadError::NotSupported(_))));
    }
}
