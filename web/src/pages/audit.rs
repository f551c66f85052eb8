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
use crate::texts::number;
use crate::time::Time;

/// Entries per page.
const PAGE: usize = 100;

/// Job ids shown per entry.
const SHOWN_JOBS: usize = 10;

#[derive(Template)]
#[template(path = "audit.html")]
struct Page {
    frame: Frame,
    rows: Vec<RowView>,
    next: Option<String>,
}

struct RowView {
    began_at: Time,
    who: String,
    login: String,
    action: String,
    queue: Option<String>,
    what: String,
    jobs: String,
    end: String,
    /// It ended with an error, or was stopped.
    failed: bool,
}

impl RowView {
    fn new(row: AuditRow) -> RowView {
        let end = match (&row.outcome, row.ended_at) {
            (Some(outcome), _) => outcome.clone(),
            (None, Some(_)) => "done".to_owned(),
            (None, None) => "in progress, or interrupted".to_owned(),
        };
        RowView {
            began_at: Time(row.began_at),
            who: row.who,
            login: row.login,
            action: row.action.replace('_', " "),
            queue: row.queue,
            what: row.what.as_ref().map(words).unwrap_or_default(),
            failed: row.outcome.is_some(),
            jobs: row.jobs.map_or_else(|| "–".to_owned(), number),
            end,
        }
    }
}

/// JSON as text: `state dead, error timeout`.
fn words(what: &Value) -> String {
    match what {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let rest = if values.len() > SHOWN_JOBS { ", …" } else { "" };
            values.iter().take(SHOWN_JOBS).map(words).collect::<Vec<_>>().join(", ") + rest
        }
        Value::Object(fields) => {
            let there = fields.iter().filter(|(name, value)| !value.is_null() && *name != "named");
            let word = |(name, value): (&String, &Value)| match name.as_str() {
                "filter" => words(value),
                name => format!("{} {}", name.replace('_', " "), words(value)),
            };
            there.map(word).collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
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
