//! Finishing: reporting the outcomes of runs.
//!
//! Lists are sorted by job id, the order in which SQL Server locks the rows.

use std::time::Duration;

use tiberius::{ColumnData, Command, SqlTableDataRow, TableValueRow};

use crate::connection::{Answer, Columns, Session, int, into_rows, ms, procedure, table_type, us};
use crate::error::Error;
use crate::id::{Fence, JobId, WorkerId};
use crate::job::{CompletionPolicy, FollowUp, Headers, MAX_TABLE_VALUE_BYTES, Needs, Outcome, Usage, due_at, start_by};
use crate::text::{cut, cut_to};

/// The finish of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finish {
    pub(crate) job_id: JobId,
    pub(crate) fence: Fence,
    /// The attempt, for the log only, because SQL Server knows it.
    pub(crate) attempt: u32,
    /// The job's kind, for the log and the counts by kind.
    pub(crate) kind: Option<String>,
    pub(crate) outcome: Outcome,
    /// How long the run took, by this process's monotonic clock.
    pub(crate) run: Duration,
    pub(crate) usage: Usage,
}

/// The result for a job that did not finish as requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinishResult {
    /// This worker no longer held the job under this fence; nothing was changed.
    Lost,
    /// A retry was requested, but the job's attempts are used up; or the job could not be moved to its queue.
    Dead,
    /// Of no job: others have waited for jobs of the call, and may be ready now.
    Next,
}

/// The names of the calls in an [`Error::TimedOut`].
pub(crate) const FINISH: &str = "finish";

pub(crate) const FINISH_WITH: &str = "finish_with";

pub(crate) const FINISH_ONE: &str = "finish_one";

impl Session {
    /// Finishes up to 1,000 jobs together with their follow-ups and changes. The jobs must have a row, each must occur
    /// once, and none may [be large](Finish::is_large). What they used is sent if the queue, by its `completion`, keeps
    /// the row or the failed attempt. Returns the jobs that did not finish as requested.
    ///
    /// # Errors
    ///
    /// After any error, call it again with the same jobs: those that were finished are then returned as lost. After
    /// [`Error::ResultRefused`], none was finished.
    pub(crate) async fn finish<'a>(
        &mut self,
        queue: &str,
        worker: WorkerId,
        completion: CompletionPolicy,
        jobs: impl Iterator<Item = &'a Finish>,
    ) -> Result<Vec<(JobId, FinishResult)>, Error> {
        let mut jobs: Vec<&Finish> = jobs.collect();
        jobs.sort_unstable_by_key(|job| job.job_id);
        let list = table_type(self.schema(), "finish_list");
        let usage_list = table_type(self.schema(), "usage_list");
        let follow_up_list = follow_up_list_type(self.schema());
        let change_list = table_type(self.schema(), CHANGE_LIST);
        let follow_ups = rows(jobs.iter().copied())?;
        let changes: Vec<ChangeRow<'_>> = jobs.iter().filter_map(|job| ChangeRow::of(job)).collect();
        let call = if follow_ups.is_empty() && changes.is_empty() { FINISH } else { FINISH_WITH };
        let used: Vec<UsageRow> = jobs.iter().filter_map(|job| job.usage_row(completion)).collect();
        let mut command = self.command(call);
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker.0);
        command.bind_table_with_dbtype("@jobs", &list, jobs.into_iter());
        // Each list costs another round trip.
        if !follow_ups.is_empty() {
            command.bind_table_with_dbtype("@follow_ups", &follow_up_list, follow_ups);
        }
        if !changes.is_empty() {
            command.bind_table_with_dbtype("@changes", &change_list, changes);
        }
        if !used.is_empty() {
            command.bind_table_with_dbtype("@used", &usage_list, used);
        }
        ended_otherwise(self.rows(call, command).await?)
    }

    /// Finishes one job, whose output may have any size. Returns the result if the job did not finish as requested.
    ///
    /// # Errors
    ///
    /// After any error, call it again: a job that was finished is then returned as lost.
    pub(crate) async fn finish_one(
        &mut self,
        queue: &str,
        worker: WorkerId,
        job: &Finish,
    ) -> Result<Option<FinishResult>, Error> {
        let follow_up_list = follow_up_list_type(self.schema());
        let command = finish_one_command(self.schema(), queue, worker, job, &follow_up_list)?;
        read_finish_one(self.run(FINISH_ONE, command).await?)
    }
}

/// The name of the type that [`finish_one_command`] takes.
pub(crate) fn follow_up_list_type(schema: &str) -> String {
    table_type(schema, FOLLOW_UP_LIST)
}

/// The call of `finish_one`.
pub(crate) fn finish_one_command<'a>(
    schema: &str,
    queue: &'a str,
    worker: WorkerId,
    job: &'a Finish,
    follow_up_list: &'a str,
) -> Result<Command<'a>, Error> {
    let mut command = Command::new(procedure(schema, FINISH_ONE));
    command.bind_param("@queue", queue);
    command.bind_param("@worker_id", worker.0);
    job.bind(&mut command);
    let follow_ups = rows(std::iter::once(job))?;
    if !follow_ups.is_empty() {
        command.bind_table_with_dbtype("@follow_ups", follow_up_list, follow_ups);
    }
    Ok(command)
}

/// Reads the response to [`finish_one_command`]. Returns the result if the job did not finish as requested.
pub(crate) fn read_finish_one(result: Answer) -> Result<Option<FinishResult>, Error> {
    let results = ended_otherwise(into_rows(FINISH_ONE, result))?;
    Ok(results.into_iter().map(|(_, result)| result).find(|result| *result != FinishResult::Next))
}

fn ended_otherwise(rows: Vec<Columns>) -> Result<Vec<(JobId, FinishResult)>, Error> {
    let results = [("lost", FinishResult::Lost), ("dead", FinishResult::Dead), ("next", FinishResult::Next)];
    let read = |mut row: Columns| Ok((JobId(row.required("job_id")?), row.one_of("result", &results)?));
    rows.into_iter().map(read).collect()
}

/// An outcome in the form that the procedures take.
impl Outcome {
    fn code(&self) -> u8 {
        match self {
            Outcome::Done { .. } => 0,
            // If the handler's transaction was committed, this matches no row. If it was not, this records a failed
            // attempt.
            Outcome::Retry { .. } | Outcome::ByHandler => 1,
            // With a row in the changes, so that it goes to the queue instead.
            Outcome::Move { .. } | Outcome::Dead { .. } => 2,
            Outcome::Snooze { .. } => 3,
            Outcome::Expired { .. } => 4,
        }
    }

    fn retry_ms(&self) -> Option<i64> {
        match self {
            Outcome::Retry { delay, .. } | Outcome::Snooze { delay, .. } => Some(ms(*delay)),
            Outcome::ByHandler => Some(UNCOMMITTED_RETRY_MS),
            Outcome::Done { .. } | Outcome::Move { .. } | Outcome::Expired { .. } | Outcome::Dead { .. } => None,
        }
    }

    fn error(&self) -> Option<&str> {
        match self {
            Outcome::Retry { error, .. }
            | Outcome::Snooze { error, .. }
            | Outcome::Move { error, .. }
            | Outcome::Expired { error }
            | Outcome::Dead { error } => Some(cut(error)),
            Outcome::ByHandler => Some(UNCOMMITTED),
            Outcome::Done { .. } => None,
        }
    }
}

/// The error of a job that its handler finished in a transaction that was not committed.
pub(crate) const UNCOMMITTED: &str = "the handler finished the job in a transaction that was not committed";

/// How long such a job waits for its retry. With zero, SQL Server would have to lower a mark each time.
const UNCOMMITTED_RETRY_MS: i64 = 1_000;

impl Finish {
    /// Whether the output is too large for a table-valued parameter, so that [`finish_one`](Session::finish_one) must
    /// be used.
    pub(crate) fn is_large(&self) -> bool {
        self.outcome.output().is_some_and(|output| output.len() > MAX_TABLE_VALUE_BYTES)
    }

    /// Adds the job as parameters of `finish_one`.
    fn bind<'a>(&'a self, command: &mut Command<'a>) {
        command.bind_param("@job_id", self.job_id.0);
        command.bind_param("@fence", self.fence.0);
        command.bind_param("@outcome", self.outcome.code());
        command.bind_param("@retry_ms", self.outcome.retry_ms());
        command.bind_param("@run_us", us(self.run));
        command.bind_param("@error", self.outcome.error());
        command.bind_param("@output", self.outcome.output());
        command.bind_param("@cpu_us", self.usage.cpu.map(us));
        command.bind_param("@peak_bytes", self.usage.peak_memory.map(peak_bytes));
    }

    /// What the run used, unless it is unknown or nothing of the job stays.
    fn usage_row(&self, completion: CompletionPolicy) -> Option<UsageRow> {
        let Finish { job_id, usage, .. } = *self;
        let stays = match self.outcome {
            Outcome::Done { .. } => completion != CompletionPolicy::Delete,
            // The handler has committed it already, nearly always.
            Outcome::ByHandler | Outcome::Expired { .. } => false,
            Outcome::Retry { .. } | Outcome::Snooze { .. } | Outcome::Move { .. } | Outcome::Dead { .. } => true,
        };
        (stays && usage != Usage::default()).then_some(UsageRow { job_id, usage })
    }
}

/// The job as a row of the table type `finish_list`.
impl<'a> TableValueRow<'a> for &'a Finish {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        row.add_field(self.job_id.0);
        row.add_field(self.fence.0);
        row.add_field(self.outcome.code());
        row.add_field(self.outcome.retry_ms());
        row.add_field(us(self.run));
        row.add_field(self.outcome.error());
        row.add_field(self.outcome.output());
    }

    fn get_db_type() -> &'static str {
        "finish_list"
    }
}

/// One row of the table type `usage_list`.
struct UsageRow {
    job_id: JobId,
    usage: Usage,
}

impl<'a> TableValueRow<'a> for UsageRow {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        row.add_field(self.job_id.0);
        row.add_field(self.usage.cpu.map(us));
        row.add_field(self.usage.peak_memory.map(peak_bytes));
    }

    fn get_db_type() -> &'static str {
        "usage_list"
    }
}

/// Bytes as a `bigint`.
fn peak_bytes(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

pub(crate) const FOLLOW_UP_LIST: &str = "follow_up_list";

/// One row of the table type `follow_up_list`.
pub(crate) struct FollowUpRow<'a> {
    ordinal: i32,
    job_id: JobId,
    follow_up: &'a FollowUp,
    due_at: ColumnData<'static>,
    start_by: ColumnData<'static>,
}

/// The follow-ups of all jobs, in the order of the jobs and of each job's list.
pub(crate) fn rows<'a>(jobs: impl Iterator<Item = &'a Finish>) -> Result<Vec<FollowUpRow<'a>>, Error> {
    let all = jobs.flat_map(|job| job.outcome.follow_ups().iter().map(move |follow_up| (job.job_id, follow_up)));
    let row = |(ordinal, (job_id, follow_up)): (i32, (JobId, &'a FollowUp))| {
        let (due_at, start_by) = (due_at(&follow_up.job)?, start_by(&follow_up.job)?);
        Ok(FollowUpRow { ordinal, job_id, follow_up, due_at, start_by })
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
        row.add_field(job.needs.as_ref().map(Needs::json));
        row.add_field(self.start_by.clone());
        row.add_field(job.start_within_time().map(ms));
    }

    fn get_db_type() -> &'static str {
        FOLLOW_UP_LIST
    }
}

const CHANGE_LIST: &str = "change_list";

/// One row of the table type `change_list`: what a job becomes besides its outcome.
struct ChangeRow<'a> {
    job_id: JobId,
    queue: Option<&'a str>,
    needs: Option<String>,
}

impl<'a> ChangeRow<'a> {
    fn of(job: &'a Finish) -> Option<ChangeRow<'a>> {
        let (queue, needs) = (job.outcome.moves_to().map(queue_name), job.outcome.new_needs().map(Needs::json));
        (queue.is_some() || needs.is_some()).then_some(ChangeRow { job_id: job.job_id, queue, needs })
    }
}

/// The name of a queue, cut to one UTF-16 unit more than a name can have, so that SQL Server finds no such queue instead
/// of rejecting the whole call.
fn queue_name(queue: &str) -> &str {
    cut_to(queue, MAX_QUEUE_NAME + 1)
}

/// In UTF-16 units.
const MAX_QUEUE_NAME: usize = 128;

impl<'a> TableValueRow<'a> for ChangeRow<'a> {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        row.add_field(self.job_id.0);
        row.add_field(self.queue);
        row.add_field(self.needs.clone());
    }

    fn get_db_type() -> &'static str {
        CHANGE_LIST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_sent_only_where_a_row_or_an_attempt_stays() {
        let known = Usage { cpu: Some(Duration::from_micros(5)), peak_memory: None };
        let is_sent = |outcome, usage, completion| {
            let (job_id, fence, run) = (JobId(1), Fence(1), Duration::ZERO);
            let finish = Finish { job_id, fence, attempt: 1, kind: None, outcome, run, usage };
            finish.usage_row(completion).is_some()
        };
        let done = || Outcome::Done { output: None, follow_ups: Vec::new() };
        let dead = || Outcome::Dead { error: String::new() };
        let policies = [CompletionPolicy::Delete, CompletionPolicy::Annotate, CompletionPolicy::Archive];
        assert_eq!(policies.map(|policy| is_sent(done(), known, policy)), [false, true, true]);
        assert_eq!(policies.map(|policy| is_sent(dead(), known, policy)), [true; 3]);
        assert_eq!(policies.map(|policy| is_sent(dead(), Usage::default(), policy)), [false; 3]);
    }
}
