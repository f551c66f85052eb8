//! Functions of dates and times, and the clock.
//!
//! A date argument is first taken apart into a [`Moment`]: its local day and time. DATEFIRST is 7 (Sunday) and the
//! language us_english, the defaults; SET statements that would change them are not known to the dev server.

use super::Arity::{Between, Exactly};
use super::{Argument, Arguments, Function, always_int, invalid_argument};
use crate::error::{SqlError, SqlResult};
use crate::value::convert::convert;
use crate::value::datetime::{
    MONTH_NAMES, TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MILLISECOND, TICKS_PER_MINUTE, TICKS_PER_SECOND,
    WEEKDAY_NAMES, date_from_day, day_from_date, days_in_month, from_instant, instant, round_to_datetime,
    shift_minutes, ticks_from_time, weekday,
};
use crate::value::datetime_text::MAX_OFFSET_MINUTES;
use crate::value::{DatePart, Day, Length, SqlType, Ticks, Value};
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("DATEADD", Exactly(2), date_add_type, date_add).with_date_part(),
    Function::new("DATEDIFF", Exactly(2), always_int, date_diff).with_date_part(),
    Function::new("DATEDIFF_BIG", Exactly(2), |_| Ok(SqlType::BigInt), date_diff_big).with_date_part(),
    Function::new("DATEPART", Exactly(1), always_int, date_part).with_date_part(),
    Function::new("DATENAME", Exactly(1), |_| Ok(SqlType::NVarChar(Length::Limit(30))), date_name).with_date_part(),
    Function::new("YEAR", Exactly(1), always_int, |a| calendar_part(a, DatePart::Year, "year")),
    Function::new("MONTH", Exactly(1), always_int, |a| calendar_part(a, DatePart::Month, "month")),
    Function::new("DAY", Exactly(1), always_int, |a| calendar_part(a, DatePart::Day, "day")),
    Function::new("EOMONTH", Between(1, 2), |_| Ok(SqlType::Date), end_of_month),
    Function::new("DATEFROMPARTS", Exactly(3), |_| Ok(SqlType::Date), date_from_parts),
    Function::new("DATETIME2FROMPARTS", Exactly(8), datetime2_from_parts_type, datetime2_from_parts),
    Function::new("ISDATE", Exactly(1), always_int, is_date).passing_nulls(),
    Function::new("SWITCHOFFSET", Exactly(2), switch_offset_type, switch_offset),
    Function::new("TODATETIMEOFFSET", Exactly(2), to_datetimeoffset_type, to_datetimeoffset),
    Function::new("SYSUTCDATETIME", Exactly(0), |_| Ok(SqlType::DateTime2(7)), now_as_datetime2),
    Function::new("SYSDATETIME", Exactly(0), |_| Ok(SqlType::DateTime2(7)), now_as_datetime2),
    Function::new("SYSDATETIMEOFFSET", Exactly(0), |_| Ok(SqlType::DateTimeOffset(7)), now_as_datetimeoffset),
    Function::new("GETDATE", Exactly(0), |_| Ok(SqlType::DateTime), now_as_datetime),
    Function::new("GETUTCDATE", Exactly(0), |_| Ok(SqlType::DateTime), now_as_datetime),
];

/// A date argument, in its local time.
#[derive(Debug, Clone, Copy)]
struct Moment {
    day: Day,
    ticks: Ticks,
    offset: i16,
    /// The type of the argument, or the one a text or number was converted to.
    ty: SqlType,
}

/// Takes an argument apart. A text is read as `text_type`, a number as `datetime`.
fn moment(arguments: &Arguments<'_>, at: usize, text_type: SqlType) -> SqlResult<Moment> {
    let (value, from) = (arguments.values[at].clone(), arguments.types[at]);
    let ty = moment_type(from, text_type);
    let converted = convert(value, from, ty, None, false)?;
    let unexpected = || invalid_argument(from, at + 1, "date");
    let (day, ticks, offset) = match converted {
        Value::Date(day) => (day, 0, 0),
        Value::Time(ticks) => (crate::value::datetime::DAY_1900, ticks, 0),
        Value::DateTime(day, ticks) => (day, ticks, 0),
        Value::DateTimeOffset(day, ticks, offset) => {
            let (day, ticks) = shift_minutes(day, ticks, offset).ok_or_else(unexpected)?;
            (day, ticks, offset)
        }
        _ => return Err(unexpected()),
    };
    Ok(Moment { day, ticks, offset, ty })
}

fn moment_type(from: SqlType, text_type: SqlType) -> SqlType {
    if from.is_date_or_time() {
        from
    } else if from.is_character() {
        text_type
    } else {
        SqlType::DateTime
    }
}

impl Moment {
    /// The time with the milliseconds that a `datetime` shows: it counts in 1/300 s.
    fn shown_ticks(self) -> Ticks {
        if self.ty != SqlType::DateTime {
            return self.ticks;
        }
        (self.ticks + TICKS_PER_MILLISECOND / 2) / TICKS_PER_MILLISECOND * TICKS_PER_MILLISECOND
    }

    /// The value in its type again, where it belongs there.
    fn into_value(self) -> Option<Value> {
        match self.ty {
            SqlType::Date => Some(Value::Date(self.day)),
            SqlType::Time(_) => Some(Value::Time(self.ticks)),
            SqlType::DateTimeOffset(_) => {
                let (day, ticks) = shift_minutes(self.day, self.ticks, -self.offset)?;
                Some(Value::DateTimeOffset(day, ticks, self.offset))
            }
            SqlType::DateTime => {
                let (day, ticks) = round_to_datetime(self.day, self.ticks)?;
                Some(Value::DateTime(day, ticks))
            }
            _ => Some(Value::DateTime(self.day, self.ticks)),
        }
    }
}

fn the_part(arguments: &Arguments<'_>) -> SqlResult<DatePart> {
    arguments.call.date_part.ok_or_else(|| SqlError::not_supported("a date function without its date part"))
}

/// 9810.
fn part_not_in_type(part: DatePart, function: &str, ty: SqlType) -> SqlError {
    let (part, ty) = (part.name(), ty.name());
    SqlError::new(9810, format!("The datepart {part} is not supported by date function {function} for data type {ty}."))
}

/// 9806.
fn part_not_in_function(part: DatePart, function: &str) -> SqlError {
    let part = part.name();
    SqlError::new(9806, format!("The datepart {part} is not supported by date function {function}."))
}

// ---------------------------------------------------------------------------------------------------- DATEADD

/// "If the value for date is a string literal date, DATEADD returns a datetime value."
fn date_add_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    Ok(moment_type(arguments[1].ty, SqlType::DateTime))
}

fn date_add(arguments: &Arguments<'_>) -> SqlResult<Value> {
    const FUNCTION: &str = "dateadd";
    let part = the_part(arguments)?;
    let number = i64::from(arguments.int(0)?);
    let moment = moment(arguments, 1, SqlType::DateTime)?;
    let is_fine = matches!(part, DatePart::Microsecond | DatePart::Nanosecond);
    let is_missing = match moment.ty {
        SqlType::Date => part.is_time(),
        SqlType::Time(_) => !part.is_time(),
        SqlType::DateTime => is_fine,
        _ => false,
    };
    if matches!(part, DatePart::IsoWeek | DatePart::TzOffset) {
        return Err(part_not_in_function(part, FUNCTION));
    }
    if is_missing {
        return Err(part_not_in_type(part, FUNCTION, moment.ty));
    }
    let moved = match part {
        DatePart::Year => add_months(moment, number * 12),
        DatePart::Quarter => add_months(moment, number * 3),
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
        DatePart::Microsecond => add_ticks(moment, number, 10),
        DatePart::Nanosecond => {
            // "A number between 1 and 49 will round down to 0, and a number from 50 to 99 rounds up to 100."
            let hundreds = (number.abs() + 50) / 100 * number.signum();
            add_ticks(moment, hundreds, 1)
        }
        _ => add_days(moment, number),
    };
    moved.and_then(Moment::into_value).ok_or_else(|| {
        let ty = moment.ty.name();
        SqlError::new(517, format!("Adding a value to a '{ty}' column caused overflow."))
    })
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
    if matches!(moment.ty, SqlType::Time(_)) {
        // A time of day goes round the clock.
        let ticks = Ticks::try_from(total.rem_euclid(i64::try_from(TICKS_PER_DAY).ok()?)).ok()?;
        return Some(Moment { ticks, ..moment });
    }
    let (day, ticks) = from_instant(total)?;
    Some(Moment { day, ticks, ..moment })
}

// --------------------------------------------------------------------------------------------------- DATEDIFF

fn date_diff(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let difference = difference(arguments, "datediff")?;
    i32::try_from(difference).map(Value::Int).map_err(|_| difference_overflow("datediff"))
}

fn date_diff_big(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let difference = difference(arguments, "datediff_big")?;
    i64::try_from(difference).map(Value::BigInt).map_err(|_| difference_overflow("datediff_big"))
}

/// 535.
fn difference_overflow(function: &str) -> SqlError {
    SqlError::new(
        535,
        format!(
            "The {function} function resulted in an overflow. The number of dateparts separating two date/time \
             instances is too large. Try to use {function} with a less precise datepart."
        ),
    )
}

/// The boundaries of the date part that lie between two points of time, counted in UTC.
fn difference(arguments: &Arguments<'_>, function: &str) -> SqlResult<i128> {
    let part = the_part(arguments)?;
    let start = utc(moment(arguments, 0, SqlType::DateTimeOffset(7))?);
    let end = utc(moment(arguments, 1, SqlType::DateTimeOffset(7))?);
    let boundaries: fn(Moment) -> i128 = match part {
        DatePart::Year => |m| i128::from(date_from_day(m.day).0),
        DatePart::Quarter => |m| months(m) / 3,
        DatePart::Month => months,
        DatePart::DayOfYear | DatePart::Day => |m| i128::from(m.day),
        // Weeks begin on Sunday; day 6 of the calendar was one.
        DatePart::Week => |m| i128::from((m.day + 1) / 7),
        DatePart::Hour => |m| ticks_in_total(m) / i128::from(TICKS_PER_HOUR),
        DatePart::Minute => |m| ticks_in_total(m) / i128::from(TICKS_PER_MINUTE),
        DatePart::Second => |m| ticks_in_total(m) / i128::from(TICKS_PER_SECOND),
        DatePart::Millisecond => |m| {
            let shown = Moment { ticks: m.shown_ticks(), ..m };
            ticks_in_total(shown) / i128::from(TICKS_PER_MILLISECOND)
        },
        DatePart::Microsecond => |m| ticks_in_total(m) / 10,
        DatePart::Nanosecond => |m| ticks_in_total(m) * 100,
        DatePart::Weekday | DatePart::IsoWeek | DatePart::TzOffset => {
            return Err(part_not_in_function(part, function));
        }
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

// --------------------------------------------------------------------------------------- DATEPART and DATENAME

fn date_part(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let part = the_part(arguments)?;
    // A text with an offset has a tzoffset; without one, it is 0.
    let moment = moment(arguments, 0, SqlType::DateTimeOffset(7))?;
    Ok(Value::Int(part_of(moment, part, "datepart")?))
}

fn date_name(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let part = the_part(arguments)?;
    let moment = moment(arguments, 0, SqlType::DateTimeOffset(7))?;
    let number = part_of(moment, part, "datename")?;
    let name = match part {
        DatePart::Month => MONTH_NAMES[date_from_day(moment.day).1 as usize - 1].to_string(),
        DatePart::Weekday => WEEKDAY_NAMES[weekday(moment.day) as usize].to_string(),
        DatePart::TzOffset => {
            let sign = if number < 0 { '-' } else { '+' };
            format!("{sign}{:02}:{:02}", number.abs() / 60, number.abs() % 60)
        }
        _ => number.to_string(),
    };
    Ok(Value::String(Arc::from(name)))
}

fn calendar_part(arguments: &Arguments<'_>, part: DatePart, function: &str) -> SqlResult<Value> {
    let moment = moment(arguments, 0, SqlType::DateTimeOffset(7))?;
    Ok(Value::Int(part_of(moment, part, function)?))
}

fn part_of(moment: Moment, part: DatePart, function: &str) -> SqlResult<i32> {
    let is_missing = match moment.ty {
        SqlType::Date => part.is_time() || part == DatePart::TzOffset,
        SqlType::Time(_) => !part.is_time(),
        SqlType::DateTime => part == DatePart::TzOffset,
        _ => false,
    };
    if is_missing {
        return Err(part_not_in_type(part, function, moment.ty));
    }
    let (year, month, day) = date_from_day(moment.day);
    let first_of_year = moment.day - (day_of_year(moment.day, year) - 1);
    let within_second = |unit: Ticks| moment.ticks % TICKS_PER_SECOND / unit;
    let number = match part {
        DatePart::Year => return Ok(year),
        DatePart::TzOffset => return Ok(i32::from(moment.offset)),
        DatePart::Quarter => u64::from((month - 1) / 3 + 1),
        DatePart::Month => u64::from(month),
        DatePart::DayOfYear => u64::from(day_of_year(moment.day, year)),
        DatePart::Day => u64::from(day),
        // 1 January is in week 1; every Sunday begins a new one.
        DatePart::Week => u64::from((day_of_year(moment.day, year) - 1 + weekday(first_of_year)) / 7 + 1),
        DatePart::IsoWeek => u64::from(iso_week(moment.day)),
        DatePart::Weekday => u64::from(weekday(moment.day) + 1),
        DatePart::Hour => moment.ticks / TICKS_PER_HOUR,
        DatePart::Minute => moment.ticks % TICKS_PER_HOUR / TICKS_PER_MINUTE,
        DatePart::Second => moment.ticks % TICKS_PER_MINUTE / TICKS_PER_SECOND,
        DatePart::Millisecond => moment.shown_ticks() % TICKS_PER_SECOND / TICKS_PER_MILLISECOND,
        DatePart::Microsecond => within_second(10),
        DatePart::Nanosecond => within_second(1) * 100,
    };
    Ok(i32::try_from(number).expect("a part of a date is below 10^9"))
}

fn day_of_year(day: Day, year: i32) -> u32 {
    let first = day_from_date(year, 1, 1).expect("the first day of a year that has the day");
    day - first + 1
}

/// The week of its Thursday, counted within that Thursday's year.
fn iso_week(day: Day) -> u32 {
    let days_since_monday = (weekday(day) + 6) % 7;
    let thursday = day + 3 - days_since_monday;
    let (year, _, _) = date_from_day(thursday);
    (day_of_year(thursday, year) - 1) / 7 + 1
}

// ------------------------------------------------------------------------------------------------ constructors

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

// ---------------------------------------------------------------------------------------------------- offsets

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

fn to_datetimeoffset_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    match arguments[0].ty {
        SqlType::DateTime2(scale) | SqlType::DateTimeOffset(scale) | SqlType::Time(scale) => {
            Ok(SqlType::DateTimeOffset(scale))
        }
        ty if ty.is_character() || ty.is_date_or_time() => Ok(SqlType::DateTimeOffset(7)),
        ty => Err(invalid_argument(ty, 1, "todatetimeoffset")),
    }
}

fn to_datetimeoffset(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let from = arguments.types[0];
    let offset = offset_argument(arguments, "todatetimeoffset")?;
    // The local time stays, whatever offset the value had.
    let local = convert(arguments.values[0].clone(), from, SqlType::DateTime2(7), None, false)?;
    let Value::DateTime(day, ticks) = local else {
        return Ok(local);
    };
    match shift_minutes(day, ticks, -offset) {
        Some((day, ticks)) => Ok(Value::DateTimeOffset(day, ticks, offset)),
        None => Err(invalid_offset("todatetimeoffset")),
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

// ------------------------------------------------------------------------------------------------------ clock

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

#[cfg(test)]
mod tests {
    use super::super::tests::{call, call_typed, call_with_part, int, null, typed, varchar};
    use super::*;

    const DATETIME2: SqlType = SqlType::DateTime2(7);

    fn add(part: &str, number: i32, date: &str, ty: SqlType) -> Result<String, i32> {
        call_with_part("DATEADD", Some(part), &[int(number), typed(date, ty)])
    }

    // docs/t-sql/functions/dateadd-transact-sql.md, examples A and B
    #[test]
    fn dates_are_moved() {
        let start = "2007-01-01 13:10:10.1111111";
        let cases = [
            ("year", 1, "2008-01-01 13:10:10.1111111"),
            ("quarter", 1, "2007-04-01 13:10:10.1111111"),
            ("month", 13, "2008-02-01 13:10:10.1111111"),
            ("dayofyear", 365, "2008-01-01 13:10:10.1111111"),
            ("week", 5, "2007-02-05 13:10:10.1111111"),
            ("weekday", 31, "2007-02-01 13:10:10.1111111"),
            ("hour", 23, "2007-01-02 12:10:10.1111111"),
            ("minute", -11, "2007-01-01 12:59:10.1111111"),
            ("second", 59, "2007-01-01 13:11:09.1111111"),
            ("millisecond", 1, "2007-01-01 13:10:10.1121111"),
            ("microsecond", 2, "2007-01-01 13:10:10.1111131"),
            ("nanosecond", 49, "2007-01-01 13:10:10.1111111"),
            ("nanosecond", 150, "2007-01-01 13:10:10.1111113"),
        ];
        for (part, number, expected) in cases {
            assert_eq!(add(part, number, start, DATETIME2).as_deref(), Ok(expected), "{part}");
        }
        assert_eq!(add("month", 1, "2006-08-31", SqlType::Date).as_deref(), Ok("2006-09-30"));
        assert_eq!(add("hour", 23, "12:00:00", SqlType::Time(0)).as_deref(), Ok("11:00:00"));
        let text = call_typed("DATEADD", Some("month"), &[int(1), varchar("20060830")]).unwrap();
        assert_eq!(text.1, SqlType::DateTime);
    }

    #[test]
    fn dates_that_cannot_be_moved() {
        assert_eq!(add("year", i32::MAX, "20060731", SqlType::DateTime), Err(517));
        assert_eq!(add("year", -i32::MAX, "20060731", SqlType::DateTime), Err(517));
        assert_eq!(add("microsecond", 1, "20060731", SqlType::DateTime), Err(9810));
        assert_eq!(add("hour", 1, "20060731", SqlType::Date), Err(9810));
        assert_eq!(add("tzoffset", 1, "20060731", DATETIME2), Err(9806));
        let too_large = (Value::BigInt(1 << 31), SqlType::BigInt);
        assert_eq!(call_with_part("DATEADD", Some("year"), &[too_large, varchar("20060731")]), Err(8115));
        assert_eq!(call_with_part("DATEADD", Some("day"), &[null(), varchar("20060731")]), Ok("NULL".into()));
    }

    // docs/t-sql/functions/datediff-transact-sql.md
    #[test]
    fn boundaries_are_counted() {
        let before = varchar("2005-12-31 23:59:59.9999999");
        let after = varchar("2006-01-01 00:00:00.0000000");
        let parts = [
            "year",
            "quarter",
            "month",
            "dayofyear",
            "day",
            "week",
            "hour",
            "minute",
            "second",
            "millisecond",
            "microsecond",
        ];
        for part in parts {
            let count = call_with_part("DATEDIFF", Some(part), &[before.clone(), after.clone()]);
            assert_eq!(count.as_deref(), Ok("1"), "{part}");
        }
        let back = call_with_part("DATEDIFF", Some("day"), &[varchar("2036-03-01"), varchar("2036-02-28")]);
        assert_eq!(back.as_deref(), Ok("-2"));
        let long = [varchar("19000101"), varchar("20240101")];
        assert_eq!(call_with_part("DATEDIFF", Some("ms"), &long), Err(535));
        assert_eq!(call_with_part("DATEDIFF_BIG", Some("ms"), &long).as_deref(), Ok("3913056000000"));
        let offsets = [varchar("2020-01-01 00:00 +02:00"), varchar("2019-12-31 22:00 +00:00")];
        assert_eq!(call_with_part("DATEDIFF", Some("hour"), &offsets).as_deref(), Ok("0"));
        let datetimes = [typed("00:00", SqlType::DateTime), typed("00:00:00.007", SqlType::DateTime)];
        assert_eq!(call_with_part("DATEDIFF", Some("ms"), &datetimes).as_deref(), Ok("7"));
    }

    // docs/t-sql/functions/datepart-transact-sql.md and datename-transact-sql.md
    #[test]
    fn parts_and_names() {
        let moment = varchar("2007-10-30 12:15:32.1234567 +05:10");
        let cases = [
            ("year", "2007", "2007"),
            ("quarter", "4", "4"),
            ("month", "10", "October"),
            ("dayofyear", "303", "303"),
            ("day", "30", "30"),
            ("week", "44", "44"),
            ("weekday", "3", "Tuesday"),
            ("hour", "12", "12"),
            ("millisecond", "123", "123"),
            ("microsecond", "123456", "123456"),
            ("nanosecond", "123456700", "123456700"),
            ("tzoffset", "310", "+05:10"),
            ("iso_week", "44", "44"),
        ];
        for (part, number, name) in cases {
            assert_eq!(
                call_with_part("DATEPART", Some(part), std::slice::from_ref(&moment)).as_deref(),
                Ok(number),
                "{part}"
            );
            assert_eq!(
                call_with_part("DATENAME", Some(part), std::slice::from_ref(&moment)).as_deref(),
                Ok(name),
                "{part}"
            );
        }
        let saturday = varchar("2007-04-21");
        assert_eq!(call_with_part("DATEPART", Some("week"), std::slice::from_ref(&saturday)).as_deref(), Ok("16"));
        assert_eq!(call_with_part("DATEPART", Some("dw"), &[saturday]).as_deref(), Ok("7"));
        assert_eq!(call_with_part("DATEPART", Some("year"), &[int(0)]).as_deref(), Ok("1900"));
        let time = typed("12:10:30", SqlType::Time(3));
        assert_eq!(call_with_part("DATEPART", Some("year"), &[time]), Err(9810));
        // The highest ISO week is 53: 2004-12-31 was a Friday.
        assert_eq!(call_with_part("DATEPART", Some("isowk"), &[varchar("2005-01-01")]).as_deref(), Ok("53"));
        assert_eq!(call("YEAR", &[varchar("2010-04-30")]).as_deref(), Ok("2010"));
    }

    // docs/t-sql/functions/{eomonth,datefromparts,datetime2fromparts}-transact-sql.md
    #[test]
    fn dates_are_made() {
        assert_eq!(call("EOMONTH", &[varchar("12/1/2011")]).as_deref(), Ok("2011-12-31"));
        assert_eq!(call("EOMONTH", &[varchar("12/1/2011"), int(2)]).as_deref(), Ok("2012-02-29"));
        assert_eq!(call("DATEFROMPARTS", &[int(2010), int(12), int(31)]).as_deref(), Ok("2010-12-31"));
        assert_eq!(call("DATEFROMPARTS", &[int(2010), int(13), int(1)]), Err(289));
        let parts = [2011, 8, 15, 14, 23, 44, 50, 2].map(int);
        assert_eq!(call("DATETIME2FROMPARTS", &parts).as_deref(), Ok("2011-08-15 14:23:44.50"));
        assert_eq!(call("ISDATE", &[varchar("2009-05-12 10:19:41.177")]).as_deref(), Ok("1"));
        assert_eq!(call("ISDATE", &[varchar("2009-13-12")]).as_deref(), Ok("0"));
        assert_eq!(call("ISDATE", &[varchar("never")]).as_deref(), Ok("0"));
    }

    // docs/t-sql/functions/switchoffset-transact-sql.md and todatetimeoffset-transact-sql.md
    #[test]
    fn offsets_change() {
        let moment = typed("1998-09-20 7:45:50.71345 -5:00", SqlType::DateTimeOffset(7));
        let switched = call("SWITCHOFFSET", &[moment.clone(), varchar("-08:00")]);
        assert_eq!(switched.as_deref(), Ok("1998-09-20 04:45:50.7134500 -08:00"));
        let kept = call("TODATETIMEOFFSET", &[moment.clone(), int(-480)]);
        assert_eq!(kept.as_deref(), Ok("1998-09-20 07:45:50.7134500 -08:00"));
        assert_eq!(call("SWITCHOFFSET", &[moment, varchar("8")]), Err(9812));
    }

    #[test]
    fn the_clock_is_the_statements() {
        assert_eq!(call("SYSUTCDATETIME", &[]).as_deref(), Ok("2024-05-06 00:00:12.3456789"));
        let (_, ty) = call_typed("GETDATE", None, &[]).unwrap();
        assert_eq!(ty, SqlType::DateTime);
    }
}
