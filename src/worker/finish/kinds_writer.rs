//! Reports to SQL Server, about once a minute and at the end, how the runs of each kind ended and what they used
//! (`state/kind_tally.rs`). An error may lose counts, but nothing counts twice. Every ten minutes, a worker with
//! `learn_memory` reads how much memory the runs of all workers used.

use std::sync::Arc;
use std::time::Duration;

use crate::connection::Session;
use crate::error::Error;
use crate::procedures::worker::{NOTE_KINDS, PEAKS_BY_KIND};
use crate::time::jittered;
use crate::worker::state::WorkerState;

const EVERY: Duration = Duration::from_secs(60);

/// Reports between two reads of what the runs of all workers used.
const REPORTS_PER_READ: u32 = 10;

/// Reports counts until the future is dropped. The connection is closed after each report.
pub(in crate::worker) async fn keep_noting_kinds(state: Arc<WorkerState>) {
    let mut session = state.session();
    for report in 1_u32.. {
        tokio::time::sleep(jittered(EVERY)).await;
        if let Err(error) = note_kinds(&state, &mut session).await
            && !state.outage.tells_of_one(NOTE_KINDS, &error)
        {
            tracing::warn!(%error, "could not report the counts by kind; some may be lost");
        }
        if report % REPORTS_PER_READ == 0 {
            learn_memory(&state, &mut session).await;
        }
        session.disconnect();
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
