//! Reading jobs: `peek`, a page at a time.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tiberius::{ColumnData, Command};

use crate::connection::{Answer, AnswerSizeLimit, Columns, Session, int, into_rows};
use crate::error::Error;
use crate::id::JobId;
use crate::job::JobState;
use crate::time::{from_datetime2, to_datetime2};

use super::job_filter::JobFilter;
use super::job_row::JobRow;

/// A page of the jobs that [`Admin::list`](crate::admin::Admin::list) selects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JobPage {
    /// The jobs, in the order of their state.
    pub jobs: Vec<JobRow>,
    /// Where the next page begins, or `None` if this is the last one.
    pub next: Option<JobCursor>,
}

/// A page of the ids of the jobs that [`Admin::list_ids`](crate::admin::Admin::list_ids) selects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IdPage {
    /// The jobs, in the order of their state.
    pub jobs: Vec<JobId>,
    /// Where the next page begins, or `None` if this is the last one.
    pub next: Option<JobCursor>,
}

/// A position in the list of a queue's jobs. It can be kept, for example in a link to the next page, even if the jobs
/// before it are deleted meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobCursor {
    pub(crate) state: JobState,
    /// The job before the position, or `None` for the start of the state's list.
    pub(crate) after: Option<JobPlace>,
}

/// A job's position in the order of its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobPlace {
    pub(crate) job_id: JobId,
    /// When a scheduled job is due, or when a done, dead, cancelled or archived job finished.
    pub(crate) time: Option<SystemTime>,
    /// The priority of a ready job.
    pub(crate) priority: Option<i16>,
    /// Whether a ready job must run alone.
    pub(crate) alone: Option<bool>,
    /// The group of a waiting job.
    pub(crate) group: Option<String>,
}

const PEEK: &str = "peek";

/// Which columns are read for each job, and how.
pub(crate) struct Listing<T> {
    only_ids: bool,
    read: fn(Columns) -> Result<T, Error>,
    /// How many bytes payload and output have, in the table and in the page.
    bytes: fn(&T) -> [(u64, usize); 2],
}

/// Reads the whole row of each job.
pub(crate) const ROWS: Listing<JobRow> = Listing {
    only_ids: false,
    read: JobRow::read,
    bytes: |job| {
        let output = job.output.as_ref().map_or(0, Vec::len);
        [(job.payload_bytes, job.payload.len()), (job.output_bytes.unwrap_or(0), output)]
    },
};

/// Reads only the id of each job.
pub(crate) const IDS: Listing<JobId> =
    Listing { only_ids: true, read: |mut row| Ok(JobId(row.required("job_id")?)), bytes: |_| [(0, 0); 2] };

/// The limits of a page.
#[derive(Clone, Copy)]
struct PageSize {
    jobs: usize,
    /// The most bytes of each payload and output.
    cut_at: usize,
    /// The most bytes of all payloads and outputs together.
    bytes: u64,
}

/// The most bytes of payloads and outputs in a page of more than one job.
const MAX_PAGE_BYTES: usize = 64 << 20;

impl Session {
    /// Reads up to `max` jobs in one state that match the filter, beginning after `after`. Returns the jobs and the
    /// start of the next page, if any. A page may hold fewer than `max` jobs if their payloads and outputs are large.
    pub(crate) async fn peek<T>(
        &mut self,
        queue: &str,
        state: JobState,
        filter: &JobFilter,
        after: Option<&JobPlace>,
        max: usize,
        shown: &Listing<T>,
    ) -> Result<(Vec<T>, Option<JobPlace>), Error> {
        let wanted = filter.cut_at.unwrap_or(usize::MAX);
        // Short enough that a whole page fits. Nearly always, the first read returns the whole payloads.
        let short = MAX_PAGE_BYTES / (2 * max.max(1));
        let most = MAX_PAGE_BYTES as u64;
        let page = self
            .peek_cut(
                queue,
                state,
                filter,
                after,
                PageSize { jobs: max, cut_at: wanted.min(short), bytes: most },
                shown,
            )
            .await?;
        let whole = |(whole, _): (u64, usize)| whole.min(wanted as u64);
        if page.0.iter().flat_map(shown.bytes).all(|bytes| bytes.1 as u64 == whole(bytes)) {
            return Ok(page);
        }
        let first = page.0.first().map(shown.bytes).unwrap_or_default().map(whole).iter().sum();
        let mut left = most;
        let fits = |job: &&T| {
            let bytes = (shown.bytes)(job).map(whole).iter().sum();
            left.checked_sub(bytes).map(|rest| left = rest).is_some()
        };
        let jobs = page.0.iter().take_while(fits).count().max(1);
        drop(page);
        // Allows twice as much, because payloads and outputs may have changed since.
        self.peek_cut(queue, state, filter, after, PageSize { jobs, cut_at: wanted, bytes: 2 * most.max(first) }, shown)
            .await
    }

    async fn peek_cut<T>(
        &mut self,
        queue: &str,
        state: JobState,
        filter: &JobFilter,
        after: Option<&JobPlace>,
        size: PageSize,
        shown: &Listing<T>,
    ) -> Result<(Vec<T>, Option<JobPlace>), Error> {
        let mut command = self.peek_command(queue);
        if shown.only_ids {
            command.bind_param("@only_ids", true);
        }
        command.bind_param("@state", state.word());
        command.bind_param("@max", int(size.jobs));
        command.bind_param("@kind", filter.kind.as_deref());
        command.bind_param("@correlation_id", filter.correlation_id);
        command.bind_param("@error", filter.error.as_deref());
        command.bind_param("@dedup_key", filter.dedup_key.as_deref());
        command.bind_param("@group_key", filter.group_key.as_deref());
        command.bind_param("@batch_id", filter.batch.map(|batch| batch.0));
        let age = filter.older_than.map(|age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        command.bind_param("@older_than_ms", age);
        command.bind_param("@since", time("since", filter.since)?);
        command.bind_param("@until", time("until", filter.until)?);
        command.bind_param("@worker_id", filter.worker.map(|worker| worker.0));
        command.bind_param("@newest_first", filter.newest_first);
        command.bind_param("@max_bytes", int(size.cut_at));
        if let Some(after) = after {
            command.bind_param("@after", after.job_id.0);
            command.bind_param("@after_time", ColumnData::DateTime2(after.time.and_then(to_datetime2)));
            command.bind_param("@after_priority", after.priority);
            command.bind_param("@after_alone", after.alone);
            command.bind_param("@after_group", after.group.as_deref());
        }
        // The values do not matter: they give the parameters their types.
        command.bind_out_param("@next", None::<i64>);
        command.bind_out_param("@next_time", ColumnData::DateTime2(None));
        command.bind_out_param("@next_priority", None::<i16>);
        command.bind_out_param("@next_alone", None::<bool>);
        command.bind_out_param("@next_group", None::<String>);
        let limit = AnswerSizeLimit::of_rows(size.jobs, size.bytes);
        let answer = self.run_up_to(limit, PEEK, command).await?;
        let next = next_place(&answer)?;
        Ok((into_rows(PEEK, answer).into_iter().map(shown.read).collect::<Result<_, _>>()?, next))
    }

    /// Reads one job.
    pub(crate) async fn peek_one(
        &mut self,
        queue: &str,
        job_id: JobId,
        cut_at: Option<usize>,
    ) -> Result<Option<JobRow>, Error> {
        let wanted = cut_at.unwrap_or(usize::MAX);
        let cut = wanted.min(MAX_PAGE_BYTES / 2);
        let Some(job) = self.peek_one_cut(queue, job_id, cut, MAX_PAGE_BYTES as u64).await? else { return Ok(None) };
        let whole = (ROWS.bytes)(&job).map(|(whole, _)| whole.min(wanted as u64));
        if whole.iter().all(|bytes| *bytes <= cut as u64) {
            return Ok(Some(job));
        }
        drop(job);
        self.peek_one_cut(queue, job_id, wanted, 2 * whole.iter().sum::<u64>()).await
    }

    async fn peek_one_cut(
        &mut self,
        queue: &str,
        job_id: JobId,
        cut_at: usize,
        large: u64,
    ) -> Result<Option<JobRow>, Error> {
        let mut command = self.peek_command(queue);
        command.bind_param("@job_id", job_id.0);
        command.bind_param("@max_bytes", int(cut_at));
        let answer = self.run_up_to(AnswerSizeLimit::of_rows(1, large), PEEK, command).await?;
        into_rows(PEEK, answer).pop().map(JobRow::read).transpose()
    }

    fn peek_command<'a>(&self, queue: &'a str) -> Command<'a> {
        let mut command = self.command(PEEK);
        command.bind_param("@queue", queue);
        command.bind_param("@texts", false); // JobRow reads the bytes itself
        command
    }
}

/// Rounds a filter's time up to the millisecond, so that the jobs at or after it, and those before it, stay the same.
fn time(name: &str, time: Option<SystemTime>) -> Result<ColumnData<'static>, Error> {
    let Some(time) = time else { return Ok(ColumnData::DateTime2(None)) };
    match to_datetime2(time) {
        Some(time) => Ok(ColumnData::DateTime2(Some(time))),
        None => Err(Error::Refused { message: format!("the filter's {name} is outside of the years 1 to 9999") }),
    }
}

fn next_place(answer: &Answer) -> Result<Option<JobPlace>, Error> {
    let unexpected =
        |error: String| Error::Protocol { message: format!("the place of the next page of {PEEK}: {error}") };
    let driver = |error: tiberius::error::Error| unexpected(error.to_string());
    let Some(job_id) = answer.try_return_value("@next").map_err(driver)? else { return Ok(None) };
    let time = match answer.try_return_value::<ColumnData<'_>>("@next_time").map_err(driver)? {
        Some(ColumnData::DateTime2(time)) => time.map(from_datetime2),
        None => None,
        Some(_) => return Err(unexpected("the time is no datetime2".to_string())),
    };
    Ok(Some(JobPlace {
        job_id: JobId(job_id),
        time,
        priority: answer.try_return_value("@next_priority").map_err(driver)?,
        alone: answer.try_return_value("@next_alone").map_err(driver)?,
        group: answer.try_return_value::<&str>("@next_group").map_err(driver)?.map(str::to_owned),
    }))
}
