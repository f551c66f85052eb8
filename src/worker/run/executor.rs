//! The executor: runs the handlers over claimed jobs, on the threads of a [`FairPool`].
//!
//! ```text
//! prefetcher ──submit──▶ channel ──▶ a turn in the pool ──▶ handler ──▶ finisher
//! ```
//!
//! A job leaves the channel only when it starts. Jobs therefore start in the order of the channel, whichever task the
//! pool runs first, and a job that has not started can be released at any time.

use super::admission::Resources;
use super::dropped_elsewhere::DroppedElsewhere;
use super::fair_pool::{FairPool, Load};
use super::handlers_and_hooks::{HandlersAndHooks, Hooks};
use super::job_starter::JobStarter;
use super::kind_limits::KindLimits;
use super::overdue::Overdue;
use super::set_aside::SetAside;
use super::worker_turns::MemberId;
use crate::config::{KeepLog, WorkerConfig};
use crate::error::Error;
use crate::handler::{ForOtherWorkers, JobError, failure};
use crate::id::{Fence, JobId};
use crate::job::{Needs, Usage};
use crate::metrics::KindMetrics;
use crate::procedures::worker::Finish;
use crate::worker::finish::{Ended, FinishSender, Ran};
use crate::worker::lease::{Claimed, HeldJob, LeaseValidity, Registration};
use crate::worker::state::WorkerState;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often to check for jobs that have waited too long for other jobs, and how much memory is free.
const SURPLUS_INTERVAL: Duration = Duration::from_secs(1);

/// The executor, as the prefetcher sees it.
#[derive(Clone)]
pub(in crate::worker) struct Executor {
    pub(super) starter: Arc<JobStarter>,
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
        let (threads, config) = (state.threads(), &state.config);
        let (buffer, waiting) = crossbeam_channel::unbounded();
        let handlers = &code.handlers;
        let kind_metrics: Arc<[_]> = handlers.labels().map(|kind| KindMetrics::new(&state.queue, kind)).collect();
        let kind_limits = KindLimits::new(handlers.places(), &pool);
        let resources = Resources::new(state, &pool, kind_metrics.len());
        let resources = Arc::new(resources);
        resources.measure(); // before the first claim
        let states_nothing = handlers.state_nothing() && state.learned.is_none();
        let log_bytes = if config.keep_log == KeepLog::None { 0 } else { config.log_bytes as usize };
        let (notes, place, parents) = ((state.notes.clone(), log_bytes), state.place(), state.parents_of());
        let surroundings = state.stop.surroundings(handlers.shared_state(), notes, place, parents);
        let surroundings = DroppedElsewhere::new(Arc::new(surroundings));
        let starter = Arc::new(JobStarter {
            state: state.clone(),
            code,
            surroundings,
            buffer,
            waiting,
            set_aside: SetAside::default(),
            closed: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
            without_row: AtomicBool::new(false),
            lease,
            overdue: Arc::new(Overdue::new(kind_metrics.clone())),
            kind_metrics,
            kind_limits,
            resources: resources.clone(),
            for_other_workers: ForOtherWorkers::new(config),
            states_nothing,
            finisher,
            pool: pool.clone(),
            span: tracing::Span::current(),
        });
        let look_ahead = look_ahead(config, threads);
        let jobs: Weak<JobStarter> = Arc::downgrade(&starter);
        let member = pool.join(jobs, state.weight, look_ahead);
        resources.joined(member);
        Executor { starter, pool, member }
    }

    /// Runs this many jobs at once from now on. Running jobs continue. Returns how many, or `None` if the program supplied
    /// the threads, whose number stays.
    ///
    /// # Errors
    ///
    /// Same as [`FairPool::resize`].
    pub(in crate::worker) fn resize(&self, threads: usize) -> Result<Option<usize>, Error> {
        let JobStarter { state, resources, .. } = &*self.starter;
        let threads = self.pool.resize(threads, |threads| look_ahead(&state.config, threads))?;
        if let Some(threads) = threads {
            state.set_threads(threads);
            state.metrics.resized(threads);
            resources.resized();
            self.pump(); // a waiting job may need fewer threads than before
        }
        Ok(threads)
    }

    /// The program's hooks.
    pub(in crate::worker) fn hooks(&self) -> &Hooks {
        &self.starter.code.hooks
    }

    /// The pool on which its jobs run.
    pub(in crate::worker) fn pool(&self) -> Arc<FairPool> {
        self.pool.clone()
    }

    /// Returns how the pool's threads are used.
    pub(in crate::worker) fn load(&self) -> Load {
        self.pool.load(self.member)
    }

    /// Returns what jobs use of the worker's resources, if one needs more than its thread.
    pub(in crate::worker) fn resources_in_use(&self) -> Option<Needs> {
        let JobStarter { state, resources, .. } = &*self.starter;
        resources.in_use(|| state.in_flight.busy_threads() + self.load().taken)
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
                    has_run: false,
                    enqueued_at: Instant::now(),
                    by_handler: false,
                    frees_turn: false,
                    keeps_log: false,
                    run: None,
                    held,
                })
            }
            None => Ended::Unstarted { job_id, fence, has_turn: false, held },
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
        while let Some(claimed) = self.starter.next_buffered() {
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

    /// Once a second, measures the free memory, postpones jobs that have waited longer than expected for other jobs, and
    /// ends those that wait in vain. Never returns.
    pub(in crate::worker) async fn keep_putting_off(self) {
        let JobStarter { kind_limits, resources, .. } = &*self.starter;
        let mut ticks = tokio::time::interval(SURPLUS_INTERVAL);
        loop {
            ticks.tick().await;
            resources.measure();
            resources.tell_of_passing();
            self.starter.end_those_that_are_over();
            for (claimed, delay) in kind_limits.take_surplus() {
                self.starter.put_off_for_others(claimed, delay);
            }
            for (claimed, delay) in resources.take_surplus() {
                self.starter.put_off_for_resources(claimed, delay);
            }
            // Memory or a permit may be free that no thread has noticed.
            if self.starter.state.in_flight.unstarted() + self.starter.state.in_flight.parked() > 0 {
                self.pump();
            }
        }
    }

    /// Returns whether jobs wait for the worker's resources.
    pub(in crate::worker) fn waits_for_resources(&self) -> bool {
        self.starter.resources.any_waits()
    }

    /// The jobs that were postponed because they would have waited for resources, or only those that would fit by now.
    pub(in crate::worker) fn recallable(&self, all: bool) -> Vec<(JobId, Fence)> {
        self.starter.resources.recallable(all)
    }

    /// Returns whether jobs were postponed because they would have waited for resources, and none of them would fit now.
    pub(in crate::worker) fn has_postponed_what_does_not_fit(&self) -> bool {
        self.starter.resources.has_postponed() && self.recallable(false).is_empty()
    }

    /// Notes that these jobs were to be recalled, and which of them were.
    pub(in crate::worker) fn recalled(&self, asked: &[(JobId, Fence)], recalled: &[JobId]) {
        self.starter.resources.recalled(asked, recalled);
    }

    /// Returns whether the machine is so short of memory that nothing is started.
    pub(in crate::worker) fn is_short_of_memory(&self) -> bool {
        self.starter.resources.is_short_of_memory()
    }

    /// Drops the jobs that have not started, because the worker stops immediately.
    pub(in crate::worker) fn abandon(&self) {
        while self.starter.next_buffered().is_some() {}
        self.starter.kind_limits.drop_waiting();
        drop(self.starter.resources.take_waiting(|_| true));
        self.pump(); // what was kept for them may be for other workers of the pool
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
            let Some(claimed) = self.starter.next_buffered() else {
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

/// How many jobs wait in the pool for a thread.
fn look_ahead(config: &WorkerConfig, threads: usize) -> usize {
    if config.look_ahead == 0 { threads } else { config.look_ahead }
}

#[cfg(test)]
#[path = "executor_tests.rs"]
mod tests;
