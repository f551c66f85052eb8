//! A page of the jobs in a state. It is found by a position in their order, never by counting.

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use readpast::admin::{JobRow, JobState};

use crate::acting::job_action::JobAction;
use crate::app::App;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::job_search::{JobSearch, STATES, read_place, write_place};
use crate::links::link;
use crate::render::html;
use crate::security::visitor::Visitor;
use crate::texts::{self, Time, age, first_line, number};

/// Jobs per page.
const PAGE: usize = 50;

/// Bytes read and characters shown of each payload.
const BEGINNING_BYTES: usize = 240;
const BEGINNING: usize = 80;

/// Characters shown of an error.
const ERROR: usize = 200;

#[derive(Template)]
#[template(path = "jobs.html")]
struct Page<'a> {
    frame: Frame,
    search: &'a JobSearch,
    since: String,
    until: String,
    tabs: Vec<Tab>,
    /// The meaning of the state.
    meaning: Option<&'static str>,
    jobs: Vec<JobView>,
    /// The link to the first page, on later ones.
    first: Option<String>,
    next: Option<String>,
    /// Whether the page has fewer jobs than fit.
    is_short: bool,
    is_narrow: bool,
    actions: Vec<JobAction>,
}

struct Tab {
    state: String,
    /// The count of the state in the queue, without the search.
    count: Option<String>,
    link: String,
    is_this: bool,
}

struct JobView {
    id: String,
    link: String,
    state: JobState,
    kind: Option<String>,
    attempt: String,
    /// The time shown for the state: when the job finished, is due, or was enqueued, for example.
    time: Time,
    run: Option<String>,
    key: Option<String>,
    /// The beginning of the error or, without one, of the payload.
    error: Option<String>,
    payload: String,
}

impl JobView {
    fn new(job: &JobRow, queue: &str, hides_payloads: bool) -> JobView {
        let id = job.job_id.to_string();
        let time = match job.state {
            JobState::Ready | JobState::Scheduled => job.due_at,
            JobState::Waiting => job.enqueued_at,
            JobState::Claimed => job.claimed_at.unwrap_or(job.enqueued_at),
            _ => job.finished_at.unwrap_or(job.enqueued_at),
        };
        let payload = match job.payload_text() {
            _ if hides_payloads => texts::bytes(job.payload_bytes),
            Some(text) => first_line(&text, BEGINNING),
            None => format!("{}, no text", texts::bytes(job.payload_bytes)),
        };
        JobView {
            link: link("job", [("queue", queue), ("id", &id)]),
            id,
            state: job.state,
            kind: job.kind.clone(),
            attempt: number(job.attempt.into()),
            time: Time(time),
            run: job.run.map(age),
            key: job.dedup_key.clone().or_else(|| job.group_key.clone()),
            error: job.error.as_deref().map(|error| first_line(error, ERROR)),
            payload,
        }
    }
}

/// The heading of the time column.
fn time_column(state: Option<JobState>) -> &'static str {
    match state {
        None => "Due, claimed or ended",
        Some(JobState::Ready) => "Ready since",
        Some(JobState::Scheduled) => "Due",
        Some(JobState::Waiting) => "Enqueued",
        Some(JobState::Claimed) => "Claimed",
        Some(_) => "Ended",
    }
}

impl Page<'_> {
    fn time_column(&self) -> &'static str {
        time_column(self.search.state)
    }
}

pub async fn show(State(app): State<App>, visitor: Visitor, uri: Uri) -> Result<Response, Failure> {
    let fields = Fields::of(&uri);
    let search = JobSearch::read(&fields)?;
    let after = read_place(&fields)?;
    let queue = app.queue(&search.queue).await?;
    let mut filter = search.filter().cut_at(if app.options.hide_payloads { 0 } else { BEGINNING_BYTES });
    if search.has_ended() {
        filter = filter.newest_first();
    }
    let page = queue.admin().list(&filter, after.as_ref(), PAGE).await?;
    let reading = app.readings.now().await;
    let line = reading.queue(&search.queue);
    let tab = |state: Option<JobState>| {
        let search_there = search.in_state(state);
        Tab {
            state: search_there.state_word(),
            count: line.and_then(|line| Some(line.counts.text(&line.activity.stats, state?))),
            link: search_there.link("jobs", &[]),
            is_this: state == search.state,
        }
    };
    let tabs = STATES.iter().map(|(state, _)| Some(*state)).chain([None]).map(tab);
    let jobs = page.jobs.iter().map(|job| JobView::new(job, &search.queue, app.options.hide_payloads));
    let frame = Frame::new(&app, visitor, "jobs", format!("{} jobs of {}", search.state_word(), search.queue)).await;
    let time = |time: Option<_>| time.map(texts::utc).unwrap_or_default();
    Ok(html(&Page {
        since: time(search.since),
        until: time(search.until),
        tabs: tabs.collect(),
        meaning: STATES.iter().find(|(state, _)| Some(*state) == search.state).map(|(_, meaning)| *meaning),
        jobs: jobs.collect(),
        first: after.map(|_| search.link("jobs", &[])),
        next: page.next.as_ref().map(|place| search.link("jobs", &[("after", &write_place(place))])),
        is_short: page.jobs.len() < PAGE,
        is_narrow: search.is_narrow(),
        actions: if frame.may_act { JobAction::of(search.state, false) } else { Vec::new() },
        search: &search,
        frame,
    }))
}
