//! Relative links between pages.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use readpast::admin::WorkerRow;

/// A link with fields.
pub fn link<'a>(page: &str, fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    format!("{page}?{query}")
}

/// The page of a worker.
pub fn worker_link(worker: &WorkerRow) -> String {
    link("worker", [("queue", worker.queue.as_str()), ("id", &worker.worker_id.to_string())])
}

/// Redirects the browser to that page.
pub fn see_other(page: &str) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, page.to_owned())]).into_response()
}
