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
//! A job may need several threads ([`threads_in_use`](crate::worker::run::threads_in_use)). While it runs, no turn begins
//! on the further ones, so that they are free for the pieces of its rayon calls.
//!
//! A rayon pool cannot be resized, so [`FairPool::resize`] starts a new one. The earlier pool ends after its last turn.
//! Until then, new turns begin only while both pools together run fewer turns than the new pool has threads.
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
use crate::sync_primitives::{
    AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, ThreadPool, ThreadPoolBuilder, thread_local,
};

use super::threads_in_use::{InUse, ThreadsInUse};
use super::worker_turns::{Charge, Jobs, Member, MemberId, Reservation, SLICE, WorkerTurns};

/// The most jobs on one thread's stack: one that runs, and one that waits in rayon for its pieces.
const MAX_DEPTH: u32 = 2;

/// How long after a slot was returned unused the pool is pumped again. An idle core loses at most a thousandth of a
/// second, and there are at most a thousand wake-ups per second.
const PUMP_AGAIN: Duration = Duration::from_millis(1);

/// The position of a worker's id in [`FairPool::reserved`].
const RESERVED: u32 = 32;

/// Earlier pools whose last jobs still run: with as many, no resize begins, so that threads do not pile up.
const MAX_EARLIER: usize = 2;

/// A rayon pool and the workers that use it.
pub(in crate::worker) struct FairPool {
    threads: Mutex<Arc<ThreadPool>>,
    /// How many threads that pool has.
    size: AtomicUsize,
    /// The earlier pools on which turns may still run.
    earlier: Mutex<Vec<Weak<ThreadPool>>>,
    /// Whether there may be any.
    is_moving: AtomicBool,
    /// Starts the threads; `None` if the program supplied the pool.
    start: Option<StartThreads>,
    /// The maximum number of slots.
    most: AtomicUsize,
    used: AtomicUsize,
    /// The threads that turns and jobs of all workers use.
    in_use: ThreadsInUse,
    /// The threads that are kept for the job of one worker: the worker's id, and below it their number. Written under the
    /// lock of `members`, after each look.
    reserved: AtomicU64,
    members: Mutex<WorkerTurns>,
    given_back: Notify,
}

/// Starts this many threads.
pub(in crate::worker) type StartThreads =
    Arc<dyn Fn(usize) -> Result<ThreadPool, rayon::ThreadPoolBuildError> + Send + Sync>;

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
    pub(in crate::worker) fn own(threads: usize, start: Option<StartThreads>) -> Result<Arc<FairPool>, Error> {
        let start = start.unwrap_or_else(|| Arc::new(|threads| named_threads(threads).build()));
        let mut pool = FairPool::new(Arc::new(start(threads).map_err(refused)?));
        pool.start = Some(start);
        Ok(Arc::new(pool))
    }

    /// Changes how many threads the pool has, with `look_ahead` slots in addition. Turns that run
    /// continue. Returns how many there are now, or `None` if the program supplied the pool, which stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::Threads`] if the operating system cannot start the threads.
    pub(in crate::worker) fn resize(
        self: &Arc<FairPool>,
        threads: usize,
        look_ahead: impl Fn(usize) -> usize,
    ) -> Result<Option<usize>, Error> {
        let Some(start) = &self.start else { return Ok(None) };
        if self.earlier.lock().iter().filter(|pool| pool.strong_count() > 0).count() >= MAX_EARLIER {
            return Err(Error::Threads { message: "jobs still run on the threads of two earlier changes".to_owned() });
        }
        let new = Arc::new(start(threads).map_err(refused)?);
        let threads = new.current_num_threads();
        let mut current = self.threads.lock();
        self.earlier.lock().push(Arc::downgrade(&current));
        self.is_moving.store(true, Ordering::SeqCst);
        *current = new;
        self.size.store(threads, Ordering::SeqCst);
        self.most.store(threads + look_ahead(threads), Ordering::SeqCst);
        drop(current);
        self.pump();
        Ok(Some(threads))
    }

    /// Returns the pool that all workers with these threads share.
    pub(in crate::worker) fn shared(threads: Arc<ThreadPool>) -> Arc<FairPool> {
        let mut pools = SHARED.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        if let Some(pool) =
            pools.iter().filter_map(Weak::upgrade).find(|pool| Arc::ptr_eq(&pool.threads.lock(), &threads))
        {
            return pool;
        }
        let pool = Arc::new(FairPool::new(threads));
        pools.push(Arc::downgrade(&pool));
        pool
    }

    /// Creates the pool with these threads.
    pub(super) fn new(threads: Arc<ThreadPool>) -> FairPool {
        FairPool {
            size: AtomicUsize::new(threads.current_num_threads()),
            threads: Mutex::new(threads),
            earlier: Mutex::default(),
            is_moving: AtomicBool::new(false),
            start: None,
            most: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            in_use: ThreadsInUse::new(),
            reserved: AtomicU64::new(0),
            members: Mutex::default(),
            given_back: Notify::new(),
        }
    }

    /// Returns how many jobs can run at once.
    pub(in crate::worker) fn threads(&self) -> usize {
        self.size.load(Ordering::SeqCst)
    }

    /// Whether turns begin without limit: no job has taken threads, and no turn runs on threads of an earlier pool.
    pub(in crate::worker) fn is_unlimited(&self, in_use: InUse) -> bool {
        in_use.taken == 0 && !self.has_earlier()
    }

    fn has_earlier(&self) -> bool {
        self.is_moving.load(Ordering::SeqCst) && {
            let mut earlier = self.earlier.lock();
            earlier.retain(|pool| pool.strong_count() > 0);
            self.is_moving.store(!earlier.is_empty(), Ordering::SeqCst);
            !earlier.is_empty()
        }
    }

    /// Adds a worker, until its jobs are dropped. `look_ahead` is the number of slots in addition to one for each
    /// thread; the largest value of all workers applies.
    pub(in crate::worker) fn join(&self, jobs: Weak<dyn Jobs>, weight: u32, look_ahead: usize) -> MemberId {
        self.most.fetch_max(self.threads() + look_ahead, Ordering::AcqRel);
        self.members.lock().join(jobs, f64::from(weight))
    }

    /// Fills free slots, as far as there are jobs for them. Called whenever a slot or a job may have become available.
    pub(in crate::worker) fn pump(self: &Arc<FairPool>) {
        let (look, room) = {
            let mut members = self.members.lock();
            let look = members.look(Instant::now());
            self.publish(members.reserved);
            (look, self.room(members.reserved))
        };
        let waiting: usize = look.iter().map(|(_, waiting)| waiting).sum();
        let_go(look.into_iter().map(|(jobs, _)| jobs));
        // Without the limit, slots without a thread for a turn would end and start others without end.
        if waiting.min(room) == 0 {
            return;
        }
        let threads = self.threads.lock().clone();
        for _ in 0..waiting.min(room) {
            let most = self.most.load(Ordering::Acquire);
            let reserve = |used| (used < most).then_some(used + 1);
            if self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, reserve).is_err() {
                return; // the end of a slot pumps again
            }
            let slot = Slot { pool: self.clone(), threads: threads.clone(), pumps: true };
            threads.spawn_fifo(move || slot.run());
        }
    }

    /// How many turns could begin now.
    fn room(&self, reserved: Option<Reservation>) -> usize {
        let in_use = self.in_use.now();
        match reserved {
            Some(reserved) => usize::from(in_use.all() + reserved.threads <= self.threads()),
            None if self.is_unlimited(in_use) => usize::MAX,
            None => self.threads().saturating_sub(in_use.all()),
        }
    }

    fn publish(&self, reserved: Option<Reservation>) {
        let packed = reserved.map_or(0, |reserved| reserved.member.low() << RESERVED | reserved.threads as u64);
        if self.reserved.load(Ordering::Relaxed) != packed {
            self.reserved.store(packed, Ordering::SeqCst);
        }
    }

    /// Whether threads are kept for the job of one worker.
    pub(in crate::worker) fn keeps_threads(&self) -> bool {
        self.reserved.load(Ordering::Relaxed) != 0
    }

    /// The threads in use.
    pub(in crate::worker) fn in_use(&self) -> InUse {
        self.in_use.now()
    }

    /// Takes `more` threads for a job of `member` whose turn is running, if so many are free and `spare` besides. Threads
    /// that are kept for another worker are not free. If it succeeds, the caller must [`charge`](Self::charge) them.
    /// Never waits.
    pub(in crate::worker) fn take(&self, member: MemberId, more: usize, spare: usize) -> bool {
        let reserved = self.reserved.load(Ordering::SeqCst);
        let kept = reserved & ((1 << RESERVED) - 1);
        let of_others = if reserved >> RESERVED == member.low() { 0 } else { kept as usize };
        self.in_use.take(more, spare.max(of_others), self.threads())
    }

    /// Charges a worker for threads that one of its jobs has just taken, until the value is dropped.
    pub(in crate::worker) fn charge(self: &Arc<FairPool>, member: MemberId, more: usize) -> FurtherThreads {
        let charges = self.members.lock().charge(member, more, Instant::now());
        self.pump(); // if the threads were kept for the job, others may use the rest now
        FurtherThreads { pool: self.clone(), threads: more, charges }
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
        let own = members.all.iter().find(|member| member.id == seen_by);
        let share = fair_share(self.threads(), own.map_or(1.0, weight), have_jobs.map(weight).sum());
        let of_others: usize = others().map(|member| member.running.len()).sum();
        Load {
            is_shared: others().next().is_some(),
            in_use: self.in_use.now(),
            taken: own.map_or(0, |member| member.running.iter().filter(|charge| charge.is_further).count()),
            keeps_free: match members.reserved {
                None => KeepsFree::None,
                Some(reserved) if reserved.member == seen_by => KeepsFree::ForIt,
                Some(_) => KeepsFree::ForAnother,
            },
            share,
            usable: share.max(self.threads().saturating_sub(of_others)),
        }
    }
}

impl Threads for FairPool {
    fn any_is_free(&self) -> bool {
        !self.keeps_threads() && self.in_use.now().all() < self.threads()
    }

    fn wake(self: Arc<FairPool>) {
        self.pump();
    }
}

/// A builder of threads of a worker's own.
pub(in crate::worker) fn named_threads(threads: usize) -> ThreadPoolBuilder {
    ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("readpast-{index}"))
}

fn refused(error: rayon::ThreadPoolBuildError) -> Error {
    Error::Threads { message: error.to_string() }
}

/// How the threads of a pool are used.
pub(in crate::worker) struct Load {
    /// Several workers share the pool.
    pub(in crate::worker) is_shared: bool,
    /// The threads that all workers use.
    pub(in crate::worker) in_use: InUse,
    /// The threads that jobs of this worker have taken besides those of their turns.
    pub(in crate::worker) taken: usize,
    pub(in crate::worker) keeps_free: KeepsFree,
    /// This worker's share of the threads, beside the other workers that have jobs.
    pub(in crate::worker) share: usize,
    /// How many threads the worker may use: its share, or more if the others leave theirs unused.
    pub(in crate::worker) usable: usize,
}

/// Whether threads are kept free for a job that needs several, and whose job that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) enum KeepsFree {
    None,
    ForIt,
    ForAnother,
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

/// The jobs whose turn it is, and their turn.
type Begun<'a> = (Arc<dyn Jobs>, Turn<'a>);

/// Jobs to drop once the pool's lock is released.
type ToDrop = Vec<Arc<dyn Jobs>>;

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
    /// The threads on which it runs.
    threads: Arc<ThreadPool>,
    /// Whether the pool is pumped when the slot is returned, instead of a moment later.
    pumps: bool,
}

impl Slot {
    fn run(mut self) {
        let Some(_depth) = Depth::enter() else {
            self.pumps = false; // this thread would take the slot again immediately
            return;
        };
        if !Arc::ptr_eq(&self.threads, &self.pool.threads.lock()) {
            return; // the pool was resized, and the end of the slot pumps
        }
        let begun_at = Instant::now();
        let (next, others) = Turn::begin(&self.pool, begun_at);
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
    /// Begins the turn of the jobs whose turn it is, if a thread is free for it, and returns the jobs to drop.
    fn begin(pool: &'a FairPool, begun_at: Instant) -> (Option<Begun<'a>>, ToDrop) {
        let mut members = pool.members.lock();
        let in_use = pool.in_use.now();
        // Read before, because the number in use is changed by comparing and swapping.
        let (has_earlier, threads) = (pool.has_earlier(), pool.threads());
        let limit = |in_use: InUse| (in_use.taken > 0 || has_earlier).then_some(threads);
        if limit(in_use).is_some_and(|threads| in_use.all() >= threads) {
            return (None, Vec::new()); // the end of a turn or of a job pumps
        }
        // The jobs tell what could start before this turn counts.
        let (next, mut others) = members.begin_turn(threads.saturating_sub(in_use.all()), begun_at);
        pool.publish(members.reserved);
        let Some((jobs, charge)) = next else { return (None, others) };
        if !pool.in_use.begin_turn(limit) {
            members.cancel_turn(charge); // a job has just taken the last threads
            others.push(jobs);
            return (None, others);
        }
        (Some((jobs, Turn { pool, charge })), others)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.pool.in_use.end_turn();
        self.pool.members.lock().end_turn(self.charge, Instant::now());
    }
}

/// The threads of a running job besides the one that runs its handler. They are returned on drop.
pub(in crate::worker) struct FurtherThreads {
    pool: Arc<FairPool>,
    threads: usize,
    charges: Vec<Charge>,
}

impl Drop for FurtherThreads {
    fn drop(&mut self) {
        self.pool.in_use.give_back(self.threads);
        let ended_at = Instant::now();
        let mut members = self.pool.members.lock();
        self.charges.drain(..).for_each(|charge| members.end_turn(charge, ended_at));
        drop(members);
        self.pool.pump();
    }
}

#[cfg(test)]
#[path = "fair_pool_tests.rs"]
mod tests;
