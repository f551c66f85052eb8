//! Columns' values as a client reads them, for tests.

use crate::tds::packet::{PayloadReader, ReadError};
use crate::tds::wire_type::form::WireType;
use crate::tds::wire_type::read::read_value;
use crate::value::Value;

/// Reads a column's value; of a `sql_variant` what it holds.
pub fn read_result(reader: &mut PayloadReader<'_>, column: &WireType) -> Result<Value, ReadError> {
    Ok(match read_value(reader, column)? {
        Value::Variant(variant) => variant.value,
        value => value,
    })
}
