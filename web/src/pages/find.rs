//! The search field of the header: finds one job, or lists jobs.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use readpast::JobId;
use readpast::admin::JobState;
use readpast::crates::uuid::Uuid;

use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::job_search::JobSearch;
use crate::links::{link, see_other};
use crate::security::visitor::Visitor;

/// Digits are a job id of any queue. Other text is searched in the queue of the page or, without one, in the first
/// queue with a match: as a correlation id in all jobs, or as part of the errors of dead jobs.
pub async fn find(State(app): State<App>, _: Visitor, uri: Uri) -> Result<Response, Failure> {
    let fields = Fields::of(&uri);
    let text = fields.required("text")?.trim();
    if let Ok(id) = text.parse() {
        let queue = app.schema().admin().queue_of(JobId(id)).await?;
        let queue = queue.ok_or_else(|| {
            Failure::NotFound(format!("There is no job {id}: it is done and deleted, or never existed."))
        })?;
        return Ok(see_other(&link("job", [("queue", queue.as_str()), ("id", text)])));
    }
    let search = |queue: &str| match Uuid::parse_str(text) {
        Ok(id) => JobSearch { correlation_id: Some(id), ..JobSearch::all(queue) },
        Err(_) => JobSearch { error: Some(text.to_owned()), ..JobSearch::of(queue, JobState::Dead) },
    };
    if let Some(queue) = fields.get("queue") {
        return Ok(see_other(&search(queue).link("jobs", &[])));
    }
    let reading = app.all_queues().await?;
    for line in &reading.queues {
        let name = &line.activity.stats.queue;
        let search = search(name);
        let page = app.queue(name).await?.admin().list_ids(&search.filter(), None, 1).await?;
        if !page.jobs.is_empty() {
            return Ok(see_other(&search.link("jobs", &[])));
        }
    }
    Err(Failure::NotFound(match Uuid::parse_str(text) {
        Ok(id) => format!("No job has the correlation id {id}."),
        Err(_) => "No dead job has an error with this text.".to_owned(),
    }))
}
