//! At most so many jobs of a kind at once ([`KindOptions::at_most`](crate::KindOptions::at_most)).
//!
//! ```text
//! channel ──▶ slot: is there a place for the kind? ──yes──▶ runs ──ends──▶ the next one that waits goes before the channel
//!                            └──no──▶ waits here, where its turn comes within HOLD ──no──▶ put off until its turn
//! ```
//!
//! The places, and the order of those that wait, are one for all workers that share them
//! ([`Places`](crate::handler::Places)); the jobs wait here, each in its worker.
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

use crate::handler::{HOLD, Line, Places, Waiter};
use crate::ids::Fence;

use super::executor::Claimed;
use super::pool::Pool;

pub(super) struct KindLimits {
    /// By handler; `None`: without a limit.
    kinds: Vec<Option<Arc<KindLimit>>>,
    are_none: bool,
    /// Jobs that have waited and may start.
    next: Receiver<Claimed>,
    sender: Sender<Claimed>,
}

/// The jobs of one handler that wait.
struct KindLimit {
    places: Arc<Places>,
    /// Changed only under the lock on the line, in which each of these stands.
    waiting: Mutex<VecDeque<Claimed>>,
    next: Sender<Claimed>,
    pool: Arc<Pool>,
}

/// A job may run: it has a place, and gives it back when this is dropped.
pub(super) struct Permit {
    kind: Arc<KindLimit>,
    given_at: Instant,
    started_at: Option<Instant>,
}

/// What becomes of a job that is to start.
pub(super) enum Admission {
    Starts(Claimed),
    Waits,
    PutOff(Claimed, Duration),
}

impl KindLimits {
    /// With the places of each handler, for a worker on `pool`.
    pub(super) fn new<'a>(places: impl Iterator<Item = Option<&'a Arc<Places>>>, pool: &Arc<Pool>) -> KindLimits {
        let (sender, next) = crossbeam_channel::unbounded();
        let kind = |places: &Arc<Places>| {
            let waiting = Mutex::default();
            Arc::new(KindLimit { places: places.clone(), waiting, next: sender.clone(), pool: pool.clone() })
        };
        let kinds: Vec<_> = places.map(|places| places.map(kind)).collect();
        KindLimits { are_none: kinds.iter().all(Option::is_none), kinds, next, sender }
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
        let now = Instant::now();
        if let Some(permit) = &mut claimed.permit {
            permit.started_at = Some(now);
            return Admission::Starts(claimed);
        }
        let mut line = kind.places.line();
        if line.take_place(now) {
            claimed.permit = Some(Permit { kind: kind.clone(), given_at: now, started_at: Some(now) });
            return Admission::Starts(claimed);
        }
        let waiting = kind.waiting.lock().len();
        // A job without a row cannot be put off; `worker.max_in_flight` bounds how many wait.
        if waiting < line.room(now) || !has_row(&claimed) {
            kind.wait(&mut line, claimed);
            return Admission::Waits;
        }
        Admission::PutOff(claimed, line.book(now))
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
            let mut line = kind.places.line();
            let mut waiting = kind.waiting.lock();
            let room = 2 * line.room(now);
            while waiting.len() > room && waiting.back().is_some_and(has_row) {
                line.leave(&**kind, 1);
                let delay = line.book(now);
                surplus.extend(waiting.pop_back().map(|claimed| (claimed, delay)));
            }
        }
        surplus
    }

    /// Lets others go first that wait for a place which a job here has had for [`HOLD`] without starting: all threads
    /// are busy, or the lease is in doubt.
    pub(super) fn pass_on(&self) {
        for _ in 0..self.next.len() {
            let Some(mut claimed) = self.next() else { return };
            let is_due = |permit: &mut Permit| {
                let kind = &permit.kind;
                permit.given_at.elapsed() >= HOLD && kind.places.line().others_wait(&**kind)
            };
            let Some(permit) = claimed.permit.take_if(is_due) else {
                let _ = self.sender.send(claimed); // never refused: the receiver is here
                continue;
            };
            permit.kind.wait(&mut permit.kind.places.line(), claimed);
            drop(permit); // to the first in the line, behind which this one now stands
        }
    }

    /// Drops those that wait: the worker stops at once.
    pub(super) fn drop_waiting(&self) {
        // They leave the line first: with nobody to take them, each one's permit would hand over to the next, one in
        // the other.
        for kind in self.kinds.iter().flatten() {
            drop(kind.take_waiting(|_| true));
        }
        while self.next.try_recv().is_ok() {}
    }

    /// Takes out those that wait and can be given back.
    pub(super) fn take_waiting(&self) -> Vec<Claimed> {
        self.kinds.iter().flatten().flat_map(|kind| kind.take_waiting(has_row)).collect()
    }
}

impl Drop for KindLimits {
    fn drop(&mut self) {
        self.drop_waiting();
    }
}

/// A job of an `at_most_once` queue has none any more.
fn has_row(claimed: &Claimed) -> bool {
    claimed.job.fence() != Fence::NONE
}

impl KindLimit {
    fn wait(self: &Arc<Self>, line: &mut Line, mut claimed: Claimed) {
        claimed.held.parked(true);
        self.waiting.lock().push_back(claimed);
        line.join(self.clone());
    }

    fn take_waiting(&self, which: impl Fn(&Claimed) -> bool) -> Vec<Claimed> {
        let mut line = self.places.line();
        let mut waiting = self.waiting.lock();
        let (taken, left): (Vec<_>, Vec<_>) = waiting.drain(..).partition(which);
        *waiting = left.into();
        line.leave(self, taken.len());
        taken
    }
}

impl Waiter for KindLimit {
    fn has_place(self: Arc<Self>) {
        let mut next = self.waiting.lock().pop_front().expect("it stands in the line once for each that waits");
        next.held.parked(false);
        next.permit = Some(Permit { kind: self.clone(), given_at: Instant::now(), started_at: None });
        let _ = self.next.send(next); // never refused: what waits has left the line before the receiver goes
    }

    fn wake(&self) {
        self.pool.pump();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.kind.places.give_back(self.started_at.map(|at| at.elapsed()), &*self.kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WorkerConfig;
    use crate::job::{Job, NewJob};
    use crate::worker::held_job::Held;
    use crate::worker::lease_validity::LeaseValidity;
    use crate::worker::pool::Jobs;
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

    fn on_own_pool(places: &Arc<Places>) -> KindLimits {
        KindLimits::new([Some(places)].into_iter(), &Pool::own(1, None).unwrap())
    }

    /// One runs, after one that took a millisecond, and a hundred wait.
    fn one_runs_and_others_wait(state: &WorkerState, fence: Fence) -> (Arc<Places>, KindLimits, Claimed) {
        let places = Arc::new(Places::new(1));
        let limits = on_own_pool(&places);
        let mut jobs = jobs(state, 102, fence).into_iter();
        drop(started(&limits, jobs.next().unwrap()));
        places.line().set_mean_run(Duration::from_millis(1));
        let running = started(&limits, jobs.next().unwrap());
        assert!(jobs.all(|job| matches!(limits.admit(0, job), Admission::Waits)));
        (places, limits, running)
    }

    /// A job for which there is a place.
    fn started(limits: &KindLimits, job: Claimed) -> Claimed {
        let Admission::Starts(running) = limits.admit(0, job) else { panic!("there is no place") };
        running
    }

    #[tokio::test]
    async fn what_waits_starts_one_by_one() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let (_, limits, mut running) = one_runs_and_others_wait(&state, Fence(1));
        for left in (0..100).rev() {
            assert_eq!((limits.ready(), state.in_flight.parked()), (0, left + 1));
            drop(running);
            running = started(&limits, limits.next().expect("there is room for one now"));
        }
        drop(running);
        assert!(limits.next().is_none());
        assert_eq!(state.in_flight.jobs(), 0);
    }

    #[tokio::test]
    async fn when_jobs_turn_out_to_be_long_those_that_wait_are_put_off_one_after_the_other() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let (places, limits, _running) = one_runs_and_others_wait(&state, Fence(1));
        assert!(limits.take_surplus().is_empty());
        places.line().age(HOLD); // so long it runs by now
        let surplus = limits.take_surplus();
        let delays: Vec<Duration> = surplus.into_iter().map(|(_, delay)| delay).collect();
        assert_eq!((delays.len(), state.in_flight.parked()), (98, 2));
        assert!(
            delays.is_sorted() && delays[0] >= Duration::from_secs(1) && delays[97] == Duration::from_secs(60),
            "{delays:?}"
        );
    }

    #[tokio::test]
    async fn what_has_no_row_waits_however_long() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let (places, limits, _running) = one_runs_and_others_wait(&state, Fence::NONE);
        places.line().age(Duration::from_secs(3_600));
        assert!(limits.take_surplus().is_empty() && limits.take_waiting().is_empty());
        let late = jobs(&state, 1, Fence::NONE).remove(0);
        assert!(matches!(limits.admit(0, late), Admission::Waits));
        assert_eq!(state.in_flight.parked(), 101);
    }

    #[tokio::test]
    async fn nothing_is_left_counted_when_the_worker_goes_while_jobs_wait() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let (_, limits, running) = one_runs_and_others_wait(&state, Fence(1));
        drop(limits);
        drop(running);
        assert_eq!(state.in_flight.jobs(), 0);
    }

    // Two workers with the same places

    #[tokio::test]
    async fn those_that_wait_in_two_workers_start_in_the_order_in_which_they_came() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let places = Arc::new(Places::new(1));
        places.line().set_mean_run(Duration::from_millis(1));
        let (one, other) = (on_own_pool(&places), on_own_pool(&places));
        let mut jobs = jobs(&state, 5, Fence(1)).into_iter();
        let mut running = started(&one, jobs.next().unwrap());
        let turns = [&other, &other, &one, &other];
        for limits in turns {
            assert!(matches!(limits.admit(0, jobs.next().unwrap()), Admission::Waits));
        }
        for limits in turns {
            drop(running);
            assert_eq!(one.ready() + other.ready(), 1);
            running = started(limits, limits.next().expect("it is its turn"));
        }
    }

    #[tokio::test]
    async fn the_places_of_a_worker_that_goes_are_the_others() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let (places, one, running) = one_runs_and_others_wait(&state, Fence(1));
        let other = on_own_pool(&places);
        assert!(matches!(other.admit(0, jobs(&state, 1, Fence(1)).remove(0)), Admission::Waits));
        drop(running);
        assert_eq!((one.ready(), other.ready()), (1, 0));
        drop(one);
        assert_eq!((other.ready(), state.in_flight.jobs()), (1, 1));
    }

    #[tokio::test]
    async fn a_job_that_cannot_start_lets_others_go_first() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let (places, busy, running) = one_runs_and_others_wait(&state, Fence(1));
        busy.take_waiting();
        let waits = |limits: &KindLimits| limits.admit(0, jobs(&state, 1, Fence(1)).remove(0));
        assert!(matches!(waits(&busy), Admission::Waits));
        drop(running);
        let aged = |claimed: Option<Claimed>| {
            let mut claimed = claimed.expect("it has a place");
            claimed.permit.as_mut().unwrap().given_at -= HOLD;
            busy.sender.send(claimed).unwrap();
        };
        aged(busy.next());
        busy.pass_on();
        assert_eq!(busy.ready(), 1, "nobody else waits");
        let idle = on_own_pool(&places);
        assert!(matches!(waits(&idle), Admission::Waits));
        busy.pass_on();
        assert_eq!((busy.ready(), idle.ready(), state.in_flight.parked()), (0, 1, 1));
        drop(started(&idle, idle.next().unwrap()));
        assert_eq!(busy.ready(), 1, "it is its turn again");
    }

    /// A worker's jobs that nobody but its pool starts.
    struct OfWorker {
        limits: KindLimits,
        starts: std::sync::mpsc::Sender<()>,
    }

    impl Jobs for OfWorker {
        fn waiting(&self) -> usize {
            self.limits.ready()
        }

        fn run(&self, _slice_end: Instant) {
            self.limits.next().inspect(|_| self.starts.send(()).unwrap());
        }

        fn panicked(&self, _panic: Box<dyn std::any::Any + Send>) {}
    }

    #[tokio::test]
    async fn a_place_that_one_worker_gives_back_wakes_the_other() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let places = Arc::new(Places::new(1));
        let busy = on_own_pool(&places);
        let mut jobs = jobs(&state, 2, Fence(1)).into_iter();
        let running = started(&busy, jobs.next().unwrap());

        let pool = Pool::own(1, None).unwrap();
        let (starts, has_started) = std::sync::mpsc::channel();
        let idle = Arc::new(OfWorker { limits: KindLimits::new([Some(&places)].into_iter(), &pool), starts });
        let as_jobs: Arc<dyn Jobs> = idle.clone();
        pool.join(Arc::downgrade(&as_jobs), 1, 0);
        assert!(matches!(idle.limits.admit(0, jobs.next().unwrap()), Admission::Waits));
        drop(running);
        assert_eq!(has_started.recv_timeout(Duration::from_secs(60)), Ok(()));
    }
}
