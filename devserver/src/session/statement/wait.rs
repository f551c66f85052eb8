//! WAITFOR.

use std::time::{Duration, Instant};

use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::plan::cell::Uses;
use crate::session::client_session::Session;
use crate::value::{self, Length, SqlType, Value};

impl Session {
    /// WAITFOR TIME: until the clock of the server says so, which may be tomorrow. A date is not allowed.
    pub(crate) fn wait_until_time(&mut self, time: &Value, ty: Option<SqlType>) -> SqlResult<()> {
        let target = time_of_day(time, ty)?;
        let (_, now) = self.engine.faults.now();
        self.sleep(Duration::from_nanos(ticks_until(target, now) * 100))
    }

    /// WAITFOR DELAY: the session waits without the latch, and can be cancelled.
    pub(crate) fn wait_for(&mut self, delay: &Value, ty: Option<SqlType>) -> SqlResult<()> {
        let ticks = time_of_day(delay, ty)?;
        self.sleep(Duration::from_nanos(ticks * 100))
    }

    fn sleep(&mut self, duration: Duration) -> SqlResult<()> {
        let now = Instant::now();
        let mut nothing = Activation::default();
        self.note_waitfor(Some(now));
        let slept = self.with_run(Uses::Database, &mut nothing, |run| {
            let storage = run.storage()?;
            storage.latch.wait_until(&storage.tx, now + duration)
        });
        self.note_waitfor(None);
        slept
    }
}

/// From one time of the day to the next moment at which it is another.
fn ticks_until(target: u64, now: u64) -> u64 {
    const DAY: u64 = 24 * 60 * 60 * 10_000_000;
    if target >= now { target - now } else { DAY - now + target }
}

/// The time that WAITFOR was given, in ticks since midnight; 148 if it is none.
fn time_of_day(time: &Value, ty: Option<SqlType>) -> SqlResult<u64> {
    let invalid = || SqlError::new(148, "Incorrect time syntax in time string used with WAITFOR.").severity(15);
    let from = ty.unwrap_or(SqlType::VarChar(Length::Max));
    if from == SqlType::Variant {
        return Err(SqlError::not_supported("WAITFOR with a sql_variant"));
    }
    match value::convert(time.clone(), from, SqlType::Time(7), None, true).map_err(|_| invalid())? {
        Value::Time(ticks) => Ok(ticks),
        _ => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::ticks_until;

    #[test]
    fn a_time_of_the_day_that_is_over_is_tomorrows() {
        let hour = 60 * 60 * 10_000_000;
        assert_eq!(ticks_until(13 * hour, 12 * hour), hour);
        assert_eq!(ticks_until(11 * hour, 12 * hour), 23 * hour);
        assert_eq!(ticks_until(12 * hour, 12 * hour), 0);
    }
}
