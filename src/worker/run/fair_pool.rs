//! The thread pool on which jobs run. Several workers can share its threads.
//!
//! ```text
//! pump ──▶ slot (rayon task) ──▶ whose turn is it? ──▶ that worker's jobs, for a slice of time
//! ```
//!
//! A slot is a task in the pool. The pool has one slot for each thread and a few more, so that a thread that finishes a
//! slot finds the next one. A few slots instead of a task for each job keep the pool's deques short, so idle threads
//! soon steal the pieces of a handler that uses `par_iter`. No thread ever waits for a channel: the end of a slot and
//! the arrival of a job call [`FairPool::pump`], and there is no other scheduling.
//!
//! If several workers share the threads, [`worker_turns`](crate::worker::run::worker_turns) decides whose turn it is.
//!
//! While a thread waits in a handler's `par_iter` for a piece, it takes other tasks from the pool. If such a task is a
//! slot, the thread runs whole jobs on the waiting job's stack. This keeps the core busy, but must not nest without
//! limit: with [`MAX_DEPTH`] jobs on its stack, a thread returns the slot unused. The pool is pumped again a moment
//! later ([`FairPool::keep_pumping`]), because another thread may be idle.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::error::Error;
use crate::handler::Threads;
use crate::sync_primitives::{AtomicUsize, Mutex, Ordering, ThreadPool, ThreadPoolBuilder, thread_local};

use super::worker_turns::{Charge, Jobs, Member, MemberId, SLICE, WorkerTurns};

/// The most jobs on one thread's stack: one that runs, and one that waits in rayon for its pieces.
const MAX_DEPTH: u32 = 2;

/// How long after a slot was returned unused the pool is pumped again. An idle core loses at most a thousandth of a
/// second, and there are at most a thousand wake-ups per second.
const PUMP_AGAIN: Duration = Duration::from_millis(1);

/// A rayon pool and the workers that use it.
pub(in crate::worker) struct FairPool {
    threads: Arc<ThreadPool>,
    /// The maximum number of slots.
    most: AtomicUsize,
    used: AtomicUsize,
    /// How many turns are running, of all workers.
    turns: AtomicUsize,
    members: Mutex<WorkerTurns>,
    given_back: Notify,
}

/// The pools that the program supplied, so that workers with the same pool share it.
static SHARED: Mutex<Vec<Weak<FairPool>>> = Mutex::new(Vec::new());

thread_local! {
    /// How many slots are on this thread's stack.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

impl FairPool {
    /// Creates a pool for one worker alone.
    ///
    /// # Errors
    ///
    /// [`Error::Threads`] if the operating system cannot start the threads.
    pub(in crate::worker) fn own(threads: usize, stack_size: Option<usize>) -> Result<Arc<FairPool>, Error> {
        let refused = |error: rayon::ThreadPoolBuildError| Error::Threads { message: error.to_string() };
        let mut builder =
            ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("readpast-{index}"));
        if let Some(bytes) = stack_size {
            builder = builder.stack_size(bytes);
        }
        Ok(Arc::new(FairPool::new(Arc::new(builder.build().map_err(refused)?))))
    }

    /// Returns the pool that all workers with these threads share.
    pub(in crate::worker) fn shared(threads: Arc<ThreadPool>) -> Arc<FairPool> {
        let mut pools = SHARED.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        if let Some(pool) = pools.iter().filter_map(Weak::upgrade).find(|pool| Arc::ptr_eq(&pool.threads, &threads)) {
            return pool;
        }
        let pool = Arc::new(FairPool::new(threads));
        pools.push(Arc::downgrade(&pool));
        pool
    }

    fn new(threads: Arc<ThreadPool>) -> FairPool {
        FairPool {
            threads,
            most: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            turns: AtomicUsize::new(0),
            members: Mutex::default(),
            given_back: Notify::new(),
        }
    }

    /// Returns how many jobs can run at once.
    pub(in crate::worker) fn threads(&self) -> usize {
        self.threads.current_num_threads()
    }

    /// Adds a worker, until its jobs are dropped. `look_ahead` is the number of slots in addition to one for each
    /// thread; the largest value of all workers applies.
    pub(in crate::worker) fn join(&self, jobs: Weak<dyn Jobs>, weight: u32, look_ahead: usize) -> MemberId {
        self.most.fetch_max(self.threads() + look_ahead, Ordering::AcqRel);
        self.members.lock().join(jobs, f64::from(weight))
    }

    /// Fills free slots, as far as there are jobs for them. Called whenever a slot or a job may have become available.
    pub(in crate::worker) fn pump(self: &Arc<FairPool>) {
        let look = self.members.lock().look(Instant::now());
        let waiting: usize = look.iter().map(|(_, waiting)| waiting).sum();
        let_go(look.into_iter().map(|(jobs, _)| jobs));
        for _ in 0..waiting {
            let most = self.most.load(Ordering::Acquire);
            let reserve = |used| (used < most).then_some(used + 1);
            if self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, reserve).is_err() {
                return; // the end of a slot pumps again
            }
            let slot = Slot { pool: self.clone(), pumps: true };
            self.threads.spawn_fifo(move || slot.run());
        }
    }

    /// Pumps again a moment after slots were returned unused; never returns.
    pub(in crate::worker) async fn keep_pumping(self: Arc<FairPool>) {
        loop {
            self.given_back.notified().await;
            let signal = Signal(&self.given_back);
            tokio::time::sleep(PUMP_AGAIN).await;
            std::mem::forget(signal); // the pool is pumped now
            self.pump();
        }
    }

    /// Returns how the threads are used, from the viewpoint of one worker.
    pub(in crate::worker) fn load(&self, seen_by: MemberId) -> Load {
        let members = self.members.lock();
        let others = || members.all.iter().filter(|member| member.id != seen_by && member.jobs.strong_count() > 0);
        let have_jobs = others().filter(|member| !member.is_idle || !member.running.is_empty());
        let weight = |member: &Member| member.weight;
        let own = members.all.iter().find(|member| member.id == seen_by).map_or(1.0, weight);
        let share = fair_share(self.threads(), own, have_jobs.map(weight).sum());
        let taken: usize = others().map(|member| member.running.len()).sum();
        Load {
            is_shared: others().next().is_some(),
            turns: self.turns.load(Ordering::Acquire),
            share,
            usable: share.max(self.threads().saturating_sub(taken)),
        }
    }
}

impl Threads for FairPool {
    fn any_is_free(&self) -> bool {
        self.turns.load(Ordering::Acquire) < self.threads()
    }

    fn wake(self: Arc<FairPool>) {
        self.pump();
    }
}

/// How the threads of a pool are used.
pub(in crate::worker) struct Load {
    /// Several workers share the pool.
    pub(in crate::worker) is_shared: bool,
    /// How many turns are running, of all workers.
    pub(in crate::worker) turns: usize,
    /// This worker's share of the threads, beside the other workers that have jobs.
    pub(in crate::worker) share: usize,
    /// How many threads the worker may use: its share, or more if the others leave theirs unused.
    pub(in crate::worker) usable: usize,
}

/// Returns a worker's share of the threads by its weight; at least one thread.
fn fair_share(threads: usize, own: f64, others: f64) -> usize {
    ((threads as f64 * own / (own + others)) as usize).max(1)
}

/// A signal that a worker has received and acts on a moment later. If the worker stops meanwhile, the signal is passed
/// on to the other workers of the pool.
struct Signal<'a>(&'a Notify);

impl Drop for Signal<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Drops jobs, which may be the last part of a stopped worker. This may run code of the program's tracing subscriber
/// and metrics recorder. It must not be called under the pool's lock, which that code could try to take again, and it
/// does not let panics of that code reach rayon.
fn let_go(all: impl IntoIterator<Item = Arc<dyn Jobs>>) {
    for jobs in all {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(jobs)));
    }
}

/// The right to run jobs on one thread. It is returned on drop, whatever happens meanwhile.
struct Slot {
    pool: Arc<FairPool>,
    /// Whether the pool is pumped when the slot is returned, instead of a moment later.
    pumps: bool,
}

impl Slot {
    fn run(mut self) {
        let Some(_depth) = Depth::enter() else {
            self.pumps = false; // this thread would take the slot again immediately
            return;
        };
        let begun_at = Instant::now();
        let (next, others) = self.pool.members.lock().begin_turn(begun_at);
        // Settled when it is dropped.
        let next = next.map(|(jobs, charge)| (jobs, Turn::begin(&self.pool, charge)));
        let_go(others);
        let Some((jobs, _turn)) = next else { return };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| jobs.run(begun_at + SLICE))) {
            // The report may use the same subscriber that has just panicked.
            let _ = catch_unwind(AssertUnwindSafe(|| jobs.panicked(panic)));
        }
        let_go([jobs]);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pool.used.fetch_sub(1, Ordering::AcqRel);
        // Jobs that arrived after the last check may have found no free slot.
        if self.pumps {
            self.pool.pump();
        } else {
            self.pool.given_back.notify_one(); // only after the slot is free: the task that is woken must find it
        }
    }
}

/// A slot on this thread's stack.
struct Depth;

impl Depth {
    /// Adds a slot to the stack. Returns `None` if there are enough slots on it.
    fn enter() -> Option<Depth> {
        let depth = DEPTH.with(Cell::get);
        (depth < MAX_DEPTH).then(|| {
            DEPTH.with(|own| own.set(depth + 1));
            Depth
        })
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// A turn that has begun.
struct Turn<'a> {
    pool: &'a FairPool,
    charge: Charge,
}

impl<'a> Turn<'a> {
    fn begin(pool: &'a FairPool, charge: Charge) -> Turn<'a> {
        pool.turns.fetch_add(1, Ordering::AcqRel);
        Turn { pool, charge }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.pool.turns.fetch_sub(1, Ordering::AcqRel);
        self.pool.members.lock().end_turn(self.charge, Instant::now());
    }
}

#[cfg(test)]
mod tests {
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
        pool.threads.spawn(move || {
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
        Slot { pool: pool.clone(), pumps: true }.run();
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
            assert!(pool.members.lock().begin_turn(Instant::now()).0.is_some());
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
        assert_eq!(pool.load(id).turns, 0);
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
}
