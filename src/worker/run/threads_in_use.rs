//! How many threads of a pool jobs use. A turn uses the thread on which it runs. A job that needs several threads takes the
//! others for itself, so that no turns begin on them and they stay free for the pieces of its rayon calls.
//!
//! While no job has taken any, turns begin without limit: a thread that waits in a handler's rayon call may run another
//! job. While one has, or while turns still run on threads of an earlier pool, turns and taken threads together are at
//! most as many as the pool has ([`FairPool::is_unlimited`](super::fair_pool::FairPool::is_unlimited)).

use crate::sync_primitives::{AtomicU64, Ordering};

/// The threads in use: the number of turns, and above it that of taken threads. They are one number, so that each
/// decision sees both as they are at one moment.
pub(super) struct ThreadsInUse(AtomicU64);

/// The position of the taken threads in the number.
const TAKEN: u32 = 32;

/// The threads in use at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) struct InUse {
    pub(in crate::worker) turns: usize,
    pub(in crate::worker) taken: usize,
}

impl InUse {
    fn of(number: u64) -> InUse {
        InUse { turns: (number & u64::from(u32::MAX)) as usize, taken: (number >> TAKEN) as usize }
    }

    pub(in crate::worker) fn all(self) -> usize {
        self.turns + self.taken
    }
}

impl ThreadsInUse {
    pub(super) fn new() -> ThreadsInUse {
        ThreadsInUse(AtomicU64::new(0))
    }

    pub(super) fn now(&self) -> InUse {
        InUse::of(self.0.load(Ordering::SeqCst))
    }

    /// Begins a turn, unless as many threads are in use as `limit` allows at that moment, if it does.
    pub(super) fn begin_turn(&self, limit: impl Fn(InUse) -> Option<usize>) -> bool {
        let begin = |number| {
            let in_use = InUse::of(number);
            limit(in_use).is_none_or(|threads| in_use.all() < threads).then_some(number + 1)
        };
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, begin).is_ok()
    }

    pub(super) fn end_turn(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes `more` threads for a job whose turn is running, if so many of `threads` are free and `spare` besides.
    pub(super) fn take(&self, more: usize, spare: usize, threads: usize) -> bool {
        let take = |number| {
            let fits = InUse::of(number).all() + more + spare <= threads;
            fits.then_some(number + ((more as u64) << TAKEN))
        };
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }

    pub(super) fn give_back(&self, taken: usize) {
        self.0.fetch_sub((taken as u64) << TAKEN, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_threads_are_not_for_turns() {
        let in_use = ThreadsInUse::new();
        let limit = |in_use: InUse| (in_use.taken > 0).then_some(4);
        assert!((0..6).all(|_| in_use.begin_turn(limit)), "nested, as long as no job has taken threads");
        assert!(!in_use.take(1, 0, 4));
        (0..5).for_each(|_| in_use.end_turn());
        assert!(in_use.take(2, 0, 4) && !in_use.take(2, 0, 4) && !in_use.take(1, 1, 4));
        assert!(in_use.begin_turn(limit) && !in_use.begin_turn(limit));
        assert_eq!(in_use.now(), InUse { turns: 2, taken: 2 });
        in_use.give_back(2);
        assert_eq!(in_use.now().all(), 2);
        assert!((0..6).all(|_| in_use.begin_turn(limit)));
    }
}
