//! Reports to SQL Server, about once a minute and at the end, how the runs of each kind ended and what they used
//! (`state/kind_tally.rs`). An error may lose counts, but nothing counts twice. Every ten minutes, a worker with
//! `learn_memory` reads how much memory the runs of all workers used. When jobs need more than the worker has, it reads
//! the largest amounts on any worker (`state/most_resources.rs`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::connection::Session;
use crate::error::Error;
use crate::procedures::worker::{MOST_RESOURCES, NOTE_KINDS, PEAKS_BY_KIND};
use crate::time::jittered;
use crate::worker::state::WorkerState;

const EVERY: Duration = Duration::from_secs(60);

/// Reports between two reads of what the runs of all workers used.
const REPORTS_PER_READ: u32 = 10;

/// Reports counts until the future is dropped. The connection is closed after each call.
pub(in crate::worker) async fn keep_noting_kinds(state: Arc<WorkerState>) {
    let mut session = state.session();
    let mut next_report = Instant::now() + jittered(EVERY);
    let mut reports = 0_u32;
    let mut has_read_most = false;
    loop {
        tokio::select! {
            () = sleep_until(next_report) => {
                report(&state, &mut session).await;
                reports = reports.wrapping_add(1);
                if reports.is_multiple_of(REPORTS_PER_READ) {
                    learn_memory(&state, &mut session).await;
                }
                next_report = Instant::now() + jittered(EVERY);
                has_read_most = false;
            }
            // Once between two reports.
            () = state.most_resources.requested(), if !has_read_most => {
                read_most_resources(&state, &mut session).await;
                has_read_most = true;
            }
        }
        session.disconnect();
    }
}

async fn report(state: &WorkerState, session: &mut Session) {
    if let Err(error) = note_kinds(state, session).await
        && !state.outage.tells_of_one(NOTE_KINDS, &error)
    {
        tracing::warn!(%error, "could not report the counts by kind; some may be lost");
    }
}

async fn read_most_resources(state: &WorkerState, session: &mut Session) {
    if let Err(error) = state.most_resources.read(&state.queue, session).await
        && !state.outage.tells_of_one(MOST_RESOURCES, &error)
    {
        tracing::warn!(%error, "could not read the largest amounts on any worker");
    }
}

/// Reads how much memory the jobs of each kind have used, if the worker has `learn_memory`. Without it, the worker keeps
/// what it knew.
pub(in crate::worker) async fn learn_memory(state: &WorkerState, session: &mut Session) {
    if let Some(learned) = &state.learned
        && let Err(error) = learned.read(&state.queue, session).await
        && !state.outage.tells_of_one(PEAKS_BY_KIND, &error)
    {
        tracing::warn!(%error, "could not read how much memory jobs have used");
    }
}

/// Reports what was counted so far, unless other workers are busy with it.
///
/// # Errors
///
/// The list that was sent is lost. The others are sent the next time.
pub(in crate::worker) async fn note_kinds(state: &WorkerState, session: &mut Session) -> Result<(), Error> {
    if state.kinds.has_unsent() {
        session.ensure_connected().await?;
    }
    while let Some(counts) = state.kinds.take_unsent() {
        if !session.note_kinds(&state.queue, &counts).await? {
            state.kinds.put_back(counts);
            break;
        }
    }
    Ok(())
}
