//! Slots, turns and shares of a pool.

use std::any::Any;

use super::*;

#[derive(Default)]
struct Queued(AtomicUsize);

impl Queued {
    fn set(&self, waiting: usize) {
        self.0.store(waiting, Ordering::Release);
    }
}

impl Jobs for Queued {
    fn waiting(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn run(&self, _: Instant) {}

    fn panicked(&self, _: Box<dyn Any + Send>) {}
}

#[test]
fn there_are_only_so_many_slots_however_many_jobs_wait() {
    let pool = FairPool::own(1, None).unwrap();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    pool.threads.lock().spawn(move || {
        let _ = gate.recv();
    });
    let jobs = Arc::new(Queued(AtomicUsize::new(1_000)));
    let weak: Weak<Queued> = Arc::downgrade(&jobs);
    pool.join(weak, 1, 2);
    pool.pump();
    pool.pump();
    assert_eq!(pool.used.load(Ordering::Acquire), 3, "one for the thread, and two more");
    jobs.set(0);
    drop(open);
}

#[test]
fn a_slot_that_is_given_back_is_free_when_it_is_told() {
    let pool = FairPool::own(1, None).unwrap();
    pool.used.store(1, Ordering::Release);
    DEPTH.set(MAX_DEPTH);
    let threads = pool.threads.lock().clone();
    Slot { pool: pool.clone(), threads, pumps: true }.run();
    DEPTH.set(0);
    assert_eq!(pool.used.load(Ordering::Acquire), 0);
    assert!(is_ready(pool.given_back.notified()), "it was told");
}

#[test]
fn a_share_is_all_threads_for_one_alone_and_never_none() {
    assert_eq!(fair_share(8, 3.0, 0.0), 8, "no other has jobs");
    assert_eq!(fair_share(8, 3.0, 1.0), 6);
    assert_eq!(fair_share(2, 1.0, 1_000.0), 1);
}

#[test]
fn only_others_that_have_jobs_lessen_a_share() {
    let pool = FairPool::own(8, None).unwrap();
    let [own, other] = [(); 2].map(|()| Arc::new(Queued::default()));
    let ids = [(&own, 1), (&other, 3)].map(|(jobs, weight)| {
        let weak: Weak<Queued> = Arc::downgrade(jobs);
        pool.join(weak, weight, 0)
    });
    let shares = || {
        pool.members.lock().look(Instant::now());
        ids.map(|id| pool.load(id)).map(|load| (load.share, load.usable))
    };
    assert_eq!(shares(), [(8, 8), (8, 8)]);
    other.set(1);
    assert_eq!(shares(), [(2, 8), (8, 8)], "whether it has jobs itself or not");
    for _ in 0..7 {
        assert!(pool.members.lock().begin_turn(usize::MAX, Instant::now()).0.is_some());
    }
    assert_eq!(shares(), [(2, 2), (8, 8)], "the other has taken all but one");
    own.set(1);
    assert_eq!(shares(), [(2, 2), (6, 8)]);
}

/// Jobs that all panic.
struct Defective {
    left: AtomicUsize,
    panics: AtomicUsize,
}

impl Jobs for Defective {
    fn waiting(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    fn run(&self, _: Instant) {
        let took = |left: usize| left.checked_sub(1);
        assert!(self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, took).is_err(), "a defect");
    }

    fn panicked(&self, _: Box<dyn Any + Send>) {
        self.panics.fetch_add(1, Ordering::AcqRel);
        panic!("that cannot even be told");
    }
}

#[test]
fn panics_cost_no_slot_no_turn_and_no_depth() {
    let pool = FairPool::own(1, None).unwrap();
    let jobs = Arc::new(Defective { left: AtomicUsize::new(20), panics: AtomicUsize::new(0) });
    let weak: Weak<Defective> = Arc::downgrade(&jobs);
    let id = pool.join(weak, 1, 1);
    pool.pump();
    let give_up = Instant::now() + Duration::from_secs(30);
    while jobs.panics.load(Ordering::Acquire) < 20 || pool.used.load(Ordering::Acquire) > 0 {
        assert!(Instant::now() < give_up, "after {:?} of 20 no slot is left", jobs.panics);
        std::thread::yield_now();
    }
    assert_eq!(pool.load(id).in_use.all(), 0);
}

#[test]
fn a_worker_that_ends_passes_the_signal_on() {
    let pool = FairPool::own(1, None).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        pool.given_back.notify_one();
        let mut ending = Box::pin(pool.clone().keep_pumping());
        assert!(!is_ready(ending.as_mut()), "it sleeps");
        drop(ending);
    });
    assert!(is_ready(pool.given_back.notified()), "another worker gets it");
}

fn is_ready<T>(future: impl Future<Output = T>) -> bool {
    let future = std::pin::pin!(future);
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
}

#[test]
fn the_last_of_a_worker_is_not_dropped_under_the_lock() {
    struct Last(Arc<FairPool>, Arc<AtomicUsize>, Mutex<Option<Arc<Last>>>);
    impl Jobs for Last {
        fn waiting(&self) -> usize {
            drop(self.2.lock().take()); // as if the worker stopped just now
            1
        }
        fn run(&self, _: Instant) {}
        fn panicked(&self, _: Box<dyn Any + Send>) {}
    }
    impl Drop for Last {
        fn drop(&mut self) {
            self.1.store(if self.0.members.try_lock().is_some() { 1 } else { 2 }, Ordering::Release);
            panic!("a handler's own");
        }
    }
    let (pool, dropped) = (FairPool::own(1, None).unwrap(), Arc::new(AtomicUsize::new(0)));
    let last = Arc::new(Last(pool.clone(), dropped.clone(), Mutex::new(None)));
    *last.2.lock() = Some(last.clone());
    let weak: Weak<Last> = Arc::downgrade(&last);
    pool.join(weak, 1, 0);
    pool.most.store(0, Ordering::Release); // no slot
    drop(last);
    pool.pump();
    assert_eq!(dropped.load(Ordering::Acquire), 1, "once, and the lock was free");
}

/// Jobs of which the first keeps threads for itself.
struct Reserving(Queued, AtomicUsize);

impl Jobs for Reserving {
    fn waiting(&self) -> usize {
        self.0.waiting()
    }

    fn run(&self, _: Instant) {}

    fn reserved_threads(&self) -> Option<(usize, Instant)> {
        match self.1.load(Ordering::Acquire) {
            0 => None,
            threads => Some((threads, Instant::now())),
        }
    }

    fn panicked(&self, _: Box<dyn Any + Send>) {}
}

#[test]
fn threads_that_are_kept_for_a_worker_are_not_another_s() {
    let pool = FairPool::own(4, None).unwrap();
    let (own, other) = (Arc::new(Reserving(Queued::default(), AtomicUsize::new(3))), Arc::new(Queued::default()));
    let weak: Weak<Reserving> = Arc::downgrade(&own);
    let own_id = pool.join(weak, 1, 0);
    let weak: Weak<Queued> = Arc::downgrade(&other);
    let other_id = pool.join(weak, 1, 0);
    pool.most.store(0, Ordering::Release); // no slot
    other.set(5);
    let begin = || Turn::begin(&pool, Instant::now()).0;
    pool.in_use.begin_turn(|_| None);
    pool.in_use.begin_turn(|_| None);
    assert!(begin().is_none(), "three are not free, and two are kept, although its only job cannot start");
    assert!(!pool.take(other_id, 1, 0));
    assert_eq!([own_id, other_id].map(|id| pool.load(id).keeps_free), [KeepsFree::ForIt, KeepsFree::ForAnother]);
    pool.in_use.end_turn();
    assert!(!Threads::any_is_free(&*pool), "for no other job");
    own.0.set(1);
    let (_, turn) = begin().expect("three are free");
    assert_eq!(turn.charge, pool.members.lock().all[0].running[0], "whose they are");
    assert!(pool.take(own_id, 2, 0), "they are its own");
    own.1.store(0, Ordering::Release);
    let further = pool.charge(own_id, 2);
    assert!(begin().is_none(), "all four are in use");
    assert_eq!(
        (pool.load(own_id).in_use.all(), pool.load(own_id).taken, pool.load(other_id).usable),
        (4, 2, 2),
        "half of the threads is the other's share"
    );
    drop(further);
    assert!(begin().is_some_and(|(_, turn)| turn.charge != pool.members.lock().all[0].running[0]));
}

#[test]
fn turns_on_earlier_threads_count_and_no_more_begin_there() {
    let pool = FairPool::own(2, None).unwrap();
    let jobs = Arc::new(Queued::default());
    let weak: Weak<Queued> = Arc::downgrade(&jobs);
    pool.join(weak, 1, 0);
    pool.most.store(0, Ordering::Release); // no slot
    let earlier = pool.threads.lock().clone();
    let begin = || Turn::begin(&pool, Instant::now()).0;
    jobs.set(10);
    let running = [begin(), begin()];
    let resize = |threads| {
        jobs.set(0); // no slot
        assert_eq!(pool.resize(threads, |_| 0).unwrap(), Some(threads));
        pool.most.store(0, Ordering::Release);
        jobs.set(10);
    };
    resize(3);
    let third = begin();
    assert!(third.is_some() && begin().is_none(), "three in all");
    resize(1);
    drop(third);
    assert!(begin().is_none(), "two still run on one thread");
    let slot = Slot { pool: pool.clone(), threads: earlier.clone(), pumps: false };
    slot.run();
    assert_eq!(pool.in_use.now().all(), 2, "an earlier thread begins no turn");
    drop(running);
    assert!(begin().is_some());
    assert!(!pool.is_unlimited(pool.in_use.now()));
    drop(earlier);
    assert!(pool.is_unlimited(pool.in_use.now()), "no earlier threads are left");
}
