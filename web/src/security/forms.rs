//! Forms that change something; no other site can send them.

use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

use super::visitor::Visitor;
use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;

/// The largest form: some thousand ticked jobs, or a payload of 65,536 characters, each up to nine bytes as a browser
/// encodes them.
const MAX_BYTES: usize = 640 * 1024;

/// The largest form of a visitor who may not act, such as one who logs in.
const SMALL: usize = 8 * 1024;

/// The most fields: each takes memory of its own.
const MAX_FIELDS: usize = 20_000;

/// Time limit for receiving a form: 65 kB/s.
const LONGEST: Duration = Duration::from_secs(10);

/// The fields of a form that was made for this visitor.
pub struct Form {
    pub visitor: Visitor,
    pub fields: Fields,
}

impl FromRequest<App> for Form {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Form, Failure> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, app).await?;
        if is_from_elsewhere(&parts.headers) {
            return Err(Failure::Forged);
        }
        let is_known = visitor.has_logged_in || !app.options.access.asks();
        let (most, allowed) = match is_known && visitor.may_act {
            true => (MAX_BYTES, "it must be at most 640 KiB"),
            false => (SMALL, "it must be at most 8 KiB"),
        };
        let body = tokio::time::timeout(LONGEST, axum::body::to_bytes(body, most)).await;
        let body = body.map_err(|_| Failure::Slow)?;
        let body = body.map_err(|_| Failure::bad("the form", "too large", allowed))?;
        if body.iter().filter(|byte| **byte == b'&').count() >= MAX_FIELDS {
            return Err(Failure::bad("the form", "too many fields", "it must have at most 20,000"));
        }
        let fields = Fields::read(&body);
        let token = fields.get("csrf").unwrap_or_default();
        if !bool::from(token.as_bytes().ct_eq(visitor.csrf.as_bytes())) {
            return Err(Failure::Forged);
        }
        Ok(Form { visitor, fields })
    }
}

/// Whether the browser reports another site's request. (Other browsers rely on the token.)
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let site = text(header::HeaderName::from_static("sec-fetch-site"));
    site.is_some_and(|site| !["same-origin", "none"].contains(&site))
}
