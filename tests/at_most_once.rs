//! Queues that deliver at most once: the claim deletes the row, so that there is nothing to finish and nothing to give back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use readpast::{Delivery, JobError, NewJob, Output, QueueOptions, Worker};
use tokio::sync::Semaphore;

use crate::support::{Fixture, until};

async fn fixture(name: &str) -> Fixture {
    let options = QueueOptions { delivery: Some(Delivery::AtMostOnce), ..QueueOptions::default() };
    let fixture = Fixture::with(name, options).await;
    let jobs: Vec<NewJob> = (0..10).map(|n| NewJob::json(&n).unwrap()).collect();
    fixture.queue.enqueue_many(jobs).await.unwrap();
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_run_counts_as_done_and_a_failure_as_dead() {
    let fixture = fixture("once").await;
    let worker = Worker::start(&fixture.queue, &fixture.config.worker, |job, _| match job.json::<u32>()? {
        3 => Err(JobError::retry("there is no second time")),
        _ => Ok(Output::none()),
    })
    .await
    .unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead, stats.retried, stats.lost), (9, 1, 0, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_runs_what_it_holds_because_it_cannot_give_it_back() {
    let fixture = fixture("once_shutdown").await;
    let gate = Arc::new(Semaphore::new(0));
    let runs = Arc::new(AtomicU32::new(0));
    let (handler_gate, counted) = (gate.clone(), runs.clone());
    let runtime = tokio::runtime::Handle::current();
    let mut config = fixture.config.worker.clone();
    config.threads = 1;
    config.buffer = 20;
    let worker = Worker::start(&fixture.queue, &config, move |_, _| {
        runtime.block_on(handler_gate.acquire()).unwrap().forget();
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(Output::none())
    })
    .await
    .unwrap();
    let monitor = worker.monitor();
    until("one job runs and nine wait", || monitor.stats().running == 1 && monitor.stats().buffered == 9).await;
    let ending = tokio::spawn(worker.shutdown());
    gate.add_permits(10);
    let stats = ending.await.unwrap().unwrap().stats;
    assert_eq!((stats.done, stats.released, runs.load(Ordering::Relaxed)), (10, 0, 10));
    fixture.remove().await;
}
