//! SWITCHOFFSET to UTC.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::convert::cast::convert;
use crate::value::types::SqlType;
use crate::value::values::Value;

pub(in crate::value::builtin) const FUNCTIONS: &[Builtin] =
    &[Builtin::new("SWITCHOFFSET", Exactly(2), switch_offset_type, switch_offset)];

fn switch_offset_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    match arguments[0].ty {
        ty @ SqlType::DateTimeOffset(_) => Ok(ty),
        ty if ty.is_character() || ty.is_date_or_time() => Ok(SqlType::DateTimeOffset(7)),
        ty => Err(SqlError::not_supported(format!("SWITCHOFFSET of {}", ty.name()))),
    }
}

fn switch_offset(arguments: &Arguments<'_>) -> SqlResult<Value> {
    if arguments.values[1].as_str() != Some("+00:00") {
        return Err(SqlError::not_supported("SWITCHOFFSET to another offset than '+00:00'"));
    }
    let from = arguments.types[0];
    let to = SqlType::DateTimeOffset(from.time_scale().unwrap_or(7));
    Ok(match convert(arguments.values[0].clone(), from, to, None, false)? {
        Value::DateTimeOffset(day, ticks, _) => Value::DateTimeOffset(day, ticks, 0),
        other => other,
    })
}
