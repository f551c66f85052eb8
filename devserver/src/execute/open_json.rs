//! OPENJSON: the members or elements of a JSON text as rows.
//!
//! Source: "OPENJSON" (MicrosoftDocs/sql-docs, docs/t-sql/functions/openjson-transact-sql.md).

use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Frame, Run};
use crate::plan::table_function::{JsonColumn, OpenJson};
use crate::value::builtin::json::path::{Path, follow, follow_from, no_composite, no_scalar};
use crate::value::builtin::json::scanner::{Item, Kind};
use crate::value::units::units;
use crate::value::{self, Length, SqlType, Value};

pub fn rows(call: &OpenJson, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<Vec<Value>>> {
    let json = call.json.eval(run, frame)?;
    let Some(text) = json.as_str() else { return Ok(Vec::new()) };
    let path = match &call.path {
        None => Path::default(),
        Some(path) => match path.eval(run, frame)?.as_str() {
            Some(path) => Path::parse(path)?,
            None => return Ok(Vec::new()),
        },
    };
    let Some(found) = follow(text, &path)? else { return Ok(Vec::new()) };
    if !found.is_composite() {
        if path.strict {
            return Err(SqlError::new(
                13611,
                "Value referenced by JSON path is not an array or object and cannot be opened with OPENJSON.",
            ));
        }
        return Ok(Vec::new());
    }
    let Some(columns) = &call.columns else { return default_rows(found) };
    // Each element of an array is a row; an object is one row.
    let items = match found.kind {
        Kind::Array => found.children()?.into_iter().map(|(_, item)| item).collect(),
        _ => vec![found],
    };
    let mut rows = Vec::with_capacity(items.len());
    for item in items {
        let mut row = Vec::with_capacity(columns.len());
        for column in columns {
            row.push(column_value(column, item)?);
        }
        rows.push(row);
    }
    Ok(rows)
}

fn default_rows(found: Item<'_>) -> SqlResult<Vec<Vec<Value>>> {
    let mut rows = Vec::new();
    for (position, (key, item)) in found.children()?.into_iter().enumerate() {
        let key = key.unwrap_or_else(|| position.to_string());
        let value = if item.is_composite() { Some(item.text.to_string()) } else { item.scalar() };
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

fn column_value(column: &JsonColumn, item: Item<'_>) -> SqlResult<Value> {
    let Some(found) = follow_from(item, &column.path)? else { return Ok(Value::Null) };
    if column.as_json {
        if found.is_composite() {
            return Ok(Value::String(Arc::from(found.text)));
        }
        return if column.path.strict { Err(no_composite()) } else { Ok(Value::Null) };
    }
    if found.is_composite() {
        return if column.path.strict { Err(no_scalar()) } else { Ok(Value::Null) };
    }
    let Some(text) = found.scalar() else { return Ok(Value::Null) };
    if let Some(limit) = column.ty.length().and_then(Length::limit)
        && units(&text).count() > limit
    {
        return Err(SqlError::not_supported("OPENJSON … WITH a text that is longer than its column"));
    }
    let text = Value::String(Arc::from(text));
    value::convert(text, SqlType::NVarChar(Length::Max), column.ty, None, true)
}
