//! Conversion of SQL Server's `datetime2`.

use std::time::{Duration, SystemTime};

use tiberius::time::{Date, DateTime2, Time};

/// The longest delay, and the longest time to keep finished jobs, that the procedures accept: ten years of 365 days.
pub(crate) const TEN_YEARS: Duration = Duration::from_secs(315_360_000);

/// The days from 0001-01-01, where `datetime2` begins, to 1970-01-01.
const DAYS_TO_1970: i64 = 719_162;

/// The day 9999-12-31, where `datetime2` ends.
const LAST_DAY: i64 = 3_652_058;

const MS_PER_DAY: i64 = 86_400_000;

/// Converts to `datetime2(3)`, UTC, rounded up to the millisecond: a job must not be due too early. Returns `None`
/// outside the years 1 to 9999.
pub(crate) fn to_datetime2(time: SystemTime) -> Option<DateTime2> {
    let ms = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos().div_ceil(1_000_000)).ok()?,
        Err(before) => -i64::try_from(before.duration().as_millis()).ok()?,
    };
    let day = ms.div_euclid(MS_PER_DAY).checked_add(DAYS_TO_1970)?;
    if !(0..=LAST_DAY).contains(&day) {
        return None;
    }
    let ms_of_day = ms.rem_euclid(MS_PER_DAY);
    Some(DateTime2::new(Date::new(u32::try_from(day).ok()?), Time::new(u64::try_from(ms_of_day).ok()?, 3)))
}

pub(crate) fn from_datetime2(time: DateTime2) -> SystemTime {
    let days = i64::from(time.date().days()) - DAYS_TO_1970;
    let fraction_digits = u32::from(time.time().scale());
    // Saturating, because the server's values are not trusted.
    let nanos_of_day = time.time().increments().saturating_mul(10_u64.pow(9_u32.saturating_sub(fraction_digits)));
    let whole_days = Duration::from_secs(days.unsigned_abs() * 86_400);
    let midnight = if days < 0 { SystemTime::UNIX_EPOCH - whole_days } else { SystemTime::UNIX_EPOCH + whole_days };
    midnight + Duration::from_nanos(nanos_of_day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_to_datetime2_and_back() {
        let epoch = SystemTime::UNIX_EPOCH;
        for time in [epoch, epoch + Duration::from_millis(1_767_225_599_999), epoch - Duration::from_millis(86_400_001)]
        {
            assert_eq!(from_datetime2(to_datetime2(time).unwrap()), time);
        }
        let between = epoch + Duration::from_nanos(1_000_001);
        assert_eq!(from_datetime2(to_datetime2(between).unwrap()), epoch + Duration::from_millis(2));
        let day = to_datetime2(epoch + Duration::from_secs(1_795_219_200)).unwrap();
        assert_eq!(day.date().days(), 739_940);
        assert!(to_datetime2(epoch + Duration::from_secs(400_000_000_000)).is_none());
        assert!(to_datetime2(epoch - Duration::from_secs(63_000_000_000)).is_none());
    }
}
