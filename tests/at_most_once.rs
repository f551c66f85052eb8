//! Queues that deliver at most once: the claim deletes the row, so that there is nothing to finish and nothing to give
//! back.

use std::sync::atomic::Ordering;

use readpast::{Delivery, Handlers, JobError, QueueOptions, Worker};

use crate::support::blocked::{BlockedWorker, blocked_worker};
use crate::support::{Fixture, numbers};

async fn fixture(name: &str) -> Fixture {
    let options = QueueOptions::default().delivery(Delivery::AtMostOnce);
    Fixture::with(name, options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_run_counts_as_done_and_a_failure_as_dead() {
    let fixture = fixture("once").await;
    fixture.queue.enqueue_many(&numbers(10)).await.unwrap();
    let worker = Worker::builder(
        &fixture.queue,
        Handlers::any(|job, _| match job.json::<u32>()? {
            3 => Err(JobError::retry("there is no second time").into()),
            _ => Ok(()),
        }),
    )
    .start()
    .await
    .unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead, stats.retried, stats.lost), (9, 1, 0, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_runs_what_it_holds_because_it_cannot_give_it_back() {
    let fixture = fixture("once_shutdown").await;
    let config = fixture.config.worker.clone();
    let BlockedWorker { worker, gate, starts } = blocked_worker(&fixture, &fixture.queue, config).await;
    let ending = tokio::spawn(worker.shutdown());
    gate.add_permits(10);
    let stats = ending.await.unwrap().unwrap().stats;
    assert_eq!((stats.done, stats.released, starts.load(Ordering::Relaxed)), (10, 0, 10));
    fixture.remove().await;
}
