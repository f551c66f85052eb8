//! Columns' types and values as a client reads them, for tests.

use crate::tds::packet::{PayloadReader, ReadError};
use crate::tds::wire_type::form::WireType;
use crate::tds::wire_type::number::{GUID, NVARCHAR, VARIANT, VARIANT_LENGTH};
use crate::tds::wire_type::read::{read_type_info, read_value};
use crate::value::Value;

/// Reads a column's value as a client does: unlike a parameter it can be a `sql_variant`, which `column` is `None` for.
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
pub fn read_result_type(reader: &mut PayloadReader<'_>) -> Result<Option<WireType>, ReadError> {
    let mut ahead = reader.clone();
    if ahead.u8()? == VARIANT && ahead.u32()? == VARIANT_LENGTH {
        *reader = ahead;
        return Ok(None);
    }
    read_type_info(reader).map(Some)
}
