//! Acknowledging: what became of jobs that were run (`finish`), and giving back those that were not (`release`,
//! `recover`).
//!
//! Every list goes in the order of job ids, which is the order in which SQL Server locks the rows.

use std::time::Duration;

use tiberius::{Command, SqlTableDataRow, TableValueRow};

use super::WorkerId;
use super::connection::{Columns, Lane, MAX_TABLE_VALUE_BYTES, table_type};
use crate::error::Error;
use crate::job::{Fence, JobId};

/// The acknowledgement of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finish {
    pub(crate) job_id: JobId,
    pub(crate) fence: Fence,
    /// For the log; SQL Server knows it.
    pub(crate) attempt: u32,
    pub(crate) outcome: FinishOutcome,
    /// How long the run took, by this process's monotonic clock.
    pub(crate) run: Duration,
}

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FinishOutcome {
    Done { output: Option<Vec<u8>> },
    Retry { delay: Duration, error: String },
    Dead { error: String },
}

/// How a job ended that did not end as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinishResult {
    /// It was not this worker's any more under this fence; nothing was changed.
    Lost,
    /// A retry was asked for, but its attempts are used up.
    Dead,
}

/// The calls by name, as an [`Error::TimedOut`] has it.
pub(crate) const FINISH: &str = "finish";
pub(crate) const FINISH_ONE: &str = "finish_one";

/// The width of the column `error`, in UTF-16 units.
const MAX_ERROR_UNITS: usize = 4_000;

impl Lane {
    /// Acknowledges jobs that have a row, at most 1,000, each once, and none that [is large](Finish::is_large). Returns those that did not
    /// end as asked.
    ///
    /// # Errors
    ///
    /// After any error, run it again with the same jobs: those that were acknowledged come back as lost.
    pub(crate) async fn finish<'a>(
        &mut self,
        queue: &str,
        worker: WorkerId,
        jobs: impl Iterator<Item = &'a Finish>,
    ) -> Result<Vec<(JobId, FinishResult)>, Error> {
        let mut jobs: Vec<&Finish> = jobs.collect();
        jobs.sort_unstable_by_key(|job| job.job_id);
        let list = table_type(self.schema(), "finish_list");
        let mut command = self.command(FINISH);
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker.0);
        command.bind_table_with_dbtype("@jobs", &list, jobs.into_iter().map(FinishRow));
        ended_otherwise(self.rows(FINISH, command).await?)
    }

    /// Acknowledges one job, whose output may be of any size. Returns how it ended if it did not end as asked.
    ///
    /// # Errors
    ///
    /// After any error, run it again: a job that was acknowledged comes back as lost.
    pub(crate) async fn finish_one(
        &mut self,
        queue: &str,
        worker: WorkerId,
        job: &Finish,
    ) -> Result<Option<FinishResult>, Error> {
        let mut command = self.command(FINISH_ONE);
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker.0);
        job.bind(&mut command);
        let results = ended_otherwise(self.rows(FINISH_ONE, command).await?)?;
        Ok(results.first().map(|(_, result)| *result))
    }

    /// Gives back jobs that were not started; their attempt does not count. Returns those that were not this worker's
    /// any more.
    ///
    /// # Errors
    ///
    /// After any error, run it again with the same jobs: those that were given back are reported as not this worker's.
    pub(crate) async fn release(&mut self, worker: WorkerId, jobs: &[(JobId, Fence)]) -> Result<Vec<JobId>, Error> {
        let list = table_type(self.schema(), "job_list");
        let mut command = self.command("release");
        command.bind_param("@worker_id", worker.0);
        command.bind_table_with_dbtype("@jobs", &list, job_rows(jobs));
        let mut not_ours = Vec::new();
        for mut row in self.rows("release", command).await? {
            not_ours.push(JobId(row.required("job_id")?));
        }
        Ok(not_ours)
    }

    /// Gives back the jobs that are claimed for this worker but not among `known`: those of a claim whose answer was
    /// lost. Returns how many there were. By their fences: a call that arrives after it was given up, when this worker has
    /// claimed again, gives back nothing that it runs.
    ///
    /// # Errors
    ///
    /// After any error, run it again.
    pub(crate) async fn recover(
        &mut self,
        queue: &str,
        worker: WorkerId,
        known: &[(JobId, Fence)],
    ) -> Result<usize, Error> {
        let list = table_type(self.schema(), "job_list");
        let mut command = self.command("recover");
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker.0);
        command.bind_table_with_dbtype("@known", &list, job_rows(known));
        let mut unknown = Vec::new();
        for mut row in self.rows("recover", command).await? {
            unknown.push((JobId(row.required("job_id")?), Fence(row.required("fence")?)));
        }
        if unknown.is_empty() {
            return Ok(0);
        }
        let not_ours = self.release(worker, &unknown).await?;
        Ok(unknown.len() - not_ours.len())
    }
}

fn ended_otherwise(rows: Vec<Columns>) -> Result<Vec<(JobId, FinishResult)>, Error> {
    let results = [("lost", FinishResult::Lost), ("dead", FinishResult::Dead)];
    let read = |mut row: Columns| Ok((JobId(row.required("job_id")?), row.one_of("result", &results)?));
    rows.into_iter().map(read).collect()
}

/// An outcome as the procedures take it.
struct OutcomeColumns<'a> {
    outcome: u8,
    retry_ms: Option<i64>,
    error: Option<&'a str>,
    output: Option<&'a [u8]>,
}

impl Finish {
    fn columns(&self) -> OutcomeColumns<'_> {
        let (outcome, retry_ms, error, output) = match &self.outcome {
            FinishOutcome::Done { output } => (0, None, None, output.as_deref()),
            FinishOutcome::Retry { delay, error } => (1, Some(millis(*delay)), Some(cut(error)), None),
            FinishOutcome::Dead { error } => (2, None, Some(cut(error)), None),
        };
        OutcomeColumns { outcome, retry_ms, error, output }
    }

    fn run_us(&self) -> i64 {
        i64::try_from(self.run.as_micros()).unwrap_or(i64::MAX)
    }

    pub(crate) fn output_bytes(&self) -> usize {
        match &self.outcome {
            FinishOutcome::Done { output: Some(output) } => output.len(),
            _ => 0,
        }
    }

    /// Whether its output is too large for a table-valued parameter: [`finish_one`](Lane::finish_one) takes it.
    pub(crate) fn is_large(&self) -> bool {
        self.output_bytes() > MAX_TABLE_VALUE_BYTES
    }

    /// As parameters of `finish_one`.
    fn bind<'a>(&'a self, command: &mut Command<'a>) {
        let columns = self.columns();
        command.bind_param("@job_id", self.job_id.0);
        command.bind_param("@fence", self.fence.0);
        command.bind_param("@outcome", columns.outcome);
        command.bind_param("@retry_ms", columns.retry_ms);
        command.bind_param("@run_us", self.run_us());
        command.bind_param("@error", columns.error);
        command.bind_param("@output", columns.output);
    }
}

/// One row of the table type `finish_list`.
struct FinishRow<'a>(&'a Finish);

impl<'a> TableValueRow<'a> for FinishRow<'a> {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        let columns = self.0.columns();
        row.add_field(self.0.job_id.0);
        row.add_field(self.0.fence.0);
        row.add_field(columns.outcome);
        row.add_field(columns.retry_ms);
        row.add_field(self.0.run_us());
        row.add_field(columns.error);
        row.add_field(columns.output);
    }

    fn get_db_type() -> &'static str {
        "finish_list"
    }
}

/// One row of the table type `job_list`.
struct JobRow(JobId, Fence);

impl<'a> TableValueRow<'a> for JobRow {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        row.add_field(self.0.0);
        row.add_field(self.1.0);
    }

    fn get_db_type() -> &'static str {
        "job_list"
    }
}

fn job_rows(jobs: &[(JobId, Fence)]) -> Vec<JobRow> {
    let mut rows: Vec<JobRow> = jobs.iter().map(|(job_id, fence)| JobRow(*job_id, *fence)).collect();
    rows.sort_unstable_by_key(|row| row.0);
    rows
}

/// Whole milliseconds, rounded up: a delay must not end too early.
pub(super) fn millis(delay: Duration) -> i64 {
    i64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// As much of an error's text as the column holds, without cutting a character in two.
pub(crate) fn cut(error: &str) -> &str {
    let mut units = 0;
    for (position, character) in error.char_indices() {
        units += character.len_utf16();
        if units > MAX_ERROR_UNITS {
            return &error[..position];
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_cut_to_the_column_at_a_character() {
        assert_eq!(cut("short"), "short");
        let exact = "🦀".repeat(2_000);
        assert_eq!(cut(&exact), exact);
        let long = format!("x{exact}");
        let kept = cut(&long);
        assert_eq!(kept.encode_utf16().count(), 3_999);
        assert!(long.starts_with(kept));
    }

    #[test]
    fn a_delay_is_rounded_up() {
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_micros(2_000)), 2);
    }
}
