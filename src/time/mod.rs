//! Clocks, pauses and durations.

mod boot_clock;
mod cron_times;
mod datetime2;
mod duration_histogram;
mod json;
mod pauses;

pub(crate) use boot_clock::BootClock;
pub(crate) use cron_times::CronTimes;
pub(crate) use datetime2::{TEN_YEARS, from_datetime2, to_datetime2};
pub use duration_histogram::DurationHistogram;
pub(crate) use duration_histogram::{BUCKETS, bucket, of_json, to_json};
pub(crate) use json::{json_seconds, json_seconds_of, json_time, json_time_of, rfc3339};
pub(crate) use pauses::{Pauses, jittered};
