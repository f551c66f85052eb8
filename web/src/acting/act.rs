//! Carries out the action of a form, immediately or as an operation.

use axum::extract::State;
use axum::response::Response;
use readpast::admin::JobChange;
use readpast::crates::serde_json::json;
use readpast::{BatchId, Enqueued, Queue};

use super::job_action::{JobAction, WHY, ids};
use super::noted::{Noted, note};
use super::operation;
use super::worker_action;
use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::job_search::JobSearch;
use crate::links::{link, see_other};
use crate::security::forms::Form;
use crate::security::visitor::Visitor;
use crate::texts::counted;

/// The longest reason that the audit gets, in characters. The form lets nobody type more.
const MAX_WHY: usize = 200;

/// Carries out the action and redirects to the page that shows the result.
pub async fn act(State(app): State<App>, form: Form) -> Result<Response, Failure> {
    to_its_end(app, form, carry_out).await
}

/// Carries out an action in its own task, so a browser that disconnects does not cut it off before the audit has its
/// outcome.
pub async fn to_its_end<F>(app: App, form: Form, action: impl FnOnce(App, Form) -> F) -> Result<Response, Failure>
where
    F: Future<Output = Result<Response, Failure>> + Send + 'static,
{
    let under_way = app.operations.under_way();
    let action = action(app, form);
    let done = tokio::spawn(async move {
        let done = action.await;
        drop(under_way);
        done
    });
    done.await.map_err(|_| Failure::Internal)?
}

async fn carry_out(app: App, form: Form) -> Result<Response, Failure> {
    let Form { visitor, fields } = form;
    app.must_let_act(&visitor).await?;
    let _turn = app.connections.of_page().await?;
    let action = fields.required("action")?;
    let queue = app.queue(fields.required("queue")?).await?;
    match action {
        "pause" | "resume" => queue_action(&app, &visitor, &queue, action, fields.get("why")).await,
        "pause_schedule" | "resume_schedule" | "run_schedule" | "delete_schedule" => {
            schedule_action(&app, &visitor, &queue, action, &fields).await
        }
        "cancel_batch" => cancel_batch(&app, &visitor, &queue, &fields).await,
        action if worker_action::ACTIONS.contains(&action) => {
            worker_action::act(&app, &visitor, &queue, action, &fields).await
        }
        _ => jobs_action(&app, &visitor, &queue, &fields).await,
    }
}

async fn queue_action(
    app: &App,
    visitor: &Visitor,
    queue: &Queue,
    action: &str,
    why: Option<&str>,
) -> Result<Response, Failure> {
    let note = match why.filter(|why| !why.is_empty()).map(|why| why.chars().take(MAX_WHY).collect::<String>()) {
        Some(why) => note(visitor, action).what(json!({ "why": why })),
        None => note(visitor, action),
    };
    let noted = Noted::begin(app, visitor, queue, note).await?;
    let done = match action {
        "pause" => noted.admin().pause().await,
        _ => noted.admin().resume().await,
    };
    noted.end(done, |()| None).await?;
    app.sessions.say(&visitor.session, format!("Queue {} is {}d.", queue.name(), action));
    Ok(see_other(&link("queue", [("queue", queue.name())])))
}

async fn schedule_action(
    app: &App,
    visitor: &Visitor,
    queue: &Queue,
    action: &str,
    fields: &Fields,
) -> Result<Response, Failure> {
    let name = fields.required("schedule")?;
    let note = note(visitor, action).what(json!({ "schedule": name }));
    let noted = Noted::begin(app, visitor, queue, note).await?;
    let doing = async {
        Ok(match action {
            "pause_schedule" => noted.admin().pause_schedule(name).await.map(|()| "is paused".to_owned())?,
            "resume_schedule" => noted.admin().resume_schedule(name).await.map(|()| "is resumed".to_owned())?,
            "run_schedule" => match noted.admin().run_schedule_now(name).await? {
                Enqueued { job_id, duplicate: false, .. } => format!("enqueued job {job_id}"),
                Enqueued { job_id, .. } => format!("enqueued nothing: job {job_id} uses its key"),
            },
            _ if noted.admin().delete_schedule(name).await? => "is deleted".to_owned(),
            _ => "no longer exists".to_owned(),
        })
    };
    let done = doing.await;
    let said = noted.end(done, |_| None).await?;
    app.sessions.say(&visitor.session, format!("Schedule {name} {said}."));
    Ok(see_other("schedules"))
}

async fn cancel_batch(app: &App, visitor: &Visitor, queue: &Queue, fields: &Fields) -> Result<Response, Failure> {
    let batch = BatchId(fields.number("batch")?);
    let note = note(visitor, "cancel_batch").what(json!({ "batch": batch, "why": WHY }));
    let noted = Noted::begin(app, visitor, queue, note).await?;
    let cancelled = noted.admin().cancel_batch(batch, WHY).await;
    let cancelled = noted.end(cancelled, |cancelled| Some(cancelled.total())).await?;
    let (waiting, running) = (counted(cancelled.changed, "job"), counted(cancelled.requested, "running job"));
    let said = format!("Cancelled {waiting} of batch {batch}; told the workers of {running}.");
    app.sessions.say(&visitor.session, said);
    Ok(see_other(&link("batches", [("batch", batch.to_string().as_str())])))
}

/// Changes one job immediately, or several jobs as an operation.
async fn jobs_action(app: &App, visitor: &Visitor, queue: &Queue, fields: &Fields) -> Result<Response, Failure> {
    let action = JobAction::read(fields)?;
    let ids = ids(fields)?;
    let [id] = ids[..] else {
        let search = JobSearch::read(fields)?;
        let id = operation::begin(app, visitor, queue, action, &search, ids).await?;
        return Ok(see_other(&link("operation", [("id", id.to_string().as_str())])));
    };
    let changed = operation::one(app, visitor, queue, &action, id).await?;
    let past = action.past;
    let said = match changed {
        true => format!("Job {id} is {past}."),
        false => format!("Job {id} is not {past}: its state has changed, it is locked, or another job uses its key."),
    };
    app.sessions.say(&visitor.session, said);
    let id = id.to_string();
    let to_list = changed && action.change == JobChange::Purge;
    Ok(see_other(&match to_list {
        true => JobSearch::read(fields)?.link("jobs", &[]),
        false => link("job", [("queue", queue.name()), ("id", &id)]),
    }))
}
