//! How a worker ends.
//!
//! ```text
//! stopping: no more claims ─▶ unstarted jobs are released ─▶ running jobs end ─▶ results are flushed ─▶ unregister
//!    │                              the deadline has passed ──▶ what still runs is released, and cancelled ─▶ unregister
//!    └────────────────────────────────────────── stop now ──▶ everything is dropped; the reaper gives the jobs back
//! ```
//!
//! What is released while it runs may be claimed by another worker at once. It has another fence there, so that the acknowledgement of the run
//! that goes on here would change nothing.

use std::time::Duration;

use crate::error::Error;

use super::Worker;
use super::registration::Registration;
use super::shared::Shared;
use super::stop::Phase;

/// How long a shutdown waits for a claim that is under way before it gives back what has not started: a claim takes milliseconds, and
/// the jobs of one that takes longer are given back when it has ended.
const CLAIM_GRACE: Duration = Duration::from_secs(1);

/// How much longer than the deadline results that are there already may take.
const FLUSH_GRACE: Duration = Duration::from_secs(1);

/// How long giving back and unregistering may take after that.
const GIVE_BACK_GRACE: Duration = Duration::from_secs(3);

/// The cap of every list.
const BATCH: usize = 1_000;

/// How a worker has ended.
pub(super) struct End {
    pub(super) in_order: bool,
    /// Jobs that had not ended, or whose results were not acknowledged.
    pub(super) cut_off: usize,
}

/// Ends a worker that was told to stop.
pub(super) async fn end(worker: &mut Worker) -> End {
    let shared = worker.shared.clone();
    let deadline = Duration::from_millis(shared.config.shutdown_deadline_ms);
    let mut given_back = 0;
    let in_order = tokio::select! {
        biased; // a worker that was stopped at once gives nothing back
        () = shared.stop.reached(Phase::StoppingNow) => false,
        in_order = end_by(worker, deadline, &mut given_back) => in_order,
    };
    shared.stop.stop_now();
    let cut_off = given_back + worker.lease.registration().held().len();
    worker.executor.abandon();
    shared.metrics.end();
    End { in_order, cut_off }
}

/// Returns whether it was in order.
async fn end_by(worker: &mut Worker, deadline: Duration, given_back: &mut usize) -> bool {
    let in_order = tokio::time::timeout(deadline, all_ended(worker)).await.is_ok();
    let Worker { shared, lease, .. } = worker;
    let registration = lease.registration();
    if !in_order {
        tracing::warn!(
            running = shared.in_flight.running(),
            awaiting_finish = shared.in_flight.awaiting_finish(),
            "the shutdown deadline has passed; what is unacknowledged is given back"
        );
        let _ = tokio::time::timeout(FLUSH_GRACE, shared.in_flight.flushed()).await;
    }
    let leaving = async {
        give_back(shared, &registration, given_back).await?;
        shared.lane().unregister_worker(&shared.queue, registration.worker_id).await
    };
    match tokio::time::timeout(GIVE_BACK_GRACE, leaving).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "could not unregister; the lease will run out"),
        Err(_) => tracing::warn!(after = ?GIVE_BACK_GRACE, "could not unregister in time; the lease will run out"),
    }
    in_order
}

/// Returns when nothing is held any more.
async fn all_ended(worker: &mut Worker) {
    let Worker { shared, executor, stages, .. } = worker;
    let mut prefetch_ended = async || while stages.prefetch.join_next().await.is_some() {};
    // A claim that is under way ends first, so that it does not take again what is given back; one that hangs is not waited for.
    let _ = tokio::time::timeout(CLAIM_GRACE, prefetch_ended()).await;
    executor.close();
    prefetch_ended().await;
    shared.in_flight.idle().await;
    shared.in_flight.flushed().await;
}

/// Gives back what is held, as if it had not been started. Jobs that have failed are left to the reaper, who counts their attempt.
async fn give_back(shared: &Shared, registration: &Registration, given_back: &mut usize) -> Result<(), Error> {
    if registration.lost().is_cancelled() {
        return Ok(()); // the reaper has done it
    }
    let mut lane = shared.lane();
    for jobs in registration.not_failed().chunks(BATCH) {
        let not_ours = lane.release(registration.worker_id, jobs).await?;
        registration.forget(jobs.iter().copied());
        let released = jobs.len() - not_ours.len();
        *given_back += released;
        shared.tally.released(released as u64);
        shared.metrics.released(released as u64);
    }
    Ok(())
}
