//! Writes the progress and checkpoints of running jobs ([`RunNotes`](crate::job::RunNotes)) on a connection of its own:
//! one second after the first new note, all notes together. If a job has failed or is released, the finisher or the
//! shutdown writes its notes first, because the next attempt must find them.

use std::sync::Arc;
use std::time::Duration;

use crate::connection::Session;
use crate::error::Error;
use crate::id::WorkerId;
use crate::job::Taken;
use crate::procedures::worker::NOTE_PROGRESS;
use crate::time::Pauses;
use crate::worker::lease::Lease;
use crate::worker::state::{CallSize, WorkerState};

/// How long a note waits for others to be written with it.
const WAIT: Duration = Duration::from_secs(1);

/// How long SQL Server waits for the lock of a job's row: a handler that has called
/// [`finish_in`](crate::transaction::finish_in()) keeps its own row locked, and the notes of other jobs must not wait
/// for it.
const LOCK_WAIT_MS: u32 = 100;

/// The most jobs whose notes one call writes. With the largest checkpoints, that is 4 MiB.
pub(in crate::worker) const NOTES_BATCH: usize = 64;

/// Writes notes until the future is dropped. Calls `written` after each round, because jobs may be waiting for the
/// memory.
pub(in crate::worker) async fn keep_writing_notes(
    state: Arc<WorkerState>,
    lease: Lease,
    written: impl Fn() + Send + 'static,
) {
    let mut session = state.session();
    let mut failed = Pauses::for_errors();
    let mut size = CallSize::new(NOTES_BATCH);
    loop {
        tokio::select! {
            () = state.notes.changed() => {}
            never = session.close_when_idle() => match never {},
        }
        tokio::time::sleep(WAIT).await;
        let result = write_all(&state, &lease, &mut session, &mut size, &mut failed).await;
        written();
        if let Err(pause) = result {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Writes the present notes, except the notes of jobs whose rows are locked, which are tried again the next time.
/// Returns how long to wait before the next try, if one is necessary.
async fn write_all(
    state: &WorkerState,
    lease: &Lease,
    session: &mut Session,
    size: &mut CallSize,
    failed: &mut Pauses,
) -> Result<(), Duration> {
    let _writing = state.notes.writing().await;
    let mut taken = state.notes.take_all();
    while !taken.is_empty() {
        let asked = taken.next(size.jobs()).len();
        match write_unlocked(session, lease.registration().worker_id, &mut taken, size, LOCK_WAIT_MS).await {
            Ok(()) => failed.reset(),
            Err(error) => {
                if error.is_time_out_of(NOTE_PROGRESS) {
                    size.timed_out(asked);
                }
                let retry_in = failed.next();
                if !state.outage.tells_of_one(NOTE_PROGRESS, &error) {
                    tracing::warn!(%error, ?retry_in, "could not write the progress and checkpoints of jobs; retrying");
                }
                return Err(retry_in);
            }
        }
    }
    Ok(())
}

/// Writes the notes of the next jobs. If a row is locked for longer than `lock_wait_ms`, the next call writes fewer
/// notes, until the locked job is left out.
///
/// # Errors
///
/// As [`write_next`].
pub(in crate::worker) async fn write_unlocked(
    session: &mut Session,
    worker: WorkerId,
    taken: &mut Taken<'_>,
    size: &mut CallSize,
    lock_wait_ms: u32,
) -> Result<(), Error> {
    let asked = taken.next(size.jobs()).len();
    session.limit_lock_waits(NOTE_PROGRESS, lock_wait_ms).await?;
    match write_next(session, worker, taken, asked).await {
        Ok(written) => size.answered(written),
        Err(error) if error.is_lock_time_out() => {
            size.timed_out(asked);
            if asked == 1 {
                taken.put_off_next();
            }
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Writes the notes of up to `jobs` jobs and removes them. Notes that cannot be written are logged and removed, too.
/// Returns the number of jobs.
///
/// # Errors
///
/// A transient error: call this again.
pub(in crate::worker) async fn write_next(
    session: &mut Session,
    worker: WorkerId,
    taken: &mut Taken<'_>,
    jobs: usize,
) -> Result<usize, Error> {
    let notes = taken.next(jobs);
    let count = notes.len();
    match session.note_progress(worker, notes).await {
        Err(error) if error.is_transient() => return Err(error),
        Err(error) => {
            tracing::error!(%error, notes = count, "could not write the progress and checkpoints of jobs: they are lost");
        }
        Ok(()) => {}
    }
    taken.settle(count);
    Ok(count)
}
