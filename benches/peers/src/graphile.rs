//! graphile_worker with the settings of its own benchmark (its `benches/perf_test.rs`, the best that it publishes), and
//! with what else its documentation advises.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext, WorkerOptions,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use super::bench::{PAYLOAD_BYTES, Run};
use super::postgres::{database_url, server_cpu};
use super::work::Work;
use super::{cores, usage};

pub const SETTINGS: &str = "local queue of 5,000, completion batched for 5 ms, 500 jobs at once unless said; PostgreSQL that waits for no disk";

const TASK: &str = "bench";

/// As many of our own are acknowledged before a rate is taken.
const WARM_UP_JOBS: u64 = 1_000;

/// What was worth tuning. Other sizes of the local queue (1,000 and 20,000), other completion delays (1 and 20 ms) and
/// the client's clock instead of the server's did not save CPU time, and neither did handlers that send their work to
/// rayon.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub name: &'static str,
    concurrency: usize,
    local_queues: usize,
    handler: Handler,
}

/// Where the handler does its work.
#[derive(Debug, Clone, Copy)]
enum Handler {
    /// On the thread that polls it.
    Inline,
    /// On one of tokio's threads for what blocks.
    SpawnBlocking,
}

impl Settings {
    const PUBLISHED: Settings =
        Settings { name: "its benchmark's settings", concurrency: 500, local_queues: 1, handler: Handler::Inline };

    /// How many jobs a local queue fetches at once.
    const LOCAL_QUEUE: usize = 5_000;

    /// What is tried with jobs that do nothing: its benchmark's settings; several local queues, "for very small,
    /// high-volume jobs"; and the default concurrency, which takes the least CPU time.
    pub fn for_no_op_jobs() -> [Settings; 3] {
        [
            Self::PUBLISHED,
            Settings { name: "two local queues", local_queues: 2, ..Self::PUBLISHED },
            Settings { name: "concurrency = cores", concurrency: cores(), ..Self::PUBLISHED },
        ]
    }

    /// What is tried with jobs that compute: its documentation advises a concurrency near the number of cores.
    pub fn for_cpu_jobs() -> [Settings; 3] {
        let as_cores = Settings { name: "concurrency = cores", concurrency: cores(), ..Self::PUBLISHED };
        let blocking =
            Settings { name: "concurrency = cores, spawn_blocking", handler: Handler::SpawnBlocking, ..as_cores };
        [Self::PUBLISHED, as_cores, blocking]
    }

    /// As many jobs as it fetches ahead at most.
    pub fn held(&self) -> u64 {
        (Self::LOCAL_QUEUE * self.local_queues) as u64
    }

    fn options(&self, pool: &PgPool) -> WorkerOptions {
        let local_queue = LocalQueueConfig::default().with_size(Self::LOCAL_QUEUE).with_queue_count(self.local_queues);
        WorkerOptions::default()
            .pg_pool(pool.clone())
            .schema("graphile_worker")
            .concurrency(self.concurrency)
            .poll_interval(Duration::from_millis(5))
            .complete_job_batch_delay(Duration::from_millis(5))
            .local_queue(local_queue)
            // A signal is to end the bench, not only the worker in it.
            .listen_os_shutdown_signals(false)
            .define_job::<Payload>()
    }
}

#[derive(Serialize, Deserialize)]
struct Payload {
    data: String,
}

/// What every job does.
#[derive(Clone, Debug)]
struct Task {
    work: Work,
    handler: Handler,
    ended: Arc<AtomicU64>,
}

impl TaskHandler for Payload {
    const IDENTIFIER: &'static str = TASK;

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        let task = context.get_ext::<Task>().expect("it was added");
        let work = task.work;
        match task.handler {
            Handler::Inline => work.run(),
            Handler::SpawnBlocking => tokio::task::spawn_blocking(move || work.run()).await.expect("it does not panic"),
        }
        task.ended.fetch_add(1, Ordering::Relaxed);
        Ok::<(), String>(())
    }
}

/// As many connections as it opens by default; it uses a handful.
async fn pool() -> PgPool {
    PgPoolOptions::new().max_connections(20).connect(&database_url()).await.expect("PostgreSQL listens")
}

/// Brings the backlog to `jobs`.
pub async fn top_up(jobs: u64) {
    const AT_ONCE: u64 = 10_000;
    let pool = pool().await;
    let worker = Settings::PUBLISHED.options(&pool).init().await.expect("the schema is made");
    // What an earlier worker held and did not end would be waited for.
    sqlx::query("DELETE FROM graphile_worker._private_jobs WHERE locked_at IS NOT NULL")
        .execute(&pool)
        .await
        .expect("a statement");
    let mut missing = jobs.saturating_sub(waiting(&pool).await);
    let utils = worker.create_utils();
    while missing > 0 {
        let now = missing.min(AT_ONCE);
        let job = || RawJobSpec {
            identifier: TASK.to_owned(),
            // With the braces and the key, as many bytes as readpast's payload.
            payload: serde_json::json!({ "data": "x".repeat(PAYLOAD_BYTES - r#"{"data":""}"#.len()) }),
            spec: JobSpec::default(),
        };
        let jobs: Vec<RawJobSpec> = (0..now).map(|_| job()).collect();
        utils.add_raw_jobs(&jobs).await.expect("jobs are added");
        missing -= now;
    }
    sqlx::query("VACUUM ANALYZE").execute(&pool).await.expect("a statement");
    pool.close().await;
}

async fn waiting(pool: &PgPool) -> u64 {
    let count = sqlx::query_as("SELECT count(*) FROM graphile_worker._private_jobs").fetch_one(pool).await;
    let (jobs,): (i64,) = count.expect("the table is there");
    jobs as u64
}

/// Works off jobs until `jobs` more than the first few have ended. Jobs that have ended are counted, not those that are
/// acknowledged: that is a few more, in this peer's favour.
pub async fn run_worker(settings: Settings, work: Work, jobs: u64) -> Run {
    let pool = pool().await;
    let available = waiting(&pool).await;
    let ended = Arc::new(AtomicU64::new(0));
    let options = settings.options(&pool).add_extension(Task { work, handler: settings.handler, ended: ended.clone() });
    let worker = Arc::new(options.init().await.expect("the worker starts"));
    let running = tokio::spawn({
        let worker = worker.clone();
        async move { worker.run().await }
    });
    // On this thread, which does not count, as for readpast.
    let reached = |least: u64| {
        while ended.load(Ordering::Relaxed) < least {
            assert!(!running.is_finished(), "the worker ended before its jobs");
            std::thread::sleep(Duration::from_millis(1));
        }
        ended.load(Ordering::Relaxed)
    };
    let first = reached(WARM_UP_JOBS.min(jobs / 4));
    let (started_at, client_before, server_before) = (Instant::now(), usage::others_cpu(), server_cpu());
    let work_before = Work::cpu();
    let last = reached((first + jobs).min(available));
    let (wall, client_cpu) = (started_at.elapsed(), usage::others_cpu() - client_before);
    let work_cpu = Work::cpu() - work_before;
    let server_cpu = server_cpu().saturating_sub(server_before);
    worker.request_shutdown();
    running.await.expect("the worker does not panic").expect("the worker ends");
    pool.close().await;
    Run { jobs: (last - first) as f64, wall, client_cpu, work_cpu, server_cpu, switches: None }
}
