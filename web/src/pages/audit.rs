//! The audit.

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use readpast::admin::{AuditId, AuditRow};
use readpast::crates::serde_json::Value;

use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::links::link;
use crate::render::html;
use crate::security::visitor::Visitor;
use crate::sentence::Sentence;

/// Entries per page.
const PAGE: usize = 100;

/// Characters of the details shown per entry: it may list a thousand jobs.
const SHOWN: usize = 4_000;

#[derive(Template)]
#[template(path = "audit.html")]
struct Page {
    frame: Frame,
    rows: Vec<RowView>,
    next: Option<String>,
}

struct RowView {
    sentence: Sentence,
    action: String,
    login: String,
    /// The details as JSON.
    what: String,
}

impl RowView {
    fn new(row: AuditRow) -> RowView {
        let sentence = Sentence::new(&row);
        let mut what = row.what.as_ref().map(Value::to_string).unwrap_or_default();
        if let Some((end, _)) = what.char_indices().nth(SHOWN) {
            what.truncate(end);
            what.push('…');
        }
        RowView { sentence, action: row.action, login: row.login, what }
    }
}

pub async fn show(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let before = Fields::of(&uri).parsed("before")?.map(AuditId);
    let rows = app.schema().admin().all_audits(before, PAGE).await?;
    let last = rows.last().filter(|_| rows.len() == PAGE).map(|row| row.audit_id.to_string());
    let next = last.map(|last| link("audit", [("before", last.as_str())]));
    let frame = Frame::new(&app, visitor, "audit", "Audit").await;
    Ok(html(&Page { frame, rows: rows.into_iter().map(RowView::new).collect(), next }))
}
