//! To the date and time types.

use crate::error::{SqlError, SqlResult};
use crate::value::convert::error::{not_supported, out_of_range, overflow};
use crate::value::datetime::{
    DAY_1900, Day, TICKS_PER_DAY, TICKS_PER_MILLISECOND, Ticks, round_instant, round_ticks, round_to_datetime,
    shift_minutes, ticks_from_three_hundredths,
};
use crate::value::datetime_text::{DateTimeText, DateTimeTextError};
use crate::value::types::SqlType;
use crate::value::values::Value;
use crate::value::{datetime, datetime_text};

pub(super) fn local_time(day: Day, ticks: Ticks, offset: i16) -> SqlResult<(Day, Ticks)> {
    shift_minutes(day, ticks, offset).ok_or_else(|| overflow("datetimeoffset", SqlType::DateTime2(7)))
}

pub(super) fn to_date_or_time(value: &Value, from: SqlType, to: SqlType, style: Option<i32>) -> SqlResult<Value> {
    let (day, ticks, offset) = match value {
        Value::String(text) => {
            let read = read_date_or_time(text, from, to, style)?;
            (read.day, read.ticks, 0)
        }
        Value::Date(day) => (*day, 0, 0),
        Value::Time(ticks) => (DAY_1900, *ticks, 0),
        Value::DateTime(day, ticks) => (*day, *ticks, 0),
        Value::DateTimeOffset(day, ticks, offset) => {
            let (day, ticks) = local_time(*day, *ticks, *offset)?;
            (day, ticks, *offset)
        }
        _ if to == SqlType::DateTime => return number_to_datetime(value, from, to),
        _ => return Err(not_supported(from, to)),
    };
    let too_large = || overflow(from.message_name(), to);
    match to {
        SqlType::Date => Ok(Value::Date(day)),
        // Rounding up at midnight begins the day anew.
        SqlType::Time(scale) => Ok(Value::Time(round_ticks(ticks, scale) % TICKS_PER_DAY)),
        SqlType::DateTime2(scale) => {
            let (day, ticks) = round_instant(day, ticks, scale).ok_or_else(too_large)?;
            Ok(Value::DateTime(day, ticks))
        }
        SqlType::DateTimeOffset(scale) => {
            let (day, ticks) = round_instant(day, ticks, scale).ok_or_else(too_large)?;
            let (day, ticks) = shift_minutes(day, ticks, -offset).ok_or_else(too_large)?;
            Ok(Value::DateTimeOffset(day, ticks, offset))
        }
        _ => {
            // "The fractional precision is truncated" to milliseconds before it is rounded to 1/300 s. A text has no
            // more than milliseconds, and a `datetime` is already rounded.
            let is_rounded = from == SqlType::DateTime;
            let ticks = if is_rounded { ticks } else { ticks / TICKS_PER_MILLISECOND * TICKS_PER_MILLISECOND };
            let (day, ticks) = round_to_datetime(day, ticks).ok_or_else(|| out_of_range(from, to))?;
            Ok(Value::DateTime(day, ticks))
        }
    }
}

fn read_date_or_time(text: &str, from: SqlType, to: SqlType, style: Option<i32>) -> SqlResult<DateTimeText> {
    match style.unwrap_or(0) {
        0 | 1 | 20 | 21 | 23 | 25 | 100..=102 | 108..=112 | 114 | 120 | 121 | 126 => {}
        other => return Err(SqlError::not_supported(format!("style {other} for reading dates"))),
    }
    let is_datetime = to == SqlType::DateTime;
    let unreadable = || SqlError::new(241, "Conversion failed when converting date and/or time from character string.");
    let read = match datetime_text::parse(text) {
        Ok(read) => read,
        Err(DateTimeTextError::OutOfRange) if is_datetime => return Err(out_of_range(from, to)),
        Err(DateTimeTextError::OutOfRange) => return Err(unreadable()),
        Err(DateTimeTextError::Malformed) => {
            return Err(SqlError::not_supported(format!("the date and time '{text}'")));
        }
    };
    if is_datetime && read.fraction_digits > 3 { Err(unreadable()) } else { Ok(read) }
}

/// A number is a number of days since 1900-01-01; its fraction is the time of day.
fn number_to_datetime(value: &Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let (days, fraction) = match value {
        Value::Decimal(v) => {
            let (whole, unit) = (v.trunc(), crate::value::decimal::power_of_ten(v.scale));
            let fraction = (v.mantissa % unit) as f64 / unit as f64;
            (whole as f64, fraction)
        }
        _ => match value.as_i64() {
            Some(days) => (days as f64, 0.0),
            None => return Err(not_supported(from, to)),
        },
    };
    const PER_DAY: i64 = 300 * 86_400;
    let total = (days as i64).checked_mul(PER_DAY).map(|whole| whole + (fraction * PER_DAY as f64).round() as i64);
    let since_year_one = total.and_then(|total| total.checked_add(i64::from(DAY_1900) * PER_DAY));
    let in_range = since_year_one.filter(|&total| {
        let day = total.div_euclid(PER_DAY);
        (i64::from(datetime::DAY_1753)..=i64::from(datetime::LAST_DAY)).contains(&day)
    });
    let Some(total) = in_range else {
        return Err(overflow("expression", to));
    };
    let day = Day::try_from(total / PER_DAY).map_err(|_| overflow("expression", to))?;
    let ticks = ticks_from_three_hundredths(total.unsigned_abs() % PER_DAY.unsigned_abs());
    Ok(Value::DateTime(day, ticks))
}
