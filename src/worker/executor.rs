//! The executor: a rayon pool of its own that runs the handler over claimed jobs.
//!
//! ```text
//! prefetcher ──submit──▶ bounded channel ──▶ slot (rayon task) ──▶ handler ──▶ completion
//! ```
//!
//! A slot is a task in the pool that takes one job after the other from the channel; there is one per thread and a few more, so that a
//! thread that ends a slot finds the next one in the pool. A slot gets its job only when it runs: jobs start in the order of the channel
//! whichever task rayon runs first, and what has not started can be given back at any time. Few slots, and not a task for each job, keep
//! the pool's deques short: a handler that uses `par_iter` finds idle threads that steal its pieces. Nothing in the pool ever waits for a
//! channel or a lock: whoever frees a slot or adds a job calls [`Executor::pump`], and that is all the scheduling there is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::config::{RetryConfig, WorkerConfig};
use crate::error::Error;
use crate::handler::{Context, Handlers, JobError, Ran, Surroundings, failure, panic_message};
use crate::ids::{Fence, JobId};
use crate::job::Job;
use crate::metrics::WorkerMetrics;
use crate::queue::claim::ClaimedUnseen;
use crate::queue::finish::Finish;

use super::completion::{CompletionSender, Ended, Ending};
use super::counts::Counts;
use super::held::Held;
use super::lease::{LeaseClock, Registration};

/// How long one task goes on taking jobs before it goes back to the pool. Handing a task to rayon costs about a microsecond: with jobs
/// shorter than this the cost is shared by several, longer jobs get a task each.
const TASK_SLICE: Duration = Duration::from_micros(200);

/// How often jobs are looked for that run longer than they may.
const OVERDUE_INTERVAL: Duration = Duration::from_secs(1);

/// A job in memory.
pub(crate) struct Claimed {
    pub(crate) job: Job,
    pub(crate) held: Held,
    pub(crate) claimed_at: Instant,
}

/// What the executor shares with the stage before it.
#[derive(Clone)]
pub(crate) struct Executor {
    shared: Arc<Shared>,
}

struct Shared {
    pool: rayon::ThreadPool,
    handlers: Handlers,
    buffer: Sender<Claimed>,
    waiting: Receiver<Claimed>,
    slots: usize,
    used_slots: AtomicUsize,
    counts: Arc<Counts>,
    /// The prefetcher wants to be woken when `unstarted` is at most this.
    low_water: AtomicUsize,
    prefetch_wake: Arc<Notify>,
    idle: Notify,
    /// No further job is started; those that would be are given back.
    closed: AtomicBool,
    lease: Arc<LeaseClock>,
    surroundings: Arc<Surroundings>,
    retry: RetryConfig,
    limited: TimeLimited,
    completion: CompletionSender,
    metrics: Arc<WorkerMetrics>,
    /// The worker's, the parent of each job's.
    span: tracing::Span,
}

impl Executor {
    /// Makes the pool. `capacity` is how many jobs can wait in the channel.
    ///
    /// # Errors
    ///
    /// [`Error::Threads`] when the operating system gives no threads.
    #[allow(clippy::too_many_arguments)] // one constructor, called once: a struct for it would be the same list again
    pub(crate) fn new(
        config: &WorkerConfig,
        threads: usize,
        capacity: usize,
        handlers: Handlers,
        lease: Arc<LeaseClock>,
        surroundings: Surroundings,
        prefetch_wake: Arc<Notify>,
        completion: CompletionSender,
        counts: Arc<Counts>,
        metrics: Arc<WorkerMetrics>,
    ) -> Result<Executor, Error> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("readpast-{index}"))
            // Each job has its own catch_unwind; this is for panics outside of it, which would abort the process.
            .panic_handler(|panic| {
                tracing::error!(panic = panic_message(&*panic), "a pool task panicked outside a job")
            })
            .build()
            .map_err(Error::Threads)?;
        let look_ahead = if config.look_ahead == 0 { threads } else { config.look_ahead };
        let (buffer, waiting) = crossbeam_channel::bounded(capacity);
        let shared = Shared {
            pool,
            handlers,
            buffer,
            waiting,
            slots: threads + look_ahead,
            used_slots: AtomicUsize::new(0),
            counts,
            low_water: AtomicUsize::new(0),
            prefetch_wake,
            idle: Notify::new(),
            closed: AtomicBool::new(false),
            lease,
            surroundings: Arc::new(surroundings),
            retry: config.retry,
            limited: TimeLimited::default(),
            completion,
            metrics,
            span: tracing::Span::current(),
        };
        Ok(Executor { shared: Arc::new(shared) })
    }

    pub(crate) fn threads(&self) -> usize {
        self.shared.pool.current_num_threads()
    }

    /// Sets at how many unstarted jobs the prefetcher is woken.
    pub(crate) fn set_low_water(&self, jobs: usize) {
        self.shared.low_water.store(jobs, Ordering::Release);
    }

    /// Takes jobs over. Never waits.
    ///
    /// # Panics
    ///
    /// When more jobs come than the channel has room for: the prefetcher, the only caller, claims no more than that.
    pub(crate) fn submit(&self, jobs: Vec<Claimed>) {
        self.shared.counts.unstarted.fetch_add(jobs.len(), Ordering::AcqRel);
        for claimed in jobs {
            self.shared.buffer.try_send(claimed).expect("the prefetcher claims no more than the channel has room for");
        }
        self.pump();
    }

    /// Acknowledges a job whose payload did not arrive: as a failed attempt with `error`, or as not started where that is `None`.
    pub(crate) fn not_delivered(&self, registration: &Arc<Registration>, job: ClaimedUnseen, error: Option<String>) {
        let ClaimedUnseen { job_id, fence, attempt, .. } = job;
        let ending = match error {
            Some(error) => {
                let outcome = failure(&JobError::retry(error), &self.shared.retry, attempt);
                Ending::Finish(Finish { job_id, fence, attempt, outcome, run: Duration::ZERO })
            }
            None => Ending::Release { job_id, fence },
        };
        let held = Held::nothing(registration, &self.shared.counts);
        self.shared.completion.send(Ended { held, enqueued_at: Instant::now(), ending });
    }

    /// Fills free slots from the channel. Called whenever a slot, a job or the lease may have become available.
    pub(crate) fn pump(&self) {
        pump(&self.shared);
    }

    /// Starts nothing any more and gives back what has not started. Jobs of `at_most_once` queues cannot be given back, they have no
    /// row any more: they still run.
    pub(crate) fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        let mut no_way_back = Vec::new();
        while let Ok(claimed) = self.shared.waiting.try_recv() {
            if claimed.job.fence() == Fence::NONE {
                no_way_back.push(claimed);
            } else {
                self.shared.give_back(claimed);
            }
        }
        for claimed in no_way_back {
            self.shared.buffer.try_send(claimed).expect("they have just been taken out of the channel");
        }
        self.pump();
    }

    /// Reports jobs that run longer than they may, each once; never returns.
    pub(crate) async fn keep_reporting_overdue(self) {
        let mut ticks = tokio::time::interval(OVERDUE_INTERVAL);
        loop {
            ticks.tick().await;
            self.report_overdue();
        }
    }

    fn report_overdue(&self) {
        for (job_id, fence, limit) in self.shared.limited.newly_overdue() {
            tracing::warn!(%job_id, %fence, ?limit, "a job runs longer than its time limit");
            self.shared.counts.overdue.fetch_add(1, Ordering::Relaxed);
            self.shared.metrics.overdue.increment(1);
        }
    }

    /// Gives back up to `jobs` of those that have not started, the oldest first: whoever claims them runs them at once.
    pub(crate) fn give_back(&self, jobs: usize) {
        for _ in 0..jobs {
            let Ok(claimed) = self.shared.waiting.try_recv() else {
                return;
            };
            if claimed.job.fence() == Fence::NONE {
                // There is no row to be given back to, and so it is with all jobs of this queue.
                self.shared.buffer.try_send(claimed).expect("it has just been taken out of the channel");
                return self.pump();
            }
            self.shared.give_back(claimed);
        }
    }

    /// Returns when no job is running or waiting to run.
    pub(crate) async fn idle(&self) {
        loop {
            let notified = self.shared.idle.notified();
            if self.shared.counts.unstarted() == 0 && self.shared.counts.running() == 0 {
                return;
            }
            notified.await;
        }
    }
}

/// Jobs that run and have a time limit.
#[derive(Default)]
struct TimeLimited {
    running: Mutex<HashMap<(JobId, Fence), Limit>>,
}

struct Limit {
    limit: Duration,
    /// `None`: it was reported.
    deadline: Option<Instant>,
}

impl TimeLimited {
    fn started(&self, job: &Job, limit: Duration, deadline: Instant) {
        self.running.lock().insert((job.id(), job.fence()), Limit { limit, deadline: Some(deadline) });
    }

    fn ended(&self, job: &Job) {
        self.running.lock().remove(&(job.id(), job.fence()));
    }

    /// Those whose time is over and that were not returned before.
    fn newly_overdue(&self) -> Vec<(JobId, Fence, Duration)> {
        let now = Instant::now();
        let mut running = self.running.lock();
        let overdue = running.iter_mut().filter_map(|((job_id, fence), limited)| {
            limited.deadline.take_if(|at| *at <= now).map(|_| (*job_id, *fence, limited.limit))
        });
        overdue.collect()
    }
}

fn pump(shared: &Arc<Shared>) {
    for _ in 0..shared.waiting.len() {
        let reserved = shared
            .used_slots
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| (used < shared.slots).then_some(used + 1));
        if reserved.is_err() {
            return; // whoever ends a slot pumps again
        }
        let slot = shared.clone();
        shared.pool.spawn_fifo(move || run_slot(&slot));
    }
}

/// Runs jobs for a while, then frees the slot.
fn run_slot(shared: &Arc<Shared>) {
    let slice_end = Instant::now() + TASK_SLICE;
    while let Some(claimed) = shared.take() {
        if shared.start(claimed) >= slice_end {
            break;
        }
    }
    shared.used_slots.fetch_sub(1, Ordering::AcqRel);
    // Jobs that came after the last look into the channel may have found no free slot. In doubt about the lease, its keeper pumps.
    if shared.may_start() {
        pump(shared);
    }
}

impl Shared {
    /// Whether jobs may leave the channel: not while the lease is in doubt, because they may be running elsewhere already. After
    /// [`Executor::close`] only jobs without a row still run, and no lease holds those.
    fn may_start(&self) -> bool {
        self.closed.load(Ordering::Acquire) || !self.lease.is_in_doubt()
    }

    fn take(&self) -> Option<Claimed> {
        if !self.may_start() {
            return None;
        }
        self.waiting.try_recv().ok()
    }

    /// Runs a job, or gives it back, or drops it where its lease is lost. Returns the time at the end.
    fn start(&self, claimed: Claimed) -> Instant {
        // A job of an at_most_once queue has no row any more: nobody else can run it, and it cannot be given back.
        let has_row = claimed.job.fence() != Fence::NONE;
        if has_row && claimed.held.registration().lost().is_cancelled() {
            self.drop_lost(claimed);
            return Instant::now();
        }
        if has_row && (self.closed.load(Ordering::Acquire) || self.surroundings.is_stopping_now()) {
            self.give_back(claimed);
            return Instant::now();
        }
        self.run(claimed)
    }

    fn run(&self, claimed: Claimed) -> Instant {
        let Claimed { job, mut held, claimed_at } = claimed;
        let handler = self.handlers.find(job.kind()).expect("there is one for the rest");
        let started_at = Instant::now();
        self.metrics.started(started_at - claimed_at);
        self.counts.running.fetch_add(1, Ordering::AcqRel);
        self.left_unstarted();

        let deadline = handler.time_limit.map(|limit| {
            let deadline = started_at + limit;
            self.limited.started(&job, limit, deadline);
            deadline
        });
        let lease_lost = held.registration().lost().clone();
        let context = Context::new(job, lease_lost, deadline, self.surroundings.clone());
        let Ran { outcome, panicked, ended_at } = handler.run(&context, &self.span);
        let job = context.into_job();
        if deadline.is_some() {
            self.limited.ended(&job);
        }

        let run = ended_at - started_at;
        self.counts.ended_jobs.fetch_add(1, Ordering::Relaxed);
        self.counts.ended_ns.fetch_add(run.as_nanos() as u64, Ordering::Relaxed);
        if panicked {
            self.metrics.panics.increment(1);
        }
        self.metrics.run_ended(&outcome, run);
        let finish = Finish { job_id: job.id(), fence: job.fence(), attempt: job.attempt(), outcome, run };
        let enqueued_at = claimed_at.checked_sub(job.age()).unwrap_or(claimed_at);
        let output_bytes = finish.outcome.output_bytes();
        if output_bytes > 0 {
            self.counts.output_bytes.fetch_add(output_bytes as u64, Ordering::Relaxed);
        }
        drop(job);
        held.becomes(output_bytes);
        self.completion.send(Ended { held, enqueued_at, ending: Ending::Finish(finish) });
        self.counts.running.fetch_sub(1, Ordering::AcqRel);
        self.wake_after_end();
        ended_at
    }

    fn give_back(&self, claimed: Claimed) {
        let Claimed { job, mut held, claimed_at } = claimed;
        let ending = Ending::Release { job_id: job.id(), fence: job.fence() };
        drop(job);
        held.becomes(0);
        self.completion.send(Ended { held, enqueued_at: claimed_at, ending });
        self.left_unstarted();
        self.wake_after_end();
    }

    fn drop_lost(&self, claimed: Claimed) {
        let Claimed { job, held, .. } = claimed;
        held.registration().forget(std::iter::once((job.id(), job.fence())));
        drop((job, held));
        self.metrics.lost(1);
        self.counts.lost.fetch_add(1, Ordering::Relaxed);
        self.left_unstarted();
        self.wake_after_end();
    }

    /// One job less waits to be started.
    fn left_unstarted(&self) {
        let left = self.counts.unstarted.fetch_sub(1, Ordering::AcqRel) - 1;
        if left <= self.low_water.load(Ordering::Acquire) {
            self.prefetch_wake.notify_one();
        }
    }

    /// A thread may be free now: it wants a job, or somebody waits for the last one to end.
    fn wake_after_end(&self) {
        if self.counts.unstarted() == 0 {
            self.prefetch_wake.notify_one();
            self.idle.notify_waiters();
        }
    }
}
