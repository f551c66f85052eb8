//! How many threads of a pool jobs use. A turn uses the thread on which it runs. A job that needs several threads takes the
//! others for itself, so that no turns begin on them and they stay free for the pieces of its rayon calls.
//!
//! While no job has taken any, turns begin without limit: a thread that waits in a handler's rayon call may run another
//! job. While one has, turns and taken threads together are at most as many as the pool has.

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

    /// How many turns could begin on `threads` threads.
    pub(in crate::worker) fn room(self, threads: usize) -> usize {
        if self.taken == 0 { usize::MAX } else { threads.saturating_sub(self.all()) }
    }
}

impl ThreadsInUse {
    pub(super) fn new() -> ThreadsInUse {
        ThreadsInUse(AtomicU64::new(0))
    }

    pub(super) fn now(&self) -> InUse {
        InUse::of(self.0.load(Ordering::SeqCst))
    }

    /// Begins a turn, if one of `threads` threads is free for it.
    pub(super) fn begin_turn(&self, threads: usize) -> bool {
        let begin = |number| (InUse::of(number).room(threads) > 0).then_some(number + 1);
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
        assert!((0..6).all(|_| in_use.begin_turn(4)), "nested, as long as no job has taken threads");
        assert!(!in_use.take(1, 0, 4));
        (0..5).for_each(|_| in_use.end_turn());
        assert!(in_use.take(2, 0, 4) && !in_use.take(2, 0, 4) && !in_use.take(1, 1, 4));
        assert!(in_use.begin_turn(4) && !in_use.begin_turn(4));
        assert_eq!((in_use.now(), in_use.now().room(4)), (InUse { turns: 2, taken: 2 }, 0));
        in_use.give_back(2);
        assert_eq!((in_use.now().all(), in_use.now().room(4)), (2, usize::MAX));
    }
}
