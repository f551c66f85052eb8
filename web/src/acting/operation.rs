//! Something that is done to many jobs: page by page, in a task of its own, until it is done, stopped, or fails.

use std::collections::VecDeque;

use readpast::{Error, JobCursor, JobFilter, JobId, JobState, MatchingJobs, MatchingPage, Queue};

use super::job_action::JobAction;
use super::noted::Noted;
use super::operations::{End, Operation, Progress};
use crate::app::App;
use crate::failure::Failure;
use crate::job_search::JobSearch;
use crate::security::visitor::Visitor;

/// So many jobs of a list by ids are changed by one call.
const CHUNK: usize = 1_000;

/// Does it to one job; returns whether it could be done.
pub async fn one(app: &App, visitor: &Visitor, queue: &Queue, action: &JobAction, id: JobId) -> Result<bool, Failure> {
    let noted = Noted::begin(app, visitor, action.audit_word(), queue, action.what(&[id], None)).await?;
    let changed = match action.change() {
        None => queue.promote_now(id).await.map(u64::from),
        Some(change) => {
            // An error is the end that is noted, too.
            let found = queue.job_cut_at(id, 0).await;
            match found.map(|job| job.map(|job| job.state).filter(|state| change.states().contains(state))) {
                Ok(Some(state)) => queue.change(&change, &MatchingPage::new(state, vec![id])).await,
                Ok(None) => Ok(0),
                Err(error) => Err(error),
            }
        }
    };
    Ok(noted.end(changed, None).await? > 0)
}

/// Begins it for the jobs with these ids or, without any, for all that match the search. Returns its number.
pub async fn begin(
    app: &App,
    visitor: &Visitor,
    queue: &Queue,
    action: JobAction,
    search: &JobSearch,
    ids: Vec<JobId>,
) -> Result<u64, Failure> {
    let words = match ids.len() {
        0 => search.words(),
        many => format!("{many} jobs of {}", queue.name()),
    };
    let what = action.what(&ids, Some(&search.filter()));
    let pages = Pages::new(queue, &action, search, ids)?;
    let noted = Noted::begin(app, visitor, action.audit_word(), queue, what).await?;
    let operation = app.operations.add(queue.name(), Progress::begin(action.past(), words));
    let (id, queue) = (operation.id, queue.clone());
    tokio::spawn(async move {
        let (changed, end) = run(&operation, pages, &queue, &action).await;
        let (end, outcome) = match end {
            Ok(End::Stopped) => (End::Stopped, Some("stopped".to_owned())),
            Ok(end) => (end, None),
            Err(error) => (End::Failed(error.to_string()), Some(error.to_string())),
        };
        // (What was changed before an error counts.)
        let _ = noted.end(Ok(changed), outcome.as_deref()).await;
        operation.note(|progress| progress.end = Some(end));
    });
    Ok(id)
}

/// Which jobs.
enum Pages {
    Ticked {
        state: Option<JobState>,
        ids: VecDeque<JobId>,
    },
    Matching(Box<MatchingJobs>),
    /// What the library has only job by job.
    EachScheduled {
        filter: Box<JobFilter>,
        after: Option<JobCursor>,
        is_over: bool,
    },
}

impl Pages {
    fn new(queue: &Queue, action: &JobAction, search: &JobSearch, ids: Vec<JobId>) -> Result<Pages, Failure> {
        if !action.fits(search.state) {
            let why = format!("it cannot be done to {} jobs", search.state_word());
            return Err(Failure::bad("action", action.word(), &why));
        }
        Ok(match action.change() {
            _ if !ids.is_empty() => Pages::Ticked { state: search.state, ids: ids.into() },
            Some(change) => Pages::Matching(Box::new(queue.matching(&search.filter(), change)?)),
            None => Pages::EachScheduled { filter: Box::new(search.filter()), after: None, is_over: false },
        })
    }

    async fn next(&mut self, queue: &Queue) -> Result<Option<MatchingPage>, Error> {
        match self {
            Pages::Ticked { ids, .. } if ids.is_empty() => Ok(None),
            Pages::Ticked { state, ids } => {
                let some = ids.drain(..ids.len().min(CHUNK)).collect();
                // (Without a state it is nothing for which the state counts.)
                Ok(Some(MatchingPage::new(state.unwrap_or(JobState::Ready), some)))
            }
            Pages::Matching(pages) => pages.next().await,
            Pages::EachScheduled { is_over: true, .. } => Ok(None),
            Pages::EachScheduled { filter, after, is_over } => {
                let page = queue.list_ids(filter, after.as_ref(), CHUNK).await?;
                *is_over = page.next.is_none();
                *after = page.next;
                Ok(Some(MatchingPage::new(JobState::Scheduled, page.jobs)))
            }
        }
    }
}

/// Returns how many were changed, and how it has ended.
async fn run(operation: &Operation, mut pages: Pages, queue: &Queue, action: &JobAction) -> (u64, Result<End, Error>) {
    let (change, mut changed) = (action.change(), 0);
    loop {
        if operation.is_stopped() {
            return (changed, Ok(End::Stopped));
        }
        let page = match pages.next(queue).await {
            Ok(Some(page)) => page,
            Ok(None) => return (changed, Ok(End::Done)),
            Err(error) => return (changed, Err(error)),
        };
        let done = match &change {
            Some(change) => queue.change(change, &page).await,
            None => run_now(operation, queue, &page).await,
        };
        match done {
            Ok(jobs) => changed += jobs,
            Err(error) => return (changed, Err(error)),
        }
        operation.note(|progress| {
            progress.looked_at += page.jobs.len() as u64;
            progress.changed = changed;
        });
    }
}

async fn run_now(operation: &Operation, queue: &Queue, page: &MatchingPage) -> Result<u64, Error> {
    let mut changed = 0;
    for id in &page.jobs {
        if operation.is_stopped() {
            break;
        }
        changed += u64::from(queue.promote_now(*id).await?);
    }
    Ok(changed)
}
