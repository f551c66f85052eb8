//! Claiming: up to N ready jobs become this worker's, in one statement and one round trip.

use std::time::Duration;

use super::connection::{Columns, Lane, into_rows};
use super::{ClaimOrder, WorkerId};
use crate::error::Error;
use crate::job::{Fence, Job, JobId};

/// The answer to a claim.
#[derive(Debug)]
pub(crate) struct ClaimAnswer {
    pub(crate) jobs: Vec<Job>,
    /// A job waits that must run alone, because workers were lost while they held it. Asked for with `alone`, it is what `jobs` has.
    pub(crate) alone_waits: bool,
}

impl Lane {
    /// Claims up to `max` jobs (1 to 1,000), in the order in which they are to run as far as the queue has one.
    ///
    /// With `alone`, which is for a worker that holds nothing, a job that must run alone comes first, and by itself.
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
        alone: bool,
    ) -> Result<ClaimAnswer, Error> {
        let mut command = self.command("claim");
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker.0);
        command.bind_param("@max", int(max));
        command.bind_param("@alone", alone);
        let answer = self.run("claim", command).await?;
        let alone_waits = answer.return_code() == 1;
        let rows = into_rows("claim", answer);
        if rows.len() > max {
            return Err(Error::Protocol {
                message: format!("claim returned {} jobs instead of {max} at most", rows.len()),
            });
        }
        let mut jobs = rows.into_iter().map(read_job).collect::<Result<Vec<Job>, Error>>()?;
        // OUTPUT returns rows in no particular order.
        match order {
            ClaimOrder::Fifo => jobs.sort_unstable_by_key(|job| (job.priority, job.id)),
            ClaimOrder::Lifo => jobs.sort_unstable_by_key(|job| (job.priority, std::cmp::Reverse(job.id))),
            ClaimOrder::Any => {}
        }
        Ok(ClaimAnswer { jobs, alone_waits })
    }
}

impl Lane {
    /// Waits in SQL Server until the queue has a job to claim, or for about `wait`; returns whether it has. It looks after `first`, then
    /// after pauses that double up to `most`.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`] and the connection's. Nothing is changed, whatever happens.
    pub(crate) async fn await_jobs(
        &mut self,
        queue: &str,
        first: Duration,
        most: Duration,
        wait: Duration,
    ) -> Result<bool, Error> {
        let mut command = self.command("await_jobs");
        command.bind_param("@queue", queue);
        command.bind_param("@first_ms", int_ms(first));
        command.bind_param("@most_ms", int_ms(most.max(first)));
        command.bind_param("@wait_ms", int_ms(wait));
        self.row("await_jobs", command).await?.required("found")
    }
}

/// Whole milliseconds, at least one; the callers' are an hour at the most.
fn int_ms(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX).max(1)
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
