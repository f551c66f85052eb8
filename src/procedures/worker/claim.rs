//! Claims up to N ready jobs for this worker in one round trip.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tiberius::Command;

use crate::connection::{AnswerSizeLimit, Columns, Session, all_rows, int, into_rows, job_rows, table_type};
use crate::error::Error;
use crate::id::{Fence, JobId, WorkerId};
use crate::job::{Details, Job, MAX_TABLE_VALUE_BYTES};
use crate::time::BootClock;

/// The parameters of a claim.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimRequest<'a> {
    pub(crate) queue: &'a str,
    pub(crate) worker: WorkerId,
    /// How many jobs: 1 to 1,000.
    pub(crate) max: usize,
    /// Longer payloads are withheld, so that a response has at most `max` times this many bytes of payloads.
    pub(crate) max_payload_bytes: u64,
    /// Whether jobs behind a job with a withheld payload may run before it.
    pub(crate) passes: bool,
    /// How many ready jobs come before further jobs of their groups.
    pub(crate) at_once: usize,
    /// How many jobs of a group the claim takes at most.
    pub(crate) run: usize,
    /// Whether the worker holds no job. A job that must run alone is then claimed first, and without other jobs.
    pub(crate) alone: bool,
    /// Where the previous claim ended.
    pub(crate) seen: Option<ClaimEnd>,
}

/// The result of a claim.
#[derive(Debug)]
pub(crate) struct ClaimAnswer {
    /// The jobs, in the order in which they must run, as far as the queue has an order.
    pub(crate) jobs: Vec<Job>,
    /// The jobs of their groups that must run after them, one after the other, by the first job's id.
    pub(crate) behind: BTreeMap<JobId, Vec<Job>>,
    /// The jobs to release, if a payload was too long.
    pub(crate) withheld: Option<Withheld>,
    /// Jobs that are also claimed, but whose details cannot be read.
    pub(crate) unreadable: Vec<UnreadableJob>,
    /// Whether a job is waiting that must run alone, because workers were lost while they held it. If `alone` was set,
    /// `jobs` contains this job.
    pub(crate) alone_waits: bool,
    /// The limit that kept ready jobs back, if any.
    pub(crate) limited: Option<ClaimLimit>,
    /// How many jobs were cancelled because they may no longer start.
    pub(crate) expired: u32,
    /// Pass this on with the next claim.
    pub(crate) end: Option<ClaimEnd>,
}

/// The jobs that a claim leaves to a later one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Withheld {
    /// The length of the first job's payload.
    pub(crate) bytes: u64,
    /// The jobs to release.
    pub(crate) jobs: Vec<(JobId, Fence)>,
}

impl Withheld {
    /// Removes the jobs with withheld payloads from the claim's jobs. The jobs behind the first of them are also
    /// removed, so that all jobs run in order, unless they may pass it.
    fn take(jobs: &mut Vec<Job>, lengths: &HashMap<JobId, u64>, passes: bool) -> Option<Withheld> {
        let first = jobs.iter().position(|job| lengths.contains_key(&job.id))?;
        let bytes = *lengths.get(&jobs[first].id)?;
        let taken = jobs.extract_if(first.., |job| !passes || lengths.contains_key(&job.id));
        // With delivery at_most_once, the job was not claimed.
        let given_back = taken.map(|job| (job.id, job.fence)).filter(|(_, fence)| *fence != Fence::NONE);
        Some(Withheld { bytes, jobs: given_back.collect() })
    }
}

/// A limit of the queue itself ([`QueueOptions`](crate::procedures::operator::QueueOptions)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimLimit {
    /// Limits how many jobs are held. Each finished job frees capacity.
    Running,
    /// Limits how many jobs are claimed in an interval. Only time frees capacity.
    Rate,
}

/// The part of the index of ready jobs that a claim has read. Passed on with the next claim, it lets SQL Server skip
/// the entries that are deleted but not yet cleaned up (sql/070_marks.sql).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimEnd {
    /// The last priority that the claim reached.
    priority: i16,
    /// The highest and the lowest job of that priority.
    job_id: JobId,
    from_id: JobId,
    lowered: i64,
    /// The highest id that the claim knew, or `None` if the queue is not `lifo`.
    highest: Option<i64>,
}

impl ClaimEnd {
    /// `jobs` are those that were ready, not those that a run had behind them.
    fn of<'a>(
        jobs: impl Iterator<Item = &'a Job> + Clone,
        lowered: Option<i64>,
        highest: Option<i64>,
    ) -> Option<ClaimEnd> {
        let last = jobs.clone().max_by_key(|job| (job.priority, job.id))?;
        let first = jobs.filter(|job| job.priority == last.priority).min_by_key(|job| job.id)?;
        let (priority, job_id, from_id) = (last.priority, last.id, first.id);
        Some(ClaimEnd { priority, job_id, from_id, lowered: lowered?, highest })
    }
}

/// A claimed job whose details are JSON to SQL Server but not to Rust.
#[derive(Debug)]
pub(crate) struct UnreadableJob {
    pub(crate) job_id: JobId,
    pub(crate) fence: Fence,
    pub(crate) attempt: u32,
    /// The fault of the details.
    pub(crate) error: String,
}

/// The bits of the return status of `claim`.
const ALONE_WAITS: u32 = 1;

const LIMITED_BY_RUNNING: u32 = 2;

const LIMITED_BY_RATE: u32 = 4;

/// The rows are in the order of the claim, which age has changed.
const IN_ORDER: u32 = 8;

/// The jobs of groups share the queue, and have no turns.
const SHARED: u32 = 16;

/// The longest `varbinary(max)`.
const MAX_PAYLOAD: u64 = i32::MAX as u64;

/// How many columns of a claimed job are between its attempt and the column that tells whether its payload is withheld.
const CLAIMED_BETWEEN: usize = 5;

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
    /// [`Error::LeaseLost`] if the worker is no longer registered; [`Error::UnknownQueue`]. After any error that did
    /// not come from SQL Server ([`Error::sql_number`] is `None`), there may be claimed jobs that this worker does not
    /// know: call [`recover`](Session::recover).
    pub(crate) async fn claim(&mut self, request: ClaimRequest<'_>) -> Result<ClaimAnswer, Error> {
        let mut command = self.claim_command(&request);
        // If no index entries were read, the parameters have no value, and the procedure raises no mark.
        if let Some(ClaimEnd { priority, job_id, from_id, .. }) = request.seen {
            command.bind_param("@seen_priority", priority);
            command.bind_param("@seen_job_id", job_id.0);
            command.bind_param("@seen_from_id", from_id.0);
        }
        command.bind_out_param("@lowered", request.seen.map_or(0_i64, |seen| seen.lowered));
        command.bind_out_param("@highest", request.seen.and_then(|seen| seen.highest));
        command.bind_out_param("@expired", None::<i32>);
        // In the worst case, all jobs have the longest payload that is not withheld.
        let payloads = request.max_payload_bytes.min(MAX_PAYLOAD).saturating_mul(request.max as u64);
        let limit = AnswerSizeLimit::of_rows(request.max, payloads);
        let asked_at = BootClock::default().now();
        let answer = self.run_up_to(limit, "claim", command).await?;
        let status = answer.return_code();
        let alone_waits = status & ALONE_WAITS != 0;
        let limited = match status {
            status if status & LIMITED_BY_RUNNING != 0 => Some(ClaimLimit::Running),
            status if status & LIMITED_BY_RATE != 0 => Some(ClaimLimit::Rate),
            _ => None,
        };
        let lowered = answer.try_return_value("@lowered").ok().flatten();
        let highest = answer.try_return_value("@highest").ok().flatten();
        let expired: Option<i32> = answer.try_return_value("@expired").ok().flatten();
        let (mut jobs, mut unreadable, mut lengths) = (Vec::new(), Vec::new(), HashMap::new());
        let mut runs: HashMap<JobId, Vec<Job>> = HashMap::new();
        let mut claimed = 0;
        for row in all_rows("claim", answer) {
            claimed += 1;
            let (job, head) = match read_job(row, asked_at, &mut lengths)? {
                Ok(read) => read,
                Err(job) => {
                    unreadable.push(job);
                    continue;
                }
            };
            if job.payload.len() as u64 > request.max_payload_bytes {
                let message =
                    format!("claim returned a payload of {} bytes that it should withhold", job.payload.len());
                return Err(Error::Protocol { message });
            }
            match head {
                Some(head) => runs.entry(head).or_default().push(job),
                None => jobs.push(job),
            }
        }
        if claimed > request.max {
            return Err(Error::Protocol {
                message: format!("claim returned {claimed} jobs instead of at most {}", request.max),
            });
        }
        let is_shared = status & SHARED != 0;
        if is_shared {
            jobs.iter_mut().filter_map(|job| job.details.as_mut()).for_each(|details| details.is_shared = true);
        }
        let heads = runs.iter().filter_map(|(head, run)| run.iter().find(|job| job.id == *head));
        // `lowered` concerns the last priority, all of whose jobs may be among the unreadable ones.
        // Jobs of groups that share the queue were not among the ready ones.
        let ready = jobs.iter().filter(|job| !is_shared || job.group_key().is_none());
        let end = ClaimEnd::of(ready.chain(heads), lowered, highest);
        let end = end.filter(|_| lengths.is_empty() && unreadable.is_empty());
        let mut behind = BTreeMap::new();
        for mut run in runs.into_values() {
            run.sort_unstable_by_key(|job| job.id);
            let first = run.remove(0);
            behind.insert(first.id, run);
            jobs.push(first);
        }
        // OUTPUT returns rows in no particular order.
        match highest {
            _ if is_shared => jobs = in_turns(jobs),
            _ if status & IN_ORDER != 0 => {}
            None => jobs.sort_unstable_by_key(|job| (job.priority, job.id)),
            Some(_) => jobs.sort_unstable_by_key(|job| (job.priority, std::cmp::Reverse(job.id))),
        }
        let mut withheld = Withheld::take(&mut jobs, &lengths, request.passes || is_shared);
        if let Some(Withheld { jobs, .. }) = &mut withheld {
            let runs = jobs.iter().filter_map(|(job_id, _)| behind.remove(job_id)).collect::<Vec<_>>();
            jobs.extend(runs.iter().flatten().map(|job| (job.id, job.fence)));
        }
        self.attach_checkpoints(request.worker, jobs.iter_mut().chain(behind.values_mut().flatten())).await?;
        let expired = expired.and_then(|expired| u32::try_from(expired).ok()).unwrap_or_default();
        Ok(ClaimAnswer { jobs, behind, withheld, unreadable, alone_waits, limited, expired, end })
    }

    /// Reads the checkpoints of the few jobs that have one.
    async fn attach_checkpoints(
        &mut self,
        worker: WorkerId,
        jobs: impl Iterator<Item = &mut Job>,
    ) -> Result<(), Error> {
        let is_checkpointed = |job: &&mut Job| job.details.as_ref().is_some_and(|details| details.checkpointed);
        let mut checkpointed: Vec<&mut Job> = jobs.filter(is_checkpointed).collect();
        if checkpointed.is_empty() {
            return Ok(());
        }
        let listed: Vec<_> = checkpointed.iter().map(|job| (job.id, job.fence)).collect();
        let mut found: HashMap<JobId, Vec<u8>> = self.checkpoints(worker, &listed).await?.into_iter().collect();
        for job in &mut checkpointed {
            if let Some(details) = &mut job.details {
                details.checkpoint = found.remove(&job.id);
            }
        }
        Ok(())
    }

    /// Claims one job and leaves its payload in the table, to find the job whose payload does not arrive.
    ///
    /// # Errors
    ///
    /// Same as [`claim`](Session::claim).
    pub(crate) async fn claim_unseen(&mut self, request: ClaimRequest<'_>) -> Result<Option<ClaimedUnseen>, Error> {
        let command = self.claim_command(&ClaimRequest { max: 1, run: 1, max_payload_bytes: 0, ..request });
        let answer = self.run_up_to(AnswerSizeLimit::of_rows(1, 0), "claim", command).await?;
        let Some(mut row) = all_rows("claim", answer).next() else { return Ok(None) };
        let (job_id, fence, attempt) =
            (JobId(row.required("job_id")?), Fence(row.required("fence")?), row.count("attempt")?);
        row.skip(CLAIMED_BETWEEN);
        let is_whole = row.optional::<bool>("payload_utf16")?.is_some(); // there is no payload to read
        let payload: Vec<u8> = row.required("payload")?;
        let payload_bytes = if is_whole { 0 } else { length(&payload)? };
        Ok(Some(ClaimedUnseen { job_id, fence, attempt, payload_bytes }))
    }

    fn claim_command<'a>(&self, request: &ClaimRequest<'a>) -> Command<'a> {
        let mut command = self.command("claim");
        command.bind_param("@queue", request.queue);
        command.bind_param("@worker_id", request.worker.0);
        command.bind_param("@max", int(request.max));
        command.bind_param("@alone", request.alone);
        command.bind_param("@max_payload_bytes", i64::try_from(request.max_payload_bytes).unwrap_or(i64::MAX));
        command.bind_param("@passes", request.passes);
        command.bind_param("@at_once", int(request.at_once));
        command.bind_param("@run", int(request.run));
        command
    }
}

/// Puts the jobs of a fair queue in order: those without a group, then one of each group after the other.
fn in_turns(mut jobs: Vec<Job>) -> Vec<Job> {
    jobs.sort_by(|a, b| match (a.group_key(), b.group_key()) {
        (None, None) => (a.priority, a.id).cmp(&(b.priority, b.id)),
        (a_key, b_key) => (a_key, a.id).cmp(&(b_key, b.id)),
    });
    let ready = jobs.partition_point(|job| job.group_key().is_none());
    let mut places: Vec<usize> = Vec::with_capacity(jobs.len() - ready);
    for (number, job) in jobs.iter().enumerate().skip(ready) {
        let goes_on = number > ready && job.group_key() == jobs[number - 1].group_key();
        places.push(places.last().filter(|_| goes_on).map_or(0, |place| place + 1));
    }
    let mut shared: Vec<(usize, Job)> = places.into_iter().zip(jobs.drain(ready..)).collect();
    shared.sort_by_key(|(place, _)| *place);
    jobs.extend(shared.into_iter().map(|(_, job)| job));
    jobs
}

/// Reads a job, and the first job of its run, if it belongs to one. If its payload is withheld, the job has neither payload nor details, and `lengths` receives the
/// payload's length.
///
/// Only unreadable details are a fault of the job. Missing columns, or columns of another type, are a fault of the
/// procedure.
fn read_job(
    mut row: Columns,
    asked_at: Duration,
    lengths: &mut HashMap<JobId, u64>,
) -> Result<Result<(Job, Option<JobId>), UnreadableJob>, Error> {
    let mut job = Job {
        id: JobId(row.required("job_id")?),
        fence: Fence(row.required("fence")?),
        attempt: row.count("attempt")?,
        max_attempts: row.count("max_attempts")?,
        priority: row.required("priority")?,
        waited: row.required_ms("waited_ms")?,
        age: row.required_ms("age_ms")?,
        kind: row.optional("kind")?,
        payload_utf16: false,
        payload: Vec::new(),
        details: None,
    };
    let payload_utf16 = row.optional("payload_utf16")?;
    let payload = row.required("payload")?;
    match payload_utf16 {
        Some(payload_utf16) => (job.payload_utf16, job.payload) = (payload_utf16, payload),
        None => {
            lengths.insert(job.id, length(&payload)?);
            return Ok(Ok((job, None)));
        }
    }
    let details = row.optional::<String>("details")?;
    let is_over = row.is_over();
    let head = if is_over { None } else { row.optional("head_id")?.map(JobId) };
    let group_key: Option<String> = if is_over { None } else { row.optional("group_key")? };
    let Some(details) = details else {
        job.details = group_key.map(|key| Box::new(Details { group_key: Some(key), ..Details::default() }));
        return Ok(Ok((job, head)));
    };
    Ok(match serde_json::from_str::<Details>(&details) {
        Ok(mut details) => {
            // SQL Server may have measured the age when the call began.
            let from_now = |start_by_ms: i64| Duration::from_millis(start_by_ms.max(0) as u64).saturating_sub(job.age);
            details.latest_start = details.start_by_ms.map(|start_by_ms| asked_at + from_now(start_by_ms));
            job.details = Some(Box::new(details));
            Ok((job, head))
        }
        Err(error) => Err(UnreadableJob {
            job_id: job.id,
            fence: job.fence,
            attempt: job.attempt,
            error: format!("its details cannot be read: {error}"),
        }),
    })
}

/// Reads the length that replaces a withheld payload.
fn length(bytes: &[u8]) -> Result<u64, Error> {
    let bytes = <[u8; 8]>::try_from(bytes)
        .map_err(|_| Error::Protocol { message: "column payload of claim: it is not a length".to_string() })?;
    Ok(u64::from_be_bytes(bytes))
}

impl Session {
    /// Returns the checkpoints of the jobs that this worker holds, for those that have one.
    pub(crate) async fn checkpoints(
        &mut self,
        worker: WorkerId,
        jobs: &[(JobId, Fence)],
    ) -> Result<Vec<(JobId, Vec<u8>)>, Error> {
        let list = table_type(self.schema(), "job_list");
        let mut command = self.command("checkpoints");
        command.bind_param("@worker_id", worker.0);
        command.bind_table_with_dbtype("@jobs", &list, job_rows(jobs));
        let limit = AnswerSizeLimit::of_rows(jobs.len(), (jobs.len() * MAX_TABLE_VALUE_BYTES) as u64);
        let rows = into_rows("checkpoints", self.run_up_to(limit, "checkpoints", command).await?);
        rows.into_iter().map(|mut row| Ok((JobId(row.required("job_id")?), row.required("checkpoint")?))).collect()
    }
}

/// A job as a claim reads it, with the payload in the buffer that the driver has filled.
#[cfg(test)]
pub(crate) fn read_for_test(payload: Vec<u8>) -> Job {
    use tiberius::ColumnData;
    let row = Columns::for_test(vec![
        ColumnData::I64(Some(1)),
        ColumnData::I32(Some(1)),
        ColumnData::I32(Some(1)),
        ColumnData::I32(Some(5)),
        ColumnData::I16(Some(0)),
        ColumnData::I64(Some(0)),
        ColumnData::I64(Some(0)),
        ColumnData::String(None),
        ColumnData::Bit(Some(false)),
        ColumnData::Binary(Some(payload.into())),
        ColumnData::String(None),
    ]);
    read_job(row, Duration::ZERO, &mut HashMap::new())
        .expect("the columns are those of a claim")
        .expect("its details are readable")
        .0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fair_queues_jobs_are_one_of_each_group_after_the_other() {
        let job = |id, priority, key: Option<&str>| {
            let details = key.map(|key| Box::new(Details { group_key: Some(key.to_owned()), ..Details::default() }));
            Job { id: JobId(id), priority, details, ..read_for_test(Vec::new()) }
        };
        let jobs = vec![
            job(4, 0, Some("a")),
            job(1, 0, Some("b")),
            job(2, 0, Some("a")),
            job(9, 1, None),
            job(3, 0, Some("a")),
            job(5, 0, Some("b")),
            job(8, 1, None),
            job(10, 0, None),
        ];
        let ids: Vec<i64> = in_turns(jobs).iter().map(|job| job.id.0).collect();
        assert_eq!(ids, [10, 8, 9, 2, 1, 3, 5, 4]);
    }
}
