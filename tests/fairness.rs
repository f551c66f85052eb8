//! Workers of different speed on one queue: none hoards jobs that another could run.
//!
//! Slow handlers wait for a permit, so that what is slow and for how long is decided by the test and not by a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use readpast::{Handlers, Worker};
use tokio::sync::Semaphore;

use crate::support::{Fixture, changed, numbers, until};

/// Starts a worker of one thread whose jobs wait for a permit each, but for the first `free`.
async fn start(fixture: &Fixture, gate: &Arc<Semaphore>, free: u32) -> Worker {
    let config = changed(fixture.config.worker.clone(), |worker| worker.threads = 1);
    let (gate, runtime, started) = (gate.clone(), tokio::runtime::Handle::current(), AtomicU32::new(0));
    let handlers = Handlers::any(move |_, _| {
        if started.fetch_add(1, Ordering::Relaxed) >= free {
            runtime.block_on(gate.acquire()).unwrap().forget();
        }
        Ok(())
    });
    Worker::builder(&fixture.connect().await, handlers).config(&config).start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_are_in_a_long_job_leave_the_rest_to_the_third() {
    let fixture = Fixture::new("long_jobs").await;
    fixture.queue.enqueue_many(&numbers(30)).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let slow = start(&fixture, &gate, 0).await;
    let slower = start(&fixture, &gate, 0).await;
    let (in_slow, in_slower) = (slow.monitor(), slower.monitor());
    until("each slow worker runs a job", || in_slow.stats().running == 1 && in_slower.stats().running == 1).await;

    let fast = start(&fixture, &gate, u32::MAX).await;
    let in_fast = fast.monitor();
    until("the fast worker has done all that nobody runs", || in_fast.stats().done == 28).await;
    assert_eq!((in_slow.stats().buffered, in_slower.stats().buffered), (0, 0));

    gate.add_permits(2);
    for worker in [slow, slower, fast] {
        worker.shutdown().await.unwrap();
    }
    assert_eq!(fixture.job_counts().await.ready, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_claimed_ahead_of_tiny_jobs_is_given_back_when_a_long_one_comes() {
    let fixture = Fixture::new("tiny_then_long").await;
    fixture.queue.enqueue_many(&numbers(2_000)).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let tiny_first = start(&fixture, &gate, 299).await;
    let in_first = tiny_first.monitor();
    // It has learnt that its jobs take no time, and claims full batches ahead; its 300th job is long.
    until("it is in its first long job, with a batch ahead", || {
        in_first.stats().done == 299 && in_first.stats().buffered >= 500
    })
    .await;

    let other = start(&fixture, &gate, u32::MAX).await;
    let in_other = other.monitor();
    until("the other worker has done all but the long one", || in_other.stats().done == 2_000 - 299 - 1).await;
    assert_eq!(in_first.stats().buffered, 0);
    assert!(in_first.stats().released >= 500);

    gate.add_permits(2);
    assert_eq!(tiny_first.drain().await.unwrap().stats.lost, 0);
    other.shutdown().await.unwrap();
    assert_eq!(fixture.job_counts().await, Default::default());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_claimed_ahead_is_given_back_although_the_queue_is_empty() {
    let fixture = Fixture::new("all_in_hand").await;
    fixture.queue.enqueue_many(&numbers(600)).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let holder = start(&fixture, &gate, 299).await;
    let in_holder = holder.monitor();
    until("it is in its first long job and holds all the others", || {
        in_holder.stats().done == 299 && in_holder.stats().running == 1 && in_holder.stats().buffered == 300
    })
    .await;

    let other = start(&fixture, &gate, u32::MAX).await;
    let in_other = other.monitor();
    until("the other worker has done all but the long one", || in_other.stats().done == 600 - 299 - 1).await;
    assert_eq!(in_holder.stats().buffered, 0);

    gate.add_permits(2);
    assert_eq!(holder.drain().await.unwrap().stats.lost, 0);
    other.shutdown().await.unwrap();
    assert_eq!(fixture.job_counts().await, Default::default());
    fixture.remove().await;
}
