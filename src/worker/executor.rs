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

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use crate::error::Error;
use crate::handler::{self, Context, Handlers, JobError, Surroundings, UnknownKinds, failure, panic_message};
use crate::ids::Fence;
use crate::job::Job;
use crate::metrics::KindMetrics;
use crate::outcome::Outcome;
use crate::queue::claim::ClaimedUnseen;
use crate::queue::finish::Finish;

use super::completion::{CompletionSender, Ended, Ran};
use super::demand::most_ahead;
use super::held::Held;
use super::kind_limits::{Admission, KindLimits, Permit};
use super::lease_clock::LeaseClock;
use super::overdue::Overdue;
use super::registration::Registration;
use super::shared::Shared;

/// How long one task goes on taking jobs before it goes back to the pool. Handing a task to rayon costs about a microsecond: with jobs
/// shorter than this the cost is shared by several, longer jobs get a task each.
const TASK_SLICE: Duration = Duration::from_micros(200);

/// How often it is looked for jobs that wait too long for others of their kind.
const SURPLUS_INTERVAL: Duration = Duration::from_secs(1);

/// A job in memory, as the prefetcher hands it over.
pub(super) struct Claimed {
    pub(super) job: Job,
    pub(super) held: Held,
    pub(super) claimed_at: Instant,
    /// Of its kind's limit, where that has one.
    pub(super) permit: Option<Permit>,
}

/// The stage, as the one before it sees it.
#[derive(Clone)]
pub(super) struct Executor {
    slots: Arc<Slots>,
}

/// What the slots run with.
struct Slots {
    shared: Arc<Shared>,
    pool: rayon::ThreadPool,
    handlers: Handlers,
    surroundings: Arc<Surroundings>,
    buffer: Sender<Claimed>,
    waiting: Receiver<Claimed>,
    most: usize,
    used: AtomicUsize,
    /// No further job is started; those that would be are given back.
    closed: AtomicBool,
    lease: Arc<LeaseClock>,
    overdue: Arc<Overdue>,
    /// In the order of the handlers.
    kind_metrics: Arc<[KindMetrics]>,
    kind_limits: KindLimits,
    unknown_kinds: UnknownKinds,
    completion: CompletionSender,
    /// The worker's, the parent of each job's.
    span: tracing::Span,
}

impl Executor {
    /// Makes the pool.
    ///
    /// # Errors
    ///
    /// [`Error::Threads`] when the operating system gives no threads.
    pub(super) fn new(
        shared: &Arc<Shared>,
        handlers: Handlers,
        lease: Arc<LeaseClock>,
        completion: CompletionSender,
    ) -> Result<Executor, Error> {
        let threads = shared.threads;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("readpast-{index}"))
            // Each job has its own catch_unwind; this is for panics outside of it, which would abort the process.
            .panic_handler(|panic| {
                tracing::error!(panic = panic_message(&*panic), "a pool task panicked outside a job")
            })
            .build()
            .map_err(|error| Error::Threads { message: error.to_string() })?;
        let look_ahead = if shared.config.look_ahead == 0 { threads } else { shared.config.look_ahead };
        let (buffer, waiting) = crossbeam_channel::bounded(most_ahead(&shared.config) + threads);
        let kind_metrics: Arc<[_]> = handlers.labels().map(|kind| KindMetrics::new(&shared.queue, kind)).collect();
        let kind_limits = KindLimits::new(handlers.limits());
        let slots = Slots {
            shared: shared.clone(),
            pool,
            handlers,
            surroundings: Arc::new(shared.stop.surroundings()),
            buffer,
            waiting,
            most: threads + look_ahead,
            used: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            lease,
            overdue: Arc::new(Overdue::new(kind_metrics.clone())),
            kind_metrics,
            kind_limits,
            unknown_kinds: UnknownKinds::new(&shared.config),
            completion,
            span: tracing::Span::current(),
        };
        Ok(Executor { slots: Arc::new(slots) })
    }

    /// How many jobs can wait for a thread.
    pub(super) fn capacity(&self) -> usize {
        self.slots.buffer.capacity().unwrap_or(usize::MAX)
    }

    /// The jobs that run too long, where there is a time limit.
    pub(super) fn overdue(&self) -> Option<Arc<Overdue>> {
        self.slots.handlers.have_time_limits().then(|| self.slots.overdue.clone())
    }

    /// Takes jobs over. Never waits.
    ///
    /// # Panics
    ///
    /// When more jobs come than the channel has room for: the prefetcher, the only caller, claims no more than that.
    pub(super) fn submit(&self, jobs: Vec<Claimed>) {
        for claimed in jobs {
            self.slots.buffer.try_send(claimed).expect("the prefetcher claims no more than the channel has room for");
        }
        self.pump();
    }

    /// Acknowledges a job whose payload did not arrive: as a failed attempt with `error`, or as not started where that is `None`.
    pub(super) fn not_delivered(&self, registration: &Arc<Registration>, job: ClaimedUnseen, error: Option<String>) {
        let ClaimedUnseen { job_id, fence, attempt, .. } = job;
        let Slots { shared, completion, .. } = &*self.slots;
        let mut held = Held::unseen(registration, &shared.in_flight);
        held.ended(0);
        completion.send(match error {
            Some(error) => {
                let outcome = failure(&JobError::retry(error), &shared.config.retry, attempt);
                let finish = Finish { job_id, fence, attempt, kind: None, outcome, run: Duration::ZERO };
                Ended::Ran(Ran { finish, enqueued_at: Instant::now(), held })
            }
            None => Ended::Unstarted { job_id, fence, held },
        });
    }

    /// Fills free slots from the channel. Called whenever a slot, a job or the lease may have become available.
    pub(super) fn pump(&self) {
        pump(&self.slots);
    }

    /// Starts nothing any more and gives back what has not started. Jobs of `at_most_once` queues cannot be given back, they have no
    /// row any more: they still run.
    pub(super) fn close(&self) {
        self.slots.closed.store(true, Ordering::Release);
        for claimed in self.slots.kind_limits.take_waiting() {
            self.slots.give_back(claimed);
        }
        let mut no_way_back = Vec::new();
        while let Ok(claimed) = self.slots.waiting.try_recv() {
            if claimed.job.fence() == Fence::NONE {
                no_way_back.push(claimed);
            } else {
                self.slots.give_back(claimed);
            }
        }
        for claimed in no_way_back {
            self.slots.buffer.try_send(claimed).expect("they have just been taken out of the channel");
        }
        self.pump();
    }

    /// Puts off what waits for others of its kind and was not to wait for so long, once a second; never returns.
    pub(super) async fn keep_putting_off(self) {
        let mut ticks = tokio::time::interval(SURPLUS_INTERVAL);
        loop {
            ticks.tick().await;
            for (claimed, delay) in self.slots.kind_limits.take_surplus() {
                self.slots.put_off_for_others(claimed, delay);
            }
        }
    }

    /// Whether a kind has a limit.
    pub(super) fn has_kind_limits(&self) -> bool {
        !self.slots.kind_limits.are_none()
    }

    /// Gives back up to `jobs` of those that have not started, the oldest first: another worker that claims them runs them at once.
    pub(super) fn give_back(&self, jobs: usize) {
        for _ in 0..jobs {
            let Ok(claimed) = self.slots.waiting.try_recv() else {
                return;
            };
            if claimed.job.fence() == Fence::NONE {
                // There is no row to be given back to, and so it is with all jobs of this queue.
                self.slots.buffer.try_send(claimed).expect("it has just been taken out of the channel");
                return self.pump();
            }
            self.slots.give_back(claimed);
        }
    }
}

fn pump(slots: &Arc<Slots>) {
    for _ in 0..slots.kind_limits.ready() + slots.waiting.len() {
        let reserved = slots
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| (used < slots.most).then_some(used + 1));
        if reserved.is_err() {
            return; // the end of a slot pumps again
        }
        let slot = slots.clone();
        slots.pool.spawn_fifo(move || run_slot(&slot));
    }
}

/// Runs jobs for a while, then frees the slot.
fn run_slot(slots: &Arc<Slots>) {
    let slice_end = Instant::now() + TASK_SLICE;
    while let Some(claimed) = slots.take() {
        if slots.start(claimed) >= slice_end {
            break;
        }
    }
    slots.used.fetch_sub(1, Ordering::AcqRel);
    // Jobs that came after the last look into the channel may have found no free slot. In doubt about the lease, its keeper pumps.
    if slots.may_start() {
        pump(slots);
    }
}

impl Slots {
    /// Whether jobs may leave the channel: not while the lease is in doubt, because they may be running elsewhere already. After
    /// [`Executor::close`] only jobs without a row still run, and no lease holds those.
    fn may_start(&self) -> bool {
        self.closed.load(Ordering::Acquire) || !self.lease.is_in_doubt()
    }

    fn take(&self) -> Option<Claimed> {
        if !self.may_start() {
            return None;
        }
        self.kind_limits.next().or_else(|| self.waiting.try_recv().ok())
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
        let Some(handler) = self.handlers.find(claimed.job.kind()) else {
            let outcome = self.span.in_scope(|| self.unknown_kinds.outcome(&claimed.job));
            self.shared.tally.unknown_kind();
            self.shared.metrics.deferred_unknown_kind();
            self.put_off(claimed, outcome);
            return Instant::now();
        };
        match self.kind_limits.admit(handler, claimed) {
            Admission::Starts(claimed) => self.run(handler, claimed),
            Admission::Waits => Instant::now(),
            Admission::PutOff(claimed, delay) => {
                self.put_off_for_others(claimed, delay);
                Instant::now()
            }
        }
    }

    fn run(&self, place: usize, claimed: Claimed) -> Instant {
        let Claimed { job, mut held, claimed_at, permit } = claimed;
        let Shared { tally, metrics, .. } = &*self.shared;
        let (handler, kind_metrics) = (self.handlers.get(place), &self.kind_metrics[place]);
        let started_at = Instant::now();
        metrics.started(started_at - claimed_at);
        held.started();

        let watched = self.overdue.watch(&job, place, handler, started_at);
        let deadline = watched.as_ref().map(|watched| watched.deadline);
        let lease_lost = held.registration().lost().clone();
        let context = Context::new(job, lease_lost, deadline, self.surroundings.clone());
        let handler::Ran { outcome, panicked, ended_at } = handler.run(&context, &self.span);
        drop((watched, permit));
        let job = context.into_job();

        let run = ended_at - started_at;
        if panicked {
            kind_metrics.panics.increment(1);
        }
        kind_metrics.run_ended(&outcome, run);
        let kind = handler.kind().cloned();
        let finish = Finish { job_id: job.id(), fence: job.fence(), attempt: job.attempt(), kind, outcome, run };
        let enqueued_at = claimed_at.checked_sub(job.age()).unwrap_or(claimed_at);
        let output_bytes = finish.outcome.output_bytes();
        tally.ran(run, output_bytes);
        drop(job);
        held.ended(output_bytes);
        self.completion.send(Ended::Ran(Ran { finish, enqueued_at, held }));
        ended_at
    }

    fn give_back(&self, claimed: Claimed) {
        let Claimed { job, mut held, permit, .. } = claimed;
        let (job_id, fence) = (job.id(), job.fence());
        drop((job, permit));
        held.ended(0);
        self.completion.send(Ended::Unstarted { job_id, fence, held });
    }

    fn put_off_for_others(&self, claimed: Claimed, delay: Duration) {
        let error = "the worker ran as many jobs of this kind as it may at once".to_owned();
        self.shared.metrics.deferred_kind_limit();
        self.put_off(claimed, Outcome::Snooze { delay, error });
    }

    /// Acknowledges a job that is not run now, here.
    fn put_off(&self, claimed: Claimed, outcome: Outcome) {
        let Claimed { job, mut held, claimed_at, permit } = claimed;
        let (job_id, fence, attempt) = (job.id(), job.fence(), job.attempt());
        drop((job, permit));
        held.ended(0);
        let finish = Finish { job_id, fence, attempt, kind: None, outcome, run: Duration::ZERO };
        self.completion.send(Ended::Ran(Ran { finish, enqueued_at: claimed_at, held }));
    }

    fn drop_lost(&self, claimed: Claimed) {
        let Claimed { job, held, permit, .. } = claimed;
        held.registration().forget(std::iter::once((job.id(), job.fence())));
        drop((job, permit, held));
        self.shared.metrics.lost(1);
        self.shared.tally.lost(1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::completion;
    use super::*;
    use crate::config::WorkerConfig;
    use crate::job::NewJob;

    const LEASE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn after_a_suspension_nothing_is_started_until_a_heartbeat_was_answered() {
        let clock = Arc::new(LeaseClock::default());
        clock.renewed(clock.now(), LEASE);
        let shared = Arc::new(Shared::for_test(WorkerConfig { threads: 1, ..WorkerConfig::default() }));
        let (executor, starts) = counting_executor(&shared, &clock);
        let registration = Arc::new(Registration::for_test(clock.clone()));
        assert!(registration.is_held());

        clock.shift(LEASE);
        assert!(!registration.is_held() && clock.is_in_doubt(), "at once, without a look at SQL Server");
        assert!(clock.age() >= LEASE);
        let claimed = Held::claimed(&registration, &shared.in_flight, vec![Job::for_test(NewJob::text(""))]);
        let claimed_at = Instant::now();
        executor
            .submit(claimed.into_iter().map(|(job, held)| Claimed { job, held, claimed_at, permit: None }).collect());
        executor.pump();
        tokio::time::sleep(Duration::from_millis(20)).await; // a start would take microseconds
        assert_eq!(starts.load(Ordering::Acquire), 0);

        clock.renewed(clock.now(), LEASE);
        executor.pump();
        shared.in_flight.idle().await;
        assert_eq!(starts.load(Ordering::Acquire), 1);
    }

    fn counting_executor(shared: &Arc<Shared>, clock: &Arc<LeaseClock>) -> (Executor, Arc<AtomicUsize>) {
        let (completion, ..) = completion::channel(shared);
        let starts = Arc::new(AtomicUsize::new(0));
        let counted = starts.clone();
        let handler = move |_: &Job, _: &Context| {
            counted.fetch_add(1, Ordering::AcqRel);
            Ok(())
        };
        let handlers = Handlers::any(handler).checked(&shared.config).unwrap();
        let executor = Executor::new(shared, handlers, clock.clone(), completion);
        (executor.unwrap(), starts)
    }
}
