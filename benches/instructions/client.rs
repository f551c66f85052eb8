//! A no-op job's way through the client: the answer to a claim is read, the job goes through channel and pool, and its
//! acknowledgement is written. The whole process of a worker is counted; the server is another process, which is not.
//!
//! What a worker does once (connecting, registering, ending) goes out by taking the counts of a run with few jobs from
//! those of one with many.

use std::time::Duration;

use std::process::ExitCode;

use readpast::config::WorkerConfig;
use readpast::{Handlers, Queue, Worker};

use super::callgrind::{self, Counts};
use super::throughput::bench::{self, Bench, PAYLOAD_BYTES, fill, fill_with};
use super::throughput::usage::Switches;
use super::throughput::work::Work;

/// The first argument of the process that is counted.
pub const ROLE: &str = "client";

/// Jobs with a payload of one size.
pub struct Jobs {
    pub measure: &'static str,
    payload_bytes: usize,
    /// Whole batches, in two runs. So many that what differs from start to start (the TLS library's measuring of random
    /// noise: a few million instructions) is less than a hundredth of the difference.
    few: u64,
    many: u64,
}

pub const JOBS: [Jobs; 2] = [
    Jobs {
        measure: "client, a no-op job from claim to finish",
        payload_bytes: PAYLOAD_BYTES,
        few: 5_000,
        many: 65_000,
    },
    Jobs { measure: "client, the same with a payload of 8 KB", payload_bytes: 8_000, few: 2_000, many: 12_000 },
];

/// For what is not counted but measured.
const JOBS_AT_FULL_SPEED: u64 = 100_000;

/// One job at a time, and full batches however slow Valgrind makes the process: nothing depends on the clock.
fn config() -> WorkerConfig {
    let mut config = WorkerConfig::default();
    config.threads = 1;
    config.buffer = 2 * config.batch_size;
    config.finish_linger = Duration::from_secs(10);
    config
}

/// What a job takes.
pub async fn count(jobs: &Jobs) -> Counts {
    let bench = Bench::start().await;
    let payload = vec![0x5A; jobs.payload_bytes];
    let mut counts = [Counts::default(); 2];
    for (counts, (queue, number)) in counts.iter_mut().zip([("few", jobs.few), ("many", jobs.many)]) {
        fill_with(&bench.new_queue(queue).await, number, &payload).await;
        let name = format!("client-{}-{queue}", jobs.payload_bytes);
        *counts = callgrind::count(&name, &[ROLE, &bench.server.url, queue, &number.to_string()], None);
    }
    bench.uninstall().await;
    let [few, many] = counts;
    (many - few).per(jobs.many - jobs.few)
}

/// How often the worker's threads are switched for a job, not under Valgrind and with the default config.
pub async fn switches() -> Option<Switches> {
    let mut bench = Bench::start().await;
    let queue = bench.new_queue("full speed").await;
    fill(&queue, JOBS_AT_FULL_SPEED * 11 / 10).await;
    let run = bench.run_worker(&queue, &WorkerConfig::default(), Work::NONE, JOBS_AT_FULL_SPEED).await;
    bench.uninstall().await;
    run.switches
}

/// Works off a queue of so many jobs, in the process that is counted.
pub fn work_off(url: &str, queue: &str, jobs: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let queue = Queue::connect(&bench::config(url, queue)).await.expect("the library connects");
        let handlers = Handlers::any(|_job, _context| Ok(()));
        let worker = Worker::builder(&queue, handlers).config(&config()).start().await.expect("the worker starts");
        let summary = worker.drain().await.expect("the worker ends");
        assert_eq!(summary.stats.done.to_string(), jobs, "{summary:?}");
    });
    ExitCode::SUCCESS
}
