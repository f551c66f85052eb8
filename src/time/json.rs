//! The JSON format of times and durations.

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

pub(crate) fn json_seconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
}

pub(crate) fn json_seconds_of<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    duration.as_secs_f64().serialize(serializer)
}

pub(crate) fn json_time<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(rfc3339).serialize(serializer)
}

pub(crate) fn json_time_of<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    rfc3339(*time).serialize(serializer)
}

/// Formats a time by RFC 3339, in UTC, to the millisecond: `2026-11-22T15:04:05.678Z`.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let ms = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX),
    };
    let (day, ms_of_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = date(day);
    let (second, ms) = (ms_of_day / 1_000, ms_of_day % 1_000);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Returns year, month and day of a day counted from 1970-01-01. Years begin in March here, so that the leap day is
/// their last day: 400 years have 146,097 days, and five months in a row always have 153.
fn date(days: i64) -> (i64, i64, i64) {
    let from_march_of_0 = days + 719_468;
    let (era, day_of_era) = (from_march_of_0.div_euclid(146_097), from_march_of_0.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + 400 * era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_of_the_calendar() {
        let at = |s: u64, ms: u64| rfc3339(SystemTime::UNIX_EPOCH + Duration::from_millis(s * 1_000 + ms));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_399, 999), "2000-02-28T23:59:59.999Z");
        assert_eq!(at(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_795_219_445, 7), "2026-11-21T00:04:05.007Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
        assert_eq!(at(253_402_300_799, 999), "9999-12-31T23:59:59.999Z");
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH - Duration::from_nanos(1)), "1969-12-31T23:59:59.999Z");
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH - Duration::from_secs(62_135_596_800)), "0001-01-01T00:00:00.000Z");
    }
}
