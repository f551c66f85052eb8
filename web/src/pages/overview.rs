//! All queues: what needs attention, then depth, rates, bottlenecks and the last hours of each, then the last hour of
//! all together.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use readpast::admin::{JobState, WorkerRow};

use crate::app::App;
use crate::chart::{self, HEIGHT, Series, Span, Spark, Step};
use crate::failure::Failure;
use crate::frame::Frame;
use crate::hex;
use crate::job_search::JobSearch;
use crate::last_hour::BusyKind;
use crate::links::link;
use crate::problem::{Problem, TOO_OLD};
use crate::readings::{Line, Part, Reading};
use crate::render::html;
use crate::security::visitor::Visitor;
use crate::texts::{counted, number, rate, rate_or_dash};
use crate::time::{Time, length, rounded};

/// The problems that are shown.
const SHOWN: usize = 6;

#[derive(Template)]
#[template(path = "overview.html")]
struct Page {
    frame: Frame,
    live: Arc<str>,
    last_hour: Arc<str>,
}

/// The part that changes once a minute.
#[derive(Template)]
#[template(path = "overview_last_hour.html")]
struct LastHour<'a> {
    charts: Option<Charts>,
    kinds: Vec<KindView>,
    is_partial: bool,
    /// The small charts, which the live part refers to. They would be most of what is sent each second.
    sparks: Vec<(String, &'a Spark)>,
}

struct Charts {
    flow: String,
    depth: String,
}

struct KindView {
    label: String,
    link: String,
    queue: String,
    since: Time,
    done: String,
    failed: String,
    died: String,
    run: String,
}

/// The live part.
#[derive(Template)]
#[template(path = "overview_live.html")]
struct Live<'a> {
    error: Option<String>,
    title: String,
    /// The schema's workers and rates, in words.
    sum: String,
    problems: &'a [Problem],
    count: usize,
    /// Why the calm state is calm.
    calm: String,
    /// What is good to know, and needs nobody now.
    known: Vec<(String, String)>,
    queues: Vec<QueueView<'a>>,
}

struct QueueView<'a> {
    name: &'a str,
    link: String,
    paused: bool,
    /// Name, count and link.
    ready: Depth,
    oldest: Option<String>,
    scheduled: Depth,
    waiting: Depth,
    claimed: Depth,
    /// The width of the busy part of the threads, in percent.
    busy: u64,
    running: String,
    /// Jobs are ready, and nobody claims them.
    is_unclaimed: bool,
    /// The oldest ready job has waited too long.
    is_late: bool,
    in_per_s: String,
    done_per_s: String,
    failed_per_s: String,
    dead: Depth,
    more_dead: Option<String>,
    /// The id of the small chart, and what it shows.
    spark: Option<(String, &'a str)>,
}

/// How many jobs are in a state, and where they are listed.
struct Depth {
    label: &'static str,
    count: String,
    link: String,
}

/// The live part as HTML.
pub fn live(reading: &Reading) -> Option<Arc<str>> {
    reading.html(Part::Overview, Live::new)
}

/// The id of the small chart of a queue.
fn spark_id(queue: &str) -> String {
    format!("spark-{}", hex::digits(queue.as_bytes()))
}

impl<'a> LastHour<'a> {
    fn new(reading: &'a Reading) -> LastHour<'a> {
        let last_hour = &reading.last_hour;
        let spark = |line: &'a Line| Some((spark_id(&line.activity.stats.queue), line.recent.spark.as_deref()?));
        LastHour {
            charts: Charts::new(&last_hour.steps),
            kinds: last_hour.kinds.iter().map(KindView::new).collect(),
            is_partial: last_hour.is_partial,
            sparks: reading.queues.iter().filter_map(spark).collect(),
        }
    }
}

impl Charts {
    fn new(steps: &[Step]) -> Option<Charts> {
        if steps.is_empty() {
            return None;
        }
        let count = |value: f64| number(value.round() as u64);
        let flow = [
            Series { class: "ok", name: "out", value: |sum| Some((sum.done + sum.died) as f64) },
            Series { class: "ready", name: "in", value: |sum| sum.enqueued.map(|jobs| jobs as f64) },
        ];
        Some(Charts {
            flow: chart::lines(steps, Span::Hour, &flow, count),
            depth: chart::lines(steps, Span::Hour, &chart::depth(), count),
        })
    }
}

impl KindView {
    fn new(kind: &BusyKind) -> KindView {
        let row = &kind.row;
        let search = JobSearch { kind: row.kind.clone(), ..JobSearch::of(&kind.queue, JobState::Ready) };
        KindView {
            label: row.label().to_owned(),
            link: search.link("jobs", &[]),
            queue: kind.queue.clone(),
            since: Time(row.since),
            done: number(row.done),
            failed: number(row.failed),
            died: number(row.died),
            run: row.run_mean.map_or_else(|| "–".to_owned(), length),
        }
    }
}

/// `3 problems`, or the name of the page.
fn title(count: usize) -> String {
    if count == 0 { "Overview".to_owned() } else { counted(count as u64, "problem") }
}

/// How many threads of live workers are busy, and how many there are.
fn threads<'a>(workers: impl Iterator<Item = &'a WorkerRow>) -> (u64, u64) {
    let in_use = workers.filter(|worker| worker.is_live()).flat_map(WorkerRow::resources_in_use);
    let threads = in_use.filter(|one| one.name == "threads");
    threads.fold((0, 0), |(used, has), one| (used + one.used, has + one.has))
}

impl<'a> Live<'a> {
    fn new(reading: &'a Reading) -> Live<'a> {
        let rank = |line: &Line| {
            let of_queue = |problem: &Problem| problem.queue == line.activity.stats.queue;
            reading.problems.iter().position(of_queue).unwrap_or(usize::MAX)
        };
        let mut lines: Vec<&Line> = reading.queues.iter().collect();
        lines.sort_by_key(|line| rank(line));
        let oldest = reading.queues.iter().filter_map(|line| line.activity.stats.oldest_ready).max();
        Live {
            error: reading.trouble(),
            title: title(reading.problems.len()),
            sum: sum(reading),
            problems: &reading.problems[..reading.problems.len().min(SHOWN)],
            count: reading.problems.len(),
            calm: match oldest {
                Some(oldest) => format!("The oldest ready job has waited {}.", length(oldest)),
                None => "No job is waiting to be claimed.".to_owned(),
            },
            known: known(reading),
            queues: lines.into_iter().map(|line| QueueView::new(line, &reading.workers)).collect(),
        }
    }
}

fn sum(reading: &Reading) -> String {
    let (used, has) = threads(reading.workers.iter());
    let live = reading.workers.iter().filter(|worker| worker.is_live()).count();
    let rates = reading.queues.iter().filter_map(|line| line.activity.done_per_s);
    let done = rates.fold(0.0, |sum, rate| sum + rate); // the sum of no numbers would be -0
    let mut words = vec![
        counted(reading.queues.len() as u64, "queue"),
        counted(live as u64, "worker"),
        format!("{} jobs done per second", rate(done)),
    ];
    if has > 0 {
        words.insert(2, format!("{} of {} threads busy", number(used), number(has)));
    }
    words.join(" · ")
}

/// The queues with dead jobs that wait for a decision: the alert ReadpastDeadJobs.
fn known(reading: &Reading) -> Vec<(String, String)> {
    let dead = reading.queues.iter().filter(|line| {
        let stats = &line.activity.stats;
        stats.dead > 0 && line.recent.lately.more_dead(stats) == 0
    });
    let words = |line: &Line| {
        let stats = &line.activity.stats;
        let count = line.counts.text(stats, JobState::Dead);
        (format!("{count} of {}", stats.queue), JobSearch::of(&stats.queue, JobState::Dead).link("jobs", &[]))
    };
    dead.map(words).collect()
}

impl<'a> QueueView<'a> {
    fn new(line: &'a Line, workers: &[WorkerRow]) -> QueueView<'a> {
        let (activity, stats) = (&line.activity, &line.activity.stats);
        let state = |label, state| Depth {
            label,
            count: line.counts.text(stats, state),
            link: JobSearch::of(&stats.queue, state).link("jobs", &[]),
        };
        let (used, has) = threads(workers.iter().filter(|worker| worker.queue == stats.queue));
        let mut running = match (stats.workers, has) {
            (0, _) => "no worker".to_owned(),
            (workers, 0) => counted(workers, "worker"),
            _ => format!("{} of {}", number(used), number(has)),
        };
        // The bar says whether the threads are busy.
        if let Some((limit, _)) = activity.limits.first().filter(|(limit, _)| !["busy", "idle"].contains(&&**limit)) {
            running.push_str(" · ");
            running.push_str(&limit.replace('_', " "));
        }
        let more_dead = line.recent.lately.more_dead(stats);
        QueueView {
            name: &stats.queue,
            link: link("queue", [("queue", stats.queue.as_str())]),
            paused: stats.paused,
            ready: state("Ready", JobState::Ready),
            oldest: stats.oldest_ready.map(rounded),
            scheduled: state("Scheduled", JobState::Scheduled),
            waiting: state("Waiting", JobState::Waiting),
            claimed: state("Claimed", JobState::Claimed),
            busy: (used * 100).checked_div(has).unwrap_or_default().min(100),
            running,
            is_unclaimed: stats.workers == 0 && stats.ready > 0 && !stats.paused,
            is_late: !stats.paused && stats.oldest_ready.is_some_and(|oldest| oldest >= TOO_OLD),
            in_per_s: rate_or_dash(line.in_per_s),
            done_per_s: rate_or_dash(activity.done_per_s),
            failed_per_s: rate_or_dash(activity.failed_per_s),
            dead: state("Dead", JobState::Dead),
            more_dead: (more_dead > 0).then(|| format!("+{} in 15 min", number(more_dead))),
            spark: line.recent.spark.as_deref().map(|spark| (spark_id(&stats.queue), spark.words.as_str())),
        }
    }
}

pub async fn show(State(app): State<App>, visitor: Visitor) -> Result<Response, Failure> {
    let reading = app.readings.now().await;
    let frame = Frame::new(&app, visitor, "overview", title(reading.problems.len())).await;
    let last_hour = reading.html(Part::LastHour, LastHour::new).ok_or(Failure::Internal)?;
    Ok(html(&Page { frame, live: live(&reading).ok_or(Failure::Internal)?, last_hour }))
}
