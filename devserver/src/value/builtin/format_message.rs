//! FORMATMESSAGE, and the message text of RAISERROR: `printf` as in "RAISERROR", *msg_str*
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
/// Wider fields cannot be shown anyway.
const MAX_WIDTH: usize = 2_047;

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

/// One conversion specification: what stands between `%` and the type letter.
#[derive(Debug, Default)]
struct Specification {
    left: bool,
    plus: bool,
    zero: bool,
    alternate: bool,
    blank: bool,
    width: usize,
    precision: Option<usize>,
    is_short: bool,
    is_big: bool,
}

/// Puts the values into the text.
///
/// # Errors
/// 2786 if a value is not of the kind its place asks for, 2787 for a place that is not well-formed.
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
    let invalid = || SqlError::new(2787, format!("Invalid format specification: '%{text}'."));
    let mut specification = Specification::default();
    let mut rest = text;
    loop {
        match rest.as_bytes().first() {
            Some(b'-') => specification.left = true,
            Some(b'+') => specification.plus = true,
            Some(b'0') => specification.zero = true,
            Some(b'#') => specification.alternate = true,
            Some(b' ') => specification.blank = true,
            _ => break,
        }
        rest = &rest[1..];
    }
    let (width, after_width) = read_number(rest, values)?;
    specification.width = width.unwrap_or(0).min(MAX_WIDTH);
    rest = after_width;
    if let Some(after_point) = rest.strip_prefix('.') {
        let (precision, after) = read_number(after_point, values)?;
        specification.precision = Some(precision.unwrap_or(0).min(MAX_WIDTH));
        rest = after;
    }
    if let Some(after) = rest.strip_prefix("I64") {
        specification.is_big = true;
        rest = after;
    } else if let Some(after) = rest.strip_prefix('h') {
        specification.is_short = true;
        rest = after;
    } else if let Some(after) = rest.strip_prefix('l') {
        rest = after;
    }
    let letter = rest.chars().next().ok_or_else(invalid)?;
    let after = &rest[letter.len_utf8()..];
    if !matches!(letter, 'd' | 'i' | 'o' | 's' | 'u' | 'x' | 'X') {
        return Err(invalid());
    }
    let value = values.next();
    let body = match value {
        // A missing value and NULL look alike.
        None | Some((_, Value::Null)) => "(null)".to_string(),
        Some((at, value)) if letter == 's' => match value {
            Value::String(text) => match specification.precision {
                Some(precision) => split_units(text, precision)?.0.to_string(),
                None => text.to_string(),
            },
            _ => return Err(wrong_type(at)),
        },
        Some((at, value)) => return Ok((format_integer(value, at, letter, &specification)?, after)),
    };
    Ok((pad(&body, ' ', &specification), after))
}

/// A number, or `*`, which takes it from the values.
fn read_number<'a>(text: &'a str, values: &mut NumberedValues<'_>) -> SqlResult<(Option<usize>, &'a str)> {
    if let Some(after) = text.strip_prefix('*') {
        return match values.next() {
            Some((at, value)) => {
                let number = value.as_i64().and_then(|number| usize::try_from(number).ok());
                Ok((Some(number.ok_or_else(|| wrong_type(at))?), after))
            }
            None => Err(wrong_type(0)),
        };
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = if digits == 0 { None } else { Some(text[..digits].parse().unwrap_or(usize::MAX)) };
    Ok((number, &text[digits..]))
}

fn format_integer(value: &Value, at: usize, letter: char, specification: &Specification) -> SqlResult<String> {
    let number = match (value, specification.is_big) {
        (Value::BigInt(number), true) => *number,
        (Value::TinyInt(_) | Value::SmallInt(_) | Value::Int(_), false) => {
            value.as_i64().ok_or_else(|| wrong_type(at))?
        }
        // A constant beyond int is numeric; only as %I64d does it stand for a bigint.
        (Value::Decimal(number), true) if number.scale == 0 => {
            i64::try_from(number.mantissa).map_err(|_| wrong_type(at))?
        }
        _ => return Err(wrong_type(at)),
    };
    if specification.is_short {
        return Err(SqlError::not_supported("the h modifier in a message text"));
    }
    let is_signed = matches!(letter, 'd' | 'i');
    let unsigned = if is_signed {
        number.unsigned_abs()
    } else if specification.is_big {
        number as u64
    } else {
        // Negative numbers are shown as the 32 bits of an int.
        u64::from(number as u32)
    };
    let digits = match letter {
        'o' => format!("{unsigned:o}"),
        'x' => format!("{unsigned:x}"),
        'X' => format!("{unsigned:X}"),
        _ => unsigned.to_string(),
    };
    let least_digits = specification.precision.unwrap_or(0);
    let digits = format!("{digits:0>least_digits$}");
    let prefix = match letter {
        'd' | 'i' if number < 0 => "-",
        'd' | 'i' if specification.plus => "+",
        'd' | 'i' if specification.blank => " ",
        'o' if specification.alternate && unsigned != 0 => "0",
        'x' if specification.alternate && unsigned != 0 => "0x",
        'X' if specification.alternate && unsigned != 0 => "0X",
        _ => "",
    };
    let fills_with_zeros = specification.zero && !specification.left && specification.precision.is_none();
    if fills_with_zeros {
        let width = specification.width.saturating_sub(prefix.len());
        return Ok(format!("{prefix}{digits:0>width$}"));
    }
    Ok(pad(&format!("{prefix}{digits}"), ' ', specification))
}

fn pad(body: &str, fill: char, specification: &Specification) -> String {
    let missing = specification.width.saturating_sub(utf16_length(body));
    let padding: String = std::iter::repeat_n(fill, missing).collect();
    if specification.left { format!("{body}{padding}") } else { format!("{padding}{body}") }
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
        let ints = [5, -5, 50, -50, -11, -11, 11, 11].map(Value::Int);
        let signed = format_message("Signed int %i, %d %i, %d, %+i, %+d, %+i, %+d", &ints).unwrap();
        assert_eq!(signed, "Signed int 5, -5 50, -50, -11, -11, +11, +11");
        let cases = [
            ("%03i", Value::Int(5), "005"),
            ("%020i", Value::Int(-55), "-0000000000000000055"),
            ("Bigint %I64d", Value::BigInt(3_000_000_000), "Bigint 3000000000"),
            ("%u", Value::Int(-50), "4294967246"),
            ("%o", Value::Int(50), "62"),
            ("%X", Value::Int(-11), "FFFFFFF5"),
            ("%#x", Value::Int(11), "0xb"),
            ("%#o", Value::Int(50), "062"),
            ("Hello %20s!", text("TEST"), "Hello                 TEST!"),
            ("Hello %-20s!", text("TEST"), "Hello TEST                !"),
            ("<<%7.3s>>", text("abcde"), "<<    abc>>"),
            ("100%% %s", Value::Null, "100% (null)"),
        ];
        for (format, value, expected) in cases {
            assert_eq!(format_message(format, &[value]).unwrap(), expected, "{format}");
        }
        let stars = format_message("<<%*.*s>>", &[Value::Int(7), Value::Int(3), text("abcde")]);
        assert_eq!(stars.unwrap(), "<<    abc>>");
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
