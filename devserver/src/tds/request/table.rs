//! Table-valued parameters.

use crate::tds::packet::{PayloadReader, ReadError};
use crate::tds::request::call::{RpcValue, TableColumn};
use crate::tds::wire_type::form::WireType;
use crate::tds::wire_type::number::TABLE_TYPE;
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

/// Columns that are all default cost no bytes on the wire but memory here; this many cached plans are refused.
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
    let order = read_table_options(reader, &columns)?;

    let mut rows = Vec::new();
    loop {
        match reader.u8()? {
            TABLE_END => break,
            TABLE_ROW => {}
            _ => return Err(ReadError::InvalidLength(TABLE_TYPE)),
        }
        if columns.is_empty() || rows.len() * columns.len() >= MAX_TABLE_CELLS {
            return Err(ReadError::NotSupported(format!(
                "a table-valued parameter of {} rows and {} columns",
                rows.len() + 1,
                columns.len()
            )));
        }
        let mut row = vec![Value::Null; columns.len()];
        for &index in &order {
            row[index] = read_value(reader, &columns[index].0)?;
        }
        rows.push(row);
    }
    let columns =
        columns.into_iter().map(|(wire_type, default)| TableColumn { sql_type: wire_type.sql_type, default }).collect();
    Ok(RpcValue::Table { type_schema, type_name, columns, rows })
}

/// TVP_COLMETADATA: type and "is default" of each column.
fn read_table_columns(reader: &mut PayloadReader<'_>) -> Result<Vec<(WireType, bool)>, ReadError> {
    let count = reader.u16()?;
    if count == TABLE_NULL {
        return Ok(Vec::new());
    }
    if usize::from(count) > MAX_COLUMNS {
        return Err(ReadError::InvalidLength(TABLE_TYPE));
    }
    let mut columns = Vec::new();
    for _ in 0..count {
        let _user_type = reader.u32()?;
        let flags = reader.u16()?;
        let wire_type = read_type_info(reader)?;
        let _name = reader.b_varchar()?;
        columns.push((wire_type, flags & COLUMN_DEFAULT != 0));
    }
    Ok(columns)
}

/// The end of the columns, before which could stand what the client promises of the rows' order. Gives the columns that
/// each row carries.
fn read_table_options(reader: &mut PayloadReader<'_>, columns: &[(WireType, bool)]) -> Result<Vec<usize>, ReadError> {
    match reader.u8()? {
        TABLE_END => Ok((0..columns.len()).filter(|index| !columns[*index].1).collect()),
        TABLE_ORDER_UNIQUE | TABLE_COLUMN_ORDER => {
            Err(ReadError::NotSupported("a table-valued parameter with an order of its rows or columns".to_owned()))
        }
        _ => Err(ReadError::InvalidLength(TABLE_TYPE)),
    }
}
