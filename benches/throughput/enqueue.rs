//! Enqueueing by table-valued parameter, against one insert per call; both by the library, one producer.

use super::Sizes;
use super::bench::{Bench, Run, fill, payload};
use super::report::{Report, Target};

use readpast::NewJob;

pub async fn measure(report: &mut Report, sizes: &Sizes) {
    let mut bench = Bench::start().await;
    let queue = bench.new_queue("enqueue").await;
    let (mut batches, mut singles) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        batches.push(bench.run(sizes.enqueued, fill(&queue, sizes.enqueued)).await);
        let one_by_one = async {
            for _ in 0..sizes.enqueued_singly {
                queue.enqueue(NewJob::bytes(payload())).await.expect("a job is enqueued");
            }
        };
        singles.push(bench.run(sizes.enqueued_singly, one_by_one).await);
    }
    let ratio = batches.iter().zip(&singles).map(|(batch, single)| batch.rate() / single.rate()).collect();
    report.add("enqueue by table-valued parameter", "jobs/s", None, batches.iter().map(Run::rate).collect());
    report.add("enqueue, one insert a call", "jobs/s", None, singles.iter().map(Run::rate).collect());
    let target = Some(Target::AtLeast(30.0));
    report.add("enqueue by table-valued parameter / one insert a call", "times", target, ratio);
    let client = batches.iter().map(Run::client_us_per_job).collect();
    report.add("client CPU of a job enqueued by table-valued parameter", "us", None, client);
    bench.uninstall().await;
}
