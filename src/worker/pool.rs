//! The threads on which jobs run, and whose turn it is on them.
//!
//! ```text
//! pump ──▶ slot (rayon task) ──▶ whose turn is it? ──▶ that worker's jobs, for a slice of time
//! ```
//!
//! A slot is a task in the pool; there is one for each thread and a few more, so that a thread that ends a slot finds the next one in the
//! pool. Few slots, and not a task for each job, keep the pool's deques short: a handler that uses `par_iter` finds idle threads that steal
//! its pieces. Nothing in the pool ever waits for a channel: the end of a slot and the arrival of a job call [`Pool::pump`], and
//! that is all the scheduling there is.
//!
//! Several workers can share the threads. Each turn goes to the worker that has had the least time for its weight (start-time fair
//! queueing): the time of a turn is charged when it begins, as long as the worker's turns take on average, and settled when it ends. So a
//! worker of long jobs does not take thread after thread from one of short jobs before its first turn has ended.
//!
//! A thread that waits in a handler's `par_iter` for a piece takes other tasks from the pool meanwhile, a slot among them, and runs whole
//! jobs on the waiting job's stack. That keeps the core at work, but must not go on and on: with [`MAX_DEPTH`] jobs on its stack a thread
//! gives a slot back. The pool is pumped again a moment later ([`Pool::keep_pumping`]), because another thread may be idle.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::Error;

/// How long a turn goes on taking jobs before the thread goes back to the pool. Handing a task to rayon costs about a microsecond: with jobs
/// shorter than this the cost is shared by several, longer jobs get a turn each.
const SLICE: Duration = Duration::from_micros(200);

/// How many jobs may be on one thread's stack: one that runs, and one that waits in rayon for its pieces.
const MAX_DEPTH: u32 = 2;

/// How long after a slot was given back the pool is pumped again: a thousandth of a second of a core, should one be idle, and a thousand wake-ups
/// a second at the most.
const PUMP_AGAIN: Duration = Duration::from_millis(1);

/// The jobs of one worker, as the pool sees them.
pub(super) trait Jobs: Send + Sync {
    /// How many could start now.
    fn waiting(&self) -> usize;

    /// Runs jobs one after the other until there are none, or one has ended after `slice_end`.
    fn run(&self, slice_end: Instant);

    /// [`run`](Self::run) has panicked.
    fn panicked(&self, panic: Box<dyn Any + Send>);
}

/// A rayon pool and the workers that use it.
pub(super) struct Pool {
    threads: Arc<rayon::ThreadPool>,
    /// How many slots there may be.
    most: AtomicUsize,
    used: AtomicUsize,
    members: Mutex<Members>,
    given_back: Notify,
}

/// The pools that were handed in by the program, so that workers which got the same one meet.
static SHARED: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

thread_local! {
    /// How many slots are on this thread's stack.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

impl Pool {
    /// A pool of one worker's own.
    ///
    /// # Errors
    ///
    /// [`Error::Threads`] when the operating system gives no threads.
    pub(super) fn own(threads: usize, stack_size: Option<usize>) -> Result<Arc<Pool>, Error> {
        let refused = |error: rayon::ThreadPoolBuildError| Error::Threads { message: error.to_string() };
        let mut builder =
            rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("readpast-{index}"));
        if let Some(bytes) = stack_size {
            builder = builder.stack_size(bytes);
        }
        Ok(Arc::new(Pool::new(Arc::new(builder.build().map_err(refused)?))))
    }

    /// The pool of all workers that were given these threads.
    pub(super) fn shared(threads: Arc<rayon::ThreadPool>) -> Arc<Pool> {
        let mut pools = SHARED.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        if let Some(pool) = pools.iter().filter_map(Weak::upgrade).find(|pool| Arc::ptr_eq(&pool.threads, &threads)) {
            return pool;
        }
        let pool = Arc::new(Pool::new(threads));
        pools.push(Arc::downgrade(&pool));
        pool
    }

    fn new(threads: Arc<rayon::ThreadPool>) -> Pool {
        Pool {
            threads,
            most: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            members: Mutex::default(),
            given_back: Notify::new(),
        }
    }

    /// How many jobs can run at once.
    pub(super) fn threads(&self) -> usize {
        self.threads.current_num_threads()
    }

    /// Adds a worker, until its jobs are dropped. `look_ahead` is how many slots there are beside one for each thread; of several workers' the
    /// largest counts.
    pub(super) fn join(&self, jobs: Weak<dyn Jobs>, weight: u32, look_ahead: usize) {
        self.most.fetch_max(self.threads() + look_ahead, Ordering::AcqRel);
        self.members.lock().join(jobs, f64::from(weight));
    }

    /// Fills free slots, as far as there are jobs for them. Called whenever a slot or a job may have become available.
    pub(super) fn pump(self: &Arc<Pool>) {
        let waiting = self.members.lock().waiting();
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

    /// Pumps again a moment after slots were given back; never returns.
    pub(super) async fn keep_pumping(self: Arc<Pool>) {
        loop {
            self.given_back.notified().await;
            tokio::time::sleep(PUMP_AGAIN).await;
            self.pump();
        }
    }
}

/// The right to run jobs on one thread. It comes back when it is dropped, whatever happens meanwhile.
struct Slot {
    pool: Arc<Pool>,
    /// Whether the pool is pumped at the end.
    pumps: bool,
}

impl Slot {
    fn run(mut self) {
        let Some(_depth) = Depth::enter() else {
            self.pumps = false; // this thread would take it at once again
            self.pool.given_back.notify_one();
            return;
        };
        let begun_at = Instant::now();
        let Some((jobs, charge)) = self.pool.members.lock().begin_turn(begun_at) else { return };
        // It is settled when it is dropped.
        let _turn = Turn { pool: &self.pool, charge };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| jobs.run(begun_at + SLICE))) {
            // What it tells may go through the same subscriber that has just panicked.
            let _ = catch_unwind(AssertUnwindSafe(|| jobs.panicked(panic)));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pool.used.fetch_sub(1, Ordering::AcqRel);
        // Jobs that came after the last look may have found no free slot.
        if self.pumps {
            self.pool.pump();
        }
    }
}

/// A slot on this thread's stack.
struct Depth;

impl Depth {
    /// `None`: there are enough.
    fn enter() -> Option<Depth> {
        let depth = DEPTH.get();
        (depth < MAX_DEPTH).then(|| {
            DEPTH.set(depth + 1);
            Depth
        })
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// A turn that has begun.
struct Turn<'a> {
    pool: &'a Pool,
    charge: Charge,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.pool.members.lock().end_turn(self.charge, Instant::now());
    }
}

/// What a turn was charged when it began.
#[derive(Debug, Clone, Copy)]
struct Charge {
    member: u64,
    begun_at: Instant,
    seconds: f64,
}

/// The workers of a pool.
#[derive(Default)]
struct Members {
    all: Vec<Member>,
    joined: u64,
    /// The time of the last turn's worker, when it began: where one starts that had no jobs for a while.
    now: f64,
}

struct Member {
    id: u64,
    jobs: Weak<dyn Jobs>,
    weight: f64,
    /// Seconds that its turns took, by its weight.
    time: f64,
    /// How long a turn takes: a moving mean.
    mean_turn: f64,
    running: usize,
}

impl Member {
    /// The one that had less time; of two that had the same, the one that has fewer threads for its weight.
    fn comes_before(&self, other: &Member) -> bool {
        let threads = |member: &Member| member.running as f64 / member.weight;
        self.time < other.time || (self.time == other.time && threads(self) < threads(other))
    }
}

impl Members {
    fn join(&mut self, jobs: Weak<dyn Jobs>, weight: f64) {
        self.all.retain(|member| member.jobs.strong_count() > 0);
        self.joined += 1;
        let (id, time) = (self.joined, self.now);
        self.all.push(Member { id, jobs, weight, time, mean_turn: 0.0, running: 0 });
    }

    fn waiting(&self) -> usize {
        self.all.iter().filter_map(|member| member.jobs.upgrade()).map(|jobs| jobs.waiting()).sum()
    }

    /// The jobs whose turn it is; `None`: there are none.
    fn begin_turn(&mut self, begun_at: Instant) -> Option<(Arc<dyn Jobs>, Charge)> {
        let mut next: Option<(&mut Member, Arc<dyn Jobs>)> = None;
        for member in &mut self.all {
            let Some(jobs) = member.jobs.upgrade().filter(|jobs| jobs.waiting() > 0) else { continue };
            if member.running == 0 {
                // What it did not use while it had no jobs is not saved up.
                member.time = member.time.max(self.now);
            }
            if next.as_ref().is_none_or(|(first, _)| member.comes_before(first)) {
                next = Some((member, jobs));
            }
        }
        let (member, jobs) = next?;
        self.now = self.now.max(member.time);
        member.running += 1;
        let charge = Charge { member: member.id, begun_at, seconds: member.mean_turn };
        member.time += charge.seconds / member.weight;
        Some((jobs, charge))
    }

    fn end_turn(&mut self, charge: Charge, ended_at: Instant) {
        let Some(member) = self.all.iter_mut().find(|member| member.id == charge.member) else { return };
        let took = (ended_at - charge.begun_at).as_secs_f64();
        member.running -= 1;
        member.time += (took - charge.seconds) / member.weight;
        member.mean_turn = if member.mean_turn == 0.0 { took } else { (3.0 * member.mean_turn + took) / 4.0 };
    }
}
