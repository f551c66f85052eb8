//! DATEADD, DATEDIFF and DATEDIFF_BIG.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::date::moment::{Moment, moment, moment_type, the_part};
use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::datetime::{
    DatePart, Day, TICKS_PER_HOUR, TICKS_PER_MILLISECOND, TICKS_PER_MINUTE, TICKS_PER_SECOND, Ticks, date_from_day,
    day_from_date, days_in_month, from_instant, instant, shift_minutes,
};
use crate::value::types::SqlType;
use crate::value::values::Value;

pub(in crate::value::builtin) const FUNCTIONS: &[Builtin] = &[
    Builtin::new("DATEADD", Exactly(2), date_add_type, date_add).with_date_part(),
    Builtin::new("DATEDIFF", Exactly(2), difference_type, date_diff).with_date_part(),
    Builtin::new(
        "DATEDIFF_BIG",
        Exactly(2),
        |arguments| refuse_parts(arguments).map(|()| SqlType::BigInt),
        date_diff_big,
    )
    .with_date_part(),
];

/// "If the value for date is a string literal date, DATEADD returns a datetime value."
fn date_add_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    refuse_parts(arguments)?;
    Ok(moment_type(arguments[1].ty, SqlType::DateTime))
}

/// A date or a time alone.
fn refuse_parts(arguments: &[Argument<'_>]) -> SqlResult<()> {
    match arguments.iter().find(|argument| matches!(argument.ty, SqlType::Date | SqlType::Time(_))) {
        Some(part) => Err(SqlError::not_supported(format!("DATEADD and DATEDIFF of {}", part.ty.name()))),
        None => Ok(()),
    }
}

fn difference_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    refuse_parts(arguments)?;
    Ok(SqlType::Int)
}

fn date_add(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let part = the_part(arguments)?;
    let number = i64::from(arguments.int(0)?);
    let moment = moment(arguments, 1, SqlType::DateTime)?;
    let moved = match part {
        DatePart::Year => add_months(moment, number * 12),
        DatePart::Month => add_months(moment, number),
        DatePart::Week => add_days(moment, number * 7),
        DatePart::Hour => add_ticks(moment, number, TICKS_PER_HOUR),
        DatePart::Minute => add_ticks(moment, number, TICKS_PER_MINUTE),
        DatePart::Second => add_ticks(moment, number, TICKS_PER_SECOND),
        DatePart::Millisecond => {
            // A datetime moves by shown milliseconds: its third of a millisecond must not add up.
            let shown = Moment { ticks: moment.shown_ticks(), ..moment };
            add_ticks(shown, number, TICKS_PER_MILLISECOND)
        }
        DatePart::Day => add_days(moment, number),
    };
    moved.and_then(Moment::into_value).ok_or_else(|| SqlError::not_supported("DATEADD beyond the dates of its type"))
}

fn add_months(moment: Moment, months: i64) -> Option<Moment> {
    let (year, month, day) = date_from_day(moment.day);
    let counted = i64::from(year) * 12 + i64::from(month) - 1 + months;
    let year = i32::try_from(counted.div_euclid(12)).ok().filter(|year| (1..=9999).contains(year))?;
    let month = u32::try_from(counted.rem_euclid(12) + 1).ok()?;
    // "DATEADD returns the last day of the return month."
    let day = day_from_date(year, month, day.min(days_in_month(year, month)))?;
    Some(Moment { day, ..moment })
}

fn add_days(moment: Moment, days: i64) -> Option<Moment> {
    let day = Day::try_from(i64::from(moment.day) + days).ok()?;
    (day <= crate::value::datetime::LAST_DAY).then_some(Moment { day, ..moment })
}

fn add_ticks(moment: Moment, number: i64, unit: Ticks) -> Option<Moment> {
    let added = number.checked_mul(i64::try_from(unit).ok()?)?;
    let total = instant(moment.day, moment.ticks).checked_add(added)?;
    let (day, ticks) = from_instant(total)?;
    Some(Moment { day, ticks, ..moment })
}

fn date_diff(arguments: &Arguments<'_>) -> SqlResult<Value> {
    i32::try_from(difference(arguments)?).map(Value::Int).map_err(|_| too_far())
}

fn date_diff_big(arguments: &Arguments<'_>) -> SqlResult<Value> {
    i64::try_from(difference(arguments)?).map(Value::BigInt).map_err(|_| too_far())
}

fn too_far() -> SqlError {
    SqlError::not_supported("DATEDIFF of points of time that are so far apart")
}

/// The boundaries of the date part that lie between two points of time, counted in UTC.
fn difference(arguments: &Arguments<'_>) -> SqlResult<i128> {
    let part = the_part(arguments)?;
    let start = utc(moment(arguments, 0, SqlType::DateTimeOffset(7))?);
    let end = utc(moment(arguments, 1, SqlType::DateTimeOffset(7))?);
    let boundaries: fn(Moment) -> i128 = match part {
        DatePart::Year => |m| i128::from(date_from_day(m.day).0),
        DatePart::Month => months,
        DatePart::Day => |m| i128::from(m.day),
        // Weeks begin on Sunday; day 6 of the calendar was one.
        DatePart::Week => |m| i128::from((m.day + 1) / 7),
        DatePart::Hour => |m| ticks_in_total(m) / i128::from(TICKS_PER_HOUR),
        DatePart::Minute => |m| ticks_in_total(m) / i128::from(TICKS_PER_MINUTE),
        DatePart::Second => |m| ticks_in_total(m) / i128::from(TICKS_PER_SECOND),
        DatePart::Millisecond => |m| {
            let shown = Moment { ticks: m.shown_ticks(), ..m };
            ticks_in_total(shown) / i128::from(TICKS_PER_MILLISECOND)
        },
    };
    Ok(boundaries(end) - boundaries(start))
}

fn utc(moment: Moment) -> Moment {
    match shift_minutes(moment.day, moment.ticks, -moment.offset) {
        Some((day, ticks)) => Moment { day, ticks, offset: 0, ..moment },
        None => moment,
    }
}

fn months(moment: Moment) -> i128 {
    let (year, month, _) = date_from_day(moment.day);
    i128::from(year) * 12 + i128::from(month) - 1
}

fn ticks_in_total(moment: Moment) -> i128 {
    i128::from(instant(moment.day, moment.ticks))
}
