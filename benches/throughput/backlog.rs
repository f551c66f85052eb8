//! What a claim costs at a backlog of 1,000, of 100,000, of 1,000,000, and with as many scheduled jobs beside it: the
//! same, because the index that it reads has nothing but ready jobs and is read from its head. And the worker's memory,
//! which does not know the backlog.

use std::time::Instant;

use readpast::config::WorkerConfig;

use super::bench::{Bench, fill_scheduled, median, top_up};
use super::report::{Report, Target};
use super::work::Work;
use super::{Sizes, usage};

/// Small enough that the smallest backlog stays nearly what it is.
const CLAIM: i32 = 20;
const CLAIMS: usize = 40;

pub async fn measure(report: &mut Report, sizes: &Sizes, curve: &mut Vec<(u64, f64)>) {
    let mut bench = Bench::start().await;
    let queue = bench.new_queue("backlog").await;
    let [small, middle, large] = sizes.backlogs;

    top_up(&queue, small).await;
    let at_small = claim_us(&bench).await;
    curve.push((small, at_small));
    top_up(&queue, middle).await;
    let at_middle = claim_us(&bench).await;
    curve.push((middle, at_middle));
    let resident_at_middle = resident_after_work(&mut bench, &queue, sizes).await;
    top_up(&queue, large).await;
    let at_large = claim_us(&bench).await;
    curve.push((large, at_large));
    let resident_at_large = resident_after_work(&mut bench, &queue, sizes).await;
    top_up(&queue, large).await;
    fill_scheduled(&queue, large).await;
    let beside_scheduled = claim_us(&bench).await;

    let flat = Some(Target::AtMost(1.2));
    report.add(&format!("claim of {CLAIM} at a backlog of {small}"), "us", None, vec![at_small]);
    report.add(&format!("claim at {middle} / at {small}"), "times", flat, vec![at_middle / at_small]);
    report.add(&format!("claim at {large} / at {small}"), "times", flat, vec![at_large / at_small]);
    let measure = format!("claim at {large} with {large} scheduled beside it / at {small}");
    report.add(&measure, "times", flat, vec![beside_scheduled / at_small]);
    if let (Some(before), Some(after)) = (resident_at_middle, resident_at_large) {
        let measure = format!("worker's resident memory at a backlog of {large} / at {middle}");
        report.add(&measure, "times", Some(Target::AtMost(1.2)), vec![after as f64 / before as f64]);
    }
    bench.uninstall().await;
}

/// The median time of a claim of the queue `backlog`; what it claims stays claimed.
pub async fn claim_us(bench: &Bench) -> f64 {
    let mut client = bench.client().await;
    let worker_id = client.register_worker("backlog").await;
    let mut times = Vec::with_capacity(CLAIMS);
    for _ in 0..CLAIMS {
        let started_at = Instant::now();
        let jobs = client.claim("backlog", worker_id, CLAIM).await;
        times.push(started_at.elapsed().as_secs_f64() * 1e6);
        assert_eq!(jobs.len(), CLAIM as usize);
    }
    median(times)
}

/// The resident memory after a worker has worked off part of the backlog.
async fn resident_after_work(bench: &mut Bench, queue: &readpast::Queue, sizes: &Sizes) -> Option<u64> {
    bench.run_worker(queue, &WorkerConfig::default(), Work::NONE, sizes.backlogs[1] / 4).await;
    usage::resident_bytes()
}
