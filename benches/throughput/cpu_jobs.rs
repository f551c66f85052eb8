//! Jobs of 1 ms and of 10 ms CPU: how much of the cores the queue leaves to the work.
//!
//! The measure is how much of the cores' time is work, beside how much of it bare rayon makes work of over the same jobs in memory, in the
//! same round. What is work is told by the clocks of the threads that run the jobs: a machine's speed differs by more between two runs than
//! what is looked for. The server runs on the same cores here, so that there are two shares: as it is, and with the server's CPU time given
//! back (`wall - server CPU / cores`), which is what remains where the server is another machine.

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
    let (mut shares, mut given_back, mut overhead) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        // More than are measured, so that none of the stages runs dry before the end.
        fill(&queue, jobs * 2).await;
        Work::start_counting();
        let bare = bare_rayon(work, jobs);
        let of_bare = share_of_cores(&bare, bare.wall);
        Work::start_counting();
        let run = bench.run_worker(&queue, &config, work, jobs).await;
        shares.push(share_of_cores(&run, run.wall) / of_bare);
        let server_free = run.wall.saturating_sub(run.server_cpu / cores() as u32);
        given_back.push(share_of_cores(&run, server_free) / of_bare);
        overhead.push(run.client_us_per_job() - Work::cpu_us_per_job());
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

/// How much of the time of all cores the jobs of a run were at work.
fn share_of_cores(run: &Run, wall: Duration) -> f64 {
    run.jobs * Work::cpu_us_per_job() / 1e6 / (wall.as_secs_f64() * cores() as f64)
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
