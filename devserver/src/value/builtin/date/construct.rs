//! Dates made of parts or of other dates, and whether a text is one.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::date::arithmetic::add_months;
use crate::value::builtin::date::moment::moment;
use crate::value::builtin::definition::Arity::{Between, Exactly};
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::builtin::result::always_int;
use crate::value::convert::cast::convert;
use crate::value::datetime::{Day, date_from_day, day_from_date, days_in_month, ticks_from_time};
use crate::value::types::SqlType;
use crate::value::values::Value;

pub(in crate::value::builtin) const FUNCTIONS: &[Builtin] = &[
    Builtin::new("EOMONTH", Between(1, 2), |_| Ok(SqlType::Date), end_of_month),
    Builtin::new("DATEFROMPARTS", Exactly(3), |_| Ok(SqlType::Date), date_from_parts),
    Builtin::new("DATETIME2FROMPARTS", Exactly(8), datetime2_from_parts_type, datetime2_from_parts),
    Builtin::new("ISDATE", Exactly(1), always_int, is_date).passing_nulls(),
];

fn end_of_month(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let months = if arguments.count() > 1 { i64::from(arguments.int(1)?) } else { 0 };
    let moment = moment(arguments, 0, SqlType::Date)?;
    let overflow = || SqlError::new(517, "Adding a value to a 'date' column caused overflow.");
    let moved = add_months(moment, months).ok_or_else(overflow)?;
    let (year, month, _) = date_from_day(moved.day);
    let last = day_from_date(year, month, days_in_month(year, month)).ok_or_else(overflow)?;
    Ok(Value::Date(last))
}

/// 289.
fn cannot_construct(ty: &str) -> SqlError {
    SqlError::new(
        289,
        format!("Cannot construct data type {ty}, some of the arguments have values which are not valid."),
    )
}

fn date_from_parts(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let day = day_from_arguments(arguments)?.ok_or_else(|| cannot_construct("date"))?;
    Ok(Value::Date(day))
}

fn day_from_arguments(arguments: &Arguments<'_>) -> SqlResult<Option<Day>> {
    let (year, month, day) = (arguments.int(0)?, arguments.int(1)?, arguments.int(2)?);
    let (Ok(month), Ok(day)) = (u32::try_from(month), u32::try_from(day)) else {
        return Ok(None);
    };
    Ok(day_from_date(year, month, day))
}

/// The precision must be a constant: the type depends on it.
fn datetime2_from_parts_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    let precision = arguments[7].constant.and_then(Value::as_i64);
    match precision.and_then(|precision| u8::try_from(precision).ok()).filter(|&precision| precision <= 7) {
        Some(precision) => Ok(SqlType::DateTime2(precision)),
        None => Err(SqlError::not_supported("DATETIME2FROMPARTS with a precision that is no constant from 0 to 7")),
    }
}

fn datetime2_from_parts(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let invalid = || cannot_construct("datetime2");
    let day = day_from_arguments(arguments)?.ok_or_else(invalid)?;
    let part = |at: usize, below: u32| -> SqlResult<u32> {
        u32::try_from(arguments.int(at)?).ok().filter(|&number| number < below).ok_or_else(invalid)
    };
    let (hour, minute, second) = (part(3, 24)?, part(4, 60)?, part(5, 60)?);
    let precision = part(7, 8)?;
    let fraction = part(6, 10u32.pow(precision))?;
    let ticks = ticks_from_time(hour, minute, second) + u64::from(fraction) * 10u64.pow(7 - precision);
    Ok(Value::DateTime(day, ticks))
}

/// Whether a text converts to `datetime`. Texts that the dev server cannot read, but SQL Server might, are refused.
fn is_date(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let (value, ty) = (&arguments.values[0], arguments.types[0]);
    let Value::String(text) = value else {
        return match ty {
            _ if value.is_null() => Ok(Value::Int(0)),
            SqlType::DateTime => Ok(Value::Int(1)),
            SqlType::DateTime2(_) => Ok(Value::Int(0)),
            _ => Err(SqlError::not_supported(format!("ISDATE of {ty}"))),
        };
    };
    const UNREADABLE: i32 = 241;
    match convert(value.clone(), ty, SqlType::DateTime, None, false) {
        Ok(_) => Ok(Value::Int(i32::from(!text.trim().is_empty()))),
        Err(error) if error.number == UNREADABLE && text.bytes().any(|b| b.is_ascii_digit()) => {
            Err(SqlError::not_supported(format!("ISDATE of '{text}'")))
        }
        Err(_) => Ok(Value::Int(0)),
    }
}
