//! FORMATMESSAGE, and the message text of RAISERROR: `%s`, `%d` and `%i` as in "RAISERROR", *msg_str*
//! (docs/t-sql/language-elements/raiserror-transact-sql.md).

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::Between;
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::convert::text::utf16_length;
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;
use std::sync::Arc;

/// 20 arguments after the text.
const MAX_ARGUMENTS: usize = 20;
/// Longer ones are cut by SQL Server.
const MAX_MESSAGE: usize = 2_047;

pub(super) const FUNCTIONS: &[Builtin] =
    &[Builtin::new("FORMATMESSAGE", Between(1, 1 + MAX_ARGUMENTS), result_type, evaluate).passing_nulls()];

fn result_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    if !arguments[0].ty.is_character() {
        return Err(SqlError::not_supported("FORMATMESSAGE with a message number"));
    }
    Ok(SqlType::NVarChar(Length::Limit(2048)))
}

fn evaluate(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let Some(text) = arguments.text_or_null(0)? else {
        return Ok(Value::Null);
    };
    let message = format_message(&text, &arguments.values[1..])?;
    Ok(Value::String(Arc::from(message)))
}

/// Puts the values into the text.
///
/// # Errors
/// A refusal of flags, widths and other letters, and of a value that is not of the kind its place asks for.
pub fn format_message(text: &str, values: &[Value]) -> SqlResult<String> {
    let mut message = String::with_capacity(text.len());
    let mut values = values.iter();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        message.push_str(&rest[..at]);
        let after_percent = &rest[at + 1..];
        if let Some(after) = after_percent.strip_prefix('%') {
            message.push('%');
            rest = after;
            continue;
        }
        let (formatted, after) = format_one(after_percent, &mut values)?;
        message.push_str(&formatted);
        rest = after;
    }
    message.push_str(rest);
    if utf16_length(&message) > MAX_MESSAGE {
        return Err(SqlError::not_supported("a message of more than 2,047 characters"));
    }
    Ok(message)
}

/// Reads one specification, formats its value, and returns what follows.
fn format_one<'a>(text: &'a str, values: &mut std::slice::Iter<'_, Value>) -> SqlResult<(String, &'a str)> {
    let refused = || SqlError::not_supported(format!("the format specification '%{text}' of such a value"));
    let letter = text.chars().next().filter(|letter| matches!(letter, 'd' | 'i' | 's')).ok_or_else(refused)?;
    let body = match (values.next(), letter) {
        // A missing value and NULL look alike.
        (None | Some(Value::Null), _) => "(null)".to_string(),
        (Some(Value::String(text)), 's') => text.to_string(),
        (Some(value @ (Value::TinyInt(_) | Value::SmallInt(_) | Value::Int(_))), 'd' | 'i') => {
            value.as_i64().unwrap_or_default().to_string()
        }
        _ => return Err(refused()),
    };
    Ok((body, &text[1..]))
}
