//! The calendar, the clock, date parts, and the rounding of the date and time types.
//!
//! A day is counted from 0001-01-01, a time in units of 100 ns: what `datetime2(7)` can hold. `datetime` counts in
//! 1/300 s; its values are held as the nearest multiple of 100 ns. The text forms stand in `datetime_text.rs`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A day of the proleptic Gregorian calendar, counted from 0001-01-01 = 0.
pub type Day = u32;

/// A time of day in units of 100 ns, 0 to 863,999,999,999.
pub type Ticks = u64;

/// 1900-01-01, the day zero of `datetime` and the date of a lone time.
pub const DAY_1900: Day = 693_595;
/// 1970-01-01, the day zero of the system clock.
const DAY_1970: Day = 719_162;
/// 1753-01-01, the first day of `datetime`.
pub const DAY_1753: Day = 639_905;
/// 9999-12-31, the last day.
pub const LAST_DAY: Day = 3_652_058;

/// A second, in units of 100 ns.
pub const TICKS_PER_SECOND: Ticks = 10_000_000;
/// A minute, in units of 100 ns.
pub const TICKS_PER_MINUTE: Ticks = 60 * TICKS_PER_SECOND;
/// An hour, in units of 100 ns.
pub const TICKS_PER_HOUR: Ticks = 60 * TICKS_PER_MINUTE;
/// A day, in units of 100 ns.
pub const TICKS_PER_DAY: Ticks = 24 * TICKS_PER_HOUR;
/// A millisecond, in units of 100 ns.
pub const TICKS_PER_MILLISECOND: Ticks = 10_000;

/// The number of 1/300 s in a day.
const THREE_HUNDREDTHS_PER_DAY: u64 = 300 * 24 * 60 * 60;

/// The clock, UTC, in steps of 100 ns.
pub fn now_utc() -> (Day, Ticks) {
    now_utc_shifted(0)
}

/// The same of a clock that is so many milliseconds fast or, below 0, slow.
pub fn now_utc_shifted(ms: i64) -> (Day, Ticks) {
    #[expect(clippy::disallowed_methods, reason = "this is the server's clock")]
    let right = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let shift = Duration::from_millis(ms.unsigned_abs());
    let elapsed = if ms < 0 { right.saturating_sub(shift) } else { right.saturating_add(shift) };
    let ticks = elapsed.as_secs() * TICKS_PER_SECOND + u64::from(elapsed.subsec_nanos() / 100);
    let day = Day::try_from(ticks / TICKS_PER_DAY).unwrap_or(LAST_DAY - DAY_1970) + DAY_1970;
    (day, ticks % TICKS_PER_DAY)
}

/// The day of a date, if there is such a date in the years 1 to 9999.
pub fn day_from_date(year: i32, month: u32, day: u32) -> Option<Day> {
    let valid =
        (1..=9999).contains(&year) && (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month);
    if !valid {
        return None;
    }
    let days_before_month: u32 = (1..month).map(|m| days_in_month(year, m)).sum();
    Some(days_before_year(year) + days_before_month + day - 1)
}

/// Year, month and day of month.
pub fn date_from_day(day: Day) -> (i32, u32, u32) {
    // The average year has 365.2425 days: the estimate is at most one year off.
    let mut year = i32::try_from(u64::from(day) * 10_000 / 3_652_425).unwrap_or(9999 - 1) + 1;
    if days_before_year(year) > day {
        year -= 1;
    } else if days_before_year(year + 1) <= day {
        year += 1;
    }
    let mut rest = day - days_before_year(year);
    let mut month = 1;
    while rest >= days_in_month(year, month) {
        rest -= days_in_month(year, month);
        month += 1;
    }
    (year, month, rest + 1)
}

fn days_before_year(year: i32) -> u32 {
    let full_years = u32::try_from(year - 1).unwrap_or(0);
    full_years * 365 + full_years / 4 - full_years / 100 + full_years / 400
}

fn is_leap_year(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The number of days of a month, 1 to 12.
pub fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A time of day.
pub fn ticks_from_time(hour: u32, minute: u32, second: u32) -> Ticks {
    u64::from(hour) * TICKS_PER_HOUR + u64::from(minute) * TICKS_PER_MINUTE + u64::from(second) * TICKS_PER_SECOND
}

/// A point of time as one number of ticks.
pub fn instant(day: Day, ticks: Ticks) -> i64 {
    // 3.7 million days of 8.64e11 ticks stay below 2^62.
    i64::from(day) * TICKS_PER_DAY as i64 + ticks as i64
}

/// The day and time of a number of ticks, if it lies in the years 1 to 9999.
pub fn from_instant(ticks: i64) -> Option<(Day, Ticks)> {
    let ticks = u64::try_from(ticks).ok()?;
    let day = Day::try_from(ticks / TICKS_PER_DAY).ok().filter(|&day| day <= LAST_DAY)?;
    Some((day, ticks % TICKS_PER_DAY))
}

/// The local time of a UTC time at an offset in minutes, or (with the negative offset) the other way round.
pub fn shift_minutes(day: Day, ticks: Ticks, minutes: i16) -> Option<(Day, Ticks)> {
    from_instant(instant(day, ticks) + i64::from(minutes) * TICKS_PER_MINUTE as i64)
}

/// A time rounded half up to `scale` digits; it may become 24:00.
pub fn round_ticks(ticks: Ticks, scale: u8) -> Ticks {
    let unit = 10u64.pow(u32::from(7 - scale.min(7)));
    (ticks + unit / 2) / unit * unit
}

/// A point of time rounded to `scale` digits; none past the end of year 9999.
pub fn round_instant(day: Day, ticks: Ticks, scale: u8) -> Option<(Day, Ticks)> {
    from_instant(instant(day, 0) + round_ticks(ticks, scale) as i64)
}

/// A point of time as `datetime` keeps it: rounded to 1/300 s, from 1753 on.
pub fn round_to_datetime(day: Day, ticks: Ticks) -> Option<(Day, Ticks)> {
    let counted = (ticks * 3 + 50_000) / 100_000;
    let (day, counted) = if counted == THREE_HUNDREDTHS_PER_DAY { (day + 1, 0) } else { (day, counted) };
    let in_range = (DAY_1753..=LAST_DAY).contains(&day);
    in_range.then(|| (day, ticks_from_three_hundredths(counted)))
}

/// A number of 1/300 s as ticks, rounded.
pub fn ticks_from_three_hundredths(counted: u64) -> Ticks {
    (counted * 100_000 + 1) / 3
}

/// A part of a date or time, as DATEADD and DATEDIFF take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DatePart {
    Year,
    Month,
    Day,
    Week,
    Hour,
    Minute,
    Second,
    Millisecond,
}

impl DatePart {
    /// The part of a keyword or its abbreviation ("Arguments" in docs/t-sql/functions/dateadd-transact-sql.md).
    pub fn parse(word: &str) -> Option<DatePart> {
        Some(match word.to_ascii_lowercase().as_str() {
            "year" | "yy" | "yyyy" => DatePart::Year,
            "month" | "mm" | "m" => DatePart::Month,
            "day" | "dd" | "d" => DatePart::Day,
            "week" | "wk" | "ww" => DatePart::Week,
            "hour" | "hh" => DatePart::Hour,
            "minute" | "mi" | "n" => DatePart::Minute,
            "second" | "ss" | "s" => DatePart::Second,
            "millisecond" | "ms" => DatePart::Millisecond,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree() {
        assert_eq!(day_from_date(1, 1, 1), Some(0));
        assert_eq!(day_from_date(1753, 1, 1), Some(DAY_1753));
        assert_eq!(day_from_date(1900, 1, 1), Some(DAY_1900));
        assert_eq!(day_from_date(1970, 1, 1), Some(DAY_1970));
        assert_eq!(day_from_date(9999, 12, 31), Some(LAST_DAY));
        assert_eq!(day_from_date(2023, 2, 29), None);
        for day in (0..=LAST_DAY).step_by(29) {
            let (year, month, day_of_month) = date_from_day(day);
            assert_eq!(day_from_date(year, month, day_of_month), Some(day));
        }
        assert_eq!(date_from_day(LAST_DAY), (9999, 12, 31));
    }

    // "Rounding of datetime fractional second precision" in docs/t-sql/data-types/datetime-transact-sql.md
    #[test]
    fn datetime_rounds_to_three_hundredths_of_a_second() {
        let base = ticks_from_time(23, 59, 59);
        let day = day_from_date(1998, 1, 1).unwrap();
        let cases = [(999, 0), (998, 997), (995, 997), (994, 993), (992, 993), (991, 990), (990, 990)];
        for (milliseconds, expected) in cases {
            let (rounded_day, ticks) = round_to_datetime(day, base + milliseconds * TICKS_PER_MILLISECOND).unwrap();
            if milliseconds == 999 {
                assert_eq!((rounded_day, ticks), (day + 1, 0));
            } else {
                let shown = (ticks - base + TICKS_PER_MILLISECOND / 2) / TICKS_PER_MILLISECOND;
                assert_eq!((rounded_day, shown), (day, expected), "{milliseconds} ms");
            }
        }
        assert_eq!(round_to_datetime(DAY_1753 - 1, 0), None);
    }
}
