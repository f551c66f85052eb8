//! The lease: renewed whatever the cores do, and without it nothing new is started.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use readpast::{Output, QueueOptions, Worker, WorkerConfig};

use crate::support::blocked::{BlockedWorker, blocked_worker};
use crate::support::counted::drained;
use crate::support::proxy::Proxy;
use crate::support::{Fixture, dev_server, server_url, until};

fn short_lease() -> WorkerConfig {
    WorkerConfig { lease_ms: 1_000, heartbeat_interval_ms: 100, ..WorkerConfig::default() }
}

/// A fixture whose connections time out as a lease that short demands.
async fn impatient(test_name: &str) -> Fixture {
    let mut fixture = Fixture::new(test_name).await;
    fixture.config.connection.connect_timeout_ms = 1_000;
    fixture.config.connection.command_timeout_ms = 1_000;
    fixture.queue = fixture.connect().await;
    fixture
}

/// Waits until a query that counts something gives one; fails the test after half a minute.
async fn until_one(fixture: &Fixture, query: &str) {
    let counted_one = async { while fixture.sql(query).await[0].get::<i32, _>("n") != Some(1) {} };
    tokio::time::timeout(Duration::from_secs(30), counted_one).await.unwrap_or_else(|_| panic!("in vain: {query}"));
}

const LEASE_RAN_OUT: &str =
    "SELECT COUNT(*) AS n FROM [$(schema)].[workers] WHERE lease_until < SYSUTCDATETIME() AND lost_at IS NULL";

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_is_renewed_while_every_thread_is_busy() {
    let fixture = impatient("renewed").await;
    let BlockedWorker { worker, gate, .. } = blocked_worker(&fixture, &fixture.queue, short_lease()).await;
    let renewed =
        "SELECT COUNT(*) AS n FROM [$(schema)].[workers] WHERE lease_until > DATEADD(MILLISECOND, 2000, registered_at)";
    until_one(&fixture, renewed).await;
    gate.add_permits(10);
    drained(worker).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_lease_is_in_doubt_nothing_is_started_and_afterwards_it_goes_on() {
    let mut fixture = impatient("in_doubt").await;
    let proxy = Proxy::start(&server_url().await).await;
    fixture.config.connection.url = proxy.connection_string().into();
    let through_proxy = fixture.connect().await;
    let BlockedWorker { worker, gate, starts } = blocked_worker(&fixture, &through_proxy, short_lease()).await;
    proxy.block();
    until_one(&fixture, LEASE_RAN_OUT).await;
    gate.add_permits(10);
    let monitor = worker.monitor();
    until("the running job has ended", || monitor.stats().awaiting_finish == 1).await;
    assert_eq!((starts.load(Ordering::Relaxed), monitor.stats().buffered), (1, 9));

    // Nobody has reaped: the worker finds its lease still there and everything is run once.
    proxy.unblock();
    let summary = drained(worker).await;
    assert_eq!((summary.stats.done, starts.load(Ordering::Relaxed)), (10, 10));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_lost_lease_are_not_started() {
    let fixture = impatient("not_started").await;
    let BlockedWorker { worker, gate, starts } = blocked_worker(&fixture, &fixture.queue, short_lease()).await;
    fixture.queue.pause().await.unwrap();
    fixture.sql("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()").await;
    let registered = "SELECT COUNT(*) AS n FROM [$(schema)].[workers] WHERE lost_at IS NULL";
    until_one(&fixture, registered).await;
    gate.add_permits(1);
    let monitor = worker.monitor();
    until("the nine are dropped", || monitor.stats().buffered == 0).await;
    assert_eq!(starts.load(Ordering::Relaxed), 1, "only the one that ran already");
    gate.add_permits(10);
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

/// The calls are seen by the dev server.
#[tokio::test(flavor = "multi_thread")]
async fn more_lost_workers_than_one_call_takes_are_reaped_at_once() {
    let fixture = Fixture::on(dev_server().await, "many_lost", QueueOptions::default()).await;
    fixture
        .sql(
            "DECLARE @past datetime2(3) = DATEADD(HOUR, -1, SYSUTCDATETIME()); \
             WITH ten AS (SELECT n FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS v (n)) \
             INSERT [$(schema)].[workers] (worker_id, queue_id, name, lease_ms, registered_at, lease_until) \
             SELECT TOP (2500) NEWID(), q.queue_id, N'gone', 1000, @past, @past \
             FROM [$(schema)].[queues] AS q CROSS JOIN ten AS a CROSS JOIN ten AS b CROSS JOIN ten AS c CROSS JOIN ten AS d",
        )
        .await;
    let calls: Arc<Mutex<Vec<&str>>> = Arc::default();
    for procedure in ["promote", "reap"] {
        let calls = calls.clone();
        dev_server().await.faults().on_call(&format!("{}.{procedure}", fixture.schema()), move |_| {
            calls.lock().push(procedure);
            None
        });
    }
    // Between one interval's reaping and the next there is a promotion.
    let config = WorkerConfig { promote_interval_ms: 10, reap_interval_ms: 500, ..WorkerConfig::default() };
    let worker = Worker::start(&fixture.queue, &config, |_, _| Ok(Output::none())).await.unwrap();
    let reaping_has_ended =
        || calls.lock().iter().skip_while(|call| **call == "promote").any(|call| *call == "promote");
    until("it has reaped", reaping_has_ended).await;
    let first = calls.lock().split(|call| *call == "promote").find(|reaps| !reaps.is_empty()).map(<[_]>::len);
    assert_eq!(first, Some(3));
    until_one(
        &fixture,
        "SELECT 1 AS n WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[workers] WHERE name = N'gone' AND lost_at IS NULL)",
    )
    .await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}
