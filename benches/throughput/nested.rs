//! Jobs that are parallel inside. While there is nothing else to do, every core works for one; beside others, a job that
//! needs four threads starts when as many are free, and cores are lost meanwhile.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use readpast::config::WorkerConfig;
use readpast::{Handlers, Needs, NewJob, Worker};

use super::bench::{Bench, payload};
use super::report::{Report, Target};
use super::work::Work;
use super::{Sizes, cores, usage};

const PIECES: u32 = 200;

pub async fn measure(report: &mut Report, sizes: &Sizes) {
    let bench = Bench::start().await;
    let queue = bench.new_queue("nested").await;
    let work = Work::lasting(Duration::from_millis(2));
    let (mut threads_used, mut shares) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let bare = super::share::bare_rayon(work, PIECES.into());
        let (ended, mut results) = tokio::sync::mpsc::unbounded_channel();
        let handlers = Handlers::any(move |_job, _context| {
            let threads = Arc::new(Mutex::new(HashSet::new()));
            let started_at = Instant::now();
            (0..PIECES).into_par_iter().with_max_len(1).for_each(|_| {
                work.run();
                threads.lock().expect("no piece panics").insert(rayon::current_thread_index());
            });
            let used = threads.lock().expect("no piece panics").len();
            let _ = ended.send((used, started_at.elapsed()));
            Ok(())
        });
        let worker = Worker::builder(&queue, handlers).start().await.expect("the worker starts");
        queue.enqueue(&NewJob::bytes(payload())).await.expect("a job is enqueued");
        let (used, wall) = results.recv().await.expect("the job ends");
        worker.shutdown().await.expect("the worker ends");
        threads_used.push(used as f64 / cores() as f64);
        shares.push(bare.wall.as_secs_f64() / wall.as_secs_f64());
    }
    report.add(
        "one job with par_iter: share of the cores that took part",
        "",
        Some(Target::AtLeast(1.0)),
        threads_used,
    );
    report.add("one job with par_iter: share of bare rayon's speed", "", Some(Target::AtLeast(0.9)), shares);
    let (mut shares, mut loads) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let (share, load) = of_four_threads(&bench, work).await;
        shares.push(share);
        loads.push(load);
    }
    let measure = "jobs of four threads beside single ones: share of bare rayon's speed";
    report.add(measure, "", Some(Target::AtLeast(0.8)), shares);
    report.add("jobs of four threads beside single ones: load of the cores", "", None, loads);
    bench.uninstall().await;
}

/// Jobs that need all four threads of a worker, and have forty pieces, one for each four that run ten pieces one after the
/// other. Returns the share of bare rayon's speed, which knows no jobs, and the load of the cores.
async fn of_four_threads(bench: &Bench, work: Work) -> (f64, f64) {
    const JOBS: u32 = 100;
    let queue = bench.new_queue("four_threads").await;
    let bare = super::share::bare_rayon(work, u64::from(JOBS / 5 * 40 + JOBS / 5 * 4 * 10));
    let jobs: Vec<NewJob> = (0..JOBS)
        .map(|n| match n % 5 {
            0 => NewJob::bytes(payload()).kind("wide").needs(Needs::new().threads(4)),
            _ => NewJob::bytes(payload()).kind("single"),
        })
        .collect();
    queue.enqueue_many(&jobs).await.expect("jobs are enqueued");
    let handlers = Handlers::new()
        .kind("wide", move |_job, _context| {
            (0..40).into_par_iter().with_max_len(1).for_each(|_| work.run());
            Ok(())
        })
        .kind("single", move |_job, _context| {
            (0..10).for_each(|_| work.run());
            Ok(())
        });
    let mut config = WorkerConfig::default();
    config.threads = 4;
    let (began, cpu_before) = (Instant::now(), usage::cpu());
    let worker = Worker::builder(&queue, handlers).config(&config).start().await.expect("the worker starts");
    let monitor = worker.monitor();
    while monitor.stats().done < u64::from(JOBS) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (wall, cpu) = (began.elapsed().as_secs_f64(), (usage::cpu() - cpu_before).as_secs_f64());
    worker.shutdown().await.expect("the worker ends");
    (bare.wall.as_secs_f64() / wall, cpu / (wall * cores() as f64))
}
