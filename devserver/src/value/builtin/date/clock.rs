//! The clock. It is the statement's: every call in it gives the same time.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::{Arguments, Builtin};
use crate::value::datetime::round_to_datetime;
use crate::value::types::SqlType;
use crate::value::values::Value;

pub(in crate::value::builtin) const FUNCTIONS: &[Builtin] = &[
    Builtin::new("SYSUTCDATETIME", Exactly(0), |_| Ok(SqlType::DateTime2(7)), now_as_datetime2),
    Builtin::new("SYSDATETIME", Exactly(0), |_| Ok(SqlType::DateTime2(7)), now_as_datetime2),
    Builtin::new("SYSDATETIMEOFFSET", Exactly(0), |_| Ok(SqlType::DateTimeOffset(7)), now_as_datetimeoffset),
    Builtin::new("GETDATE", Exactly(0), |_| Ok(SqlType::DateTime), now_as_datetime),
    Builtin::new("GETUTCDATE", Exactly(0), |_| Ok(SqlType::DateTime), now_as_datetime),
];

fn now_as_datetime2(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let (day, ticks) = arguments.call.now;
    Ok(Value::DateTime(day, ticks))
}

fn now_as_datetimeoffset(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let (day, ticks) = arguments.call.now;
    Ok(Value::DateTimeOffset(day, ticks, 0))
}

fn now_as_datetime(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let (day, ticks) = arguments.call.now;
    let (day, ticks) = round_to_datetime(day, ticks)
        .ok_or_else(|| SqlError::not_supported("a clock that shows a time outside of the years 1753 to 9999"))?;
    Ok(Value::DateTime(day, ticks))
}
