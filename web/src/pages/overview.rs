//! All queues: depth, rates, bottlenecks, the last hours.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use readpast::admin::JobState;

use crate::app::App;
use crate::failure::Failure;
use crate::frame::Frame;
use crate::job_search::JobSearch;
use crate::links::link;
use crate::readings::{Line, Part, Reading};
use crate::render::html;
use crate::security::visitor::Visitor;
use crate::texts::{age, number, rate_or_dash};

#[derive(Template)]
#[template(path = "overview.html")]
struct Page {
    frame: Frame,
    live: Arc<str>,
}

/// The live part.
#[derive(Template)]
#[template(path = "overview_live.html")]
struct Live<'a> {
    error: Option<String>,
    queues: Vec<QueueView<'a>>,
}

struct QueueView<'a> {
    name: &'a str,
    link: String,
    paused: bool,
    attention: Vec<String>,
    /// State, count, link.
    depth: Vec<(JobState, String, String)>,
    oldest: Option<String>,
    in_per_s: String,
    done_per_s: String,
    failed_per_s: String,
    workers: String,
    limits: String,
    spark: Option<&'a str>,
}

/// The live part as HTML.
pub fn live(reading: &Reading) -> Option<Arc<str>> {
    reading.html(Part::Overview, Live::new)
}

impl<'a> Live<'a> {
    fn new(reading: &'a Reading) -> Live<'a> {
        let queues = reading.queues.iter().map(QueueView::new).collect();
        Live { error: reading.trouble(), queues }
    }
}

impl<'a> QueueView<'a> {
    fn new(line: &'a Line) -> QueueView<'a> {
        let (activity, stats) = (&line.activity, &line.activity.stats);
        let states = [JobState::Ready, JobState::Scheduled, JobState::Waiting, JobState::Claimed, JobState::Dead];
        let link_to = |state| JobSearch::of(&stats.queue, state).link("jobs", &[]);
        let limits: Vec<String> = activity.limits.iter().map(|(word, workers)| format!("{workers} {word}")).collect();
        QueueView {
            name: &stats.queue,
            link: link("queue", [("queue", stats.queue.as_str())]),
            paused: stats.paused,
            attention: line.lately.words(stats),
            depth: states.map(|state| (state, line.counts.text(stats, state), link_to(state))).into(),
            oldest: stats.oldest_ready.map(age),
            in_per_s: rate_or_dash(line.in_per_s),
            done_per_s: rate_or_dash(activity.done_per_s),
            failed_per_s: rate_or_dash(activity.failed_per_s),
            workers: number(stats.workers),
            limits: limits.join(", "),
            spark: line.spark.as_deref(),
        }
    }
}

pub async fn show(State(app): State<App>, visitor: Visitor) -> Result<Response, Failure> {
    let reading = app.readings.now().await;
    let frame = Frame::new(&app, visitor, "overview", "Queues").await;
    Ok(html(&Page { frame, live: live(&reading).ok_or(Failure::Internal)? }))
}
