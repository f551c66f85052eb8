//! The same jobs on readpast and on graphile_worker, the Rust queue on PostgreSQL with a local queue and batched
//! completion, in one run.
//!
//!     benches/peers/run            # starts a PostgreSQL cluster of its own, runs this, stops it
//!     benches/peers/run --quick    # small sizes: shows that it works
//!
//! Both work off the same number of jobs of the same payload, round by round one after the other, each with its server
//! on the same cores. The peer runs with several settings, and for each measure the best of them counts.

mod graphile;
mod postgres;

#[allow(dead_code)] // shared with the bench of the whole, which needs more of them
#[path = "../../throughput/bench.rs"]
mod bench;
#[allow(dead_code)]
#[path = "../../throughput/client.rs"]
mod client;
#[allow(dead_code)]
#[path = "../../throughput/distance.rs"]
mod distance;
#[allow(dead_code)]
#[path = "../../throughput/report.rs"]
mod report;
#[allow(dead_code)]
#[path = "../../throughput/server.rs"]
mod server;
#[path = "../../throughput/share.rs"]
mod share;
#[allow(dead_code)]
#[path = "../../throughput/usage.rs"]
mod usage;
#[path = "../../throughput/work.rs"]
mod work;

use std::process::ExitCode;
use std::time::Duration;

use readpast::admin::{JobChange, JobState};
use readpast::config::WorkerConfig;

use bench::{Bench, Run, fill, median, top_up};
use graphile::Settings;
use report::{Report, Target};
use share::{Share, of_bare_rayon};
use work::Work;

struct Sizes {
    rounds: usize,
    backlog: u64,
    no_op_jobs: u64,
    ms_jobs: u64,
}

const FULL: Sizes = Sizes { rounds: 3, backlog: 220_000, no_op_jobs: 200_000, ms_jobs: 6_000 };
const QUICK: Sizes = Sizes { rounds: 1, backlog: 8_000, no_op_jobs: 4_000, ms_jobs: 200 };

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn main() -> ExitCode {
    if server::played_server() {
        return ExitCode::SUCCESS;
    }
    let mut quick = false;
    for argument in std::env::args().skip(1) {
        if argument != "--quick" {
            eprintln!("{argument}: must be --quick or nothing");
            return ExitCode::from(2);
        }
        quick = true;
    }
    let sizes = if quick { QUICK } else { FULL };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let report = runtime.block_on(measure(&sizes));
    println!("\n{}", report.markdown());
    // Quick sizes are too small for the targets to mean anything.
    if quick || report.all_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn measure(sizes: &Sizes) -> Report {
    let mut report = Report::default();
    report.set("readpast", "default settings; the dev server");
    report.set("graphile_worker", graphile::SETTINGS);
    report.set("no-op jobs a run", format!("{} of a backlog of {}", sizes.no_op_jobs, sizes.backlog));
    report.set("jobs of 1 ms a run", sizes.ms_jobs);
    report.set("cores", cores());
    report.set("rounds", sizes.rounds);
    report.set("payload", format!("{} bytes", bench::PAYLOAD_BYTES));
    no_op(&mut report, sizes).await;
    one_ms(&mut report, sizes).await;
    report
}

async fn no_op(report: &mut Report, sizes: &Sizes) {
    let mut bench = Bench::start().await;
    let queue = bench.new_queue("no-op").await;
    let mut runs = Runs::new(Settings::for_no_op_jobs());
    for _ in 0..sizes.rounds {
        top_up(&queue, sizes.backlog).await;
        runs.ours.push(bench.run_worker(&queue, &WorkerConfig::default(), Work::NONE, sizes.no_op_jobs).await);
        for (settings, theirs) in &mut runs.theirs {
            graphile::top_up(sizes.backlog).await;
            theirs.push(graphile::run_worker(*settings, Work::NONE, sizes.no_op_jobs).await);
        }
    }
    runs.report_most(report, "no-op jobs", "jobs/s", Run::rate);
    runs.report_least(report, "client CPU of a no-op job", None, Run::client_us_per_job);
    runs.report_both(report, "server CPU of a no-op job", Run::server_us_per_job);
}

async fn one_ms(report: &mut Report, sizes: &Sizes) {
    let mut bench = Bench::start().await;
    let queue = bench.new_queue("cpu").await;
    let work = Work::lasting(Duration::from_millis(1));
    let mut runs = Runs::new(Settings::for_cpu_jobs());
    for _ in 0..sizes.rounds {
        let of_bare = of_bare_rayon(work, sizes.ms_jobs);
        // More than are measured, so that none of the stages runs dry before the end.
        fill(&queue, sizes.ms_jobs * 2).await;
        let run = bench.run_worker(&queue, &WorkerConfig::default(), work, sizes.ms_jobs).await;
        runs.ours.push(Share::of(&run, of_bare));
        queue.admin().change(&JobChange::Purge, JobState::Ready).await.expect("the rest is deleted");
        for (settings, theirs) in &mut runs.theirs {
            graphile::top_up(sizes.ms_jobs * 2 + settings.held()).await;
            theirs.push(Share::of(&graphile::run_worker(*settings, work, sizes.ms_jobs).await, of_bare));
        }
    }
    runs.report_most(report, "jobs of 1 ms, share of bare rayon", "", |share| share.as_it_is);
    runs.report_most(report, "jobs of 1 ms, share of bare rayon, server's CPU given back", "", |share| {
        share.given_back
    });
    let target = Some(Target::AtMost(15.0));
    runs.report_least(report, "client CPU of a job of 1 ms beyond its work", target, |share| share.overhead_us);
}

/// What was seen, one a round: ours, and the peer's with each of its settings.
struct Runs<T> {
    ours: Vec<T>,
    theirs: Vec<(Settings, Vec<T>)>,
}

impl<T> Runs<T> {
    fn new(settings: impl IntoIterator<Item = Settings>) -> Runs<T> {
        Runs { ours: Vec::new(), theirs: settings.into_iter().map(|settings| (settings, Vec::new())).collect() }
    }

    /// What is the better the more of it there is.
    fn report_most(&self, report: &mut Report, measure: &str, unit: &'static str, what: fn(&T) -> f64) {
        let (ours, theirs) = self.both(what, f64::gt);
        compare(report, measure, unit, None, (ours, theirs), Some(Target::AtLeast(1.0)));
    }

    /// Microseconds, the better the fewer.
    fn report_least(&self, report: &mut Report, measure: &str, target: Option<Target>, what: fn(&T) -> f64) {
        let (ours, theirs) = self.both(what, f64::lt);
        compare(report, measure, "us", target, (ours, theirs), Some(Target::AtMost(1.0)));
    }

    /// Microseconds of two servers that are no match for each other.
    fn report_both(&self, report: &mut Report, measure: &str, what: fn(&T) -> f64) {
        compare(report, measure, "us", None, self.both(what, f64::lt), None);
    }

    /// Our samples, and the peer's with those settings whose median is the best.
    fn both(&self, what: fn(&T) -> f64, is_better: fn(&f64, &f64) -> bool) -> (Vec<f64>, (&'static str, Vec<f64>)) {
        let samples = |runs: &[T]| runs.iter().map(what).collect::<Vec<f64>>();
        let theirs = self.theirs.iter().map(|(settings, runs)| (settings.name, samples(runs)));
        let best = theirs.reduce(
            |best, next| {
                if is_better(&median(next.1.clone()), &median(best.1.clone())) { next } else { best }
            },
        );
        (samples(&self.ours), best.expect("the peer has settings"))
    }
}

/// Adds ours, the peer's and, where the one is to be ahead of the other, the ratio of each round.
fn compare(
    report: &mut Report,
    measure: &str,
    unit: &'static str,
    target: Option<Target>,
    (ours, (settings, theirs)): (Vec<f64>, (&'static str, Vec<f64>)),
    ahead: Option<Target>,
) {
    let ratio: Vec<f64> = ours.iter().zip(&theirs).map(|(own, peer)| own / peer).collect();
    report.add(&format!("{measure}, readpast"), unit, target, ours);
    report.add(&format!("{measure}, graphile_worker ({settings})"), unit, None, theirs);
    if ahead.is_some() {
        report.add(&format!("{measure}, readpast / graphile_worker"), "times", ahead, ratio);
    }
}
