//! A running worker.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::{AbortHandle, JoinSet};
use tracing::Instrument;

use crate::error::Error;
use crate::metrics::Scale;
use crate::queue::Queue;
use crate::worker::claim::{Prefetcher, Watcher, most_ahead};
use crate::worker::duties::Maintenance;
use crate::worker::finish;
use crate::worker::lease::{Lease, LeaseKeeper};
use crate::worker::report::{self, DrainProgress, Left, Readings, WorkerMonitor};
use crate::worker::run::{DroppedElsewhere, Executor, FairPool, HandlersAndHooks};
use crate::worker::shutdown::{self, End};
use crate::worker::state::{self, Phase, StopHandle, WorkerState, WorkerStats};

use super::io_thread;
use super::io_thread::IoThread;
use super::steering::Steering;

/// How many finish calls are in flight: one session collects outcomes while the other waits for SQL Server.
const FINISH_SESSIONS: usize = 2;

/// A running worker. Started by [`WorkerBuilder::start`](crate::WorkerBuilder::start), stopped by [`run`](Self::run),
/// [`drain`](Self::drain) or [`shutdown`](Self::shutdown).
///
/// Dropping it stops it immediately: its jobs run again once its lease has expired.
pub struct Worker {
    queue: Queue,
    pub(in crate::worker) state: Arc<WorkerState>,
    pub(in crate::worker) lease: Lease,
    pub(in crate::worker) executor: Executor,
    pub(in crate::worker) stages: Stages,
    /// The tasks of the stages that finish jobs on their own connections.
    pub(in crate::worker) own_lines: [AbortHandle; 2],
    io: IoThread,
    started_at: Instant,
    span: tracing::Span,
}

/// The tasks of a worker, which are dropped with it.
#[derive(Default)]
pub(crate) struct Stages {
    /// The first stage. Once it has returned, no more jobs are claimed.
    pub(in crate::worker) prefetch: JoinSet<()>,
    /// The finish sessions. Once all of them have returned, no more jobs are finished.
    pub(in crate::worker) finishing: JoinSet<()>,
    pub(in crate::worker) others: JoinSet<()>,
}

impl Stages {
    fn spawn(&mut self, stage: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.others.spawn(stage.in_current_span())
    }
}

/// The result of a worker, from its start to its stop.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The final counts.
    pub stats: WorkerStats,
    /// How long the worker ran.
    pub elapsed: Duration,
    /// Whether every job that the worker held was confirmed before it stopped. False if the shutdown deadline had
    /// passed, and after [`StopHandle::stop_now`].
    pub ended_in_order: bool,
    /// Jobs that were still running, or whose outcome was not confirmed, when the worker stopped. At the shutdown
    /// deadline they were released; an attempt counts only if the handler had already failed. After
    /// [`StopHandle::stop_now`] they run again once the lease has expired. Jobs of a queue with delivery `at_most_once`
    /// do not run again.
    pub cut_off: usize,
    /// Whether the worker stopped because its process was larger than `worker.recycle_above`. Exit then, so that a new
    /// process is started.
    pub recycled: bool,
}

impl Worker {
    /// Registers the worker, creates its stages from the last to the first, and starts them. Called on the worker's
    /// thread.
    pub(super) async fn start_in(
        queue: Queue,
        state: Arc<WorkerState>,
        pool: Arc<FairPool>,
        code: DroppedElsewhere<HandlersAndHooks>,
        io: IoThread,
    ) -> Result<Worker, Error> {
        let mut session = state.session();
        queue.check_version(&mut session).await?;
        finish::learn_memory(&state, &mut session).await;
        let keeper = LeaseKeeper::register(session, &state, queue.cancelled_here()).await?;
        let (lease, duties) = (keeper.lease(), keeper.duties());
        let pumped = pool.clone();
        let (ended, finisher, own_lines) = finish::channel(&state, move || pumped.pump());
        let executor = Executor::new(&state, pool, code, lease.clock(), ended);
        let (watch, watcher) = Watcher::new(&state);
        let prefetcher = Prefetcher::new(&state, lease.clone(), executor.clone(), watch, queue.enqueued());

        let mut stages = Stages::default();
        let resumed = executor.clone();
        let used = executor.clone();
        let mut steering = Steering::new(&state, &executor);
        let steer = move |wishes| steering.follow(wishes);
        stages.spawn(keeper.keep(move || resumed.pump(), steer, move || used.resources_in_use()));
        for _ in 0..FINISH_SESSIONS {
            stages.finishing.spawn(finisher.clone().run_session(state.session()).in_current_span());
        }
        let large_outputs = stages.spawn(own_lines.large_outputs.run(state.session()));
        let locked_rows = stages.spawn(own_lines.locked_rows.run(state.session()));
        let own_lines = [large_outputs, locked_rows];
        stages.spawn(watcher.run());
        stages.spawn(Maintenance::new(&state, lease.clone(), duties.clone()).run());
        stages.spawn(executor.pool().keep_pumping());
        let (noting, resumed) = (state.clone(), executor.clone());
        stages.spawn(finish::keep_writing_notes(state.clone(), lease.clone(), move || {
            noting.in_flight.confirmed();
            resumed.pump();
        }));
        stages.spawn(finish::keep_noting_kinds(state.clone()));
        stages.spawn(report::keep_levels_shown(state.clone(), lease.clone()));
        stages.spawn(report::keep_depth_shown(queue.clone(), duties));
        stages.spawn(state::keep_beating(state.clone()));
        if state.config.recycle_above > 0 {
            stages.spawn(shutdown::stop_when_large(state.clone()));
        }
        stages.spawn(executor.clone().keep_putting_off());
        stages.spawn(executor.overdue().keep_reporting(state.clone()));
        stages.prefetch.spawn(prefetcher.run().in_current_span());

        let span = tracing::Span::current();
        let worker = Worker { queue, state, lease, executor, stages, own_lines, io, started_at: Instant::now(), span };
        worker.has_started();
        Ok(worker)
    }

    fn has_started(&self) {
        let WorkerState { config, metrics, .. } = &*self.state;
        let threads = self.state.threads();
        metrics.begin(Scale {
            threads,
            buffer: most_ahead(config) + threads,
            max_in_flight: config.max_in_flight,
            max_in_flight_bytes: config.max_in_flight_bytes,
            lease: config.lease,
        });
        if let Some(exporter) = self.queue.exporter() {
            exporter.watch(Box::new(self.monitor()));
        }
        let (worker_id, batch_size) = (self.lease.registration().worker_id, config.batch_size);
        tracing::info!(%worker_id, threads, batch_size, "the worker started");
    }

    /// Returns a handle that stops this worker from elsewhere.
    pub fn stop_handle(&self) -> StopHandle {
        self.state.stop.clone()
    }

    /// Returns a source of [`WorkerStats`] that outlives [`run`](Self::run) and [`drain`](Self::drain), which consume
    /// the worker: for a progress bar or a health page.
    pub fn monitor(&self) -> WorkerMonitor {
        WorkerMonitor { state: self.state.clone(), lease: self.lease.clone() }
    }

    /// Returns the worker's current counts.
    pub fn stats(&self) -> WorkerStats {
        self.monitor().stats()
    }

    /// Processes jobs until a [`StopHandle`] stops the worker, its process is larger than `worker.recycle_above`, or it
    /// cannot continue, then stops gracefully: the worker
    /// claims no more jobs, releases unstarted jobs, waits up to `shutdown_deadline_ms` for running jobs, finishes
    /// them, and unregisters.
    ///
    /// Jobs that are still running at the deadline are released without using up an attempt and cancelled
    /// ([`Context::is_cancelled`](crate::handler::Context::is_cancelled)). They may run on another worker while their
    /// handlers are still running here. This takes at most four seconds; give the process that much more time.
    ///
    /// # Errors
    ///
    /// The error that made it impossible to continue: a revoked permission, a missing procedure or queue, or a newer
    /// schema that this release does not support. If SQL Server permanently rejects finish calls, they are retried for
    /// three more seconds, then the worker stops immediately. Transient errors never stop a worker, nor do errors of
    /// the queue's maintenance ([`WorkerMonitor::failing_duties`]).
    ///
    /// [`Error::Panicked`] if something panicked outside a handler, which is a defect of this crate or of the program's
    /// metrics recorder, tracing subscriber or hooks.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the worker, which stops it immediately.
    pub async fn run(self) -> Result<Summary, Error> {
        let runtime = self.io.runtime().clone();
        io_thread::wait_for(self.run_to_end(), &runtime).await
    }

    /// The body of [`run`](Self::run), on the worker's own thread.
    async fn run_to_end(mut self) -> Result<Summary, Error> {
        self.stopping().await;
        let End { in_order, cut_off } = shutdown::end(&mut self).await;
        let stats = self.stats();
        let WorkerStats { done, retried, snoozed, dead, cancelled, expired, released, lost, .. } = stats;
        self.span.in_scope(|| {
            tracing::info!(
                ended_in_order = in_order,
                cut_off,
                done,
                retried,
                snoozed,
                dead,
                cancelled,
                expired,
                released,
                lost,
                "the worker stopped"
            );
        });
        match self.state.stop.take_failure() {
            Some(error) => Err(error),
            None => {
                let (elapsed, recycled) = (self.started_at.elapsed(), self.state.is_recycled.load(Ordering::Relaxed));
                Ok(Summary { stats, elapsed, ended_in_order: in_order, cut_off, recycled })
            }
        }
    }

    /// Stops the worker and waits for it, as described for [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// Same as [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Same as [`run`](Self::run).
    pub async fn shutdown(self) -> Result<Summary, Error> {
        self.state.stop.stop();
        self.run().await
    }

    /// Processes jobs until the queue is empty, then stops as [`run`](Self::run) does.
    ///
    /// The queue is empty when it has no unfinished job, of this worker or any other. A drain therefore waits for a job
    /// that is scheduled for tomorrow, and for a paused queue. If no job has run for five seconds, the log says what
    /// the drain is waiting for, and again every minute. To stop without waiting for scheduled jobs, use
    /// [`drain_until`](Self::drain_until).
    ///
    /// # Errors
    ///
    /// Same as [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Same as [`run`](Self::run).
    pub async fn drain(mut self) -> Result<Summary, Error> {
        self.state.metrics.drains();
        self.spawn(shutdown::stop_when_empty(self.state.clone(), None));
        self.run().await
    }

    /// Same as [`drain`](Self::drain), but does not wait for jobs that are due later than `within` from now: delayed,
    /// retried and snoozed jobs, and jobs of a kind that this worker has no handler for. With [`Duration::ZERO`], it
    /// processes only the jobs that are ready or due now. It still waits for jobs over a kind's limit
    /// ([`KindOptions::at_most`](crate::handler::KindOptions::at_most)) and for a paused queue.
    ///
    /// ```no_run
    /// # async fn example(worker: readpast::Worker) -> Result<(), readpast::Error> {
    /// let summary = worker.drain_until(std::time::Duration::ZERO).await?;
    /// println!("{} jobs done", summary.stats.done);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Same as [`run`](Self::run).
    pub async fn drain_until(mut self, within: Duration) -> Result<Summary, Error> {
        self.state.metrics.drains();
        self.spawn(shutdown::stop_when_empty(self.state.clone(), Some(within)));
        self.run().await
    }

    /// Adds a task on the worker's thread.
    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.stages.others.spawn_on(task.instrument(self.span.clone()), self.io.runtime());
    }

    /// Same as [`drain`](Self::drain), and calls `show` with the progress at this interval, and once at the end: for a
    /// progress bar.
    ///
    /// ```no_run
    /// # async fn example(worker: readpast::Worker) -> Result<(), readpast::Error> {
    /// use std::time::Duration;
    ///
    /// // 1240 of 2000 jobs, 812/s, 0:01 left (500 buffered, 8 running, 40 to finish)
    /// worker.drain_with(Duration::from_millis(200), |progress| eprint!("\r{progress}  ")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Same as [`run`](Self::run).
    pub async fn drain_with(self, every: Duration, mut show: impl FnMut(&DrainProgress)) -> Result<Summary, Error> {
        let (queue, monitor) = (self.queue.clone(), self.monitor());
        let mut readings = Readings::default();
        let summary = tokio::select! {
            summary = self.drain() => summary,
            never = report::report_progress(&queue, &monitor, every, &mut readings, &mut show) => match never {},
        }?;
        let left = Left::of(&queue, Duration::ZERO).await;
        show(&readings.progress(Instant::now(), left, summary.stats));
        Ok(summary)
    }

    /// Returns when the worker is told to stop. Before that, a stage returns only by a panic.
    async fn stopping(&mut self) {
        let Worker { state, stages, .. } = self;
        loop {
            let ended = tokio::select! {
                () = state.stop.reached(Phase::Stopping) => return,
                Some(ended) = stages.prefetch.join_next() => ended,
                Some(ended) = stages.finishing.join_next() => ended,
                Some(ended) = stages.others.join_next() => ended,
            };
            shutdown::note_panic(state, ended);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The JoinSets end the tasks. Running handlers are cancelled, and no more jobs start.
        self.state.stop.stop_now();
        self.executor.abandon();
        // (The recorder is the program's code.)
        let _ = catch_unwind(AssertUnwindSafe(|| self.state.metrics.end()));
    }
}
