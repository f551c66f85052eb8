//! Signals about jobs to claim: that there may be jobs, that a claim found none, or that the queue's limits kept jobs
//! back.
//!
//! ```text
//! watcher, maintenance, drain, finisher ──there may be jobs──▶ prefetch ──a claim found nothing──▶ drain
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::procedures::worker::ClaimLimit;

/// A signal to the prefetcher, a signal from it, and the limit that its last claim met.
#[derive(Debug, Default)]
pub(in crate::worker) struct ClaimSignals {
    expected: Notify,
    found_nothing: Notify,
    limited: AtomicBool,
    ends_make_room: AtomicBool,
    left_at: Mutex<Option<Instant>>,
}

impl ClaimSignals {
    /// Signals that a claim may find jobs.
    pub(in crate::worker) fn expect(&self) {
        self.expected.notify_one();
    }

    /// Returns when there may be jobs. Only the prefetcher calls it.
    pub(in crate::worker) async fn expected(&self) {
        self.expected.notified().await;
    }

    /// Records that this worker postponed a job that only others can run.
    pub(in crate::worker) fn left_to_others(&self) {
        *self.left_at.lock() = Some(Instant::now());
    }

    /// Whether it did so within the last `span`.
    pub(in crate::worker) fn has_left_within(&self, span: Duration) -> bool {
        self.left_at.lock().is_some_and(|at| at.elapsed() <= span)
    }

    /// Signals that a claim found nothing and no job is in flight.
    pub(in crate::worker) fn found_nothing(&self) {
        self.found_nothing.notify_one();
    }

    /// Records the limit that kept ready jobs from the last claim.
    pub(in crate::worker) fn set_limited(&self, limited: Option<ClaimLimit>) {
        self.limited.store(limited.is_some(), Ordering::Relaxed);
        self.ends_make_room.store(limited == Some(ClaimLimit::Running), Ordering::Relaxed);
    }

    /// Whether the queue's own limits keep ready jobs back.
    pub(in crate::worker) fn are_limited(&self) -> bool {
        self.limited.load(Ordering::Relaxed)
    }

    /// Whether ready jobs are kept back by a limit that allows more jobs as soon as one finishes.
    pub(in crate::worker) fn ends_make_room(&self) -> bool {
        self.ends_make_room.load(Ordering::Relaxed)
    }

    /// Returns when a claim found nothing while no job was in flight. Only the drain calls it.
    pub(in crate::worker) async fn nothing_found(&self) {
        self.found_nothing.notified().await;
    }
}
