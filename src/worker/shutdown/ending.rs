//! The steps by which a worker stops.
//!
//! ```text
//! stopping: no more claims ─▶ unstarted jobs are released ─▶ running jobs finish ─▶ results are flushed ─▶ unregister
//!    │                              the deadline has passed ──▶ running jobs are released and cancelled ─▶ unregister
//!    └────────────────────────────────────────── stop now ──▶ everything is dropped; the reaper returns the jobs
//! ```
//!
//! A job that is released while it is running may be claimed by another worker immediately. That claim has a new fence,
//! so a finish by the run that continues here has no effect.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;

use crate::connection::Session;
use crate::error::Error;
use crate::id::{Fence, JobId};
use crate::time::Pauses;
use crate::worker::finish::{NOTES_BATCH, note_kinds, write_unlocked};
use crate::worker::lease::{Lease, Registration};
use crate::worker::run::Executor;
use crate::worker::state::{CallSize, Phase, WorkerState};
use crate::worker::{Stages, Worker};

/// How long a shutdown waits for a claim in progress before it releases unstarted jobs. A claim takes milliseconds; the
/// jobs of one that takes longer are released when it has returned.
const CLAIM_GRACE: Duration = Duration::from_secs(1);

/// How long after the deadline results that are already available may still be sent.
const FLUSH_GRACE: Duration = Duration::from_secs(1);

/// How long releasing and unregistering may take after that.
const GIVE_BACK_GRACE: Duration = Duration::from_secs(3);

/// How much of that time is reserved for unregistering.
const UNREGISTER_GRACE: Duration = Duration::from_secs(1);

/// How long writing the jobs' last notes may take. Part of [`GIVE_BACK_GRACE`].
const NOTES_GRACE: Duration = Duration::from_millis(500);

/// How long reporting the counts by kind may take. Part of [`GIVE_BACK_GRACE`], but nothing is released later for it.
const KINDS_GRACE: Duration = Duration::from_millis(500);

/// How long a release waits for the lock of a job's row: a list of 1,000 jobs with one locked row takes eleven such
/// waits.
const LOCK_WAIT_MS: u32 = 50;

/// The most entries of any list.
const BATCH: usize = 1_000;

/// How a worker stopped.
pub(in crate::worker) struct End {
    pub(in crate::worker) in_order: bool,
    /// Jobs that were still running, or whose results were not confirmed.
    pub(in crate::worker) cut_off: usize,
}

/// Finishes or releases the worker's jobs and unregisters the worker. Dropping the worker stops the rest.
pub(in crate::worker) async fn end(worker: &mut Worker) -> End {
    let Worker { state, lease, executor, stages, own_lines, .. } = worker;
    let Stages { prefetch, finishing, others } = stages;
    let ending = Ending { state, executor, lease, own_lines };
    let mut given_back = 0;
    let in_order = tokio::select! {
        biased; // a worker that was stopped immediately releases nothing
        () = state.stop.reached(Phase::StoppingNow) => false,
        in_order = ending.end_by(prefetch, finishing, &mut given_back) => in_order,
        never = note_panics(state, others) => match never {},
    };
    for stage in [prefetch, finishing, others] {
        while let Some(ended) = stage.try_join_next() {
            note_panic(state, ended);
        }
    }
    End { in_order, cut_off: given_back + lease.registration().held().len() }
}

/// Makes the worker fail if a stage has panicked. The stage's jobs left memory without a signal, so other stages might
/// wait for them forever.
pub(in crate::worker) fn note_panic(state: &WorkerState, ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        state.stop.fail_by_panic(error.into_panic());
        state.in_flight.confirmed();
    }
}

/// Records the panics of stages; never returns.
async fn note_panics(state: &WorkerState, stages: &mut JoinSet<()>) -> Infallible {
    while let Some(ended) = stages.join_next().await {
        note_panic(state, ended);
    }
    std::future::pending().await
}

/// Completes when these stages have stopped.
async fn all_ended(state: &WorkerState, stages: &mut JoinSet<()>) {
    while let Some(ended) = stages.join_next().await {
        note_panic(state, ended);
    }
}

/// The parts of a worker that are needed to stop it, apart from its tasks.
struct Ending<'a> {
    state: &'a WorkerState,
    executor: &'a Executor,
    lease: &'a Lease,
    own_lines: &'a [AbortHandle],
}

impl Ending<'_> {
    /// Carries out the steps of the stop. Returns whether the stop was graceful.
    async fn end_by(&self, prefetch: &mut JoinSet<()>, finishing: &mut JoinSet<()>, given_back: &mut usize) -> bool {
        let Ending { state, executor, lease, own_lines } = *self;
        let deadline = state.config.shutdown_deadline;
        let in_time = tokio::time::timeout(deadline, self.nothing_is_held(prefetch, finishing)).await.is_ok();
        // (The shutdown does not wait for results that no task can send any more.)
        let in_order = in_time && state.in_flight.awaiting_finish() == 0;
        if !in_order {
            // Called first, so that no job starts that is released below.
            executor.cut_off();
            tracing::warn!(
                running = state.in_flight.running(),
                awaiting_finish = state.in_flight.awaiting_finish(),
                "the shutdown deadline has passed; releasing the jobs that are left"
            );
            let last = async {
                all_ended(state, prefetch).await;
                self.flushed(finishing).await;
            };
            let _ = tokio::time::timeout(FLUSH_GRACE, last).await;
            // A claim that still hangs must not add jobs after the list of jobs to release was made. And a finish that
            // is sent again would mistake released jobs for jobs that an earlier try had finished.
            own_lines.iter().for_each(AbortHandle::abort);
            for stages in [prefetch, finishing] {
                stages.abort_all();
                all_ended(state, stages).await;
            }
        }
        let registration = lease.registration();
        let mut session = state.session();
        let released = async {
            session.ensure_connected().await?; // before the short time for the notes begins
            write_notes(state, &mut session, &registration).await;
            give_back(state, &mut session, &registration, given_back).await?;
            if !in_order {
                give_back_unknown_jobs(state, &mut session, &registration).await?;
            }
            Ok::<(), Error>(())
        };
        let until = Instant::now() + GIVE_BACK_GRACE - UNREGISTER_GRACE;
        match tokio::time::timeout_at(until, released).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the worker could not release its jobs; they return to the queue when its lease expires")
            }
            Err(_) => tracing::warn!(
                "the worker could not release its jobs in time; they return to the queue when its lease expires"
            ),
        }
        note_last_kinds(state, &mut session, until.min(Instant::now() + KINDS_GRACE)).await;
        match tokio::time::timeout(UNREGISTER_GRACE, unregister(state, &mut session, &registration)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the worker could not unregister; its lease will expire"),
            Err(_) => {
                tracing::warn!(after = ?UNREGISTER_GRACE, "the worker could not unregister in time; its lease will expire")
            }
        }
        in_order
    }

    /// Completes when no jobs are held, or when the remaining jobs can no longer be finished.
    async fn nothing_is_held(&self, prefetch: &mut JoinSet<()>, finishing: &mut JoinSet<()>) {
        let Ending { state, executor, .. } = *self;
        // Waits for a claim in progress, so that it does not claim the released jobs again, but not for a claim that
        // hangs.
        let _ = tokio::time::timeout(CLAIM_GRACE, all_ended(state, prefetch)).await;
        executor.close();
        all_ended(state, prefetch).await;
        executor.close(); // releases the jobs of that claim, too, even if no thread is free to do it
        state.in_flight.idle().await;
        self.flushed(finishing).await;
    }

    /// Completes when every result is confirmed, or no task is left to finish jobs.
    async fn flushed(&self, finishing: &mut JoinSet<()>) {
        tokio::select! {
            () = self.state.in_flight.flushed() => {}
            () = all_ended(self.state, finishing) => {}
        }
    }
}

/// Writes the notes of the jobs that are being released.
async fn write_notes(state: &WorkerState, session: &mut Session, registration: &Registration) {
    if !state.notes.were_used() {
        return;
    }
    let written = async {
        let _writing = state.notes.writing().await;
        let (mut taken, mut pauses) = (state.notes.take_all(), pauses());
        let mut size = CallSize::new(NOTES_BATCH);
        while !taken.is_empty() {
            let writing = write_unlocked(session, registration.worker_id, &mut taken, &mut size, LOCK_WAIT_MS);
            if writing.await.is_err() {
                tokio::time::sleep(pauses.next()).await;
            }
        }
    };
    if tokio::time::timeout(NOTES_GRACE, written).await.is_err() {
        tracing::warn!("the last progress and checkpoints of jobs could not be written in time and are lost");
    }
}

/// Releases the held jobs, as if they had not been started. Failed jobs are left to the reaper, which counts their
/// attempt. Jobs whose rows are locked are also left to the reaper, for example if a handler has called
/// [`finish_in`](crate::transaction::finish_in()). A list with such a job is halved, and its halves are tried after the
/// other lists.
async fn give_back(
    state: &WorkerState,
    session: &mut Session,
    registration: &Registration,
    given_back: &mut usize,
) -> Result<(), Error> {
    let mut held = registration.not_failed();
    // Later jobs first: a finish that was abandoned may still take effect, and then on the earlier jobs of a run.
    held.sort_unstable_by_key(|(job_id, _)| std::cmp::Reverse(*job_id));
    let mut lists: VecDeque<&[(JobId, Fence)]> = held.chunks(BATCH).collect();
    while let Some(jobs) = lists.pop_front() {
        let mut pauses = pauses();
        let mut is_open = false;
        let not_ours = loop {
            let released = match session.limit_lock_waits("release", LOCK_WAIT_MS).await {
                Ok(()) => session.release(registration.worker_id, jobs).await,
                Err(error) => Err(error),
            };
            match released {
                Ok(not_ours) => break Some(not_ours.len()),
                Err(error) if error.is_lock_time_out() => break None,
                Err(error) => {
                    is_open |= error.leaves_open();
                    pause_or_fail("release", &mut pauses, error).await?;
                }
            }
        };
        let Some(not_ours) = not_ours else {
            // A locked job that is alone is left to the reaper.
            if jobs.len() > 1 {
                let (first, second) = jobs.split_at(jobs.len() / 2);
                lists.extend([first, second]);
            }
            continue;
        };
        registration.forget(jobs.iter().copied());
        // Jobs that no longer belong to this worker were released by an earlier try whose response was lost, if there
        // was one.
        let released = if is_open { jobs.len() } else { jobs.len() - not_ours };
        *given_back += jobs.len();
        state.tally.released(released as u64);
        state.metrics.released(released as u64);
    }
    Ok(())
}

/// Releases the jobs of a claim that was abandoned at the deadline, in case the claim took effect.
async fn give_back_unknown_jobs(
    state: &WorkerState,
    session: &mut Session,
    registration: &Registration,
) -> Result<(), Error> {
    let (known, mut pauses) = (registration.held(), pauses());
    let released = loop {
        match session.recover(&state.queue, registration.worker_id, &known).await {
            Ok(released) => break released,
            Err(error) => pause_or_fail("recover", &mut pauses, error).await?,
        }
    };
    if released > 0 {
        tracing::info!(released, "released the jobs of a claim that was abandoned at the shutdown deadline");
    }
    Ok(())
}

/// Reports the last counts by kind.
async fn note_last_kinds(state: &WorkerState, session: &mut Session, until: Instant) {
    let (mut pauses, mut failed) = (pauses(), None);
    let noted = async {
        while state.kinds.has_unsent() {
            if let Err(error) = note_kinds(state, session).await {
                failed = Some(error);
            }
            // Counts may be left: other workers were busy, or these came after an earlier report that was left.
            if state.kinds.has_unsent() {
                tokio::time::sleep(pauses.next()).await;
            }
        }
    };
    let in_time = tokio::time::timeout_at(until, noted).await.is_ok();
    if !in_time || failed.is_some() {
        let error = failed.map(tracing::field::display);
        tracing::debug!(in_time, error, "could not report all counts by kind");
    }
}

async fn unregister(state: &WorkerState, session: &mut Session, registration: &Registration) -> Result<(), Error> {
    let (mut pauses, last) = (pauses(), registration.report(&state.tally));
    while let Err(error) = session.unregister_worker(&state.queue, registration.worker_id, &last).await {
        pause_or_fail("unregister_worker", &mut pauses, error).await?;
    }
    Ok(())
}

/// The pauses between tries. They are short, because there are only seconds.
fn pauses() -> Pauses {
    Pauses::new(Duration::from_millis(20), Duration::from_millis(200))
}

/// Pauses after a transient error, and returns any other.
async fn pause_or_fail(procedure: &'static str, pauses: &mut Pauses, error: Error) -> Result<(), Error> {
    if !error.is_transient() {
        return Err(error);
    }
    let retry_in = pauses.next();
    tracing::warn!(procedure, sql_error = error.sql_number(), %error, ?retry_in, "a call of the shutdown failed; retrying");
    tokio::time::sleep(retry_in).await;
    Ok(())
}
