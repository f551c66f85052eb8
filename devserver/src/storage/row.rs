//! Rows as they are kept: one shared block of bytes, read column by column.
//!
//! Layout: the number of columns (two bytes), a bitmap with a bit set for each NULL, then the other values in column
//! order, fixed types in the fewest bytes that hold them, text and binary with their length before them. Values longer
//! than [`MAX_INLINE`], and `sql_variant`s, stand beside the block and are shared with the readers, so that reading one
//! never copies it. A row that was written before a column was added simply has fewer columns.

use std::cell::RefCell;
use std::sync::Arc;

use uuid::Uuid;

use super::schema::{Column, TableSchema};
use crate::error::{STALE_PLAN, SqlError, SqlResult};
use crate::value::{Decimal, SqlType, Value};

/// Longer text and binary values are kept as `Arc`s of their own: copying up to this size costs no more than the
/// allocation it saves.
const MAX_INLINE: usize = 512;

/// A stored row. Cloning it is cheap.
#[derive(Debug, Clone)]
pub struct Row {
    bytes: Arc<[u8]>,
    /// The long values in column order.
    long: Option<Arc<Vec<Value>>>,
}

impl Row {
    /// Encodes a complete row. The values must be of their columns' types.
    pub(super) fn encode(columns: &[Column], values: &[Value]) -> SqlResult<Row> {
        thread_local! {
            /// Rows are put together here, so that each costs one allocation, of its own size.
            static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        if columns.len() != values.len() {
            return Err(SqlError::new(STALE_PLAN, "a table was changed after the statement's plan was made"));
        }
        SCRATCH.with_borrow_mut(|bytes| {
            bytes.clear();
            bytes.extend_from_slice(&(columns.len() as u16).to_le_bytes());
            bytes.resize(2 + columns.len().div_ceil(8), 0);
            let mut long = Vec::new();
            for (position, (column, value)) in columns.iter().zip(values).enumerate() {
                if value.is_null() {
                    bytes[2 + position / 8] |= 1 << (position % 8);
                } else {
                    encode_value(column, value, bytes, &mut long)?;
                }
            }
            let long = if long.is_empty() { None } else { Some(Arc::new(long)) };
            Ok(Row { bytes: bytes.as_slice().into(), long })
        })
    }

    /// The value of one column.
    pub fn get(&self, schema: &TableSchema, column: usize) -> Value {
        let mut reader = Reader::new(self);
        if column >= reader.column_count {
            return schema.columns[column].value_when_absent.clone();
        }
        if reader.is_null(column) {
            return Value::Null;
        }
        for (position, skipped) in schema.columns[..column].iter().enumerate() {
            reader.skip(position, skipped.sql_type);
        }
        reader.read(column, schema.columns[column].sql_type)
    }

    /// Whether one column is NULL: known without decoding it.
    pub fn is_null(&self, schema: &TableSchema, column: usize) -> bool {
        let reader = Reader::new(self);
        if column < reader.column_count {
            reader.is_null(column)
        } else {
            schema.columns[column].value_when_absent.is_null()
        }
    }

    /// The values of all columns.
    pub fn values(&self, schema: &TableSchema) -> Vec<Value> {
        self.values_if(schema, |_| true)
    }

    /// The values of the columns that are wanted; NULL for the others.
    pub(super) fn values_if(&self, schema: &TableSchema, is_wanted: impl Fn(usize) -> bool) -> Vec<Value> {
        let mut reader = Reader::new(self);
        let mut values = Vec::with_capacity(schema.columns.len());
        for (position, column) in schema.columns.iter().enumerate() {
            if position >= reader.column_count {
                values.push(column.value_when_absent.clone());
            } else if is_wanted(position) {
                values.push(reader.read(position, column.sql_type));
            } else {
                reader.skip(position, column.sql_type);
                values.push(Value::Null);
            }
        }
        values
    }
}

/// Whether a decimal of this precision fits into eight bytes.
fn is_short_decimal(precision: u8) -> bool {
    precision <= 18
}

fn encode_value(column: &Column, value: &Value, out: &mut Vec<u8>, long: &mut Vec<Value>) -> SqlResult<()> {
    match (column.sql_type, value) {
        (SqlType::Bit, Value::Bit(bit)) => out.push(u8::from(*bit)),
        (SqlType::TinyInt, Value::TinyInt(number)) => out.push(*number),
        (SqlType::SmallInt, Value::SmallInt(number)) => out.extend_from_slice(&number.to_le_bytes()),
        (SqlType::Int, Value::Int(number)) => out.extend_from_slice(&number.to_le_bytes()),
        (SqlType::BigInt, Value::BigInt(number)) => out.extend_from_slice(&number.to_le_bytes()),
        (SqlType::Decimal { precision, scale, .. }, Value::Decimal(number)) if number.scale == scale => {
            let mantissa = number.mantissa.to_le_bytes();
            let length = if is_short_decimal(precision) { 8 } else { 16 };
            out.extend_from_slice(&mantissa[..length]);
        }
        (SqlType::Real, Value::Real(number)) => out.extend_from_slice(&number.to_le_bytes()),
        (SqlType::Float, Value::Float(number)) => out.extend_from_slice(&number.to_le_bytes()),
        (SqlType::Date, Value::Date(day)) => encode_day(*day, out),
        (SqlType::Time(_), Value::Time(ticks)) => encode_ticks(*ticks, out),
        (SqlType::DateTime | SqlType::DateTime2(_), Value::DateTime(day, ticks)) => {
            encode_day(*day, out);
            encode_ticks(*ticks, out);
        }
        (SqlType::DateTimeOffset(_), Value::DateTimeOffset(day, ticks, offset)) => {
            encode_day(*day, out);
            encode_ticks(*ticks, out);
            out.extend_from_slice(&offset.to_le_bytes());
        }
        (SqlType::UniqueIdentifier, Value::Uuid(uuid)) => out.extend_from_slice(uuid.as_bytes()),
        (
            SqlType::Char(_)
            | SqlType::VarChar(_)
            | SqlType::NChar(_)
            | SqlType::NVarChar(_)
            | SqlType::Text
            | SqlType::NText,
            Value::String(text),
        ) => encode_text(text.as_bytes(), value, out, long),
        (SqlType::Binary(_) | SqlType::VarBinary(_) | SqlType::Image | SqlType::RowVersion, Value::Bytes(bytes)) => {
            encode_text(bytes, value, out, long);
        }
        (SqlType::Variant, Value::Variant(_)) => long.push(value.clone()),
        (sql_type, value) => {
            return Err(SqlError::not_supported(format!(
                "storing {value:?} in column '{}' of type {sql_type:?}",
                column.name
            )));
        }
    }
    Ok(())
}

/// A day fits into three bytes (year 9999 is day 3,652,058), a time of day into five.
fn encode_day(day: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&day.to_le_bytes()[..3]);
}

fn encode_ticks(ticks: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&ticks.to_le_bytes()[..5]);
}

/// What stands in place of a length when the value is a long one.
const LONG_MARK: u16 = u16::MAX;

fn encode_text(bytes: &[u8], value: &Value, out: &mut Vec<u8>, long: &mut Vec<Value>) {
    if bytes.len() > MAX_INLINE {
        out.extend_from_slice(&LONG_MARK.to_le_bytes());
        long.push(value.clone());
        return;
    }
    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Goes through a row's values from the first to the last.
struct Reader<'row> {
    row: &'row Row,
    column_count: usize,
    offset: usize,
    next_long: usize,
}

impl<'row> Reader<'row> {
    #[inline]
    fn new(row: &'row Row) -> Self {
        let column_count = usize::from(u16::from_le_bytes([row.bytes[0], row.bytes[1]]));
        Reader { row, column_count, offset: 2 + column_count.div_ceil(8), next_long: 0 }
    }

    #[inline]
    fn is_null(&self, position: usize) -> bool {
        self.row.bytes[2 + position / 8] & (1 << (position % 8)) != 0
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        taken.copy_from_slice(&self.row.bytes[self.offset..self.offset + N]);
        self.offset += N;
        taken
    }

    fn take_day(&mut self) -> u32 {
        let [a, b, c] = self.take();
        u32::from_le_bytes([a, b, c, 0])
    }

    fn take_ticks(&mut self) -> u64 {
        let [a, b, c, d, e] = self.take();
        u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
    }

    /// The bytes of a text or binary value, or the long value itself.
    fn take_text(&mut self) -> Result<&'row [u8], Value> {
        let length = u16::from_le_bytes(self.take());
        if length == LONG_MARK {
            let long = self.row.long.as_ref().expect("a long value was kept when the row was encoded");
            let value = long[self.next_long].clone();
            self.next_long += 1;
            return Err(value);
        }
        let start = self.offset;
        self.offset += usize::from(length);
        Ok(&self.row.bytes[start..self.offset])
    }

    #[inline]
    fn skip(&mut self, position: usize, sql_type: SqlType) {
        if self.is_null(position) {
            return;
        }
        let length = match sql_type {
            SqlType::Bit | SqlType::TinyInt => 1,
            SqlType::SmallInt => 2,
            SqlType::Int | SqlType::Real => 4,
            SqlType::BigInt | SqlType::Float => 8,
            SqlType::Decimal { precision, .. } => {
                if is_short_decimal(precision) {
                    8
                } else {
                    16
                }
            }
            SqlType::Date => 3,
            SqlType::Time(_) => 5,
            SqlType::DateTime | SqlType::DateTime2(_) => 8,
            SqlType::DateTimeOffset(_) => 10,
            SqlType::UniqueIdentifier => 16,
            SqlType::Char(_)
            | SqlType::VarChar(_)
            | SqlType::NChar(_)
            | SqlType::NVarChar(_)
            | SqlType::Binary(_)
            | SqlType::VarBinary(_)
            | SqlType::Text
            | SqlType::NText
            | SqlType::Image
            | SqlType::RowVersion => {
                let length = u16::from_le_bytes(self.take());
                if length == LONG_MARK {
                    self.next_long += 1;
                    return;
                }
                usize::from(length)
            }
            SqlType::Variant => {
                self.next_long += 1;
                return;
            }
        };
        self.offset += length;
    }

    fn read(&mut self, position: usize, sql_type: SqlType) -> Value {
        if self.is_null(position) {
            return Value::Null;
        }
        match sql_type {
            SqlType::Bit => Value::Bit(self.take::<1>()[0] != 0),
            SqlType::TinyInt => Value::TinyInt(self.take::<1>()[0]),
            SqlType::SmallInt => Value::SmallInt(i16::from_le_bytes(self.take())),
            SqlType::Int => Value::Int(i32::from_le_bytes(self.take())),
            SqlType::BigInt => Value::BigInt(i64::from_le_bytes(self.take())),
            SqlType::Decimal { precision, scale, .. } => {
                let mantissa = if is_short_decimal(precision) {
                    i128::from(i64::from_le_bytes(self.take()))
                } else {
                    i128::from_le_bytes(self.take())
                };
                Value::Decimal(Box::new(Decimal { mantissa, precision, scale }))
            }
            SqlType::Real => Value::Real(f32::from_le_bytes(self.take())),
            SqlType::Float => Value::Float(f64::from_le_bytes(self.take())),
            SqlType::Date => Value::Date(self.take_day()),
            SqlType::Time(_) => Value::Time(self.take_ticks()),
            SqlType::DateTime | SqlType::DateTime2(_) => {
                let day = self.take_day();
                Value::DateTime(day, self.take_ticks())
            }
            SqlType::DateTimeOffset(_) => {
                let day = self.take_day();
                let ticks = self.take_ticks();
                Value::DateTimeOffset(day, ticks, i16::from_le_bytes(self.take()))
            }
            SqlType::UniqueIdentifier => Value::Uuid(Uuid::from_bytes(self.take())),
            SqlType::Char(_)
            | SqlType::VarChar(_)
            | SqlType::NChar(_)
            | SqlType::NVarChar(_)
            | SqlType::Text
            | SqlType::NText => match self.take_text() {
                Ok(bytes) => {
                    let text = std::str::from_utf8(bytes).expect("the row was encoded from a str");
                    Value::String(text.into())
                }
                Err(long) => long,
            },
            SqlType::Binary(_) | SqlType::VarBinary(_) | SqlType::Image | SqlType::RowVersion => match self.take_text()
            {
                Ok(bytes) => Value::Bytes(bytes.into()),
                Err(long) => long,
            },
            SqlType::Variant => {
                let long = self.row.long.as_ref().expect("it was kept when the row was encoded");
                self.next_long += 1;
                long[self.next_long - 1].clone()
            }
        }
    }
}
