//! Jobs that were taken from the channel and could not start at once. They come before the jobs in the channel.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::worker::lease::Claimed;

/// The jobs, in the order in which they were taken. Where there are none, as mostly, a look costs one load.
#[derive(Default)]
pub(super) struct SetAside {
    waiting: Mutex<VecDeque<Claimed>>,
    /// How many there are. Changed under the lock.
    jobs: AtomicUsize,
}

impl SetAside {
    pub(super) fn jobs(&self) -> usize {
        self.jobs.load(Ordering::Acquire)
    }

    pub(super) fn add(&self, claimed: Claimed) {
        let mut waiting = self.waiting.lock();
        waiting.push_back(claimed);
        self.jobs.store(waiting.len(), Ordering::Release);
    }

    /// Takes the first of them.
    pub(super) fn next(&self) -> Option<Claimed> {
        if self.jobs() == 0 {
            return None;
        }
        let mut waiting = self.waiting.lock();
        let first = waiting.pop_front();
        self.jobs.store(waiting.len(), Ordering::Release);
        first
    }
}
