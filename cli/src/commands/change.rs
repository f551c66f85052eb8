//! `readpast requeue`, `cancel`, `purge`, `priority`, `promote`, `rerun` and `skip`: change many jobs, by id or by filter.
//!
//! matching jobs ─ a page of ids ─▶ one call that changes them ─▶ the next page, until none is left or Ctrl-C
//!
//! Memory is bounded by one page. If the command is interrupted, the changes of completed calls stay. Jobs that were
//! enqueued or finished after the command started do not match. The command therefore ends even if jobs die faster than
//! it requeues them, and changes no more jobs than the user confirmed.

use std::collections::{HashSet, VecDeque};
use std::io::Write;

use anyhow::Result;
use clap::{ArgAction, Args};
use readpast::admin::{JobChange, JobFilter, JobState, MatchingJobs, MatchingPage};
use readpast::{JobId, Queue};
use serde_json::json;

use crate::audit::{Audit, note, note_of, noted};
use crate::connection::Common;
use crate::exit::{Exit, failure, say};
use crate::interrupt::Interrupt;
use crate::job_filter::FilterOptions;
use crate::output::{Output, confirm};
use crate::progress::Progress;
use crate::texts;

/// Make dead jobs ready again, with all their attempts.
///
/// A filter selects dead jobs, or cancelled ones with `--state cancelled`; ids may name both. A job stays unchanged if
/// another job uses its deduplication key.
///
/// Role: operator.
#[derive(Debug, Args)]
pub struct Requeue {
    /// Replace the payload; needs the id of one job
    #[arg(long, value_name = "TEXT")]
    payload: Option<String>,
    #[command(flatten)]
    selection: Selection,
}

/// Cancel unfinished jobs.
///
/// An unstarted job is cancelled immediately. If a job is running, its worker asks the handler to stop; `readpast work`
/// stops the job's program.
///
/// Role: operator.
#[derive(Debug, Args)]
pub struct Cancel {
    /// Reason, shown with the job
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    selection: Selection,
}

/// Delete jobs for good, except running ones.
///
/// A filter must include `--state`.
///
/// Role: operator.
#[derive(Debug, Args)]
pub struct Purge {
    #[command(flatten)]
    selection: Selection,
}

/// Change the priority of unfinished jobs.
///
/// A running job has the new priority if it is retried or released.
///
/// Role: operator.
#[derive(Debug, Args)]
pub struct Priority {
    /// New priority, -32768 to 32767; smaller runs first
    #[arg(long = "to", value_name = "NUMBER", allow_negative_numbers = true)]
    priority: i16,
    #[command(flatten)]
    selection: Selection,
}

/// Make scheduled jobs ready before their time.
///
/// With ids, the command does not ask for confirmation.
///
/// Role: operator.
#[derive(Debug, Args)]
pub struct Promote {
    #[command(flatten)]
    selection: Selection,
}

/// Run done jobs again, each as a new job.
///
/// A new job has the payload and the attributes of the done one, except its batch and its latest start. Its header
/// `readpast-run-again` is the id of the done job. Only queues that keep done jobs have any. Repeating the command runs the
/// jobs once more, also those of an interrupted one.
///
/// Role: operator.
#[derive(Debug, Args)]
pub struct Rerun {
    #[command(flatten)]
    selection: Selection,
}

/// Let groups go on that a dead job halts.
///
/// Only in a queue with `--halt-groups true`. The next job of the group has its turn, and the dead job stays dead.
///
/// Role: operator.
#[derive(Debug, Args)]
pub struct Skip {
    #[command(flatten)]
    selection: Selection,
}

/// The selected jobs, and whether to ask for confirmation.
#[derive(Debug, Args)]
struct Selection {
    queue: String,
    ids: Vec<i64>,
    /// All jobs that the command can change
    #[arg(long, action = ArgAction::SetTrue, help_heading = "Selection")]
    all: bool,
    /// Print how many jobs match, and change nothing
    #[arg(long, short = 'n', help_heading = "Selection")]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short, help_heading = "Selection")]
    yes: bool,
    #[command(flatten)]
    filter: FilterOptions,
}

impl Requeue {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let Some(payload) = self.payload else {
            return self.selection.carry_out(JobChange::Requeue, common, output).await;
        };
        let [id] = self.selection.ids[..] else {
            return Err(failure(Exit::Usage, "--payload needs the id of one job"));
        };
        confirm(self.selection.yes, &format!("requeue job {id} with another payload")).await?;
        let queue = common.queue(&self.selection.queue).await?;
        let note = note("requeue").what(json!({ "jobs": [id], "named": 1, "payload": true }));
        let jobs = |requeued: &bool| Some(u64::from(*requeued));
        if !noted(&queue, note, |admin| admin.requeue_with(JobId(id), payload), jobs).await? {
            return Err(failure(
                Exit::NotFound,
                format!("job {id} does not exist, or is neither dead nor cancelled; nothing was changed"),
            ));
        }
        output.one(&json!({"changed": 1, "matched": 1}), || "requeued 1 of 1 job".to_owned())?;
        Ok(Exit::Ok)
    }
}

impl Cancel {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        self.selection.carry_out(JobChange::cancel(self.why), common, output).await
    }
}

impl Purge {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        self.selection.carry_out(JobChange::Purge, common, output).await
    }
}

impl Priority {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        self.selection.carry_out(JobChange::SetPriority(self.priority), common, output).await
    }
}

impl Promote {
    pub async fn run(mut self, common: &Common, output: Output) -> Result<Exit> {
        // Ids of jobs to run now need no further confirmation.
        self.selection.yes |= !self.selection.ids.is_empty();
        self.selection.carry_out(JobChange::Promote, common, output).await
    }
}

impl Rerun {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        self.selection.carry_out(JobChange::RunAgain, common, output).await
    }
}

impl Skip {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        self.selection.carry_out(JobChange::Skip, common, output).await
    }
}

impl Selection {
    async fn carry_out(self, change: JobChange, common: &Common, output: Output) -> Result<Exit> {
        let filter = self.filter(&change)?;
        let mut interrupt = Interrupt::watch();
        let queue = common.queue(&self.queue).await?;
        let (pages, unfit) = match &filter {
            None => fit(distinct(&self.ids), &queue, change.states(), &interrupt).await?,
            Some(filter) => (Pages::Matching(Box::new(queue.admin().matching(filter, change.clone())?)), Vec::new()),
        };
        let mut total = None;
        if self.dry_run || !self.yes {
            let matched = pages.clone().count(&interrupt).await?;
            if self.dry_run {
                output.one(&json!({"matched": matched}), || {
                    format!("{} {}", texts::counted(matched, "job"), if matched == 1 { "matches" } else { "match" })
                })?;
                return ended(&change, &unfit, &self.queue);
            }
            if matched == 0 {
                report(&change, 0, unfit.len() as u64, output)?;
                return ended(&change, &unfit, &self.queue);
            }
            let what = format!("{} {} of {}", verb(&change), texts::counted(matched, "job"), self.queue);
            tokio::select! {
                confirmed = confirm(false, &what) => confirmed?,
                () = interrupt.pressed() => {
                    let _ = writeln!(std::io::stderr()); // behind the question
                    return Err(nothing_done());
                }
            }
            total = Some(matched);
        }
        let note = match &filter {
            Some(filter) => note_of(&change).filter(filter),
            None => note_of(&change).jobs(&self.ids.iter().copied().map(JobId).collect::<Vec<_>>()),
        };
        let audit = Audit::begin(&queue, &note).await?;
        let (mut changed, mut matched) = (0, unfit.len() as u64);
        let done = carry_out(&change, pages, &audit, total, &interrupt, &mut changed, &mut matched).await;
        let outcome = match &done {
            Err(error) => Some(error.to_string()),
            Ok(()) => interrupt.is_pressed().then(|| "interrupted".to_owned()),
        };
        audit.end(Some(changed), outcome.as_deref()).await;
        done?;
        report(&change, changed, matched, output)?;
        if interrupt.is_pressed() { Ok(Exit::Interrupted) } else { ended(&change, &unfit, &self.queue) }
    }

    /// The filter; `None` if jobs are given by id.
    fn filter(&self, change: &JobChange) -> Result<Option<JobFilter>> {
        let usage = |message: String| Err(failure(Exit::Usage, message));
        let ways = [!self.ids.is_empty(), !self.filter.is_empty(), self.all];
        if ways.iter().filter(|way| **way).count() != 1 {
            return usage("select the jobs by ids, by a filter, or with --all".to_owned());
        }
        if !self.ids.is_empty() {
            return Ok(None);
        }
        let allowed = change.states();
        let state = match (self.filter.state.map(JobState::from), change) {
            (Some(state), _) if allowed.contains(&state) => Some(state),
            (Some(state), _) => {
                let words: Vec<String> = allowed.iter().map(JobState::to_string).collect();
                return usage(format!(
                    "--state is {state}; to {}, it must be one of {}",
                    verb(change),
                    words.join(", ")
                ));
            }
            (None, JobChange::Purge) => {
                return usage("pass --state: a filter for purge must name the state".to_owned());
            }
            (None, JobChange::Requeue) => Some(JobState::Dead),
            (None, _) => None,
        };
        Ok(Some(self.filter.in_state(state)))
    }
}

#[derive(Clone)]
enum Pages {
    /// Jobs given by id, by state.
    Found(VecDeque<MatchingPage>),
    Matching(Box<MatchingJobs>),
}

impl Pages {
    /// The next page with jobs. `None` also after Ctrl-C: there may be many pages without a match.
    async fn next(&mut self, interrupt: &Interrupt) -> Result<Option<MatchingPage>> {
        while !interrupt.is_pressed() {
            let page = match self {
                Pages::Found(pages) => pages.pop_front(),
                Pages::Matching(pages) => pages.next().await?,
            };
            if page.as_ref().is_none_or(|page| !page.jobs.is_empty()) {
                return Ok(page);
            }
        }
        Ok(None)
    }

    /// Counts the jobs.
    async fn count(mut self, interrupt: &Interrupt) -> Result<u64> {
        let progress = Progress::new("counted", None);
        let mut matched = 0;
        while let Some(page) = self.next(interrupt).await? {
            matched += page.jobs.len() as u64;
            progress.advance(page.jobs.len() as u64);
        }
        progress.end();
        if interrupt.is_pressed() { Err(nothing_done()) } else { Ok(matched) }
    }
}

/// Each id once, in order.
fn distinct(ids: &[i64]) -> Vec<JobId> {
    let mut seen = HashSet::new();
    ids.iter().copied().filter(|id| seen.insert(*id)).map(JobId).collect()
}

/// Splits jobs into those in one of these states, and the others.
async fn fit(
    ids: Vec<JobId>,
    queue: &Queue,
    states: &[JobState],
    interrupt: &Interrupt,
) -> Result<(Pages, Vec<JobId>)> {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for id in ids {
        match queue.admin().job(id, Some(0)).await? {
            Some(job) if states.contains(&job.state) => found.push((job.state, id)),
            _ => others.push(id),
        }
        if interrupt.is_pressed() {
            return Err(nothing_done());
        }
    }
    let page = |state: &JobState| {
        let jobs: Vec<JobId> = found.iter().filter(|(other, _)| other == state).map(|(_, id)| *id).collect();
        MatchingPage::new(*state, jobs)
    };
    Ok((Pages::Found(states.iter().map(page).collect()), others))
}

fn nothing_done() -> anyhow::Error {
    failure(Exit::Interrupted, "nothing was done")
}

fn verb(change: &JobChange) -> &'static str {
    match change {
        JobChange::Requeue => "requeue",
        JobChange::Cancel { .. } => "cancel",
        JobChange::Purge => "delete",
        JobChange::Promote => "make ready",
        JobChange::RunAgain => "run again",
        JobChange::Skip => "skip",
        _ => "change the priority of",
    }
}

fn past(change: &JobChange) -> &'static str {
    match change {
        JobChange::Requeue => "requeued",
        JobChange::Cancel { .. } => "cancelled",
        JobChange::Purge => "deleted",
        JobChange::Promote => "made ready",
        JobChange::RunAgain => "enqueued again",
        JobChange::Skip => "skipped",
        _ => "changed the priority of",
    }
}

/// Changes the jobs page by page, and adds to `changed` and `matched`, which are also right if a call fails.
async fn carry_out(
    change: &JobChange,
    mut pages: Pages,
    audit: &Audit,
    total: Option<u64>,
    interrupt: &Interrupt,
    changed: &mut u64,
    matched: &mut u64,
) -> Result<()> {
    let progress = Progress::new(past(change), total);
    while let Some(page) = pages.next(interrupt).await? {
        let jobs = page.jobs.len() as u64;
        let result = audit.admin().change(change, page).await.inspect_err(|_| {
            progress.end();
            say(&format!("{} {} before this:", past(change), texts::counted(*changed, "job")));
        })?;
        *changed += result.total();
        *matched += jobs;
        progress.advance(jobs);
    }
    progress.end();
    Ok(())
}

/// Prints how many jobs were changed.
fn report(change: &JobChange, changed: u64, matched: u64, output: Output) -> Result<()> {
    output.one(&json!({"changed": changed, "matched": matched}), || {
        format!("{} {} of {}", past(change), texts::number(changed), texts::counted(matched, "job"))
    })
}

/// The exit code, or an error if given jobs do not exist or have another state.
fn ended(change: &JobChange, unfit: &[JobId], queue: &str) -> Result<Exit> {
    if unfit.is_empty() { Ok(Exit::Ok) } else { Err(not_fit(unfit, queue, change.states())) }
}

/// The error for given jobs that do not exist or have another state.
fn not_fit(jobs: &[JobId], queue: &str, states: &[JobState]) -> anyhow::Error {
    let ids: Vec<String> = jobs.iter().map(JobId::to_string).collect();
    let states: Vec<String> = states.iter().map(JobState::to_string).collect();
    let (such, are) = if let [_] = jobs { ("such job", "it is") } else { ("such jobs", "they are") };
    let (states, ids) = (states.join(", "), ids.join(", "));
    let message = format!("{queue} has no {such}, or {are} not {states} (or locked at the moment): {ids}");
    failure(Exit::NotFound, message)
}
