//! Before something is done to many jobs: to how many.

use std::time::{Duration, Instant};

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use readpast::{Error, JobState, Queue};

use super::job_action::{JobAction, ids};
use crate::app::App;
use crate::counts::{self, MOST};
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::job_search::JobSearch;
use crate::render::html;
use crate::security::visitor::Visitor;
use crate::texts::number;

/// For so long it is counted; then the page says "at least".
const COUNTING: Duration = Duration::from_millis(700);

/// So many jobs are counted with a page.
const PAGE: usize = 10_000;

#[derive(Template)]
#[template(path = "confirm.html")]
struct Page {
    frame: Frame,
    label: &'static str,
    words: String,
    count: String,
    is_at_least: bool,
    is_none: bool,
    asks_priority: bool,
    priority: i16,
    fields: Vec<(&'static str, String)>,
    back: String,
}

/// How many jobs match that are in these states; and whether there may be more.
async fn count(queue: &Queue, search: &JobSearch, states: &[JobState]) -> Result<(u64, bool), Error> {
    let (begin, mut count) = (Instant::now(), 0);
    for (index, state) in states.iter().enumerate() {
        let (filter, mut after) = (search.in_state(Some(*state)).filter(), None);
        loop {
            let page = queue.list_ids(&filter, after.as_ref(), PAGE).await?;
            count += page.jobs.len() as u64;
            after = page.next;
            let is_last = after.is_none() && index + 1 == states.len();
            if !is_last && begin.elapsed() > COUNTING {
                return Ok((count, true));
            }
            if after.is_none() {
                break;
            }
        }
    }
    Ok((count, false))
}

pub async fn show(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let fields = Fields::of(&uri);
    let search = JobSearch::read(&fields)?;
    let word = fields.required("action")?;
    let action = JobAction::of(search.state).into_iter().find(|action| action.word() == word);
    let action = action
        .ok_or_else(|| Failure::bad("action", word, &format!("it cannot be done to {} jobs", search.state_word())))?;
    let queue = app.queue(&search.queue).await?;
    let ids = ids(&fields)?;
    let states = match (search.state, action.change()) {
        (None, Some(change)) => change.states().to_vec(),
        (state, _) => state.into_iter().collect(),
    };
    let mut in_words = None;
    let (count, is_at_least) = match ids.len() {
        0 if search.is_narrow() || search.since.is_some() || search.until.is_some() || search.worker.is_some() => {
            count(&queue, &search, &states).await?
        }
        // The counts of the states: of millions they are some seconds old.
        0 => {
            let mut stats = queue.stats_up_to(MOST).await?;
            let known = app.readings.complete(&mut stats);
            if let [state] = states[..] {
                in_words = Some(known.text(&stats, state));
            }
            (states.iter().map(|state| counts::count(&stats, *state)).sum(), false)
        }
        ticked => (ticked as u64, false),
    };
    let frame = Frame::new(&app, visitor, "jobs", format!("{} jobs", action.label().trim_end_matches('…'))).await;
    if !frame.may_act {
        return Err(Failure::NotAllowed);
    }
    let mut sent = search.fields();
    sent.push(("action", word.to_owned()));
    if ids.is_empty() {
        sent.push(("scope", "all".to_owned()));
    }
    sent.extend(ids.iter().map(|id| ("id", id.to_string())));
    Ok(html(&Page {
        frame,
        label: action.label().trim_end_matches('…'),
        words: if ids.is_empty() { search.words() } else { format!("ticked jobs of {}", search.queue) },
        count: in_words.unwrap_or_else(|| number(count)),
        is_at_least,
        is_none: count == 0 && !is_at_least,
        asks_priority: matches!(action, JobAction::Priority(_)),
        priority: 0,
        fields: sent,
        back: search.link("jobs", &[]),
    }))
}
