//! Many workers of one queue: what is to be done once is done by one of them, another follows it, and only so many wait
//! in SQL Server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use readpast::admin::QueueOptions;
use readpast::config::WorkerConfig;
use readpast::{Handlers, NewJob, Queue, Worker};
use readpast_devserver::DevServer;
use tokio::sync::mpsc;

use crate::support::{Fixture, Session, changed, numbers, until};

/// Counts the calls of procedures on a server.
struct Calls {
    counts: Vec<(&'static str, Arc<AtomicUsize>)>,
}

impl Calls {
    fn count(server: &DevServer, schema: &str, procedures: &[&'static str]) -> Calls {
        let counts = procedures.iter().map(|procedure| {
            let count: Arc<AtomicUsize> = Arc::default();
            let counted = count.clone();
            server.faults().on_call(&format!("{schema}.{procedure}"), move |_| {
                counted.fetch_add(1, Ordering::AcqRel);
                None
            });
            (*procedure, count)
        });
        Calls { counts: counts.collect() }
    }

    fn of(&self, procedure: &str) -> usize {
        self.counts.iter().find(|(name, _)| *name == procedure).unwrap().1.load(Ordering::Acquire)
    }

    fn all(&self) -> usize {
        self.counts.iter().map(|(_, count)| count.load(Ordering::Acquire)).sum()
    }
}

const PROCEDURES: [&str; 12] = [
    "claim",
    "await_jobs",
    "recover",
    "finish",
    "release",
    "heartbeat",
    "promote",
    "reap",
    "sample",
    "expire",
    "unfinished",
    "stats",
];

async fn waiting(session: &mut Session) -> i64 {
    session.number("SELECT COUNT(*) FROM sys.dm_exec_requests WHERE wait_type = N'WAITFOR'").await
}

async fn sessions(session: &mut Session) -> i64 {
    session.number("SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE is_user_process = 1").await
}

/// `max_idle`: a connection that was idle for so long is given back.
async fn idle_fleet(workers: usize, look_for: Duration, max_idle: Duration) {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "fleet", QueueOptions::default()).await;
    let calls = Calls::count(&server, fixture.schema(), &PROCEDURES);
    let (started, mut starts) = mpsc::unbounded_channel();
    let config = changed(WorkerConfig::default(), |worker| worker.threads = 1);
    let mut fleet = Vec::new();
    for _ in 0..workers {
        let queue = fixture.connect().await; // a process of its own
        queue.set_max_idle(max_idle);
        let started = started.clone();
        let handlers = Handlers::any(move |_, _| {
            let _ = started.send(std::time::Instant::now());
            Ok(())
        });
        let worker = Worker::builder(&queue, handlers).config(&config).start();
        fleet.push(worker.await.unwrap());
        drop(queue);
    }
    let mut session = fixture.session().await;
    while waiting(&mut session).await < 32.min(workers as i64) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // At rest: those that found no place come back after ten seconds.
    let before = calls.all();
    let begun = std::time::Instant::now();
    let (mut most_waiting, mut at_last) = (0, 0);
    while begun.elapsed() < look_for {
        most_waiting = most_waiting.max(waiting(&mut session).await);
        at_last = sessions(&mut session).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let requests = (calls.all() - before) as f64 / begun.elapsed().as_secs_f64() / workers as f64;

    let mut latencies = Vec::new();
    for _ in 0..50 {
        let begun = std::time::Instant::now();
        fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
        let started_at = starts.recv().await.unwrap();
        latencies.push(started_at.duration_since(begun));
    }
    latencies.sort_unstable();
    let connections = at_last as f64 / workers as f64;
    println!(
        "{workers} workers: {requests:.2} requests a second and {connections:.2} connections for each, {most_waiting} wait, \
         from enqueue to start {:?} at p50, {:?} at most of 50",
        latencies[25], latencies[49]
    );
    assert!(most_waiting <= 32, "{most_waiting} sessions wait");
    assert!(connections <= 3.0, "{connections} connections for each worker");
    assert!(calls.of("promote") > 0 && calls.of("reap") > 0 && calls.of("sample") > 0);
    for worker in fleet {
        worker.stop_handle().stop_now();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_idle_fleet_only_so_many_wait_in_sql_server() {
    idle_fleet(48, Duration::from_secs(1), Duration::from_millis(500)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute; run with --release and --ignored"]
async fn an_idle_fleet_of_five_hundred() {
    idle_fleet(500, Duration::from_secs(90), Duration::from_secs(60)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_worker_of_a_queue_does_what_one_must_and_another_follows_it() {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "duties", QueueOptions::default()).await;
    let calls = Calls::count(&server, fixture.schema(), &PROCEDURES);
    let config = changed(WorkerConfig::default(), |worker| {
        worker.lease = Duration::from_secs(4);
        worker.heartbeat_interval = Duration::from_millis(300);
        worker.promote_interval = Duration::from_millis(100);
        worker.reap_interval = Duration::from_millis(100);
    });
    let mut fleet: HashMap<String, Worker> = HashMap::new();
    for name in ["a", "b", "c"] {
        let mut connection = fixture.config.clone();
        connection.connection.command_timeout = Duration::from_secs(2);
        connection.connection.connect_timeout = Duration::from_secs(2);
        let queue = Queue::connect(&connection).await.unwrap();
        let config = changed(config.clone(), |worker| worker.name = name.to_string());
        let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
        fleet.insert(name.to_string(), worker);
    }
    // The others have asked once each, at their start.
    let begun = calls.of("promote");
    until("it promotes again and again", || calls.of("promote") > begun + 20).await;
    let mut session = fixture.session().await;
    let elected = "SELECT w.name FROM [$(schema)].[duties] AS d \
                   JOIN [$(schema)].[workers] AS w ON w.worker_id = d.worker_id";
    let first: String = session.row(elected).await.get::<&str, _>("name").unwrap().to_string();

    // The elected one dies, so that it can tell nobody. Which one it is depends on who asked first.
    drop(fleet.remove(&first).unwrap());
    let delayed = NewJob::text("x").delay(Duration::from_millis(50));
    fixture.queue.enqueue(&delayed).await.unwrap();
    until("another has made the delayed job ready", || {
        fleet.values().map(|worker| worker.stats().done).sum::<u64>() == 1
    })
    .await;
    let second: String = session.row(elected).await.get::<&str, _>("name").unwrap().to_string();
    assert_ne!(first, second);
    // It ends in order: its duties pass on at once, and not only when they have lapsed.
    fixture.queue.enqueue_many(&numbers(10)).await.unwrap();
    for worker in fleet.into_values() {
        worker.drain().await.unwrap();
    }
}
