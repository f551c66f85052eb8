//! The parts: what one call of each procedure of a job's way takes, over the wire, by batch size.
//!
//!     cargo bench --bench procedures
//!
//! Read along a row: the time of a call divided by its jobs is what a batch saves.

#[allow(dead_code)] // of the modules that it shares with the bench of the whole, this one needs less
mod throughput {
    pub mod bench;
    pub mod client;
    pub mod distance;
    pub mod server;
    pub mod usage;
    pub mod work;
}

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use tokio::runtime::Runtime;
use uuid::Uuid;

use throughput::bench::{Bench, fill};
use throughput::client::Client;
use throughput::server;

const BATCHES: [u64; 4] = [1, 10, 100, 500];

fn main() {
    if server::played_server() {
        return;
    }
    let runtime = Runtime::new().expect("a runtime");
    let bench = runtime.block_on(Bench::start());
    let queue = runtime.block_on(bench.new_queue("procedures"));
    let (mut client, worker_id) = runtime.block_on(async {
        let mut client = bench.client().await;
        let worker_id = client.register_worker("procedures").await;
        (client, worker_id)
    });
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    for (index, call) in ["enqueue_batch", "claim", "finish"].into_iter().enumerate() {
        let mut group = criterion.benchmark_group(call);
        for jobs in BATCHES {
            group.throughput(Throughput::Elements(jobs));
            group.bench_function(BenchmarkId::from_parameter(jobs), |bencher| {
                bencher.iter_custom(|iterations| {
                    (0..iterations)
                        .map(|_| runtime.block_on(way_of_a_batch(&queue, &mut client, worker_id, jobs))[index])
                        .sum()
                });
            });
        }
        group.finish();
    }
    criterion.final_summary();
    runtime.block_on(bench.uninstall());
}

/// How long each of the three calls took.
async fn way_of_a_batch(queue: &readpast::Queue, client: &mut Client, worker_id: Uuid, jobs: u64) -> [Duration; 3] {
    let started_at = Instant::now();
    fill(queue, jobs).await;
    let enqueued_at = Instant::now();
    let claimed = client.claim("procedures", worker_id, jobs as i32).await;
    let claimed_at = Instant::now();
    client.finish("procedures", worker_id, &claimed).await;
    let finished_at = Instant::now();
    assert_eq!(claimed.len() as u64, jobs);
    [enqueued_at - started_at, claimed_at - enqueued_at, finished_at - claimed_at]
}
