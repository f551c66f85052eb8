//! Gauges of a queue's workers in this process. The workers of one queue share their series: counts are summed, the
//! lease shown is the one closest to its expiry, and the bottleneck ratios are averaged, weighted by threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::Gauge;
use parking_lot::Mutex;

use super::definitions::{
    BUFFER_CAPACITY_JOBS, BUFFER_JOBS, DRAINING, FINISH_WAITING_JOBS, IN_FLIGHT_BYTES, IN_FLIGHT_LIMIT_BYTES,
    IN_FLIGHT_LIMIT_JOBS, LEASE_AGE_SECONDS, LEASE_SECONDS, LIMITED_RATIO, RUN_THREADS, RUNNING_JOBS,
};
use super::labels::LIMITS;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WorkerLevels {
    pub(crate) buffered: usize,
    pub(crate) running: usize,
    pub(crate) awaiting_finish: usize,
    pub(crate) held_bytes: usize,
    pub(crate) limited: [f64; LIMITS.len()],
    pub(crate) lease_age: Duration,
}

/// The settings with which the levels are compared.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scale {
    pub(crate) threads: usize,
    pub(crate) buffer: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) max_in_flight_bytes: u64,
    pub(crate) lease: Duration,
}

#[derive(Debug)]
struct Running {
    id: u64,
    queue: String,
    scale: Scale,
    levels: WorkerLevels,
    drains: bool,
}

impl Running {
    /// The age of its lease as a fraction of the lease's length.
    fn lease_used(&self) -> f64 {
        self.levels.lease_age.as_secs_f64() / self.scale.lease.as_secs_f64()
    }
}

static WORKERS: Mutex<Vec<Running>> = Mutex::new(Vec::new());

struct Shown {
    /// Identifies the workers of these values: their number, the sum of their ids, and how many of them drain. Ids only
    /// grow, so every later set of workers differs in the sum or in the number.
    workers: (usize, u64, usize),
    buffered: f64,
    running: f64,
    awaiting_finish: f64,
    held_bytes: f64,
    limited: [f64; LIMITS.len()],
    threads: f64,
    lease_age: Duration,
    /// The scale, or `None` if no worker is left.
    scale: Option<ShownScale>,
}

struct ShownScale {
    drain: bool,
    buffer: f64,
    max_in_flight: f64,
    max_in_flight_bytes: f64,
    lease: Duration,
}

/// The gauges of one worker. On drop, the worker's share of the values is removed.
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

    pub(super) fn begin(&self, scale: Scale) {
        let worker =
            Running { id: self.id, queue: self.queue.clone(), scale, levels: WorkerLevels::default(), drains: false };
        self.change(|running| {
            running.push(worker);
            true
        });
    }

    /// Sets the levels, if the worker is running.
    pub(super) fn set(&self, levels: &WorkerLevels) {
        self.change_own(|own| own.levels = *levels);
    }

    /// Records that the worker has this many threads from now on.
    pub(super) fn resized(&self, threads: usize) {
        self.change_own(|own| own.scale.threads = threads);
    }

    /// Records that the worker stops by itself when its queue is empty.
    pub(super) fn drains(&self) {
        self.change_own(|own| own.drains = true);
    }

    pub(super) fn end(&self) {
        self.change(|running| {
            let before = running.len();
            running.retain(|worker| worker.id != self.id);
            running.len() < before
        });
    }

    fn change_own(&self, change: impl FnOnce(&mut Running)) {
        self.change(|running| {
            let own = running.iter_mut().find(|worker| worker.id == self.id);
            own.map(change).is_some()
        });
    }

    /// Changes the workers, and shows the result if it differs. The recorder is the program's code, so it is not called
    /// under the lock that all workers of the process need. If a worker of this queue starts or stops while the result
    /// is being shown, the result is computed and shown again. If only levels have changed meanwhile, it is not:
    /// workers update their levels once a second, so with a slow recorder the loop would never end.
    fn change(&self, change: impl FnOnce(&mut Vec<Running>) -> bool) {
        let mut shown = {
            let mut workers = WORKERS.lock();
            if !change(&mut workers) {
                return;
            }
            self.shown(&workers)
        };
        loop {
            self.show(&shown);
            let now = self.shown(&WORKERS.lock());
            if now.workers == shown.workers {
                return;
            }
            shown = now;
        }
    }

    fn shown(&self, workers: &[Running]) -> Shown {
        let all = || workers.iter().filter(|worker| worker.queue == self.queue);
        let sum = |what: fn(&Running) -> usize| all().map(what).sum::<usize>() as f64;
        // Age and length must be of the same lease.
        let endangered = all().max_by(|one, other| one.lease_used().total_cmp(&other.lease_used()));
        let threads = sum(|worker| worker.scale.threads);
        let weighted = |index: usize| {
            all().map(|worker| worker.levels.limited[index] * worker.scale.threads as f64).sum::<f64>()
                / threads.max(1.0)
        };
        Shown {
            workers: (all().count(), all().map(|worker| worker.id).sum(), all().filter(|worker| worker.drains).count()),
            buffered: sum(|worker| worker.levels.buffered),
            running: sum(|worker| worker.levels.running),
            awaiting_finish: sum(|worker| worker.levels.awaiting_finish),
            held_bytes: sum(|worker| worker.levels.held_bytes),
            limited: std::array::from_fn(weighted),
            threads,
            lease_age: endangered.map(|worker| worker.levels.lease_age).unwrap_or_default(),
            scale: endangered.map(|endangered| ShownScale {
                drain: all().all(|worker| worker.drains),
                buffer: sum(|worker| worker.scale.buffer),
                max_in_flight: sum(|worker| worker.scale.max_in_flight),
                max_in_flight_bytes: all().map(|worker| worker.scale.max_in_flight_bytes as f64).sum(),
                lease: endangered.scale.lease,
            }),
        }
    }

    fn show(&self, shown: &Shown) {
        self.buffer_jobs.set(shown.buffered);
        self.running_jobs.set(shown.running);
        self.finish_waiting_jobs.set(shown.awaiting_finish);
        self.in_flight_bytes.set(shown.held_bytes);
        self.lease_age.set(shown.lease_age.as_secs_f64());
        for (gauge, share) in self.limited_ratio.iter().zip(shown.limited) {
            gauge.set(share);
        }
        self.run_threads.set(shown.threads);
        // These stay after the last worker has stopped: a level of 0 needs its scale, and `draining` tells whether the
        // worker was expected to stop.
        let Some(scale) = &shown.scale else { return };
        self.draining.set(if scale.drain { 1.0 } else { 0.0 });
        self.buffer_capacity_jobs.set(scale.buffer);
        self.in_flight_limit_jobs.set(scale.max_in_flight);
        self.in_flight_limit_bytes.set(scale.max_in_flight_bytes);
        self.lease_seconds.set(scale.lease.as_secs_f64());
    }
}

impl Drop for LevelGauges {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use metrics::{
        Counter, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit, with_local_recorder,
    };

    use super::*;

    /// The gauge of running jobs reports each value, and may wait for permission.
    struct Slow(Arc<SlowGauge>);

    struct SlowGauge {
        set_to: Mutex<Sender<f64>>,
        may_go_on: Mutex<Receiver<()>>,
    }

    impl GaugeFn for SlowGauge {
        fn increment(&self, _: f64) {}
        fn decrement(&self, _: f64) {}
        fn set(&self, value: f64) {
            self.set_to.lock().send(value).unwrap();
            let _ = self.may_go_on.lock().recv();
        }
    }

    impl Recorder for Slow {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            if key.name() == RUNNING_JOBS.name { Gauge::from_arc(self.0.clone()) } else { Gauge::noop() }
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    fn running(running: usize) -> WorkerLevels {
        WorkerLevels { running, ..WorkerLevels::default() }
    }

    #[test]
    fn a_recorder_that_takes_its_time_holds_up_no_other_worker_and_shows_the_end_all_the_same() {
        let (set_to, shown) = channel();
        let (go_on, may_go_on) = channel();
        let slow = Slow(Arc::new(SlowGauge { set_to: Mutex::new(set_to), may_go_on: Mutex::new(may_go_on) }));
        let gauges = with_local_recorder(&slow, || LevelGauges::new("slow"));
        let other = LevelGauges::new("slow"); // without a recorder
        let scale = Scale { threads: 1, lease: Duration::from_secs(30), ..Scale::default() };
        other.begin(scale);
        other.set(&running(3));
        let is_free = std::thread::scope(|threads| {
            threads.spawn(|| {
                gauges.begin(scale);
                gauges.set(&running(2));
            });
            assert_eq!(shown.recv(), Ok(3.0));
            go_on.send(()).unwrap();
            assert_eq!(shown.recv(), Ok(5.0));
            // The other worker stops while this is being shown.
            let is_free = WORKERS.try_lock_for(Duration::from_secs(5)).is_some();
            if is_free {
                other.end();
            }
            drop(go_on);
            is_free
        });
        assert!(is_free, "the lock is not held over the recorder's call");
        assert_eq!(shown.try_iter().last(), Some(2.0), "what is so in the end is shown last");
    }

    #[test]
    fn a_recorder_that_takes_its_time_is_not_called_again_for_each_level_that_changes_meanwhile() {
        let (set_to, shown) = channel();
        let (go_on, may_go_on) = channel();
        let slow = Slow(Arc::new(SlowGauge { set_to: Mutex::new(set_to), may_go_on: Mutex::new(may_go_on) }));
        let gauges = with_local_recorder(&slow, || LevelGauges::new("busy"));
        let other = LevelGauges::new("busy"); // without a recorder
        let scale = Scale { threads: 1, lease: Duration::from_secs(30), ..Scale::default() };
        other.begin(scale);
        std::thread::scope(|threads| {
            threads.spawn(|| gauges.begin(scale));
            assert_eq!(shown.recv(), Ok(0.0));
            other.set(&running(3));
            drop(go_on);
        });
        assert_eq!(shown.try_recv().ok(), None, "the other shows it");
    }
}
