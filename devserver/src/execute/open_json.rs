//! OPENJSON: the members or elements of a JSON text as rows.
//!
//! Source: "OPENJSON" (MicrosoftDocs/sql-docs, docs/t-sql/functions/openjson-transact-sql.md).

use std::sync::Arc;

use crate::error::SqlResult;
use crate::value::Value;
use crate::value::builtin::json::{Kind, document};

pub fn rows(json: &Value) -> SqlResult<Vec<Vec<Value>>> {
    let Some(text) = json.as_str() else { return Ok(Vec::new()) };
    let found = document(text)?;
    if !found.is_composite() {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for (position, (key, item)) in found.children()?.into_iter().enumerate() {
        let key = key.unwrap_or_else(|| position.to_string());
        let value = if item.is_composite() { Some(item.text.to_string()) } else { item.scalar()? };
        let kind = match item.kind {
            Kind::Null => 0,
            Kind::Text => 1,
            Kind::Number => 2,
            Kind::Boolean => 3,
            Kind::Array => 4,
            Kind::Object => 5,
        };
        let value = value.map_or(Value::Null, |value| Value::String(Arc::from(value)));
        rows.push(vec![Value::String(Arc::from(key)), value, Value::Int(kind)]);
    }
    Ok(rows)
}
