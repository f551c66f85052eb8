//! More of everything, with jobs that do nothing: worker processes, queues, bytes, backlog. What is measured runs on
//! the cores of one machine, so that more workers need not be faster; each line says what kept it from being more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use readpast::config::WorkerConfig;
use readpast::{Handlers, Queue, Worker};

use super::backlog::claim_us;
use super::bench::{Bench, LOOK_INTERVAL, Run, SCHEMA, fill_with, top_up};
use super::report::{Report, Target};
use super::work::Work;
use super::worker_process::WorkerProcess;
use super::{Sizes, cores, usage};

/// Worker processes, each of one thread.
const PROCESSES: [usize; 4] = [1, 2, 4, 8];

/// Queues of one process, whose workers share the threads of one pool.
const QUEUES: [usize; 3] = [1, 10, 100];

/// Payloads in bytes, and by how much fewer jobs of them are worked off.
const PAYLOADS: [(&str, usize, u64); 3] = [("200 bytes", 200, 1), ("8 KB", 8_000, 10), ("1 MB", 1_000_000, 200)];

/// From here on the CPU time of client and server together is what bounds.
const FULL: f64 = 0.85;

pub async fn measure(report: &mut Report, sizes: &Sizes) {
    processes(report, sizes).await;
    queues(report, sizes).await;
    backlog(report, sizes).await;
}

async fn processes(report: &mut Report, sizes: &Sizes) {
    let mut bench = Bench::start().await;
    let queue = bench.new_queue("processes").await;
    let mut runs = PROCESSES.map(|_| Vec::new());
    for _ in 0..sizes.rounds {
        for (count, runs) in PROCESSES.iter().zip(&mut runs) {
            top_up(&queue, sizes.scale_jobs).await;
            queue.admin().pause().await.expect("the queue exists");
            let mut workers: Vec<_> = (0..*count).map(|_| WorkerProcess::start(&bench, "processes")).collect();
            // The first answer comes when the worker has started; all begin together.
            workers.iter_mut().for_each(|worker| assert_eq!(worker.done().0, 0));
            queue.admin().resume().await.expect("the queue exists");
            let done = || {
                workers
                    .iter_mut()
                    .map(WorkerProcess::done)
                    .fold((0, Duration::ZERO), |(jobs, cpu), (more, own)| (jobs + more, cpu + own))
            };
            runs.push(most_of(&mut bench, sizes.scale_jobs, done));
        }
    }
    for (count, runs) in PROCESSES.iter().zip(&runs) {
        let name = if *count == 1 { "1 worker process".to_owned() } else { format!("{count} worker processes") };
        report.add_bounded(&format!("no-op jobs, {name} of one thread"), "jobs/s", rates(runs), bound(&bench, runs));
    }
    bench.uninstall().await;
}

async fn queues(report: &mut Report, sizes: &Sizes) {
    let mut bench = Bench::start().await;
    let mut sets: [Vec<Queue>; 3] = Default::default();
    for (count, queues) in QUEUES.iter().zip(&mut sets) {
        for number in 1..=*count {
            queues.push(bench.new_queue(&format!("{number} of {count}")).await);
        }
    }
    let mut runs = QUEUES.map(|_| Vec::new());
    for _ in 0..sizes.rounds {
        for (queues, runs) in sets.iter().zip(&mut runs) {
            runs.push(work_off_all(&mut bench, queues, sizes.scale_jobs).await);
        }
    }
    for (count, runs) in QUEUES.iter().zip(&runs) {
        let name = if *count == 1 { "1 queue".to_owned() } else { format!("{count} queues") };
        report.add_bounded(&format!("no-op jobs, {name} in one process"), "jobs/s", rates(runs), bound(&bench, runs));
    }
    let of_one = runs[2].iter().zip(&runs[0]).map(|(hundred, one)| hundred.rate() / one.rate()).collect();
    report.add("no-op jobs, 100 queues / 1 queue", "times", Some(Target::AtLeast(0.6)), of_one);
    bench.uninstall().await;
}

/// A worker for each queue, over as many threads as there are cores; so many jobs in all.
async fn work_off_all(bench: &mut Bench, queues: &[Queue], jobs: u64) -> Run {
    let each = jobs / queues.len() as u64;
    let threads = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(cores()).build().expect("threads"));
    let mut workers = Vec::new();
    for queue in queues {
        top_up(queue, each).await;
        queue.admin().pause().await.expect("the queue exists");
    }
    for queue in queues {
        let handlers = Handlers::any(|_job, _context| Ok(()));
        let worker = Worker::builder(queue, handlers).thread_pool(threads.clone()).start();
        workers.push(worker.await.expect("the worker starts"));
    }
    // All begin together: the first of a hundred would be empty before the last is resumed by a call of its own.
    bench.client().await.sql(&format!("UPDATE [{SCHEMA}].[queues] SET paused = 0")).await;
    let done = || (workers.iter().map(|worker| worker.stats().done).sum(), usage::cpu());
    let run = most_of(bench, each * queues.len() as u64, done);
    for worker in workers {
        worker.shutdown().await.expect("the worker ends");
    }
    run
}

/// From a tenth of the jobs to nine tenths: before that not all workers have begun, after that not all have jobs.
/// `done` is how many are acknowledged, and the client's CPU time.
fn most_of(bench: &mut Bench, jobs: u64, mut done: impl FnMut() -> (u64, Duration)) -> Run {
    let (first, client_before) = reached(jobs / 10, &mut done);
    let (started_at, server_before) = (Instant::now(), bench.server.cpu());
    let (last, client_after) = reached(jobs * 9 / 10, &mut done);
    let (wall, server_cpu) = (started_at.elapsed(), bench.server.cpu() - server_before);
    let (jobs, client_cpu, work_cpu) = ((last - first) as f64, client_after - client_before, Duration::ZERO);
    Run { jobs, wall, client_cpu, work_cpu, server_cpu, switches: None }
}

fn reached(jobs: u64, done: &mut impl FnMut() -> (u64, Duration)) -> (u64, Duration) {
    loop {
        let now = done();
        if now.0 >= jobs {
            return now;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

pub async fn payloads(report: &mut Report, sizes: &Sizes) {
    for (name, bytes, fewer) in PAYLOADS {
        let mut bench = Bench::start().await;
        let queue = bench.new_queue("payloads").await;
        let jobs = sizes.scale_jobs / fewer;
        let mut runs = Vec::new();
        for _ in 0..sizes.rounds {
            // The first are not measured, and some are claimed when the worker ends.
            let ready = queue.admin().stats(None).await.expect("the queue exists").ready;
            fill_with(&queue, (jobs * 3 / 2).saturating_sub(ready), &vec![0x5A; bytes]).await;
            runs.push(bench.run_worker(&queue, &WorkerConfig::default(), Work::NONE, jobs).await);
        }
        let measure = format!("no-op jobs, payloads of {name}");
        report.add_bounded(&measure, "jobs/s", rates(&runs), bound(&bench, &runs));
        let megabytes = rates(&runs).iter().map(|rate| rate * bytes as f64 / 1e6).collect();
        report.add(&format!("bytes of payloads of {name}"), "MB/s", None, megabytes);
        bench.uninstall().await;
    }
}

async fn backlog(report: &mut Report, sizes: &Sizes) {
    let mut bench = Bench::start().await;
    let queue = bench.new_queue("backlog").await;
    let config = WorkerConfig::default();
    let (usual, largest) = (sizes.scale_jobs, sizes.largest_backlog);
    top_up(&queue, usual).await;
    let usual_claim = claim_us(&bench).await;
    let usual_run = bench.run_worker(&queue, &config, Work::NONE, usual / 2).await;
    top_up(&queue, largest).await;
    let largest_claim = claim_us(&bench).await;
    let largest_run = bench.run_worker(&queue, &config, Work::NONE, usual / 2).await;

    let flat = Some(Target::AtMost(1.2));
    report.add(&format!("claim at {largest} / at {usual}"), "times", flat, vec![largest_claim / usual_claim]);
    let measure = format!("no-op jobs, worker, backlog of {largest}");
    report.add_bounded(&measure, "jobs/s", vec![largest_run.rate()], bound(&bench, &[largest_run]));
    let measure = format!("no-op jobs, worker, backlog of {largest} / of {usual}");
    report.add(&measure, "times", None, vec![largest_run.rate() / usual_run.rate()]);
    bench.uninstall().await;
}

fn rates(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(Run::rate).collect()
}

/// What kept these runs from being faster: whose CPU time, or the waiting for each other's answers.
fn bound(bench: &Bench, runs: &[Run]) -> String {
    let wall: Duration = runs.iter().map(|run| run.wall).sum();
    let of_cores = |cpu: Duration| cpu.as_secs_f64() / wall.as_secs_f64() / cores() as f64;
    let client = of_cores(runs.iter().map(|run| run.client_cpu).sum());
    if !bench.server.is_dev_server() {
        let who = if client >= FULL { "the client's CPU" } else { "the server or latency" };
        return format!("{who} (client {:.0} % of the cores)", client * 100.0);
    }
    let server = of_cores(runs.iter().map(|run| run.server_cpu).sum());
    let who = match client + server {
        both if both < FULL => "latency",
        _ if client > server => "CPU, the client's most",
        _ => "CPU, the server's most",
    };
    format!("{who} (client {:.0} %, server {:.0} % of the cores)", client * 100.0, server * 100.0)
}
