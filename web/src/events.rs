//! Sends the live parts of pages as server-sent events: HTML once a second.
//!
//! The script puts the HTML into the element that names this address. All browsers share one reading of SQL Server and
//! the HTML made of it. Only counts and the progress of an operation are rendered for each page.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, Uri, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use readpast::{Fence, JobId};
use tokio::sync::watch;

use crate::acting::count::Count;
use crate::acting::operation_page;
use crate::acting::operations::Progress;
use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::pages;
use crate::readings::Reading;
use crate::render;
use crate::running_jobs;
use crate::security::visitor::Visitor;

/// How often a count is updated.
const COUNTING: Duration = Duration::from_millis(250);

/// A running job that reports nothing sends an empty event after this time: the visitor may have logged out.
const SILENCE: Duration = Duration::from_secs(5);

/// The source of the HTML that is sent.
enum Source {
    Readings { readings: watch::Receiver<Option<Arc<Reading>>>, part: fn(&Reading) -> Option<Arc<str>> },
    Job { html: watch::Receiver<Option<Arc<str>>> },
    Operation { progress: watch::Receiver<Progress> },
    Count(Box<Count>),
}

pub async fn stream(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let fields = Fields::of(&uri);
    // First, because a source may cost SQL Server something.
    let one = if visitor.has_logged_in { &visitor.session } else { &visitor.name };
    let place = app.connections.stream((visitor.has_logged_in || visitor.is_named).then_some(one))?;
    let source = match fields.required("part")? {
        "overview" => Source::Readings { readings: app.readings.listen(), part: pages::overview::live },
        "workers" => Source::Readings { readings: app.readings.listen(), part: pages::workers::live },
        // A log may contain the payload, because programs may print what they read.
        "job" if app.options.hide_payloads => return Err(Failure::Hidden),
        "job" => {
            let queue = app.queue(fields.required("queue")?).await?;
            let (job, fence) = (JobId(fields.number("id")?), Fence(fields.number("fence")?));
            Source::Job { html: running_jobs::listen(&app, queue, job, fence) }
        }
        "operation" => {
            let mut progress = app.operations.get(&fields)?.progress();
            // The operation may have ended since the page was made, and would then never change.
            progress.mark_changed();
            Source::Operation { progress }
        }
        "count" => Source::Count(Box::new(Count::of(&app, &fields).await?)),
        part => return Err(Failure::bad("part", part, "it must be overview, workers, job, operation or count")),
    };
    let ended = app.readings.ended();
    let events = stream::unfold((source, ended, place), move |(mut source, mut ended, place)| {
        let (app, visitor) = (app.clone(), visitor.clone());
        async move {
            let event = tokio::select! {
                event = source.next(&app) => event?,
                _ = ended.wait_for(|ended| *ended) => return None,
            };
            // Watching counts as using the session, so a wall display stays logged in. (A background tab does not
            // listen.)
            let session = app.sessions.get(&visitor.session);
            if visitor.has_logged_in && session.is_none() {
                return None; // logged out meanwhile
            }
            Some((Ok::<_, Infallible>(event), (source, ended, place)))
        }
    });
    let mut response = Sse::new(events).keep_alive(KeepAlive::default()).into_response();
    // The default, `no-cache`, would allow browsers to store the response.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

impl Source {
    /// The next part; `None` at the end.
    async fn next(&mut self, app: &App) -> Option<Event> {
        let html: Arc<str> = match self {
            Source::Readings { readings, part } => {
                readings.changed().await.ok()?;
                let reading = readings.borrow_and_update().clone()?;
                part(&reading)?
            }
            Source::Job { html } => {
                let Ok(changed) = tokio::time::timeout(SILENCE, html.changed()).await else {
                    return Some(Event::default().comment(""));
                };
                changed.ok()?;
                html.borrow_and_update().clone()?
            }
            Source::Operation { progress } => {
                progress.changed().await.ok()?;
                render::part(&operation_page::Live::new(&progress.borrow_and_update()))?
            }
            Source::Count(count) => {
                if !count.goes_on() {
                    return None;
                }
                let _turn = app.connections.of_page().await.ok()?;
                let counted = count.go_on(COUNTING).await;
                counted.inspect_err(|error| tracing::debug!(%error, "jobs could not be counted")).ok()?;
                render::part(&count.live())?
            }
        };
        Some(Event::default().data(html))
    }
}
