//! One value of any data type.

use crate::value::datetime::{Day, Ticks};
use crate::value::decimal::Decimal;
use crate::value::types::SqlType;
use std::sync::Arc;
use uuid::Uuid;

/// One value. It does not know its declared length or scale: the column or the expression does.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bit(bool),
    TinyInt(u8),
    SmallInt(i16),
    Int(i32),
    BigInt(i64),
    Decimal(Box<Decimal>),
    Real(f32),
    Float(f64),
    /// Every character type. Half a surrogate pair is held as `units.rs` says.
    String(Arc<str>),
    /// `binary`, `varbinary`, `rowversion`.
    Bytes(Arc<[u8]>),
    Date(Day),
    Time(Ticks),
    /// `datetime` and `datetime2`.
    DateTime(Day, Ticks),
    /// `datetimeoffset`: the UTC day and time, and the offset in minutes.
    DateTimeOffset(Day, Ticks, i16),
    Uuid(Uuid),
    /// `sql_variant`.
    Variant(Arc<Variant>),
}

/// What a `sql_variant` holds: neither NULL nor another `sql_variant`.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    pub base: SqlType,
    pub value: Value,
}

/// The rows of INSERT … EXEC, each with the types of its values.
pub type TypedRows = Vec<(Vec<Value>, Arc<[SqlType]>)>;

impl Value {
    /// A value of `base` as a `sql_variant`.
    pub fn variant(base: SqlType, value: Value) -> Value {
        if value.is_null() { Value::Null } else { Value::Variant(Arc::new(Variant { base, value })) }
    }

    /// Whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// An integer or bit as `i64`; none for everything else.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::Bit(v) => Some(i64::from(v)),
            Value::TinyInt(v) => Some(i64::from(v)),
            Value::SmallInt(v) => Some(i64::from(v)),
            Value::Int(v) => Some(i64::from(v)),
            Value::BigInt(v) => Some(v),
            _ => None,
        }
    }

    /// The text of a character value; none for everything else.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes of a binary value; none for everything else.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}
