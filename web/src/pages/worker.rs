//! A worker: its lease, its jobs, what it uses, and what operators have asked of it.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use readpast::admin::{Asked, JobRow, JobState, ResourceInUse, WorkerRow};

use crate::acting::worker_action::{self, DEBUG};
use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::job_search::JobSearch;
use crate::links::{link, worker_link};
use crate::render::html;
use crate::security::visitor::Visitor;
use crate::texts::{number, rate_or_dash};
use crate::time::{Time, length as age};

/// Ended workers have a page for as long as SQL Server keeps their rows.
const ENDED: Duration = Duration::from_secs(86_400);

/// Jobs shown of those that it holds.
const JOBS: usize = 20;

#[derive(Template)]
#[template(path = "worker.html")]
struct Page<'a> {
    frame: Frame,
    id: String,
    worker: &'a WorkerRow,
    is_live: bool,
    tags: Vec<&'static str>,
    /// What it does now, and what it was asked.
    now: &'static str,
    asked: String,
    /// A live worker of the same name: this one, restarted.
    successor: Option<String>,
    times: Vec<(&'static str, Time)>,
    facts: Vec<(&'static str, String)>,
    in_use: Vec<ResourceInUse<'a>>,
    /// The number in the form: as asked, or as configured.
    threads: u64,
    debug_min: u64,
    jobs: Vec<JobView>,
    has_more: bool,
    held: String,
    held_link: String,
}

struct JobView {
    id: String,
    link: String,
    kind: String,
    attempt: String,
    claimed_at: Option<Time>,
}

impl JobView {
    fn new(job: &JobRow, queue: &str) -> JobView {
        let id = job.job_id.to_string();
        JobView {
            link: link("job", [("queue", queue), ("id", &id)]),
            id,
            kind: job.kind.clone().unwrap_or_else(|| "–".to_owned()),
            attempt: number(job.attempt.into()),
            claimed_at: job.claimed_at.map(Time),
        }
    }
}

/// What operators have asked, in a word each.
pub fn tags(asked: &Asked) -> Vec<&'static str> {
    let mut tags = Vec::new();
    match asked {
        Asked { stop: true, .. } => tags.push("stopping"),
        Asked { quiet: true, .. } => tags.push("quiet"),
        _ => {}
    }
    if !asked.is_nothing() && !asked.is_delivered {
        tags.push("not delivered yet");
    }
    tags
}

fn now(worker: &WorkerRow) -> &'static str {
    match worker.asked {
        _ if worker.lost_at.is_some() => "It has ended.",
        _ if !worker.is_live() => {
            "Its lease has expired: it is lost, or cannot reach SQL Server. Its jobs become ready again."
        }
        Asked { stop: true, is_delivered: true, .. } => {
            "It is stopping: it ends its jobs or returns them to the queue."
        }
        Asked { stop: true, .. } => "It stops when its next heartbeat tells it to.",
        Asked { quiet: true, is_delivered: true, .. } => "It claims no more jobs, and finishes those that it has.",
        Asked { quiet: true, .. } => "It claims no more jobs when its next heartbeat tells it to.",
        _ => "It claims and runs jobs.",
    }
}

fn facts(worker: &WorkerRow) -> Vec<(&'static str, String)> {
    let count = |count: Option<u64>| count.map_or_else(|| "–".to_owned(), number);
    let lease = match worker.lost_at {
        Some(_) => "none".to_owned(),
        None if worker.is_live() => format!("{} left", age(worker.lease_left)),
        None => "expired".to_owned(),
    };
    vec![
        ("Lease", lease),
        ("Jobs held", number(worker.held)),
        ("Running", count(worker.running.map(u64::from))),
        ("Done", count(worker.done)),
        ("Failed attempts", count(worker.failed)),
        ("Done per second", rate_or_dash(worker.done_per_s)),
        ("Failed per second", rate_or_dash(worker.failed_per_s)),
        ("Limit", worker.limited_by.clone().unwrap_or_else(|| "–".to_owned())),
        ("Id", worker.worker_id.to_string()),
    ]
}

pub async fn show(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let fields = Fields::of(&uri);
    let queue = app.queue(fields.required("queue")?).await?;
    let worker = worker_action::find(&queue, &fields, ENDED).await?;
    let is_live = worker.is_live();
    let search = JobSearch { worker: Some(worker.worker_id), ..JobSearch::of(queue.name(), JobState::Claimed) };
    let held = queue.admin().list(&search.filter().cut_at(0), None, JOBS).await?;
    let successor = if is_live { None } else { successor(&queue, &worker).await? };
    let times = [
        ("Since", Some(worker.registered_at)),
        ("Last report", worker.reported_at),
        ("Oldest claimed", worker.oldest_claimed_at),
        ("Ended", worker.lost_at),
    ];
    let threads = worker.resources.as_ref().and_then(|resources| resources.get("threads"));
    Ok(html(&Page {
        frame: Frame::new(&app, visitor, "workers", format!("Worker {}", worker.name)).await,
        id: worker.worker_id.to_string(),
        is_live,
        tags: if worker.lost_at.is_none() { tags(&worker.asked) } else { Vec::new() },
        now: now(&worker),
        asked: if worker.lost_at.is_none() { worker.asked.to_string() } else { String::new() },
        successor,
        times: times.into_iter().filter_map(|(name, time)| Some((name, Time(time?)))).collect(),
        facts: facts(&worker),
        in_use: worker.resources_in_use(),
        threads: worker.asked.threads.map(u64::from).or(threads).unwrap_or(1),
        debug_min: DEBUG.as_secs() / 60,
        jobs: held.jobs.iter().map(|job| JobView::new(job, queue.name())).collect(),
        has_more: held.next.is_some(),
        held: number(worker.held),
        held_link: search.link("jobs", &[]),
        worker: &worker,
    }))
}

async fn successor(queue: &readpast::Queue, ended: &WorkerRow) -> Result<Option<String>, Failure> {
    let live = queue.admin().workers(Duration::ZERO).await?;
    let restarted = live.iter().find(|worker| worker.name == ended.name && worker.is_live());
    Ok(restarted.map(worker_link))
}
