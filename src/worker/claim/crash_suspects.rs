//! Jobs that must run alone: workers were lost while they held them, and if one more is, they are dead. So that no
//! innocent job dies for another's crash, they go only to a worker that holds nothing, and while one is held nothing
//! else is claimed.
//!
//! A worker that is always busy would never get one. So when one has waited for about a lease, nothing more is claimed
//! until all that is held has ended. The time is drawn at random between one lease and two, so that not all workers
//! stop for the same job.

use std::time::{Duration, Instant};

/// What a worker knows about jobs that must run alone.
#[derive(Default)]
pub(in crate::worker) struct Alone {
    /// This worker holds one.
    held: bool,
    /// When the patience with one that waits ends.
    due_at: Option<Instant>,
}

impl Alone {
    /// Whether nothing more is to be claimed until all that is held has ended.
    pub(in crate::worker) fn wants_all_to_end(&self) -> bool {
        self.held || self.due_at.is_some_and(|at| Instant::now() >= at)
    }

    /// Notes the answer to a claim: whether such a job waited, and whether this worker held nothing and got a job.
    pub(in crate::worker) fn answered(&mut self, waits: bool, got_one: bool, patience: Duration) {
        self.held = waits && got_one;
        if !waits || self.held {
            self.due_at = None;
        } else if self.due_at.is_none() {
            self.due_at = Some(Instant::now() + patience.mul_f64(1.0 + fastrand::f64()));
        }
    }
}
