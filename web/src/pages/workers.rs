//! The workers: leases, jobs, bottlenecks.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use readpast::admin::{ResourceInUse, WorkerRow};

use super::worker::tags;
use crate::app::App;
use crate::failure::Failure;
use crate::frame::Frame;
use crate::job_search::JobSearch;
use crate::links::worker_link;
use crate::readings::{Part, Reading};
use crate::render::html;
use crate::security::visitor::Visitor;
use crate::texts::{counted, number, rate_or_dash};
use crate::time::{Time, length};

/// How many workers the line "Claimed longest ago" names.
const LONGEST: usize = 3;

#[derive(Template)]
#[template(path = "workers.html")]
struct Page {
    frame: Frame,
    live: Arc<str>,
}

/// The live part.
#[derive(Template)]
#[template(path = "workers_live.html")]
struct Live<'a> {
    error: Option<String>,
    /// How many work.
    sum: String,
    workers: Vec<WorkerView<'a>>,
    /// The live workers whose oldest claims are the oldest of all.
    longest: Vec<Longest<'a>>,
    /// Ended workers: they come last, and are shown on request.
    ended: usize,
}

/// The job that a worker has held longest.
struct Longest<'a> {
    claimed_at: Time,
    worker: &'a str,
    queue: &'a str,
    held_link: String,
}

struct WorkerView<'a> {
    id: String,
    link: String,
    /// What was asked of it, in a word each.
    tags: Vec<&'static str>,
    name: &'a str,
    queue: &'a str,
    registered_at: Time,
    /// How long the lease lasts, or `None` if the worker has none.
    lease_left: Option<String>,
    lost_at: Option<Time>,
    held: String,
    held_link: String,
    oldest_claimed_at: Option<Time>,
    running: String,
    done: String,
    done_per_s: String,
    failed_per_s: String,
    in_use: Vec<ResourceInUse<'a>>,
    limited_by: &'a str,
}

/// The live part as HTML.
pub fn live(reading: &Reading) -> Option<Arc<str>> {
    reading.html(Part::Workers, Live::new)
}

impl<'a> Live<'a> {
    fn new(reading: &'a Reading) -> Live<'a> {
        // Live workers first.
        let mut workers: Vec<&WorkerRow> = reading.workers.iter().collect();
        workers.sort_by_key(|worker| (worker.lost_at.is_some(), worker.is_live())); // those in trouble first
        let ended = workers.iter().filter(|worker| worker.lost_at.is_some()).count();
        let live = workers.iter().filter(|worker| worker.is_live()).count();
        let sum = counted(live as u64, "worker");
        let mut longest: Vec<Longest> = workers.iter().filter_map(|worker| Longest::new(worker)).collect();
        longest.sort_by_key(|one| one.claimed_at.0);
        longest.truncate(LONGEST);
        let workers = workers.into_iter().map(WorkerView::new).collect();
        Live { error: reading.trouble(), sum, workers, longest, ended }
    }
}

impl<'a> Longest<'a> {
    fn new(worker: &'a WorkerRow) -> Option<Longest<'a>> {
        let claimed_at = worker.oldest_claimed_at.filter(|_| worker.is_live())?;
        Some(Longest {
            claimed_at: Time(claimed_at),
            worker: &worker.name,
            queue: &worker.queue,
            held_link: JobSearch::held_by(worker).link("jobs", &[]),
        })
    }
}

impl<'a> WorkerView<'a> {
    fn new(worker: &'a WorkerRow) -> WorkerView<'a> {
        let count = |count: Option<u64>| count.map_or_else(|| "–".to_owned(), number);
        let id = worker.worker_id.to_string();
        WorkerView {
            link: worker_link(worker),
            tags: if worker.lost_at.is_none() { tags(&worker.asked) } else { Vec::new() },
            id,
            name: &worker.name,
            queue: &worker.queue,
            registered_at: Time(worker.registered_at),
            lease_left: worker.is_live().then(|| length(worker.lease_left)),
            lost_at: worker.lost_at.map(Time),
            held: number(worker.held),
            held_link: JobSearch::held_by(worker).link("jobs", &[]),
            oldest_claimed_at: worker.oldest_claimed_at.map(Time),
            running: count(worker.running.map(u64::from)),
            done: count(worker.done),
            done_per_s: rate_or_dash(worker.done_per_s),
            failed_per_s: rate_or_dash(worker.failed_per_s),
            in_use: worker.resources_in_use(),
            limited_by: worker.limited_by.as_deref().unwrap_or("–"),
        }
    }
}

pub async fn show(State(app): State<App>, visitor: Visitor) -> Result<Response, Failure> {
    let reading = app.readings.now().await;
    let frame = Frame::new(&app, visitor, "workers", "Workers").await;
    Ok(html(&Page { frame, live: live(&reading).ok_or(Failure::Internal)? }))
}
