//! The levels of a queue's workers in this process. Several workers of one queue have the same series: what they hold
//! adds up, the lease counts that is nearest to its end, and what limits them is the mean by their threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::Gauge;
use parking_lot::Mutex;

use super::*;

/// The levels of a worker at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Levels {
    pub(crate) buffered: usize,
    pub(crate) running: usize,
    pub(crate) awaiting_finish: usize,
    pub(crate) held_bytes: usize,
    pub(crate) limited: [f64; LIMITS.len()],
    pub(crate) lease_age: Duration,
}

/// The settings that give the levels their scale.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scale {
    pub(crate) threads: usize,
    pub(crate) buffer: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) max_in_flight_bytes: u64,
    pub(crate) lease: Duration,
}

/// A worker that runs.
#[derive(Debug)]
struct Running {
    id: u64,
    queue: String,
    scale: Scale,
    levels: Levels,
    drains: bool,
}

impl Running {
    /// The age of its lease as a share of the lease's length.
    fn lease_used(&self) -> f64 {
        self.levels.lease_age.as_secs_f64() / self.scale.lease.as_secs_f64()
    }
}

/// The workers of this process that run. A few.
static WORKERS: Mutex<Vec<Running>> = Mutex::new(Vec::new());

/// The gauges of one worker. What it shows is taken away when this is dropped.
#[derive(Debug)]
pub(super) struct LevelGauges {
    id: u64,
    queue: String,
    buffer_jobs: Gauge,
    buffer_capacity_jobs: Gauge,
    running_jobs: Gauge,
    run_threads: Gauge,
    finish_waiting_jobs: Gauge,
    in_flight_limit_jobs: Gauge,
    in_flight_bytes: Gauge,
    in_flight_limit_bytes: Gauge,
    /// In the order of [`LIMITS`].
    limited_ratio: [Gauge; LIMITS.len()],
    lease_age: Gauge,
    lease_seconds: Gauge,
    draining: Gauge,
}

impl LevelGauges {
    pub(super) fn new(queue: &str) -> LevelGauges {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        let own = &[queue];
        LevelGauges {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed),
            queue: queue.to_owned(),
            buffer_jobs: BUFFER_JOBS.gauge(own),
            buffer_capacity_jobs: BUFFER_CAPACITY_JOBS.gauge(own),
            running_jobs: RUNNING_JOBS.gauge(own),
            run_threads: RUN_THREADS.gauge(own),
            finish_waiting_jobs: FINISH_WAITING_JOBS.gauge(own),
            in_flight_limit_jobs: IN_FLIGHT_LIMIT_JOBS.gauge(own),
            in_flight_bytes: IN_FLIGHT_BYTES.gauge(own),
            in_flight_limit_bytes: IN_FLIGHT_LIMIT_BYTES.gauge(own),
            limited_ratio: LIMITS.map(|limit| LIMITED_RATIO.gauge(&[queue, limit])),
            lease_age: LEASE_AGE_SECONDS.gauge(own),
            lease_seconds: LEASE_SECONDS.gauge(own),
            draining: DRAINING.gauge(own),
        }
    }

    /// The worker runs from now on.
    pub(super) fn begin(&self, scale: Scale) {
        let mut workers = WORKERS.lock();
        workers.push(Running {
            id: self.id,
            queue: self.queue.clone(),
            scale,
            levels: Levels::default(),
            drains: false,
        });
        self.show(&workers);
    }

    /// These are its levels now. They count only while it runs.
    pub(super) fn set(&self, levels: &Levels) {
        let mut workers = WORKERS.lock();
        if let Some(own) = workers.iter_mut().find(|worker| worker.id == self.id) {
            own.levels = *levels;
            self.show(&workers);
        }
    }

    /// The worker ends by itself when its queue is empty.
    pub(super) fn drains(&self) {
        let mut workers = WORKERS.lock();
        if let Some(own) = workers.iter_mut().find(|worker| worker.id == self.id) {
            own.drains = true;
            self.show(&workers);
        }
    }

    /// The worker has ended.
    pub(super) fn end(&self) {
        let mut workers = WORKERS.lock();
        let before = workers.len();
        workers.retain(|worker| worker.id != self.id);
        if workers.len() < before {
            self.show(&workers);
        }
    }

    fn show(&self, workers: &[Running]) {
        let all = || workers.iter().filter(|worker| worker.queue == self.queue);
        let sum = |what: fn(&Running) -> usize| all().map(what).sum::<usize>() as f64;
        self.buffer_jobs.set(sum(|worker| worker.levels.buffered));
        self.running_jobs.set(sum(|worker| worker.levels.running));
        self.finish_waiting_jobs.set(sum(|worker| worker.levels.awaiting_finish));
        self.in_flight_bytes.set(sum(|worker| worker.levels.held_bytes));
        // Age and length of the same lease: one's age beside the other's length would say nothing.
        let endangered = all().max_by(|one, other| one.lease_used().total_cmp(&other.lease_used()));
        self.lease_age.set(endangered.map_or(0.0, |worker| worker.levels.lease_age.as_secs_f64()));
        let threads = sum(|worker| worker.scale.threads);
        for (index, gauge) in self.limited_ratio.iter().enumerate() {
            let weighted = |worker: &Running| worker.levels.limited[index] * worker.scale.threads as f64;
            gauge.set(all().map(weighted).sum::<f64>() / threads.max(1.0));
        }
        self.run_threads.set(threads);
        // After the last one has ended, these stay: a level of 0 has a scale, and that nobody is there any more is as
        // it should be or not.
        let Some(endangered) = endangered else { return };
        self.draining.set(if all().all(|worker| worker.drains) { 1.0 } else { 0.0 });
        self.buffer_capacity_jobs.set(sum(|worker| worker.scale.buffer));
        self.in_flight_limit_jobs.set(sum(|worker| worker.scale.max_in_flight));
        self.in_flight_limit_bytes.set(all().map(|worker| worker.scale.max_in_flight_bytes as f64).sum::<f64>());
        self.lease_seconds.set(endangered.scale.lease.as_secs_f64());
    }
}

impl Drop for LevelGauges {
    fn drop(&mut self) {
        self.end();
    }
}
