//! Arguments and results of the functions about the server, the database and the session.

use crate::value::{Decimal, SqlType, Value};

pub fn text(value: impl AsRef<str>) -> Value {
    Value::String(value.as_ref().into())
}

pub fn optional_text(value: Option<impl AsRef<str>>) -> Value {
    value.map_or(Value::Null, text)
}

/// A property: a name or an `int`, as the documentation has it.
pub fn as_variant(value: Value) -> Value {
    let base = if value.as_str().is_some() { SqlType::SYSNAME } else { SqlType::Int };
    Value::variant(base, value)
}

pub fn int(value: bool) -> Value {
    Value::Int(i32::from(value))
}

pub fn identity_value(value: Option<i64>) -> Value {
    match value {
        Some(value) => Value::Decimal(Box::new(Decimal { mantissa: i128::from(value), precision: 38, scale: 0 })),
        None => Value::Null,
    }
}

pub fn as_i32(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}
