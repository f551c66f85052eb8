//! Plans which times of a schedule are fired now. They are computed here, because T-SQL cannot read cron expressions.
//! SQL Server ensures that each fires once (sql/382_fire_schedule.sql).
//!
//! ```text
//!         next_at ─────────────────▶ a minute ago ──────▶ now ────▶
//! times:   missed: the last `make_up`    on time: all      the next
//! ```

use std::time::{Duration, SystemTime};

use crate::procedures::worker::{DueSchedule, Firing};
use crate::time::CronTimes;

/// A time that is not fired within this period is missed. The period exceeds the time (13 s by default) after which
/// another worker takes over the maintenance of a dead worker.
const MISSED_AFTER: Duration = Duration::from_secs(60);

/// The most times of a schedule that are fired in one turn. Further times follow in the next turn, so that other tasks
/// need not wait.
const MOST_AT_ONCE: usize = 100;

#[derive(Debug, PartialEq, Eq)]
pub(in crate::worker) struct FiringPlan {
    /// The firings, in order; at least one.
    pub(in crate::worker) firings: Vec<Firing>,
    /// Whether the next turn has more times to fire.
    pub(in crate::worker) has_more: bool,
    /// The first missed time that is not made up for, if any.
    pub(in crate::worker) passed_over: Option<SystemTime>,
}

impl FiringPlan {
    /// Plans the firings of a schedule that is due.
    ///
    /// # Errors
    ///
    /// If the expression or the time zone cannot be read, or the next time cannot be computed.
    pub(in crate::worker) fn of(due: &DueSchedule) -> Result<FiringPlan, String> {
        let times = CronTimes::read(&due.cron, &due.time_zone)?;
        let (from, now) = (due.next_at, due.now);
        let on_time_from = from.max(now - MISSED_AFTER);
        let first = times.first_from(from)?;
        let mut fired = last_before(&times, from, on_time_from, due.make_up as usize);
        let passed_over = Some(first).filter(|first| *first < on_time_from && fired.first() != Some(first));
        let mut next = times.first_from(on_time_from);
        while let Ok(time) = next
            && time <= now
        {
            fired.push(time);
            next = times.first_after(time);
        }
        // If a time cannot be computed, the times before it are fired. The next turn starts after them and reports the
        // error.
        let mut next = next.or_else(|error| fired.last().map(|last| *last + Duration::from_millis(1)).ok_or(error))?;

        let has_more = fired.len() > MOST_AT_ONCE;
        if has_more {
            next = fired[MOST_AT_ONCE];
            fired.truncate(MOST_AT_ONCE);
        }
        let firings = if fired.is_empty() {
            vec![Firing { at: None, due_at: None, next_at: next }]
        } else {
            let followed = fired.iter().zip(fired.iter().skip(1).chain([&next]));
            let firing = |(at, next): (&SystemTime, &SystemTime)| Firing {
                at: Some(*at),
                due_at: later(*at, due.jitter),
                next_at: *next,
            };
            followed.map(firing).collect()
        };
        Ok(FiringPlan { firings, has_more, passed_over })
    }
}

/// The last `count` times in `from..end`.
fn last_before(times: &CronTimes, from: SystemTime, end: SystemTime, count: usize) -> Vec<SystemTime> {
    // Searches a span that doubles until it contains enough times: an outage can be long, and a schedule may be due
    // every second.
    let mut part = MISSED_AFTER;
    loop {
        let begin = end.checked_sub(part).map_or(from, |begin| begin.max(from));
        let mut found = Vec::new();
        let mut next = times.first_from(begin);
        while let Ok(time) = next
            && time < end
            && count > 0
        {
            found.push(time);
            next = times.first_after(time);
        }
        if begin == from || found.len() >= count {
            found.drain(..found.len().saturating_sub(count));
            return found;
        }
        part *= 2;
    }
}

/// `time` with a random delay of up to `jitter`, or `None` if there is no delay.
fn later(time: SystemTime, jitter: Duration) -> Option<SystemTime> {
    let most = u64::try_from(jitter.as_millis()).unwrap_or(u64::MAX);
    (most > 0).then(|| time + Duration::from_millis(fastrand::u64(0..=most)))
}

#[cfg(test)]
#[cfg(feature = "schedules")]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn at(text: &str) -> SystemTime {
        text.parse::<Timestamp>().unwrap().into()
    }

    fn plan(cron: &str, next_at: &str, now: &str, make_up: u32) -> FiringPlan {
        let due = DueSchedule {
            name: "s".to_string(),
            revision: 1,
            cron: cron.to_string(),
            time_zone: "UTC".to_string(),
            make_up,
            jitter: Duration::ZERO,
            next_at: at(next_at),
            error: None,
            now: at(now),
        };
        FiringPlan::of(&due).unwrap()
    }

    /// The hours that are fired, and the next one.
    fn hours(plan: &FiringPlan) -> (Vec<u64>, u64) {
        let hour = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 3_600 % 24;
        let fired = plan.firings.iter().filter_map(|firing| firing.at.map(hour)).collect();
        (fired, hour(plan.firings.last().unwrap().next_at))
    }

    #[test]
    fn what_is_less_than_a_minute_late_is_fired_whatever_is_made_up_for() {
        for make_up in [0, 1, 5] {
            let on_time = plan("0 * * * *", "2026-01-01T03:00:00Z", "2026-01-01T03:01:00Z", make_up);
            assert_eq!((hours(&on_time), on_time.passed_over), ((vec![3], 4), None));
        }
        let missed = plan("0 * * * *", "2026-01-01T03:00:00Z", "2026-01-01T03:01:00.001Z", 0);
        assert_eq!(hours(&missed), (vec![], 4));
        assert_eq!(missed.passed_over, Some(at("2026-01-01T03:00:00Z")));
    }

    #[test]
    fn of_what_was_missed_the_last_are_fired_and_the_one_on_time() {
        let after = |make_up| plan("0 * * * *", "2026-01-01T03:00:00Z", "2026-01-01T09:00:01Z", make_up);
        assert_eq!(hours(&after(0)), (vec![9], 10));
        assert_eq!(hours(&after(2)), (vec![7, 8, 9], 10));
        assert_eq!(hours(&after(6)), (vec![3, 4, 5, 6, 7, 8, 9], 10));
        assert_eq!(hours(&after(1_000)), hours(&after(6)));
        assert!(after(5).passed_over.is_some() && after(6).passed_over.is_none());
    }

    #[test]
    fn one_that_was_just_set_only_learns_its_next_time() {
        let set = plan("0 * * * *", "2026-01-01T03:00:00.001Z", "2026-01-01T03:00:00.400Z", 5);
        assert_eq!((hours(&set), set.passed_over, set.firings.len()), ((vec![], 4), None, 1));
        // Exactly at the due time.
        assert_eq!(hours(&plan("0 * * * *", "2026-01-01T03:00:00Z", "2026-01-01T03:00:00.400Z", 5)), (vec![3], 4));
        // A schedule that is not due yet keeps its next time.
        assert_eq!(hours(&plan("0 * * * *", "2026-01-01T05:00:00Z", "2026-01-01T03:00:00Z", 5)), (vec![], 5));
    }

    #[test]
    fn what_comes_before_a_time_that_cannot_be_worked_out_is_fired() {
        // These are the last times.
        let last = plan("0 * * * *", "4999-12-31T21:30:00Z", "5000-01-01T00:00:10Z", 5);
        assert_eq!(hours(&last).0, [22, 23, 0]);
        assert_eq!(last.firings[2].next_at, at("5000-01-01T00:00:00.001Z"));
    }

    /// The cost depends on the fired times, not on the length of the outage.
    #[test]
    fn ten_years_of_seconds_are_not_counted_one_by_one_and_fired_in_turns() {
        let mut next_at = "2016-01-01T00:00:00Z".to_string();
        let mut fired = Vec::new();
        loop {
            let turn = plan("* * * * * *", &next_at, "2026-01-01T00:00:00Z", 1_000);
            assert!(turn.firings.len() <= MOST_AT_ONCE);
            assert!(turn.firings.windows(2).all(|pair| Some(pair[0].next_at) == pair[1].at));
            fired.extend(turn.firings.iter().map(|firing| firing.at.unwrap()));
            if !turn.has_more {
                assert_eq!(turn.firings.last().unwrap().next_at, at("2026-01-01T00:00:01Z"));
                break;
            }
            next_at = Timestamp::try_from(turn.firings.last().unwrap().next_at).unwrap().to_string();
        }
        let second = Duration::from_secs(1);
        assert_eq!(fired.len(), 1_061);
        assert!(fired.windows(2).all(|pair| pair[0] + second == pair[1]));
        assert_eq!(fired.last(), Some(&at("2026-01-01T00:00:00Z")));
    }

    #[test]
    fn jitter_is_never_early_and_never_longer_than_it_may_be() {
        let time = at("2026-01-01T03:00:00Z");
        assert_eq!(later(time, Duration::ZERO), None);
        for _ in 0..100 {
            let late = later(time, Duration::from_millis(2)).unwrap().duration_since(time).unwrap();
            assert!(late <= Duration::from_millis(2));
        }
    }
}
