//! The pages: request ─▶ the library ─▶ a template.

pub mod audit;
pub mod batches;
pub mod find;
pub mod job;
pub mod jobs;
pub mod overview;
pub mod queue;
pub mod schedules;
pub mod worker;
pub mod workers;

use axum::extract::OriginalUri;
use axum::http::Uri;
use axum::response::Response;

use crate::links::see_other;
use crate::root;

pub async fn to_overview(uri: Uri, OriginalUri(original): OriginalUri) -> Response {
    see_other(&format!("{}overview", root::to_pages(&uri, &original)))
}
