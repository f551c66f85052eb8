//! Table-valued parameters.

use crate::tds::packet::{PayloadReader, ReadError};
use crate::tds::request::call::RpcValue;
use crate::tds::wire_type::form::WireType;
use crate::tds::wire_type::read::{read_type_info, read_value};
use crate::value::Value;

const TABLE_NULL: u16 = 0xFFFF;
pub(super) const TABLE_END: u8 = 0x00;
pub(super) const TABLE_ROW: u8 = 0x01;
const TABLE_ORDER_UNIQUE: u8 = 0x10;
const TABLE_COLUMN_ORDER: u8 = 0x11;
const COLUMN_DEFAULT: u16 = 0x0200;

/// SQL Server's limit of columns in a table.
const MAX_COLUMNS: usize = 1024;

/// A NULL is one byte on the wire and more here; this many values are refused.
const MAX_TABLE_CELLS: usize = 16_000_000;

/// A table-valued parameter after its type byte (MS-TDS 2.2.5.5.5).
pub(super) fn read_table(reader: &mut PayloadReader<'_>) -> Result<RpcValue, ReadError> {
    let database = reader.b_varchar()?;
    if !database.is_empty() {
        return Err(ReadError::NotSupported("a table type with a database name".to_owned()));
    }
    let type_schema = Some(reader.b_varchar()?).filter(|schema| !schema.is_empty());
    let type_name = reader.b_varchar()?;
    let columns = read_table_columns(reader)?;
    read_table_options(reader)?;

    let mut rows = Vec::new();
    loop {
        match reader.u8()? {
            TABLE_END => break,
            TABLE_ROW => {}
            _ => return Err(ReadError::Malformed),
        }
        rows.push(read_row(reader, &columns, rows.len())?);
    }
    let columns = columns.into_iter().map(|column| column.sql_type).collect();
    Ok(RpcValue::Table { type_schema, type_name, columns, rows })
}

/// One row after `before` others.
pub(super) fn read_row(
    reader: &mut PayloadReader<'_>,
    columns: &[WireType],
    before: usize,
) -> Result<Vec<Value>, ReadError> {
    let count = columns.len();
    if count == 0 || before * count >= MAX_TABLE_CELLS {
        return Err(ReadError::NotSupported(format!(
            "a table of {} rows and {count} columns from a client",
            before + 1
        )));
    }
    columns.iter().map(|column| read_value(reader, column)).collect()
}

/// TVP_COLMETADATA: the type of each column.
fn read_table_columns(reader: &mut PayloadReader<'_>) -> Result<Vec<WireType>, ReadError> {
    let count = reader.u16()?;
    if count == TABLE_NULL {
        return Ok(Vec::new());
    }
    if usize::from(count) > MAX_COLUMNS {
        return Err(ReadError::Malformed);
    }
    let mut columns = Vec::new();
    for _ in 0..count {
        let _user_type = reader.u32()?;
        if reader.u16()? & COLUMN_DEFAULT != 0 {
            return Err(ReadError::NotSupported("a table-valued parameter with columns of defaults".to_owned()));
        }
        columns.push(read_type_info(reader)?);
        let _name = reader.b_varchar()?;
    }
    Ok(columns)
}

/// The end of the columns, before which could stand what the client promises of the rows' order.
fn read_table_options(reader: &mut PayloadReader<'_>) -> Result<(), ReadError> {
    match reader.u8()? {
        TABLE_END => Ok(()),
        TABLE_ORDER_UNIQUE | TABLE_COLUMN_ORDER => {
            Err(ReadError::NotSupported("a table-valued parameter with an order of its rows or columns".to_owned()))
        }
        _ => Err(ReadError::Malformed),
    }
}
