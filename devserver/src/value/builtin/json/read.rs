//! JSON_VALUE, JSON_QUERY and ISJSON.
//!
//! Sources: docs/t-sql/functions/json-value-transact-sql.md, json-query-transact-sql.md and isjson-transact-sql.md.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::{Between, Exactly};
use crate::value::builtin::definition::{Arguments, Builtin};
use crate::value::builtin::json::path::{Path, follow, no_composite, no_scalar};
use crate::value::builtin::json::scanner::{Kind, Scanner};
use crate::value::builtin::result::always_int;
use crate::value::convert::text::utf16_length;
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;
use std::sync::Arc;

/// The longest result of JSON_VALUE, in UTF-16 units.
const MAX_VALUE: u16 = 4_000;

pub(in crate::value::builtin) const FUNCTIONS: &[Builtin] = &[
    Builtin::new("ISJSON", Exactly(1), always_int, is_json),
    Builtin::new("JSON_VALUE", Exactly(2), |_| Ok(SqlType::NVarChar(Length::Limit(MAX_VALUE))), json_value),
    Builtin::new("JSON_QUERY", Between(1, 2), |_| Ok(SqlType::NVarChar(Length::Max)), json_query),
];

/// 1 for an object or an array, 0 for anything else, valid scalars included.
fn is_json(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let text = arguments.text(0)?;
    let scanned = Scanner::new(&text).document();
    let is_composite = scanned.is_ok_and(|item| matches!(item.kind, Kind::Object | Kind::Array));
    Ok(Value::Int(i32::from(is_composite)))
}

fn json_value(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let (text, path) = (arguments.text(0)?, Path::parse(&arguments.text(1)?)?);
    let Some(found) = follow(&text, &path)? else {
        return Ok(Value::Null);
    };
    if found.is_composite() && path.strict {
        return Err(no_scalar());
    }
    let Some(scalar) = found.scalar() else { return Ok(Value::Null) };
    if utf16_length(&scalar) > usize::from(MAX_VALUE) {
        if path.strict {
            return Err(SqlError::new(13625, "String value in the specified JSON path would be truncated."));
        }
        return Ok(Value::Null);
    }
    Ok(Value::String(Arc::from(scalar)))
}

fn json_query(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let text = arguments.text(0)?;
    let path = if arguments.count() > 1 { Path::parse(&arguments.text(1)?)? } else { Path::default() };
    let Some(found) = follow(&text, &path)? else {
        return Ok(Value::Null);
    };
    match found.kind {
        Kind::Object | Kind::Array => Ok(Value::String(Arc::from(found.text))),
        _ if path.strict => Err(no_composite()),
        _ => Ok(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use crate::value::builtin::tests::{call, nvarchar, varchar};

    const INFO: &str = r#"{ "info":{ "type":1, "address":{ "town":"Bristol", "county":"Avon" },
        "tags":["Sport", "Water polo"] }, "type":"Basic" }"#;

    fn value(path: &str) -> Result<String, i32> {
        call("JSON_VALUE", &[nvarchar(INFO), varchar(path)])
    }

    // The table of docs/t-sql/functions/json-value-transact-sql.md
    #[test]
    fn scalars_by_path() {
        let cases = [
            ("$", "NULL", Err(13623)),
            ("$.info.type", "1", Ok("1")),
            ("$.info.address.town", "Bristol", Ok("Bristol")),
            ("$.info.\"address\"", "NULL", Err(13623)),
            ("$.info.tags", "NULL", Err(13623)),
            ("$.info.tags[1]", "Water polo", Ok("Water polo")),
            ("$.info.type[0]", "NULL", Err(13608)),
            ("$.info.none", "NULL", Err(13608)),
        ];
        for (path, lax, strict) in cases {
            assert_eq!(value(path).as_deref(), Ok(lax), "lax {path}");
            assert_eq!(value(&format!("strict {path}")), strict.map(str::to_string), "strict {path}");
        }
        assert_eq!(value("info"), Err(13607));
        assert_eq!(value("$.info."), Err(13607));
    }

    // docs/t-sql/functions/json-query-transact-sql.md
    #[test]
    fn objects_and_arrays_come_back_as_written() {
        let query = |path: &str| call("JSON_QUERY", &[nvarchar(INFO), varchar(path)]);
        assert_eq!(query("$.info.tags").as_deref(), Ok("[\"Sport\", \"Water polo\"]"));
        assert_eq!(query("$.info.type").as_deref(), Ok("NULL"));
        assert_eq!(query("strict $.info.type"), Err(13624));
        assert_eq!(call("JSON_QUERY", &[nvarchar("[1, 2]")]).as_deref(), Ok("[1, 2]"));
    }

    #[test]
    fn texts_that_are_no_json() {
        assert_eq!(call("JSON_VALUE", &[nvarchar("{\"a\":1"), varchar("$.a")]), Err(13609));
        assert_eq!(call("JSON_VALUE", &[nvarchar("{'a':1}"), varchar("$.a")]), Err(13609));
        for (text, expected) in
            [("{}", "1"), ("[1]", "1"), ("1", "0"), ("{\"a\":01}", "0"), ("{\"a\":1,}", "0"), ("", "0"), (" [] ", "1")]
        {
            assert_eq!(call("ISJSON", &[nvarchar(text)]).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn escapes_and_exact_numbers() {
        let text = nvarchar(r#"{"k\u0065y": "a\"\u20AC\ud83d\ude00\n", "n": 1.50e+03, "t": true, "z": null, "n": 2}"#);
        let value = |path: &str| call("JSON_VALUE", &[text.clone(), varchar(path)]);
        assert_eq!(value("$.key").as_deref(), Ok("a\"€😀\n"));
        assert_eq!(value("$.n").as_deref(), Ok("1.50e+03"));
        assert_eq!(value("$.t").as_deref(), Ok("true"));
        assert_eq!(value("$.z").as_deref(), Ok("NULL"));
    }
}
