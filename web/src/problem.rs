//! What needs attention, as sentences. Where `grafana/alerts.yaml` has an alert, the threshold is the same.

use std::time::Duration;

use readpast::admin::{Held, JobState, WorkerRow};

use crate::error_view::ErrorView;
use crate::job_search::JobSearch;
use crate::links::link;
use crate::readings::Line;
use crate::texts::{counted, number};
use crate::time::{length, rounded};

/// ReadpastNoWorker: how long ready jobs have had no worker.
const NO_WORKER: Duration = Duration::from_secs(5 * 60);

/// ReadpastOldestJobTooOld.
pub const TOO_OLD: Duration = Duration::from_secs(900);

/// No alert: one failed attempt in five, of at least this many.
const FAILING: u64 = 5;
const FEW_ATTEMPTS: u64 = 20;

/// Something that needs attention.
#[derive(Debug, Clone)]
pub struct Problem {
    /// It is not only a warning.
    pub is_grave: bool,
    /// The class of its sign.
    pub sign: &'static str,
    pub queue: String,
    /// What is wrong, after the queue's name.
    pub text: String,
    pub error: Option<ErrorView>,
    pub detail: String,
    /// The words and the address of what to do.
    pub act: (String, String),
    /// How many jobs it touches.
    touched: u64,
}

/// The problems of all queues, the worst first.
pub fn all(queues: &[Line], workers: &[WorkerRow]) -> Vec<Problem> {
    let mut problems = Vec::from_iter(held(queues));
    for line in queues {
        died(line, &mut problems);
        not_claimed(line, &mut problems);
        schedules(line, &mut problems);
        warnings(line, &mut problems);
    }
    problems.extend(workers.iter().filter(|worker| has_lost_its_lease(worker)).map(lost_lease));
    problems.sort_by_key(|problem| (!problem.is_grave, std::cmp::Reverse(problem.touched)));
    problems
}

/// Whether the worker holds jobs although its lease has expired.
pub fn has_lost_its_lease(worker: &WorkerRow) -> bool {
    worker.lost_at.is_none() && !worker.is_live() && worker.held > 0
}

/// What holds all queues, once.
fn held(queues: &[Line]) -> Option<Problem> {
    let stats = &queues.first()?.activity.stats;
    let (text, detail) = match stats.held? {
        Held::Copy => (
            "held with all other queues, because this database was restored or copied",
            "Its jobs may have run elsewhere since. Cancel those that must not run again, then run \
             readpast confirm-copy.",
        ),
        _ => ("paused with all other queues", "Run readpast queue resume --all to resume them."),
    };
    Some(Problem {
        is_grave: true,
        sign: "paused",
        queue: stats.queue.clone(),
        text: text.to_owned(),
        error: None,
        detail: detail.to_owned(),
        act: ("Open the queue".to_owned(), to_queue(&stats.queue)),
        touched: u64::MAX, // before all others
    })
}

fn to_queue(queue: &str) -> String {
    link("queue", [("queue", queue)])
}

fn died(line: &Line, problems: &mut Vec<Problem>) {
    let stats = &line.activity.stats;
    let more = line.recent.lately.more_dead(stats);
    if more == 0 {
        return;
    }
    let reasons = line.recent.reasons.as_deref().map_or(&[][..], Vec::as_slice);
    let mut search = JobSearch::of(&stats.queue, JobState::Dead);
    let (mut detail, mut words) =
        (format!("{} in total.", counted(stats.dead, "dead job")), "See dead jobs".to_owned());
    if let Some(reason) = reasons.first() {
        let text = reason.search_text();
        search.error = (!text.is_empty()).then(|| text.to_owned());
        let kinds = match &reason.kinds[..] {
            [kind] => format!(", all of kind {kind}"),
            _ => String::new(),
        };
        let others = match reasons.len() {
            1 => String::new(),
            2 => " 1 other error.".to_owned(),
            more => format!(" {} other errors.", number(more as u64 - 1)),
        };
        detail = format!("{} with this error{kinds}. {detail}{others}", counted(reason.count, "dead job"));
        words = format!("See the {}", number(reason.count));
    }
    problems.push(Problem {
        is_grave: true,
        sign: "dead",
        queue: stats.queue.clone(),
        text: format!("{} died in the last 15 minutes", counted(more, "job")),
        error: reasons.first().map(|reason| ErrorView::of(&reason.example_error)),
        detail,
        act: (words, search.link("jobs", &[])),
        touched: more,
    });
}

/// Ready jobs that nobody claims, or too late.
fn not_claimed(line: &Line, problems: &mut Vec<Problem>) {
    let stats = &line.activity.stats;
    let (jobs, oldest) = (stats.claimable(), stats.oldest_ready.unwrap_or_default());
    if stats.paused || jobs == 0 {
        return;
    }
    let mut problem = Problem {
        is_grave: true,
        sign: "ready",
        queue: stats.queue.clone(),
        text: format!("{} ready and no worker runs", are(jobs)),
        error: None,
        detail: format!("The oldest has waited {}.", length(oldest)),
        act: ("See workers".to_owned(), "workers".to_owned()),
        touched: jobs,
    };
    if stats.workers == 0 && oldest >= NO_WORKER {
        problems.push(problem);
    } else if stats.workers > 0 && oldest >= TOO_OLD {
        problem.text = format!("the oldest ready job has waited {}", rounded(oldest));
        problem.detail = format!("{} ready; {} running.", are(jobs), counted(stats.workers, "worker"));
        problem.act = ("See what limits it".to_owned(), to_queue(&stats.queue));
        problems.push(problem);
    }
}

/// `1 job is`, `7 jobs are`.
fn are(jobs: u64) -> String {
    format!("{} {}", counted(jobs, "job"), if jobs == 1 { "is" } else { "are" })
}

fn schedules(line: &Line, problems: &mut Vec<Problem>) {
    for schedule in &line.recent.schedules {
        let what = if schedule.error.is_some() { "cannot enqueue its jobs" } else { "is late" };
        problems.push(Problem {
            is_grave: true,
            sign: "scheduled",
            queue: line.activity.stats.queue.clone(),
            text: format!("schedule {} {what}", schedule.name),
            error: schedule.error.as_deref().map(ErrorView::of),
            detail: String::new(),
            act: ("See schedules".to_owned(), "schedules".to_owned()),
            touched: 0,
        });
    }
}

fn warnings(line: &Line, problems: &mut Vec<Problem>) {
    let (stats, recent) = (&line.activity.stats, &line.recent);
    let mut warn = |sign, text: String, detail: String, touched| {
        problems.push(Problem {
            is_grave: false,
            sign,
            queue: stats.queue.clone(),
            text,
            error: None,
            detail,
            act: ("Open the queue".to_owned(), to_queue(&stats.queue)),
            touched,
        });
    };
    if stats.paused && stats.held.is_none() && stats.claimable() > 0 {
        let oldest = stats.oldest_ready.map(|oldest| format!("The oldest has waited {}.", length(oldest)));
        let text = format!("paused, and {} ready", are(stats.claimable()));
        warn("paused", text, oldest.unwrap_or_default(), stats.claimable());
    }
    if recent.attempts >= FEW_ATTEMPTS && recent.failed * FAILING > recent.attempts {
        let percent = recent.failed * 100 / recent.attempts;
        let detail = format!("{} of {}.", number(recent.failed), counted(recent.attempts, "attempt"));
        warn("retry", format!("{percent} % of attempts failed in the last 15 minutes"), detail, recent.failed);
    }
    if recent.backlog_grows() {
        let [first, _, last] = recent.backlog.unwrap_or_default();
        let detail = format!("{} ready, {} an hour ago.", number(last), number(first));
        let text = "the backlog has grown for an hour".to_owned();
        warn("ready", text, detail, last - first);
    }
    if let Some(max) = stats.max_depth.filter(|max| stats.unfinished() >= u64::from(*max)) {
        let detail = format!("It has the maximum of {}.", counted(max.into(), "unfinished job"));
        warn("waiting", "full: it accepts no more jobs".to_owned(), detail, stats.unfinished());
    }
}

fn lost_lease(worker: &WorkerRow) -> Problem {
    Problem {
        is_grave: true,
        sign: "claimed",
        queue: worker.queue.clone(),
        text: format!("the lease of worker {} has expired", worker.name),
        error: None,
        detail: format!("It holds {}. Another worker takes them over.", counted(worker.held, "job")),
        act: ("See workers".to_owned(), "workers".to_owned()),
        touched: worker.held,
    }
}
