//! Dates and times as text: reading them, and writing them by CONVERT style.
//!
//! Reading: "Supported string literal formats" in docs/t-sql/data-types/datetime-transact-sql.md and
//! datetime2-transact-sql.md. Forms that are read: `yyyymmdd` and `yyyy-mm-dd` (with `-`, `/` or `.`), alone or with a
//! time; the ISO 8601 form with `T`; a time alone. Texts that SQL Server may read, too, are refused. Writing: "Date and
//! time styles" in docs/t-sql/functions/cast-and-convert-transact-sql.md.

use super::datetime::{
    DAY_1900, TICKS_PER_HOUR, TICKS_PER_MILLISECOND, TICKS_PER_MINUTE, TICKS_PER_SECOND, date_from_day, day_from_date,
    ticks_from_time,
};
use crate::error::{SqlError, SqlResult};
use crate::value::datetime::{Day, Ticks};
use crate::value::types::SqlType;

/// What a text says, with the default date 1900-01-01 and the default time 00:00.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateTimeText {
    pub day: Day,
    pub ticks: Ticks,
    /// How many digits of a second are written.
    pub fraction_digits: usize,
}

/// Why a text is no date or time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateTimeTextError {
    /// It is none, or has a form that is not read here.
    Malformed,
    /// It has the form of a date, but there is no such date or time.
    OutOfRange,
}

use DateTimeTextError::{Malformed, OutOfRange};

type Parsed<T> = Result<T, DateTimeTextError>;

/// Reads a date, a time, or both.
///
/// # Errors
/// If the text is none, or there is no such date.
pub fn parse(text: &str) -> Parsed<DateTimeText> {
    let mut reader = Reader { rest: text.trim_matches(' ') };
    if reader.rest.is_empty() {
        // An empty string is midnight of the default day.
        return Ok(DateTimeText { day: DAY_1900, ticks: 0, fraction_digits: 0 });
    }
    let (day, is_iso_date) = reader.date()?;
    let has_t = is_iso_date && reader.eat(b'T');
    reader.skip_blanks();
    let time = if reader.rest.is_empty() { None } else { Some(reader.time(has_t)?) };
    if !reader.rest.is_empty() || (time.is_none() && (has_t || day.is_none())) {
        return Err(Malformed);
    }
    let (ticks, fraction_digits) = time.unwrap_or((0, 0));
    Ok(DateTimeText { day: day.unwrap_or(DAY_1900), ticks, fraction_digits })
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    fn peek(&self) -> Option<u8> {
        self.rest.as_bytes().first().copied()
    }

    fn eat(&mut self, wanted: u8) -> bool {
        let found = self.peek().is_some_and(|byte| byte.eq_ignore_ascii_case(&wanted));
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn digits(&mut self) -> &'a str {
        let length = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        digits
    }

    fn number(&mut self, max_digits: usize) -> Parsed<u32> {
        let digits = self.digits();
        if digits.is_empty() || digits.len() > max_digits {
            return Err(Malformed);
        }
        digits.parse().map_err(|_| Malformed)
    }

    /// The date in front, if there is one, and whether a `T` may follow it.
    fn date(&mut self) -> Parsed<(Option<Day>, bool)> {
        let start = self.rest;
        let first = self.digits();
        if first.len() == 8 {
            let (year, month, day) = (&first[..4], &first[4..6], &first[6..]);
            return Ok((Some(to_day(year, month, day)?), true));
        }
        if let Some(separator @ (b'-' | b'/' | b'.')) = self.peek() {
            self.eat(separator);
            let second = self.digits();
            if !self.eat(separator) {
                return Err(Malformed);
            }
            let third = self.digits();
            let is_short = |part: &str| (1..=2).contains(&part.len());
            if first.len() != 4 || !is_short(second) || !is_short(third) {
                return Err(Malformed);
            }
            let may_have_t = separator == b'-' && second.len() == 2 && third.len() == 2;
            return Ok((Some(to_day(first, second, third)?), may_have_t));
        }
        // No date: what was read belongs to a time.
        let time_follows = self.peek() == Some(b':');
        self.rest = start;
        if time_follows { Ok((None, false)) } else { Err(Malformed) }
    }

    /// `hh:mm[:ss[.fraction]]`.
    fn time(&mut self, all_parts_needed: bool) -> Parsed<(Ticks, usize)> {
        let hour = self.number(2)?;
        if !self.eat(b':') {
            return Err(Malformed);
        }
        let minute = self.number(2)?;
        let (mut second, mut fraction, mut fraction_digits) = (0, 0, 0);
        if self.eat(b':') {
            second = self.number(2)?;
            if self.eat(b'.') {
                let digits = self.digits();
                if digits.is_empty() || digits.len() > 7 {
                    return Err(Malformed);
                }
                fraction_digits = digits.len();
                fraction = digits.parse::<u64>().map_err(|_| Malformed)?
                    * 10u64.pow(7 - u32::try_from(fraction_digits).map_err(|_| Malformed)?);
            }
        } else if all_parts_needed {
            return Err(Malformed);
        }
        if hour > 23 || minute > 59 || second > 59 {
            return Err(OutOfRange);
        }
        Ok((ticks_from_time(hour, minute, second) + fraction, fraction_digits))
    }
}

fn to_day(year: &str, month: &str, day: &str) -> Parsed<Day> {
    let year = year.parse().map_err(|_| Malformed)?;
    let month = month.parse().map_err(|_| Malformed)?;
    let day = day.parse().map_err(|_| Malformed)?;
    day_from_date(year, month, day).ok_or(OutOfRange)
}

/// Writes a value of a date or time type (its local time, for `datetimeoffset`) in a CONVERT style.
///
/// # Errors
/// A refusal of styles that the dev server does not know.
pub fn format(ty: SqlType, day: Day, ticks: Ticks, offset: i16, style: Option<i32>) -> SqlResult<String> {
    let default_style = if ty == SqlType::DateTime { 0 } else { 121 };
    let style = style.unwrap_or(default_style);
    let time = match style {
        20 | 120 => twenty_four_hour_time(ticks),
        21 | 121 => twenty_four_hour_time(ticks) + &fraction(ty, ticks),
        126 => {
            let is_whole_second = shown_ticks(ty, ticks).is_multiple_of(TICKS_PER_SECOND);
            let digits = if is_whole_second { String::new() } else { fraction(ty, ticks) };
            twenty_four_hour_time(ticks) + &digits
        }
        _ => return Err(SqlError::not_supported(format!("style {style} for date and time types"))),
    };
    let separator = if style == 126 { "T" } else { " " };
    let written = match ty {
        SqlType::Date => numeric_date(day),
        SqlType::Time(_) => time,
        _ => format!("{}{separator}{time}", numeric_date(day)),
    };
    if !matches!(ty, SqlType::DateTimeOffset(_)) {
        return Ok(written);
    }
    let (sign, minutes) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
    let blank = if style == 126 { "" } else { " " };
    Ok(format!("{written}{blank}{sign}{:02}:{:02}", minutes / 60, minutes % 60))
}

fn numeric_date(day: Day) -> String {
    let (year, month, day) = date_from_day(day);
    format!("{year:04}-{month:02}-{day:02}")
}

fn twenty_four_hour_time(ticks: Ticks) -> String {
    let (hour, minute) = (ticks / TICKS_PER_HOUR, ticks % TICKS_PER_HOUR / TICKS_PER_MINUTE);
    format!("{hour:02}:{minute:02}:{:02}", ticks % TICKS_PER_MINUTE / TICKS_PER_SECOND)
}

/// The time with the digits that are shown: a `datetime` shows whole milliseconds.
fn shown_ticks(ty: SqlType, ticks: Ticks) -> Ticks {
    if ty == SqlType::DateTime {
        // 1/300 s steps end in .000, .003333 or .006667: rounding up never reaches the next second.
        return (ticks + TICKS_PER_MILLISECOND / 2) / TICKS_PER_MILLISECOND * TICKS_PER_MILLISECOND;
    }
    ticks
}

/// A point and as many digits of the second as the type has.
fn fraction(ty: SqlType, ticks: Ticks) -> String {
    let scale = usize::from(ty.time_scale().unwrap_or(0));
    if scale == 0 {
        return String::new();
    }
    let digits = format!("{:07}", shown_ticks(ty, ticks) % TICKS_PER_SECOND);
    format!(".{}", &digits[..scale])
}
