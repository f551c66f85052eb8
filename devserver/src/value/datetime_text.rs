//! Dates and times as text: reading them under `us_english` (month, day, year) and writing them by CONVERT style.
//!
//! Reading: "Supported string literal formats" in docs/t-sql/data-types/datetime-transact-sql.md and
//! datetime2-transact-sql.md. Forms that are read: `yyyymmdd`, `yymmdd`, `yyyy-mm-dd`, `mm/dd/yyyy` (with `-`, `/` or
//! `.`), `mon dd[,] yyyy`, `dd mon yyyy`, each alone or with a time; the ISO 8601 form with `T`; a year or a time
//! alone. Other forms that SQL Server reads (two-digit years in front of other numbers) end in its error for what it
//! cannot read. Writing: "Date and time styles" in docs/t-sql/functions/cast-and-convert-transact-sql.md.

use super::datetime::{
    DAY_1900, MONTH_NAMES, TICKS_PER_HOUR, TICKS_PER_MILLISECOND, TICKS_PER_MINUTE, TICKS_PER_SECOND, date_from_day,
    day_from_date, ticks_from_time,
};
use crate::error::{SqlError, SqlResult};
use crate::value::datetime::{Day, Ticks};
use crate::value::types::SqlType;

/// The order of numbers in a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateOrder {
    MonthDayYear,
    DayMonthYear,
    YearMonthDay,
}

/// What a text says, with the default date 1900-01-01 and the default time 00:00.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateTimeText {
    pub day: Day,
    pub ticks: Ticks,
    /// The offset from UTC in minutes, if one is written.
    pub offset: Option<i16>,
    /// How many digits of a second are written.
    pub fraction_digits: usize,
}

/// Why a text is no date or time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateTimeTextError {
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
pub fn parse(text: &str, order: DateOrder) -> Parsed<DateTimeText> {
    let mut reader = Reader { rest: text.trim_matches(' ') };
    if reader.rest.is_empty() {
        // An empty string is midnight of the default day.
        return Ok(DateTimeText { day: DAY_1900, ticks: 0, offset: None, fraction_digits: 0 });
    }
    let (day, is_iso_date) = reader.date(order)?;
    let has_t = is_iso_date && reader.eat(b'T');
    reader.skip_blanks();
    let time = if reader.rest.is_empty() { None } else { Some(reader.time(has_t)?) };
    if has_t && time.is_none() {
        return Err(Malformed);
    }
    reader.skip_blanks();
    let offset = if time.is_some() { reader.offset()? } else { None };
    if !reader.rest.is_empty() || (day.is_none() && time.is_none()) {
        return Err(Malformed);
    }
    let (ticks, fraction_digits) = time.unwrap_or((0, 0));
    Ok(DateTimeText { day: day.unwrap_or(DAY_1900), ticks, offset, fraction_digits })
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

    fn take_while(&mut self, wanted: fn(&u8) -> bool) -> &'a str {
        let length = self.rest.bytes().take_while(wanted).count();
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn digits(&mut self) -> &'a str {
        self.take_while(u8::is_ascii_digit)
    }

    fn number(&mut self, max_digits: usize) -> Parsed<u32> {
        let digits = self.digits();
        if digits.is_empty() || digits.len() > max_digits {
            return Err(Malformed);
        }
        digits.parse().map_err(|_| Malformed)
    }

    /// The date in front, if there is one, and whether a `T` may follow it.
    fn date(&mut self, order: DateOrder) -> Parsed<(Option<Day>, bool)> {
        let start = self.rest;
        if self.peek().is_some_and(|byte| byte.is_ascii_alphabetic()) {
            let month = self.month_name()?;
            self.skip_blanks();
            let day = self.number(2)?;
            self.eat(b',');
            return Ok((Some(self.year_after(month, day)?), false));
        }
        let first = self.digits();
        if first.len() == 8 {
            let (year, month, day) = (&first[..4], &first[4..6], &first[6..]);
            return Ok((Some(to_day(year, month, day)?), true));
        }
        // "The 6-digit or 8-digit strings are always interpreted as ymd … A string of only 4 digits is interpreted as
        // the year. The month and date are set to January 1" ("Unseparated String Format",
        // learn.microsoft.com/previous-versions/sql/sql-server-2005/ms187085).
        if first.len() == 6 {
            let year = with_century(&first[..2])?;
            return Ok((Some(to_day(&year, &first[2..4], &first[4..])?), false));
        }
        if first.len() == 4 && self.rest.is_empty() {
            return Ok((Some(to_day(first, "1", "1")?), false));
        }
        if let Some(separator @ (b'-' | b'/' | b'.')) = self.peek() {
            self.eat(separator);
            let second = self.digits();
            if !self.eat(separator) {
                return Err(Malformed);
            }
            let third = self.digits();
            return self.ordered_date(first, second, third, separator, order);
        }
        let after_digits = self.rest;
        self.skip_blanks();
        let month_may_follow = first.len() <= 2 && self.peek().is_some_and(|byte| byte.is_ascii_alphabetic());
        if month_may_follow && !starts_with_meridiem(self.rest) {
            let day = first.parse().map_err(|_| Malformed)?;
            let month = self.month_name()?;
            self.eat(b',');
            return Ok((Some(self.year_after(month, day)?), false));
        }
        // No date: what was read belongs to a time, which goes on with a colon or with AM or PM.
        let time_follows = after_digits.starts_with(':') || starts_with_meridiem(self.rest);
        self.rest = start;
        if time_follows { Ok((None, false)) } else { Err(Malformed) }
    }

    fn ordered_date(
        &self,
        first: &str,
        second: &str,
        third: &str,
        separator: u8,
        order: DateOrder,
    ) -> Parsed<(Option<Day>, bool)> {
        let short = |part: &str| (1..=2).contains(&part.len());
        if first.len() == 4 && short(second) && short(third) {
            // Year first is read as year, month, day under us_english and under every style but the day-first ones.
            if order == DateOrder::DayMonthYear {
                return Err(Malformed);
            }
            let may_have_t = separator == b'-' && second.len() == 2 && third.len() == 2;
            return Ok((Some(to_day(first, second, third)?), may_have_t));
        }
        let year = match third.len() {
            4 => third.to_string(),
            2 => with_century(third)?,
            _ => return Err(Malformed),
        };
        if !short(first) || !short(second) {
            return Err(Malformed);
        }
        match order {
            DateOrder::MonthDayYear => Ok((Some(to_day(&year, first, second)?), false)),
            DateOrder::DayMonthYear => Ok((Some(to_day(&year, second, first)?), false)),
            DateOrder::YearMonthDay => Err(Malformed),
        }
    }

    fn month_name(&mut self) -> Parsed<u32> {
        let word = self.take_while(u8::is_ascii_alphabetic);
        let position = MONTH_NAMES
            .iter()
            .position(|name| word.eq_ignore_ascii_case(name) || word.eq_ignore_ascii_case(&name[..3]));
        match position.and_then(|at| u32::try_from(at + 1).ok()) {
            Some(month) => Ok(month),
            None => Err(Malformed),
        }
    }

    fn year_after(&mut self, month: u32, day: u32) -> Parsed<Day> {
        self.skip_blanks();
        let digits = self.digits();
        if digits.len() != 4 {
            return Err(Malformed);
        }
        let year = digits.parse().map_err(|_| Malformed)?;
        day_from_date(year, month, day).ok_or(OutOfRange)
    }

    /// `hh:mm[:ss[.fraction]]`, `hh:mm:ss:mmm`, each with or without AM or PM; an hour alone needs one of them.
    fn time(&mut self, all_parts_needed: bool) -> Parsed<(Ticks, usize)> {
        let mut hour = self.number(2)?;
        let (mut minute, mut second, mut fraction, mut fraction_digits) = (0, 0, 0, 0);
        let has_minute = self.eat(b':');
        let mut has_second = false;
        if has_minute {
            minute = self.number(2)?;
            has_second = self.eat(b':');
        }
        if has_second {
            second = self.number(2)?;
            if self.eat(b'.') {
                let digits = self.digits();
                if digits.is_empty() || digits.len() > 7 {
                    return Err(Malformed);
                }
                fraction_digits = digits.len();
                fraction = digits.parse::<u64>().map_err(|_| Malformed)?
                    * 10u64.pow(7 - u32::try_from(fraction_digits).map_err(|_| Malformed)?);
            } else if !all_parts_needed && self.eat(b':') {
                // After a colon come milliseconds: `:9` is 9 ms, where `.9` is 900 ms.
                fraction_digits = 3;
                fraction = u64::from(self.number(3)?) * TICKS_PER_MILLISECOND;
            }
        }
        if all_parts_needed && !has_second {
            return Err(Malformed);
        }
        if !all_parts_needed {
            self.skip_blanks();
            let meridiem = starts_with_meridiem(self.rest);
            if !has_minute && !meridiem {
                return Err(Malformed);
            }
            if meridiem {
                let is_pm = self.eat(b'P');
                self.rest = &self.rest[if is_pm { 1 } else { 2 }..];
                if hour == 0 || hour > 12 {
                    return Err(Malformed);
                }
                hour = hour % 12 + if is_pm { 12 } else { 0 };
            }
        }
        if hour > 23 || minute > 59 || second > 59 {
            return Err(OutOfRange);
        }
        Ok((ticks_from_time(hour, minute, second) + fraction, fraction_digits))
    }

    /// `Z`, `+hh:mm` or `-hh:mm`.
    fn offset(&mut self) -> Parsed<Option<i16>> {
        if self.eat(b'Z') {
            return Ok(Some(0));
        }
        let negative = match self.peek() {
            Some(b'+') => false,
            Some(b'-') => true,
            _ => return Ok(None),
        };
        self.rest = &self.rest[1..];
        let hours = self.number(2)?;
        if !self.eat(b':') {
            return Err(Malformed);
        }
        let minutes = self.number(2)?;
        let total = i16::try_from(hours * 60 + minutes).map_err(|_| Malformed)?;
        if minutes > 59 || total > MAX_OFFSET_MINUTES {
            return Err(Malformed);
        }
        Ok(Some(if negative { -total } else { total }))
    }
}

/// Offsets go from -14:00 to +14:00.
pub const MAX_OFFSET_MINUTES: i16 = 14 * 60;

fn starts_with_meridiem(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_word = bytes.len() >= 2 && matches!(bytes[0], b'A' | b'a' | b'P' | b'p') && matches!(bytes[1], b'M' | b'm');
    is_word && !bytes.get(2).is_some_and(u8::is_ascii_alphabetic)
}

/// A two-digit year, by the default cutoff 2049.
fn with_century(two_digits: &str) -> Parsed<String> {
    let year: u32 = two_digits.parse().map_err(|_| Malformed)?;
    let century = if year < 50 { 2000 } else { 1900 };
    Ok(format!("{}", century + year))
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
/// 281 where the style does not go with the type; a refusal for styles the dev server does not know.
pub fn format(ty: SqlType, day: Day, ticks: Ticks, offset: i16, style: Option<i32>) -> SqlResult<String> {
    let default_style = if ty == SqlType::DateTime { 0 } else { 121 };
    let style = style.unwrap_or(default_style);
    let (has_date, has_time) = (!matches!(ty, SqlType::Time(_)), ty != SqlType::Date);
    let date = match style {
        0 | 100 | 9 | 109 => Some(date_with_month_name(day)),
        1 => Some(numeric_date(day, "mdy", '/', false)),
        3 => Some(numeric_date(day, "dmy", '/', false)),
        101 => Some(numeric_date(day, "mdy", '/', true)),
        102 => Some(numeric_date(day, "ymd", '.', true)),
        103 => Some(numeric_date(day, "dmy", '/', true)),
        104 => Some(numeric_date(day, "dmy", '.', true)),
        105 => Some(numeric_date(day, "dmy", '-', true)),
        110 => Some(numeric_date(day, "mdy", '-', true)),
        111 => Some(numeric_date(day, "ymd", '/', true)),
        112 => Some(numeric_date(day, "ymd", '-', true).replace('-', "")),
        20 | 21 | 23 | 25 | 120 | 121 | 126 | 127 => Some(numeric_date(day, "ymd", '-', true)),
        8 | 14 | 24 | 108 | 114 => None,
        _ => {
            return Err(SqlError::not_supported(format!("style {style} for date and time types")));
        }
    };
    let time = match style {
        0 | 100 => Some(twelve_hour_time(ticks, "")),
        9 | 109 => Some(twelve_hour_time(ticks, &format!(":{}{}", seconds(ticks), fraction(ty, ticks, ':')))),
        8 | 24 | 108 | 20 | 120 => Some(twenty_four_hour_time(ticks)),
        14 | 114 => Some(twenty_four_hour_time(ticks) + &fraction(ty, ticks, ':')),
        21 | 25 | 121 => Some(twenty_four_hour_time(ticks) + &fraction(ty, ticks, '.')),
        126 | 127 => {
            let is_whole_second = shown_ticks(ty, ticks).is_multiple_of(TICKS_PER_SECOND);
            let digits = if is_whole_second { String::new() } else { fraction(ty, ticks, '.') };
            Some(twenty_four_hour_time(ticks) + &digits)
        }
        _ => None,
    };
    if style == 127 {
        // The table of styles shows a Z, a footnote allows the style for reading only.
        return Err(SqlError::not_supported("style 127 for writing a date and time"));
    }
    let separator = if style == 126 { "T" } else { " " };
    let has_offset = matches!(ty, SqlType::DateTimeOffset(_)) && time.is_some();
    let written = match (date.filter(|_| has_date), time.filter(|_| has_time)) {
        (Some(date), Some(time)) => format!("{date}{separator}{time}"),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => {
            let message = format!(
                "{style} is not a valid style number when converting from {} to a character string.",
                ty.name()
            );
            return Err(SqlError::new(281, message));
        }
    };
    if !has_offset {
        return Ok(written);
    }
    let (sign, minutes) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
    let blank = if style == 126 { "" } else { " " };
    Ok(format!("{written}{blank}{sign}{:02}:{:02}", minutes / 60, minutes % 60))
}

fn numeric_date(day: Day, order: &str, separator: char, with_century: bool) -> String {
    let (year, month, day) = date_from_day(day);
    let mut written = String::with_capacity(10);
    for part in order.chars() {
        if !written.is_empty() {
            written.push(separator);
        }
        match part {
            'y' if with_century => written += &format!("{year:04}"),
            'y' => written += &format!("{:02}", year % 100),
            'm' => written += &format!("{month:02}"),
            _ => written += &format!("{day:02}"),
        }
    }
    written
}

fn date_with_month_name(day: Day) -> String {
    let (year, month, day) = date_from_day(day);
    let name = &MONTH_NAMES[month as usize - 1][..3];
    format!("{name} {day:>2} {year:04}")
}

fn twelve_hour_time(ticks: Ticks, after_minutes: &str) -> String {
    let hour = ticks / TICKS_PER_HOUR;
    let minute = ticks % TICKS_PER_HOUR / TICKS_PER_MINUTE;
    let (shown_hour, meridiem) =
        (if hour.is_multiple_of(12) { 12 } else { hour % 12 }, if hour < 12 { "AM" } else { "PM" });
    format!("{shown_hour:>2}:{minute:02}{after_minutes}{meridiem}")
}

fn seconds(ticks: Ticks) -> String {
    format!("{:02}", ticks % TICKS_PER_MINUTE / TICKS_PER_SECOND)
}

fn twenty_four_hour_time(ticks: Ticks) -> String {
    let (hour, minute) = (ticks / TICKS_PER_HOUR, ticks % TICKS_PER_HOUR / TICKS_PER_MINUTE);
    format!("{hour:02}:{minute:02}:{}", seconds(ticks))
}

/// The time with the digits that are shown: a `datetime` shows whole milliseconds.
fn shown_ticks(ty: SqlType, ticks: Ticks) -> Ticks {
    if ty == SqlType::DateTime {
        // 1/300 s steps end in .000, .003333 or .006667: rounding up never reaches the next second.
        return (ticks + TICKS_PER_MILLISECOND / 2) / TICKS_PER_MILLISECOND * TICKS_PER_MILLISECOND;
    }
    ticks
}

/// A separator and as many digits of the second as the type has.
fn fraction(ty: SqlType, ticks: Ticks, separator: char) -> String {
    let scale = usize::from(ty.time_scale().unwrap_or(0));
    if scale == 0 {
        return String::new();
    }
    let digits = format!("{:07}", shown_ticks(ty, ticks) % TICKS_PER_SECOND);
    format!("{separator}{}", &digits[..scale])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, Option<i16>), DateTimeTextError> {
        let parsed = parse(text, DateOrder::MonthDayYear)?;
        let written = format(SqlType::DateTime2(7), parsed.day, parsed.ticks, 0, Some(121)).unwrap();
        Ok((written, parsed.offset))
    }

    // docs/t-sql/data-types/datetime-transact-sql.md, "Supported string literal formats"
    #[test]
    fn texts_are_read_as_under_us_english() {
        let cases = [
            ("2004-05-23T14:25:10.487", "2004-05-23 14:25:10.4870000"),
            ("2004-05-23 14:25", "2004-05-23 14:25:00.0000000"),
            ("20040523", "2004-05-23 00:00:00.0000000"),
            ("960415 4am", "1996-04-15 04:00:00.0000000"),
            ("2004", "2004-01-01 00:00:00.0000000"),
            ("20040523 14:25:10:9", "2004-05-23 14:25:10.0090000"),
            ("04/15/1996", "1996-04-15 00:00:00.0000000"),
            ("12-21-16", "2016-12-21 00:00:00.0000000"),
            ("1996/4/15 4 PM", "1996-04-15 16:00:00.0000000"),
            ("April 15, 1996 4am", "1996-04-15 04:00:00.0000000"),
            ("15 apr 1996", "1996-04-15 00:00:00.0000000"),
            ("14:30:20.9", "1900-01-01 14:30:20.9000000"),
            ("", "1900-01-01 00:00:00.0000000"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), Ok((expected.to_string(), None)), "{text}");
        }
        let with_offset = read("2007-05-08 12:35:29.1234567 +12:15");
        assert_eq!(with_offset, Ok(("2007-05-08 12:35:29.1234567".to_string(), Some(735))));
        assert_eq!(read("2024-02-29T00:00:00Z").map(|(_, offset)| offset), Ok(Some(0)));
    }

    #[test]
    fn texts_that_are_no_dates_are_refused() {
        for text in [
            "tomorrow",
            "2004-05-23T14:25",
            "2004-05",
            "2004 10:00",
            "14",
            "2004-05-23 +01:00",
            "12:00:00.12345678",
            "1/2/3",
        ] {
            assert_eq!(read(text), Err(Malformed), "{text}");
        }
        for text in ["2023-02-29", "20231301", "231301", "0000", "13/01/2023", "25:00"] {
            assert_eq!(read(text), Err(OutOfRange), "{text}");
        }
    }

    // docs/t-sql/functions/cast-and-convert-transact-sql.md, "Date and time styles"
    #[test]
    fn styles_are_written() {
        let parsed = parse("2006-04-05 16:07:09.997", DateOrder::MonthDayYear).unwrap();
        let cases = [
            (0, "Apr  5 2006  4:07PM"),
            (101, "04/05/2006"),
            (103, "05/04/2006"),
            (104, "05.04.2006"),
            (108, "16:07:09"),
            (109, "Apr  5 2006  4:07:09:997PM"),
            (112, "20060405"),
            (114, "16:07:09:997"),
            (120, "2006-04-05 16:07:09"),
            (121, "2006-04-05 16:07:09.997"),
            (126, "2006-04-05T16:07:09.997"),
        ];
        for (style, expected) in cases {
            assert_eq!(format(SqlType::DateTime, parsed.day, parsed.ticks, 0, Some(style)).unwrap(), expected);
        }
        assert_eq!(format(SqlType::DateTime, parsed.day, 0, 0, Some(126)).unwrap(), "2006-04-05T00:00:00");
        assert_eq!(format(SqlType::Date, parsed.day, 0, 0, None).unwrap(), "2006-04-05");
        assert_eq!(format(SqlType::Date, parsed.day, 0, 0, Some(108)).unwrap_err().number, 281);
        let offset = format(SqlType::DateTimeOffset(3), parsed.day, parsed.ticks, -90, None).unwrap();
        assert_eq!(offset, "2006-04-05 16:07:09.997 -01:30");
    }
}
