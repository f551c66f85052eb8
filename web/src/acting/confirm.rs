//! The page that asks for confirmation of an action on many jobs, with their number.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use readpast::admin::JobChange;

use super::count::{Count, Live};
use super::job_action::{JobAction, ticked};
use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::job_search::JobSearch;
use crate::links::link;
use crate::render::html;
use crate::security::visitor::Visitor;

/// How long jobs are counted before the page is shown. The rest is counted live.
const COUNTING: Duration = Duration::from_millis(40);

/// More jobs than this are deleted only after their number is typed.
const MANY: u64 = 100;

#[derive(Template)]
#[template(path = "confirm.html")]
struct Page {
    frame: Frame,
    label: &'static str,
    words: String,
    live: Live,
    /// The address of the live count, while jobs are being counted.
    counting: Option<String>,
    asks_priority: bool,
    /// What has to be typed before many jobs are deleted: their number or, while they are counted, "all".
    typed: Option<String>,
    is_danger: bool,
    fields: Vec<(&'static str, String)>,
    back: String,
}

pub async fn show(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let fields = Fields::of(&uri);
    let search = JobSearch::read(&fields)?;
    let action = JobAction::named(&fields)?;
    action.must_fit(search.state)?;
    let queue = app.queue(&search.queue).await?;
    // Without ticks it asks about all that match.
    let ids = match fields.get("scope") {
        Some("all") => Vec::new(),
        _ => ticked(&fields)?,
    };
    let mut sent = search.fields();
    sent.push(("action", action.word().to_owned()));
    let mut counting = None;
    let live = match ids.len() {
        0 if search.has_conditions() => {
            let mut count = Count::new(queue, search.clone(), &action);
            count.go_on(COUNTING).await?;
            if count.goes_on() {
                let part = [("part", "count")].into_iter();
                counting = Some(link("events", part.chain(sent.iter().map(|(name, value)| (*name, value.as_str())))));
            }
            count.live()
        }
        // The counts of the states. Those of millions of jobs are some seconds old.
        0 => Live::of_states(&app, &queue, &action.states(search.state)).await?,
        count => Live::ticked(count),
    };
    let label = action.label.trim_end_matches('…');
    let frame = Frame::new(&app, visitor, "jobs", format!("{label} jobs")).await;
    if !frame.may_act {
        return Err(Failure::NotAllowed);
    }
    if ids.is_empty() {
        sent.push(("scope", "all".to_owned()));
    }
    sent.extend(ids.iter().map(|id| ("id", id.to_string())));
    Ok(html(&Page {
        frame,
        label,
        typed: action.is_danger().then(|| live.typed(MANY)).flatten(),
        is_danger: action.is_danger(),
        words: if ids.is_empty() { search.words() } else { format!("ticked jobs of {}", search.queue) },
        live,
        counting,
        asks_priority: matches!(action.change, JobChange::SetPriority(_)),
        fields: sent,
        back: search.link("jobs", &[]),
    }))
}
