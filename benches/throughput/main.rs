//! The whole of readpast, measured: rates, CPU time, latencies, fairness, each as a ratio in one run.
//! `benches/README.md` says how to read it.
//!
//!     cargo bench --bench throughput                          # everything, about twenty minutes
//!     cargo bench --bench throughput -- --quick               # small sizes, half a minute: shows that it works, measures nothing
//!     cargo bench --bench throughput -- no-op idle            # some of it
//!     cargo bench --bench throughput -- --one-round no-op     # for a profile
//!     cargo bench --bench throughput -- --markdown            # prints the table ready to paste as well
//!
//! The server runs in a process of its own, which is this program again (`server.rs`). With `READPAST_URL` it is a SQL
//! Server.

mod backlog;
mod bench;
mod client;
mod cpu_jobs;
mod distance;
mod dmv;
mod enqueue;
mod fairness;
mod groups;
mod idle;
mod nested;
mod no_op;
mod plots;
mod proxy;
mod report;
mod scale;
mod server;
mod share;
mod usage;
mod work;
mod worker_process;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use report::Report;

/// How much is measured.
pub struct Sizes {
    pub rounds: usize,
    /// Ready jobs before each run of no-op jobs.
    pub backlog: u64,
    pub no_op_jobs: u64,
    /// How long groups share a queue by their weights.
    pub shared: Duration,
    pub classic_jobs: u64,
    pub ms_jobs: u64,
    pub enqueued: u64,
    pub enqueued_singly: u64,
    pub backlogs: [u64; 3],
    pub scale_jobs: u64,
    pub largest_backlog: u64,
    pub at_rest: Duration,
    pub wake_ups: usize,
    pub long_job: Duration,
    pub long_jobs: u64,
    pub tiny_before_long: u64,
}

const FULL: Sizes = Sizes {
    rounds: 5,
    backlog: 220_000,
    no_op_jobs: 200_000,
    shared: Duration::from_secs(60),
    classic_jobs: 6_000,
    ms_jobs: 6_000,
    enqueued: 100_000,
    enqueued_singly: 2_000,
    backlogs: [1_000, 100_000, 1_000_000],
    scale_jobs: 220_000,
    largest_backlog: 5_000_000,
    at_rest: Duration::from_secs(20),
    wake_ups: 40,
    long_job: Duration::from_millis(400),
    long_jobs: 24,
    tiny_before_long: 20_000,
};

const QUICK: Sizes = Sizes {
    rounds: 1,
    backlog: 6_000,
    no_op_jobs: 4_000,
    shared: Duration::from_secs(1),
    classic_jobs: 100,
    ms_jobs: 160,
    enqueued: 5_000,
    enqueued_singly: 50,
    backlogs: [1_000, 3_000, 10_000],
    scale_jobs: 40_000,
    largest_backlog: 100_000,
    at_rest: Duration::from_secs(1),
    wake_ups: 1,
    long_job: Duration::from_millis(50),
    long_jobs: 6,
    tiny_before_long: 2_000,
};

const MEASURES: [&str; 10] =
    ["no-op", "groups", "cpu", "enqueue", "backlog", "idle", "nested", "fairness", "scale", "payloads"];

/// The threads of a worker and of its rivals.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn main() -> ExitCode {
    if server::played_server() || worker_process::played_worker() {
        return ExitCode::SUCCESS;
    }
    let mut quick = false;
    let mut markdown = false;
    let mut rounds = None;
    let mut chosen = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--bench" => {} // cargo says so
            "--quick" => quick = true,
            "--markdown" => markdown = true,
            "--one-round" => rounds = Some(1),
            name if MEASURES.contains(&name) => chosen.push(name.to_owned()),
            other => {
                eprintln!("{other}: must be --quick, --one-round, --markdown or one of {}", MEASURES.join(", "));
                return ExitCode::from(2);
            }
        }
    }
    let sizes = if quick { QUICK } else { FULL };
    let sizes = Sizes { rounds: rounds.unwrap_or(sizes.rounds), ..sizes };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let report = runtime.block_on(measure(&sizes, &chosen));
    if markdown {
        println!("\n{}", report.markdown());
    }
    // Quick sizes are too small for the targets to mean anything.
    if quick || report.all_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn measure(sizes: &Sizes, chosen: &[String]) -> Report {
    let started_at = Instant::now();
    let mut report = Report::default();
    settings(&mut report, sizes);
    let mut curve = Vec::new();
    for name in MEASURES {
        if !chosen.is_empty() && !chosen.iter().any(|chosen| chosen == name) {
            continue;
        }
        println!("{name}");
        match name {
            "no-op" => no_op::measure(&mut report, sizes).await,
            "groups" => groups::measure(&mut report, sizes).await,
            "cpu" => cpu_jobs::measure(&mut report, sizes).await,
            "enqueue" => enqueue::measure(&mut report, sizes).await,
            "backlog" => backlog::measure(&mut report, sizes, &mut curve).await,
            "idle" => idle::measure(&mut report, sizes).await,
            "nested" => nested::measure(&mut report, sizes).await,
            "fairness" => fairness::measure(&mut report, sizes).await,
            "payloads" => scale::payloads(&mut report, sizes).await,
            _ => scale::measure(&mut report, sizes).await,
        }
    }
    report.set("took", format!("{:.0} s", started_at.elapsed().as_secs_f64()));
    write_files(&report, &curve).expect("the build folder can be written to");
    report
}

fn settings(report: &mut Report, sizes: &Sizes) {
    let server = if std::env::var_os("READPAST_URL").is_some() {
        "READPAST_URL"
    } else {
        "the dev server, in a process of its own on the same cores, without TLS"
    };
    let worker = readpast::config::WorkerConfig::default();
    report.set("server", server);
    report.set("cores", cores());
    report.set("rounds", sizes.rounds);
    report.set("backlog before each run of no-op jobs", sizes.backlog);
    report.set("payload", format!("{} bytes", bench::PAYLOAD_BYTES));
    let (claim, finish) = (worker.batch_size, worker.finish_batch_size);
    report.set("worker", format!("default settings: batch_size {claim}, finish_batch_size {finish}, threads = cores"));
}

fn write_files(report: &Report, curve: &[(u64, f64)]) -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("throughput");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("report.json"), report.json())?;
    std::fs::write(folder.join("report.md"), report.markdown())?;
    let no_op = [
        "no-op jobs, worker",
        "no-op jobs, raw loop of batches, overlapped",
        "no-op jobs, raw loop of batches, in turn",
        "no-op jobs, one row per round trip",
    ];
    plots::bars(report, "No-op jobs per second", &no_op, &folder.join("no_op.svg"))?;
    plots::claim_over_backlog(curve, &folder.join("claim_over_backlog.svg"))?;
    println!("\nwritten to {}", folder.display());
    Ok(())
}
