//! The executor: runs the handlers over claimed jobs, on the threads of a [`FairPool`].
//!
//! ```text
//! prefetcher ──submit──▶ channel ──▶ a turn in the pool ──▶ handler ──▶ finisher
//! ```
//!
//! A job leaves the channel only when it starts. Jobs therefore start in the order of the channel, whichever task the
//! pool runs first, and a job that has not started can be released at any time.

use super::dropped_elsewhere::DroppedElsewhere;
use super::fair_pool::{FairPool, Load};
use super::handlers_and_hooks::HandlersAndHooks;
use super::job_starter::JobStarter;
use super::kind_limits::KindLimits;
use super::overdue::Overdue;
use super::worker_turns::MemberId;
use crate::handler::{JobError, UnknownKinds, failure};
use crate::id::{Fence, JobId};
use crate::job::Usage;
use crate::metrics::KindMetrics;
use crate::procedures::worker::Finish;
use crate::worker::finish::{Ended, FinishSender, Ran};
use crate::worker::lease::{Claimed, HeldJob, LeaseValidity, Registration};
use crate::worker::state::WorkerState;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often to check for jobs that have waited too long for other jobs of their kind.
const SURPLUS_INTERVAL: Duration = Duration::from_secs(1);

/// The executor, as the prefetcher sees it.
#[derive(Clone)]
pub(in crate::worker) struct Executor {
    starter: Arc<JobStarter>,
    pool: Arc<FairPool>,
    member: MemberId,
}

impl Executor {
    /// Creates the executor and joins the pool. The channel needs no bound: its jobs are in flight.
    pub(in crate::worker) fn new(
        state: &Arc<WorkerState>,
        pool: Arc<FairPool>,
        code: DroppedElsewhere<HandlersAndHooks>,
        lease: Arc<LeaseValidity>,
        finisher: FinishSender,
    ) -> Executor {
        let (threads, config) = (state.threads, &state.config);
        let (buffer, waiting) = crossbeam_channel::unbounded();
        let handlers = &code.handlers;
        let kind_metrics: Arc<[_]> = handlers.labels().map(|kind| KindMetrics::new(&state.queue, kind)).collect();
        let kind_limits = KindLimits::new(handlers.places(), &pool);
        let surroundings = state.stop.surroundings(handlers.shared_state(), state.notes.clone(), state.place());
        let surroundings = DroppedElsewhere::new(Arc::new(surroundings));
        let starter = Arc::new(JobStarter {
            state: state.clone(),
            code,
            surroundings,
            buffer,
            waiting,
            closed: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
            without_row: AtomicBool::new(false),
            lease,
            overdue: Arc::new(Overdue::new(kind_metrics.clone())),
            kind_metrics,
            kind_limits,
            unknown_kinds: UnknownKinds::new(config),
            finisher,
            span: tracing::Span::current(),
        });
        let look_ahead = if config.look_ahead == 0 { threads } else { config.look_ahead };
        let jobs: Weak<JobStarter> = Arc::downgrade(&starter);
        let member = pool.join(jobs, state.weight, look_ahead);
        Executor { starter, pool, member }
    }

    /// The pool on which its jobs run.
    pub(in crate::worker) fn pool(&self) -> Arc<FairPool> {
        self.pool.clone()
    }

    /// Returns how the pool's threads are used.
    pub(in crate::worker) fn load(&self) -> Load {
        self.pool.load(self.member)
    }

    /// Returns the running jobs that have exceeded their time limit.
    pub(in crate::worker) fn overdue(&self) -> Arc<Overdue> {
        self.starter.overdue.clone()
    }

    /// Takes jobs over. Never blocks.
    pub(in crate::worker) fn submit(&self, jobs: Vec<Claimed>) {
        if let Some(claimed) = jobs.last() {
            self.starter.without_row.store(!claimed.has_row(), Ordering::Release);
        }
        jobs.into_iter().for_each(|claimed| self.starter.wait_for_thread(claimed));
        self.pump();
    }

    /// Finishes a job that did not arrive: with `error`, or as not started if `error` is `None`.
    pub(in crate::worker) fn not_delivered(
        &self,
        registration: &Arc<Registration>,
        (job_id, fence): (JobId, Fence),
        attempt: u32,
        error: Option<JobError>,
    ) {
        let JobStarter { state, finisher, .. } = &*self.starter;
        let mut held = HeldJob::unseen(registration, &state.in_flight);
        held.ended(0, 0);
        finisher.send(match error {
            Some(error) => {
                let outcome = failure(&error, &state.config.retry, attempt);
                let (run, usage) = (Duration::ZERO, Usage::default());
                let finish = Finish { job_id, fence, attempt, kind: None, outcome, run, usage };
                Ended::Ran(Ran {
                    finish,
                    enqueued_at: Instant::now(),
                    by_handler: false,
                    frees_turn: false,
                    run: None,
                    held,
                })
            }
            None => Ended::Unstarted { job_id, fence, in_group: false, held },
        });
    }

    /// Makes the pool run waiting jobs. Called whenever a job may have become available, or the lease may be valid
    /// again.
    pub(in crate::worker) fn pump(&self) {
        self.pool.pump();
    }

    /// Stops starting jobs, and releases those that have not started. Jobs of `at_most_once` queues cannot be released,
    /// because they no longer have a row: they still run, until the deadline or an immediate stop.
    pub(in crate::worker) fn close(&self) {
        self.starter.closed.store(true, Ordering::Release);
        self.starter.give_back_those_that_wait();
        let mut no_way_back = Vec::new();
        while let Ok(claimed) = self.starter.waiting.try_recv() {
            if claimed.has_row() {
                self.starter.give_back(claimed);
            } else {
                no_way_back.push(claimed);
            }
        }
        no_way_back.into_iter().for_each(|claimed| self.starter.wait_for_thread(claimed));
        self.pump();
    }

    /// Like [`close`](Self::close), and also drops jobs without a row: the shutdown deadline has passed, and no more
    /// jobs start.
    pub(in crate::worker) fn cut_off(&self) {
        self.starter.cut_off.store(true, Ordering::Release);
        self.close();
    }

    /// Once a second, postpones jobs that have waited longer than expected for other jobs of their kind. Never returns.
    pub(in crate::worker) async fn keep_putting_off(self) {
        let mut ticks = tokio::time::interval(SURPLUS_INTERVAL);
        loop {
            ticks.tick().await;
            for (claimed, delay) in self.starter.kind_limits.take_surplus() {
                self.starter.put_off_for_others(claimed, delay);
            }
            self.pump(); // a permit may be free that no thread has noticed
        }
    }

    /// Returns whether a kind has a limit.
    pub(in crate::worker) fn has_kind_limits(&self) -> bool {
        !self.starter.kind_limits.are_none()
    }

    /// Drops the jobs that have not started, because the worker stops immediately.
    pub(in crate::worker) fn abandon(&self) {
        while self.starter.waiting.try_recv().is_ok() {}
        self.starter.kind_limits.drop_waiting();
    }

    /// Releases up to `jobs` unstarted jobs, the oldest first, so that another worker can run them immediately.
    pub(in crate::worker) fn give_back(&self, jobs: usize) {
        // Jobs without a row cannot be released. A check of each job would move the oldest jobs to the end of the
        // channel.
        if self.starter.without_row.load(Ordering::Acquire) {
            return;
        }
        let mut left = jobs;
        while left > 0 {
            let Ok(claimed) = self.starter.waiting.try_recv() else {
                return;
            };
            if !claimed.has_row() {
                // This job has no row: it was claimed before the queue's delivery was changed.
                self.starter.wait_for_thread(claimed);
                return self.pump();
            }
            left = left.saturating_sub(claimed.jobs());
            self.starter.give_back(claimed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::config::WorkerConfig;
    use crate::error::BoxError;
    use crate::handler::{Context, Handlers, KindOptions, Output, Permit, SharedLimit};
    use crate::job::{Job, NewJob};
    use crate::procedures::worker::read_for_test;
    use crate::worker::finish;
    use crate::worker::run::handlers_and_hooks::Hooks;

    const LEASE: Duration = Duration::from_secs(60);

    fn pumping(pool: &Arc<FairPool>) -> impl Fn() + Send + Sync + 'static {
        let pool = pool.clone();
        move || pool.pump()
    }

    #[tokio::test]
    async fn after_a_suspension_nothing_is_started_until_a_heartbeat_was_answered() {
        let clock = Arc::new(LeaseValidity::default());
        clock.renewed(clock.now(), LEASE);
        let state = Arc::new(WorkerState::for_test(WorkerConfig::default()));
        let (executor, starts) = counting_executor(&state, &clock);
        let registration = Arc::new(Registration::for_test(clock.clone()));
        assert!(registration.is_held());

        clock.shift(LEASE);
        assert!(!registration.is_held() && clock.is_in_doubt(), "at once, without a look at SQL Server");
        assert!(clock.age() >= LEASE);
        let claimed = HeldJob::claimed(&registration, &state.in_flight, vec![Job::for_test(NewJob::text(""))]);
        let claimed_at = Instant::now();
        executor.submit(
            claimed
                .into_iter()
                .map(|(job, held)| Claimed { job, held, claimed_at, permit: None, behind: None })
                .collect(),
        );
        executor.pump();
        tokio::time::sleep(Duration::from_millis(20)).await; // a start would take microseconds
        assert_eq!(starts.load(Ordering::Acquire), 0);

        clock.renewed(clock.now(), LEASE);
        executor.pump();
        state.in_flight.idle().await;
        assert_eq!(starts.load(Ordering::Acquire), 1);
    }

    #[tokio::test]
    async fn what_comes_after_it_was_closed_is_given_back_and_not_started() {
        let clock = Arc::new(LeaseValidity::default());
        clock.renewed(clock.now(), LEASE);
        let state = Arc::new(WorkerState::for_test(WorkerConfig::default()));
        let (executor, starts) = counting_executor(&state, &clock);
        let registration = Arc::new(Registration::for_test(clock));
        executor.close();
        let claimed = HeldJob::claimed(&registration, &state.in_flight, vec![Job::for_test(NewJob::text(""))]);
        let claimed_at = Instant::now();
        executor.submit(
            claimed
                .into_iter()
                .map(|(job, held)| Claimed { job, held, claimed_at, permit: None, behind: None })
                .collect(),
        );
        state.in_flight.idle().await;
        assert_eq!(starts.load(Ordering::Acquire), 0);
    }

    #[tokio::test]
    async fn what_was_held_back_for_the_output_of_another_starts_when_that_is_confirmed() {
        let clock = Arc::new(LeaseValidity::default());
        clock.renewed(clock.now(), LEASE);
        let config = WorkerConfig { max_in_flight_bytes: 1_000, ..WorkerConfig::default() };
        let state = Arc::new(WorkerState::for_test(config));
        let pool = FairPool::own(1, None).unwrap();
        let (sender, finisher, _large) = finish::channel(&state, pumping(&pool));
        let mut handlers = Handlers::any(|_, _| Ok(Output::bytes(vec![1; 800])));
        handlers.check(&state.config).unwrap();
        let code = DroppedElsewhere::new(HandlersAndHooks { handlers, hooks: Hooks::default() });
        let executor = Executor::new(&state, pool, code, clock.clone(), sender);
        let registration = Arc::new(Registration::for_test(clock));
        // Without a row, so that no server is needed.
        let job = || Job { fence: Fence::NONE, ..Job::for_test(NewJob::text("")) };
        let claimed = HeldJob::claimed(&registration, &state.in_flight, vec![job(), job()]);
        let claimed_at = Instant::now();
        executor.submit(
            claimed
                .into_iter()
                .map(|(job, held)| Claimed { job, held, claimed_at, permit: None, behind: None })
                .collect(),
        );
        while state.in_flight.awaiting_finish() == 0 || executor.load().turns > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(state.in_flight.unstarted(), 1);
        let confirming = tokio::spawn(finisher.run_session(state.session()));
        let both = async {
            state.in_flight.idle().await;
            state.in_flight.flushed().await;
        };
        tokio::time::timeout(LEASE, both).await.expect("the second has started");
        confirming.abort();
    }

    #[tokio::test]
    async fn a_payload_is_not_copied_between_the_driver_and_the_handler() {
        let clock = Arc::new(LeaseValidity::default());
        clock.renewed(clock.now(), LEASE);
        let state = Arc::new(WorkerState::for_test(WorkerConfig::default()));
        let (sender, seen) = std::sync::mpsc::channel();
        let executor = executor_of(&state, &clock, move |job, _| {
            sender.send(job.payload().as_ptr() as usize)?;
            Ok(())
        });
        let registration = Arc::new(Registration::for_test(clock));
        let payload = vec![1; 1_000_000];
        let address = payload.as_ptr() as usize;
        let claimed = HeldJob::claimed(&registration, &state.in_flight, vec![read_for_test(payload)]);
        let claimed_at = Instant::now();
        executor.submit(
            claimed
                .into_iter()
                .map(|(job, held)| Claimed { job, held, claimed_at, permit: None, behind: None })
                .collect(),
        );
        assert_eq!(seen.recv().unwrap(), address);
    }

    /// Jobs of kind `limited` share one place. Jobs of kind `long` run until the gate opens, and another worker holds
    /// their place.
    struct Limited {
        state: Arc<WorkerState>,
        registration: Arc<Registration>,
        executor: Executor,
        starts: std::sync::mpsc::Receiver<()>,
        gate: std::sync::mpsc::Sender<()>,
        taken: Permit,
        _outcomes: Box<dyn Any>,
    }

    impl Limited {
        fn new() -> Limited {
            let clock = Arc::new(LeaseValidity::default());
            clock.renewed(clock.now(), LEASE);
            let state = Arc::new(WorkerState::for_test(WorkerConfig::default()));
            let (started, starts) = std::sync::mpsc::channel();
            let (gate, opened) = std::sync::mpsc::channel();
            let opened = parking_lot::Mutex::new(opened);
            let long = move |_: &Job, _: &Context| {
                started.send(()).unwrap();
                let _ = opened.lock().recv();
                Ok(())
            };
            let mut handlers = Handlers::new()
                .kind("limited", |_, _| -> Result<(), crate::error::BoxError> { panic!("it has no place") })
                .options("limited", KindOptions::new().at_most(1))
                .kind("long", long);
            handlers.check(&state.config).unwrap();
            let places: Arc<SharedLimit> = handlers.places().flatten().next().unwrap().clone();
            let other = places.join(FairPool::own(1, None).unwrap());
            assert!(places.change(|line, now| line.take_place(other, now)));
            let taken = Permit::new(&places, other);
            let pool = FairPool::own(1, None).unwrap();
            let (finisher, batches, large) = finish::channel(&state, pumping(&pool));
            let code = DroppedElsewhere::new(HandlersAndHooks { handlers, hooks: Hooks::default() });
            let registration = Arc::new(Registration::for_test(clock.clone()));
            let executor = Executor::new(&state, pool, code, clock, finisher);
            let _outcomes = Box::new((batches, large));
            Limited { state, registration, executor, starts, gate, taken, _outcomes }
        }

        fn claimed(&self, kind: &str) -> Claimed {
            let job = Job::for_test(NewJob::text("").kind(kind));
            let (job, held) = HeldJob::claimed(&self.registration, &self.state.in_flight, vec![job]).remove(0);
            Claimed { job, held, claimed_at: Instant::now(), permit: None, behind: None }
        }

        fn admit(&self) {
            let claimed = self.claimed("limited");
            let handler = self.executor.starter.code.handlers.find(claimed.job.kind()).unwrap();
            self.executor.starter.start_if_admitted(handler, claimed);
        }

        /// Counts the unstarted jobs, the parked jobs, and the released or finished jobs.
        fn jobs(&self) -> (usize, usize, usize) {
            let in_flight = &self.state.in_flight;
            (in_flight.unstarted(), in_flight.parked(), in_flight.awaiting_finish())
        }
    }

    #[tokio::test]
    async fn what_could_have_a_place_and_finds_no_thread_is_given_back_by_an_orderly_stop() {
        let limited = Limited::new();
        limited.admit();
        assert_eq!(limited.jobs(), (0, 1, 0));
        limited.executor.submit(vec![limited.claimed("long")]);
        limited.starts.recv().unwrap();
        drop(limited.taken);
        limited.executor.close();
        let in_flight = &limited.state.in_flight;
        assert_eq!((in_flight.unstarted(), in_flight.parked(), in_flight.awaiting_finish()), (0, 0, 1));
        limited.gate.send(()).unwrap();
        in_flight.idle().await;
    }

    /// A thread may have checked before whether the worker is closed.
    #[tokio::test]
    async fn what_is_to_wait_after_those_that_waited_were_given_back_is_given_back_as_well() {
        let limited = Limited::new();
        limited.executor.close();
        limited.admit();
        assert_eq!(limited.jobs(), (0, 0, 1), "it does not wait for another worker's job");
    }

    fn counting_executor(state: &Arc<WorkerState>, clock: &Arc<LeaseValidity>) -> (Executor, Arc<AtomicUsize>) {
        let starts = Arc::new(AtomicUsize::new(0));
        let counted = starts.clone();
        let executor = executor_of(state, clock, move |_, _| {
            counted.fetch_add(1, Ordering::AcqRel);
            Ok(())
        });
        (executor, starts)
    }

    fn executor_of(
        state: &Arc<WorkerState>,
        clock: &Arc<LeaseValidity>,
        handler: impl Fn(&Job, &Context) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Executor {
        let pool = FairPool::own(1, None).unwrap();
        let (finisher, ..) = finish::channel(state, pumping(&pool));
        let mut handlers = Handlers::any(handler);
        handlers.check(&state.config).unwrap();
        let code = DroppedElsewhere::new(HandlersAndHooks { handlers, hooks: Hooks::default() });
        Executor::new(state, pool, code, clock.clone(), finisher)
    }
}
