//! Stages of a worker.

#[path = "../../src/worker/run/fair_pool.rs"]
#[allow(dead_code, reason = "the model has one worker and no clock")]
mod fair_pool;
#[path = "../../src/worker/finish/filling.rs"]
mod filling;
#[path = "../../src/worker/state/in_flight.rs"]
#[allow(dead_code, reason = "not all that is counted is looked at")]
mod in_flight;
#[path = "../../src/worker/run/ledger.rs"]
#[allow(dead_code, reason = "the model postpones no job")]
mod ledger;
#[path = "../../src/worker/run/threads_in_use.rs"]
mod threads_in_use;
#[path = "../../src/worker/lease/validity.rs"]
#[allow(dead_code, reason = "the model does not wait for the clock")]
mod validity;
#[path = "../../src/worker/run/worker_turns.rs"]
#[allow(dead_code, reason = "the model has one worker")]
mod worker_turns;

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use shuttle::future::block_on;
use shuttle::thread::{JoinHandle, spawn};

use crate::sync_primitives::{AtomicU64, AtomicUsize, Mutex, Ordering, ThreadPool};

use fair_pool::FairPool;
use filling::Filling;
use in_flight::{InFlight, Stage};
use ledger::{Applicant, Ledger, Need, Pool};
use validity::LeaseValidity;
use worker_turns::{Jobs, MemberId};

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A job's way through memory, in the steps of `src/worker/lease/held_job.rs`.
fn pass(in_flight: &InFlight, is_parked: bool) {
    let mut stage = Stage::Unstarted;
    let stages = [is_parked.then_some(Stage::Parked), Some(Stage::Running), Some(Stage::AwaitingFinish)];
    for next in stages.into_iter().flatten() {
        in_flight.enter(next, 1);
        in_flight.leave(stage);
        stage = next;
    }
    in_flight.leave(stage);
    in_flight.confirmed();
}

/// A worker whose last jobs, in any stage before the end, only leave, as they do if its lease was lost, is idle.
pub fn idle() {
    let in_flight = Arc::new(InFlight::default());
    let stages = [Stage::Unstarted, Stage::Parked, Stage::Running];
    stages.iter().for_each(|stage| in_flight.enter(*stage, 1));
    let jobs = stages.map(|stage| {
        let in_flight = in_flight.clone();
        spawn(move || in_flight.leave(stage))
    });
    block_on(in_flight.idle());
    assert_eq!(in_flight.jobs(), 0);
    join(jobs);
}

/// A worker ends when its last two jobs, one of which waits for its kind, are confirmed: not before, and not never.
pub fn idle_and_flushed() {
    let in_flight = Arc::new(InFlight::default());
    in_flight.enter(Stage::Unstarted, 2);
    let jobs = [false, true].map(|is_parked| {
        let in_flight = in_flight.clone();
        spawn(move || pass(&in_flight, is_parked))
    });
    block_on(async {
        in_flight.idle().await;
        in_flight.flushed().await;
    });
    assert_eq!(in_flight.jobs(), 0);
    join(jobs);
}

/// Two of three jobs start and run on. The prefetcher waits until one is left that has not started.
pub fn demand() {
    let in_flight = Arc::new(InFlight::default());
    in_flight.enter(Stage::Unstarted, 3);
    in_flight.set_low_water(1, false);
    let jobs = [(); 2].map(|()| {
        let in_flight = in_flight.clone();
        spawn(move || {
            in_flight.enter(Stage::Running, 1);
            in_flight.leave(Stage::Unstarted);
        })
    });
    block_on(async {
        while in_flight.unstarted() > 1 {
            in_flight.demand().await;
        }
    });
    join(jobs);
}

/// Of three jobs that start at once and may each leave 400 bytes, two fit into 1,000.
pub fn room_for_outputs() {
    let in_flight = Arc::new(InFlight::default());
    in_flight.learn_output(400);
    let running = Arc::new(AtomicUsize::new(0));
    join([(); 3].map(|()| {
        let (in_flight, running) = (in_flight.clone(), running.clone());
        spawn(move || {
            if let Some(_started) = in_flight.start(1_000) {
                assert!(running.fetch_add(1, Ordering::AcqRel) < 2);
                running.fetch_sub(1, Ordering::AcqRel);
            }
        })
    }));
}

/// Jobs that wait in memory for a thread.
#[derive(Default)]
struct Waiting(AtomicUsize);

impl Jobs for Waiting {
    fn waiting(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn run(&self, _: Instant) {
        let one_less = |jobs: usize| jobs.checked_sub(1);
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less);
    }

    fn panicked(&self, panic: Box<dyn Any + Send>) {
        std::panic::resume_unwind(panic);
    }
}

/// Jobs that come while the only slot ends are run all the same.
pub fn slots() {
    let threads = Arc::new(ThreadPool::new(1));
    let pool = Arc::new(FairPool::new(threads.clone()));
    let jobs = Arc::new(Waiting::default());
    let weak: Weak<Waiting> = Arc::downgrade(&jobs);
    pool.join(weak, 1, 0);
    join([(); 2].map(|()| {
        let (pool, jobs) = (pool.clone(), jobs.clone());
        spawn(move || {
            jobs.0.fetch_add(1, Ordering::AcqRel);
            pool.pump();
        })
    }));
    threads.join();
    assert_eq!(jobs.waiting(), 0);
}

pub const AT_ONCE: Duration = Duration::ZERO;

pub const NEVER: Duration = Duration::from_secs(3_600);

const THREADS: usize = 3;

/// Jobs with needs, in the steps of `src/worker/run/admission.rs`.
struct Needy {
    pool: Arc<FairPool>,
    member: OnceLock<MemberId>,
    /// The jobs that no thread has taken yet: those that need one thread, and those that need more.
    plain: AtomicUsize,
    large: Mutex<Vec<Need>>,
    ledger: Mutex<Ledger<()>>,
    /// Of the pool's threads, and of the one token.
    in_use: AtomicUsize,
    tokens: AtomicUsize,
    begun: AtomicUsize,
}

struct OfPool<'a>(&'a FairPool, MemberId);

impl Pool for OfPool<'_> {
    fn take(&self, more: usize, spare: usize) -> bool {
        self.0.take(self.1, more, spare)
    }
}

impl Needy {
    fn member(&self) -> MemberId {
        *self.member.get().unwrap()
    }

    fn threads(&self) -> impl Pool {
        OfPool(&self.pool, self.member())
    }

    fn runs(&self, threads: usize, tokens: usize) {
        assert!(self.in_use.fetch_add(threads, Ordering::SeqCst) + threads <= THREADS, "more than there are");
        assert!(self.tokens.fetch_add(tokens, Ordering::SeqCst) + tokens <= 1, "more than there are");
        self.tokens.fetch_sub(tokens, Ordering::SeqCst);
        self.in_use.fetch_sub(threads, Ordering::SeqCst);
    }

    fn runs_large(&self, need: Need) {
        let threads = (need.threads > 1).then(|| self.pool.charge(self.member(), need.threads - 1));
        self.runs(need.threads, need.amounts.len());
        let any_waits = {
            let mut ledger = self.ledger.lock();
            ledger.give_back(&need, 0, None, Instant::now());
            ledger.waiting() > 0
        };
        match threads {
            Some(threads) => drop(threads),
            None if any_waits => self.pool.pump(),
            None => {}
        }
    }
}

impl Jobs for Needy {
    fn waiting(&self) -> usize {
        let in_use = self.pool.in_use();
        let free = THREADS.saturating_sub(in_use.all());
        let ready = self.ledger.lock().ready(free, self.pool.is_unlimited(in_use), Instant::now());
        ready + self.large.lock().len() + self.plain.load(Ordering::Acquire)
    }

    fn run(&self, _: Instant) {
        self.begun.fetch_add(1, Ordering::AcqRel);
        let next = self.ledger.lock().next(&self.threads(), Instant::now());
        if let Some((_, need, _)) = next {
            return self.runs_large(need);
        }
        let large = self.large.lock().pop();
        if let Some(need) = large {
            if self.ledger.lock().admit(&need, &self.threads(), Instant::now()) {
                return self.runs_large(need);
            }
            let since = Instant::now();
            let applicant = Applicant { job: (), need, handler: 0, since, can_be_put_off: false };
            assert!(self.ledger.lock().wait(applicant, Instant::now()).is_none());
            return;
        }
        let one_less = |jobs: usize| jobs.checked_sub(1);
        if self.plain.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok() {
            self.runs(1, 0);
        }
    }

    fn reserved_threads(&self) -> Option<(usize, Instant)> {
        let ledger = self.ledger.lock();
        let threads = ledger.reserved_threads(Instant::now());
        ledger.since().filter(|_| threads > 0).map(|since| (threads, since))
    }

    fn panicked(&self, panic: Box<dyn Any + Send>) {
        std::panic::resume_unwind(panic);
    }
}

/// Jobs that need one, two or three of three threads, or the only token, come and all run: at no moment with more threads
/// than there are, and without turns that find nothing again and again.
pub fn needs(reserve_after: Duration) {
    let threads = Arc::new(ThreadPool::new(THREADS));
    let pool = Arc::new(FairPool::new(threads.clone()));
    let jobs = Arc::new(Needy {
        pool: pool.clone(),
        member: OnceLock::new(),
        plain: AtomicUsize::new(0),
        large: Mutex::new(Vec::new()),
        ledger: Mutex::new(Ledger::new(vec![1], THREADS, 1, reserve_after, Instant::now())),
        in_use: AtomicUsize::new(0),
        tokens: AtomicUsize::new(0),
        begun: AtomicUsize::new(0),
    });
    let weak: Weak<Needy> = Arc::downgrade(&jobs);
    jobs.member.set(pool.join(weak, 1, 0)).unwrap();
    let needs = |threads, tokens: u64| Need { threads, amounts: (0..tokens).map(|_| (0, 1)).collect() };
    let come = [vec![needs(2, 0), needs(1, 1)], vec![needs(3, 0), needs(2, 1)]];
    join(come.map(|large| {
        let (pool, jobs) = (pool.clone(), jobs.clone());
        spawn(move || {
            jobs.plain.fetch_add(1, Ordering::AcqRel);
            pool.pump();
            jobs.large.lock().extend(large);
            pool.pump();
        })
    }));
    threads.join();
    assert_eq!((jobs.waiting(), jobs.ledger.lock().waiting(), pool.in_use().all()), (0, 0, 0));
    let begun = jobs.begun.load(Ordering::Acquire);
    assert!(begun <= MOST_TURNS, "{begun} turns for six jobs");
}

/// Each of the six jobs takes a turn to run, and each of the four large ones one to wait. A few find that another turn was
/// faster, each time because a job has started.
const MOST_TURNS: usize = 30;

/// Two urgent jobs that end at any time are sent, though the linger time is never over and the batch is not full.
pub fn urgent_jobs() {
    let filling = Arc::new(Filling::new(100));
    let (sender, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let jobs = [1, 2].map(|job| {
        let (filling, sender) = (filling.clone(), sender.clone());
        spawn(move || {
            sender.send(job).unwrap();
            filling.added(true);
        })
    });
    block_on(async {
        let mut sent = 0;
        while sent < 2 {
            let mut batch = Vec::new();
            filling.fill(&mut batch, &mut ended, std::future::pending()).await;
            filling.taken(batch.len());
            sent += batch.len();
        }
    });
    join(jobs);
}

const LEASE: Duration = Duration::from_nanos(4);

/// While a lease is renewed, its worker trusts it only as long as SQL Server, which counts from later on, keeps it.
pub fn lease() {
    let validity = Arc::new(LeaseValidity::default());
    let kept_until_ns = Arc::new(AtomicU64::new(0));
    let renewals = {
        let (validity, kept_until_ns) = (validity.clone(), kept_until_ns.clone());
        spawn(move || {
            for _ in 0..3 {
                let sent_at = validity.now();
                let until = validity.now() + LEASE;
                kept_until_ns.store(until.as_nanos() as u64, Ordering::Release);
                validity.renewed(sent_at, LEASE);
            }
        })
    };
    for _ in 0..6 {
        let before = validity.now();
        if !validity.is_in_doubt() {
            assert!(before.as_nanos() < u128::from(kept_until_ns.load(Ordering::Acquire)));
        }
    }
    join([renewals]);
}
