//! Formats and reads durations, times and numbers, as in the web UI, but with times in this machine's zone.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use readpast_web::texts::{age, counted, exact, first_line, keep, number, rate, read_time, word};

/// Reads a duration: `90s`, `5m`, `7d`, `1h 30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| match humantime::parse_duration(&format!("1{text}")) {
        Ok(_) if text.starts_with(char::is_alphabetic) => format!("the number is missing; write it as 1{text}"),
        _ => "write it as 90s, 5m, 1h 30m or 7d".to_owned(),
    })
}

/// The most similar name, if any.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |other: &str| strsim::damerau_levenshtein(name, other);
    let near = names
        .map(|other| (likeness(other), other))
        .filter(|(distance, other)| *distance <= 2 && *distance < name.chars().count().min(other.chars().count()));
    near.min().map(|(_, other)| other)
}

/// Reads a number of bytes: `1000`, `64KiB`, `16MiB`, `3GiB`, `1TiB`.
pub fn bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = text.split_at(text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit.trim() {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err("write it as 1000, 64KiB, 16MiB or 3GiB".to_owned()),
    };
    let number: usize = number.parse().map_err(|_| "write it as 1000, 64KiB, 16MiB or 3GiB".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "that is too many bytes".to_owned())
}

/// A number of bytes for people: `3 GiB`, `1.5 GiB`, `800 bytes`.
pub fn size(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let Some((unit, name)) = units.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return counted(bytes, "byte");
    };
    let tenths = (u128::from(bytes) * 10 + u128::from(unit / 2_u64)) / u128::from(unit);
    match tenths % 10 {
        0 => format!("{} {name}", tenths / 10),
        tenth => format!("{}.{tenth} {name}", tenths / 10),
    }
}

/// A time in this machine's zone, to the second.
pub fn time(time: SystemTime) -> String {
    time_as(time, "%Y-%m-%d %H:%M:%S")
}

/// The same without the year.
pub fn short_time(time: SystemTime) -> String {
    time_as(time, "%m-%d %H:%M:%S")
}

fn time_as(time: SystemTime, format: &str) -> String {
    match Timestamp::try_from(time) {
        Ok(timestamp) => timestamp.to_zoned(TimeZone::system()).strftime(format).to_string(),
        Err(_) => "?".to_owned(), // SQL Server's years end at 9999, as jiff's do
    }
}

/// A value or a dash.
pub fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes_have_units() {
        assert_eq!([bytes("1000"), bytes("64KiB"), bytes("16 MiB")], [Ok(1_000), Ok(65_536), Ok(16_777_216)]);
        assert_eq!([bytes("3GiB"), bytes("2TiB")], [Ok(3 << 30), Ok(2 << 40)]);
        assert_eq!([0, 1, 1_536, 2 << 30].map(size), ["0 bytes", "1 byte", "1.5 KiB", "2 GiB"]);
        for text in ["", "MiB", "-1", "1.5MiB", "1GB", "99999999999999MiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_is_near_when_a_letter_or_two_differ() {
        let near = |name| nearest(name, ["work", "mail", "kind"].into_iter());
        assert_eq!([near("wrok"), near("kid"), near("m"), near("invoices")], [Some("work"), Some("kind"), None, None]);
        assert_eq!(duration("m").unwrap_err(), "the number is missing; write it as 1m");
        assert_eq!(duration("5x").unwrap_err(), "write it as 90s, 5m, 1h 30m or 7d");
    }

    #[test]
    fn durations_are_exact() {
        let spans = ["90d", "1h 30m", "1s 5ms", "0s"].map(|text| (text, exact(duration(text).unwrap())));
        assert!(spans.iter().all(|(text, exact)| text == exact), "{spans:?}");
    }
}
