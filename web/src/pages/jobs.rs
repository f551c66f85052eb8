//! A page of the jobs in a state. It is found by a position in their order, never by counting.

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use readpast::admin::{JobRow, JobState};

use crate::acting::job_action::JobAction;
use crate::app::App;
use crate::error_view::ErrorView;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;
use crate::job_search::{JobSearch, STATES, read_place, write_place};
use crate::links::link;
use crate::readings::Line;
use crate::render::html;
use crate::security::visitor::Visitor;
use crate::texts::{self, first_line, number};
use crate::time::{Time, length};

/// Jobs per page.
const PAGE: usize = 50;

/// Bytes read and characters shown of each payload.
const BEGINNING_BYTES: usize = 240;
const BEGINNING: usize = 110;

/// Reasons why jobs died above the list.
const REASONS: usize = 5;

#[derive(Template)]
#[template(path = "jobs.html")]
struct Page<'a> {
    frame: Frame,
    search: &'a JobSearch,
    since: String,
    until: String,
    tabs: Vec<Tab>,
    /// The heading: `Dead jobs`.
    heading: String,
    /// The conditions beyond the state, with links to the search without each.
    conditions: Vec<(String, String)>,
    /// Why jobs died lately, if it is known and not part of the search.
    reasons: Vec<ReasonView>,
    /// The meaning of the state.
    meaning: Option<&'static str>,
    jobs: Vec<JobView>,
    /// The link to the first page, on later ones.
    first: Option<String>,
    next: Option<String>,
    /// Whether the page has fewer jobs than fit.
    is_short: bool,
    is_narrow: bool,
    /// Whether its jobs have an error.
    shows_errors: bool,
    actions: Vec<JobAction>,
    /// `134`, or "that match".
    all: String,
}

struct ReasonView {
    count: String,
    /// The part of all dead jobs, in percent.
    percent: u64,
    link: String,
    error: ErrorView,
    last_at: Time,
}

struct Tab {
    state: String,
    /// Whether it is a state, not all of them.
    is_state: bool,
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
    error: Option<ErrorView>,
    /// The beginning of the payload.
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
            run: job.run.map(length),
            key: job.dedup_key.clone().or_else(|| job.group_key.clone()),
            error: job.error.as_deref().map(ErrorView::of),
            payload,
        }
    }
}

impl ReasonView {
    fn all(line: &Line, search: &JobSearch) -> Vec<ReasonView> {
        if search.state != Some(JobState::Dead) || search.has_conditions() {
            return Vec::new();
        }
        let groups = line.recent.reasons.as_deref().map_or(&[][..], Vec::as_slice);
        let read: u64 = groups.iter().map(|group| group.count).sum();
        let mut views = Vec::new();
        for group in groups.iter().filter(|group| !group.search_text().is_empty()).take(REASONS) {
            let these = JobSearch { error: Some(group.search_text().to_owned()), ..search.clone() };
            views.push(ReasonView {
                count: number(group.count),
                percent: group.count * 100 / read.max(1),
                link: these.link("jobs", &[]),
                error: ErrorView::of(&group.example_error),
                last_at: Time(group.last_at),
            });
        }
        views
    }
}

/// The heading of the time column.
fn time_column(state: Option<JobState>) -> &'static str {
    match state {
        None => "Due, claimed or ended",
        Some(JobState::Ready) => "Ready",
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
            is_state: state.is_some(),
            count: line.and_then(|line| Some(line.counts.text(&line.activity.stats, state?))),
            link: search_there.link("jobs", &[]),
            is_this: state == search.state,
        }
    };
    let tabs: Vec<Tab> = STATES.iter().map(|(state, _)| Some(*state)).chain([None]).map(tab).collect();
    let jobs = page.jobs.iter().map(|job| JobView::new(job, &search.queue, app.options.hide_payloads));
    let mut heading = format!("{} jobs", search.state_word());
    heading[..1].make_ascii_uppercase();
    let frame = Frame::new(&app, visitor, "jobs", format!("{heading} of {}", search.queue)).await;
    let all = match search.has_conditions() {
        true => None,
        false => tabs.iter().find(|tab| tab.is_this).and_then(|tab| tab.count.clone()),
    };
    let time = |time: Option<_>| time.map(texts::utc).unwrap_or_default();
    Ok(html(&Page {
        since: time(search.since),
        until: time(search.until),
        tabs,
        heading,
        conditions: search.conditions(),
        reasons: line.map_or_else(Vec::new, |line| ReasonView::all(line, &search)),
        all: all.unwrap_or_else(|| "that match".to_owned()),
        meaning: STATES.iter().find(|(state, _)| Some(*state) == search.state).map(|(_, meaning)| *meaning),
        jobs: jobs.collect(),
        first: after.map(|_| search.link("jobs", &[])),
        next: page.next.as_ref().map(|place| search.link("jobs", &[("after", &write_place(place))])),
        is_short: page.jobs.len() < PAGE,
        is_narrow: search.is_narrow(),
        shows_errors: page.jobs.iter().any(|job| job.error.is_some()),
        actions: if frame.may_act { JobAction::of(search.state, false) } else { Vec::new() },
        search: &search,
        frame,
    }))
}
