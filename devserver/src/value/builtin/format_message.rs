//! FORMATMESSAGE, and the message text of RAISERROR: `%s`, `%d` and `%i` as in "RAISERROR", *msg_str*
//! (docs/t-sql/language-elements/raiserror-transact-sql.md).

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::Between;
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::convert::text::{split_units, utf16_length};
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;
use std::sync::Arc;

/// 20 arguments after the text.
const MAX_ARGUMENTS: usize = 20;
/// "If the message contains 2,048 or more characters, only the first 2,044 are displayed and an ellipsis is added."
const MAX_MESSAGE: usize = 2_047;
const KEPT_OF_LONG_MESSAGE: usize = 2_044;

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
/// 2786 if a value is not of the kind its place asks for, 2787 for a place that is not well-formed; a refusal of flags,
/// widths and other letters.
pub fn format_message(text: &str, values: &[Value]) -> SqlResult<String> {
    let mut message = String::with_capacity(text.len());
    let mut values = values.iter().enumerate();
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
        let (kept, _) = split_units(&message, KEPT_OF_LONG_MESSAGE)?;
        return Ok(format!("{kept}..."));
    }
    Ok(message)
}

type NumberedValues<'a> = std::iter::Enumerate<std::slice::Iter<'a, Value>>;

/// Reads one specification, formats its value, and returns what follows.
fn format_one<'a>(text: &'a str, values: &mut NumberedValues<'_>) -> SqlResult<(String, &'a str)> {
    let letter = match text.chars().next() {
        Some(letter @ ('d' | 'i' | 's')) => letter,
        Some('-' | '+' | '0'..='9' | '#' | ' ' | '*' | '.' | 'h' | 'I' | 'l' | 'o' | 'u' | 'x' | 'X') => {
            return Err(SqlError::not_supported(format!("the format specification '%{text}'")));
        }
        _ => return Err(SqlError::new(2787, format!("Invalid format specification: '%{text}'."))),
    };
    let body = match (values.next(), letter) {
        // A missing value and NULL look alike.
        (None | Some((_, Value::Null)), _) => "(null)".to_string(),
        (Some((_, Value::String(text))), 's') => text.to_string(),
        (Some((at, value)), 'd' | 'i') if !matches!(value, Value::Bit(_) | Value::BigInt(_)) => {
            value.as_i64().ok_or_else(|| wrong_type(at))?.to_string()
        }
        (Some((at, _)), _) => return Err(wrong_type(at)),
    };
    Ok((body, &text[1..]))
}

/// 2786; the values are counted from 0 here and from 1 in the message.
fn wrong_type(at: usize) -> SqlError {
    let position = at + 1;
    SqlError::new(
        2786,
        format!(
            "The data type of substitution parameter {position} does not match the expected type of the format \
             specification."
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::builtin::tests::{call, int, nvarchar, varchar};

    fn text(value: &str) -> Value {
        Value::String(Arc::from(value))
    }

    // The examples of docs/t-sql/functions/formatmessage-transact-sql.md and raiserror-transact-sql.md
    #[test]
    fn documented_messages() {
        let cases = [
            ("Signed int %i", Value::Int(-5), "Signed int -5"),
            ("Hello %s!", text("TEST"), "Hello TEST!"),
            ("100%% %s", Value::Null, "100% (null)"),
        ];
        for (format, value, expected) in cases {
            assert_eq!(format_message(format, &[value]).unwrap(), expected, "{format}");
        }
        for format in ["%03i", "%-20s", "%.3s", "%*s", "%u", "%x", "%I64d"] {
            assert_eq!(format_message(format, &[]).unwrap_err().number, crate::error::NOT_SUPPORTED, "{format}");
        }
    }

    #[test]
    fn wrong_values_and_specifications() {
        assert_eq!(format_message("%d", &[text("5")]).unwrap_err().number, 2786);
        assert_eq!(format_message("%s", &[Value::Int(5)]).unwrap_err().number, 2786);
        assert_eq!(format_message("%d", &[Value::BigInt(5)]).unwrap_err().number, 2786);
        assert_eq!(format_message("%p", &[]).unwrap_err().number, 2787);
        assert_eq!(format_message("a %s b", &[]).unwrap(), "a (null) b");
        assert_eq!(format_message(&"x".repeat(3000), &[]).unwrap().len(), 2047);
    }

    #[test]
    fn the_function_takes_a_text() {
        assert_eq!(call("FORMATMESSAGE", &[varchar("%s %d"), nvarchar("n"), int(5)]), Ok("n 5".into()));
        assert_eq!(call("FORMATMESSAGE", &[int(20009)]), Err(59_000));
    }
}
