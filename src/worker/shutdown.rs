//! How a worker ends.
//!
//! ```text
//! stopping: no more claims ─▶ unstarted jobs are released ─▶ running jobs end ─▶ results are flushed ─▶ unregister
//!    └────────── stop now, or the deadline has passed ──▶ everything is dropped; the reaper gives the jobs back
//! ```

use std::time::Duration;

use super::Worker;
use super::stop::Phase;

/// How long a shutdown waits for a claim that is under way before it gives back what has not started: a claim takes milliseconds, and
/// the jobs of one that takes longer are given back when it has ended.
const CLAIM_GRACE: Duration = Duration::from_secs(1);

/// Ends a worker that was told to stop. Returns whether it ended in order.
pub(super) async fn end(worker: &mut Worker) -> bool {
    let shared = worker.shared.clone();
    let deadline = Duration::from_millis(shared.config.shutdown_deadline_ms);
    let ended_in_order = tokio::select! {
        () = end_in_order(worker) => true,
        () = tokio::time::sleep(deadline) => {
            tracing::warn!("the shutdown deadline has passed; what is unacknowledged will run again");
            false
        }
        () = shared.stop.reached(Phase::StoppingNow) => false,
    };
    shared.stop.stop_now();
    shared.metrics.ended();
    ended_in_order
}

async fn end_in_order(worker: &mut Worker) {
    let Worker { shared, lease, executor, stages, .. } = worker;
    let mut prefetch_ended = async || while stages.prefetch.join_next().await.is_some() {};
    // A claim that is under way ends first, so that it does not take again what is given back; one that hangs is not waited for.
    let _ = tokio::time::timeout(CLAIM_GRACE, prefetch_ended()).await;
    executor.close();
    prefetch_ended().await;
    shared.in_flight.idle().await;
    shared.in_flight.flushed().await;
    let worker_id = lease.registration().worker_id;
    if let Err(error) = shared.lane().unregister_worker(&shared.queue, worker_id).await {
        tracing::warn!(%error, "could not unregister; the lease will run out");
    }
}
