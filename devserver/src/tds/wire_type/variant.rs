//! `sql_variant` values: four bytes of length, the base type with its properties, and the value without any length.
//!
//! Source: MS-TDS, "2.2.5.5.4 sql_variant Values".

use crate::tds::packet::{PayloadReader, ReadError};
use crate::tds::wire_type::number::{
    BIG_BINARY, BIG_CHAR, BIG_VARBINARY, BIG_VARCHAR, BIT, DATE_N, DATETIME, DATETIME2_N, DATETIMEOFFSET_N, DECIMAL_N,
    FLOAT4, FLOAT8, GUID, INT1, INT2, INT4, INT8, MONEY, MONEY4, NCHAR, NUMERIC_N, NVARCHAR, SMALL_DATETIME, TIME_N,
    VARIANT, VARIANT_LENGTH, decimal_type_byte,
};
use crate::tds::wire_type::read::{read_type_info, read_value};
use crate::tds::wire_type::write::put_value;
use crate::value::{Collation, SqlType, Value, Variant};

pub(super) fn put_variant(out: &mut Vec<u8>, variant: &Variant) {
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let bytes = variant.base.max_bytes().and_then(|bytes| u16::try_from(bytes).ok());
    let [low, high] = bytes.expect("no long type is the base of a sql_variant").to_le_bytes();
    let character = |type_byte| [&[type_byte, 7][..], &Collation::default().tds_bytes(), &[low, high]].concat();
    let described = match variant.base {
        SqlType::Bit => vec![BIT, 0],
        SqlType::TinyInt => vec![INT1, 0],
        SqlType::SmallInt => vec![INT2, 0],
        SqlType::Int => vec![INT4, 0],
        SqlType::BigInt => vec![INT8, 0],
        SqlType::Real => vec![FLOAT4, 0],
        SqlType::Float => vec![FLOAT8, 0],
        SqlType::DateTime => vec![DATETIME, 0],
        SqlType::UniqueIdentifier => vec![GUID, 0],
        SqlType::Date => vec![DATE_N, 0],
        SqlType::DateTime2(scale) => vec![DATETIME2_N, 1, scale],
        SqlType::DateTimeOffset(scale) => vec![DATETIMEOFFSET_N, 1, scale],
        SqlType::Decimal { precision, scale, name } => vec![decimal_type_byte(name), 2, precision, scale],
        SqlType::Binary(_) => vec![BIG_BINARY, 2, low, high],
        SqlType::VarBinary(_) => vec![BIG_VARBINARY, 2, low, high],
        SqlType::Char(_) => character(BIG_CHAR),
        SqlType::VarChar(_) => character(BIG_VARCHAR),
        SqlType::NChar(_) => character(NCHAR),
        SqlType::NVarChar(_) => character(NVARCHAR),
        SqlType::Time(_) | SqlType::Text | SqlType::NText | SqlType::Image | SqlType::RowVersion | SqlType::Variant => {
            unreachable!("no sql_variant has that base")
        }
    };
    out.extend_from_slice(&described);
    // A column's value has its length before it: two bytes of text and binary, else one.
    let value_at = out.len();
    put_value(out, variant.base, &variant.value);
    let prefix = if variant.base.is_character() || variant.base.is_binary() { 2 } else { 1 };
    out.drain(value_at..value_at + prefix);
    let start = length_at + 4;
    let length = u32::try_from(out.len() - start).expect("it has at most 8,016 bytes");
    out[length_at..start].copy_from_slice(&length.to_le_bytes());
}

pub(super) fn read_variant(reader: &mut PayloadReader<'_>) -> Result<Value, ReadError> {
    let length = reader.u32()?;
    if length == 0 {
        return Ok(Value::Null);
    }
    if length > VARIANT_LENGTH + 7 {
        return Err(ReadError::InvalidLength(VARIANT));
    }
    let mut body = PayloadReader::new(reader.bytes(length as usize)?);
    let (base, property_length) = (body.u8()?, body.u8()?);
    let properties = body.bytes(usize::from(property_length))?;
    let value = body.bytes(body.remaining())?;
    let short = [u8::try_from(value.len()).unwrap_or(u8::MAX)];
    let long = u16::try_from(value.len()).map_err(|_| ReadError::InvalidLength(VARIANT))?.to_le_bytes();
    // The same as a column would have it.
    let as_column = match (base, properties) {
        (BIT | INT1 | INT2 | INT4 | INT8 | FLOAT4 | FLOAT8 | MONEY | MONEY4 | DATETIME | SMALL_DATETIME, []) => {
            [&[base][..], value].concat()
        }
        (GUID, []) => [&[base, 16][..], &short, value].concat(),
        (DATE_N, []) => [&[base][..], &short, value].concat(),
        (TIME_N, [_]) => return Err(ReadError::NotSupported("a sql_variant of the type time".to_owned())),
        (DATETIME2_N | DATETIMEOFFSET_N, [scale]) => [&[base, *scale][..], &short, value].concat(),
        (DECIMAL_N | NUMERIC_N, [precision, scale]) => [&[base, 17, *precision, *scale][..], &short, value].concat(),
        (BIG_BINARY | BIG_VARBINARY, [_, _]) => [&[base][..], properties, &long, value].concat(),
        (BIG_CHAR | BIG_VARCHAR | NCHAR | NVARCHAR, [collation @ .., low, high]) if collation.len() == 5 => {
            [&[base, *low, *high][..], collation, &long, value].concat()
        }
        _ => return Err(ReadError::InvalidValue(VARIANT)),
    };
    let mut reader = PayloadReader::new(&as_column);
    let wire_type = read_type_info(&mut reader)?;
    if wire_type.sql_type.is_max() {
        return Err(ReadError::InvalidLength(VARIANT));
    }
    let value = read_value(&mut reader, &wire_type)?;
    if reader.remaining() > 0 {
        return Err(ReadError::InvalidLength(VARIANT));
    }
    Ok(Value::variant(wire_type.sql_type, value))
}
