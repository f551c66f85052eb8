//! When jobs that have to wait for others come back: each gets a turn behind the turns of those before it.
//!
//! ```text
//! a job must wait for others ──within HOLD──▶ it stays in memory
//!                            └──longer──▶ book ──▶ postponed in SQL Server until about its turn
//! ```

use std::time::{Duration, Instant};

/// How long a job may wait in memory: somewhat longer than a postponed job takes to be claimed again
/// (`worker.promote_interval_ms` and a claim).
pub(crate) const HOLD: Duration = Duration::from_secs(2);

/// The shortest and the longest time for which a job is postponed if its turn is near.
const DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The longest interval between two postponed jobs whose turn is further away. They become ready one by one, so that a
/// long backlog is not claimed and postponed as a whole each minute. Some of them become ready soon, in case workers
/// join or the jobs become shorter.
const LATER_STEP: Duration = Duration::from_millis(10);

/// The longest delay of these jobs. After that, the delays start again at [`DELAYS`].
const LATEST: Duration = Duration::from_secs(600);

/// The turns of postponed jobs.
pub(crate) struct TurnBookings {
    /// Until when the turns are booked by waiting and postponed jobs.
    booked_until: Instant,
    /// When the last postponed job whose turn is further away becomes ready.
    later_until: Instant,
}

impl TurnBookings {
    pub(crate) fn new(now: Instant) -> TurnBookings {
        TurnBookings { booked_until: now, later_until: now }
    }

    /// Forgets all turns: the postponed jobs may come back whenever they do.
    pub(crate) fn clear(&mut self, now: Instant) {
        (self.booked_until, self.later_until) = (now, now);
    }

    /// Postpones a job until its turn, behind all waiting and all previously postponed jobs. The waiting jobs take this
    /// long, and the job itself `own`.
    pub(crate) fn book(&mut self, waiting: Duration, own: Duration, now: Instant) -> Duration {
        let own = own.min(DELAYS.1);
        let turn = self.booked_until.max(now + waiting.min(DELAYS.1)) + own;
        let horizon = now + DELAYS.1;
        if turn <= horizon {
            self.booked_until = turn;
            return turn.saturating_duration_since(now).max(DELAYS.0);
        }
        let later = self.later_until.max(horizon) + own.min(LATER_STEP);
        self.later_until = if later > now + LATEST { horizon } else { later };
        self.later_until.saturating_duration_since(now)
    }
}
