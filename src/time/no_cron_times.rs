//! Stands for the times of schedules in builds without the feature `schedules`.

use std::time::SystemTime;

/// No times: every expression is refused.
#[derive(Debug)]
pub(crate) enum CronTimes {}

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
