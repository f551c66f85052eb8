//! Changes many jobs page by page, in its own task, until all are changed, a visitor stops it, or a call fails.

use std::collections::VecDeque;

use readpast::admin::{Changed, JobState, MatchingJobs, MatchingPage};
use readpast::{Error, JobId, Queue};

use super::job_action::JobAction;
use super::noted::{Noted, note_of};
use super::operations::{End, Operation, Progress};
use crate::app::App;
use crate::failure::Failure;
use crate::job_search::JobSearch;
use crate::security::visitor::Visitor;
use crate::texts;

/// Jobs changed per call if they are given by id.
const CHUNK: usize = 1_000;

/// Changes one job; returns whether it was changed.
pub async fn one(app: &App, visitor: &Visitor, queue: &Queue, action: &JobAction, id: JobId) -> Result<bool, Failure> {
    let change = &action.change;
    let noted = Noted::begin(app, visitor, queue, note_of(visitor, change).jobs(&[id])).await?;
    let changing = async {
        let found = queue.admin().job(id, Some(0)).await?;
        match found.map(|job| job.state).filter(|state| change.states().contains(state)) {
            Some(state) => noted.admin().change(change, MatchingPage::new(state, vec![id])).await,
            None => Ok(Changed::default()),
        }
    };
    let changed = changing.await;
    Ok(noted.end(changed, |changed| Some(changed.total())).await?.total() > 0)
}

/// Starts an operation on these jobs or, without ids, on all that match the search. Returns its id.
pub async fn begin(
    app: &App,
    visitor: &Visitor,
    queue: &Queue,
    action: JobAction,
    search: &JobSearch,
    ids: Vec<JobId>,
) -> Result<u64, Failure> {
    action.must_fit(search.state)?;
    let note = note_of(visitor, &action.change);
    let (words, note, pages) = match ids.len() {
        0 => {
            let pages = queue.admin().matching(&search.filter(), action.change.clone())?;
            (search.words(), note.filter(&search.filter()), Pages::Matching(Box::new(pages)))
        }
        ticked => {
            let words = format!("{} of {}", texts::counted(ticked as u64, "job"), queue.name());
            (words, note.jobs(&ids), Pages::Ticked { state: search.state, ids: ids.into() })
        }
    };
    let running = app.operations.add(queue.name(), Progress::begin(action.past, words))?;
    let noted = Noted::begin(app, visitor, queue, note).await?;
    let (id, app) = (running.operation.id, app.clone());
    tokio::spawn(async move {
        let operation = &running.operation;
        let (changed, end) = run(&app, operation, pages, &noted, &action).await;
        let (end, outcome) = match end {
            Ok(End::Stopped(who)) => {
                let outcome = format!("stopped by {who}");
                (End::Stopped(who), Some(outcome))
            }
            Ok(End::PageEnded) => (End::PageEnded, Some("stopped: the web UI ended".to_owned())),
            Ok(end) => (end, None),
            Err(error) => (End::Failed(error.to_string()), Some(error.to_string())),
        };
        // Changes made before an error count.
        noted.end_with(Some(changed), outcome.as_deref()).await;
        operation.note(|progress| progress.end = Some(end));
    });
    Ok(id)
}

enum Pages {
    Ticked { state: Option<JobState>, ids: VecDeque<JobId> },
    Matching(Box<MatchingJobs>),
}

impl Pages {
    async fn next(&mut self) -> Result<Option<MatchingPage>, Error> {
        match self {
            Pages::Ticked { ids, .. } if ids.is_empty() => Ok(None),
            Pages::Ticked { state, ids } => {
                let some = ids.drain(..ids.len().min(CHUNK)).collect();
                // Without a state, the action is one that ignores it.
                Ok(Some(MatchingPage::new(state.unwrap_or(JobState::Ready), some)))
            }
            Pages::Matching(pages) => pages.next().await,
        }
    }
}

/// Returns how many jobs were changed, and how the operation ended.
async fn run(
    app: &App,
    operation: &Operation,
    mut pages: Pages,
    noted: &Noted,
    action: &JobAction,
) -> (u64, Result<End, Error>) {
    let mut changed = 0;
    loop {
        let _turn = app.connections.of_operation().await;
        if let Some(end) = operation.stopped() {
            return (changed, Ok(end));
        }
        let page = match pages.next().await {
            Ok(Some(page)) => page,
            Ok(None) => return (changed, Ok(End::Done)),
            Err(error) => return (changed, Err(error)),
        };
        let looked_at = page.jobs.len() as u64;
        match noted.admin().change(&action.change, page).await {
            Ok(jobs) => changed += jobs.total(),
            Err(error) => return (changed, Err(error)),
        }
        operation.note(|progress| {
            progress.looked_at += looked_at;
            progress.changed = changed;
        });
    }
}
