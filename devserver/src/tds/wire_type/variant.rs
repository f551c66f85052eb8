//! `sql_variant` values: four bytes of length, the base type with its properties, and the value without any length.
//!
//! Source: MS-TDS, "2.2.5.5.4 sql_variant Values".

use crate::tds::packet::{PayloadReader, ReadError};
use crate::tds::wire_type::number::{
    BIG_CHAR, BIG_VARCHAR, BIT, INT1, INT2, INT4, INT8, NCHAR, NVARCHAR, VARIANT, VARIANT_LENGTH,
};
use crate::tds::wire_type::read::{read_type_info, read_value};
use crate::tds::wire_type::write::put_value;
use crate::value::{Collation, SqlType, Value, Variant};

pub(super) fn put_variant(out: &mut Vec<u8>, variant: &Variant) {
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let type_byte = match variant.base {
        SqlType::Bit => BIT,
        SqlType::TinyInt => INT1,
        SqlType::SmallInt => INT2,
        SqlType::Int => INT4,
        SqlType::BigInt => INT8,
        SqlType::Char(_) => BIG_CHAR,
        SqlType::VarChar(_) => BIG_VARCHAR,
        SqlType::NChar(_) => NCHAR,
        SqlType::NVarChar(_) => NVARCHAR,
        _ => unreachable!("no sql_variant has that base"),
    };
    // A column's value has its length before it: two bytes of text, else one.
    let prefix = if variant.base.is_character() {
        let bytes = variant.base.max_bytes().and_then(|bytes| u16::try_from(bytes).ok());
        out.extend_from_slice(&[type_byte, 7]);
        out.extend_from_slice(&Collation::default().tds_bytes());
        out.extend_from_slice(&bytes.expect("no long type is the base of a sql_variant").to_le_bytes());
        2
    } else {
        out.extend_from_slice(&[type_byte, 0]);
        1
    };
    let value_at = out.len();
    put_value(out, variant.base, &variant.value);
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
    let long = u16::try_from(value.len()).map_err(|_| ReadError::InvalidLength(VARIANT))?.to_le_bytes();
    // The same as a column would have it.
    let as_column = match (base, properties) {
        (BIT | INT1 | INT2 | INT4 | INT8, []) => [&[base][..], value].concat(),
        (BIG_CHAR | BIG_VARCHAR | NCHAR | NVARCHAR, [collation @ .., low, high]) if collation.len() == 5 => {
            [&[base, *low, *high][..], collation, &long, value].concat()
        }
        _ => return Err(ReadError::NotSupported(format!("a sql_variant of the base type {base:#04X}"))),
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
