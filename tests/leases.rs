//! The lease: renewed whatever the cores do, and without it nothing new is started.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use readpast::admin::QueueOptions;
use readpast::config::WorkerConfig;
use readpast::{Handlers, Queue, Worker};

use crate::support::blocked::{BlockedWorker, blocked_worker};
use crate::support::counted::drained;
use crate::support::proxy::Proxy;
use crate::support::{Fixture, changed, dev_server, numbers, until};

fn short_lease() -> WorkerConfig {
    changed(WorkerConfig::default(), |worker| {
        worker.lease = Duration::from_secs(1);
        worker.heartbeat_interval = Duration::from_millis(100);
    })
}

/// A fixture whose connections time out as a lease that short demands.
async fn impatient(test_name: &str) -> Fixture {
    let mut fixture = Fixture::new(test_name).await;
    fixture.config.connection.connect_timeout = Duration::from_secs(1);
    fixture.config.connection.command_timeout = Duration::from_secs(1);
    fixture.queue = fixture.connect().await;
    fixture
}

/// Waits until a query that counts something gives one; fails the test after half a minute.
async fn until_one(fixture: &Fixture, query: &str) {
    let mut session = fixture.session().await;
    let counted_one = async { while session.number(query).await != 1 {} };
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
    let proxy = Proxy::start(fixture.url()).await;
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
    fixture.queue.admin().pause().await.unwrap();
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
    let fixture = Fixture::on_dev_server("many_lost", QueueOptions::default()).await;
    fixture
        .sql(
            "DECLARE @past datetime2(3) = DATEADD(HOUR, -1, SYSUTCDATETIME()); \
             WITH ten AS (SELECT n FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS v (n)) \
             INSERT [$(schema)].[workers] (worker_id, queue_id, name, lease_ms, registered_at, lease_until) \
             SELECT TOP (2500) NEWID(), q.queue_id, N'gone', 1000, @past, @past \
             FROM [$(schema)].[queues] AS q CROSS JOIN ten AS a CROSS JOIN ten AS b CROSS JOIN ten AS c CROSS JOIN ten AS d",
        )
        .await;
    // The next interval is an hour away.
    let config = changed(WorkerConfig::default(), |worker| {
        worker.promote_interval = Duration::from_millis(10);
        worker.reap_interval = Duration::from_secs(3_600);
    });
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    until_one(
        &fixture,
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM [$(schema)].[workers] WHERE name = N'gone' AND lost_at IS NULL) THEN 0 ELSE 1 END AS n",
    )
    .await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

/// A lease of five seconds through a proxy, on a worker that holds jobs; another worker would reap it as soon as it is
/// lost.
struct Leased {
    fixture: Fixture,
    proxy: Proxy,
    worker: BlockedWorker,
    reaper: Worker,
}

const LEASE: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_secs(1);

impl Leased {
    async fn start(test_name: &str) -> Leased {
        let mut fixture = Fixture::on_dev_server(test_name, QueueOptions::default()).await;
        fixture.config.connection.connect_timeout = LEASE;
        fixture.config.connection.command_timeout = LEASE;
        let proxy = Proxy::start(fixture.url()).await;
        let mut through_proxy = fixture.config.clone();
        through_proxy.connection.url = proxy.connection_string().into();
        let queue = Queue::connect(&through_proxy).await.unwrap();
        let config = changed(WorkerConfig::default(), |worker| {
            worker.lease = LEASE;
            worker.heartbeat_interval = INTERVAL;
        });
        let worker = blocked_worker(&fixture, &queue, config).await;
        // Its own heartbeats are none of those that the tests look at.
        let reaps = changed(WorkerConfig::default(), |worker| {
            worker.reap_interval = Duration::from_millis(100);
            worker.lease = Duration::from_secs(600);
            worker.heartbeat_interval = Duration::from_secs(200);
        });
        let reaper =
            Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&reaps).start().await.unwrap();
        Leased { fixture, proxy, worker, reaper }
    }

    /// Looks for so long whether the lease is held, by the worker's own clock.
    async fn stays_held(&self, during: Duration) {
        let until = Instant::now() + during;
        while Instant::now() < until {
            assert!(self.worker.worker.stats().lease_held, "the lease is in doubt");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends both; fails where the lease was lost meanwhile, by SQL Server's clock.
    async fn end(self) {
        let Leased { fixture, worker: BlockedWorker { worker, gate, starts }, reaper, .. } = self;
        let lost = "SELECT COUNT(*) AS n FROM [$(schema)].[workers] WHERE lost_at IS NOT NULL";
        assert_eq!(fixture.sql(lost).await[0].get::<i32, _>("n"), Some(0));
        gate.add_permits(10);
        let summary = drained(worker).await;
        assert_eq!((summary.stats.done, summary.stats.lost, starts.load(Ordering::Relaxed)), (10, 0, 10));
        reaper.shutdown().await.unwrap();
        fixture.remove().await;
    }
}

/// As 12 s with the lease of 30 s and the interval of 10 s that are the defaults.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_renewed_though_connecting_takes_longer_than_an_interval() {
    let leased = Leased::start("slow_connect").await;
    leased.proxy.delay_connections(LEASE * 12 / 30);
    for _ in 0..2 {
        leased.proxy.cut();
        leased.stays_held(LEASE).await;
    }
    leased.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_forgotten_does_not_use_up_the_lease() {
    let leased = Leased::start("forgotten_line").await;
    for _ in 0..2 {
        let connections = leased.proxy.connections();
        leased.proxy.swallow();
        leased.stays_held(LEASE).await;
        assert!(leased.proxy.connections() > connections, "another one was made");
    }
    leased.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_take_longer_than_an_interval_renew_the_lease_on_two_connections() {
    let leased = Leased::start("slow_answer").await;
    let heartbeat = leased.fixture.procedure_to_fail("heartbeat");
    let under_way = Arc::new(AtomicU32::new(0));
    let most = Arc::new(AtomicU32::new(0));
    let (counted, highest) = (under_way.clone(), most.clone());
    dev_server().await.faults().on_call(&heartbeat, move |_| {
        highest.fetch_max(counted.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
        std::thread::sleep(INTERVAL * 2 + Duration::from_millis(200));
        counted.fetch_sub(1, Ordering::AcqRel);
        None
    });
    leased.stays_held(LEASE).await;
    let connections = leased.proxy.connections();
    leased.stays_held(LEASE).await;
    assert_eq!(most.load(Ordering::Acquire), 2, "one goes on while another is sent, and no third");
    assert_eq!(leased.proxy.connections(), connections, "a slow server is not pressed with new connections");
    dev_server().await.faults().clear(&heartbeat);
    leased.end().await;
}

/// The dev server has threads of its own, and so has the watcher. The lease is longer than any stall, so that the test
/// waits for its renewal and does not race it.
#[tokio::test(flavor = "current_thread")]
async fn a_runtime_that_is_blocked_costs_no_lease() {
    let fixture = Fixture::new("blocked_runtime").await;
    fixture.queue.enqueue_many(&numbers(200)).await.unwrap();
    let handlers = Handlers::any(|_, _| {
        std::thread::sleep(Duration::from_millis(5));
        Ok(())
    });
    let config = changed(short_lease(), |worker| (worker.threads, worker.lease) = (1, Duration::from_secs(30)));
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    let watch = async {
        let renewed =
            "SELECT COUNT(*) AS n FROM [$(schema)].[workers] WHERE lease_until > DATEADD(SECOND, 32, registered_at)";
        until_one(&fixture, renewed).await;
        until("results were acknowledged meanwhile", || monitor.stats().done > 0).await;
    };
    std::thread::scope(|threads| {
        threads.spawn(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(watch));
    }); // this thread, the only one of the runtime, is blocked until then
    assert!(worker.stats().lease_held);
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}
