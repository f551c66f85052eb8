//! The ledger in situations and in random orders of jobs.

use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const MEMORY: usize = 0;
const GPU: usize = 1;
const THREADS: usize = 4;

/// The threads of a pool with one worker.
#[derive(Default)]
struct Threads(Cell<usize>);

impl Pool for Threads {
    fn take(&self, more: usize, spare: usize) -> bool {
        let fits = self.0.get() + more + spare <= THREADS;
        if fits {
            self.0.set(self.0.get() + more);
        }
        fits
    }
}

fn need(threads: usize, memory: u64, gpu: u64) -> Need {
    let mut amounts = vec![(MEMORY, memory), (GPU, gpu)];
    amounts.retain(|(_, amount)| *amount > 0);
    Need { threads, amounts }
}

fn of_memory(memory: u64) -> Need {
    need(1, memory, 0)
}

fn ledger(reserve_after: Duration, now: Instant) -> Ledger<u32> {
    Ledger::new(vec![8, 1], THREADS, 1, reserve_after, now)
}

/// Applies for a job, which is in a turn of its own.
fn wait(ledger: &mut Ledger<u32>, job: u32, need: Need, now: Instant) -> Result<(), (u32, Duration)> {
    let surplus = ledger.wait(Applicant { job, need, handler: 0, since: now, can_be_put_off: true }, now);
    surplus.map_or(Ok(()), |surplus| Err((surplus.job, surplus.delay)))
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn smaller_jobs_pass_a_large_one_until_it_has_waited_too_long() {
    let start = Instant::now();
    let (mut ledger, pool) = (ledger(MINUTE, start), Threads::default());
    assert!(ledger.admit(&of_memory(5), &pool, start));
    assert!(!ledger.admit(&of_memory(6), &pool, start));
    wait(&mut ledger, 1, of_memory(6), start).unwrap();
    assert!(ledger.admit(&of_memory(2), &pool, start + MINUTE / 2), "it fits and passes");
    ledger.give_back(&of_memory(2), 0, None, start + MINUTE / 2);

    let late = start + MINUTE;
    assert!(!ledger.admit(&of_memory(2), &pool, late), "it would not fit beside the one that has waited");
    assert!(ledger.admit(&need(1, 0, 1), &pool, late), "it needs nothing that is reserved");
    assert_eq!((ledger.ready(4, true, late), ledger.next(&pool, late).is_none()), (0, true));
    ledger.give_back(&of_memory(5), 0, None, late);
    assert!(ledger.admit(&of_memory(2), &pool, late), "it fits beside it");
    assert_eq!((ledger.ready(4, true, late), ledger.next(&pool, late).unwrap().0), (1, 1));
}

#[test]
fn threads_are_reserved_only_when_nothing_else_is_lacking() {
    let start = Instant::now();
    let (mut ledger, pool) = (ledger(MINUTE, start), Threads::default());
    pool.0.set(4); // turns of jobs that need nothing
    assert!(ledger.admit(&of_memory(8), &pool, start));
    wait(&mut ledger, 1, need(3, 2, 0), start).unwrap();
    let late = start + MINUTE;
    assert_eq!(ledger.reserved_threads(late), 0, "its memory is in use, so that threads would be idle");
    ledger.give_back(&of_memory(8), 0, None, late);
    assert_eq!((ledger.reserved_threads(start), ledger.reserved_threads(late)), (0, 3));
    assert_eq!(ledger.ready(2, false, late), 0);
    assert_eq!(ledger.ready(3, false, late), 1);
    pool.0.set(1); // its own turn
    assert!(ledger.admit(&of_memory(1), &pool, late), "one thread of its own turn");
    assert!(!ledger.admit(&need(2, 1, 0), &pool, late), "three threads are kept");
    assert_eq!(ledger.next(&pool, late).unwrap().0, 1);
}

#[test]
fn after_the_first_has_started_the_next_does_not_leave_room_for_it_again() {
    let start = Instant::now();
    let (mut ledger, pool) = (ledger(MINUTE, start), Threads::default());
    assert!(ledger.admit(&of_memory(8), &pool, start));
    wait(&mut ledger, 1, of_memory(4), start).unwrap();
    wait(&mut ledger, 2, of_memory(4), start).unwrap();
    ledger.give_back(&of_memory(8), 0, None, start + MINUTE);
    assert_eq!(ledger.ready(4, true, start + MINUTE), 2, "both turns begin at once");
    assert_eq!(ledger.ready(1, false, start + MINUTE), 1);
}

#[test]
fn about_a_wave_waits_and_what_is_further_away_is_put_off() {
    let start = Instant::now();
    let (mut ledger, pool) = (ledger(MINUTE, start), Threads::default());
    assert!(ledger.admit(&of_memory(8), &pool, start));
    // (No job has run: as many wait as could run together.)
    assert!((1..=4).all(|job| wait(&mut ledger, job, of_memory(2), start).is_ok()));
    let later = start + Duration::from_secs(8);
    let (job, delay) = wait(&mut ledger, 5, of_memory(2), later).unwrap_err();
    assert_eq!(
        (job, delay),
        (5, Duration::from_millis(2_500)),
        "behind the four, each a quarter of eight seconds, and soon enough for others"
    );
    let has_no_row = Applicant { job: 6, need: of_memory(2), handler: 0, since: start, can_be_put_off: false };
    assert!(ledger.wait(has_no_row, start).is_none(), "it cannot be put off");
    assert_eq!(ledger.take_waiting(|job| *job == 6, later), [6]);

    // The job runs on and on. The first keeps waiting, for its reservation.
    let late = start + 10 * MINUTE;
    let surplus: Vec<u32> = ledger.take_surplus(|_| true, late).into_iter().map(|surplus| surplus.job).collect();
    assert_eq!((surplus, ledger.waiting()), (vec![4, 3, 2], 1));
    assert!(wait(&mut ledger, 7, of_memory(2), late).is_err());

    // Jobs of a millisecond: many start within two seconds.
    ledger.give_back(&of_memory(8), 0, Some(Duration::from_millis(1)), late);
    assert!(ledger.next(&pool, late).is_some());
    assert!((0..MOST_WAITING as u32).all(|job| wait(&mut ledger, job, of_memory(2), late).is_ok()));
    assert!(wait(&mut ledger, 0, of_memory(2), late).is_err());
}

#[test]
fn a_job_longer_than_jobs_may_wait_gets_its_reservation_behind_short_ones() {
    let start = Instant::now();
    let pool = Threads::default();
    let mut ledger = Ledger::new(vec![8, 1], THREADS, 2, MINUTE, start);
    let (short, long) = (0, 1);
    for (handler, run) in [(short, Duration::from_millis(1)), (long, 5 * MINUTE)] {
        assert!(ledger.admit(&of_memory(8), &pool, start));
        ledger.give_back(&of_memory(8), handler, Some(run), start);
    }
    assert!(ledger.admit(&of_memory(8), &pool, start));
    let mut wait = |job, handler| {
        let applicant = Applicant { job, need: of_memory(8), handler, since: start, can_be_put_off: true };
        ledger.wait(applicant, start).is_none()
    };
    assert!(wait(1, short) && wait(2, long));
    assert!(!wait(3, short), "it would wait for the long one");
    assert!(ledger.take_surplus(|_| true, start + Duration::from_secs(2)).is_empty());

    ledger.give_back(&of_memory(8), short, None, start);
    assert_eq!(ledger.next(&pool, start).unwrap().0, 1);
    ledger.give_back(&of_memory(8), short, None, start + MINUTE);
    assert!(!ledger.admit(&of_memory(1), &pool, start + MINUTE), "all is kept for the long one");
}

#[test]
fn threads_are_kept_and_left_to_others_in_turns() {
    let start = Instant::now();
    let (mut ledger, pool) = (ledger(MINUTE, start), Threads::default());
    pool.0.set(3);
    assert!(ledger.admit(&of_memory(8), &pool, start));
    wait(&mut ledger, 1, need(3, 2, 0), start).unwrap();
    ledger.give_back(&of_memory(8), 0, None, start + 10 * MINUTE);
    let after = |minutes: u32| start + (10 + minutes) * MINUTE;
    let kept: Vec<bool> = (0..32).map(|minutes| ledger.reserved_threads(after(minutes)) == 3).collect();
    let turns: Vec<(bool, usize)> = kept.chunk_by(PartialEq::eq).map(|turn| (turn[0], turn.len())).collect();
    assert_eq!(turns, [(true, 1), (false, 2), (true, 4), (false, 8), (true, 8), (false, 8), (true, 1)]);
    assert_eq!(ledger.tell_of_passing(after(0)), None);
    assert_eq!([1, 8].map(|minutes| ledger.tell_of_passing(after(minutes))), [Some(3), None], "once");

    // The next job has its own turns.
    wait(&mut ledger, 2, need(4, 2, 0), start).unwrap();
    pool.0.set(1);
    assert_eq!(ledger.next(&pool, after(2)).unwrap().0, 1);
    assert_eq!((ledger.reserved_threads(after(2)), ledger.reserved_threads(after(3))), (4, 0));
}

#[test]
fn a_job_that_has_waited_elsewhere_is_before_those_that_came_later() {
    let start = Instant::now();
    let (mut ledger, pool) = (ledger(MINUTE, start), Threads::default());
    assert!(ledger.admit(&of_memory(8), &pool, start));
    let late = start + MINUTE;
    wait(&mut ledger, 1, of_memory(2), late).unwrap();
    let first = Applicant { job: 2, need: of_memory(7), handler: 0, since: start, can_be_put_off: true };
    assert!(ledger.wait(first, late).is_none());
    ledger.give_back(&of_memory(8), 0, None, late);
    assert!(!ledger.admit(&of_memory(2), &pool, late), "it has waited long enough for a reservation");
    assert_eq!(ledger.next(&pool, late).unwrap().0, 2);
}

#[test]
fn those_would_fit_that_fit_after_all_that_wait() {
    let start = Instant::now();
    let (mut ledger, pool) = (ledger(MINUTE, start), Threads::default());
    assert!(ledger.admit(&of_memory(3), &pool, start));
    let needs = [of_memory(3), of_memory(6), need(4, 1, 0), need(1, 0, 1), need(1, 0, 1)];
    let would_fit = |ledger: &Ledger<u32>, threads| ledger.would_fit(needs.iter().enumerate(), threads);
    assert_eq!(would_fit(&ledger, 4), [0, 3], "the second gpu is in use");
    assert_eq!(would_fit(&ledger, 5), [0, 2]);
    assert!(would_fit(&ledger, 0).is_empty());
    wait(&mut ledger, 1, of_memory(6), start).unwrap();
    assert_eq!(would_fit(&ledger, 4), [3], "one that waits goes first");
    ledger.give_back(&of_memory(3), 0, None, start);
    assert_eq!(would_fit(&ledger, 6), [2, 3]);
}

#[test]
fn the_fewest_threads_are_those_of_a_job_whose_memory_is_free() {
    let start = Instant::now();
    let (mut ledger, pool) = (ledger(MINUTE, start), Threads::default());
    assert!(ledger.admit(&of_memory(6), &pool, start));
    wait(&mut ledger, 1, need(1, 4, 0), start).unwrap();
    assert_eq!(ledger.fewest_threads(), None);
    wait(&mut ledger, 2, need(3, 2, 0), start).unwrap();
    assert_eq!(ledger.fewest_threads(), Some(3));
    ledger.give_back(&of_memory(6), 0, None, start);
    assert_eq!(ledger.fewest_threads(), Some(1));
}

#[derive(Debug, Clone)]
enum Step {
    Comes(usize, u64, u64),
    /// One of the running jobs ends, after this many milliseconds or by a panic of what is around it.
    Ends(usize, Option<u64>),
    Passes(u64),
    Surplus,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..=THREADS, 0..=8_u64, 0..=1_u64).prop_map(|(threads, memory, gpu)| Step::Comes(threads, memory, gpu)),
        3 => (any::<usize>(), prop::option::of(0..5_000_u64)).prop_map(|(place, ms)| Step::Ends(place, ms)),
        2 => (0..40_u64).prop_map(Step::Passes),
        1 => Just(Step::Surplus),
    ]
}

/// A worker that runs jobs, each in a turn of its own.
struct World {
    ledger: Ledger<u32>,
    pool: Threads,
    running: Vec<(u32, Need)>,
    now: Instant,
    came: u32,
    put_off: usize,
    /// The first job if it has a reservation, whether also of threads, and the jobs that ran when it got that.
    reserved: Option<(u32, bool, BTreeSet<u32>)>,
}

impl World {
    /// Begins a turn, if a thread is free that is not kept for the first job.
    fn begins_turn(&self) -> bool {
        let reserved = self.ledger.reserved_threads(self.now);
        let may = self.pool.0.get() + reserved.max(1) <= THREADS;
        if may {
            self.pool.0.set(self.pool.0.get() + 1);
        }
        may
    }

    fn ends_turn(&self) {
        self.pool.0.set(self.pool.0.get() - 1);
    }

    /// Starts what can start. `ready` must tell beforehand whether a turn would find a job.
    fn starts(&mut self) {
        loop {
            let free = THREADS - self.pool.0.get();
            let ready = self.ledger.ready(free, false, self.now);
            if !self.begins_turn() {
                break;
            }
            let Some((job, need, _)) = self.ledger.next(&self.pool, self.now) else {
                self.ends_turn();
                assert_eq!(ready, 0, "a turn begins in vain");
                break;
            };
            assert!(ready > 0, "a job could start, and no turn would begin");
            self.running.push((job, need));
        }
        let first = self.ledger.waiting.front().filter(|first| self.ledger.is_due(first, self.now));
        let first = first.filter(|_| !self.ledger.lets_pass(self.now));
        let first = first.map(|first| (first.job, self.ledger.reserved_threads(self.now) > 0));
        if self.reserved.as_ref().map(|(job, threads, _)| (*job, *threads)) != first {
            let running = || self.running.iter().map(|(job, _)| *job).collect();
            self.reserved = first.map(|(job, threads)| (job, threads, running()));
        }
    }

    fn takes(&mut self, step: Step) {
        match step {
            Step::Comes(threads, memory, gpu) if self.begins_turn() => {
                self.came += 1;
                let (job, need) = (self.came, need(threads, memory, gpu));
                if self.ledger.admit(&need, &self.pool, self.now) {
                    self.running.push((job, need));
                } else {
                    self.put_off += usize::from(wait(&mut self.ledger, job, need, self.now).is_err());
                    self.ends_turn();
                }
            }
            Step::Ends(place, ms) if !self.running.is_empty() => {
                let (_, need) = self.running.swap_remove(place % self.running.len());
                self.ledger.give_back(&need, 0, ms.map(Duration::from_millis), self.now);
                self.pool.0.set(self.pool.0.get() - need.threads);
            }
            Step::Passes(seconds) => self.now += Duration::from_secs(seconds),
            Step::Surplus => self.put_off += self.ledger.take_surplus(|_| true, self.now).len(),
            Step::Comes(..) | Step::Ends(..) => {}
        }
    }

    fn check(&self) {
        let used = |place| {
            let amounts = self.running.iter().flat_map(|(_, need)| &need.amounts);
            amounts.filter(|(other, _)| *other == place).map(|(_, amount)| amount).sum::<u64>()
        };
        assert_eq!(self.ledger.free, [8 - used(MEMORY), 1 - used(GPU)], "what runs has what is not free");
        let threads: usize = self.running.iter().map(|(_, need)| need.threads).sum();
        assert!(threads == self.pool.0.get() && threads <= THREADS);
        // Only what ran when the first got its reservation can keep it from starting.
        if let Some((_, _, before)) = &self.reserved {
            assert!(self.running.iter().any(|(job, _)| before.contains(job)), "the first waits for nobody");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_given_twice_or_lost_and_nobody_waits_for_ever(steps in prop::collection::vec(step(), 0..80)) {
        let now = Instant::now();
        let mut world = World {
            ledger: ledger(MINUTE, now),
            pool: Threads::default(),
            running: Vec::new(),
            now,
            came: 0,
            put_off: 0,
            reserved: None,
        };
        let mut ended = 0;
        for step in steps {
            let before = world.running.len();
            let ends = matches!(step, Step::Ends(..)) && before > 0;
            world.takes(step);
            ended += usize::from(ends);
            world.starts();
            world.check();
        }
        while !world.running.is_empty() {
            world.takes(Step::Ends(0, Some(1)));
            ended += 1;
            world.starts();
            world.check();
        }
        prop_assert_eq!(world.ledger.waiting(), 0, "with nothing in use, everything fits");
        prop_assert_eq!(ended + world.put_off, world.came as usize);
    }
}

#[test]
fn a_need_from_before_the_threads_became_fewer_is_cut_to_them() {
    let start = Instant::now();
    let mut ledger = ledger(MINUTE, start);
    ledger.resized(2);
    wait(&mut ledger, 1, need(4, 1, 0), start).unwrap();
    assert_eq!(ledger.fewest_threads(), Some(2));
    ledger.resized(1);
    assert_eq!(ledger.fewest_threads(), Some(1));
}
