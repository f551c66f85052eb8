//! Batches and their progress.

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use readpast::{BatchId, BatchRow};

use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::links::link;
use crate::render::html;
use crate::security::visitor::Visitor;
use crate::texts::number;
use crate::time::Time;

/// Batches per page.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "batches.html")]
struct Page {
    frame: Frame,
    queue: Option<String>,
    /// Includes completed batches.
    all: bool,
    batches: Vec<BatchView>,
    next: Option<String>,
}

struct BatchView {
    id: String,
    name: String,
    queue: String,
    created_at: Time,
    ended_at: Option<Time>,
    is_sealed: bool,
    /// The number of finished jobs.
    ended: String,
    /// The done jobs and the finished jobs, in percent.
    percent_done: u64,
    percent_ended: u64,
    jobs: String,
    done: String,
    dead: String,
    cancelled: String,
    follow_up: Option<(String, String)>,
}

impl BatchView {
    fn new(batch: BatchRow) -> BatchView {
        let ended = batch.jobs - batch.unfinished();
        let percent = |jobs: u64| (jobs * 100).checked_div(batch.jobs).unwrap_or_default();
        let id = batch.follow_up_id.map(|id| id.to_string());
        BatchView {
            id: batch.batch_id.to_string(),
            ended: number(ended),
            percent_done: percent(batch.done),
            percent_ended: percent(ended),
            jobs: number(batch.jobs),
            done: number(batch.done),
            dead: number(batch.dead),
            cancelled: number(batch.cancelled),
            follow_up: id.map(|id| (link("job", [("queue", batch.queue.as_str()), ("id", &id)]), id)),
            name: batch.name.unwrap_or_default(),
            queue: batch.queue,
            created_at: Time(batch.created_at),
            ended_at: batch.ended_at.map(Time),
            is_sealed: batch.sealed_at.is_some(),
        }
    }
}

pub async fn show(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let fields = Fields::of(&uri);
    let all = fields.get("all").is_some();
    let (mut batches, mut next) = (Vec::new(), None);
    if let Some(batch) = fields.parsed("batch")?.map(BatchId) {
        batches.extend(app.schema().batch(batch).await?);
    } else {
        let before: Option<BatchId> = fields.parsed("before")?.map(BatchId);
        let reading = app.all_queues().await?;
        let queues = reading.queues.iter().map(|line| line.activity.stats.queue.as_str());
        for name in queues.filter(|name| fields.get("queue").is_none_or(|queue| queue == *name)) {
            batches.extend(app.queue(name).await?.admin().batches(!all, before, PAGE).await?);
        }
        // The newest batches of all queues together.
        batches.sort_by_key(|batch| std::cmp::Reverse(batch.batch_id.0));
        if batches.len() >= PAGE {
            batches.truncate(PAGE);
            let last = batches.last().map(|batch| batch.batch_id.to_string()).unwrap_or_default();
            let mut more = vec![("before", last.as_str())];
            more.extend(fields.get("queue").map(|queue| ("queue", queue)));
            more.extend(all.then_some(("all", "1")));
            next = Some(link("batches", more));
        }
    }
    let frame = Frame::new(&app, visitor, "batches", "Batches").await;
    let batches = batches.into_iter().map(BatchView::new).collect();
    Ok(html(&Page { frame, queue: fields.get("queue").map(str::to_owned), all, batches, next }))
}
