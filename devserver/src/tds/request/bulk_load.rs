//! The rows of a bulk load: a message of their own after INSERT BULK (MS-TDS 2.2.6.1, "Bulk Load BCP").

use std::mem::discriminant;
use std::sync::Arc;

use crate::tds::packet::{PayloadReader, ReadError};
use crate::tds::request::table::read_row;
use crate::tds::wire_type::read::read_type_info;
use crate::value::SqlType;
use crate::value::values::TypedRows;

const COLUMN_METADATA: u8 = 0x81;
const ROW: u8 = 0xD1;
const DONE: u8 = 0xFD;

/// The rows, each with the types of its values. They must be as INSERT BULK has announced them.
pub fn read_bulk_rows(payload: &[u8], announced: &[SqlType]) -> Result<TypedRows, ReadError> {
    let refused = |what: &str| Err(ReadError::NotSupported(format!("a bulk load with {what}")));
    let mut reader = PayloadReader::new(payload);
    if reader.u8()? != COLUMN_METADATA || usize::from(reader.u16()?) != announced.len() {
        return refused("other columns than INSERT BULK has announced");
    }
    let mut columns = Vec::with_capacity(announced.len());
    for announced in announced {
        let _user_type = reader.u32()?;
        let _flags = reader.u16()?;
        let column = read_type_info(&mut reader)?;
        let longest = |sql_type: SqlType| sql_type.max_bytes().unwrap_or(usize::MAX);
        let is_same = discriminant(&column.sql_type) == discriminant(announced) && !column.is_untyped_null();
        if !is_same || longest(column.sql_type) > longest(*announced) {
            return refused("other types than INSERT BULK has announced");
        }
        let _name = reader.b_varchar()?;
        columns.push(column);
    }
    let types: Arc<[SqlType]> = columns.iter().map(|column| column.sql_type).collect();
    let mut rows = Vec::new();
    // The count of rows in DONE has four bytes or eight, and FreeTDS ends its message without DONE (`tds_bcp_done` in
    // src/tds/bulk.c).
    while reader.remaining() > 0 {
        match reader.u8()? {
            ROW => {}
            DONE => break,
            _ => return refused("this token"),
        }
        rows.push((read_row(&mut reader, &columns, rows.len())?, Arc::clone(&types)));
    }
    Ok(rows)
}
