//! DATEPART, DATENAME, YEAR, MONTH and DAY.

use crate::error::SqlResult;
use crate::value::builtin::date::moment::{Moment, moment, part_not_in_type, the_part};
use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::{Arguments, Builtin};
use crate::value::builtin::result::always_int;
use crate::value::datetime::{
    DatePart, Day, MONTH_NAMES, TICKS_PER_HOUR, TICKS_PER_MILLISECOND, TICKS_PER_MINUTE, TICKS_PER_SECOND, Ticks,
    WEEKDAY_NAMES, date_from_day, day_from_date, weekday,
};
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;
use std::sync::Arc;

pub(in crate::value::builtin) const FUNCTIONS: &[Builtin] = &[
    Builtin::new("DATEPART", Exactly(1), always_int, date_part).with_date_part(),
    Builtin::new("DATENAME", Exactly(1), |_| Ok(SqlType::NVarChar(Length::Limit(30))), date_name).with_date_part(),
    Builtin::new("YEAR", Exactly(1), always_int, |a| calendar_part(a, DatePart::Year, "year")),
    Builtin::new("MONTH", Exactly(1), always_int, |a| calendar_part(a, DatePart::Month, "month")),
    Builtin::new("DAY", Exactly(1), always_int, |a| calendar_part(a, DatePart::Day, "day")),
];

fn date_part(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let part = the_part(arguments)?;
    // A text with an offset has a tzoffset; without one, it is 0.
    let moment = moment(arguments, 0, SqlType::DateTimeOffset(7))?;
    Ok(Value::Int(part_of(moment, part, "datepart", arguments.call.date_first)?))
}

fn date_name(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let part = the_part(arguments)?;
    let moment = moment(arguments, 0, SqlType::DateTimeOffset(7))?;
    let number = part_of(moment, part, "datename", arguments.call.date_first)?;
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
    Ok(Value::Int(part_of(moment, part, function, arguments.call.date_first)?))
}

/// How many days a day is behind the first day of its week.
fn days_into_week(day: Day, date_first: u8) -> u32 {
    (weekday(day) + 7 - u32::from(date_first % 7)) % 7
}

fn part_of(moment: Moment, part: DatePart, function: &str, date_first: u8) -> SqlResult<i32> {
    let is_missing = match moment.ty {
        SqlType::Date => part.is_time() || part == DatePart::TzOffset,
        SqlType::Time(_) => !part.is_time(),
        SqlType::DateTime | SqlType::SmallDateTime => part == DatePart::TzOffset,
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
        DatePart::Week => {
            u64::from((day_of_year(moment.day, year) - 1 + days_into_week(first_of_year, date_first)) / 7 + 1)
        }
        DatePart::IsoWeek => u64::from(iso_week(moment.day)),
        DatePart::Weekday => u64::from(days_into_week(moment.day, date_first) + 1),
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
