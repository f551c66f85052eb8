//! The worker: claims jobs of one queue in batches, runs them on every core and acknowledges them in batches.
//!
//! ```text
//!            lease: one heartbeat for the whole process, on its own connection
//! SQL Server ──claim──▶ prefetch ──channel──▶ executor (rayon) ──▶ completion ──finish──▶ SQL Server
//!            maintenance: due jobs become ready, jobs of lost workers are given back
//! ```
//!
//! One file a stage: [`prefetch`], [`executor`], [`completion`] (and [`large_outputs`]), [`lease`] (and [`renewals`]), [`duties`] and
//! [`maintenance`], [`watcher`], [`shutdown`]. A stage knows the one after it and wakes the one before it.

mod backoff;
mod batch_limit;
mod builder;
mod completion;
mod counts;
mod demand;
mod duties;
mod executor;
mod held;
mod large_outputs;
mod lease;
mod maintenance;
mod monitor;
mod occupancy;
mod prefetch;
mod progress;
mod renewals;
mod sampler;
mod shutdown;
mod watcher;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::config::WorkerConfig;
use crate::error::Error;
use crate::handler::Handlers;
use crate::metrics::{Levels, WorkerMetrics};
use crate::queue::Queue;
use crate::queue::lane::Lane;

pub use builder::WorkerBuilder;
use completion::Completion;
use counts::Counts;
pub use counts::WorkerStats;
use duties::Duties;
use executor::Executor;
use lease::LeaseKeeper;
use maintenance::Maintenance;
pub use monitor::Monitor;
pub use occupancy::Limit;
use occupancy::Occupancy;
use prefetch::Prefetcher;
pub use progress::Progress;
use progress::Readings;
use shutdown::Phase;
pub use shutdown::StopHandle;
use watcher::Watcher;

/// How many acknowledgements are under way at once: one collects while the other waits for SQL Server.
const COMPLETION_LANES: usize = 2;

/// How long a shutdown waits for a claim that is under way before it gives back what has not started: a claim takes milliseconds, and
/// the jobs of one that takes longer are given back when it has ended.
const CLAIM_GRACE: Duration = Duration::from_secs(1);

/// A running worker. Made by [`WorkerBuilder::start`], ended by [`run`](Self::run), [`drain`](Self::drain) or [`shutdown`](Self::shutdown).
///
/// Dropping it stops it at once: what it holds runs again when its lease is reaped.
pub struct Worker {
    queue: Queue,
    config: WorkerConfig,
    executor: Executor,
    completion: Arc<Completion>,
    monitor: Monitor,
    found_nothing: Arc<Notify>,
    arrived: Arc<Notify>,
    prefetch: JoinSet<()>,
    /// Every other task; they end with the worker.
    tasks: JoinSet<()>,
    unregister: Lane,
    registration: tokio::sync::watch::Receiver<Arc<lease::Registration>>,
    metrics: Arc<WorkerMetrics>,
    started_at: Instant,
    span: tracing::Span,
    stop: StopHandle,
}

/// What a worker did from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The counts at the end. What is still buffered, running or awaiting its finish will run again, on this or another worker.
    pub stats: WorkerStats,
    /// How long the worker ran.
    pub elapsed: Duration,
}

impl Worker {
    async fn start_in(
        queue: &Queue,
        config: &WorkerConfig,
        handlers: Handlers,
        span: tracing::Span,
    ) -> Result<Worker, Error> {
        let metrics = Arc::new(WorkerMetrics::new(queue.name()));
        let stop = StopHandle::new();
        let counts = Arc::new(Counts::default());
        let wake = Arc::new(Notify::new());
        let arrived = Arc::new(Notify::new());
        let found_nothing = Arc::new(Notify::new());
        let name = || queue.name().to_owned();
        let lane = || Lane::new(queue.connector());

        let duties = Arc::new(Duties::new());
        // The first lane of a queue asks for the schema's version.
        let first = queue.take_lane().await?;
        let keeper = LeaseKeeper::register(first, name(), config.clone(), duties.clone(), metrics.clone()).await?;
        let (ended, completion) =
            Completion::new(name(), config, stop.clone(), wake.clone(), counts.clone(), metrics.clone());
        let threads = match config.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads => threads,
        };
        let has_time_limits = handlers.have_time_limits();
        let executor = Executor::new(
            config,
            threads,
            Prefetcher::capacity(config, threads),
            handlers,
            keeper.clock(),
            stop.surroundings(),
            wake.clone(),
            ended,
            counts.clone(),
            metrics.clone(),
        )?;
        let registration = keeper.subscribe();
        let lease_refused = keeper.refused();

        let mut tasks = JoinSet::new();
        for _ in 0..COMPLETION_LANES {
            tasks.spawn(completion.clone().run_lane(lane()).in_current_span());
        }
        tasks.spawn(completion.clone().run_lane_of_large_outputs(lane()).in_current_span());
        let resumed = executor.clone();
        tasks.spawn(keeper.keep(stop.clone(), move || resumed.pump()).in_current_span());
        let maintenance = Maintenance {
            lane: lane(),
            queue: name(),
            config: config.clone(),
            registration: registration.clone(),
            duties: duties.clone(),
            arrived: arrived.clone(),
            stop: stop.clone(),
            metrics: metrics.clone(),
        };
        tasks.spawn(maintenance.run().in_current_span());
        let occupancy = Arc::new(Occupancy::new(threads, counts.clone()));
        let monitor = Monitor {
            counts: counts.clone(),
            occupancy: occupancy.clone(),
            registration: registration.clone(),
            stop: stop.clone(),
        };
        metrics.limits(threads, Prefetcher::capacity(config, threads), config);
        tasks.spawn(monitor.clone().keep_gauges(metrics.clone()));
        tasks.spawn(sampler::keep_shown(queue.clone(), duties, stop.clone()));
        if has_time_limits {
            tasks.spawn(executor.clone().keep_reporting_overdue().in_current_span());
        }
        let (watch_sender, watcher) = Watcher::new(lane(), name(), config, arrived.clone(), stop.clone());
        tasks.spawn(watcher.run().in_current_span());
        let prefetcher = Prefetcher {
            lane: lane(),
            queue: name(),
            config: config.clone(),
            executor: executor.clone(),
            counts,
            occupancy,
            registration: registration.clone(),
            lease_refused,
            wake,
            arrived: arrived.clone(),
            enqueued: queue.enqueued(),
            watcher: watch_sender,
            found_nothing: found_nothing.clone(),
            stop: stop.clone(),
            metrics: metrics.clone(),
            undelivered: prefetch::Undelivered::default(),
        };
        let mut prefetch = JoinSet::new();
        prefetch.spawn(prefetcher.run().in_current_span());
        if let Some(exporter) = queue.exporter() {
            exporter.watch(monitor.clone());
        }
        let (worker_id, batch_size) = (registration.borrow().worker_id, config.batch_size);
        tracing::info!(%worker_id, threads, batch_size, "the worker has started");
        Ok(Worker {
            queue: queue.clone(),
            config: config.clone(),
            executor,
            completion,
            monitor,
            found_nothing,
            arrived,
            prefetch,
            tasks,
            unregister: lane(),
            registration,
            metrics,
            started_at: Instant::now(),
            span,
            stop,
        })
    }

    /// A handle that stops this worker from elsewhere.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// A source of [`WorkerStats`] that outlives [`run`](Self::run) and [`drain`](Self::drain), which consume the worker: for a progress
    /// bar or a health page.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// What the worker holds and has done at this moment.
    pub fn stats(&self) -> WorkerStats {
        self.monitor.stats()
    }

    /// Works until it is stopped by a [`StopHandle`] or cannot go on, then ends in order: no more claims, unstarted jobs are given back,
    /// running jobs end within `shutdown_deadline_ms`, results are acknowledged, the worker unregisters.
    ///
    /// # Errors
    ///
    /// What made going on impossible: a permission that was taken away, a procedure or queue that is gone, a newer schema that this release does
    /// not work with. Where acknowledgements are refused for good, they are tried for three seconds more; then the worker stops at once. Transient
    /// errors never end a worker.
    ///
    /// # Panics
    ///
    /// When a stage of the worker panicked, which is a defect of this crate or of the program's metrics recorder or tracing subscriber.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the worker, which stops it at once.
    pub async fn run(mut self) -> Result<Summary, Error> {
        self.stopping().await;
        let deadline = tokio::time::Instant::now() + Duration::from_millis(self.config.shutdown_deadline_ms);
        let stop = self.stop.clone();
        let ended_in_order = tokio::select! {
            () = self.end_in_order() => true,
            () = tokio::time::sleep_until(deadline) => {
                tracing::warn!("the shutdown deadline has passed; what is unacknowledged will run again");
                false
            }
            () = stop.reached(Phase::StoppingNow) => false,
        };
        self.stop.stop_now();
        let stats = self.stats();
        self.metrics.levels(&Levels::default());
        self.span.in_scope(|| tracing::info!(ended_in_order, ?stats, "the worker has ended"));
        match self.stop.take_failure() {
            Some(error) => Err(error),
            None => Ok(Summary { stats, elapsed: self.started_at.elapsed() }),
        }
    }

    /// Stops the worker and waits for its end, as [`run`](Self::run) describes.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Self::run).
    pub async fn shutdown(self) -> Result<Summary, Error> {
        self.stop.stop();
        self.run().await
    }

    /// Works until the queue is empty, then ends as [`run`](Self::run) does. Empty means that no job is ready, scheduled or claimed,
    /// by whichever worker: a job that is scheduled for tomorrow is waited for, and so is a paused queue.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Self::run).
    pub async fn drain(mut self) -> Result<Summary, Error> {
        let pause = Duration::from_millis(self.config.poll_max_ms);
        let found_nothing = self.found_nothing.clone();
        let empty = stop_when_empty(self.queue.clone(), found_nothing, self.arrived.clone(), pause, self.stop.clone());
        self.tasks.spawn(empty);
        self.run().await
    }

    /// As [`drain`](Self::drain), and calls `show` with the progress `every` so often, and once at the end: for a progress bar.
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
    /// As for [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Self::run).
    pub async fn drain_with(self, every: Duration, mut show: impl FnMut(&Progress)) -> Result<Summary, Error> {
        let (queue, monitor) = (self.queue.clone(), self.monitor());
        let mut readings = Readings::default();
        let summary = tokio::select! {
            summary = self.drain() => summary,
            never = progress::report(&queue, &monitor, every, &mut readings, &mut show) => match never {},
        }?;
        let unfinished = queue.sample(Duration::ZERO).await.ok().flatten().map(|sample| sample.unfinished());
        show(&readings.progress(Instant::now(), unfinished, summary.stats));
        Ok(summary)
    }

    /// Returns when the worker is told to stop. No stage ends before that, unless it panics.
    async fn stopping(&mut self) {
        loop {
            let ended = tokio::select! {
                () = self.stop.reached(Phase::Stopping) => return,
                Some(ended) = self.prefetch.join_next() => ended,
                Some(ended) = self.tasks.join_next() => ended,
            };
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }

    async fn prefetch_ended(&mut self) {
        while self.prefetch.join_next().await.is_some() {}
    }

    async fn end_in_order(&mut self) {
        // A claim that is under way ends first, lest it takes again what is given back; one that hangs is not waited for.
        let _ = tokio::time::timeout(CLAIM_GRACE, self.prefetch_ended()).await;
        self.executor.close();
        self.prefetch_ended().await;
        self.executor.idle().await;
        self.completion.flushed().await;
        let worker_id = self.registration.borrow().worker_id;
        if let Err(error) = self.unregister.unregister_worker(self.queue.name(), worker_id).await {
            tracing::warn!(%error, "could not unregister; the lease will run out");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The tasks end with their JoinSets; handlers that still run are told.
        self.stop.stop_now();
    }
}

/// Stops the worker when a claim found nothing and SQL Server says, twice in a row, that nothing is unfinished: it looks for one state after
/// the other, and a job that moves from one to another meanwhile can be missed.
///
/// While other workers still run jobs, or some are scheduled, it has the prefetcher look again after each `pause`.
async fn stop_when_empty(
    queue: Queue,
    found_nothing: Arc<Notify>,
    arrived: Arc<Notify>,
    pause: Duration,
    stop: StopHandle,
) {
    let mut empty_readings = 0;
    while empty_readings < 2 {
        found_nothing.notified().await;
        match queue.has_unfinished().await {
            Ok(false) => empty_readings += 1,
            Ok(true) => empty_readings = 0,
            Err(error) if error.is_transient() => tracing::warn!(%error, "cannot see whether the queue is empty"),
            Err(error) => return stop.fail(error),
        }
        if empty_readings == 0 {
            stop.pause(pause).await;
        }
        arrived.notify_one();
    }
    stop.stop();
}
