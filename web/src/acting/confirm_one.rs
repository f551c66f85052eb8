//! The page that asks for confirmation of a dangerous action on one worker or schedule.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;

use super::two_steps::schedule;
use super::worker_action;
use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::links::worker_link;
use crate::render::html;
use crate::security::visitor::Visitor;
use crate::texts::counted;

#[derive(Template)]
#[template(path = "confirm_one.html")]
struct Page<'a> {
    frame: Frame,
    /// The question is: verb, what it is, its name.
    verb: &'static str,
    what: &'static str,
    name: &'a str,
    queue: &'a str,
    consequence: String,
    action: &'static str,
    /// The field that identifies it.
    field: (&'static str, &'a str),
    back: String,
}

pub async fn stop_worker(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let frame = Frame::to_act(&app, visitor, "workers", "Stop a worker").await?;
    let fields = Fields::of(&uri);
    let queue = app.queue(fields.required("queue")?).await?;
    let worker = worker_action::find(&queue, &fields, Duration::ZERO).await?;
    let id = worker.worker_id.to_string();
    let held = match worker.held {
        0 => "It holds no job".to_owned(),
        held => {
            format!("It holds {}: those that run may finish, the others go back to the queue", counted(held, "job"))
        }
    };
    Ok(html(&Page {
        frame,
        verb: "Stop",
        what: "worker",
        name: &worker.name,
        queue: queue.name(),
        consequence: format!(
            "{held}. It stops as after a signal, and this cannot be taken back. Whatever supervises its process may \
             start another."
        ),
        action: "stop_worker",
        field: ("id", &id),
        back: worker_link(&worker),
    }))
}

pub async fn delete_schedule(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let frame = Frame::to_act(&app, visitor, "schedules", "Delete a schedule").await?;
    let fields = Fields::of(&uri);
    let queue = app.queue(fields.required("queue")?).await?;
    let schedule = schedule::find(&queue, fields.required("schedule")?).await?;
    Ok(html(&Page {
        frame,
        verb: "Delete",
        what: "schedule",
        name: &schedule.name,
        queue: queue.name(),
        consequence: "It is gone for good and enqueues nothing more. Jobs that it has enqueued stay.".to_owned(),
        action: "delete_schedule",
        field: ("schedule", &schedule.name),
        back: "schedules".to_owned(),
    }))
}
