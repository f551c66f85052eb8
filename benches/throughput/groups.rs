//! Jobs of groups against plain jobs: what their order costs, and their shares in a fair queue. Jobs do nothing, so that
//! this shows the queue's own limit, except where it is told how long they wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use readpast::admin::QueueOptions;
use readpast::config::WorkerConfig;
use readpast::{Handlers, NewJob, Queue, Worker};

use super::Sizes;
use super::bench::{Bench, fill, fill_groups};
use super::report::{Report, Target};
use super::work::Work;

/// The jobs are enqueued key by key in turn, so that each key comes again after all others.
struct Shape {
    name: &'static str,
    jobs: u64,
    keys: u64,
    is_fair: bool,
    /// The least share of the rate of plain jobs.
    least: f64,
}

pub async fn measure(report: &mut Report, sizes: &Sizes) {
    let mut bench = Bench::start().await;
    let config = WorkerConfig::default();
    let backlog = sizes.backlog;
    let shapes = [
        Shape { name: "one key", jobs: backlog / 4, keys: 1, is_fair: false, least: 0.2 },
        Shape { name: "1,000 keys", jobs: backlog, keys: 1_000, is_fair: false, least: 0.6 },
        Shape { name: "keys of ten jobs", jobs: backlog, keys: backlog / 10, is_fair: false, least: 0.4 },
        Shape { name: "one key in a fair queue", jobs: backlog, keys: 1, is_fair: true, least: 0.5 },
        Shape { name: "1,000 keys in a fair queue", jobs: backlog, keys: 1_000, is_fair: true, least: 0.5 },
    ];
    let (mut plain, mut shares, mut rates, mut costs) =
        (Vec::new(), vec![Vec::new(); shapes.len()], vec![Vec::new(); shapes.len()], vec![Vec::new(); shapes.len()]);
    for _ in 0..sizes.rounds {
        let queue = bench.new_queue("plain").await;
        fill(&queue, backlog).await;
        let run = bench.run_worker(&queue, &config, Work::NONE, sizes.no_op_jobs).await;
        let rate = run.rate();
        let cost = run.client_us_per_job() + run.server_us_per_job();
        queue.admin().delete(true).await.expect("the queue is deleted");
        plain.push(rate);
        for (place, shape) in shapes.iter().enumerate() {
            let queue = groups(&bench, shape.is_fair).await;
            fill_groups(&queue, shape.jobs, shape.keys).await;
            let jobs = shape.jobs * sizes.no_op_jobs / backlog;
            let run = bench.run_worker(&queue, &config, Work::NONE, jobs).await;
            queue.admin().delete(true).await.expect("the queue is deleted");
            rates[place].push(run.rate());
            shares[place].push(run.rate() / rate);
            costs[place].push(cost / (run.client_us_per_job() + run.server_us_per_job()));
        }
    }
    report.add("no-op jobs without groups", "jobs/s", None, plain);
    for (((shape, rates), shares), costs) in shapes.iter().zip(rates).zip(shares).zip(costs) {
        report.add(&format!("no-op jobs of {}", shape.name), "jobs/s", None, rates);
        let measure = format!("no-op jobs of {} / without groups", shape.name);
        report.add(&measure, "times", Some(Target::AtLeast(shape.least)), shares);
        // On a busy machine, this tells more than the rates.
        report.add(&format!("CPU of a job without groups / of {}", shape.name), "times", None, costs);
    }
    let late = behind_a_flood(&bench, backlog).await;
    let measure = format!("100 jobs behind {backlog} of another group: time / time with half of the threads alone");
    report.add(&measure, "times", Some(Target::AtMost(2.0)), vec![late]);
    let off = off_their_weights(&bench, sizes.shared).await;
    let measure = "1,000 groups with weights of 1 to 10: largest difference from a group's share";
    report.add(measure, "%", Some(Target::AtMost(5.0)), vec![100.0 * off]);
    bench.uninstall().await;
}

async fn groups(bench: &Bench, is_fair: bool) -> Queue {
    let queue = bench.new_queue("groups").await;
    queue.admin().create(QueueOptions::default().fair(is_fair)).await.expect("the queue is changed");
    queue
}

/// How long 100 jobs take that come when a worker is busy with another group's, as a multiple of what half of its threads
/// would need for them alone. The jobs sleep.
async fn behind_a_flood(bench: &Bench, flood: u64) -> f64 {
    const THREADS: usize = 8;
    const JOB: Duration = Duration::from_millis(20);
    let queue = groups(bench, true).await;
    fill_groups(&queue, flood, 1).await;
    let mut config = WorkerConfig::default();
    config.threads = THREADS;
    let ended = Arc::new(tokio::sync::Notify::new());
    let (left, notify) = (AtomicU64::new(100), ended.clone());
    let handlers = Handlers::any(move |job, _context| {
        std::thread::sleep(JOB);
        if job.group_key() == Some("few") && left.fetch_sub(1, Ordering::Relaxed) == 1 {
            notify.notify_one();
        }
        Ok(())
    });
    let worker = Worker::builder(&queue, handlers).config(&config).start().await.expect("the worker starts");
    let monitor = worker.monitor();
    while monitor.stats().done < 100 {
        tokio::time::sleep(JOB).await;
    }
    let jobs: Vec<NewJob> = (0..100).map(|_| NewJob::bytes("x").group_key("few")).collect();
    let began = Instant::now();
    queue.enqueue_many(&jobs).await.expect("jobs are enqueued");
    ended.notified().await;
    let took = began.elapsed();
    worker.shutdown().await.expect("the worker ends");
    queue.admin().delete(true).await.expect("the queue is deleted");
    took.as_secs_f64() / (JOB.as_secs_f64() * 100.0 / (THREADS as f64 / 2.0))
}

/// The largest relative difference between the jobs of a group done in this time and its share. The jobs sleep.
async fn off_their_weights(bench: &Bench, time: Duration) -> f64 {
    const GROUPS: u64 = 1_000;
    const THREADS: usize = 8;
    const JOB: Duration = Duration::from_millis(2);
    let weight = |group: u64| group % 10 + 1;
    let queue = groups(bench, true).await;
    for group in 0..GROUPS {
        queue.admin().set_group_weight(&group.to_string(), weight(group) as u32).await.expect("the weight is set");
    }
    // Of each group as many as the heaviest ones can get.
    let weights: u64 = (0..GROUPS).map(weight).sum();
    let most = (time.as_millis() / JOB.as_millis()) as u64 * THREADS as u64;
    fill_groups(&queue, (10 * most).div_ceil(weights) * GROUPS, GROUPS).await;
    let done = Arc::new(Mutex::new(HashMap::<u64, u64>::new()));
    let counted = done.clone();
    let mut config = WorkerConfig::default();
    config.threads = THREADS;
    let handlers = Handlers::any(move |job, _context| {
        std::thread::sleep(JOB);
        let group = job.group_key().and_then(|key| key.parse().ok());
        *counted.lock().expect("no job panics").entry(group.expect("each has a group")).or_default() += 1;
        Ok(())
    });
    let worker = Worker::builder(&queue, handlers).config(&config).start().await.expect("the worker starts");
    tokio::time::sleep(time).await;
    let counts = done.lock().expect("no job panics").clone();
    worker.shutdown().await.expect("the worker ends");
    queue.admin().delete(true).await.expect("the queue is deleted");
    let all: u64 = counts.values().sum();
    let share = |group| all as f64 * weight(group) as f64 / weights as f64;
    let had = |group| counts.get(&group).copied().unwrap_or_default() as f64;
    (0..GROUPS).map(|group| (had(group) / share(group) - 1.0).abs()).fold(0.0, f64::max)
}
