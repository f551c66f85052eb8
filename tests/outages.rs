//! SQL Server away for longer than the leases: nobody who could not be served is called lost, nothing runs twice, no
//! attempt is charged. Who died meanwhile is found out within a lease and a reap interval of the return.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use readpast::admin::QueueOptions;
use readpast::config::WorkerConfig;
use readpast::{Handlers, JobId, Queue, Worker, WorkerStats};
use readpast_devserver::DevServer;

use crate::support::proxy::Proxy;
use crate::support::{Fixture, Session, WorkerSession, changed, number, numbers, until};

const LEASE: Duration = Duration::from_millis(2_000);

/// Two and a half leases, which is also longer than what counts as a while (sql/290_tend.sql).
const OUTAGE: Duration = Duration::from_millis(5_000);

const WORKERS: usize = 3;
const JOBS: u32 = 30;

/// How often each job ran, and its highest attempt.
type Runs = Arc<Mutex<HashMap<JobId, (u32, u32)>>>;

fn worker_config() -> WorkerConfig {
    changed(WorkerConfig::default(), |worker| {
        worker.threads = 2;
        worker.lease = LEASE;
        worker.heartbeat_interval = Duration::from_millis(400);
        worker.reap_interval = Duration::from_millis(200);
        worker.promote_interval = Duration::from_millis(200);
    })
}

/// Three workers with jobs half as long as a lease; the fixture's server is reached by `url`.
async fn workers(fixture: &Fixture, url: &str) -> (Vec<Worker>, Runs) {
    let runs: Runs = Arc::default();
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let mut config = fixture.config.clone();
        config.connection.url = url.into();
        config.connection.connect_timeout = Duration::from_secs(1);
        config.connection.command_timeout = Duration::from_secs(1);
        let queue = Queue::connect(&config).await.unwrap();
        let noted = runs.clone();
        let worker_config = worker_config();
        let handlers = Handlers::any(move |job, _| {
            std::thread::sleep(LEASE / 2); // the work
            let mut noted = noted.lock();
            let (runs, attempt) = noted.entry(job.id()).or_default();
            *runs += 1;
            *attempt = job.attempt().max(*attempt);
            Ok(())
        });
        let worker = Worker::builder(&queue, handlers).config(&worker_config).start();
        workers.push(worker.await.unwrap());
    }
    (workers, runs)
}

/// A worker that holds a job, and will not be heard of again; returns the job.
async fn dead_worker(fixture: &Fixture) -> JobId {
    let mut worker = WorkerSession::register(fixture).await;
    let job = worker.claim_one().await;
    let shorten =
        format!("lease_ms = {0}, lease_until = DATEADD(MILLISECOND, {0}, SYSUTCDATETIME())", LEASE.as_millis());
    fixture.sql(&format!("UPDATE [$(schema)].[workers] SET {shorten} WHERE worker_id = '{}'", worker.id)).await;
    JobId(job.job_id)
}

async fn lost_workers(session: &mut Session) -> i64 {
    session.number("SELECT COUNT(*) FROM [$(schema)].[workers] WHERE lost_at IS NOT NULL").await
}

async fn nobody_pays_for_it(fixture: &Fixture, workers: Vec<Worker>, runs: &Runs, of_the_dead: JobId) {
    let mut stats: Vec<WorkerStats> = Vec::new();
    for worker in &workers {
        let monitor = worker.monitor();
        until("the lease is held again", || monitor.stats().lease_held).await;
    }
    let mut session = fixture.session().await;
    until("the dead worker's job has run", || runs.lock().contains_key(&of_the_dead)).await;
    assert_eq!(lost_workers(&mut session).await, 1, "the dead one alone");
    for worker in workers {
        stats.push(worker.drain().await.unwrap().stats);
    }
    let runs = runs.lock();
    assert_eq!(runs.len(), JOBS as usize + 1);
    for (job, (times, attempt)) in runs.iter() {
        let expected = if *job == of_the_dead { (1, 2) } else { (1, 1) };
        assert_eq!((*times, *attempt), expected, "job {job}: runs and attempt");
    }
    assert_eq!(stats.iter().map(|stats| stats.lost).sum::<u64>(), 0);
    assert_eq!(stats.iter().map(|stats| stats.done).sum::<u64>(), u64::from(JOBS) + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_costs_nobody_its_lease() {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "frozen", QueueOptions::default()).await;
    fixture.queue.enqueue_many(&numbers(1)).await.unwrap();
    let of_the_dead = dead_worker(&fixture).await;
    fixture.queue.enqueue_many(&numbers(JOBS)).await.unwrap();
    let (workers, runs) = workers(&fixture, fixture.url()).await;
    until("all threads are busy", || workers.iter().all(|worker| worker.stats().running == 2)).await;
    server.faults().freeze();
    tokio::time::sleep(OUTAGE).await; // the outage itself
    server.faults().thaw();
    nobody_pays_for_it(&fixture, workers, &runs, of_the_dead).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_costs_nobody_its_lease() {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "unreachable", QueueOptions::default()).await;
    fixture.queue.enqueue_many(&numbers(1)).await.unwrap();
    let of_the_dead = dead_worker(&fixture).await;
    fixture.queue.enqueue_many(&numbers(JOBS)).await.unwrap();
    let proxy = Proxy::start(fixture.url()).await;
    let (workers, runs) = workers(&fixture, &proxy.connection_string()).await;
    until("all threads are busy", || workers.iter().all(|worker| worker.stats().running == 2)).await;
    proxy.block();
    tokio::time::sleep(OUTAGE).await; // the outage itself
    proxy.unblock();
    nobody_pays_for_it(&fixture, workers, &runs, of_the_dead).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_a_worker_has_a_lease_and_is_lost_then() {
    let fixture = Fixture::new("a_lease_more").await;
    let mut session = fixture.session().await;
    let worker = WorkerSession::register(&fixture).await; // a lease of a minute
    let ran_out = "UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME());";
    let away = "UPDATE [$(schema)].[duties] SET tended_at = DATEADD(SECOND, -31, SYSUTCDATETIME());";
    let reap = "EXEC [$(schema)].[reap] @queue = N'work'";
    session.sql(ran_out).await;
    // Two outages in a row: nobody had the time for a heartbeat between them. And a caller's transaction, in which
    // nothing can be noted.
    for begin in ["", "", "BEGIN TRANSACTION;"] {
        session.sql(away).await;
        assert_eq!(number(&session.row(&format!("{begin} {reap}")).await, "workers_lost"), 0);
    }
    session.sql("ROLLBACK TRANSACTION").await;
    session.sql(reap).await;
    // A lease after it.
    session.sql(ran_out).await;
    assert_eq!(number(&session.row(reap).await, "workers_lost"), 1);
    drop((session, worker));
    fixture.remove().await;
}

/// By workers that come and go, or by `reap` from a schedule: each time it looks as if SQL Server had been away.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_worker_is_lost_though_the_queue_is_served_only_now_and_then() {
    let fixture = Fixture::new("now_and_then").await;
    let mut session = fixture.session().await;
    let worker = WorkerSession::register(&fixture).await;
    let a_minute_later = "UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME());
                          UPDATE [$(schema)].[duties] SET tended_at = DATEADD(SECOND, -61, SYSUTCDATETIME());";
    let mut lost = Vec::new();
    for _ in 0..4 {
        session.sql(a_minute_later).await;
        lost.push(number(&session.row("EXEC [$(schema)].[reap] @queue = N'work'").await, "workers_lost"));
    }
    assert_eq!(lost, [0, 0, 0, 1]);
    drop((session, worker));
    fixture.remove().await;
}

/// Shorter ones than half a lease say nothing, however many, and whatever was before them.
#[tokio::test(flavor = "multi_thread")]
async fn short_gaps_after_an_outage_keep_no_dead_worker() {
    let fixture = Fixture::new("short_gaps").await;
    let mut session = fixture.session().await;
    let worker = WorkerSession::register(&fixture).await;
    let reap = "EXEC [$(schema)].[reap] @queue = N'work'";
    session.sql("UPDATE [$(schema)].[duties] SET tended_at = DATEADD(HOUR, -1, SYSUTCDATETIME())").await;
    assert_eq!(number(&session.row(reap).await, "workers_lost"), 0);
    session.sql("UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME())").await;
    session.sql("UPDATE [$(schema)].[duties] SET tended_at = DATEADD(SECOND, -3, SYSUTCDATETIME())").await;
    assert_eq!(number(&session.row(reap).await, "workers_lost"), 1);
    drop((session, worker));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_runs_out_while_the_queue_is_served_is_lost_at_once() {
    let fixture = Fixture::new("served").await;
    let mut session = fixture.session().await;
    let _worker = WorkerSession::register(&fixture).await;
    // Half of its lease, and no more.
    let not_away = "UPDATE [$(schema)].[duties] SET tended_at = DATEADD(SECOND, -29, SYSUTCDATETIME());
                    UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME());";
    session.sql(not_away).await;
    assert_eq!(number(&session.row("EXEC [$(schema)].[reap] @queue = N'work'").await, "workers_lost"), 1);
    drop((session, _worker));
    fixture.remove().await;
}
