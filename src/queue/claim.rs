//! Claiming: up to N ready jobs become this worker's, in one statement and one round trip.

use super::connection::{Columns, Lane};
use super::{ClaimOrder, WorkerId};
use crate::error::Error;
use crate::job::{Fence, Job, JobId};

impl Lane {
    /// Claims up to `max` jobs (1 to 1,000), in the order in which they are to run as far as the queue has one.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] when the worker is not registered any more; [`Error::UnknownQueue`]. After any error but
    /// those that came from SQL Server ([`Error::sql_number`]), jobs may be claimed that nobody knows of: call
    /// [`recover`](Lane::recover).
    pub(crate) async fn claim(
        &mut self,
        queue: &str,
        worker: WorkerId,
        order: ClaimOrder,
        max: usize,
    ) -> Result<Vec<Job>, Error> {
        let mut command = self.command("claim");
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker.0);
        command.bind_param("@max", int(max));
        let rows = self.rows("claim", command).await?;
        let mut jobs = rows.into_iter().map(read_job).collect::<Result<Vec<Job>, Error>>()?;
        // OUTPUT returns rows in no particular order.
        match order {
            ClaimOrder::Fifo => jobs.sort_unstable_by_key(|job| (job.priority, job.id)),
            ClaimOrder::Lifo => jobs.sort_unstable_by_key(|job| (job.priority, std::cmp::Reverse(job.id))),
            ClaimOrder::Any => {}
        }
        Ok(jobs)
    }
}

/// Counts go over the wire as int; the callers' are bounded far below its maximum.
pub(super) fn int(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn read_job(mut row: Columns) -> Result<Job, Error> {
    Ok(Job {
        id: JobId(row.required("job_id")?),
        fence: Fence(row.required("fence")?),
        attempt: row.count("attempt")?,
        max_attempts: row.count("max_attempts")?,
        priority: row.required("priority")?,
        waited: row.duration_ms("waited_ms")?,
        age: row.duration_ms("age_ms")?,
        dedup_key: row.optional("dedup_key")?,
        correlation_id: row.optional("correlation_id")?,
        payload_utf16: row.required("payload_utf16")?,
        payload: row.required("payload")?,
    })
}
