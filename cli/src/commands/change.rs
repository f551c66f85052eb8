//! `readpast requeue`, `cancel`, `purge` and `priority`: what is done to many jobs, by id or by filter.
//!
//! jobs that match ─ a page of ids ─▶ one call that changes them ─▶ the next page, until there is none or Ctrl-C
//!
//! Nothing is kept but a page: a million jobs take no more memory than a thousand. What a call has changed stays. Jobs
//! that have ended or were enqueued since the command began do not count, so that it comes to an end even where jobs
//! die faster than it makes them ready, and does no more than was agreed to.

use std::collections::{HashSet, VecDeque};
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{ArgAction, Args};
use readpast::{JobCursor, JobFilter, JobId, JobState, Queue};
use serde_json::json;

use crate::connection::Common;
use crate::exit::{Exit, failure, say};
use crate::interrupt::Interrupt;
use crate::job_filter::FilterOptions;
use crate::output::{Output, confirm};
use crate::progress::Progress;
use crate::texts;

/// So many jobs are changed by one call.
const PAGE: usize = 1_000;

/// Make dead jobs ready again, with all their attempts.
///
/// Without a state, dead ones; `--state cancelled` for cancelled ones; by id, both. A job whose de-duplication key
/// belongs to another job by now stays as it is.
///
/// Role: operator.
#[derive(Debug, Args)]
pub struct Requeue {
    #[command(flatten)]
    selection: Selection,
    /// Give it another payload (one job, by its id)
    #[arg(long, value_name = "TEXT")]
    payload: Option<String>,
}

/// Cancel jobs that have not ended.
///
/// A job that waits is cancelled at once. Of one that runs the worker is told: its handler is asked to stop, and a
/// program that `readpast work` runs is ended.
///
/// Role: operator.
#[derive(Debug, Args)]
pub struct Cancel {
    #[command(flatten)]
    selection: Selection,
    /// Why, for whoever looks at the job
    #[arg(long, default_value = "", value_name = "TEXT")]
    why: String,
}

/// Delete jobs for good; not those that run.
///
/// With a filter, the state must be named.
///
/// Role: operator.
#[derive(Debug, Args)]
pub struct Purge {
    #[command(flatten)]
    selection: Selection,
}

/// Give jobs that have not ended another priority.
///
/// Of a running job it counts when it comes back.
///
/// Role: operator.
#[derive(Debug, Args)]
pub struct Priority {
    #[command(flatten)]
    selection: Selection,
    /// The new priority, -32768 to 32767: smaller runs first
    #[arg(long = "to", value_name = "NUMBER", allow_negative_numbers = true)]
    priority: i16,
}

/// Make scheduled jobs ready before their time.
///
/// Role: operator.
#[derive(Debug, Args)]
pub struct Promote {
    queue: String,
    /// The jobs' ids
    #[arg(required = true)]
    ids: Vec<i64>,
}

/// Which jobs, and whether to ask.
#[derive(Debug, Args)]
struct Selection {
    queue: String,
    /// The jobs' ids
    ids: Vec<i64>,
    #[command(flatten)]
    filter: FilterOptions,
    /// All jobs for which it can be done
    #[arg(long, action = ArgAction::SetTrue)]
    all: bool,
    /// Only say how many jobs it would be
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// What is done to the jobs.
enum Change {
    Requeue,
    Cancel { why: String },
    Purge,
    Priority(i16),
}

impl Requeue {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let Some(payload) = self.payload else {
            return self.selection.carry_out(Change::Requeue, common, output).await;
        };
        let [id] = self.selection.ids[..] else {
            return Err(failure(Exit::Usage, "--payload is for one job, named by its id"));
        };
        confirm(self.selection.yes, &format!("requeue job {id} with another payload")).await?;
        let queue = common.queue(&self.selection.queue).await?;
        if !queue.requeue_with(JobId(id), payload).await? {
            return Err(failure(
                Exit::NotFound,
                format!("job {id} is not there, or neither dead nor cancelled; it is as it was"),
            ));
        }
        output.one(&json!({"changed": 1, "matched": 1}), || "requeued 1 of 1 jobs".to_owned())?;
        Ok(Exit::Ok)
    }
}

impl Cancel {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        self.selection.carry_out(Change::Cancel { why: self.why }, common, output).await
    }
}

impl Purge {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        self.selection.carry_out(Change::Purge, common, output).await
    }
}

impl Priority {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        self.selection.carry_out(Change::Priority(self.priority), common, output).await
    }
}

impl Promote {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let queue = common.queue(&self.queue).await?;
        let ids = distinct(&self.ids);
        let mut others = Vec::new();
        for id in &ids {
            if !queue.promote_now(*id).await? {
                others.push(*id);
            }
        }
        let (changed, matched) = ((ids.len() - others.len()) as u64, ids.len() as u64);
        output.one(&json!({"changed": changed, "matched": matched}), || {
            format!("made ready {} of {} jobs", texts::number(changed), texts::number(matched))
        })?;
        if others.is_empty() { Ok(Exit::Ok) } else { Err(not_fit(&others, &self.queue, &[JobState::Scheduled])) }
    }
}

impl Selection {
    async fn carry_out(self, change: Change, common: &Common, output: Output) -> Result<Exit> {
        let pages = self.pages(&change)?;
        let mut interrupt = Interrupt::watch();
        let queue = common.queue(&self.queue).await?;
        let (pages, unfit) = match pages {
            None => fit(distinct(&self.ids), &queue, change.states(), &interrupt).await?,
            Some(pages) => (pages, Vec::new()),
        };
        let mut total = None;
        if self.dry_run || !self.yes {
            let matched = pages.clone().count(&queue, &change, &interrupt).await?;
            if self.dry_run {
                output.one(&json!({"matched": matched}), || format!("{} jobs match", texts::number(matched)))?;
                return change.ended(&unfit, &self.queue);
            }
            if matched == 0 {
                change.report(0, unfit.len() as u64, output)?;
                return change.ended(&unfit, &self.queue);
            }
            let what = format!("{} {} jobs of {}", change.verb(), texts::number(matched), self.queue);
            tokio::select! {
                confirmed = confirm(false, &what) => confirmed?,
                () = interrupt.pressed() => {
                    let _ = writeln!(std::io::stderr()); // behind the question
                    return Err(nothing_done());
                }
            }
            total = Some(matched);
        }
        change.carry_out(pages, &unfit, &queue, total, &interrupt, output).await
    }

    /// The pages of what is to be changed; `None`: jobs are named by their ids.
    fn pages(&self, change: &Change) -> Result<Option<Pages>> {
        let usage = |message: String| Err(failure(Exit::Usage, message));
        let ways = [!self.ids.is_empty(), !self.filter.is_empty(), self.all];
        if ways.iter().filter(|way| **way).count() != 1 {
            return usage("name the jobs by their ids, or by a filter, or with --all".to_owned());
        }
        if !self.ids.is_empty() {
            return Ok(None);
        }
        let allowed = change.states();
        let states = match (self.filter.state.map(JobState::from), change) {
            (Some(state), _) if allowed.contains(&state) => vec![state],
            (Some(state), _) => {
                let words: Vec<String> = allowed.iter().map(JobState::to_string).collect();
                return usage(format!(
                    "--state is {state}; to {}, it must be one of {}",
                    change.verb(),
                    words.join(", ")
                ));
            }
            (None, Change::Purge) => return usage("say with --state which jobs are to be deleted".to_owned()),
            (None, Change::Requeue) => vec![JobState::Dead],
            (None, Change::Cancel { .. } | Change::Priority(_)) => allowed.to_vec(),
        };
        let filters = states.into_iter().map(|state| (state, self.filter.in_state(Some(state)))).collect();
        let age = self.filter.older_than.unwrap_or_default();
        Ok(Some(Pages::Filters { filters, after: None, begin: Instant::now(), age }))
    }
}

/// Jobs, page by page.
#[derive(Clone)]
enum Pages {
    /// Those that were named and are there, by state.
    Found(VecDeque<(JobState, JobId)>),
    /// What is left of the states, and where the next page of the first of them begins.
    Filters {
        filters: VecDeque<(JobState, JobFilter)>,
        after: Option<JobCursor>,
        /// When the command began, and how old jobs must have been then.
        begin: Instant,
        age: Duration,
    },
}

impl Pages {
    /// The next page that has any jobs for a change, and the state that they are in. `None` also after Ctrl-C: until a job
    /// matches, there may be many pages.
    async fn next(
        &mut self,
        queue: &Queue,
        change: &Change,
        interrupt: &Interrupt,
    ) -> Result<Option<(JobState, Vec<JobId>)>> {
        match self {
            Pages::Found(jobs) => {
                let Some((state, _)) = jobs.front().copied() else { return Ok(None) };
                let count = jobs.iter().take(PAGE).take_while(|(other, _)| *other == state).count();
                Ok(Some((state, jobs.drain(..count).map(|(_, id)| id).collect())))
            }
            Pages::Filters { filters, after, begin, age } => {
                while !interrupt.is_pressed()
                    && let Some((state, filter)) = filters.front()
                {
                    let filter = filter.clone().older_than(age.saturating_add(begin.elapsed()));
                    let state = *state;
                    let (jobs, next) = change.page(queue, &filter, after.as_ref()).await?;
                    *after = next;
                    if after.is_none() {
                        filters.pop_front();
                    }
                    if !jobs.is_empty() {
                        return Ok(Some((state, jobs)));
                    }
                }
                Ok(None)
            }
        }
    }

    /// How many there are.
    async fn count(mut self, queue: &Queue, change: &Change, interrupt: &Interrupt) -> Result<u64> {
        let progress = Progress::new("counted", None);
        let mut matched = 0;
        while let Some((_, ids)) = self.next(queue, change, interrupt).await? {
            matched += ids.len() as u64;
            progress.advance(ids.len() as u64);
        }
        progress.end();
        if interrupt.is_pressed() { Err(nothing_done()) } else { Ok(matched) }
    }
}

/// Each id once, in their order.
fn distinct(ids: &[i64]) -> Vec<JobId> {
    let mut seen = HashSet::new();
    ids.iter().copied().filter(|id| seen.insert(*id)).map(JobId).collect()
}

/// Of these jobs, those that are in one of these states; and the others.
async fn fit(
    ids: Vec<JobId>,
    queue: &Queue,
    states: &[JobState],
    interrupt: &Interrupt,
) -> Result<(Pages, Vec<JobId>)> {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for id in ids {
        match queue.job_cut_at(id, 0).await? {
            Some(job) if states.contains(&job.state) => found.push((job.state, id)),
            _ => others.push(id),
        }
        if interrupt.is_pressed() {
            return Err(nothing_done());
        }
    }
    found.sort_by_key(|(state, _)| states.iter().position(|other| other == state));
    Ok((Pages::Found(found.into()), others))
}

fn nothing_done() -> anyhow::Error {
    failure(Exit::Interrupted, "nothing was done")
}

impl Change {
    fn verb(&self) -> &'static str {
        match self {
            Change::Requeue => "requeue",
            Change::Cancel { .. } => "cancel",
            Change::Purge => "delete",
            Change::Priority(_) => "change the priority of",
        }
    }

    fn past(&self) -> &'static str {
        match self {
            Change::Requeue => "requeued",
            Change::Cancel { .. } => "cancelled",
            Change::Purge => "deleted",
            Change::Priority(_) => "changed the priority of",
        }
    }

    /// Of jobs in which states it can be done.
    fn states(&self) -> &'static [JobState] {
        use JobState::{Archived, Cancelled, Claimed, Dead, Done, Ready, Scheduled, Waiting};
        match self {
            Change::Requeue => &[Dead, Cancelled],
            Change::Cancel { .. } | Change::Priority(_) => &[Scheduled, Waiting, Ready, Claimed],
            Change::Purge => &[Scheduled, Waiting, Ready, Done, Dead, Cancelled, Archived],
        }
    }

    /// A page of the jobs that a filter asks for, and where the next one begins.
    async fn page(
        &self,
        queue: &Queue,
        filter: &JobFilter,
        after: Option<&JobCursor>,
    ) -> Result<(Vec<JobId>, Option<JobCursor>), readpast::Error> {
        let Change::Priority(priority) = self else {
            let page = queue.list_ids(filter, after, PAGE).await?;
            return Ok((page.jobs, page.next));
        };
        // Ready jobs are listed by priority, so one that gets a larger number may be met again.
        let page = queue.list(&filter.clone().cut_at(0), after, PAGE).await?;
        let others = page.jobs.iter().filter(|job| job.priority != *priority);
        Ok((others.map(|job| job.job_id).collect(), page.next))
    }

    async fn carry_out(
        self,
        mut pages: Pages,
        unfit: &[JobId],
        queue: &Queue,
        total: Option<u64>,
        interrupt: &Interrupt,
        output: Output,
    ) -> Result<Exit> {
        let progress = Progress::new(self.past(), total);
        let (mut matched, mut changed) = (unfit.len() as u64, 0);
        while !interrupt.is_pressed()
            && let Some((state, ids)) = pages.next(queue, &self, interrupt).await?
        {
            changed += self.call(queue, state, &ids).await.inspect_err(|_| {
                progress.end();
                say(&format!("{} {} jobs before this:", self.past(), texts::number(changed)));
            })?;
            matched += ids.len() as u64;
            progress.advance(ids.len() as u64);
        }
        progress.end();
        self.report(changed, matched, output)?;
        if interrupt.is_pressed() { Ok(Exit::Interrupted) } else { self.ended(unfit, queue.name()) }
    }

    /// How many jobs were changed, of how many.
    fn report(&self, changed: u64, matched: u64, output: Output) -> Result<()> {
        output.one(&json!({"changed": changed, "matched": matched}), || {
            format!("{} {} of {} jobs", self.past(), texts::number(changed), texts::number(matched))
        })
    }

    /// The end, where all jobs that were named are there, in a state for it.
    fn ended(&self, unfit: &[JobId], queue: &str) -> Result<Exit> {
        if unfit.is_empty() { Ok(Exit::Ok) } else { Err(not_fit(unfit, queue, self.states())) }
    }

    /// Changes a page of jobs that are in one state; returns how many.
    async fn call(&self, queue: &Queue, state: JobState, ids: &[JobId]) -> Result<u64, readpast::Error> {
        match self {
            Change::Requeue => queue.requeue_jobs(ids).await,
            Change::Cancel { why } => {
                queue.cancel_jobs(ids, why).await.map(|cancelled| cancelled.waiting + cancelled.running)
            }
            Change::Priority(priority) => queue.set_priority_of(ids, *priority).await,
            Change::Purge => queue.purge_jobs(state, ids).await,
        }
    }
}

/// Jobs that were named and are not there, or in another state.
fn not_fit(jobs: &[JobId], queue: &str, states: &[JobState]) -> anyhow::Error {
    let ids: Vec<String> = jobs.iter().map(JobId::to_string).collect();
    let states: Vec<String> = states.iter().map(JobState::to_string).collect();
    let message = format!(
        "{queue} has no such jobs, or they are not {} (or locked at the moment): {}",
        states.join(", "),
        ids.join(", ")
    );
    failure(Exit::NotFound, message)
}
