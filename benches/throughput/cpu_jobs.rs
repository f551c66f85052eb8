//! Jobs of 1 ms and of 10 ms CPU: how much of the cores the queue leaves to the work.
//!
//! The measure is what bare rayon does over the same jobs in memory, in the same round. The server runs on the same cores here, so that
//! there are two shares: as it is, and with the server's CPU time given back (`wall - server CPU / cores`), which is what remains where
//! the server is another machine.
//!
//! What the client uses beyond the work is told by the clocks of the threads that run the jobs: the difference to bare rayon would be one of
//! two large numbers, and one part in a hundred of them is more than what is looked for.

use std::time::{Duration, Instant};

use rayon::prelude::*;
use readpast::WorkerConfig;

use super::bench::{Bench, Run, fill, payload};
use super::report::{Report, Target};
use super::work::Work;
use super::{Sizes, cores, usage};

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
    let (mut shares, mut given_back, mut by_cpu, mut overhead) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        // More than are measured, so that none of the stages runs dry before the end.
        fill(&queue, jobs * 2).await;
        let bare = bare_rayon(work, jobs);
        Work::start_counting();
        let run = bench.run_worker(&queue, &config, work, jobs).await;
        overhead.push(run.client_us_per_job() - Work::cpu_us_per_job());
        let ideal = bare.wall.mul_f64(run.jobs / bare.jobs);
        let server_free = run.wall.saturating_sub(run.server_cpu / cores() as u32);
        shares.push(ideal.as_secs_f64() / run.wall.as_secs_f64());
        given_back.push(ideal.as_secs_f64() / server_free.as_secs_f64());
        by_cpu.push(bare.client_us_per_job() / run.client_us_per_job());
        let left = queue.stats().await.expect("the queue exists");
        assert!(left.ready > 0, "the backlog is larger than what is worked off");
        queue.purge(readpast::JobState::Ready, Duration::ZERO).await.expect("the rest is deleted");
    }
    report.add(&format!("jobs of {name}, share of bare rayon"), "", Some(Target::AtLeast(least)), shares);
    if bench.server.is_dev_server() {
        let measure = format!("jobs of {name}, share of bare rayon, server's CPU given back");
        report.add(&measure, "", Some(Target::AtLeast(least_given_back)), given_back);
    }
    report.add(&format!("jobs of {name}, share of the client's CPU time that is work"), "", None, by_cpu);
    let measure = format!("client CPU of a job of {name} beyond its work");
    report.add(&measure, "us", most_overhead_us.map(Target::AtMost), overhead);
    bench.uninstall().await;
}

/// The same jobs in memory, on as many threads.
pub fn bare_rayon(work: Work, jobs: u64) -> Run {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(cores()).build().expect("threads");
    let payloads: Vec<Vec<u8>> = (0..jobs).map(|_| payload()).collect();
    let (started_at, before) = (Instant::now(), usage::cpu());
    pool.install(|| payloads.par_iter().with_max_len(1).for_each(|_payload| work.run()));
    let (wall, client_cpu) = (started_at.elapsed(), usage::cpu() - before);
    Run { jobs: jobs as f64, wall, client_cpu, server_cpu: Duration::ZERO }
}
