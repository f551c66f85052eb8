//! How long jobs took, counted while they run: [`Times`] in the making.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::times::{BUCKETS, Times, bucket};

/// Counts that only grow. A job costs one addition.
#[derive(Debug, Default)]
pub(super) struct TimeCounts([AtomicU64; BUCKETS]);

impl TimeCounts {
    pub(super) fn add(&self, time: Duration) {
        self.0[bucket(time)].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Times {
        Times::of(std::array::from_fn(|bucket| self.0[bucket].load(Ordering::Relaxed)))
    }
}
