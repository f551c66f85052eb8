//! Eight workers claim and finish at once: every job goes to one of them, and none of them ever sees an error.

use readpast::NewJob;
use readpast::admin::{ClaimOrder, Delivery, QueueOptions};

use crate::support::{Fixture, JobCounts, WorkerSession};

const WORKERS: usize = 8;

/// Lets all workers claim and, unless the claim has deleted the jobs, finish until the queue is empty. Returns the ids
/// that they claimed, in ascending order.
async fn work_off(fixture: &Fixture, batch: i32, finish: bool) -> Vec<i64> {
    let mut tasks = Vec::new();
    for _ in 0..WORKERS {
        let mut worker = WorkerSession::register(fixture).await;
        tasks.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            loop {
                let claimed = worker.claim(batch).await;
                if claimed.is_empty() {
                    return ids;
                }
                if finish {
                    let finished: Vec<_> = claimed.iter().map(|job| job.done()).collect();
                    assert_eq!(worker.finish(&finished).await, []);
                }
                ids.extend(claimed.iter().map(|job| job.job_id));
            }
        }));
    }
    let mut ids = Vec::new();
    for task in tasks {
        ids.extend(task.await.expect("no worker met an error"));
    }
    ids.sort_unstable();
    ids
}

async fn enqueue(fixture: &Fixture, count: u32) -> Vec<i64> {
    let jobs = (0..count).map(|number| NewJob::text(number.to_string()));
    fixture.queue.enqueue_many(&jobs.collect::<Vec<_>>()).await.unwrap().iter().map(|job| job.job_id.0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_20_000_jobs_each_is_claimed_and_finished_once() {
    let fixture = Fixture::new("exactly_once").await;
    let enqueued = enqueue(&fixture, 20_000).await;
    let claimed = work_off(&fixture, 100, true).await;
    assert!(claimed == enqueued, "{} claims of {} jobs", claimed.len(), enqueued.len());
    assert_eq!(fixture.job_counts().await, JobCounts::default());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_every_order_each_job_is_claimed_once() {
    for order in [ClaimOrder::Lifo, ClaimOrder::Any] {
        let fixture = Fixture::with("once_ordered", QueueOptions::default().claim_order(order)).await;
        let enqueued = enqueue(&fixture, 2_000).await;
        let claimed = work_off(&fixture, 7, true).await;
        assert!(claimed == enqueued, "{order:?}: {} claims of {} jobs", claimed.len(), enqueued.len());
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_once_delivers_each_job_once() {
    let options = QueueOptions::default().delivery(Delivery::AtMostOnce);
    let fixture = Fixture::with("once_destructive", options).await;
    let enqueued = enqueue(&fixture, 2_000).await;
    let claimed = work_off(&fixture, 7, false).await;
    assert!(claimed == enqueued, "{} claims of {} jobs", claimed.len(), enqueued.len());
    assert_eq!(fixture.job_counts().await, JobCounts::default());
    fixture.remove().await;
}
