//! At most so many jobs of a kind at once ([`KindOptions::at_most`](crate::KindOptions::at_most)).
//!
//! ```text
//! channel ──▶ slot: is there room for the kind? ──yes──▶ runs ──ends──▶ the next one that waits goes before the channel
//!                            └──no──▶ waits here, where its turn comes within HOLD ──no──▶ put off until its turn
//! ```
//!
//! A job that waits holds no thread, and does not count as one that the threads have in store: others are claimed past it. A kind with a
//! long backlog would fill the memory so. What would wait for long goes back to SQL Server, scheduled for about when its turn comes, and the
//! claims get at what stands behind it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use parking_lot::Mutex;

use crate::ids::Fence;

use super::executor::Claimed;

/// How long a job may wait here: somewhat longer than one that was put off takes to come back (`worker.promote_interval_ms` and a claim).
const HOLD: Duration = Duration::from_secs(2);

/// How long a job is put off, at the least and at the most. The most: should other workers come, or these jobs become shorter, it is soon
/// seen again.
const DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

pub(super) struct KindLimits {
    /// By handler; `None`: without a limit.
    kinds: Vec<Option<Arc<KindLimit>>>,
    /// Jobs that have waited and may start.
    next: Receiver<Claimed>,
}

struct KindLimit {
    at_most: usize,
    state: Mutex<State>,
    next: Sender<Claimed>,
}

struct State {
    running: usize,
    waiting: VecDeque<Claimed>,
    mean_run: Duration,
    /// When one started or ended last.
    changed_at: Instant,
    /// Until when there is work, with all that was put off.
    booked_until: Instant,
}

/// A job may run. When this is dropped, another may.
pub(super) struct Permit {
    kind: Arc<KindLimit>,
    given_at: Instant,
}

/// What becomes of a job that is to start.
pub(super) enum Admission {
    Starts(Claimed),
    Waits,
    PutOff(Claimed, Duration),
}

impl KindLimits {
    /// With the limit of each handler.
    pub(super) fn new(limits: impl Iterator<Item = Option<usize>>) -> KindLimits {
        let (sender, next) = crossbeam_channel::unbounded();
        let now = Instant::now();
        let kind = |at_most| {
            let state = State {
                running: 0,
                waiting: VecDeque::new(),
                mean_run: Duration::ZERO,
                changed_at: now,
                booked_until: now,
            };
            Arc::new(KindLimit { at_most, state: Mutex::new(state), next: sender.clone() })
        };
        KindLimits { kinds: limits.map(|limit| limit.map(kind)).collect(), next }
    }

    /// A job that has waited and may start.
    pub(super) fn next(&self) -> Option<Claimed> {
        self.next.try_recv().ok()
    }

    /// How many have waited and may start.
    pub(super) fn ready(&self) -> usize {
        self.next.len()
    }

    /// Decides about a job of this handler.
    pub(super) fn admit(&self, handler: usize, mut claimed: Claimed) -> Admission {
        let Some(kind) = &self.kinds[handler] else {
            return Admission::Starts(claimed);
        };
        if claimed.permit.is_some() {
            return Admission::Starts(claimed);
        }
        let now = Instant::now();
        let mut state = kind.state.lock();
        if state.running < kind.at_most {
            state.running += 1;
            state.changed_at = now;
            claimed.permit = Some(Permit { kind: kind.clone(), given_at: now });
            return Admission::Starts(claimed);
        }
        let wait = kind.time_for(state.waiting.len() + 1, &state, now);
        // A job without a row cannot be put off; `worker.max_in_flight` bounds how many wait.
        if state.waiting.len() < kind.at_most || wait <= HOLD || claimed.job.fence() == Fence::NONE {
            claimed.held.parked(true);
            state.waiting.push_back(claimed);
            return Admission::Waits;
        }
        let turn = state.booked_until.max(now + wait) + kind.time_for(1, &state, now);
        state.booked_until = turn.min(now + DELAYS.1);
        Admission::PutOff(claimed, (state.booked_until - now).max(DELAYS.0))
    }

    /// Drops those that wait: the worker stops at once.
    pub(super) fn drop_waiting(&self) {
        // With nobody to take them, each one's permit would hand over to the next, one in the other.
        for kind in self.kinds.iter().flatten() {
            let waiting = std::mem::take(&mut kind.state.lock().waiting);
            drop(waiting);
        }
        while self.next.try_recv().is_ok() {}
    }

    /// Takes out those that wait and can be given back.
    pub(super) fn take_waiting(&self) -> Vec<Claimed> {
        let mut taken = Vec::new();
        for kind in self.kinds.iter().flatten() {
            let mut state = kind.state.lock();
            let has_row = |claimed: &Claimed| claimed.job.fence() != Fence::NONE;
            let (with_row, without_row): (Vec<_>, _) = state.waiting.drain(..).partition(has_row);
            state.waiting = without_row.into();
            taken.extend(with_row);
        }
        taken
    }
}

impl Drop for KindLimits {
    fn drop(&mut self) {
        self.drop_waiting();
    }
}

impl KindLimit {
    /// How long so many jobs take.
    fn time_for(&self, jobs: usize, state: &State, now: Instant) -> Duration {
        // Before one has ended, and where they take much longer than those before: as long as has passed so far.
        let run = state.mean_run.max(now.saturating_duration_since(state.changed_at));
        run.saturating_mul(jobs as u32) / self.at_most as u32
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let kind = &self.kind;
        let now = Instant::now();
        let mut state = kind.state.lock();
        let run = now - self.given_at;
        state.mean_run = if state.mean_run.is_zero() { run } else { (3 * state.mean_run + run) / 4 };
        state.changed_at = now;
        let Some(mut next) = state.waiting.pop_front() else {
            state.running -= 1;
            state.booked_until = now; // whatever was put off may come
            return;
        };
        drop(state);
        next.permit = Some(Permit { kind: kind.clone(), given_at: now });
        next.held.parked(false);
        let _ = kind.next.send(next); // refused only when the worker is gone
    }
}
