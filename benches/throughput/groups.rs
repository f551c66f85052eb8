//! Jobs of groups against plain jobs: what their order costs. All jobs do nothing, so this shows the queue's own limit.

use readpast::config::WorkerConfig;

use super::Sizes;
use super::bench::{Bench, fill, fill_groups};
use super::report::{Report, Target};
use super::work::Work;

/// The jobs are enqueued key by key in turn, so that each key comes again after all others.
struct Shape {
    name: &'static str,
    jobs: u64,
    keys: u64,
    /// The least share of the rate of plain jobs.
    least: f64,
}

pub async fn measure(report: &mut Report, sizes: &Sizes) {
    let mut bench = Bench::start().await;
    let config = WorkerConfig::default();
    let backlog = sizes.backlog;
    let shapes = [
        Shape { name: "one key", jobs: backlog / 4, keys: 1, least: 0.2 },
        Shape { name: "1,000 keys", jobs: backlog, keys: 1_000, least: 0.6 },
        Shape { name: "keys of ten jobs", jobs: backlog, keys: backlog / 10, least: 0.4 },
    ];
    let (mut plain, mut shares, mut rates, mut costs) =
        (Vec::new(), vec![Vec::new(); 3], vec![Vec::new(); 3], vec![Vec::new(); 3]);
    for _ in 0..sizes.rounds {
        let queue = bench.new_queue("plain").await;
        fill(&queue, backlog).await;
        let run = bench.run_worker(&queue, &config, Work::NONE, sizes.no_op_jobs).await;
        let rate = run.rate();
        let cost = run.client_us_per_job() + run.server_us_per_job();
        queue.admin().delete(true).await.expect("the queue is deleted");
        plain.push(rate);
        for (place, shape) in shapes.iter().enumerate() {
            let queue = bench.new_queue("groups").await;
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
    bench.uninstall().await;
}
