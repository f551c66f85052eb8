//! `readpast jobs`: a list of jobs.

use anyhow::Result;
use clap::Args;
use readpast::Queue;
use readpast::admin::{JobFilter, JobRow, JobState, WorkerId};
use readpast::crates::uuid::Uuid;

use crate::connection::Common;
use crate::exit::{Exit, failure};
use crate::job_filter::FilterOptions;
use crate::output::Output;
use crate::texts;

/// List the jobs of a queue.
///
/// Ready jobs are listed in claim order, scheduled jobs by due time, finished jobs by finish time. The command never
/// blocks: it leaves out jobs that are locked at the moment.
///
/// Role: operator or monitor.
#[derive(Debug, Args)]
pub struct Jobs {
    queue: String,
    /// Only jobs held by this worker (`worker_id` in `readpast workers --json`)
    #[arg(long, value_name = "UUID")]
    worker: Option<Uuid>,
    /// List the newest first; needs --state done, dead, cancelled or archived
    #[arg(long)]
    newest: bool,
    /// Maximum number of jobs to list
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    limit: usize,
    #[command(flatten)]
    filter: FilterOptions,
}

/// Jobs per call.
const PAGE: usize = 500;

/// How many bytes of a payload are read for the table: enough for 40 characters of up to four bytes.
const SHOWN_BYTES: usize = 200;

/// About how many bytes a page with full payloads has. It is held in memory, and must arrive within the timeout of a
/// call.
const PAGE_BYTES: usize = 4 << 20;

impl Jobs {
    fn filter(&self) -> Result<JobFilter> {
        let state = self.filter.state.map(JobState::from);
        let state = if self.worker.is_some() { state.or(Some(JobState::Claimed)) } else { state };
        let mut filter = self.filter.in_state(state);
        if let Some(worker) = self.worker {
            if state != Some(JobState::Claimed) {
                return Err(failure(Exit::Usage, "--worker needs --state claimed: no worker holds other jobs"));
            }
            filter = filter.worker(WorkerId(worker));
        }
        if self.newest {
            if !state.is_some_and(JobState::has_ended) {
                return Err(failure(Exit::Usage, "--newest needs --state done, dead, cancelled or archived"));
            }
            filter = filter.newest_first();
        }
        Ok(filter)
    }

    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let queue = common.queue(&self.queue).await?;
        let filter = self.filter()?;
        if output.is_json() {
            return self.print_json(&queue, &filter, output).await;
        }
        let filter = filter.cut_at(SHOWN_BYTES);
        let mut jobs = Vec::new();
        let mut after = None;
        while jobs.len() < self.limit {
            let page = queue.admin().list(&filter, after.as_ref(), PAGE.min(self.limit - jobs.len())).await?;
            jobs.extend(page.jobs);
            let Some(next) = page.next else { break };
            after = Some(next);
        }
        let has_needs = jobs.iter().any(|job| job.needs.is_some());
        let mut columns = vec!["id", "state", "kind", "attempt", "enqueued", "payload", "error"];
        if has_needs {
            columns.push("needs");
        }
        output.many(
            &jobs,
            "no job matches",
            &columns,
            &["enqueued", "attempt", "kind", "payload", "needs"],
            |job: &JobRow| {
                let mut row = vec![
                    job.job_id.to_string(),
                    job.state.to_string(),
                    texts::or_dash(job.kind.as_ref()),
                    job.attempt.to_string(),
                    texts::time(job.enqueued_at),
                    job.payload_text()
                        .map_or_else(|| texts::counted(job.payload_bytes, "byte"), |text| texts::first_line(&text, 40)),
                    job.error.as_deref().map(|error| texts::first_line(error, 60)).unwrap_or_default(),
                ];
                if has_needs {
                    row.push(texts::or_dash(job.needs.as_ref()));
                }
                row
            },
        )?;
        Ok(Exit::Ok)
    }

    /// Prints all jobs, page by page. The sizes of the jobs so far determine how many jobs the next page has.
    async fn print_json(&self, queue: &Queue, filter: &JobFilter, output: Output) -> Result<Exit> {
        let (mut left, mut wanted) = (self.limit, 1);
        let mut after = None;
        while left > 0 {
            let page = queue.admin().list(filter, after.as_ref(), wanted.min(left)).await?;
            for job in &page.jobs {
                output.json(job)?;
            }
            left -= page.jobs.len();
            let bytes = |job: &JobRow| job.payload.len() + job.output.as_ref().map_or(0, Vec::len);
            if let Some(largest) = page.jobs.iter().map(bytes).max() {
                wanted = (PAGE_BYTES / largest.max(1)).clamp(1, PAGE.min(wanted * 2));
            }
            let Some(next) = page.next else { break };
            after = Some(next);
        }
        Ok(Exit::Ok)
    }
}
