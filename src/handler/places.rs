//! The places that limited jobs share ([`KindOptions::at_most`](crate::KindOptions::at_most)), and the line of those
//! that wait for one, over all workers of the process.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// How long a job may wait in memory: somewhat longer than one that was put off takes to come back
/// (`worker.promote_interval_ms` and a claim).
pub(crate) const HOLD: Duration = Duration::from_secs(2);

/// How long a job is put off, at the least and at the most. The most: should other workers come, or these jobs become
/// shorter, it is soon seen again.
const DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The places, shared by all that have a clone of the options.
pub(crate) struct Places {
    at_most: usize,
    line: Mutex<Line>,
}

/// Who is in and who waits. While anybody waits, no place is free.
pub(crate) struct Line {
    at_most: usize,
    taken: usize,
    /// Once for each job that waits, the longest wait first.
    waiting: VecDeque<Arc<dyn Waiter>>,
    /// `None`: none has ended yet.
    mean_run: Option<Duration>,
    /// When a place was taken or given back last.
    changed_at: Instant,
    /// Until when there is work, with all that was put off.
    booked_until: Instant,
}

/// The jobs of one handler that wait in one worker.
pub(crate) trait Waiter: Send + Sync {
    /// The one of its jobs that has waited longest has a place now. Is called under the lock on the line.
    fn has_place(self: Arc<Self>);

    /// Has its worker look again. Is called after that, without the lock.
    fn wake(&self);
}

impl Places {
    pub(crate) fn new(at_most: usize) -> Places {
        let now = Instant::now();
        let line =
            Line { at_most, taken: 0, waiting: VecDeque::new(), mean_run: None, changed_at: now, booked_until: now };
        Places { at_most, line: Mutex::new(line) }
    }

    pub(crate) fn at_most(&self) -> usize {
        self.at_most
    }

    pub(crate) fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock()
    }

    /// A place is free again: the next in the line has it, if there is one. `run`: how long the job took, if it ran.
    /// `from` is not woken, because it looks again by itself.
    pub(crate) fn give_back(&self, run: Option<Duration>, from: &dyn Waiter) {
        let mut line = self.line();
        let now = Instant::now();
        if let Some(run) = run {
            line.mean_run = Some(line.mean_run.map_or(run, |mean| (3 * mean + run) / 4));
        }
        line.changed_at = now;
        let Some(next) = line.waiting.pop_front() else {
            line.taken -= 1;
            line.booked_until = now; // whatever was put off may come
            return;
        };
        next.clone().has_place();
        drop(line);
        if !is(&next, from) {
            next.wake();
        }
    }
}

impl Line {
    /// Takes a place, if one is free.
    pub(crate) fn take_place(&mut self, now: Instant) -> bool {
        let is_free = self.taken < self.at_most;
        if is_free {
            self.taken += 1;
            self.changed_at = now;
        }
        is_free
    }

    /// One more job of `waiter` waits.
    pub(crate) fn join(&mut self, waiter: Arc<dyn Waiter>) {
        self.waiting.push_back(waiter);
    }

    /// The last `jobs` of `waiter` no longer wait.
    pub(crate) fn leave(&mut self, waiter: &dyn Waiter, jobs: usize) {
        for _ in 0..jobs {
            let last = self.waiting.iter().rposition(|waiting| is(waiting, waiter));
            last.and_then(|place| self.waiting.remove(place));
        }
    }

    pub(crate) fn others_wait(&self, waiter: &dyn Waiter) -> bool {
        self.waiting.iter().any(|waiting| !is(waiting, waiter))
    }

    /// How many jobs of one waiter may wait: so many that the last one's turn comes within [`HOLD`], were they alone,
    /// and one for each place.
    pub(crate) fn room(&self, now: Instant) -> usize {
        // Before one has ended nobody knows: a few will tell.
        let run = if self.mean_run.is_some() { self.run_time(now) } else { HOLD };
        let turns = HOLD.as_nanos() / run.as_nanos().max(1);
        self.at_most.saturating_mul(usize::try_from(turns).unwrap_or(usize::MAX).max(1))
    }

    /// Puts a job off: until its turn comes, behind all that wait and all that were put off before.
    pub(crate) fn book(&mut self, now: Instant) -> Duration {
        let share = self.run_time(now) / u32::try_from(self.at_most).unwrap_or(u32::MAX);
        let waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        let end_of_line = now + share.saturating_mul(waiting).min(DELAYS.1);
        self.booked_until = (self.booked_until.max(end_of_line) + share).min(now + DELAYS.1);
        self.booked_until.saturating_duration_since(now).max(DELAYS.0)
    }

    /// How long a job takes. Where they take much longer than those before: as long as has passed so far.
    fn run_time(&self, now: Instant) -> Duration {
        self.mean_run.unwrap_or_default().max(now.saturating_duration_since(self.changed_at))
    }

    #[cfg(test)]
    pub(crate) fn set_mean_run(&mut self, mean_run: Duration) {
        self.mean_run = Some(mean_run);
    }

    /// As if nothing had changed for that much longer.
    #[cfg(test)]
    pub(crate) fn age(&mut self, by: Duration) {
        self.changed_at -= by;
    }
}

fn is(waiter: &Arc<dyn Waiter>, other: &dyn Waiter) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(waiter), other)
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("at_most", &self.at_most).finish_non_exhaustive()
    }
}
