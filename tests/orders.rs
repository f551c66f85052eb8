//! In which order jobs are claimed: fifo, lifo or any, within a priority.

use std::time::Duration;

use readpast::admin::{ClaimOrder, QueueOptions};
use readpast::{Handlers, NewJob, Worker};

use crate::support::{Fixture, WorkerSession};

fn numbers(count: u32) -> Vec<NewJob> {
    (0..count).map(|number| NewJob::text(number.to_string())).collect()
}

fn ordered(order: ClaimOrder) -> QueueOptions {
    QueueOptions::default().claim_order(order)
}

/// Claims one job after the other until none is left; returns their payloads.
async fn claimed_one_by_one(fixture: &Fixture) -> Vec<String> {
    let mut worker = WorkerSession::register(fixture).await;
    let mut payloads = Vec::new();
    while let Some(job) = worker.claim(1).await.pop() {
        payloads.push(String::from_utf8(job.payload).unwrap());
    }
    payloads
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_claim_takes_the_first_of_the_order() {
    let fixture = Fixture::with("first_of_fifo", ordered(ClaimOrder::Fifo)).await;
    let enqueued = fixture.queue.enqueue_many(&numbers(10)).await.unwrap();
    let claimed = WorkerSession::register(&fixture).await.claim(4).await;
    let claimed_ids: Vec<i64> = claimed.iter().map(|job| job.job_id).collect();
    let first_ids: Vec<i64> = enqueued[..4].iter().map(|job| job.job_id.0).collect();
    assert_eq!(claimed_ids, first_ids);
    fixture.remove().await;

    let fixture = Fixture::with("first_of_lifo", ordered(ClaimOrder::Lifo)).await;
    let enqueued = fixture.queue.enqueue_many(&numbers(10)).await.unwrap();
    let claimed = WorkerSession::register(&fixture).await.claim(4).await;
    let claimed_ids: Vec<i64> = claimed.iter().map(|job| job.job_id).collect();
    let last_ids: Vec<i64> = enqueued[6..].iter().map(|job| job.job_id.0).collect();
    assert_eq!(claimed_ids, last_ids);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn smaller_priorities_go_first_and_the_order_counts_within_one() {
    for (order, expected) in [
        (ClaimOrder::Fifo, ["urgent", "soon 1", "soon 2", "normal", "at last"]),
        (ClaimOrder::Lifo, ["urgent", "soon 2", "soon 1", "normal", "at last"]),
    ] {
        let fixture = Fixture::with("priorities", ordered(order)).await;
        let jobs = [
            NewJob::text("at last").priority(i16::MAX),
            NewJob::text("normal"),
            NewJob::text("soon 1").priority(-1),
            NewJob::text("soon 2").priority(-1),
            NewJob::text("urgent").priority(i16::MIN),
        ];
        fixture.queue.enqueue_many(&jobs).await.unwrap();
        assert_eq!(claimed_one_by_one(&fixture).await, expected);
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn enqueue_many_keeps_the_order_of_its_jobs() {
    // More than one round trip.
    const JOBS: u32 = 2_500;
    let fixture = Fixture::new("batch_order").await;
    let enqueued = fixture.queue.enqueue_many(&numbers(JOBS)).await.unwrap();
    assert!(enqueued.is_sorted_by(|a, b| a.job_id < b.job_id), "ids ascend in the caller's order");

    let mut worker = WorkerSession::register(&fixture).await;
    let mut claimed = Vec::new();
    while claimed.len() < JOBS as usize {
        let batch = worker.claim(1_000).await;
        assert!(!batch.is_empty(), "{} of {JOBS} jobs were there", claimed.len());
        claimed.extend(batch);
    }
    for (position, (job, reported)) in claimed.iter().zip(&enqueued).enumerate() {
        assert_eq!(job.job_id, reported.job_id.0);
        assert_eq!(job.payload, position.to_string().as_bytes());
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_comes_back_stands_where_it_stood() {
    let fixture = Fixture::with("comes_back", ordered(ClaimOrder::Fifo)).await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let first = worker.claim_one().await;
    worker.finish(&[first.retry(0, "once more")]).await;
    let first = worker.claim_one().await;
    worker.finish(&[first.snooze(0, "not yet")]).await;
    assert_eq!(claimed_one_by_one(&fixture).await, ["0", "1", "2"]);
    fixture.remove().await;
}

/// A lifo queue's gaps have jobs below them, which the mark of another order would pass over.
#[tokio::test(flavor = "multi_thread")]
async fn the_order_can_change_while_jobs_are_ready() {
    let fixture = Fixture::with("changes", ordered(ClaimOrder::Fifo)).await;
    let admin = fixture.queue.admin();
    fixture.queue.enqueue_many(&numbers(300)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let mut next = async |order: ClaimOrder| {
        admin.create(QueueOptions::default().claim_order(order)).await.unwrap();
        let jobs = worker.claim(100).await;
        let payloads = jobs.iter().map(|job| String::from_utf8(job.payload.clone()).unwrap().parse().unwrap());
        let mut payloads: Vec<u32> = payloads.collect();
        payloads.sort();
        payloads
    };
    assert_eq!(next(ClaimOrder::Fifo).await, Vec::from_iter(0..100));
    assert_eq!(next(ClaimOrder::Lifo).await, Vec::from_iter(200..300));
    fixture.sql("EXEC [$(schema)].[promote] @queue = N'work'").await; // raises the mark to the newest job
    fixture.queue.enqueue_many(&numbers(40)).await.unwrap();
    assert_eq!(next(ClaimOrder::Any).await, Vec::from_iter(100..200));
    assert_eq!(next(ClaimOrder::Lifo).await, Vec::from_iter(0..40));
    fixture.remove().await;
}

/// Running workers, too: a batch is run in the order in which it was claimed.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_follows_a_change_of_the_order() {
    let fixture = Fixture::with("follows", ordered(ClaimOrder::Fifo)).await;
    let queue = &fixture.queue;
    let (sender, runs) = std::sync::mpsc::channel();
    let handlers = Handlers::any(move |job, _| {
        sender.send(job.text()?.into_owned())?;
        Ok(())
    });
    let worker = Worker::builder(queue, handlers).threads(1).start().await.unwrap();
    for (order, expected) in [(ClaimOrder::Lifo, [3, 2, 1, 0]), (ClaimOrder::Fifo, [0, 1, 2, 3])] {
        queue.admin().pause().await.unwrap();
        queue.admin().create(ordered(order)).await.unwrap();
        queue.enqueue_many(&numbers(4)).await.unwrap();
        queue.admin().resume().await.unwrap();
        for number in expected {
            let payload = runs.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!(payload, number.to_string(), "{order:?}");
        }
    }
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}
