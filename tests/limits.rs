//! What limits a worker is named: each of the five (the fifth, the queue's own limits, in tests/queue_limits.rs) is
//! made to happen and seen in `Worker::stats()`, from which the metric comes too.

use std::sync::Arc;

use readpast::{Bottleneck, Handlers, Worker, WorkerMonitor};
use tokio::sync::Semaphore;

use crate::support::blocked::blocked_worker;
use crate::support::{Fixture, changed, numbers, until};

async fn limited_by(monitor: &WorkerMonitor, limit: Bottleneck) {
    until(&format!("the limit is {limit:?}"), || monitor.stats().limited_by == limit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_with_jobs_are_busy_and_idle_when_the_queue_is_empty() {
    let fixture = Fixture::new("busy").await;
    let blocked = blocked_worker(&fixture, &fixture.queue, fixture.config.worker.clone()).await;
    limited_by(&blocked.worker.monitor(), Bottleneck::Busy).await;
    blocked.gate.add_permits(10);
    limited_by(&blocked.worker.monitor(), Bottleneck::Idle).await;
    blocked.worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_are_not_answered_bind_the_worker() {
    let fixture = Fixture::new("claim").await;
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let monitor = worker.monitor();
    limited_by(&monitor, Bottleneck::Idle).await;
    // Every claim reads the worker's row first, and there is something to claim.
    let mut other = fixture.session().await;
    other.sql("BEGIN TRANSACTION").await;
    other.sql("UPDATE [$(schema)].[workers] SET name = name").await;
    fixture.queue.enqueue_many(&numbers(1)).await.unwrap();
    limited_by(&monitor, Bottleneck::Claim).await;
    other.sql("ROLLBACK TRANSACTION").await;
    limited_by(&monitor, Bottleneck::Idle).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledgements_that_are_not_answered_bind_the_worker() {
    let fixture = Fixture::new("finish").await;
    fixture.queue.enqueue_many(&numbers(100)).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let runtime = tokio::runtime::Handle::current();
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.threads = 2;
        worker.buffer = 20;
        worker.batch_size = 20;
        worker.finish_batch_size = 20;
        worker.max_in_flight = 20;
    });
    let handlers = Handlers::any(move |_, _| {
        runtime.block_on(handler_gate.acquire()).unwrap().forget();
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    until("the worker holds all it may", || monitor.stats().running + monitor.stats().buffered == 20).await;
    let mut other = fixture.session().await;
    other.sql("BEGIN TRANSACTION").await;
    other.sql("UPDATE [$(schema)].[jobs] SET due_at = due_at WHERE state = 2").await;

    gate.add_permits(1_000);
    limited_by(&monitor, Bottleneck::Finish).await;
    assert_eq!(monitor.stats().awaiting_finish, 20);

    other.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(worker.drain().await.unwrap().stats.done, 100);
    fixture.remove().await;
}
