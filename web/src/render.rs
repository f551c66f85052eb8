//! Templates as responses.

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
