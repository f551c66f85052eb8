//! Who gets how much: workers of one queue, queues of one process, and few jobs among many workers.

use std::time::Duration;

use readpast::config::WorkerConfig;

use crate::Sizes;
use crate::fleet::{Fleet, STARTING, config};
use crate::report::{Report, number};
use crate::server::Procedure;
use crate::worker::Worker;
use crate::worker::one_pool::{Share, shares_of_time};
use crate::world::{MS, Micros, SECOND};

pub fn simulate(report: &mut Report, sizes: &Sizes) {
    batches(report, sizes);
    few_jobs(report, sizes);
    queues(report, sizes);
}

/// What batches come to, and how evenly jobs are spread, where there are always more.
fn batches(report: &mut Report, sizes: &Sizes) {
    let mut rows = Vec::new();
    for (workers, job) in [
        (sizes.workers / 100, MS),
        (sizes.workers / 100, 10 * MS),
        (sizes.workers / 10, 10 * MS),
        (sizes.workers / 10, 100 * MS),
        (sizes.workers, 100 * MS),
        (sizes.workers, SECOND),
    ] {
        let workers = workers.max(1);
        let mut fleet = Fleet::new(workers, 1, &config(), sizes.seed);
        let (from, until) = (STARTING + 5 * SECOND, STARTING + 5 * SECOND + sizes.busy_for);
        let jobs_per_second = (workers * 4) as u64 * SECOND / job;
        fleet.enqueue(0, (jobs_per_second * (until / SECOND + 2)) as usize, job);
        fleet.run_until(from);
        let before: Vec<u64> = fleet.workers.iter().map(Worker::jobs_run).collect();
        fleet.run_until(until);
        let rate = |procedure| fleet.rate(procedure, from, until);
        let (claims, finishes) = (rate(Procedure::Claim), rate(Procedure::Finish));
        let ended = fleet.ended(from, until) as f64 / ((until - from) as f64 / SECOND as f64);
        let since = fleet.workers.iter().zip(&before).map(|(worker, before)| worker.jobs_run() - before);
        let done: Vec<f64> = since.map(|jobs| jobs as f64).collect();
        let mean = done.iter().sum::<f64>() / done.len() as f64;
        let least = done.iter().copied().fold(f64::INFINITY, f64::min) / mean;
        let (per_claim, per_finish) = (ended / claims, ended / finishes);
        let part = ended / jobs_per_second as f64;
        rows.push(vec![
            number(workers as f64),
            format!("{} ms", number(job as f64 / MS as f64)),
            number(ended),
            number(claims),
            number(finishes),
            number(per_claim),
            number(per_finish),
            format!("{:.0} %", part * 100.0),
            format!("{:.0} %", least * 100.0),
        ]);
        let what = format!("{workers} workers, jobs of {} ms", job / MS);
        report.claim(&format!("{what}: the threads are busy nine tenths of the time"), part >= 0.9);
        let model = crate::model::calls_of_worker(ended / workers as f64, config().threads, &config());
        let (modelled_claims, modelled_finishes) = (model.claims * workers as f64, model.finishes * workers as f64);
        let near = |model: f64, simulated: f64| (0.66..=1.5).contains(&(model / simulated));
        report.claim(
            &format!(
                "{what}: the model's {} claims and {} finish calls per second are near",
                number(modelled_claims),
                number(modelled_finishes)
            ),
            near(modelled_claims, claims) && near(modelled_finishes, finishes),
        );
        let what_least = "no worker has less than three quarters of the mean";
        report.claim(&format!("{what}: {what_least}"), least >= 0.75);
    }
    let columns = [
        "workers",
        "run time",
        "jobs/s",
        "claims/s",
        "finish calls/s",
        "jobs per claim",
        "jobs per finish call",
        "threads busy",
        "jobs of the slowest worker / mean",
    ];
    report.table("batches", &columns, &rows);
}

/// A setting of the workers.
struct Setting {
    name: &'static str,
    change: fn(&mut WorkerConfig),
}

const SETTINGS: [Setting; 4] = [
    Setting { name: "default", change: |_| {} },
    Setting { name: "`batch_size` 1", change: |config| config.batch_size = 1 },
    Setting { name: "`buffer` 50", change: |config| config.buffer = 50 },
    Setting { name: "`buffer` 500", change: |config| config.buffer = 500 },
];

/// One job of 5 s for each thread, which come while tiny ones are worked off, and on a fleet that is at rest.
fn few_jobs(report: &mut Report, sizes: &Sizes) {
    let workers = sizes.workers / 10;
    let mut rows = Vec::new();
    for setting in &SETTINGS {
        let mut config = config();
        (setting.change)(&mut config);
        let threads = workers * config.threads;
        let after_tiny = last_end(workers, &config, sizes, Some(threads * sizes.tiny));
        let at_rest = last_end(workers, &config, sizes, None);
        rows.push(vec![setting.name.to_string(), number(after_tiny), number(at_rest)]);
        let holds = match setting.name {
            "`buffer` 500" | "`buffer` 50" => at_rest >= 2.0,
            _ => after_tiny <= 2.0 && at_rest <= 2.0,
        };
        let expected = if config.buffer > 0 { "a fixed buffer keeps" } else { "no worker keeps" };
        report.claim(&format!("{}: {expected} few long jobs from idle workers", setting.name), holds);
    }
    let columns = ["settings", "delay behind tiny jobs, in job lengths", "delay on an idle fleet, in job lengths"];
    report.table("few jobs", &columns, &rows);
}

const LONG: Micros = 5 * SECOND;

/// How much later than it could the last long job ends, in run times of one.
fn last_end(workers: usize, config: &WorkerConfig, sizes: &Sizes, tiny: Option<usize>) -> f64 {
    let mut fleet = Fleet::new(workers, 1, config, sizes.seed);
    let threads = workers * config.threads;
    fleet.run_until(STARTING + 30 * SECOND);
    let tiny = tiny.unwrap_or(0);
    fleet.enqueue(0, tiny, MS);
    fleet.world.server.enqueue(0, threads, |_| LONG);
    let all_ended = |fleet: &Fleet| fleet.world.server.jobs[tiny..].iter().all(|job| job.ended_at.is_some());
    let limit = fleet.world.now + 600 * LONG;
    fleet.run_until_so(SECOND / 2, limit, all_ended);
    let long = || fleet.world.server.jobs[tiny..].iter();
    let first_start = long().filter_map(|job| job.started_at).min().unwrap_or(0);
    let last_end = long().map(|job| job.ended_at.unwrap_or(limit)).max().unwrap_or(limit);
    ((last_end - first_start) as f64 - LONG as f64) / LONG as f64
}

/// Queues of one process with weights, and jobs of different lengths.
fn queues(report: &mut Report, sizes: &Sizes) {
    let share = |weight, ms| Share { weight, job: Duration::from_millis(ms) };
    let processes: [(usize, Vec<Share>); 4] = [
        (4, vec![share(3, 10), share(1, 10)]),
        (4, vec![share(3, 10), share(1, 3_000)]),
        (8, vec![share(1, 10), share(1, 300), share(2, 30)]),
        (16, vec![share(10, 20), share(1, 20), share(1, 10_000)]),
    ];
    let mut rows = Vec::new();
    for (threads, queues) in processes {
        let got = shares_of_time(threads, &queues, Duration::from_micros(sizes.shared_for));
        let weights: u32 = queues.iter().map(|queue| queue.weight).sum();
        let due: Vec<f64> = queues.iter().map(|queue| f64::from(queue.weight) / f64::from(weights)).collect();
        let percent = |parts: &[f64]| -> String {
            parts.iter().map(|part| format!("{:.1} %", part * 100.0)).collect::<Vec<_>>().join(", ")
        };
        let list = |text: fn(&Share) -> String| queues.iter().map(text).collect::<Vec<_>>().join(", ");
        rows.push(vec![
            threads.to_string(),
            list(|queue| queue.weight.to_string()),
            list(|queue| format!("{} ms", number(queue.job.as_millis() as f64))),
            percent(&due),
            percent(&got),
        ]);
        let apart = got.iter().zip(&due).map(|(got, due)| (got - due).abs()).fold(0.0, f64::max);
        report.claim(
            &format!("{threads} threads: each queue gets its part of the time, to two hundredths"),
            apart <= 0.02,
        );
    }
    report.table("queues of one process", &["threads", "weights", "run times", "due share", "actual share"], &rows);
}
