//! The page of an operation: its progress and its stop button.

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;

use super::noted::name;
use super::operations::{End, Progress};
use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::links::{link, see_other};
use crate::render::html;
use crate::security::forms::Form;
use crate::security::visitor::Visitor;
use crate::texts::number;

#[derive(Template)]
#[template(path = "operation.html")]
struct Page<'a> {
    frame: Frame,
    id: u64,
    queue: &'a str,
    live: Live<'a>,
}

/// The live part.
#[derive(Template)]
#[template(path = "operation_live.html")]
pub struct Live<'a> {
    past: &'static str,
    words: &'a str,
    looked_at: String,
    changed: String,
    goes_on: bool,
    is_stopped: bool,
    stopped_by: Option<&'a str>,
    error: Option<&'a str>,
}

impl<'a> Live<'a> {
    pub fn new(progress: &'a Progress) -> Live<'a> {
        Live {
            past: progress.past,
            words: &progress.words,
            looked_at: number(progress.looked_at),
            changed: number(progress.changed),
            goes_on: progress.end.is_none(),
            is_stopped: matches!(progress.end, Some(End::Stopped(_) | End::PageEnded)),
            stopped_by: match &progress.end {
                Some(End::Stopped(who)) => Some(who),
                _ => None,
            },
            error: match &progress.end {
                Some(End::Failed(error)) => Some(error),
                _ => None,
            },
        }
    }
}

pub async fn show(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let operation = app.operations.get(&Fields::of(&uri))?;
    let frame = Frame::new(&app, visitor, "jobs", "Under way").await;
    let progress = operation.progress().borrow().clone();
    Ok(html(&Page { frame, id: operation.id, queue: &operation.queue, live: Live::new(&progress) }))
}

pub async fn stop(State(app): State<App>, form: Form) -> Result<Response, Failure> {
    app.must_let_act(&form.visitor).await?;
    let operation = app.operations.get(&form.fields)?;
    operation.stop(&name(&form.visitor));
    tracing::info!(who = form.visitor.name, operation = operation.id, "operation stopped");
    Ok(see_other(&link("operation", [("id", operation.id.to_string().as_str())])))
}
