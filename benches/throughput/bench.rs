//! What every measure stands on: a server with an empty schema of its own, queues in it, and runs whose CPU time is
//! told apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use readpast::admin::QueueOptions;
use readpast::config::WorkerConfig;
use readpast::{Config, Handlers, NewJob, Queue, Worker};

use super::client::Client;
use super::server::Server;
use super::usage::{self, Switches};
use super::work::Work;

/// The schema that the bench installs, and removes again: never the one that somebody works with.
pub const SCHEMA: &str = "readpast_bench";

/// The payload of every job, in bytes.
pub const PAYLOAD_BYTES: usize = 200;

/// Removes the schema with everything in it.
const UNINSTALL: &str = include_str!("../../sql/uninstall.sql");

/// How many jobs are acknowledged before a rate is taken: the worker has then seen how long jobs and claims take.
const WARM_UP_JOBS: u64 = 1_000;

/// How often a run is looked at: looking more often would itself show in the client's CPU time and wake-ups.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A server with the schema installed.
pub struct Bench {
    pub server: Server,
}

/// What a number of jobs cost.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub jobs: f64,
    pub wall: Duration,
    pub client_cpu: Duration,
    /// How much of it was the jobs' own work.
    pub work_cpu: Duration,
    pub server_cpu: Duration,
    /// Of the worker's threads, for each job.
    pub switches: Option<Switches>,
}

impl Run {
    pub fn rate(&self) -> f64 {
        self.jobs / self.wall.as_secs_f64()
    }

    pub fn client_us_per_job(&self) -> f64 {
        self.client_cpu.as_secs_f64() * 1e6 / self.jobs
    }

    pub fn work_us_per_job(&self) -> f64 {
        self.work_cpu.as_secs_f64() * 1e6 / self.jobs
    }

    pub fn server_us_per_job(&self) -> f64 {
        self.server_cpu.as_secs_f64() * 1e6 / self.jobs
    }
}

impl Bench {
    pub async fn start() -> Bench {
        let bench = Bench { server: Server::start() };
        bench.uninstall().await;
        bench.queue("install").await.admin().install().await.expect("the schema is installed");
        bench
    }

    /// From now on everything goes the longer way, where there is one.
    pub fn go_far(&mut self) -> bool {
        let far_url = self.server.far_url.take();
        far_url.map(|url| self.server.url = url).is_some()
    }

    /// Removes the schema: what a server that goes on is left with.
    pub async fn uninstall(&self) {
        let mut client = self.client().await;
        for batch in UNINSTALL.replace("$(schema)", SCHEMA).split("\nGO\n") {
            client.sql(batch).await;
        }
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.server.url).await
    }

    pub fn config(&self, queue: &str) -> Config {
        config(&self.server.url, queue)
    }

    /// The library's own view of a queue, over connections of its own.
    pub async fn queue(&self, name: &str) -> Queue {
        Queue::connect(&self.config(name)).await.expect("the library connects")
    }

    pub async fn new_queue(&self, name: &str) -> Queue {
        let queue = self.queue(name).await;
        queue.admin().create(QueueOptions::default()).await.expect("the queue is created");
        queue
    }

    /// Works off a queue until `jobs` more than the first few are acknowledged, then stops. The queue must have more
    /// than that.
    pub async fn run_worker(&mut self, queue: &Queue, config: &WorkerConfig, work: Work, jobs: u64) -> Run {
        let available = queue.admin().stats(None).await.expect("the queue exists");
        let available = available.ready + available.waiting;
        let ended = Arc::new(AtomicU64::new(0));
        let counted = ended.clone();
        let handlers = Handlers::any(move |_job, _context| {
            work.run();
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        let worker = Worker::builder(queue, handlers).config(config).start().await.expect("the worker starts");
        let monitor = worker.monitor();
        // This thread alone wakes for it, not one of the runtime's as well.
        let acknowledged = |least: u64| {
            while monitor.stats().done < least {
                std::thread::sleep(LOOK_INTERVAL);
            }
            monitor.stats().done
        };
        let warm_up = WARM_UP_JOBS.min(jobs / 4);
        let first = acknowledged(warm_up);
        let switched_before = Switches::now();
        let (started_at, server_before) = (Instant::now(), self.server.cpu());
        let (client_before, work_before) = (usage::others_cpu(), Work::cpu());
        let ended_before = ended.load(Ordering::Relaxed);
        // Where acknowledgements come in large batches, the first one may be so large that less is left than was asked
        // for.
        let last = acknowledged((first + jobs).min(available));
        let (wall, client_cpu) = (started_at.elapsed(), usage::others_cpu() - client_before);
        let work_cpu = Work::cpu() - work_before;
        let ended_meanwhile = ended.load(Ordering::Relaxed) - ended_before;
        let server_cpu = self.server.cpu() - server_before;
        let switches =
            Switches::now().zip(switched_before).map(|(now, before)| now.since(before, ended_meanwhile as f64));
        worker.shutdown().await.expect("the worker ends");
        // A rate counts what was acknowledged; CPU time was spent on what ended, which is a few jobs more or less.
        let per_ended = (last - first) as f64 / ended_meanwhile.max(1) as f64;
        let jobs = (last - first) as f64;
        let (client_cpu, work_cpu) = (client_cpu.mul_f64(per_ended), work_cpu.mul_f64(per_ended));
        Run { jobs, wall, client_cpu, work_cpu, server_cpu, switches }
    }

    /// Measures something else that works off a number of jobs.
    pub async fn run(&mut self, jobs: u64, work_off: impl Future<Output = ()>) -> Run {
        let (started_at, server_before, client_before) = (Instant::now(), self.server.cpu(), usage::cpu());
        work_off.await;
        let (wall, client_cpu) = (started_at.elapsed(), usage::cpu() - client_before);
        let (jobs, work_cpu, server_cpu) = (jobs as f64, Duration::ZERO, self.server.cpu() - server_before);
        Run { jobs, wall, client_cpu, work_cpu, server_cpu, switches: None }
    }
}

/// The settings for a queue in the bench's schema.
pub fn config(url: &str, queue: &str) -> Config {
    let mut config = Config::default();
    config.connection.url = url.into();
    config.connection.schema = SCHEMA.to_owned();
    config.queue.name = queue.to_owned();
    config
}

/// Enqueues `count` jobs of the usual payload.
pub async fn fill(queue: &Queue, count: u64) {
    fill_with(queue, count, &payload()).await;
}

/// Enqueues `count` jobs of this payload.
pub async fn fill_with(queue: &Queue, count: u64, payload: &[u8]) {
    enqueue(queue, count, payload, |_, job| job).await;
}

/// Brings the backlog of ready jobs to `jobs`.
pub async fn top_up(queue: &Queue, jobs: u64) {
    let stats = queue.admin().stats(None).await.expect("the queue exists");
    fill(queue, jobs.saturating_sub(stats.ready)).await;
}

/// Enqueues `count` jobs of the usual payload that are not due for a day.
pub async fn fill_scheduled(queue: &Queue, count: u64) {
    enqueue(queue, count, &payload(), |_, job| job.delay(Duration::from_secs(86_400))).await;
}

/// Enqueues `count` jobs of the usual payload, each of the next of `keys` groups.
pub async fn fill_groups(queue: &Queue, count: u64, keys: u64) {
    enqueue(queue, count, &payload(), |n, job| job.group_key((n % keys).to_string())).await;
}

async fn enqueue(queue: &Queue, count: u64, payload: &[u8], change: impl Fn(u64, NewJob) -> NewJob) {
    const AT_ONCE: u64 = 10_000;
    const BYTES_AT_ONCE: u64 = 8 << 20;
    let at_once = (BYTES_AT_ONCE / payload.len().max(1) as u64).clamp(1, AT_ONCE);
    let mut left = count;
    while left > 0 {
        let now = left.min(at_once);
        let first = count - left;
        let jobs: Vec<NewJob> = (first..first + now).map(|n| change(n, NewJob::bytes(payload))).collect();
        queue.enqueue_many(&jobs).await.expect("jobs are enqueued");
        left -= now;
    }
}

pub fn payload() -> Vec<u8> {
    vec![0x5A; PAYLOAD_BYTES]
}

/// The middle one of an odd number of samples, the upper middle one of an even number.
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    samples[samples.len() / 2]
}
