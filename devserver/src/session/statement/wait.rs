//! WAITFOR.

use std::time::{Duration, Instant};

use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::plan::cached_plan::Uses;
use crate::session::client_session::Session;
use crate::value::{self, Length, SqlType, Value};

impl Session {
    /// WAITFOR DELAY: the session waits without the latch, and can be cancelled.
    pub(crate) fn wait_for(&mut self, delay: &Value, ty: Option<SqlType>) -> SqlResult<()> {
        let duration = Duration::from_nanos(time_of_day(delay, ty)? * 100);
        let now = Instant::now();
        let mut nothing = Activation::default();
        self.note_waitfor(true);
        let slept = self.with_run(Uses::Database, &mut nothing, |run| {
            let storage = run.storage()?;
            storage.latch.wait_until(&storage.tx, now + duration)
        });
        self.note_waitfor(false);
        slept
    }
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
