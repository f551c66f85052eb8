//! The exporter, the two pages beside it, and the sample of the queue's depth.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use readpast::admin::{ClaimOrder, Delivery, QueueOptions, Schedule};
use readpast::config::{PortInUse, WorkerConfig};
use readpast::{Config, Error, Handlers, NewJob, Queue, Worker};
use readpast_devserver::SqlError;
use tiberius::Row;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::counted::drained;
use crate::support::http::get;
use crate::support::proxy::Proxy;
use crate::support::{Fixture, changed, dev_server, numbers, optional_number, until};

/// The fixture's server, with metrics served and a queue of another name: metrics are one for all tests of the program.
async fn queue_with_metrics(fixture: &Fixture, name: &str) -> (Queue, SocketAddr) {
    queue_with(fixture, name, QueueOptions::default()).await
}

async fn queue_with(fixture: &Fixture, name: &str, options: QueueOptions) -> (Queue, SocketAddr) {
    let mut config = fixture.config.clone();
    config.queue.name = name.to_string();
    config.metrics.listen = "127.0.0.1:0".to_string();
    let queue = Queue::connect(&config).await.unwrap();
    queue.admin().create(options).await.unwrap();
    let address = queue.serve_metrics().await.unwrap().expect("the port is free");
    (queue, address)
}

/// The value of one series in Prometheus' text format.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_stage_of_a_job_shows_up_in_what_is_served() {
    let fixture = Fixture::new("served").await;
    let (queue, address) = queue_with_metrics(&fixture, "served").await;
    queue.enqueue_many(&numbers(20)).await.unwrap();
    let handlers = Handlers::any(|job, _| match job.json::<u32>()? {
        7 => Err(readpast::JobError::dead("seven").into()),
        _ => Ok(()),
    });
    let worker = Worker::builder(&queue, handlers).start().await.unwrap();
    worker.drain().await.unwrap();

    let (status, text) = get(address, "/metrics").await;
    assert_eq!(status, 200);
    for (series, expected) in [
        (r#"readpast_enqueued_jobs_total{queue="served"}"#, 20.0),
        (r#"readpast_claimed_jobs_total{queue="served"}"#, 20.0),
        (r#"readpast_buffer_wait_seconds_count{queue="served"}"#, 20.0),
        (r#"readpast_run_seconds_count{queue="served",outcome="done"}"#, 19.0),
        (r#"readpast_run_seconds_count{queue="served",outcome="dead"}"#, 1.0),
        (r#"readpast_finished_jobs_total{queue="served"}"#, 20.0),
        (r#"readpast_dead_jobs_total{queue="served"}"#, 1.0),
        (r#"readpast_job_age_seconds_count{queue="served"}"#, 19.0),
        (r#"readpast_job_age_seconds_bucket{queue="served",le="86400"}"#, 19.0),
        (r#"readpast_running_jobs{queue="served"}"#, 0.0),
        (r#"readpast_call_seconds_count{queue="served",procedure="register_worker"}"#, 1.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}");
    }
    // Unlike buckets, quantiles of several processes cannot be put together.
    assert!(!text.contains(" summary\n"));
    fixture.remove().await;
}

/// A producer can make up kinds without end; a label must not have so many values.
/// Whoever can reach the port takes neither the worker's descriptors nor Prometheus' place, however he goes about it.
#[tokio::test(flavor = "multi_thread")]
async fn eleven_hundred_connections_leave_all_but_a_few_descriptors_and_the_next_scrape() {
    let fixture = Fixture::new("many_scrapes").await;
    let (_queue, address) = queue_with_metrics(&fixture, "many_scrapes").await;
    let unfinished: [&[u8]; 3] =
        [b"", b"GET /metrics HTTP/1.1\r\nHost: x\r\n", b"GET /metrics HTTP/1.1\r\nHost: x\r\nA:"];
    let mut connections = Vec::new();
    for number in 0..1_100 {
        let mut connection = TcpStream::connect(address).await.unwrap();
        let _ = connection.write_all(unfinished[number % unfinished.len()]).await; // it may be closed already
        connections.push(connection);
    }
    let (status, _) = get(address, "/metrics").await;
    assert_eq!(status, 200);
    // All but 32 were closed: each of them ends by itself, which is awaited.
    let oldest = connections.len() - 32;
    for connection in &mut connections[..oldest] {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(60), connection.read_to_end(&mut rest)).await;
        let _ = closed.expect("it is closed by the exporter"); // perhaps by a reset
        assert_eq!(rest, b"");
    }
}

/// What a queue costs in each scrape of a worker that runs plain jobs: 60 procedures are known, some eleven are called.
/// With all histograms registered from the start it was 1,305 lines.
#[tokio::test(flavor = "multi_thread")]
async fn only_what_has_happened_is_in_a_scrape() {
    let fixture = Fixture::new("scrape_lines").await;
    let (queue, address) = queue_with_metrics(&fixture, "scrape_lines").await;
    queue.enqueue_many(&numbers(20)).await.unwrap();
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    worker.drain().await.unwrap();
    let (_, text) = get(address, "/metrics").await;
    let lines = text.lines().filter(|line| line.contains(r#"queue="scrape_lines""#)).count();
    assert!(lines < 520, "{lines} lines");
    assert!(!text.contains(r#"queue="scrape_lines",procedure="fire_schedule""#));
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_counted_that_are_fired_missed_and_wrong() {
    let fixture = Fixture::new("schedule_metrics").await;
    let (queue, address) = queue_with_metrics(&fixture, "schedule metrics").await;
    let schedule = |name: &str, cron: &str| Schedule::new(name, cron, NewJob::text("x")).make_up(0);
    queue.admin().set_schedule(&schedule("each second", "* * * * * *")).await.unwrap();
    queue.admin().set_schedule(&schedule("missed", "@hourly")).await.unwrap();
    queue.admin().set_schedule(&schedule("wrong", "@hourly")).await.unwrap();
    let mut session = fixture.session().await;
    session.sql("UPDATE [$(schema)].[schedules] SET next_at = '2026-01-01' WHERE name = N'missed'").await;
    session.sql("UPDATE [$(schema)].[schedules] SET cron = 'never' WHERE name = N'wrong'").await;
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let give_up = Instant::now() + Duration::from_secs(30);
    loop {
        let (_, text) = get(address, "/metrics").await;
        let count = |what: &str| value(&text, &format!("readpast_schedule_{what}_total{{queue=\"schedule metrics\"}}"));
        let counts = (count("fires").unwrap_or(0.0), count("skips"), count("failures"));
        if counts.0 >= 1.0 && (counts.1, counts.2) == (Some(1.0), Some(1.0)) {
            break;
        }
        assert!(Instant::now() < give_up, "{counts:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    worker.stop_handle().stop();
    worker.run().await.unwrap();
    drop(queue);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_counted_by_the_kinds_that_the_worker_has_handlers_for() {
    let fixture = Fixture::new("kinds").await;
    let (queue, address) = queue_with_metrics(&fixture, "kinds").await;
    let kinds = ["resize", "resize", "made-up-1", "made-up-2"];
    queue.enqueue_many(&kinds.map(|kind| NewJob::text("").kind(kind))).await.unwrap();
    let handlers = Handlers::new().kind("resize", |_, _| Ok(())).otherwise(|_, _| Ok(()));
    let worker = Worker::builder(&queue, handlers).start().await.unwrap();
    worker.drain().await.unwrap();
    queue.enqueue(&NewJob::text("").kind("resize")).await.unwrap();
    let handlers = Handlers::new().kind("other", |_, _| Ok(()));
    let worker = Worker::builder(&queue, handlers).start().await.unwrap();
    until("it is put off", || worker.stats().snoozed == 1).await;
    worker.shutdown().await.unwrap();

    let (_, text) = get(address, "/metrics").await;
    for (series, expected) in [
        (r#"readpast_run_seconds_count{queue="kinds",kind="resize",outcome="done"}"#, 2.0),
        (r#"readpast_run_seconds_count{queue="kinds",outcome="done"}"#, 2.0),
        (r#"readpast_deferred_jobs_total{queue="kinds",reason="unknown_kind"}"#, 1.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}");
    }
    assert!(!text.contains("made-up"));
    fixture.remove().await;
}

/// The errors are raised on demand, which only the dev server can do.
#[tokio::test(flavor = "multi_thread")]
async fn errors_are_counted_by_procedure_and_by_sql_server_s_number() {
    let fixture = Fixture::on_dev_server("numbered", QueueOptions::default()).await;
    let (queue, address) = queue_with_metrics(&fixture, "numbered").await;
    queue.enqueue_many(&numbers(20)).await.unwrap();
    // Each call of these procedures meets the next of these; then they succeed.
    let raised: [(&str, &[i32]); 3] =
        [("claim", &[1205, 1205, 40501]), ("finish", &[1222, 1205, 3906]), ("sample", &[2812, 1934])];
    for (procedure, errors) in raised {
        let name = fixture.procedure_to_fail(procedure);
        dev_server().await.faults().on_call(&name, move |call| {
            let number = *errors.get(call as usize - 1)?;
            Some(SqlError::new(number, "raised by a test").severity(17))
        });
    }
    let config = changed(fixture.config.worker.clone(), |worker| worker.sample_interval = Duration::from_secs(1));
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    shown_above(address, r#"readpast_queue_sample_age_seconds{queue="numbered"}"#, 0.0).await;
    assert_eq!(drained(worker).await.stats.done, 20);

    let (_, text) = get(address, "/metrics").await;
    for (procedure, error, expected) in [
        ("claim", "1205", Some(2.0)),
        ("claim", "40501", Some(1.0)),
        ("claim", "1222", None),
        ("finish", "1222", Some(1.0)),
        ("finish", "1205", Some(1.0)),
        // Errors that have a variant of their own.
        ("finish", "3906", Some(1.0)),
        ("sample", "2812", Some(1.0)),
        ("sample", "1934", Some(1.0)),
    ] {
        let series =
            format!(r#"readpast_call_errors_total{{queue="numbered",procedure="{procedure}",error="{error}"}}"#);
        assert_eq!(value(&text, &series), expected, "{series}");
    }
    assert_eq!(value(&text, r#"readpast_finish_retries_total{queue="numbered"}"#), Some(3.0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_means_a_lease_and_an_answered_claim() {
    let fixture = Fixture::new("ready").await;
    let proxy = Proxy::start(fixture.url()).await;
    let mut through_proxy = fixture.config.clone();
    through_proxy.connection.url = proxy.connection_string().into();
    through_proxy.metrics.listen = "127.0.0.1:0".to_string();
    let queue = Queue::connect(&through_proxy).await.unwrap();
    let address = queue.serve_metrics().await.unwrap().unwrap();

    assert_eq!(get(address, "/healthz").await, (200, "alive\n".to_string()));
    assert_eq!(get(address, "/readyz").await, (503, "not ready: no worker is running\n".to_string()));
    assert_eq!(get(address, "/").await.0, 404);

    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let monitor = worker.monitor();
    until("a claim is answered", || monitor.stats().last_claim_succeeded).await;
    assert_eq!(get(address, "/readyz").await, (200, "ready\n".to_string()));

    proxy.block();
    until("a claim fails", || !monitor.stats().last_claim_succeeded).await;
    let (status, reason) = get(address, "/readyz").await;
    assert_eq!(status, 503);
    assert!(reason.starts_with("not ready: the last claim of a worker failed"), "{reason}");
    assert_eq!(get(address, "/healthz").await.0, 200);

    proxy.unblock();
    until("claims are answered again", || monitor.stats().last_claim_succeeded).await;
    assert_eq!(get(address, "/readyz").await.0, 200);

    worker.shutdown().await.unwrap();
    assert_eq!(get(address, "/readyz").await.0, 503);
    drop(queue);
    fixture.remove().await;
}

/// Asks for `/readyz` until it says so; fails the test after half a minute.
async fn until_ready(address: SocketAddr) {
    let ready = async { while get(address, "/readyz").await.0 != 200 {} };
    tokio::time::timeout(Duration::from_secs(30), ready).await.expect("the worker is ready in time");
}

/// Renewals and registrations are refused on demand, which only the dev server can do.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_lease_a_worker_is_not_ready() {
    let long = changed(WorkerConfig::default(), |worker| {
        worker.lease = Duration::from_secs(60);
        worker.heartbeat_interval = Duration::from_millis(100);
    });
    let short = changed(long.clone(), |worker| worker.lease = Duration::from_secs(1));
    let lost = "UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()";
    for (name, config, refused, change) in
        [("lease_in_doubt", short, "heartbeat", None), ("lease_lost", long, "register_worker", Some(lost))]
    {
        let mut fixture = Fixture::on_dev_server(name, QueueOptions::default()).await;
        fixture.config.connection.connect_timeout = Duration::from_secs(1);
        fixture.config.connection.command_timeout = Duration::from_secs(1);
        let (queue, address) = queue_with_metrics(&fixture, name).await;
        let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
        let monitor = worker.monitor();
        until_ready(address).await;

        let procedure = fixture.procedure_to_fail(refused);
        dev_server().await.faults().on_call(&procedure, |_| Some(SqlError::new(1222, "raised by a test").severity(17)));
        if let Some(change) = change {
            fixture.sql(change).await;
        }
        until("the lease is not held", || !monitor.stats().lease_held).await;
        let not_ready = (503, "not ready: a worker does not hold its lease, or is stopping\n".to_string());
        assert_eq!(get(address, "/readyz").await, not_ready, "{name}");
        assert_eq!(get(address, "/healthz").await.0, 200, "{name}");
        let renewals = renewed(address, name).await;

        dev_server().await.faults().clear(&procedure);
        until_ready(address).await;
        let (_, text) = get(address, "/metrics").await;
        let times_lost = value(&text, &format!("readpast_leases_lost_total{{queue=\"{name}\"}}"));
        assert_eq!(times_lost, Some(f64::from(u8::from(change.is_some()))), "{name}");
        let give_up = Instant::now() + Duration::from_secs(30);
        while renewed(address, name).await <= renewals {
            assert!(Instant::now() < give_up, "renewals are counted again: {name}");
        }
        worker.shutdown().await.unwrap();
        drop(queue);
        fixture.remove().await;
    }
}

async fn renewed(address: SocketAddr, queue: &str) -> f64 {
    let (_, text) = get(address, "/metrics").await;
    value(&text, &format!("readpast_lease_renewals_total{{queue=\"{queue}\"}}")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_shared_within_the_process_and_free_after_its_last_queue() {
    let fixture = Fixture::new("shared").await;
    let (first, address) = queue_with_metrics(&fixture, "shared").await;
    let mut config = fixture.config.clone();
    config.metrics.listen = address.to_string();
    let second = Queue::connect(&config).await.unwrap();
    assert_eq!(second.metrics_address(), None, "it does not listen before it is told to");
    assert_eq!(second.serve_metrics().await.unwrap(), Some(address));
    assert_eq!(second.metrics_address(), Some(address));
    drop(first);
    assert_eq!(get(address, "/healthz").await.0, 200);
    drop(second);
    let give_up = Instant::now() + Duration::from_secs(30);
    while std::net::TcpListener::bind(address).is_err() {
        assert!(Instant::now() < give_up, "{address} stays in use");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_only_enqueues_does_not_listen() {
    let fixture = Fixture::new("producer").await;
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = fixture.config.clone();
    config.metrics.listen = address.to_string();
    let queue = Queue::connect(&config).await.unwrap();
    queue.enqueue(&NewJob::text("x")).await.unwrap();
    assert_eq!(queue.metrics_address(), None);
    std::net::TcpListener::bind(address).expect("a worker of the same host can have the port");
    fixture.remove().await;
}

async fn started(queue: &Queue, config: &Config) -> Result<Worker, Error> {
    Worker::builder(queue, Handlers::any(|_, _| Ok(()))).config(&config.worker).start().await
}

/// What the alert on missing workers goes by.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_to_end_by_itself_says_so_and_one_that_has_ended_has_no_threads() {
    let fixture = Fixture::new("ends").await;
    let (queue, address) = queue_with_metrics(&fixture, "ends").await;
    let shown = async || {
        let (_, text) = get(address, "/metrics").await;
        ["draining", "run_threads"].map(|name| value(&text, &format!(r#"readpast_{name}{{queue="ends"}}"#)).unwrap())
    };
    let mut config = fixture.config.clone();
    config.worker.threads = 3;
    let worker = started(&queue, &config).await.unwrap();
    assert_eq!(shown().await, [0.0, 3.0]);
    worker.shutdown().await.unwrap();
    assert_eq!(shown().await, [0.0, 0.0]);
    started(&queue, &config).await.unwrap().drain().await.unwrap();
    assert_eq!(shown().await, [1.0, 0.0], "after its end, too");
    let worker = started(&queue, &config).await.unwrap();
    assert_eq!(shown().await, [0.0, 3.0]);
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_port_is_taken_goes_on_without_or_takes_the_next_one() {
    let fixture = Fixture::new("port").await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut config = fixture.config.clone();
    config.metrics.listen = address.to_string();

    let queue = Queue::connect(&config).await.unwrap();
    queue.enqueue(&NewJob::text("x")).await.unwrap();
    let worker = started(&queue, &config).await.unwrap();
    assert_eq!(queue.metrics_address(), None);
    assert_eq!(drained(worker).await.stats.done, 1, "it works all the same");

    config.metrics.port_in_use = PortInUse::Next;
    let queue = Queue::connect(&config).await.unwrap();
    let worker = started(&queue, &config).await.unwrap();
    let next = queue.metrics_address().expect("one of twenty is free");
    assert!((address.port() + 1..=address.port() + 20).contains(&next.port()), "{next} after {address}");
    assert_eq!(get(next, "/healthz").await.0, 200);
    let same = Queue::connect(&config).await.unwrap();
    assert_eq!(same.serve_metrics().await.unwrap(), Some(next), "another queue of the process shares it");
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_another_machine_is_refused_at_a_worker_s_start() {
    let fixture = Fixture::new("address").await;
    let mut config = fixture.config.clone();
    config.metrics.listen = "192.0.2.1:9464".to_string(); // for documentation only (RFC 5737)
    let queue = Queue::connect(&config).await.unwrap();
    let started = started(&queue, &config).await;
    let error = started.err().expect("nobody can listen there");
    assert!(matches!(error, Error::Config { .. }));
    let expected = "metrics.listen is '192.0.2.1:9464'; it must be an address of this machine with a free port";
    assert!(error.to_string().starts_with(expected), "{error}");
    assert_eq!(queue.admin().stats(None).await.unwrap().workers, 0, "and nothing was registered");
    fixture.remove().await;
}

/// As if the sample had been taken ten minutes earlier.
const SAMPLED_EARLIER: &str = "UPDATE [$(schema)].[samples] SET sampled_at = DATEADD(MINUTE, -10, sampled_at)";
const EARLIER_MS: i64 = 600_000;

/// Everything that `sample` returns but the age of the sample.
fn depth(row: &Row) -> [Option<i64>; 7] {
    ["ready", "scheduled", "claimed", "dead", "workers", "paused", "oldest_ready_ms"]
        .map(|column| optional_number(row, column))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_is_taken_once_in_its_time_and_seen_by_all() {
    let fixture = Fixture::new("sample").await;
    let mut session = fixture.session().await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    fixture.queue.enqueue(&NewJob::bytes("later").delay(Duration::from_secs(3_600))).await.unwrap();
    session.sql("UPDATE [$(schema)].[jobs] SET due_at = DATEADD(SECOND, -90, due_at) WHERE state = 0").await;

    let first = session.row("EXEC [$(schema)].[sample] @queue = N'work', @max_age_ms = 3600000").await;
    let [ready, scheduled, claimed, dead, workers, paused, oldest_ms] = depth(&first);
    assert_eq!((ready, scheduled, claimed, dead), (Some(3), Some(1), Some(0), Some(0)));
    assert_eq!((workers, paused), (Some(0), Some(0)));
    assert!((90_000..600_000).contains(&oldest_ms.unwrap()), "{oldest_ms:?}");

    // Within the hour everybody gets the same; with less patience, a new one.
    fixture.queue.enqueue_many(&numbers(2)).await.unwrap();
    let again = fixture.session().await.row("EXEC [$(schema)].[sample] @queue = N'work', @max_age_ms = 3600000").await;
    assert_eq!(depth(&again), depth(&first));
    session.sql(SAMPLED_EARLIER).await;
    let old = session.row("EXEC [$(schema)].[sample] @queue = N'work', @max_age_ms = 3600000").await;
    let age_ms = optional_number(&old, "sample_age_ms").unwrap();
    assert!((EARLIER_MS..2 * EARLIER_MS).contains(&age_ms), "{age_ms}");
    session.sql(&format!("{SAMPLED_EARLIER}, begun_at = DATEADD(HOUR, -1, begun_at)")).await;
    let fresh = session.row("EXEC [$(schema)].[sample] @queue = N'work', @max_age_ms = 3600000").await;
    assert_eq!(depth(&fresh)[0], Some(5));
    assert!(optional_number(&fresh, "sample_age_ms").unwrap() < EARLIER_MS, "it is new");

    assert_eq!(session.refusal("EXEC [$(schema)].[sample] @queue = N'none'").await.0, 58001);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_ready_jobs_are_estimated_and_every_priority_is_looked_at() {
    for claim_order in [ClaimOrder::Fifo, ClaimOrder::Lifo] {
        let options = QueueOptions::default().claim_order(claim_order);
        let fixture = Fixture::with("estimate", options).await;
        let many = (0..12_000).map(|_| NewJob::bytes("x"));
        fixture.queue.enqueue_many(&many.collect::<Vec<_>>()).await.unwrap();
        fixture.queue.enqueue_many(&[1, 7].map(|priority| NewJob::bytes("x").priority(priority))).await.unwrap();
        // The oldest is one that waits behind all the others.
        fixture.sql("UPDATE [$(schema)].[jobs] SET due_at = DATEADD(HOUR, -1, due_at) WHERE priority = 7").await;
        let sample = fixture.session().await.row("EXEC [$(schema)].[sample] @queue = N'work', @max_age_ms = 0").await;
        let [ready, .., oldest_ms] = depth(&sample);
        assert_eq!(ready, Some(12_002), "{claim_order:?}: the ids are dense, so the estimate is exact");
        assert!(oldest_ms.unwrap() >= 3_600_000, "{oldest_ms:?}");
        fixture.remove().await;
    }
}

/// The procedures as they are shipped, but that they wait for locks: a statement that read the whole queue would come
/// to the row that is locked.
#[tokio::test(flavor = "multi_thread")]
async fn neither_sample_nor_unfinished_reads_the_whole_queue() {
    const WITH_LOCKS: &str = "ROWLOCK, READCOMMITTEDLOCK";
    for claim_order in [ClaimOrder::Fifo, ClaimOrder::Lifo] {
        let options = QueueOptions::default().claim_order(claim_order);
        let fixture = Fixture::with("not_read", options).await;
        fixture.queue.enqueue_many(&(0..12_000).map(|_| NewJob::bytes("x")).collect::<Vec<_>>()).await.unwrap();
        let mut reader = fixture.session().await;
        for procedure in [include_str!("../sql/350_sample.sql"), include_str!("../sql/360_unfinished.sql")] {
            reader.script(&procedure.replace("NOLOCK", WITH_LOCKS)).await.unwrap();
        }
        let mut other = fixture.session().await;
        let last = other.number("SELECT MAX(job_id) FROM [$(schema)].[jobs]").await;
        other.sql(&format!("BEGIN TRANSACTION; DELETE [$(schema)].[jobs] WHERE job_id = {}", last - 1_000)).await;

        reader.sql("SET LOCK_TIMEOUT 0").await;
        let everything = format!(
            "SELECT COUNT(*) FROM [$(schema)].[jobs] WITH ({WITH_LOCKS}, INDEX (jobs_ready)) \
             WHERE state = 0 AND alone = 0"
        );
        assert_eq!(reader.refusal(&everything).await.0, 1222);
        let sample = reader.row("EXEC [$(schema)].[sample] @queue = N'work', @max_age_ms = 0").await;
        assert_eq!(depth(&sample)[0], Some(12_000));
        assert_eq!(reader.number("EXEC [$(schema)].[unfinished] @queue = N'work'").await, 1);
        other.sql("ROLLBACK").await;
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_shows_the_depth_of_its_queue_and_how_old_its_knowledge_is() {
    let fixture = Fixture::new("depth").await;
    let (queue, address) = queue_with_metrics(&fixture, "depth").await;
    queue.admin().pause().await.unwrap();
    queue.enqueue_many(&numbers(4)).await.unwrap();
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let give_up = Instant::now() + Duration::from_secs(30);
    let text = loop {
        let (_, text) = get(address, "/metrics").await;
        if value(&text, r#"readpast_queue_jobs{queue="depth",state="ready"}"#).is_some() {
            break text;
        }
        assert!(Instant::now() < give_up, "no sample came");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(value(&text, r#"readpast_queue_jobs{queue="depth",state="ready"}"#), Some(4.0));
    assert_eq!(value(&text, r#"readpast_queue_paused{queue="depth"}"#), Some(1.0));
    assert_eq!(value(&text, r#"readpast_queue_workers{queue="depth"}"#), Some(1.0));
    assert!(value(&text, r#"readpast_queue_sample_age_seconds{queue="depth"}"#).unwrap() < 60.0);
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_knows_how_old_a_sample_is_that_another_has_taken() {
    let fixture = Fixture::new("old_sample").await;
    let (queue, address) = queue_with_metrics(&fixture, "old_sample").await;
    let mut session = fixture.session().await;
    session.row("EXEC [$(schema)].[sample] @queue = N'old_sample', @max_age_ms = 0").await;
    session.sql(SAMPLED_EARLIER).await;
    let config = changed(WorkerConfig::default(), |worker| worker.sample_interval = Duration::from_secs(3_600));
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    const AGE: &str = r#"readpast_queue_sample_age_seconds{queue="old_sample"}"#;
    let first = shown_above(address, AGE, 0.0).await;
    assert!((600.0..1_200.0).contains(&first), "{first}");
    // It does not ask again within the hour, and yet the age goes on.
    shown_above(address, AGE, first).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

/// A worker that waits for a long job to end is still asked, and its old sample must not pass for a new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_shows_how_old_its_sample_gets() {
    let fixture = Fixture::new("stops").await;
    let (queue, address) = queue_with_metrics(&fixture, "stops").await;
    let (started, has_started) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    let handlers = Handlers::any(move |_, _| {
        started.send(()).unwrap();
        ended.lock().recv().unwrap();
        Ok(())
    });
    queue.enqueue(&NewJob::bytes("long")).await.unwrap();
    let config = changed(fixture.config.worker.clone(), |worker| worker.sample_interval = Duration::from_secs(3_600));
    let worker = Worker::builder(&queue, handlers).config(&config).start().await.unwrap();
    has_started.recv_timeout(Duration::from_secs(30)).unwrap();
    const AGE: &str = r#"readpast_queue_sample_age_seconds{queue="stops"}"#;
    shown_above(address, AGE, 0.0).await;
    worker.stop_handle().stop();
    let running = tokio::spawn(worker.run());
    let at_the_stop = shown_above(address, AGE, 0.0).await;
    shown_above(address, AGE, at_the_stop + 1.0).await;
    end.send(()).unwrap();
    assert_eq!(running.await.unwrap().unwrap().stats.done, 1);
    fixture.remove().await;
}

/// There is nothing to acknowledge, and yet it shows that jobs are worked off.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_without_a_row_are_counted_when_they_have_run() {
    let fixture = Fixture::new("rowless").await;
    let options = QueueOptions::default().delivery(Delivery::AtMostOnce);
    let (queue, address) = queue_with(&fixture, "rowless", options).await;
    queue.enqueue_many(&numbers(20)).await.unwrap();
    let worker = started(&queue, &fixture.config).await.unwrap();
    assert_eq!(drained(worker).await.stats.done, 20);
    let (_, text) = get(address, "/metrics").await;
    assert_eq!(value(&text, r#"readpast_finished_jobs_total{queue="rowless"}"#), Some(20.0));
    assert_eq!(value(&text, r#"readpast_finish_batch_jobs_count{queue="rowless"}"#), None, "no acknowledgement");
    fixture.remove().await;
}

/// Otherwise nobody would hear of a crash: the next process of the name finds it before any reaper does.
#[tokio::test(flavor = "multi_thread")]
async fn a_predecessor_that_was_lost_is_counted_by_the_worker_that_takes_over() {
    let fixture = Fixture::new("successor").await;
    let (queue, address) = queue_with_metrics(&fixture, "successor").await;
    queue.enqueue_many(&numbers(3)).await.unwrap();
    let mut session = fixture.session().await;
    let dead = "@queue = N'successor', @worker_id = 'a0000000-0000-0000-0000-00000000000a'";
    session.sql(&format!("EXEC [$(schema)].[register_worker] {dead}, @name = N'twin', @lease_ms = 86400000")).await;
    session.sql(&format!("EXEC [$(schema)].[claim] {dead}, @max = 3")).await;
    // Two of them have no attempt left, and were alone already.
    session
        .sql(
            "UPDATE [$(schema)].[jobs] SET attempt = 100, alone = 1
             WHERE job_id < (SELECT MAX(job_id) FROM [$(schema)].[jobs] WHERE state = 2)",
        )
        .await;
    let mut config = fixture.config.clone();
    (config.worker.name, config.worker.take_over) = ("twin".to_string(), true);
    let worker = started(&queue, &config).await.unwrap();
    assert_eq!(drained(worker).await.stats.done, 1);
    let (_, text) = get(address, "/metrics").await;
    let counted = ["reaped_workers", "reaped_jobs", "dead_jobs"]
        .map(|name| value(&text, &format!(r#"readpast_{name}_total{{queue="successor"}}"#)).unwrap());
    assert_eq!(counted, [1.0, 3.0, 2.0]);
    fixture.remove().await;
}

/// The first value of a series that is greater than `least`.
async fn shown_above(address: SocketAddr, series: &str, least: f64) -> f64 {
    let give_up = Instant::now() + Duration::from_secs(30);
    loop {
        let (_, text) = get(address, "/metrics").await;
        match value(&text, series) {
            Some(value) if value > least => return value,
            value => assert!(Instant::now() < give_up, "{series} stays at {value:?}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn a_worker_serves_metrics_again_after_the_runtime_in_which_they_were_served_has_ended() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let first = runtime();
    let (fixture, queue) = first.block_on(async {
        let mut fixture = Fixture::new("two_runtimes").await;
        fixture.config.metrics.listen = "127.0.0.1:0".to_string();
        let queue = fixture.connect().await;
        queue.serve_metrics().await.unwrap().expect("the port is free");
        (fixture, queue)
    });
    drop(first);
    runtime().block_on(async {
        assert_eq!(queue.metrics_address(), None);
        let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
        until("it has claimed", || worker.stats().last_claim_succeeded).await;
        let (status, page) = get(queue.metrics_address().expect("it listens"), "/readyz").await;
        assert_eq!((status, page.as_str()), (200, "ready\n"));
        worker.shutdown().await.unwrap();
        drop(queue);
        fixture.remove().await;
    });
}
