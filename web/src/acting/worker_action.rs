//! What visitors ask of one worker.

use std::time::Duration;

use axum::response::Response;
use readpast::Queue;
use readpast::admin::{Wish, WorkerId, WorkerRow, WorkerWish};
use readpast::crates::serde_json::json;

use super::noted::{Noted, note};
use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::links::{see_other, worker_link};
use crate::security::visitor::Visitor;

/// The actions, as the audit names them.
pub const ACTIONS: [&str; 5] = ["quiet_worker", "resume_worker", "stop_worker", "set_worker_threads", "debug_worker"];

/// How long debug messages are written.
pub const DEBUG: Duration = Duration::from_secs(600);

/// Asks the worker and redirects to its page.
pub async fn act(
    app: &App,
    visitor: &Visitor,
    queue: &Queue,
    action: &str,
    fields: &Fields,
) -> Result<Response, Failure> {
    let wish = wish(action, fields)?;
    let worker = find(queue, fields, Duration::ZERO).await?;
    let id = worker.worker_id.to_string();
    let what = json!({ "worker": worker.name, "worker_id": id, "asked": wish.to_string() });
    let noted = Noted::begin(app, visitor, queue, note(visitor, action).what(what)).await?;
    let asked = noted.admin().ask_workers(&WorkerWish::new(id.as_str(), wish)).await;
    noted.end(asked, |_| None).await?;
    let said = format!("Worker {} was asked to {wish}. Its next heartbeat delivers it.", worker.name);
    app.sessions.say(&visitor.session, said);
    Ok(see_other(&worker_link(&worker)))
}

fn wish(action: &str, fields: &Fields) -> Result<Wish, Failure> {
    Ok(match action {
        "quiet_worker" => Wish::Quiet,
        "resume_worker" => Wish::Resume,
        "stop_worker" => Wish::Stop,
        "debug_worker" if fields.get("debug") == Some("off") => Wish::Debug(Duration::ZERO),
        "debug_worker" => Wish::Debug(DEBUG),
        _ => {
            let allowed = "it must be 1 to 1024, or 0 for as many as configured";
            let threads: Option<u32> = fields.parsed("threads")?;
            let threads = threads.filter(|threads| *threads <= 1_024);
            let given = fields.get("threads").unwrap_or("missing");
            Wish::Threads(threads.ok_or_else(|| Failure::bad("threads", given, allowed))?)
        }
    })
}

/// The worker that a request names, if it has a lease or ended within the last `ended`.
pub async fn find(queue: &Queue, fields: &Fields, ended: Duration) -> Result<WorkerRow, Failure> {
    let id = WorkerId(fields.parsed("id")?.ok_or_else(|| Failure::bad("id", "missing", "it must be a worker's id"))?);
    let workers = queue.admin().workers(ended).await?;
    workers.into_iter().find(|worker| worker.worker_id == id).ok_or_else(|| {
        Failure::NotFound(format!(
            "Queue '{}' has no worker {id}: it has ended. A restarted one has a new id.",
            queue.name()
        ))
    })
}
