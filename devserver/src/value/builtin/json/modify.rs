//! JSON_MODIFY: a JSON text with one property changed, added or taken away; the rest of the text stays as it was
//! written.
//!
//! Source: docs/t-sql/functions/json-modify-transact-sql.md of MicrosoftDocs/sql-docs.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::builtin::json::path::{Path, Step, follow};
use crate::value::builtin::json::scanner::{Item, Kind};
use crate::value::convert::cast::convert;
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;

pub(in crate::value::builtin) const FUNCTIONS: &[Builtin] = &[
    Builtin::new("JSON_MODIFY", Exactly(3), result_type, |arguments| modify(arguments, false)).passing_nulls(),
    Builtin::new(WITH_FRAGMENT, Exactly(3), result_type, |arguments| modify(arguments, true)).passing_nulls(),
];

/// JSON_MODIFY whose new value is the result of JSON_QUERY or JSON_MODIFY: it is JSON already. The name cannot be
/// written in T-SQL.
pub const WITH_FRAGMENT: &str = "JSON_MODIFY WITH A FRAGMENT";

fn result_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    let ty = arguments[2].ty;
    let is_null = arguments[2].constant.is_some_and(Value::is_null);
    let is_known_number = ty.is_number() && !ty.is_money();
    if is_null || ty.is_character() || is_known_number || ty == SqlType::Bit {
        return Ok(SqlType::NVarChar(Length::Max));
    }
    Err(SqlError::not_supported(format!("JSON_MODIFY with a new value of type {}", ty.name())))
}

fn modify(arguments: &Arguments<'_>, is_fragment: bool) -> SqlResult<Value> {
    let Some(text) = arguments.text_or_null(0)? else { return Ok(Value::Null) };
    let Some(path) = arguments.text_or_null(1)? else {
        return Err(SqlError::not_supported("JSON_MODIFY with a path of NULL"));
    };
    let (append, path) = match path.trim_start_matches(' ').strip_prefix("append ") {
        Some(rest) => (true, Path::parse(rest)?),
        None => (false, Path::parse(&path)?),
    };
    let new = new_value(arguments, is_fragment)?;
    Ok(Value::String(Arc::from(edit(&text, &path, append, new.as_deref())?)))
}

/// The new value as JSON; `None` for NULL.
fn new_value(arguments: &Arguments<'_>, is_fragment: bool) -> SqlResult<Option<String>> {
    let (value, ty) = (&arguments.values[2], arguments.types[2]);
    if value.is_null() {
        return Ok(None);
    }
    if let Value::Bit(bit) = value {
        return Ok(Some(bit.to_string()));
    }
    if ty.is_number() {
        let text = convert(value.clone(), ty, SqlType::VarChar(Length::Max), None, true)?;
        if matches!(value, Value::Float(_) | Value::Real(_)) {
            return Err(SqlError::not_supported("JSON_MODIFY with a new value of type float or real"));
        }
        return Ok(text.as_str().map(str::to_string));
    }
    let text = arguments.text(2)?;
    Ok(Some(if is_fragment { text.to_string() } else { quoted(&text) }))
}

/// A JSON string, escaped as SQL Server does it: with `\/` for a slash.
pub fn quoted(text: &str) -> String {
    let mut result = String::with_capacity(text.len() + 2);
    result.push('"');
    for character in text.chars() {
        match character {
            '"' => result.push_str("\\\""),
            '\\' => result.push_str("\\\\"),
            '/' => result.push_str("\\/"),
            '\u{8}' => result.push_str("\\b"),
            '\u{c}' => result.push_str("\\f"),
            '\n' => result.push_str("\\n"),
            '\r' => result.push_str("\\r"),
            '\t' => result.push_str("\\t"),
            control if control < ' ' => {
                write!(result, "\\u{:04x}", u32::from(control)).expect("a String takes all that is written");
            }
            other => result.push(other),
        }
    }
    result.push('"');
    result
}

/// Where a value stands in its text, quotes included.
fn span(text: &str, item: Item<'_>) -> Range<usize> {
    let start = item.text.as_ptr() as usize - text.as_ptr() as usize;
    let quote = usize::from(item.kind == Kind::Text);
    start - quote..start + item.text.len() + quote
}

fn replaced(text: &str, range: Range<usize>, by: &str) -> String {
    format!("{}{by}{}", &text[..range.start], &text[range.end..])
}

fn edit(text: &str, path: &Path, append: bool, new: Option<&str>) -> SqlResult<String> {
    let lax = Path { strict: false, steps: path.steps.clone() };
    let found = follow(text, &lax)?;
    if append {
        let Some(array) = found.filter(|item| item.kind == Kind::Array) else {
            return Err(SqlError::not_supported("JSON_MODIFY that appends to what is no array"));
        };
        return Ok(with_child(text, array, new.unwrap_or("null")));
    }
    if path.steps.is_empty() {
        return Err(SqlError::not_supported("JSON_MODIFY of the path $"));
    }
    match (found, new) {
        (Some(item), Some(new)) => Ok(replaced(text, span(text, item), new)),
        (Some(item), None) if path.strict => Ok(replaced(text, span(text, item), "null")),
        (Some(item), None) => without_member(text, path, item),
        (None, _) if path.strict => {
            Err(SqlError::new(13608, "Property cannot be found on the specified JSON path.").state(2))
        }
        (None, None) => Ok(text.to_string()),
        (None, Some(new)) => {
            let Some((Step::Key(key), parents)) = path.steps.split_last() else {
                return Err(SqlError::not_supported("JSON_MODIFY of an array element that is not there"));
            };
            let parent = follow(text, &Path { strict: false, steps: parents.to_vec() })?;
            match parent.filter(|item| item.kind == Kind::Object) {
                Some(object) => Ok(with_child(text, object, &format!("{}:{new}", quoted(key)))),
                None => Ok(text.to_string()),
            }
        }
    }
}

/// The text with one more member or element at the end of an object or array.
fn with_child(text: &str, parent: Item<'_>, child: &str) -> String {
    let span = span(text, parent);
    let inner = text[span.start..span.end - 1].trim_end();
    let is_empty = inner.len() == 1;
    let end = span.start + inner.len();
    replaced(text, end..end, &if is_empty { child.to_string() } else { format!(",{child}") })
}

/// The text without a member of an object, and without the comma that parted it from the others.
fn without_member(text: &str, path: &Path, item: Item<'_>) -> SqlResult<String> {
    let Some((Step::Key(_), _)) = path.steps.split_last() else {
        return Err(SqlError::not_supported("JSON_MODIFY that takes an element out of an array"));
    };
    let value = span(text, item);
    // The key ends before the colon; its opening quote is the first one going back that is not escaped.
    let colon = text[..value.start].rfind(':').expect("a member has a colon before its value");
    let key_end = text[..colon].rfind('"').expect("a member has a key in quotes");
    let mut key_start = text[..key_end].rfind('"').expect("a member has a key in quotes");
    while text[..key_start].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1 {
        key_start = text[..key_start].rfind('"').expect("a member has a key in quotes");
    }
    let before = text[..key_start].trim_end();
    if before.ends_with(',') {
        return Ok(replaced(text, before.len() - 1..value.end, ""));
    }
    let after = text[value.end..].trim_start();
    let end = if after.starts_with(',') { text.len() - after.len() + 1 } else { value.end };
    Ok(replaced(text, key_start..end, ""))
}

#[cfg(test)]
mod tests {
    use crate::value::builtin::tests::{call, int, null, nvarchar, varchar};
    use crate::value::types::SqlType;
    use crate::value::values::Value;

    const INFO: &str = r#"{"name":"John","skills":["C#","SQL"]}"#;

    fn modified(path: &str, new: (Value, SqlType)) -> Result<String, i32> {
        call("JSON_MODIFY", &[nvarchar(INFO), varchar(path), new])
    }

    // The examples of docs/t-sql/functions/json-modify-transact-sql.md
    #[test]
    fn the_examples_of_the_page() {
        assert_eq!(modified("$.name", varchar("Mike")).as_deref(), Ok(r#"{"name":"Mike","skills":["C#","SQL"]}"#));
        assert_eq!(
            modified("$.surname", varchar("Smith")).as_deref(),
            Ok(r#"{"name":"John","skills":["C#","SQL"],"surname":"Smith"}"#)
        );
        assert_eq!(modified("strict $.name", null()).as_deref(), Ok(r#"{"name":null,"skills":["C#","SQL"]}"#));
        assert_eq!(modified("$.name", null()).as_deref(), Ok(r#"{"skills":["C#","SQL"]}"#));
        assert_eq!(
            modified("append $.skills", varchar("Azure")).as_deref(),
            Ok(r#"{"name":"John","skills":["C#","SQL","Azure"]}"#)
        );
    }

    // The table of lax and strict in the same page.
    #[test]
    fn a_path_that_leads_nowhere() {
        assert_eq!(modified("strict $.surname", varchar("x")), Err(13608));
        assert_eq!(modified("strict $.surname", null()), Err(13608));
        assert_eq!(modified("$.surname", null()).as_deref(), Ok(INFO));
        assert_eq!(modified("$.user.theme", varchar("x")).as_deref(), Ok(INFO));
        assert_eq!(modified("$.skills.theme", varchar("x")).as_deref(), Ok(INFO));
        assert_eq!(call("JSON_MODIFY", &[nvarchar("{"), varchar("$.a"), int(1)]), Err(13609));
    }

    #[test]
    fn numbers_texts_and_fragments() {
        assert_eq!(modified("$.name", int(5)).as_deref(), Ok(r#"{"name":5,"skills":["C#","SQL"]}"#));
        assert_eq!(
            modified("$.skills[1]", varchar("a\"/b")).as_deref(),
            Ok(r#"{"name":"John","skills":["C#","a\"\/b"]}"#)
        );
        assert_eq!(
            call(super::WITH_FRAGMENT, &[nvarchar("{ }"), varchar("$.a"), nvarchar("[1]")]).as_deref(),
            Ok(r#"{"a":[1] }"#)
        );
        assert_eq!(
            call("JSON_MODIFY", &[nvarchar(r#"{"a":1, "b":"x:\"y", "c":3}"#), varchar("$.b"), null()]).as_deref(),
            Ok(r#"{"a":1, "c":3}"#)
        );
    }
}
