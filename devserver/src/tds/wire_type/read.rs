//! Types and values on their way in.

use crate::tds::packet::{PayloadReader, ReadError, decode_utf16};
use crate::tds::wire_type::form::{Form, WireType, is_code_page_1252};
use crate::tds::wire_type::number::{
    BIG_BINARY, BIG_CHAR, BIG_VARBINARY, BIG_VARCHAR, BIT_N, DATE_N, DATETIME_N, DATETIME2_N, DATETIMEOFFSET_N,
    DECIMAL_N, FIRST_DATETIME_DAY, FLOAT_N, GUID, IMAGE, INT_N, LAST_DAY, LONGEST_LIMITED, MAX_LENGTH, NCHAR, NTEXT,
    NULL_LENGTH, NULL_TYPE, NUMERIC_N, NVARCHAR, PLP_NULL, PLP_UNKNOWN_LENGTH, TABLE_TYPE, TEXT,
    THIRD_CENTISECONDS_PER_DAY, TIME_N, decimal_name,
};
use crate::tds::wire_type::write::ticks_per_unit;
use crate::value::datetime::{DAY_1900, TICKS_PER_DAY};
use crate::value::types::time_bytes;
use crate::value::{Decimal, Length, SqlType, Ticks, Value, codepage};
use std::sync::Arc;
use uuid::Uuid;

/// Reads the TYPE_INFO of a parameter or of a table-valued parameter's column, the type byte included.
pub fn read_type_info(reader: &mut PayloadReader<'_>) -> Result<WireType, ReadError> {
    let type_byte = reader.u8()?;
    let simple = |sql_type, form| Ok(WireType { sql_type, type_byte, form, is_1252: true });
    match type_byte {
        // SQL Server, too, takes an untyped NULL for an int.
        NULL_TYPE => simple(SqlType::Int, Form::Nothing),
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
                _ => return Err(ReadError::Malformed),
            };
            simple(sql_type, Form::ShortLength)
        }
        DECIMAL_N | NUMERIC_N => {
            let [_length, precision, scale] = reader.array()?;
            if !(1..=38).contains(&precision) || scale > precision {
                return Err(ReadError::Malformed);
            }
            simple(SqlType::Decimal { precision, scale, name: decimal_name(type_byte) }, Form::ShortLength)
        }
        DATE_N => simple(SqlType::Date, Form::ShortLength),
        TIME_N | DATETIME2_N | DATETIMEOFFSET_N => {
            let scale = reader.u8()?;
            if scale > 7 {
                return Err(ReadError::Malformed);
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
            let is_1252 = type_byte == IMAGE || is_code_page_1252(reader.array()?);
            // What took their place ("ntext, text, and image", MicrosoftDocs/sql-docs): a parameter of an old type is
            // converted to the procedure's own type like one of the new.
            let sql_type = match type_byte {
                IMAGE => SqlType::VarBinary(Length::Max),
                TEXT => SqlType::VarChar(Length::Max),
                _ => SqlType::NVarChar(Length::Max),
            };
            Ok(WireType { sql_type, type_byte, form: Form::VeryLongLength, is_1252 })
        }
        0x25 | 0x27 | 0x2D | 0x2F | 0x37 | 0x3F => Err(ReadError::NotSupported("types from before TDS 7".to_owned())),
        0xF0 => Err(ReadError::NotSupported("CLR types".to_owned())),
        0xF1 => Err(ReadError::NotSupported("the type xml".to_owned())),
        0x6E => Err(ReadError::NotSupported("the types money and smallmoney".to_owned())),
        0x62 => Err(ReadError::NotSupported("a parameter of the type sql_variant".to_owned())),
        // INT4TYPE and the like. Every type has a form with a length, which has room for NULL.
        0x30 | 0x32 | 0x34 | 0x38 | 0x3A..=0x3E | 0x7A | 0x7F => {
            Err(ReadError::NotSupported("types of a fixed length".to_owned()))
        }
        TABLE_TYPE => Err(ReadError::NotSupported("a table inside a table-valued parameter".to_owned())),
        0xF4 | 0xF5 => Err(ReadError::NotSupported("the types json and vector".to_owned())),
        _ => Err(ReadError::Malformed),
    }
}

fn read_sized_type(reader: &mut PayloadReader<'_>, type_byte: u8) -> Result<WireType, ReadError> {
    let length = reader.u16()?;
    let is_character = !matches!(type_byte, BIG_VARBINARY | BIG_BINARY);
    let is_1252 = !is_character || is_code_page_1252(reader.array()?);

    let is_unicode = matches!(type_byte, NVARCHAR | NCHAR);
    let is_varying = matches!(type_byte, BIG_VARBINARY | BIG_VARCHAR | NVARCHAR);
    let is_max = length == MAX_LENGTH && is_varying;
    if !is_max && (length > LONGEST_LIMITED || (is_unicode && length % 2 != 0)) {
        return Err(ReadError::Malformed);
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
    Ok(WireType { sql_type, type_byte, form, is_1252 })
}

/// Reads a value of a type.
pub fn read_value(reader: &mut PayloadReader<'_>, wire_type: &WireType) -> Result<Value, ReadError> {
    let bytes = match wire_type.form {
        Form::Nothing => return Ok(Value::Null),
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
            length => reader.bytes(usize::try_from(length).map_err(|_| ReadError::Malformed)?)?,
        },
        Form::Partial => {
            return match read_partial(reader)? {
                None => Ok(Value::Null),
                Some(bytes) => value_of(&bytes, wire_type),
            };
        }
    };
    value_of(bytes, wire_type)
}

/// The chunks of a `(max)` value, or `None` for NULL.
fn read_partial(reader: &mut PayloadReader<'_>) -> Result<Option<Vec<u8>>, ReadError> {
    let total = reader.u64()?;
    if total == PLP_NULL {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    loop {
        let length = usize::try_from(reader.u32()?).map_err(|_| ReadError::Malformed)?;
        if length == 0 {
            break;
        }
        bytes.extend_from_slice(reader.bytes(length)?);
    }
    if total != PLP_UNKNOWN_LENGTH && total != bytes.len() as u64 {
        return Err(ReadError::Malformed);
    }
    Ok(Some(bytes))
}

fn value_of(bytes: &[u8], wire_type: &WireType) -> Result<Value, ReadError> {
    let WireType { sql_type, type_byte, is_1252, .. } = *wire_type;
    let invalid = ReadError::InvalidValue(type_byte);
    let limited = sql_type.is_character() || sql_type.is_binary();
    if limited && sql_type.max_bytes().is_some_and(|longest| bytes.len() > longest) {
        return Err(ReadError::Malformed);
    }
    Ok(match sql_type {
        SqlType::Bit => Value::Bit(u8::from_le_bytes(fixed(bytes)?) != 0),
        SqlType::TinyInt => Value::TinyInt(u8::from_le_bytes(fixed(bytes)?)),
        SqlType::SmallInt => Value::SmallInt(i16::from_le_bytes(fixed(bytes)?)),
        SqlType::Int => Value::Int(i32::from_le_bytes(fixed(bytes)?)),
        SqlType::BigInt => Value::BigInt(i64::from_le_bytes(fixed(bytes)?)),
        SqlType::Real => {
            let value = Some(f32::from_le_bytes(fixed(bytes)?)).filter(|value| value.is_finite());
            Value::Real(value.ok_or(invalid)?)
        }
        SqlType::Float => {
            let value = Some(f64::from_le_bytes(fixed(bytes)?)).filter(|value| value.is_finite());
            Value::Float(value.ok_or(invalid)?)
        }
        SqlType::Decimal { precision, scale, .. } => decimal_of(bytes, precision, scale, type_byte)?,
        SqlType::UniqueIdentifier => Value::Uuid(Uuid::from_bytes_le(fixed(bytes)?)),
        SqlType::Date => Value::Date(day_of(fixed(bytes)?, type_byte)?),
        SqlType::Time(scale) => Value::Time(time_of(bytes, scale, type_byte)?),
        SqlType::DateTime => datetime_of(fixed(bytes)?, type_byte)?,
        SqlType::DateTime2(scale) => {
            let (time, date) = bytes.split_last_chunk::<3>().ok_or(ReadError::Malformed)?;
            Value::DateTime(day_of(*date, type_byte)?, time_of(time, scale, type_byte)?)
        }
        SqlType::DateTimeOffset(scale) => {
            let (instant, offset) = bytes.split_last_chunk::<2>().ok_or(ReadError::Malformed)?;
            let (time, date) = instant.split_last_chunk::<3>().ok_or(ReadError::Malformed)?;
            let offset = i16::from_le_bytes(*offset);
            // 14 hours, the widest offset of datetimeoffset.
            if !(-840..=840).contains(&offset) {
                return Err(invalid);
            }
            Value::DateTimeOffset(day_of(*date, type_byte)?, time_of(time, scale, type_byte)?, offset)
        }
        SqlType::Char(_) | SqlType::VarChar(_) => Value::String(text_of(bytes, is_1252)?.into()),
        SqlType::NChar(_) | SqlType::NVarChar(_) => Value::String(decode_utf16(bytes)?.into()),
        SqlType::Binary(_) | SqlType::VarBinary(_) | SqlType::RowVersion => Value::Bytes(Arc::from(bytes)),
        SqlType::Text | SqlType::NText | SqlType::Image | SqlType::Variant => {
            unreachable!("it is refused, or what took its place is read")
        }
    })
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], ReadError> {
    bytes.try_into().map_err(|_| ReadError::Malformed)
}

fn text_of(bytes: &[u8], is_1252: bool) -> Result<String, ReadError> {
    if !is_1252 && !bytes.is_ascii() {
        return Err(ReadError::NotSupported("char and varchar parameters of a code page other than 1252".to_owned()));
    }
    Ok(codepage::decode(bytes))
}

fn decimal_of(bytes: &[u8], precision: u8, scale: u8, type_byte: u8) -> Result<Value, ReadError> {
    let (sign, magnitude_bytes) = bytes.split_first().ok_or(ReadError::Malformed)?;
    // MS-TDS 2.2.5.4.2 has 4, 8, 12 and 16 bytes; FreeTDS sends no more of them than the precision needs.
    if !(1..=16).contains(&magnitude_bytes.len()) {
        return Err(ReadError::Malformed);
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

fn day_of([a, b, c]: [u8; 3], type_byte: u8) -> Result<u32, ReadError> {
    let day = u32::from_le_bytes([a, b, c, 0]);
    if day > LAST_DAY { Err(ReadError::InvalidValue(type_byte)) } else { Ok(day) }
}

fn time_of(bytes: &[u8], scale: u8, type_byte: u8) -> Result<Ticks, ReadError> {
    if bytes.len() != time_bytes(scale) {
        return Err(ReadError::Malformed);
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
