//! What is sent to procedures, as SQL Server takes it.

use std::time::Duration;

/// A procedure of the schema, as it is called.
pub(crate) fn procedure(schema: &str, name: &str) -> String {
    format!("[{schema}].[{name}]")
}

/// A table type of the schema. Without brackets: the protocol carries plain names, and the driver sends this text as
/// one.
pub(crate) fn table_type(schema: &str, name: &str) -> String {
    format!("{schema}.{name}")
}

/// A count or a time for an `int`: what does not fit is far beyond what any procedure takes, and counts as the most
/// that does.
pub(super) fn int(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

/// A count for a `bigint`.
pub(super) fn big(number: u64) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Whole milliseconds, rounded up: a delay must not end too early.
pub(super) fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// Whole microseconds.
pub(super) fn us(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_rounded_up() {
        assert_eq!(ms(Duration::ZERO), 0);
        assert_eq!(ms(Duration::from_nanos(1)), 1);
        assert_eq!(ms(Duration::from_micros(2_000)), 2);
        assert_eq!(int(ms(Duration::MAX)), i32::MAX);
    }
}
