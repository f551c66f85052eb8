//! Follow-ups as the procedures take them.

use tiberius::{ColumnData, SqlTableDataRow, TableValueRow};

use super::enqueue::due_at;
use super::finish::Finish;
use super::parameters::{int, ms};
use crate::error::Error;
use crate::follow_up::FollowUp;
use crate::headers::Headers;
use crate::ids::JobId;

pub(super) const FOLLOW_UP_LIST: &str = "follow_up_list";

/// One row of the table type `follow_up_list`.
pub(super) struct FollowUpRow<'a> {
    ordinal: i32,
    job_id: JobId,
    follow_up: &'a FollowUp,
    due_at: ColumnData<'static>,
}

/// The follow-ups of all jobs, in the order of the jobs and then in that in which they were given.
pub(super) fn rows<'a>(jobs: impl Iterator<Item = &'a Finish>) -> Result<Vec<FollowUpRow<'a>>, Error> {
    let all = jobs.flat_map(|job| job.outcome.follow_ups().iter().map(move |follow_up| (job.job_id, follow_up)));
    let row = |(ordinal, (job_id, follow_up)): (i32, (JobId, &'a FollowUp))| {
        Ok(FollowUpRow { ordinal, job_id, follow_up, due_at: due_at(&follow_up.job)? })
    };
    (1..).zip(all).map(row).collect()
}

impl<'a> TableValueRow<'a> for FollowUpRow<'a> {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        let FollowUp { queue, job } = self.follow_up;
        row.add_field(self.ordinal);
        row.add_field(self.job_id.0);
        row.add_field(queue.as_str());
        row.add_field(job.payload.as_slice());
        row.add_field(job.priority);
        row.add_field(job.delay.map(ms));
        row.add_field(self.due_at.clone());
        row.add_field(job.max_attempts.map(int));
        row.add_field(job.dedup_key.as_deref());
        row.add_field(job.correlation_id);
        row.add_field(job.kind.as_deref());
        row.add_field(job.time_limit.map(ms));
        row.add_field(job.headers.as_ref().map(Headers::json));
        row.add_field(job.group_key.as_deref());
        row.add_field(job.batch.map(|batch| batch.0));
    }

    fn get_db_type() -> &'static str {
        FOLLOW_UP_LIST
    }
}
