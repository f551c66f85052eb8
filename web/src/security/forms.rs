//! Forms that change something; no other site can send them.

use std::time::Duration;

use axum::body::Body;
use axum::extract::multipart::{Multipart, MultipartError};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

use super::visitor::Visitor;
use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::hex;

/// The largest form: some thousand ticked jobs, or a payload of 65,536 characters, each up to nine bytes as a browser
/// encodes them.
const MAX_BYTES: usize = 640 * 1024;

/// The largest form of a visitor who may not act, such as one who logs in.
const SMALL: usize = 8 * 1024;

/// How forms with files are sent.
const IN_PARTS: &str = "multipart/form-data";

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
        let is_in_parts = text(&parts.headers, header::CONTENT_TYPE).is_some_and(|form| form.starts_with(IN_PARTS));
        let fields = match is_in_parts {
            true => in_parts(Request::from_parts(parts, Body::from(body))).await?,
            false if body.iter().filter(|byte| **byte == b'&').count() >= MAX_FIELDS => return Err(too_many()),
            false => Fields::read(&body),
        };
        let token = fields.get("csrf").unwrap_or_default();
        if !bool::from(token.as_bytes().ct_eq(visitor.csrf.as_bytes())) {
            return Err(Failure::Forged);
        }
        Ok(Form { visitor, fields })
    }
}

/// Reads a form with a file. The file's bytes become hexadecimal digits, as the second step of a form sends them on.
async fn in_parts(request: Request) -> Result<Fields, Failure> {
    let wrong = |error: MultipartError| Failure::bad("the form", "incomplete", &error.body_text());
    let no_parts = |_| Failure::bad("the form", "without a boundary", "it must be sent by a browser's form");
    let mut parts = Multipart::from_request(request, &()).await.map_err(no_parts)?;
    let mut fields = Vec::new();
    while let Some(part) = parts.next_field().await.map_err(wrong)? {
        if fields.len() >= MAX_FIELDS {
            return Err(too_many());
        }
        let name = part.name().unwrap_or_default().to_owned();
        let file_name = part.file_name().map(str::to_owned);
        let bytes = part.bytes().await.map_err(wrong)?;
        let value = match file_name.as_deref() {
            Some("") => String::new(), // none was chosen
            Some(_) => hex::digits(&bytes),
            None => String::from_utf8_lossy(&bytes).into_owned(),
        };
        fields.push((name, value));
    }
    Ok(fields.into_iter().collect())
}

fn too_many() -> Failure {
    Failure::bad("the form", "too many fields", "it must have at most 20,000")
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether the browser reports another site's request. (Other browsers rely on the token.)
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let site = text(headers, header::HeaderName::from_static("sec-fetch-site"));
    site.is_some_and(|site| !["same-origin", "none"].contains(&site))
}
