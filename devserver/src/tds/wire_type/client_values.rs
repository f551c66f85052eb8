//! Columns' values as a client reads them, for tests.

use crate::tds::packet::{PayloadReader, ReadError};
use crate::tds::wire_type::form::{Form, WireType};
use crate::tds::wire_type::read::read_value;
use crate::value::Value;

/// The bytes of the timestamp behind a text pointer.
const TIMESTAMP: usize = 8;

/// The name of the table, which stands behind the types `text`, `ntext` and `image` in COLMETADATA.
pub fn read_table_name(reader: &mut PayloadReader<'_>, column: &WireType) -> Result<(), ReadError> {
    if column.form == Form::VeryLongLength {
        for _ in 0..reader.u8()? {
            let length = reader.u16()?;
            reader.bytes(2 * usize::from(length))?;
        }
    }
    Ok(())
}

/// Reads a column's value.
pub fn read_result(reader: &mut PayloadReader<'_>, column: &WireType) -> Result<Value, ReadError> {
    if column.form == Form::VeryLongLength {
        let pointer = usize::from(reader.u8()?);
        if pointer == 0 {
            return Ok(Value::Null);
        }
        reader.bytes(pointer + TIMESTAMP)?;
    }
    read_value(reader, column)
}
