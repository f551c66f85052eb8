//! Tracks until when the lease is certainly held, by a clock that runs on while the machine is suspended.

use std::time::Duration;

use crate::sync_primitives::{AtomicU64, Ordering};
use crate::time::BootClock;

/// The longest sleep before the clock is checked again.
pub(in crate::worker) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Until when the lease is certainly held, by the local clock. It counts from before the renewal was sent, so that it
/// never ends later than the lease in SQL Server.
#[derive(Debug, Default)]
pub(in crate::worker) struct LeaseValidity {
    clock: BootClock,
    renewed_ns: AtomicU64,
    held_until_ns: AtomicU64,
}

impl LeaseValidity {
    pub(in crate::worker) fn now(&self) -> Duration {
        self.clock.now()
    }

    pub(in crate::worker) fn renewed(&self, sent_at: Duration, lease: Duration) {
        self.renewed_ns.store(sent_at.as_nanos() as u64, Ordering::Release);
        self.held_until_ns.store((sent_at + lease).as_nanos() as u64, Ordering::Release);
    }

    /// Returns the time since the last confirmed renewal was sent.
    pub(in crate::worker) fn age(&self) -> Duration {
        self.now().saturating_sub(Duration::from_nanos(self.renewed_ns.load(Ordering::Acquire)))
    }

    /// Returns whether the lease may have expired: no job is started then.
    pub(in crate::worker) fn is_in_doubt(&self) -> bool {
        self.now().as_nanos() as u64 >= self.held_until_ns.load(Ordering::Acquire)
    }

    /// Completes at that time. If the time passes while the machine is suspended, completes within [`LONGEST_SLEEP`]
    /// after the suspension, because timers stop with the machine.
    pub(in crate::worker) async fn reaches(&self, time: Duration) {
        loop {
            let left = time.saturating_sub(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
        }
    }
}

#[cfg(test)]
impl LeaseValidity {
    /// Shifts the clock as if the machine had been suspended for this long.
    pub(in crate::worker) fn shift(&self, by: Duration) {
        self.clock.shift(by);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    #[test]
    fn a_lease_is_in_doubt_before_the_first_renewal_and_after_it_ran_out() {
        let clock = LeaseValidity::default();
        assert!(clock.is_in_doubt());
        clock.renewed(clock.now(), LEASE);
        assert!(!clock.is_in_doubt());
        clock.renewed(clock.now(), Duration::ZERO);
        assert!(clock.is_in_doubt());
    }

    #[tokio::test]
    async fn a_heartbeat_that_fell_due_during_a_suspension_is_sent_soon_after_it() {
        let clock = LeaseValidity::default();
        let due_at = clock.now() + LEASE;
        let started_at = Instant::now();
        let resumes = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            clock.shift(LEASE);
        };
        tokio::join!(clock.reaches(due_at), resumes);
        assert!(started_at.elapsed() < LONGEST_SLEEP + Duration::from_secs(4), "{:?}", started_at.elapsed());
    }
}
