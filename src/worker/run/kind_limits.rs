//! Limits how many jobs of a kind run at once ([`KindOptions::at_most`](crate::handler::KindOptions::at_most)).
//!
//! ```text
//! channel ──▶ a free thread: is there a place for the kind? ──yes──▶ runs ──finishes──▶ the next waiting job
//!                             └──no──▶ waits here if its turn comes within HOLD ──otherwise──▶ postponed until its turn
//! ```
//!
//! All workers that share a limit also share the order of its line ([`SharedLimit`]), but each worker keeps its own
//! waiting jobs.
//!
//! A waiting job occupies no thread, and does not count as a job that a thread could run, so claims continue. A kind
//! with a long backlog would thus fill the memory. A job that would wait long is therefore postponed in SQL Server
//! until about its turn, so that claims reach the jobs behind it. Jobs that are already waiting are also postponed if
//! the running jobs take longer than expected.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::handler::{Line, Permit, SharedLimit, Threads, WaiterId};
use crate::worker::lease::Claimed;

use super::admission::Admission;

/// The limits, by handler; `None` means that there is no limit.
pub(in crate::worker) struct KindLimits(Vec<Option<KindLimit>>);

struct KindLimit {
    places: Arc<SharedLimit>,
    waiter: WaiterId,
    /// The waiting jobs, each with the time since when it has waited, the longest wait first. Changed only under the
    /// lock of the line, which counts these jobs.
    waiting: Mutex<VecDeque<(Instant, Claimed)>>,
}

impl KindLimits {
    /// Creates the limits for a worker that runs on `threads`. `places` has the shared limit of each handler.
    pub(in crate::worker) fn new<'a>(
        places: impl Iterator<Item = Option<&'a Arc<SharedLimit>>>,
        threads: &Arc<impl Threads + 'static>,
    ) -> KindLimits {
        let kind = |places: &Arc<SharedLimit>| KindLimit {
            places: places.clone(),
            waiter: places.join(threads.clone()),
            waiting: Mutex::default(),
        };
        let kinds: Vec<_> = places.map(|places| places.map(kind)).collect();
        KindLimits(if kinds.iter().all(Option::is_none) { Vec::new() } else { kinds })
    }

    /// Returns a job that has waited and now has a permit. It must be started immediately.
    pub(in crate::worker) fn next(&self) -> Option<Claimed> {
        let startable = |kind: &'_ &KindLimit| kind.places.startable(kind.waiter).map(|(_, since)| since);
        let kinds = self.kinds().filter_map(|kind| Some((startable(&kind)?, kind)));
        let (_, first) = kinds.min_by_key(|(since, _)| *since)?;
        first.change(|line, waiting, now| {
            // Another thread may have been faster.
            if waiting.is_empty() || !line.take_place(first.waiter, now) {
                return None;
            }
            let (_, mut claimed) = waiting.pop_front()?;
            claimed.permit = Some(Permit::new(&first.places, first.waiter));
            Some(claimed)
        })
    }

    /// Whether the jobs of this handler have a limit.
    pub(in crate::worker) fn limits(&self, handler: usize) -> bool {
        self.0.get(handler).is_some_and(Option::is_some)
    }

    /// Returns how many jobs have waited and could start now.
    pub(in crate::worker) fn ready(&self) -> usize {
        self.kinds().filter_map(|kind| kind.places.startable(kind.waiter)).map(|(jobs, _)| jobs).sum()
    }

    /// Decides whether a job of this handler starts, waits, or is postponed.
    pub(in crate::worker) fn admit(&self, handler: usize, mut claimed: Claimed) -> Admission {
        let Some(kind) = self.0.get(handler).and_then(Option::as_ref) else {
            return Admission::Starts(claimed);
        };
        if let Some(permit) = &mut claimed.permit {
            permit.starts();
            return Admission::Starts(claimed);
        }
        kind.change(|line, waiting, now| {
            // (Jobs that already wait here go first.)
            if waiting.is_empty() && line.take_place(kind.waiter, now) {
                claimed.permit.insert(Permit::new(&kind.places, kind.waiter)).starts();
                return Admission::Starts(claimed);
            }
            // A job without a row cannot be postponed; `worker.max_in_flight` limits how many wait.
            if waiting.len() < line.room(kind.waiter, now) || !claimed.has_row() {
                claimed.held.parked();
                claimed.waits_since.get_or_insert(now);
                waiting.push_back((now, claimed));
                return Admission::Waits;
            }
            Admission::PutOff(claimed, line.book(kind.waiter, now))
        })
    }

    /// Removes the jobs that have waited much longer than was expected when they arrived, each with the delay until its
    /// turn.
    pub(in crate::worker) fn take_surplus(&self) -> Vec<(Claimed, Duration)> {
        let mut surplus = Vec::new();
        for kind in self.kinds() {
            kind.change(|line, waiting, now| {
                let room = 2 * line.room(kind.waiter, now);
                while waiting.len() > room && waiting.back().is_some_and(|(_, claimed)| claimed.has_row()) {
                    let last = waiting.pop_back();
                    line.set_waiting(kind.waiter, waiting.len(), None); // the job does not wait behind itself
                    surplus.extend(last.map(|(_, claimed)| (claimed, line.book(kind.waiter, now))));
                }
            });
        }
        surplus
    }

    /// Drops the waiting jobs: the worker stops immediately.
    pub(in crate::worker) fn drop_waiting(&self) {
        self.kinds().for_each(|kind| drop(kind.take_waiting(|_| true)));
    }

    /// Removes the waiting jobs for which `which` holds.
    pub(in crate::worker) fn take_waiting(&self, which: impl Fn(&Claimed) -> bool) -> Vec<Claimed> {
        self.kinds().flat_map(|kind| kind.take_waiting(&which)).collect()
    }

    fn kinds(&self) -> impl Iterator<Item = &KindLimit> {
        self.0.iter().flatten()
    }
}

impl KindLimit {
    /// Changes the line and the jobs that wait here, together.
    fn change<T>(&self, change: impl FnOnce(&mut Line, &mut VecDeque<(Instant, Claimed)>, Instant) -> T) -> T {
        self.places.change(|line, now| {
            let mut waiting = self.waiting.lock();
            let changed = change(line, &mut waiting, now);
            line.set_waiting(self.waiter, waiting.len(), waiting.front().map(|(since, _)| *since));
            changed
        })
    }

    fn take_waiting(&self, which: impl Fn(&Claimed) -> bool) -> Vec<Claimed> {
        let taken: Vec<_> = self.change(|_, waiting, _| {
            let (taken, left): (Vec<_>, Vec<_>) = waiting.drain(..).partition(|(_, claimed)| which(claimed));
            *waiting = left.into();
            taken
        });
        taken.into_iter().map(|(_, claimed)| claimed).collect()
    }
}

impl Drop for KindLimit {
    fn drop(&mut self) {
        self.places.leave(self.waiter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WorkerConfig;
    use crate::handler::HOLD;
    use crate::id::Fence;
    use crate::job::{Job, NewJob};
    use crate::worker::lease::HeldJob;
    use crate::worker::lease::LeaseValidity;
    use crate::worker::lease::Registration;
    use crate::worker::run::fair_pool::FairPool;
    use crate::worker::run::worker_turns::Jobs;
    use crate::worker::state::WorkerState;

    /// Creates `count` unstarted jobs with this fence, which is `Fence::NONE` for a queue with delivery `at_most_once`.
    fn jobs(state: &WorkerState, count: usize, fence: Fence) -> Vec<Claimed> {
        let registration = Arc::new(Registration::for_test(Arc::new(LeaseValidity::default())));
        let job = || Job { fence, ..Job::for_test(NewJob::text("")) };
        let held = HeldJob::claimed(&registration, &state.in_flight, (0..count).map(|_| job()).collect());
        let claimed_at = Instant::now();
        held.into_iter().map(|(job, held)| Claimed::new(job, held, claimed_at, None)).collect()
    }

    fn on_own_pool(places: &Arc<SharedLimit>) -> KindLimits {
        KindLimits::new([Some(places)].into_iter(), &FairPool::own(1, None).unwrap())
    }

    /// One job is running, the one before it took a millisecond, and a hundred are waiting.
    fn one_runs_and_others_wait(state: &WorkerState, fence: Fence) -> (Arc<SharedLimit>, KindLimits, Claimed) {
        let places = Arc::new(SharedLimit::new(1));
        let limits = on_own_pool(&places);
        let mut jobs = jobs(state, 102, fence).into_iter();
        drop(started(&limits, jobs.next().unwrap()));
        set_mean_run(&limits, Duration::from_millis(1));
        let running = started(&limits, jobs.next().unwrap());
        assert!(jobs.all(|job| matches!(limits.admit(0, job), Admission::Waits)));
        (places, limits, running)
    }

    fn set_mean_run(limits: &KindLimits, mean_run: Duration) {
        limits.kinds().for_each(|kind| kind.places.change(|line, _| line.set_mean_run(kind.waiter, mean_run)));
    }

    /// A job that has a place.
    fn started(limits: &KindLimits, job: Claimed) -> Claimed {
        let Admission::Starts(mut running) = limits.admit(0, job) else { panic!("there is no place") };
        running.held.started();
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
        places.change(|line, _| line.age(HOLD)); // it has run for this long by now
        let surplus = limits.take_surplus();
        let delays: Vec<Duration> = surplus.into_iter().map(|(_, delay)| delay).collect();
        assert_eq!((delays.len(), state.in_flight.parked()), (98, 2));
        // As time passes, some of the jobs that come later have their turn within a minute.
        let (later, soon): (Vec<&Duration>, Vec<&Duration>) =
            delays.iter().partition(|delay| **delay >= Duration::from_secs(60));
        assert!(later.is_sorted() && later.last().is_some_and(|delay| delay.as_secs() < 62), "{delays:?}");
        assert!(soon.is_sorted() && soon.iter().all(|delay| **delay >= Duration::from_secs(1)), "{delays:?}");
    }

    #[tokio::test]
    async fn what_has_no_row_waits_however_long() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let (places, limits, _running) = one_runs_and_others_wait(&state, Fence::NONE);
        places.change(|line, _| line.age(Duration::from_secs(3_600)));
        assert!(limits.take_surplus().is_empty() && limits.take_waiting(Claimed::has_row).is_empty());
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

    // Two workers with the same places.

    #[tokio::test]
    async fn those_that_wait_in_two_workers_start_in_the_order_in_which_they_came() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let places = Arc::new(SharedLimit::new(1));
        let (one, other) = (on_own_pool(&places), on_own_pool(&places));
        [&one, &other].into_iter().for_each(|limits| set_mean_run(limits, Duration::from_millis(1)));
        let mut jobs = jobs(&state, 5, Fence(1)).into_iter();
        let mut running = started(&one, jobs.next().unwrap());
        let turns = [&other, &other, &one, &other];
        for limits in turns {
            assert!(matches!(limits.admit(0, jobs.next().unwrap()), Admission::Waits));
        }
        let mut last = &one;
        for limits in turns {
            drop(running);
            assert!(std::ptr::eq(last, limits) || last.ready() == 0, "the place is kept for the other");
            running = started(limits, limits.next().expect("it is its turn"));
            last = limits;
        }
    }

    #[tokio::test]
    async fn the_places_of_a_worker_that_goes_are_the_others() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let (places, one, running) = one_runs_and_others_wait(&state, Fence(1));
        let other = on_own_pool(&places);
        assert!(matches!(other.admit(0, jobs(&state, 1, Fence(1)).remove(0)), Admission::Waits));
        drop(running);
        assert_eq!(one.ready(), 1);
        drop(one);
        assert_eq!((other.ready(), state.in_flight.jobs()), (1, 1));
    }

    #[tokio::test]
    async fn a_place_that_a_busy_worker_could_not_use_is_for_its_next_free_thread() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let (_, limits, running) = one_runs_and_others_wait(&state, Fence(1));
        drop(running);
        assert_eq!(limits.ready(), 1, "a place is free, and kept for nobody else");
        drop(started(&limits, limits.next().unwrap()));
        assert_eq!((limits.ready(), state.in_flight.parked()), (1, 99));
    }

    /// A worker's jobs that only its pool starts.
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
        let places = Arc::new(SharedLimit::new(1));
        let busy = on_own_pool(&places);
        let mut jobs = jobs(&state, 2, Fence(1)).into_iter();
        let running = started(&busy, jobs.next().unwrap());

        let pool = FairPool::own(1, None).unwrap();
        let (starts, has_started) = std::sync::mpsc::channel();
        let idle = Arc::new(OfWorker { limits: KindLimits::new([Some(&places)].into_iter(), &pool), starts });
        let as_jobs: Arc<dyn Jobs> = idle.clone();
        pool.join(Arc::downgrade(&as_jobs), 1, 0);
        assert!(matches!(idle.limits.admit(0, jobs.next().unwrap()), Admission::Waits));
        drop(running);
        assert_eq!(has_started.recv_timeout(Duration::from_secs(60)), Ok(()));
    }
}
