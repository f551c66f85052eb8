//! Sums and differences of `datetime`, which counts as days since 1900.

use crate::error::SqlResult;
use crate::value::convert::error::overflow;
use crate::value::datetime::{DAY_1900, Day, TICKS_PER_DAY, Ticks, from_instant, instant, round_to_datetime};
use crate::value::types::SqlType;
use crate::value::values::Value;

pub(super) fn datetime_sum(a: (Day, Ticks), subtract: bool, b: (Day, Ticks)) -> SqlResult<Value> {
    let since_1900 = instant(b.0, b.1) - i64::from(DAY_1900) * TICKS_PER_DAY as i64;
    let sum = instant(a.0, a.1) + if subtract { -since_1900 } else { since_1900 };
    let rounded = from_instant(sum).and_then(|(day, ticks)| round_to_datetime(day, ticks));
    let (day, ticks) = rounded.ok_or_else(|| overflow("expression", SqlType::DateTime))?;
    Ok(Value::DateTime(day, ticks))
}
