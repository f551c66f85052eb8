//! Schedules: jobs that are enqueued at the times of a cron expression.

use std::time::{Duration, SystemTime};

use crate::error::Error;
use crate::text::{MAX_NAME_UNITS, check_name};
use crate::time::CronTimes;

use super::new_job::{LatestStart, NewJob, check_alone};

/// The most missed times to make up for. Each of them is a call of its own.
const MAX_MAKE_UP: u32 = 1_000;

const MAX_JITTER: Duration = Duration::from_secs(86_400);

/// A job to enqueue at the times of a cron expression: for [`Admin::set_schedule`](crate::admin::Admin::set_schedule).
///
/// ```
/// use std::time::Duration;
///
/// use readpast::NewJob;
/// use readpast::admin::Schedule;
///
/// // At 02:30 in Berlin on working days, spread over ten minutes.
/// let report = Schedule::new("nightly-report", "30 2 * * MON-FRI", NewJob::text("all branches").kind("report"))
///     .time_zone("Europe/Berlin")
///     .jitter(Duration::from_secs(600));
/// // Every ten seconds, unless the previous job is unfinished.
/// let poll = Schedule::new("poll", "*/10 * * * * *", NewJob::text("").dedup_key("poll")).make_up(0);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a schedule does nothing until it is set"]
pub struct Schedule {
    pub(crate) name: String,
    pub(crate) cron: String,
    pub(crate) time_zone: String,
    pub(crate) job: NewJob,
    pub(crate) make_up: u32,
    pub(crate) jitter: Duration,
}

impl Schedule {
    /// Creates a schedule. `name` has 1 to 128 UTF-16 units, no leading or trailing spaces, no control characters, and
    /// is compared by code point.
    ///
    /// `cron` has five fields: minute, hour, day of month, month, day of week (0 to 7 or SUN to SAT; 0 and 7 are
    /// Sunday). With six fields, the first is the second. Each is `*`, a number, a range `1-5`, a step `*/10` or
    /// `8-18/2`, or a list of these. Days may be `L` (the last), `15W` (the working day nearest to the 15th) and
    /// `MON#2` (the second Monday). If both days are given, either must match; with `+MON`, both must. `@yearly`,
    /// `@monthly`, `@weekly`, `@daily` and `@hourly` stand for the first moment of the period.
    ///
    /// When clocks are put forward, some times of day do not exist. If the expression names a single time of day, it
    /// becomes the first moment after the gap; times of `*`, a range, a step or a list are left out. When clocks are
    /// put back, some times of day occur twice. A single time of day then counts only once, at its first occurrence;
    /// times of `*`, a range, a step or a list count twice.
    ///
    /// A job without a [deduplication key](NewJob::dedup_key) gets the schedule's name and the time in UTC as its key:
    /// `nightly-report@2026-11-23T01:30:00Z`. The handler can read the job's time from this key. If the job has a key
    /// of its own, no job is added while the previous one is unfinished.
    pub fn new(name: impl Into<String>, cron: impl Into<String>, job: NewJob) -> Schedule {
        Schedule {
            name: name.into(),
            cron: cron.into(),
            time_zone: "UTC".to_string(),
            job,
            make_up: 1,
            jitter: Duration::ZERO,
        }
    }

    /// Sets the time zone of the expression: a name of the IANA database, such as `Europe/Berlin`. Default: `UTC`.
    pub fn time_zone(mut self, name: impl Into<String>) -> Schedule {
        self.time_zone = name.into();
        self
    }

    /// Sets how many missed times are made up for, each with its job: the last `times` that passed while no worker ran
    /// or SQL Server was unavailable. 0 to 1,000. Default: 1.
    ///
    /// A time is missed if it could not be fired within a minute. A time that is less late is always fired.
    pub fn make_up(mut self, times: u32) -> Schedule {
        self.make_up = times;
        self
    }

    /// Delays each job at random by up to `jitter`, so that many schedules do not all start at the full hour. The
    /// jitter is at most a day, in whole milliseconds. Default: none.
    pub fn jitter(mut self, jitter: Duration) -> Schedule {
        self.jitter = jitter;
        self
    }

    /// Returns the first `count` times after `after`, without the jitter: a preview.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSchedule`], as [`Admin::set_schedule`](crate::admin::Admin::set_schedule) returns it.
    pub fn next_times(&self, after: SystemTime, count: usize) -> Result<Vec<SystemTime>, Error> {
        self.check()?;
        let invalid = |reason| Error::InvalidSchedule { reason };
        let times = CronTimes::read(&self.cron, &self.time_zone).map_err(invalid)?;
        let mut found = Vec::new();
        let mut last = after;
        for _ in 0..count {
            last = times.first_after(last).map_err(invalid)?;
            found.push(last);
        }
        Ok(found)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let invalid = |reason: String| Err(Error::InvalidSchedule { reason });
        check_name("its name", &self.name, MAX_NAME_UNITS).or_else(invalid)?;
        CronTimes::read(&self.cron, &self.time_zone).map_err(|reason| Error::InvalidSchedule { reason })?;
        if self.make_up > MAX_MAKE_UP {
            return invalid(format!("make_up is {}; it must be 0 to {MAX_MAKE_UP}", self.make_up));
        }
        if self.jitter > MAX_JITTER {
            return invalid(format!("jitter is {:?}; it must be at most {:?} (a day)", self.jitter, MAX_JITTER));
        }
        if self.job.delay.is_some() || self.job.due_at.is_some() {
            return invalid("its job has delay or due_at; the schedule determines when it is due".to_string());
        }
        if matches!(self.job.latest_start, Some(LatestStart::By(_))) {
            return invalid("its job has start_by, which would be the same for each; use start_within".to_string());
        }
        if self.job.batch.is_some() {
            return invalid(
                "its job has a batch; a batch is sealed at some time, but a schedule never ends".to_string(),
            );
        }
        match check_alone(&self.job) {
            Err(Error::InvalidJob { reason }) => invalid(format!("its job: {reason}")),
            checked => checked,
        }
    }
}

#[cfg(all(test, feature = "schedules"))]
mod tests {
    use super::*;

    #[test]
    fn the_next_times_are_those_at_which_it_fires() {
        let at = |s: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(s);
        let hourly = Schedule::new("hourly", "0 * * * *", NewJob::text("x"));
        assert_eq!(hourly.next_times(at(3_600), 3).unwrap(), [at(7_200), at(10_800), at(14_400)]);
        assert_eq!(hourly.next_times(at(3_599), 1).unwrap(), [at(3_600)]);
        assert!(hourly.next_times(at(0), 0).unwrap().is_empty());
        let error = hourly.make_up(1_001).next_times(at(0), 1).unwrap_err().to_string();
        assert!(error.contains("make_up is 1001"), "{error}");
    }

    #[test]
    fn what_could_not_be_fired_is_refused_at_once() {
        let schedule = || Schedule::new("nightly", "0 3 * * *", NewJob::text("x"));
        schedule().make_up(1_000).jitter(MAX_JITTER).time_zone("Europe/Berlin").check().unwrap();
        let named = |name: String| Schedule { name, ..schedule() };
        let second = Duration::from_secs(1);
        for (wrong, reason) in [
            (named(String::new()), "its name has 0 UTF-16 units; it must have 1 to 128"),
            (named("🦀".repeat(65)), "its name has 130 UTF-16 units"),
            (named(" x".into()), "its name is ' x'; it must have no leading"),
            (named("x\ty".into()), "its name has the control character U+0009; it must have none"),
            (Schedule { cron: "0 25 * * *".into(), ..schedule() }, "cron is '0 25 * * *'; it must have 5 fields"),
            (schedule().time_zone("Berlin"), "time_zone is 'Berlin'; it must be a name of the IANA database"),
            (schedule().make_up(1_001), "make_up is 1001; it must be 0 to 1000"),
            (schedule().jitter(MAX_JITTER + second), "jitter is 86401s; it must be at most 86400s (a day)"),
            (Schedule { job: NewJob::text("x").delay(second), ..schedule() }, "its job has delay or due_at"),
            (Schedule { job: NewJob::text("x").kind("a b"), ..schedule() }, "its job: kind is 'a b'; it must be"),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot set the schedule: {reason}")), "{error}");
        }
    }
}
