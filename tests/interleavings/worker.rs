//! Stages of a worker.

#[path = "../../src/worker/run/fair_pool.rs"]
#[allow(dead_code, reason = "the model has one worker and no clock")]
mod fair_pool;
#[path = "../../src/worker/finish/filling.rs"]
mod filling;
#[path = "../../src/worker/state/in_flight.rs"]
#[allow(dead_code, reason = "not all that is counted is looked at")]
mod in_flight;
#[path = "../../src/worker/lease/validity.rs"]
#[allow(dead_code, reason = "the model does not wait for the clock")]
mod validity;
#[path = "../../src/worker/run/worker_turns.rs"]
#[allow(dead_code, reason = "the model has one worker")]
mod worker_turns;

use std::any::Any;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use shuttle::future::block_on;
use shuttle::thread::{JoinHandle, spawn};

use crate::sync_primitives::{AtomicU64, AtomicUsize, Ordering, ThreadPool};

use fair_pool::FairPool;
use filling::Filling;
use in_flight::{InFlight, Stage};
use validity::LeaseValidity;
use worker_turns::Jobs;

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
    let pool = FairPool::shared(threads.clone());
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
