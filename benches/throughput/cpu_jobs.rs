//! Jobs of 1 ms and of 10 ms CPU: how much of the cores the queue leaves to the work. [`Share`] says how it is
//! measured.

use std::time::Duration;

use readpast::WorkerConfig;

use super::Sizes;
use super::bench::{Bench, fill};
use super::report::{Report, Target};
use super::share::{Share, of_bare_rayon};
use super::work::Work;

/// More than a worker ever holds of jobs this short, with its default config.
const CLAIMED_AHEAD: u64 = 4_000;

pub async fn measure(report: &mut Report, sizes: &Sizes) {
    one_length(report, sizes, "1 ms", Duration::from_millis(1), sizes.ms_jobs, (0.90, 0.98), Some(15.0)).await;
    one_length(report, sizes, "10 ms", Duration::from_millis(10), sizes.ms_jobs / 8, (0.97, 0.995), None).await;
}

async fn one_length(
    report: &mut Report,
    sizes: &Sizes,
    name: &str,
    length: Duration,
    jobs: u64,
    (least, least_given_back): (f64, f64),
    most_overhead_us: Option<f64>,
) {
    let mut bench = Bench::start().await;
    let queue = bench.new_queue("cpu").await;
    let work = Work::lasting(length);
    let config = WorkerConfig::default();
    let (mut shares, mut given_back, mut overhead) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        // More than are measured and than the worker claims ahead, so that none of the stages runs dry before the end.
        fill(&queue, jobs * 2 + CLAIMED_AHEAD).await;
        let of_bare = of_bare_rayon(work, jobs);
        Work::start_counting();
        let share = Share::of(&bench.run_worker(&queue, &config, work, jobs).await, of_bare);
        shares.push(share.as_it_is);
        given_back.push(share.given_back);
        overhead.push(share.overhead_us);
        let left = queue.stats().await.expect("the queue exists");
        assert!(left.ready > 0, "the backlog is larger than what is worked off");
        queue.purge(readpast::JobState::Ready, Duration::ZERO).await.expect("the rest is deleted");
    }
    report.add(&format!("jobs of {name}, share of bare rayon"), "", Some(Target::AtLeast(least)), shares);
    if bench.server.is_dev_server() {
        let measure = format!("jobs of {name}, share of bare rayon, server's CPU given back");
        report.add(&measure, "", Some(Target::AtLeast(least_given_back)), given_back);
    }
    if let Some(most) = most_overhead_us {
        let measure = format!("client CPU of a job of {name} beyond its work");
        report.add(&measure, "us", Some(Target::AtMost(most)), overhead);
    }
    bench.uninstall().await;
}
