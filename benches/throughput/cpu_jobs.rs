//! Jobs of 100 us, 1 ms and 10 ms CPU: how much of the cores the queue leaves to the work, and how often a job has the
//! worker's threads woken and switched. [`Share`] says how shares are measured.

use std::time::Duration;

use readpast::admin::{JobChange, JobState};
use readpast::config::WorkerConfig;

use super::bench::{Bench, fill};
use super::report::{Report, Target};
use super::share::{Share, of_bare_rayon};
use super::work::Work;
use super::{Sizes, cores};

/// More than a worker ever holds of jobs this short, with its default config.
const CLAIMED_AHEAD: u64 = 4_000;

/// The most that a job of up to 1 ms may cost beyond its work. A longer one pays more, for calls with few jobs.
const MOST_OVERHEAD_US: f64 = 8.0;
const MOST_OVERHEAD_OF_10_MS_US: f64 = 12.0;

/// On busy cores a wake-up costs the worker two switches: one of the thread that wakes, and one of the job's thread
/// whose core it takes. Threads of the server take cores from jobs as well, so there is no target for all switches.
const MOST_WAKE_UPS: f64 = 0.1;

/// A worker wakes up this often even if few jobs end per call. It makes 20 finish calls a second, one per
/// `finish_linger_ms`, each with up to four wake-ups: a timer, which tokio's wheel splits in two if it crosses a multiple
/// of 64 ms, the answer with the columns of the table type, which the driver asks for, and the answer to the call. Ten
/// claims have one each.
const WAKE_UPS_PER_SECOND: f64 = 90.0;

pub async fn measure(report: &mut Report, sizes: &Sizes) {
    // Of jobs so short that a microsecond is a hundredth, the share says nothing that the overhead does not.
    one_length(report, sizes, "100 us", Duration::from_micros(100), sizes.ms_jobs * 8, None).await;
    one_length(report, sizes, "1 ms", Duration::from_millis(1), sizes.ms_jobs, Some((0.90, 0.985))).await;
    one_length(report, sizes, "10 ms", Duration::from_millis(10), sizes.ms_jobs / 8, Some((0.97, 0.995))).await;
}

async fn one_length(
    report: &mut Report,
    sizes: &Sizes,
    name: &str,
    length: Duration,
    jobs: u64,
    least: Option<(f64, f64)>,
) {
    let mut bench = Bench::start().await;
    let queue = bench.new_queue("cpu").await;
    let work = Work::lasting(length);
    let config = WorkerConfig::default();
    let (mut shares, mut given_back, mut overhead) = (Vec::new(), Vec::new(), Vec::new());
    let (mut switches, mut wake_ups) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        // More than are measured and than the worker claims ahead, so that none of the stages runs dry before the end.
        fill(&queue, jobs * 2 + CLAIMED_AHEAD).await;
        let of_bare = of_bare_rayon(work, jobs);
        let run = bench.run_worker(&queue, &config, work, jobs).await;
        let share = Share::of(&run, of_bare);
        shares.push(share.as_it_is);
        given_back.push(share.given_back);
        overhead.push(share.overhead_us);
        switches.extend(run.switches.map(|switches| switches.all));
        wake_ups.extend(run.switches.map(|switches| switches.voluntary));
        let left = queue.admin().stats(None).await.expect("the queue exists");
        assert!(left.ready > 0, "the backlog is larger than what is worked off");
        queue.admin().change(&JobChange::Purge, JobState::Ready).await.expect("the rest is deleted");
    }
    let (least_share, least_given_back) = least.unzip();
    let most_overhead = if length < Duration::from_millis(10) { MOST_OVERHEAD_US } else { MOST_OVERHEAD_OF_10_MS_US };
    let most_wake_ups = MOST_WAKE_UPS.max(WAKE_UPS_PER_SECOND * length.as_secs_f64() / cores() as f64);
    let (at_least, at_most) = (|least: Option<f64>| least.map(Target::AtLeast), |most| Some(Target::AtMost(most)));
    report.add(&format!("jobs of {name}, share of bare rayon"), "", at_least(least_share), shares);
    if bench.server.is_dev_server() {
        let measure = format!("jobs of {name}, share of bare rayon, server's CPU given back");
        report.add(&measure, "", at_least(least_given_back), given_back);
    }
    let measure = format!("client CPU of a job of {name} beyond its work");
    report.add(&measure, "us", at_most(most_overhead), overhead);
    if !switches.is_empty() {
        report.add(&format!("wake-ups of a job of {name}"), "", at_most(most_wake_ups), wake_ups);
        report.add(&format!("context switches of a job of {name}"), "", None, switches);
    }
    bench.uninstall().await;
}
