//! Enqueueing by table-valued parameter, against one insert per call by one producer and by many tasks at the same time.

use super::Sizes;
use super::bench::{Bench, Run, fill, payload};
use super::report::{Report, Target};

use readpast::{NewJob, Queue};

/// The tasks of a web server under load, and of one that is overloaded.
const TASKS: [u64; 2] = [64, 512];

pub async fn measure(report: &mut Report, sizes: &Sizes) {
    let mut bench = Bench::start().await;
    both_ways(&mut bench, report, sizes, "").await;
    if bench.go_far() {
        both_ways(&mut bench, report, sizes, ", server 0.5 ms away").await;
    }
    bench.uninstall().await;
}

async fn both_ways(bench: &mut Bench, report: &mut Report, sizes: &Sizes, distance: &str) {
    let (mut batches, mut singles, mut together) = (Vec::new(), Vec::new(), TASKS.map(|_| Vec::new()));
    for _ in 0..sizes.rounds {
        let one_call = async |queue: Queue| fill(&queue, sizes.enqueued).await;
        batches.push(into_an_empty_table(bench, sizes.enqueued, one_call).await);
        let one_by_one = async |queue: Queue| enqueue_from(&queue, 1, sizes.enqueued_singly).await;
        singles.push(into_an_empty_table(bench, sizes.enqueued_singly, one_by_one).await);
        for (tasks, runs) in TASKS.into_iter().zip(&mut together) {
            let at_once = async |queue: Queue| enqueue_from(&queue, tasks, sizes.enqueued).await;
            runs.push(into_an_empty_table(bench, sizes.enqueued, at_once).await);
        }
    }
    let rates = |runs: &[Run]| runs.iter().map(Run::rate).collect::<Vec<f64>>();
    for (tasks, together) in TASKS.into_iter().zip(&together) {
        let measure = format!("enqueue, one job a call, {tasks} tasks");
        let ratio = together.iter().zip(&batches).map(|(together, batch)| together.rate() / batch.rate()).collect();
        report.add(&format!("{measure}{distance}"), "jobs/s", None, rates(together));
        report.add(&format!("{measure} / by table-valued parameter{distance}"), "", None, ratio);
    }
    let ratio = batches.iter().zip(&singles).map(|(batch, single)| batch.rate() / single.rate()).collect();
    report.add(&format!("enqueue by table-valued parameter{distance}"), "jobs/s", None, rates(&batches));
    report.add(&format!("enqueue, one insert per call{distance}"), "jobs/s", None, rates(&singles));
    let measure = format!("enqueue by table-valued parameter / one insert per call{distance}");
    // Where neither a round trip nor a commit costs anything, a batch cannot save them.
    let target = if distance.is_empty() { None } else { Some(Target::AtLeast(30.0)) };
    report.add(&measure, "times", target, ratio);
    if distance.is_empty() {
        let client = batches.iter().map(Run::client_us_per_job).collect();
        report.add("client CPU of a job enqueued by table-valued parameter", "us", None, client);
    }
}

/// A job costs more the larger its table is, so each run has its own queue.
async fn into_an_empty_table(bench: &mut Bench, jobs: u64, enqueue: impl AsyncFnOnce(Queue)) -> Run {
    let queue = bench.new_queue("enqueue").await;
    let run = bench.run(jobs, enqueue(queue.clone())).await;
    queue.admin().delete(true).await.expect("the queue is deleted");
    run
}

async fn enqueue_from(queue: &Queue, tasks: u64, count: u64) {
    let enqueue = |jobs: u64| {
        let queue = queue.clone();
        tokio::spawn(async move {
            for _ in 0..jobs {
                queue.enqueue(&NewJob::bytes(payload())).await.expect("a job is enqueued");
            }
        })
    };
    for task in (0..tasks).map(|task| enqueue(count / tasks + u64::from(task < count % tasks))).collect::<Vec<_>>() {
        task.await.expect("the task does not panic");
    }
}
