//! Claiming: up to N ready jobs become this worker's, in one statement and one round trip.

use std::collections::HashMap;

use tiberius::Command;

use super::create_queue::ClaimOrder;
use super::lasting_session::Session;
use super::parameters::int;
use super::result_columns::{Columns, all_rows};
use crate::error::Error;
use crate::ids::{Fence, JobId, WorkerId};
use crate::job::Job;

/// What a worker asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimRequest<'a> {
    pub(crate) queue: &'a str,
    pub(crate) worker: WorkerId,
    pub(crate) order: ClaimOrder,
    /// 1 to 1,000 jobs.
    pub(crate) max: usize,
    /// The worker holds nothing: a job that must run alone comes first, and by itself.
    pub(crate) alone: bool,
    /// Where the claim before this one ended.
    pub(crate) seen: Option<ClaimEnd>,
}

/// The answer to a claim.
#[derive(Debug)]
pub(crate) struct ClaimAnswer {
    /// In the order in which they are to run, as far as the queue has one.
    pub(crate) jobs: Vec<Job>,
    /// A job waits that must run alone, because workers were lost while they held it. Asked for with `alone`, it is
    /// what `jobs` has.
    pub(crate) alone_waits: bool,
    /// What kept ready jobs back, if anything did.
    pub(crate) limited: Option<ClaimLimit>,
    /// For the next claim.
    pub(crate) end: Option<ClaimEnd>,
}

/// A limit of the queue's own ([`QueueOptions`](super::QueueOptions)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimLimit {
    /// How many jobs are held: each that is acknowledged makes room.
    Running,
    /// How many are claimed in an interval: only time makes room.
    Rate,
}

/// Where a claim ended in the index of ready jobs. Passed on with the next claim, it lets SQL Server begin there,
/// beyond the entries that are deleted but not yet cleaned up (sql/070_marks.sql).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimEnd {
    priority: i16,
    job_id: JobId,
    lowered: i32,
}

impl ClaimEnd {
    fn of(jobs: &[Job], lowered: Option<i32>) -> Option<ClaimEnd> {
        let last = jobs.iter().max_by_key(|job| (job.priority, job.id))?;
        Some(ClaimEnd { priority: last.priority, job_id: last.id, lowered: lowered? })
    }
}

/// What the return status of `claim` is the sum of.
const ALONE_WAITS: u32 = 1;
const LIMITED_BY_RUNNING: u32 = 2;
const LIMITED_BY_RATE: u32 = 4;

/// How many columns of a claimed job stand between its attempt and its payload.
const CLAIMED_BETWEEN: usize = 6;

/// A claimed job whose payload was left in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimedUnseen {
    pub(crate) job_id: JobId,
    pub(crate) fence: Fence,
    pub(crate) attempt: u32,
    pub(crate) payload_bytes: u64,
}

impl Session {
    /// Claims up to `max` jobs.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] when the worker is not registered any more; [`Error::UnknownQueue`]. After any error but
    /// those that came from SQL Server ([`Error::sql_number`]), jobs may be claimed that nobody knows of: call
    /// [`recover`](Session::recover).
    pub(crate) async fn claim(&mut self, request: ClaimRequest<'_>) -> Result<ClaimAnswer, Error> {
        let mut command = self.claim_command(&request);
        // Without a value where nothing was seen: the procedure then raises no mark.
        if let Some(ClaimEnd { priority, job_id, .. }) = request.seen {
            command.bind_param("@seen_priority", priority);
            command.bind_param("@seen_job_id", job_id.0);
        }
        command.bind_out_param("@lowered", request.seen.map_or(0, |seen| seen.lowered));
        let answer = self.run("claim", command).await?;
        let status = answer.return_code();
        let alone_waits = status & ALONE_WAITS != 0;
        let limited = match status {
            status if status & LIMITED_BY_RUNNING != 0 => Some(ClaimLimit::Running),
            status if status & LIMITED_BY_RATE != 0 => Some(ClaimLimit::Rate),
            _ => None,
        };
        let lowered = answer.try_return_value("@lowered").ok().flatten();
        let mut jobs = Vec::new();
        for row in all_rows("claim", answer) {
            jobs.push(read_job(row)?);
        }
        if jobs.len() > request.max {
            return Err(Error::Protocol {
                message: format!("claim returned {} jobs instead of {} at most", jobs.len(), request.max),
            });
        }
        self.attach_checkpoints(&mut jobs).await?;
        let end = ClaimEnd::of(&jobs, lowered);
        // OUTPUT returns rows in no particular order.
        match request.order {
            ClaimOrder::Fifo => jobs.sort_unstable_by_key(|job| (job.priority, job.id)),
            ClaimOrder::Lifo => jobs.sort_unstable_by_key(|job| (job.priority, std::cmp::Reverse(job.id))),
            ClaimOrder::Any => {}
        }
        Ok(ClaimAnswer { jobs, alone_waits, limited, end })
    }

    /// Reads the checkpoints of those jobs that have one, which are few.
    async fn attach_checkpoints(&mut self, jobs: &mut [Job]) -> Result<(), Error> {
        let is_checkpointed = |job: &&mut Job| job.details.as_ref().is_some_and(|details| details.checkpointed);
        let mut checkpointed: Vec<&mut Job> = jobs.iter_mut().filter(is_checkpointed).collect();
        if checkpointed.is_empty() {
            return Ok(());
        }
        let listed: Vec<_> = checkpointed.iter().map(|job| (job.id, job.fence)).collect();
        let mut found: HashMap<JobId, Vec<u8>> = self.checkpoints(&listed).await?.into_iter().collect();
        for job in &mut checkpointed {
            if let Some(details) = &mut job.details {
                details.checkpoint = found.remove(&job.id);
            }
        }
        Ok(())
    }

    /// Claims one job and leaves its payload in the table: to learn which job it is whose payload does not arrive.
    ///
    /// # Errors
    ///
    /// As [`claim`](Session::claim).
    pub(crate) async fn claim_unseen(&mut self, request: ClaimRequest<'_>) -> Result<Option<ClaimedUnseen>, Error> {
        let mut command = self.claim_command(&ClaimRequest { max: 1, ..request });
        command.bind_param("@payloads", false);
        let answer = self.run("claim", command).await?;
        let Some(mut row) = all_rows("claim", answer).next() else { return Ok(None) };
        let (job_id, fence, attempt) =
            (JobId(row.required("job_id")?), Fence(row.required("fence")?), row.count("attempt")?);
        row.skip(CLAIMED_BETWEEN);
        let length: Vec<u8> = row.required("payload")?;
        let length = <[u8; 8]>::try_from(length.as_slice())
            .map_err(|_| Error::Protocol { message: "column payload of claim: it is no length".to_string() })?;
        Ok(Some(ClaimedUnseen { job_id, fence, attempt, payload_bytes: u64::from_be_bytes(length) }))
    }

    fn claim_command<'a>(&self, request: &ClaimRequest<'a>) -> Command<'a> {
        let mut command = self.command("claim");
        command.bind_param("@queue", request.queue);
        command.bind_param("@worker_id", request.worker.0);
        command.bind_param("@max", int(request.max));
        command.bind_param("@alone", request.alone);
        command
    }
}

fn read_job(mut row: Columns) -> Result<Job, Error> {
    Ok(Job {
        id: JobId(row.required("job_id")?),
        fence: Fence(row.required("fence")?),
        attempt: row.count("attempt")?,
        max_attempts: row.count("max_attempts")?,
        priority: row.required("priority")?,
        waited: row.required_ms("waited_ms")?,
        age: row.required_ms("age_ms")?,
        kind: row.optional("kind")?,
        payload_utf16: row.required("payload_utf16")?,
        payload: row.required("payload")?,
        details: row.optional_json("details")?.map(Box::new),
    })
}
