//! The rows of a bulk load: a message of their own after INSERT BULK (MS-TDS 2.2.6.1, "Bulk Load BCP").

use crate::error::{SqlError, SqlResult};
use crate::tds::packet::{PayloadReader, ReadError};
use crate::tds::wire_type::form::WireType;
use crate::tds::wire_type::number::{IMAGE, NTEXT, TEXT};
use crate::tds::wire_type::read::{read_type_info, read_value};
use crate::value::units::units;
use crate::value::{Length, SqlType, Value};

const COLUMN_METADATA: u8 = 0x81;
const ROW: u8 = 0xD1;
/// A row whose NULLs are bits in front of it.
const NULL_BITMAP_ROW: u8 = 0xD2;
const DONE: u8 = 0xFD;

/// The count of columns that says there is no metadata.
const NO_METADATA: u16 = 0xFFFF;

/// After the byte DONE: status, command, and the row count in four bytes at least. It has eight since TDS 7.2, but
/// Microsoft's own bulk copy clients still send four.
const DONE_SIZE: usize = 8;

/// Reads the rows of a bulk load, one after the other.
pub struct BulkData<'a> {
    reader: PayloadReader<'a>,
    columns: Vec<WireType>,
    /// As INSERT BULK has announced them.
    announced: &'a [SqlType],
}

impl<'a> BulkData<'a> {
    /// The metadata before the rows; it must be as it was announced.
    ///
    /// # Errors
    /// 4804, 4816, 4894 ("Database Engine events and errors (4000 to 4999)", MicrosoftDocs/sql-docs,
    /// docs/relational-databases/errors-events/).
    pub fn open(payload: &'a [u8], announced: &'a [SqlType]) -> SqlResult<BulkData<'a>> {
        let mut reader = PayloadReader::new(payload);
        let missing = || SqlError::new(4894, "COLMETADATA must be present when using bcp.").severity(21);
        if reader.u8().map_err(|_| missing())? != COLUMN_METADATA {
            return Err(missing());
        }
        let count = reader.u16().map_err(|error| failed(error, 0))?;
        if count == NO_METADATA {
            return Err(missing());
        }
        if usize::from(count) != announced.len() {
            return Err(SqlError::not_supported(format!(
                "a bulk load of {count} columns after an INSERT BULK of {}",
                announced.len()
            )));
        }
        let mut columns = Vec::with_capacity(announced.len());
        for (place, announced) in announced.iter().enumerate() {
            let column = read_column(&mut reader).map_err(|error| failed(error, place + 1))?;
            if std::mem::discriminant(&column.sql_type) != std::mem::discriminant(announced) {
                return Err(invalid_type(place + 1));
            }
            columns.push(column);
        }
        Ok(BulkData { reader, columns, announced })
    }

    /// The types of the values.
    pub fn types(&self) -> Vec<SqlType> {
        self.columns.iter().map(|column| column.sql_type).collect()
    }

    /// The next row; `None` at the end of the load.
    ///
    /// # Errors
    /// 4804, 4815, 4896.
    pub fn next_row(&mut self) -> SqlResult<Option<Vec<Value>>> {
        let count = self.columns.len();
        if self.reader.remaining() == 0 {
            // FreeTDS ends its message without DONE (`tds_bcp_done` in src/tds/bulk.c).
            return Ok(None);
        }
        let nulls = match self.reader.u8().map_err(|error| failed(error, 0))? {
            ROW => None,
            NULL_BITMAP_ROW => Some(self.reader.bytes(count.div_ceil(8)).map_err(|error| failed(error, 0))?),
            DONE => {
                self.reader.bytes(DONE_SIZE).map_err(|error| failed(error, 0))?;
                return Ok(None);
            }
            _ => return Err(SqlError::not_supported("this token in a bulk load")),
        };
        let mut row = Vec::with_capacity(count);
        for (place, column) in self.columns.iter().enumerate() {
            if nulls.is_some_and(|nulls| nulls[place / 8] & (1 << (place % 8)) != 0) {
                row.push(Value::Null);
                continue;
            }
            let value = read_value(&mut self.reader, column).map_err(|error| failed(error, place + 1))?;
            if is_too_long(&value, self.announced[place]) {
                return Err(invalid_length(place + 1));
            }
            row.push(value);
        }
        Ok(Some(row))
    }
}

fn read_column(reader: &mut PayloadReader<'_>) -> Result<WireType, ReadError> {
    let _user_type = reader.u32()?;
    let _flags = reader.u16()?;
    if matches!(reader.peek(), Some(IMAGE | TEXT | NTEXT)) {
        return Err(ReadError::NotSupported("text, ntext and image in a bulk load".to_owned()));
    }
    let wire_type = read_type_info(reader)?;
    let _name = reader.b_varchar()?;
    Ok(wire_type)
}

/// Whether a value is longer than its announced type.
fn is_too_long(value: &Value, announced: SqlType) -> bool {
    let (limit, length) = match (announced, value) {
        (SqlType::Char(limit) | SqlType::VarChar(Length::Limit(limit)), Value::String(text)) => {
            (limit, text.chars().count())
        }
        (SqlType::NChar(limit) | SqlType::NVarChar(Length::Limit(limit)), Value::String(text)) => {
            (limit, units(text).count())
        }
        (SqlType::Binary(limit) | SqlType::VarBinary(Length::Limit(limit)), Value::Bytes(bytes)) => {
            (limit, bytes.len())
        }
        _ => return false,
    };
    length > usize::from(limit)
}

/// `place`: the column, from 1.
fn failed(error: ReadError, place: usize) -> SqlError {
    match error {
        ReadError::NotSupported(what) => SqlError::not_supported(what),
        ReadError::Truncated => SqlError::new(
            4804,
            "While reading current row from host, a premature end-of-message was encountered--an incoming data stream \
             was interrupted when the server expected to see more data. The host program may have terminated. Ensure \
             that you are using a supported client application programming interface (API).",
        )
        .severity(21),
        ReadError::UnknownType(_) => invalid_type(place),
        ReadError::InvalidLength(_) => invalid_length(place),
        ReadError::InvalidValue(_) => {
            SqlError::new(4896, format!("Invalid column value from bcp client for colid {place}."))
        }
    }
}

fn invalid_type(place: usize) -> SqlError {
    SqlError::new(4816, format!("Invalid column type from bcp client for colid {place}."))
}

fn invalid_length(place: usize) -> SqlError {
    SqlError::new(4815, format!("Received an invalid column length from the bcp client for colid {place}."))
}
