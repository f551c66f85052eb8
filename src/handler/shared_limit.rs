//! A concurrency limit that jobs share ([`KindOptions::at_most`](super::kind_options::KindOptions::at_most)): a fixed
//! number of places, handed out to waiting jobs in order across all workers of the process.
//!
//! Only a thread that is about to start a job takes a place, so a worker whose threads are all busy keeps none. A place
//! that becomes free is offered to the worker whose job has waited longest, among the workers with a free thread. If
//! there is no such worker, the first thread that asks gets it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::turn_bookings::{HOLD, TurnBookings};

/// How long a place is kept for the worker to which it was offered. A free thread takes it within microseconds. If none
/// does, the threads are running other work of the program, or the worker may not start jobs because its lease is in
/// doubt.
const OFFER: Duration = Duration::from_millis(500);

/// For how long no place is offered to a worker that did not take an offered place. The worker can still take a free
/// place.
const PASSED_OVER: Duration = Duration::from_secs(10);

/// The places that all clones of the options share.
pub(crate) struct SharedLimit(Mutex<Line>);

/// The number of taken places, and the queue for them.
pub(crate) struct Line {
    at_most: usize,
    taken: usize,
    waiters: Vec<Waiter>,
    joined: u64,
    /// A free place that is kept for one of the waiters.
    offer: Option<Offer>,
    /// When a place was last taken or returned.
    changed_at: Instant,
    bookings: TurnBookings,
}

/// The jobs of one handler in one worker.
struct Waiter {
    id: WaiterId,
    threads: Arc<dyn Threads>,
    /// The number of waiting jobs, and since when the first of them has waited.
    waiting: usize,
    since: Option<Instant>,
    /// The mean run time, or `None` until a job has run.
    mean_run: Option<Duration>,
    passed_over_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaiterId(u64);

#[derive(Clone, Copy)]
struct Offer {
    to: WaiterId,
    made_at: Instant,
}

/// The threads on which a worker's jobs run.
pub(crate) trait Threads: Send + Sync {
    /// Whether a thread could start a job now. Called under the line's lock.
    fn any_is_free(&self) -> bool;

    /// Makes the threads check for jobs again. Called without the lock.
    fn wake(self: Arc<Self>);
}

/// A job's place, which is returned on drop.
pub(crate) struct Permit {
    places: Arc<SharedLimit>,
    waiter: WaiterId,
    started_at: Option<Instant>,
}

impl Permit {
    /// Creates the permit for a place that `waiter` has just taken.
    pub(crate) fn new(places: &Arc<SharedLimit>, waiter: WaiterId) -> Permit {
        Permit { places: places.clone(), waiter, started_at: None }
    }

    /// Records the start of the job.
    pub(crate) fn starts(&mut self) {
        self.started_at = Some(Instant::now());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let run = self.started_at.map(|at| at.elapsed());
        self.places.with_line(Some(self.waiter), |line, now| line.give_back(self.waiter, run, now));
    }
}

impl SharedLimit {
    pub(crate) fn new(at_most: usize) -> SharedLimit {
        let now = Instant::now();
        let (waiters, joined, offer) = (Vec::new(), 0, None);
        let bookings = TurnBookings::new(now);
        let line = Line { at_most, taken: 0, waiters, joined, offer, changed_at: now, bookings };
        SharedLimit(Mutex::new(line))
    }

    pub(crate) fn at_most(&self) -> usize {
        self.0.lock().at_most
    }

    /// Adds the jobs of one handler of a worker that runs on `threads`.
    pub(crate) fn join(&self, threads: Arc<dyn Threads>) -> WaiterId {
        let mut line = self.0.lock();
        line.joined += 1;
        let id = WaiterId(line.joined);
        line.waiters.push(Waiter { id, threads, waiting: 0, since: None, mean_run: None, passed_over_until: None });
        id
    }

    /// Removes a waiter whose worker has ended.
    pub(crate) fn leave(&self, waiter: WaiterId) {
        self.change(|line, _| line.waiters.retain(|other| other.id != waiter));
    }

    /// Returns how many of the waiter's jobs could start now, and since when the first of them has waited, or `None` if
    /// none could start.
    pub(crate) fn startable(&self, waiter: WaiterId) -> Option<(usize, Instant)> {
        let line = self.0.lock();
        let Waiter { waiting, since, .. } = line.find(waiter);
        let jobs = line.free_for(waiter).min(*waiting);
        since.filter(|_| jobs > 0).map(|since| (jobs, since))
    }

    /// Changes the line, and then offers a free place, if there is one.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Line, Instant) -> T) -> T {
        self.with_line(None, change)
    }

    /// Same as [`change`](Self::change). If a thread of the waiter `ended` makes the change, that thread checks for
    /// jobs again by itself.
    fn with_line<T>(&self, ended: Option<WaiterId>, change: impl FnOnce(&mut Line, Instant) -> T) -> T {
        let mut line = self.0.lock();
        let now = Instant::now();
        let changed = change(&mut line, now);
        let offered_to = line.offer(ended, now);
        drop(line);
        if let Some(threads) = offered_to {
            threads.wake();
        }
        changed
    }
}

impl Line {
    /// Takes a free place, unless it is kept for another waiter.
    pub(crate) fn take_place(&mut self, waiter: WaiterId, now: Instant) -> bool {
        let is_free = self.free_for(waiter) > 0;
        if is_free {
            self.taken += 1;
            self.changed_at = now;
            self.offer.take_if(|offer| offer.to == waiter);
        }
        is_free
    }

    /// Returns a place. `run` is how long the job took, if it ran.
    fn give_back(&mut self, waiter: WaiterId, run: Option<Duration>, now: Instant) {
        self.taken -= 1;
        self.changed_at = now;
        // (Its worker may be gone.)
        if let Some(run) = run
            && let Some(waiter) = self.waiters.iter_mut().find(|other| other.id == waiter)
        {
            waiter.mean_run = Some(waiter.mean_run.map_or(run, |mean| (3 * mean + run) / 4));
        }
        if self.waiters.iter().all(|waiter| waiter.waiting == 0) {
            self.bookings.clear(now); // whatever was put off may come
        }
    }

    /// Sets how many of the waiter's jobs are waiting, and since when the first of them has.
    pub(crate) fn set_waiting(&mut self, waiter: WaiterId, waiting: usize, since: Option<Instant>) {
        let waiter = self.find_mut(waiter);
        (waiter.waiting, waiter.since) = (waiting, since);
    }

    /// How many jobs of one waiter may wait in memory: as many as would start within [`HOLD`] if they were alone, and
    /// one more for each place.
    pub(crate) fn room(&self, waiter: WaiterId, now: Instant) -> usize {
        let waiter = self.find(waiter);
        // Until a job has ended, run times are unknown, so a few jobs are allowed.
        let run = if waiter.mean_run.is_some() { self.run_time(waiter, now) } else { HOLD };
        let turns = HOLD.as_nanos() / run.as_nanos().max(1);
        self.at_most.saturating_mul(usize::try_from(turns).unwrap_or(usize::MAX).max(1))
    }

    /// Postpones a job until its turn, behind all waiting and all previously postponed jobs.
    pub(crate) fn book(&mut self, waiter: WaiterId, now: Instant) -> Duration {
        let at_most = u32::try_from(self.at_most).unwrap_or(u32::MAX);
        let share = |waiter: &Waiter| self.run_time(waiter, now) / at_most;
        let of_all = |waiter: &Waiter| share(waiter).saturating_mul(u32::try_from(waiter.waiting).unwrap_or(u32::MAX));
        let waiting = self.waiters.iter().map(of_all).fold(Duration::ZERO, Duration::saturating_add);
        let own = share(self.find(waiter));
        self.bookings.book(waiting, own, now)
    }

    /// How long a job takes: the mean or, if the running jobs take much longer than that, the time that has passed so
    /// far.
    fn run_time(&self, waiter: &Waiter, now: Instant) -> Duration {
        waiter.mean_run.unwrap_or_default().max(now.saturating_duration_since(self.changed_at))
    }

    /// How many free places are not kept for another waiter.
    fn free_for(&self, waiter: WaiterId) -> usize {
        let kept = self.offer.is_some_and(|offer| offer.to != waiter);
        (self.at_most - self.taken).saturating_sub(usize::from(kept))
    }

    /// Offers a free place unless an offer is pending. Returns the threads to wake.
    fn offer(&mut self, ended: Option<WaiterId>, now: Instant) -> Option<Arc<dyn Threads>> {
        if let Some(offer) = self.offer {
            let waiter = self.waiters.iter_mut().find(|waiter| waiter.id == offer.to && waiter.waiting > 0);
            if let Some(waiter) = waiter {
                if now.saturating_duration_since(offer.made_at) < OFFER {
                    return None;
                }
                waiter.passed_over_until = Some(now + PASSED_OVER);
            }
            self.offer = None;
        }
        if self.taken == self.at_most {
            return None;
        }
        let ended_on = self.waiters.iter().find(|waiter| Some(waiter.id) == ended).map(|waiter| &waiter.threads);
        let looks_itself = |waiter: &Waiter| ended_on.is_some_and(|threads| Arc::ptr_eq(threads, &waiter.threads));
        let comes = |waiter: &&Waiter| {
            waiter.waiting > 0
                && waiter.passed_over_until.is_none_or(|until| until <= now)
                && (looks_itself(waiter) || waiter.threads.any_is_free())
        };
        let first = self.waiters.iter().filter(comes).min_by_key(|waiter| waiter.since)?;
        if looks_itself(first) {
            return None;
        }
        let threads = first.threads.clone();
        self.offer = Some(Offer { to: first.id, made_at: now });
        Some(threads)
    }

    fn find(&self, waiter: WaiterId) -> &Waiter {
        self.waiters.iter().find(|other| other.id == waiter).expect("it has joined and not left")
    }

    fn find_mut(&mut self, waiter: WaiterId) -> &mut Waiter {
        self.waiters.iter_mut().find(|other| other.id == waiter).expect("it has joined and not left")
    }

    #[cfg(test)]
    pub(crate) fn set_mean_run(&mut self, waiter: WaiterId, mean_run: Duration) {
        self.find_mut(waiter).mean_run = Some(mean_run);
    }

    /// Pretends that nothing has changed for this much longer.
    #[cfg(test)]
    pub(crate) fn age(&mut self, by: Duration) {
        self.changed_at -= by;
        if let Some(offer) = &mut self.offer {
            offer.made_at -= by;
        }
    }
}

impl fmt::Debug for SharedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLimit").field("at_most", &self.at_most()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// The threads of one worker, for a test.
    struct Own {
        any_is_free: AtomicBool,
        woken: AtomicUsize,
    }

    impl Threads for Own {
        fn any_is_free(&self) -> bool {
            self.any_is_free.load(Ordering::Acquire)
        }

        fn wake(self: Arc<Self>) {
            self.woken.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Adds a worker with this many waiting jobs.
    fn waiting(places: &SharedLimit, any_is_free: bool, jobs: usize) -> (Arc<Own>, WaiterId) {
        let own = Arc::new(Own { any_is_free: AtomicBool::new(any_is_free), woken: AtomicUsize::new(0) });
        let id = places.join(own.clone());
        places.change(|line, now| line.set_waiting(id, jobs, Some(now)));
        (own, id)
    }

    fn take(places: &Arc<SharedLimit>, waiter: WaiterId) -> Option<Permit> {
        places.change(|line, now| line.take_place(waiter, now)).then(|| Permit::new(places, waiter))
    }

    #[test]
    fn a_busy_worker_that_has_waited_longest_gets_no_place_until_a_thread_of_its_asks() {
        let places = Arc::new(SharedLimit::new(1));
        let (_, running) = waiting(&places, true, 0);
        let mut permit = take(&places, running);
        let (busy_threads, busy) = waiting(&places, false, 1);
        let (idle_threads, idle) = waiting(&places, true, 3);
        for round in 1..=3 {
            drop(permit.take());
            permit = take(&places, idle);
            assert!(permit.is_some(), "round {round}");
        }
        assert_eq!((busy_threads.woken.load(Ordering::Acquire), idle_threads.woken.load(Ordering::Acquire)), (0, 1));
        places.change(|line, _| line.set_waiting(idle, 0, None));
        drop(permit);
        assert!(take(&places, busy).is_some());
    }

    #[test]
    fn a_worker_that_does_not_come_for_its_place_is_passed_over() {
        let places = Arc::new(SharedLimit::new(1));
        let (_, running) = waiting(&places, true, 0);
        let permit = take(&places, running);
        let (_, absent) = waiting(&places, true, 1);
        let (threads, other) = waiting(&places, true, 3);
        drop(permit);
        assert!(take(&places, other).is_none(), "it is the other's turn");
        places.change(|line, _| line.age(OFFER));
        assert_eq!(threads.woken.load(Ordering::Acquire), 1);
        for _ in 0..3 {
            assert!(take(&places, other).is_some(), "at once, again and again");
        }
        places.change(|line, _| line.set_waiting(other, 0, None));
        assert!(take(&places, absent).is_some());
    }

    #[test]
    fn several_places_that_become_free_together_are_offered_one_after_the_other() {
        let places = Arc::new(SharedLimit::new(2));
        let (_, running) = waiting(&places, true, 0);
        let permits = [take(&places, running), take(&places, running)];
        let (_, first) = waiting(&places, true, 1);
        let (second_threads, second) = waiting(&places, true, 1);
        drop(permits);
        places.change(|line, now| {
            assert!(line.take_place(first, now));
            line.set_waiting(first, 0, None);
        });
        assert_eq!(second_threads.woken.load(Ordering::Acquire), 1);
        assert!(take(&places, second).is_some());
    }

    #[test]
    fn how_long_a_kind_is_put_off_does_not_depend_on_how_long_the_jobs_of_another_take() {
        let places = SharedLimit::new(1);
        let [(_, short), (_, long)] = [waiting(&places, true, 0), waiting(&places, true, 0)];
        places.change(|line, now| {
            line.set_mean_run(short, Duration::from_millis(10));
            line.set_mean_run(long, Duration::from_secs(20));
            line.changed_at = now;
            assert_eq!((line.room(short, now), line.room(long, now)), (200, 1));
            for _ in 0..200 {
                line.book(short, now);
            }
            assert_eq!(line.book(short, now), Duration::from_millis(2_010));
            assert_eq!(line.book(long, now), Duration::from_millis(22_010));
            line.set_waiting(long, 2, Some(now));
            assert_eq!(line.book(short, now), Duration::from_millis(40_010), "behind the two long ones that wait");
        });
    }
}
