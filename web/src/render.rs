//! Templates as responses, and as parts of live pages.

use std::sync::Arc;

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};

/// The rendered page; an error response if rendering fails, which is a defect.
pub fn html(template: &impl Template) -> Response {
    match template.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            tracing::error!(%error, "cannot render a template");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// The rendered part of a page; `None` if rendering fails, which is a defect.
pub fn part(template: &impl Template) -> Option<Arc<str>> {
    let html = template.render().inspect_err(|error| tracing::error!(%error, "cannot render a template"));
    html.ok().map(Arc::from)
}
