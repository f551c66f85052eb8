//! Limits how fast a worker may claim jobs only to postpone them: [`PutOffBudget`].
//!
//! If a job's kind is at its limit or has no handler, the worker claims the job and postpones it, so that later claims
//! reach the jobs behind it. With a long backlog of such jobs, the worker would do nothing else. Claims therefore wait
//! once the budget is used up. Each job that runs adds one to the budget, so a mixed backlog hardly delays claims.

use std::time::{Duration, Instant};

/// The largest budget: as many jobs as one or two claims bring.
const AT_ONCE: f64 = 1_000.0;

/// The growth of the budget per second: a small part of a worker's claims at full speed, but enough to pass a backlog
/// of a hundred thousand jobs within minutes.
const PER_SECOND: f64 = 500.0;

/// How many jobs may be postponed without waiting. Below zero, claims wait.
pub(super) struct PutOffBudget {
    left: f64,
    looked_at: Instant,
    put_off: u64,
    ran: u64,
}

impl PutOffBudget {
    pub(super) fn new(now: Instant) -> PutOffBudget {
        PutOffBudget { left: AT_ONCE, looked_at: now, put_off: 0, ran: 0 }
    }

    /// Returns how long the next claim must wait, given the jobs that were postponed and that have run since the start.
    pub(super) fn wait(&mut self, put_off: u64, ran: u64, now: Instant) -> Duration {
        let added = now.saturating_duration_since(self.looked_at).as_secs_f64() * PER_SECOND + (ran - self.ran) as f64;
        self.left = (self.left + added - (put_off - self.put_off) as f64).min(AT_ONCE);
        (self.looked_at, self.put_off, self.ran) = (now, put_off, ran);
        Duration::from_secs_f64((-self.left / PER_SECOND).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_off_without_anything_that_runs_is_bounded_by_time() {
        let begun = Instant::now();
        let mut budget = PutOffBudget::new(begun);
        let (mut put_off, mut now) = (0, begun);
        while put_off < 20_000 {
            now += budget.wait(put_off, 0, now);
            put_off += 1_000; // a claim, all of which is put off
        }
        assert_eq!((now - begun).as_secs(), 36, "all but the first and the last thousand at 500 a second");
    }

    #[test]
    fn a_queue_of_which_half_runs_is_claimed_at_full_speed() {
        let now = Instant::now();
        let mut budget = PutOffBudget::new(now);
        for claims in 1..=100 {
            assert_eq!(budget.wait(claims * 500, claims * 500, now), Duration::ZERO);
        }
        assert_eq!(budget.wait(100 * 500 + 1_500, 100 * 500, now), Duration::from_secs(1));
    }
}
