//! What a worker knows about jobs that are to come: somebody has seen that there may be some, or a claim has found
//! none, or only what the queue's limits allow.
//!
//! ```text
//! watcher, maintenance, drain, completion ──there may be jobs──▶ prefetch ──a claim found nothing──▶ drain
//! ```

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::procedures::worker::ClaimLimit;

/// Two signals, one to the prefetcher and one from it, and what its last claim has met.
#[derive(Debug, Default)]
pub(in crate::worker) struct Arrivals {
    expected: Notify,
    found_nothing: Notify,
    limited: AtomicBool,
    ends_make_room: AtomicBool,
}

impl Arrivals {
    /// There may be jobs in a queue that was empty: a claim is worth its while.
    pub(in crate::worker) fn expect(&self) {
        self.expected.notify_one();
    }

    /// Returns when there may be jobs. For the prefetcher alone.
    pub(in crate::worker) async fn expected(&self) {
        self.expected.notified().await;
    }

    /// A claim has found nothing, and nothing is in flight.
    pub(in crate::worker) fn found_nothing(&self) {
        self.found_nothing.notify_one();
    }

    /// What kept the last claim from jobs that are ready.
    pub(in crate::worker) fn set_limited(&self, limited: Option<ClaimLimit>) {
        self.limited.store(limited.is_some(), Ordering::Relaxed);
        self.ends_make_room.store(limited == Some(ClaimLimit::Running), Ordering::Relaxed);
    }

    /// Whether claims are kept from jobs by the queue's own limits.
    pub(in crate::worker) fn are_limited(&self) -> bool {
        self.limited.load(Ordering::Relaxed)
    }

    /// Whether that is so, and a job that is acknowledged makes room for another.
    pub(in crate::worker) fn ends_make_room(&self) -> bool {
        self.ends_make_room.load(Ordering::Relaxed)
    }

    /// Returns when a claim has found nothing while nothing was in flight. For the drain alone.
    pub(in crate::worker) async fn nothing_found(&self) {
        self.found_nothing.notified().await;
    }
}
