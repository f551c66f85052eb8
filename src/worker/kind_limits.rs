//! At most so many jobs of a kind at once ([`KindOptions::at_most`](crate::KindOptions::at_most)).
//!
//! ```text
//! channel ──▶ slot: is there room for the kind? ──yes──▶ runs ──ends──▶ the next one that waits goes before the channel
//!                            └──no──▶ waits here, where its turn comes within HOLD ──no──▶ put off until its turn
//! ```
//!
//! A job that waits holds no thread, and does not count as one that the threads have in store: others are claimed past
//! it. A kind with a long backlog would fill the memory so. What would wait for long goes back to SQL Server, scheduled
//! for about when its turn comes, and the claims get at what stands behind it. So does what waits already, when the
//! jobs turn out to be longer than those before.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use parking_lot::Mutex;

use crate::ids::Fence;

use super::executor::Claimed;

/// How long a job may wait here: somewhat longer than one that was put off takes to come back
/// (`worker.promote_interval_ms` and a claim).
const HOLD: Duration = Duration::from_secs(2);

/// How long a job is put off, at the least and at the most. The most: should other workers come, or these jobs become
/// shorter, it is soon seen again.
const DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

pub(super) struct KindLimits {
    /// By handler; `None`: without a limit.
    kinds: Vec<Option<Arc<KindLimit>>>,
    are_none: bool,
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
    /// `None`: none has ended yet.
    mean_run: Option<Duration>,
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
            let state =
                State { running: 0, waiting: VecDeque::new(), mean_run: None, changed_at: now, booked_until: now };
            Arc::new(KindLimit { at_most, state: Mutex::new(state), next: sender.clone() })
        };
        let kinds: Vec<_> = limits.map(|limit| limit.map(kind)).collect();
        KindLimits { are_none: kinds.iter().all(Option::is_none), kinds, next }
    }

    /// A job that has waited and may start.
    pub(super) fn next(&self) -> Option<Claimed> {
        // (A look into a channel is dear where each job has one, and nearly nobody has a limit.)
        if self.are_none { None } else { self.next.try_recv().ok() }
    }

    /// How many have waited and may start.
    pub(super) fn ready(&self) -> usize {
        if self.are_none { 0 } else { self.next.len() }
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
        // A job without a row cannot be put off; `worker.max_in_flight` bounds how many wait.
        if state.waiting.len() < kind.room(&state, now) || claimed.job.fence() == Fence::NONE {
            claimed.held.parked(true);
            state.waiting.push_back(claimed);
            return Admission::Waits;
        }
        let delay = kind.book(&mut state, now);
        Admission::PutOff(claimed, delay)
    }

    /// Whether no kind has a limit.
    pub(super) fn are_none(&self) -> bool {
        self.are_none
    }

    /// Takes out those that wait for much longer than it looked when they came, with the time for which each is to be
    /// put off.
    pub(super) fn take_surplus(&self) -> Vec<(Claimed, Duration)> {
        let mut surplus = Vec::new();
        for kind in self.kinds.iter().flatten() {
            let now = Instant::now();
            let mut state = kind.state.lock();
            let room = 2 * kind.room(&state, now);
            while state.waiting.len() > room {
                match state.waiting.pop_back() {
                    Some(claimed) if claimed.job.fence() != Fence::NONE => {
                        surplus.push((claimed, kind.book(&mut state, now)));
                    }
                    without_row => {
                        state.waiting.extend(without_row);
                        break;
                    }
                }
            }
        }
        surplus
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
    /// How long a job of this kind takes. Where they take much longer than those before: as long as has passed so far.
    fn run_time(&self, state: &State, now: Instant) -> Duration {
        state.mean_run.unwrap_or_default().max(now.saturating_duration_since(state.changed_at))
    }

    /// How many may wait: so many that the last one's turn comes within [`HOLD`], and one for each that runs.
    fn room(&self, state: &State, now: Instant) -> usize {
        // Before one has ended nobody knows: a few will tell.
        let run = if state.mean_run.is_some() { self.run_time(state, now) } else { HOLD };
        let turns = HOLD.as_nanos() / run.as_nanos().max(1);
        self.at_most.saturating_mul(usize::try_from(turns).unwrap_or(usize::MAX).max(1))
    }

    /// Until its turn comes, behind all that wait and all that were put off before.
    fn book(&self, state: &mut State, now: Instant) -> Duration {
        let share = self.run_time(state, now) / self.at_most as u32;
        let end_of_line = now + share.saturating_mul(state.waiting.len() as u32);
        state.booked_until = (state.booked_until.max(end_of_line) + share).min(now + DELAYS.1);
        (state.booked_until - now).max(DELAYS.0)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let kind = &self.kind;
        let now = Instant::now();
        let mut state = kind.state.lock();
        let run = now - self.given_at;
        state.mean_run = Some(state.mean_run.map_or(run, |mean| (3 * mean + run) / 4));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WorkerConfig;
    use crate::job::{Job, NewJob};
    use crate::worker::held_job::Held;
    use crate::worker::lease_validity::LeaseValidity;
    use crate::worker::registration::Registration;
    use crate::worker::worker_state::WorkerState;

    /// So many unstarted jobs, of the queue's delivery.
    fn jobs(state: &WorkerState, count: usize, fence: Fence) -> Vec<Claimed> {
        let registration = Arc::new(Registration::for_test(Arc::new(LeaseValidity::default())));
        let job = || Job { fence, ..Job::for_test(NewJob::text("")) };
        let held = Held::claimed(&registration, &state.in_flight, (0..count).map(|_| job()).collect());
        let claimed_at = Instant::now();
        held.into_iter().map(|(job, held)| Claimed { job, held, claimed_at, permit: None }).collect()
    }

    /// One runs, after one that took a millisecond, and a hundred wait.
    fn one_runs_and_others_wait(state: &WorkerState, fence: Fence) -> (KindLimits, Claimed) {
        let limits = KindLimits::new([Some(1)].into_iter());
        let mut jobs = jobs(state, 102, fence).into_iter();
        let Admission::Starts(first) = limits.admit(0, jobs.next().unwrap()) else { panic!("nothing runs yet") };
        drop(first);
        limits.kind(0).state.lock().mean_run = Some(Duration::from_millis(1));
        let Admission::Starts(running) = limits.admit(0, jobs.next().unwrap()) else { panic!("nothing runs") };
        assert!(jobs.all(|job| matches!(limits.admit(0, job), Admission::Waits)));
        (limits, running)
    }

    #[tokio::test]
    async fn what_waits_starts_one_by_one() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let (limits, mut running) = one_runs_and_others_wait(&state, Fence(1));
        for left in (0..100).rev() {
            assert_eq!((limits.ready(), state.in_flight.parked()), (0, left + 1));
            drop(running);
            let next = limits.next().expect("there is room for one now");
            let Admission::Starts(next) = limits.admit(0, next) else { panic!("it has a permit") };
            running = next;
        }
        drop(running);
        assert!(limits.next().is_none());
        assert_eq!(state.in_flight.jobs(), 0);
    }

    #[tokio::test]
    async fn when_jobs_turn_out_to_be_long_those_that_wait_are_put_off_one_after_the_other() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let (limits, _running) = one_runs_and_others_wait(&state, Fence(1));
        assert!(limits.take_surplus().is_empty());
        limits.kind(0).state.lock().changed_at -= Duration::from_secs(2); // so long it runs by now
        let surplus = limits.take_surplus();
        let delays: Vec<Duration> = surplus.into_iter().map(|(_, delay)| delay).collect();
        assert_eq!((delays.len(), state.in_flight.parked()), (98, 2));
        assert!(delays.is_sorted() && delays[0] >= DELAYS.0 && delays[97] == DELAYS.1, "{delays:?}");
    }

    #[tokio::test]
    async fn what_has_no_row_waits_however_long() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let (limits, _running) = one_runs_and_others_wait(&state, Fence::NONE);
        limits.kind(0).state.lock().changed_at -= Duration::from_secs(3_600);
        assert!(limits.take_surplus().is_empty() && limits.take_waiting().is_empty());
        let late = jobs(&state, 1, Fence::NONE).remove(0);
        assert!(matches!(limits.admit(0, late), Admission::Waits));
        assert_eq!(state.in_flight.parked(), 101);
    }

    #[tokio::test]
    async fn nothing_is_left_counted_when_the_worker_goes_while_jobs_wait() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let (limits, running) = one_runs_and_others_wait(&state, Fence(1));
        drop(limits);
        drop(running);
        assert_eq!(state.in_flight.jobs(), 0);
    }

    impl KindLimits {
        fn kind(&self, handler: usize) -> &KindLimit {
            self.kinds[handler].as_ref().unwrap()
        }
    }
}
