//! The times of a schedule: a cron expression in a time zone.

use std::time::SystemTime;

#[cfg(feature = "schedules")]
use {
    croner::Cron,
    croner::errors::CronError,
    croner::parser::{CronParser, Seconds, Year},
    jiff::tz::TimeZone,
    jiff::{Timestamp, Zoned},
    std::time::Duration,
};

/// The times of a schedule, in whole seconds.
///
/// When clocks are put forward, some times of day do not exist. A single time of day then becomes the first moment
/// after the gap. Times of a list, a range or a step are left out, and so are all times in a gap of more than two hours
/// (a zone that moved over the date line). When clocks are put back, some times of day occur twice. A single time of
/// day then counts once, at its first occurrence; times of a list, a range or a step count twice.
#[cfg(feature = "schedules")]
#[derive(Debug)]
pub(crate) struct CronTimes {
    cron: Cron,
    time_zone: TimeZone,
}

#[cfg(feature = "schedules")]
impl CronTimes {
    /// The widths of the columns.
    const MAX_CRON_LENGTH: usize = 256;

    const MAX_TIME_ZONE_LENGTH: usize = 64;

    const ALLOWED_CRON: &str = "5 fields (minute, hour, day of month, month, day of week), or 6 with the second first, \
         or @yearly, @monthly, @weekly, @daily or @hourly";

    const ALLOWED_TIME_ZONE: &str = "a name of the IANA database, such as UTC or Europe/Berlin";

    /// The resolution of SQL Server's `datetime2(3)`.
    const MILLISECOND: Duration = Duration::from_millis(1);

    /// The longest gap in a zone's clocks that croner searches across.
    const LONGEST_GAP_S: i32 = 2 * 3_600;

    /// How many clock changes to search for a longer gap: about a hundred years.
    const MOST_CHANGES: usize = 200;

    /// Parses an expression and the name of a time zone.
    ///
    /// The error says what is wrong and what is allowed. An expression whose times never occur is an error, too.
    pub(crate) fn read(cron: &str, time_zone: &str) -> Result<CronTimes, String> {
        let wrong_cron = |reason: &str| format!("cron is '{cron}'; it must have {}: {reason}", Self::ALLOWED_CRON);
        if cron.len() > Self::MAX_CRON_LENGTH {
            return Err(format!("cron is {} bytes; it must be at most {}", cron.len(), Self::MAX_CRON_LENGTH));
        }
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let parsed = parser.parse(cron).map_err(|error| wrong_cron(error.to_string().trim_end_matches('.')))?;
        let found = TimeZone::get(time_zone).ok().filter(|_| time_zone.len() <= Self::MAX_TIME_ZONE_LENGTH);
        // The database has an entry for "unknown zone", which has no name.
        let Some(time_zone) = found.filter(|zone| zone.iana_name().is_some()) else {
            return Err(format!("time_zone is '{time_zone}'; it must be {}", Self::ALLOWED_TIME_ZONE));
        };
        let times = CronTimes { cron: parsed, time_zone };
        // Any start will do: an expression without years recurs, or never occurs.
        match times.first_after(SystemTime::UNIX_EPOCH) {
            Ok(_) => Ok(times),
            Err(_) => Err(wrong_cron("there is no such day")),
        }
    }

    /// Returns the first time at or after `time`. Errors as [`first_after`](Self::first_after).
    pub(crate) fn first_from(&self, time: SystemTime) -> Result<SystemTime, String> {
        self.first_after(time - Self::MILLISECOND)
    }

    /// Returns the first time after `time`, or an error if there is none within the supported years or `time` is
    /// outside them.
    pub(crate) fn first_after(&self, time: SystemTime) -> Result<SystemTime, String> {
        let after = Timestamp::try_from(time).map_err(|error| error.to_string())?;
        match self.search(after, false).or_else(|error| self.after_long_gap(after).ok_or(error)) {
            // A time that followed itself would fire forever.
            Ok(next) if next > after => Ok(next.into()),
            Ok(next) => Err(format!("{next} was found as the time after {after}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the first time after a gap that a search from `after` cannot cross.
    fn after_long_gap(&self, after: Timestamp) -> Option<Timestamp> {
        let changes = self.time_zone.following(after).take(Self::MOST_CHANGES);
        let mut ends = changes.filter(|change| {
            let before = self.time_zone.to_offset(change.timestamp() - Self::MILLISECOND);
            change.offset().seconds() - before.seconds() > Self::LONGEST_GAP_S
        });
        ends.find_map(|end| self.search(end.timestamp(), true).ok())
    }

    fn search(&self, from: Timestamp, inclusive: bool) -> Result<Timestamp, CronError> {
        let from = from.to_zoned(self.time_zone.clone());
        self.cron.find_next_occurrence(&from, inclusive).map(|next: Zoned| next.timestamp())
    }
}

#[cfg(not(feature = "schedules"))]
#[derive(Debug)]
pub(crate) enum CronTimes {}

#[cfg(not(feature = "schedules"))]
impl CronTimes {
    pub(crate) fn read(_cron: &str, _time_zone: &str) -> Result<CronTimes, String> {
        Err("this program was built without readpast's feature schedules, and cannot read cron expressions".to_string())
    }

    pub(crate) fn first_from(&self, _time: SystemTime) -> Result<SystemTime, String> {
        match *self {}
    }

    pub(crate) fn first_after(&self, _time: SystemTime) -> Result<SystemTime, String> {
        match *self {}
    }
}

#[cfg(all(test, feature = "schedules"))]
mod tests {
    use std::collections::BTreeSet;

    use jiff::tz::AmbiguousOffset;

    use super::*;
    use crate::time::json::rfc3339;

    fn at(text: &str) -> SystemTime {
        text.parse::<Timestamp>().unwrap().into()
    }

    fn first(count: usize, cron: &str, time_zone: &str, from: &str) -> Vec<String> {
        let times = CronTimes::read(cron, time_zone).unwrap();
        let mut next = times.first_from(at(from)).unwrap();
        let mut found = Vec::new();
        for _ in 0..count {
            found.push(rfc3339(next).replace(".000Z", "Z"));
            next = times.first_after(next).unwrap();
        }
        found
    }

    #[test]
    fn a_time_of_day_comes_once_a_day_also_where_clocks_are_put_forward_or_back() {
        // 02:30 does not exist on 29 March, and occurs twice on 25 October.
        assert_eq!(
            first(3, "30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z"),
            ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
        );
        assert_eq!(
            first(3, "30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z"),
            ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        // Between the first 02:30 of the day and the second.
        assert_eq!(first(1, "30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z"), ["2026-10-26T01:30:00Z"]);
    }

    #[test]
    fn what_comes_at_an_interval_goes_on_through_both_changes() {
        assert_eq!(
            first(3, "*/30 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z"),
            ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]
        );
        assert_eq!(
            first(4, "*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z"),
            ["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"]
        );
    }

    #[test]
    fn seconds_stand_first_and_the_time_that_is_asked_from_counts() {
        assert_eq!(
            first(3, "*/20 * * * * *", "UTC", "2026-01-01T00:00:20Z"),
            ["2026-01-01T00:00:20Z", "2026-01-01T00:00:40Z", "2026-01-01T00:01:00Z"]
        );
        assert_eq!(first(1, "*/20 * * * * *", "UTC", "2026-01-01T00:00:20.001Z"), ["2026-01-01T00:00:40Z"]);
        assert_eq!(first(1, "@daily", "Asia/Kathmandu", "2026-01-01T00:00:00Z"), ["2026-01-01T18:15:00Z"]);
        assert_eq!(first(1, "0 0 29 2 *", "UTC", "2097-01-01T00:00:00Z"), ["2104-02-29T00:00:00Z"]);
    }

    /// The times do not depend on where the search begins. The difficult case is the first moment after a gap.
    #[test]
    fn from_wherever_they_are_looked_for_the_times_are_the_same() {
        let (begin, end) = (at("2026-03-01T00:00:00Z"), at("2026-04-01T00:00:00Z"));
        for cron in ["30 2 * * *", "*/45 * * * *", "0 1-3 * * *", "0 0 * * *"] {
            for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut"] {
                let times = CronTimes::read(cron, zone).unwrap();
                let (mut from, mut expected) = (begin, times.first_from(begin).unwrap());
                while from < end {
                    if from > expected {
                        expected = times.first_after(expected).unwrap();
                    }
                    assert_eq!(times.first_from(from).unwrap(), expected, "{cron} {zone} from {}", rfc3339(from));
                    from += Duration::from_secs(300);
                }
            }
        }
    }

    /// Compares with a naive search: each time of a day that `cron` lists is looked up in the zone's clocks.
    fn looked_up(hours: &[i8], minutes: &[i8], zone: &TimeZone, from: Timestamp, end: Timestamp) -> Vec<Timestamp> {
        let is_one = hours.len() * minutes.len() == 1;
        let mut found = BTreeSet::new();
        let mut day = from.to_zoned(zone.clone()).date().yesterday().unwrap();
        while day.to_zoned(zone.clone()).unwrap().timestamp() < end {
            for (hour, minute) in hours.iter().flat_map(|hour| minutes.iter().map(|minute| (*hour, *minute))) {
                let ambiguous = zone.to_ambiguous_timestamp(day.at(hour, minute, 0, 0));
                match ambiguous.offset() {
                    AmbiguousOffset::Unambiguous { .. } => drop(found.insert(ambiguous.unambiguous().unwrap())),
                    AmbiguousOffset::Gap { before, after } => {
                        let is_short = after.seconds() - before.seconds() <= 2 * 3_600;
                        if is_one && is_short {
                            let in_gap = ambiguous.earlier().unwrap(); // an instant before the change
                            found.insert(zone.following(in_gap).next().unwrap().timestamp());
                        }
                    }
                    AmbiguousOffset::Fold { .. } => {
                        found.insert(ambiguous.earlier().unwrap());
                        if !is_one {
                            found.insert(ambiguous.later().unwrap());
                        }
                    }
                }
            }
            day = day.tomorrow().unwrap();
        }
        found.into_iter().filter(|time| *time >= from && *time < end).collect()
    }

    /// Clock changes at midnight (Havana, Beirut, Sao Paulo), by half an hour (Lord Howe), by two hours (Troll), by a
    /// day (Apia), and on days of another calendar (Tehran, Casablanca).
    #[test]
    fn over_ten_years_of_a_dozen_zones_each_time_is_the_one_that_the_clocks_show() {
        let [from, end] =
            ["2007-01-01T00:00:00Z", "2017-01-01T00:00:00Z"].map(|text| text.parse::<Timestamp>().unwrap());
        for name in [
            "UTC",
            "Europe/Berlin",
            "Europe/London",
            "America/New_York",
            "America/Havana",
            "America/Sao_Paulo",
            "Asia/Beirut",
            "Asia/Tehran",
            "Asia/Kathmandu",
            "Africa/Casablanca",
            "Australia/Lord_Howe",
            "Antarctica/Troll",
            "Pacific/Apia",
        ] {
            for (cron, hours, minutes) in [
                ("0 0 * * *", &[0][..], &[0][..]),
                ("30 0 * * *", &[0], &[30]),
                ("0 1 * * *", &[1], &[0]),
                ("30 1 * * *", &[1], &[30]),
                ("15 2 * * *", &[2], &[15]),
                ("0 3 * * *", &[3], &[0]),
                ("0 0-3 * * *", &[0, 1, 2, 3], &[0]),
                ("10,40 2 * * *", &[2], &[10, 40]),
            ] {
                let times = CronTimes::read(cron, name).unwrap();
                let (mut found, mut next) = (Vec::new(), times.first_from(from.into()).unwrap());
                while next < SystemTime::from(end) {
                    found.push(Timestamp::try_from(next).unwrap());
                    next = times.first_after(next).unwrap();
                }
                let expected = looked_up(hours, minutes, &TimeZone::get(name).unwrap(), from, end);
                assert!(expected.len() > 3_600);
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!(found, expected, "{cron} {name}");
                }
                assert_eq!(found.len(), expected.len(), "{cron} {name}");
            }
        }
    }

    /// Samoa had no 30 December 2011.
    #[test]
    fn a_time_in_a_gap_of_hours_is_left_out_and_what_comes_after_it_is_found() {
        assert_eq!(
            first(3, "30 2 * * *", "Pacific/Apia", "2011-12-28T00:00:00Z"),
            ["2011-12-28T12:30:00Z", "2011-12-29T12:30:00Z", "2011-12-30T12:30:00Z"]
        );
        assert_eq!(first(1, "0 12 30 12 *", "Pacific/Apia", "2011-01-01T00:00:00Z"), ["2012-12-29T22:00:00Z"]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_is_allowed() {
        for (cron, reason) in [
            ("", "empty"),
            ("0 3 * *", "5 or 6 fields"),
            ("0 0 3 * * * 2027", "5 or 6 fields"),
            ("61 3 * * *", "out of bounds"),
            ("0 3 * * FOO", "illegal character"),
            ("*/0 * * * *", "Step cannot be zero"),
            ("0 0 31 2 *", "there is no such day"),
            ("@reboot", "5 or 6 fields"),
        ] {
            let error = CronTimes::read(cron, "UTC").unwrap_err();
            assert!(error.starts_with(&format!("cron is '{cron}'; it must have 5 fields")), "{error}");
            assert!(error.contains(reason), "{error}");
        }
        assert!(CronTimes::read(&" ".repeat(257), "UTC").unwrap_err().contains("at most 256"));
        for zone in ["", "Europe/Berlinn", "W. Europe Standard Time", "+01:00", "Etc/Unknown"] {
            let error = CronTimes::read("0 3 * * *", zone).unwrap_err();
            assert!(error.starts_with(&format!("time_zone is '{zone}'; it must be a name of the IANA")), "{error}");
        }
    }
}
