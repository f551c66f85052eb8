//! Parameters of procedures: numbers, names of table types, and lists of jobs as table-valued parameters.

use std::time::Duration;

use tiberius::{SqlTableDataRow, TableValueRow};

use crate::id::{Fence, JobId};

pub(crate) struct ListedId(pub(crate) JobId);

impl<'a> TableValueRow<'a> for ListedId {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        row.add_field(self.0.0);
    }

    fn get_db_type() -> &'static str {
        "id_list"
    }
}

/// The rows of the parameter, in the order of its key.
pub(crate) fn id_rows(jobs: &[JobId]) -> Vec<ListedId> {
    let mut jobs = jobs.to_vec();
    jobs.sort_unstable();
    jobs.dedup();
    jobs.into_iter().map(ListedId).collect()
}

pub(crate) fn procedure(schema: &str, name: &str) -> String {
    format!("[{schema}].[{name}]")
}

/// The name of a table type. It has no brackets, because the protocol carries plain names and the driver sends this
/// text unchanged.
pub(crate) fn table_type(schema: &str, name: &str) -> String {
    format!("{schema}.{name}")
}

/// A count or a time as an `int`. Larger values are clamped, because they exceed every procedure's range anyway.
pub(crate) fn int(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

pub(crate) fn big(number: u64) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Whole milliseconds, rounded up: a delay must not end too early.
pub(crate) fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

pub(crate) fn us(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) struct ListedJob(JobId, Fence);

impl<'a> TableValueRow<'a> for ListedJob {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        row.add_field(self.0.0);
        row.add_field(self.1.0);
    }

    fn get_db_type() -> &'static str {
        "job_list"
    }
}

pub(crate) fn job_rows(jobs: &[(JobId, Fence)]) -> Vec<ListedJob> {
    let mut rows: Vec<ListedJob> = jobs.iter().map(|(job_id, fence)| ListedJob(*job_id, *fence)).collect();
    rows.sort_unstable_by_key(|row| row.0);
    rows
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
