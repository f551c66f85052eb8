//! SWITCHOFFSET.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::builtin::result::invalid_argument;
use crate::value::convert::cast::convert;
use crate::value::datetime_text::MAX_OFFSET_MINUTES;
use crate::value::types::SqlType;
use crate::value::values::Value;

pub(in crate::value::builtin) const FUNCTIONS: &[Builtin] =
    &[Builtin::new("SWITCHOFFSET", Exactly(2), switch_offset_type, switch_offset)];

fn switch_offset_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    match arguments[0].ty {
        ty @ SqlType::DateTimeOffset(_) => Ok(ty),
        ty if ty.is_character() || ty.is_date_or_time() => Ok(SqlType::DateTimeOffset(7)),
        ty => Err(invalid_argument(ty, 1, "switchoffset")),
    }
}

fn switch_offset(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let from = arguments.types[0];
    let to = SqlType::DateTimeOffset(from.time_scale().unwrap_or(7));
    let offset = offset_argument(arguments, "switchoffset")?;
    match convert(arguments.values[0].clone(), from, to, None, false)? {
        Value::DateTimeOffset(day, ticks, _) => Ok(Value::DateTimeOffset(day, ticks, offset)),
        other => Ok(other),
    }
}

/// The second argument: minutes, or a text such as `-05:00`.
fn offset_argument(arguments: &Arguments<'_>, function: &str) -> SqlResult<i16> {
    let minutes = match &arguments.values[1] {
        Value::String(text) => offset_from_text(text),
        _ => i16::try_from(arguments.int(1)?).ok(),
    };
    minutes.filter(|minutes| minutes.abs() <= MAX_OFFSET_MINUTES).ok_or_else(|| invalid_offset(function))
}

fn offset_from_text(text: &str) -> Option<i16> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let is_two_digits = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
    if !is_two_digits(hours) || !is_two_digits(minutes) {
        return None;
    }
    let (hours, minutes): (i16, i16) = (hours.parse().ok()?, minutes.parse().ok()?);
    (minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// 9812.
fn invalid_offset(function: &str) -> SqlError {
    SqlError::new(9812, format!("The timezone provided to builtin function {function} is invalid."))
}
