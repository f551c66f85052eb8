//! The books balance: what SQL Server thinks a worker holds is what it holds, and a cut connection loses nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use readpast::admin::{JobChange, JobState};
use readpast::{Handlers, Worker};
use tokio::sync::Semaphore;

use crate::support::blocked::{BlockedWorker, blocked_worker};
use crate::support::proxy::Proxy;
use crate::support::{Fixture, numbers, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_holds_what_the_table_says_and_never_more_than_allowed() {
    let fixture = Fixture::new("in_flight").await;
    fixture.queue.enqueue_many(&numbers(200)).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let runtime = tokio::runtime::Handle::current();
    let mut config = fixture.config.worker.clone();
    config.threads = 8;
    config.buffer = 10;
    config.batch_size = 10;
    config.finish_batch_size = 10;
    config.max_in_flight = 10;
    let handlers = Handlers::any(move |_, _| {
        runtime.block_on(handler_gate.acquire()).unwrap().forget();
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    let held = || {
        let stats = monitor.stats();
        stats.buffered + stats.running + stats.awaiting_finish
    };
    for round in 1..=20 {
        until("eight jobs run", || monitor.stats().running == 8).await;
        let claimed = fixture.queue.admin().stats(None).await.unwrap().claimed;
        assert!(claimed <= 10, "{claimed} jobs are claimed");
        gate.add_permits(5);
        until("five more are acknowledged", || monitor.stats().done == 5 * round).await;
    }
    // At rest: eight run, nothing more is allowed than two that wait, and SQL Server says the same.
    until("the worker is full", || held() == 10 && monitor.stats().running == 8).await;
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().claimed, 10);
    gate.add_permits(Semaphore::MAX_PERMITS >> 1);
    let summary = worker.drain().await.unwrap();
    assert_eq!((summary.stats.done, held()), (200, 0));
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().claimed, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_connections_lose_nothing_and_repeat_only_what_was_in_flight() {
    let mut fixture = Fixture::new("cut").await;
    let proxy = Proxy::start(fixture.url()).await;
    fixture.config.connection.url = proxy.connection_string().into();
    let through_proxy = fixture.connect().await;
    const JOBS: u32 = 3_000;
    fixture.queue.enqueue_many(&numbers(JOBS)).await.unwrap();
    let runs = Arc::new(Mutex::new(HashMap::<u32, u32>::new()));
    let ledger = runs.clone();
    let handlers = Handlers::any(move |job, _| {
        std::thread::sleep(Duration::from_micros(200)); // the work
        *ledger.lock().entry(job.json()?).or_default() += 1;
        Ok(())
    });
    let worker = Worker::builder(&through_proxy, handlers).start().await.unwrap();
    let monitor = worker.monitor();
    for tenth in 1..10 {
        until("some more jobs have run", || runs.lock().len() as u32 >= tenth * JOBS / 10).await;
        proxy.cut();
    }
    let summary = worker.drain().await.unwrap();
    let runs = runs.lock().clone();
    assert_eq!(runs.len() as u32, JOBS, "each ran");
    assert!(runs.values().all(|times| *times == 1), "the lease was never lost, so none ran twice");
    assert_eq!((summary.stats.done, summary.stats.lost), (u64::from(JOBS), 0));
    assert_eq!(monitor.stats().awaiting_finish, 0);
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.ready, stats.claimed, stats.dead), (0, 0, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_claimed_when_the_queue_is_paused_or_purged_ends_as_if_nothing_had_happened() {
    let fixture = Fixture::new("paused_midway").await;
    let BlockedWorker { worker, gate, .. } =
        blocked_worker(&fixture, &fixture.queue, fixture.config.worker.clone()).await;
    fixture.queue.admin().pause().await.unwrap();
    for state in [JobState::Ready, JobState::Scheduled, JobState::Done, JobState::Dead] {
        assert_eq!(fixture.queue.admin().change(&JobChange::Purge, state).await.unwrap().changed, 0);
    }
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 0);
    gate.add_permits(10);
    until("all ten have ended", || worker.stats().done == 10).await;
    assert_eq!(worker.shutdown().await.unwrap().stats.lost, 0);
    fixture.remove().await;
}
