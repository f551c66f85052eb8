//! Enqueueing by table-valued parameter, against one insert per call; both by the library, one producer.

use super::Sizes;
use super::bench::{Bench, Run, fill, payload};
use super::report::{Report, Target};

use readpast::NewJob;

pub async fn measure(report: &mut Report, sizes: &Sizes) {
    let mut bench = Bench::start().await;
    bench.new_queue("enqueue").await;
    both_ways(&mut bench, report, sizes, "").await;
    if bench.go_far() {
        both_ways(&mut bench, report, sizes, ", server 0.5 ms away").await;
    }
    bench.uninstall().await;
}

async fn both_ways(bench: &mut Bench, report: &mut Report, sizes: &Sizes, distance: &str) {
    let queue = bench.queue("enqueue").await;
    let (mut batches, mut singles) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        batches.push(bench.run(sizes.enqueued, fill(&queue, sizes.enqueued)).await);
        let one_by_one = async {
            for _ in 0..sizes.enqueued_singly {
                queue.enqueue(&NewJob::bytes(payload())).await.expect("a job is enqueued");
            }
        };
        singles.push(bench.run(sizes.enqueued_singly, one_by_one).await);
    }
    let rates = |runs: &[Run]| runs.iter().map(Run::rate).collect::<Vec<f64>>();
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
