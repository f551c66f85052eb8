//! What a worker holds is bounded by bytes, not only by jobs: payloads that are claimed, outputs that wait for their
//! acknowledgement.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use readpast::admin::{ClaimOrder, CompletionPolicy, Delivery, JobFilter, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{Bottleneck, Handlers, JobError, NewJob, Output, Queue, Worker};
use readpast_devserver::SqlError;
use tokio::sync::Semaphore;

use crate::support::child::{ChildWorker, Ledger};
use crate::support::counted::drained;
use crate::support::http::get;
use crate::support::proxy::Proxy;
use crate::support::{Fixture, WorkerSession, changed, dev_server, numbers, until};

/// Looks again and again at how much a worker holds, until the returned value is dropped: the most that was seen.
fn most_held(worker: &Worker) -> Arc<AtomicUsize> {
    let monitor = worker.monitor();
    let most = Arc::new(AtomicUsize::new(0));
    let watched = Arc::downgrade(&most);
    std::thread::spawn(move || {
        while let Some(most) = watched.upgrade() {
            most.fetch_max(monitor.stats().held_bytes, Ordering::Relaxed);
            drop(most);
            std::thread::sleep(Duration::from_micros(200));
        }
    });
    most
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_large_jobs_are_as_large_as_memory_allows() {
    const JOB: usize = 800_000;
    const LIMIT: usize = 4 << 20;
    const FIT: usize = LIMIT / JOB;
    let mut fixture = Fixture::new("large_jobs").await;
    fixture.config.metrics.listen = "127.0.0.1:0".to_string();
    // The metrics of this process have the queues of all tests.
    fixture.config.queue.name = "large jobs".to_string();
    let queue = Queue::connect(&fixture.config).await.unwrap();
    queue.admin().create(QueueOptions::default()).await.unwrap();
    queue.enqueue_many(&(0..60).map(|_| NewJob::bytes(vec![b' '; JOB])).collect::<Vec<_>>()).await.unwrap();
    let config = changed(WorkerConfig::default(), |worker| {
        worker.threads = 2;
        worker.buffer = 500;
        worker.max_in_flight_bytes = LIMIT as u64;
    });
    let gate = Arc::new(Semaphore::new(0));
    let (handler_gate, runtime) = (gate.clone(), tokio::runtime::Handle::current());
    let handlers = Handlers::any(move |_, _| {
        runtime.block_on(handler_gate.acquire())?.forget();
        Ok(())
    });
    let worker = Worker::builder(&queue, handlers).config(&config).start().await.unwrap();
    let most = most_held(&worker);
    until("memory is full", || worker.stats().held_bytes == FIT * JOB).await;
    gate.add_permits(Semaphore::MAX_PERMITS);
    let stats = drained(worker).await.stats;
    assert_eq!((stats.done, stats.lost, stats.held_bytes), (60, 0, 0));
    assert_eq!(most.load(Ordering::Relaxed), FIT * JOB);
    let (_, text) = get(queue.metrics_address().unwrap(), "/metrics").await;
    let claims = |suffix: &str| {
        let is_of_queue = |line: &&str| line.starts_with("readpast_claim_batch_jobs") && line.contains("large jobs");
        let line = text.lines().filter(is_of_queue).find(|line| line.contains(suffix));
        line.unwrap().rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(claims(&format!("le=\"{FIT}\"")), claims("_count"), "{text}");
    drop(queue);
    fixture.remove().await;
}

/// The payloads say nothing about how large the outputs are.
#[tokio::test(flavor = "multi_thread")]
async fn outputs_that_cannot_be_acknowledged_hold_back_claims_and_nothing_is_lost() {
    const OUTPUT: usize = 200_000;
    const LIMIT: usize = 2 << 20;
    let fixture = Fixture::on_dev_server("outputs", QueueOptions::default()).await;
    let finish_one = fixture.procedure_to_fail("finish_one");
    dev_server().await.faults().on_call(&finish_one, |_| Some(SqlError::new(40501, "busy").severity(16)));
    fixture.queue.enqueue_many(&numbers(100)).await.unwrap();
    let config = changed(WorkerConfig::default(), |worker| {
        worker.threads = 2;
        worker.max_in_flight_bytes = LIMIT as u64;
    });
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(Output::bytes(vec![1; OUTPUT]))))
        .config(&config)
        .start()
        .await
        .unwrap();
    let monitor = worker.monitor();
    let most = most_held(&worker);
    until("memory is full", || monitor.stats().awaiting_finish == LIMIT / OUTPUT).await;
    until("and that is the limit", || monitor.stats().limited_by == Bottleneck::Finish).await;
    assert_eq!(monitor.stats().held_bytes, LIMIT / OUTPUT * OUTPUT);
    assert_eq!(fixture.job_counts().await.ready, 100 - (LIMIT / OUTPUT) as i64);
    dev_server().await.faults().clear(&finish_one);
    let stats = drained(worker).await.stats;
    assert_eq!((stats.done, stats.lost, stats.held_bytes), (100, 0, 0));
    let most = most.load(Ordering::Relaxed);
    assert!(most <= LIMIT, "{most} bytes at the most");
    fixture.remove().await;
}

/// Those of done jobs, too: if the sink rejects a result, the next attempt needs the checkpoint.
#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_that_cannot_be_written_hold_back_jobs() {
    const CHECKPOINT: usize = 60_000;
    const LIMIT: usize = 1 << 20;
    let fixture = Fixture::on_dev_server("noted", QueueOptions::default()).await;
    let failing = ["finish", "note_progress"].map(|procedure| fixture.procedure_to_fail(procedure));
    for procedure in &failing {
        dev_server().await.faults().on_call(procedure, |_| Some(SqlError::new(40501, "busy").severity(16)));
    }
    fixture.queue.enqueue_many(&numbers(100)).await.unwrap();
    let config = changed(WorkerConfig::default(), |worker| {
        worker.threads = 1;
        worker.max_in_flight_bytes = LIMIT as u64;
    });
    let handlers = Handlers::any(|_, context: &readpast::Context| Ok(context.checkpoint(vec![1; CHECKPOINT])?));
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    until("memory is full", || monitor.stats().held_bytes > LIMIT).await;
    until("and that is the limit", || monitor.stats().limited_by == Bottleneck::Finish).await;
    let stats = monitor.stats();
    assert!(stats.held_bytes < LIMIT + CHECKPOINT, "{stats:?}");
    for procedure in &failing {
        dev_server().await.faults().clear(procedure);
    }
    let stats = drained(worker).await.stats;
    assert_eq!((stats.done, stats.lost, stats.held_bytes), (100, 0, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_becomes_of_a_job_its_bytes_are_given_back() {
    let options = QueueOptions::default().max_attempts(1);
    let fixture = Fixture::with("given_back", options).await;
    let payload = |what: &str| NewJob::text(format!("{what:10000}"));
    let ends = ["output", "nothing", "dead", "retry", "panic"];
    fixture.queue.enqueue_many(&ends.map(payload)).await.unwrap();
    let config = changed(WorkerConfig::default(), |worker| {
        worker.threads = 1;
        worker.buffer = 20;
    });
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = parking_lot::Mutex::new(gate);
    let handlers = Handlers::any(move |job, _| match job.text()?.trim() {
        "output" => Ok(Some(Output::bytes(vec![1; 5_000]))),
        "nothing" => Ok(None),
        "dead" => Err(JobError::dead("dead").into()),
        "retry" => Err(JobError::retry("again").into()),
        "waits" => {
            gate.lock().recv_timeout(Duration::from_secs(60))?;
            Ok(None)
        }
        _ => panic!("a panic of a test"),
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    until("all have ended", || monitor.stats().done == 2 && monitor.stats().dead == 3).await;
    assert_eq!(monitor.stats().held_bytes, 0);

    fixture.queue.enqueue_many(&(0..10).map(|_| payload("waits")).collect::<Vec<_>>()).await.unwrap();
    until("one runs and nine wait", || monitor.stats().running == 1 && monitor.stats().buffered == 9).await;
    assert_eq!(monitor.stats().held_bytes, 100_000);
    let ending = tokio::spawn(worker.shutdown());
    until("the nine are given back", || monitor.stats().released == 9).await;
    assert_eq!(monitor.stats().held_bytes, 10_000);
    release.send(()).unwrap();
    assert_eq!(ending.await.unwrap().unwrap().stats.held_bytes, 0);
    fixture.remove().await;
}

/// A worker with two threads that may hold 1 MiB and runs a small job until the returned gate opens. Behind that stands
/// a job of 2 MiB, which is larger than all that is allowed.
async fn behind_a_large_job(fixture: &Fixture) -> (Worker, Arc<Semaphore>) {
    let jobs = [NewJob::text("waits"), NewJob::bytes(vec![b' '; 2 << 20])];
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let config = changed(WorkerConfig::default(), |worker| {
        worker.threads = 2;
        worker.max_in_flight_bytes = 1 << 20;
    });
    let gate = Arc::new(Semaphore::new(0));
    let (handler_gate, runtime) = (gate.clone(), tokio::runtime::Handle::current());
    let handlers = Handlers::any(move |job, _| {
        if job.payload() == b"waits" {
            runtime.block_on(handler_gate.acquire())?.forget();
        }
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("the first one runs", || worker.stats().running == 1).await;
    (worker, gate)
}

#[tokio::test(flavor = "multi_thread")]
async fn small_jobs_run_beside_a_long_one_though_the_first_of_the_queue_has_no_room() {
    let fixture = Fixture::new("passed").await;
    let (worker, gate) = behind_a_large_job(&fixture).await;
    fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
    until("the small ones are done", || worker.stats().done == 20).await;
    assert_eq!((worker.stats().running, fixture.job_counts().await.ready), (1, 1));
    gate.add_permits(1);
    until("the large one has run where nothing else was held", || worker.stats().done == 22).await;
    let stats = drained(worker).await.stats;
    assert_eq!((stats.done, stats.lost, stats.held_bytes), (22, 0, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_job_that_another_worker_took_keeps_nobody_waiting() {
    let fixture = Fixture::new("taken").await;
    let (worker, gate) = behind_a_large_job(&fixture).await;
    let mut other = WorkerSession::register(&fixture).await;
    let large = loop {
        match other.claim(1).await.pop() {
            Some(large) => break large,
            None => tokio::time::sleep(Duration::from_millis(5)).await, // it is just being given back
        }
    };
    assert_eq!(large.payload.len(), 2 << 20);
    fixture.queue.enqueue_many(&numbers(2)).await.unwrap();
    until("the next ones are done", || worker.stats().done == 2).await;
    assert_eq!(worker.stats().running, 1);
    other.finish(&[large.done()]).await;
    gate.add_permits(1);
    assert_eq!(drained(worker).await.stats.done, 3);
    fixture.remove().await;
}

/// Enqueues so many jobs at once, by the server itself, whose payloads are `begin` and then spaces, `bytes` in all.
async fn enqueue_by_server(fixture: &Fixture, jobs: usize, begin: &str, bytes: usize) {
    let enqueue = format!(
        "DECLARE @spaces varchar(max) = REPLICATE(CAST(' ' AS varchar(max)), {bytes} - {length}), @left int = {jobs};
         DECLARE @job varbinary(max) = CAST('{begin}' + @spaces AS varbinary(max));
         BEGIN TRANSACTION;
         WHILE @left > 0
         BEGIN
             EXEC [$(schema)].[enqueue] @queue = N'work', @payload = @job;
             SET @left = @left - 1;
         END;
         COMMIT TRANSACTION;",
        length = begin.len(),
    );
    fixture.session().await.sql(&enqueue).await;
}

/// Runs 2,000 jobs of 200 bytes and then `jobs` larger ones, which come all at once, in a process of its own that may
/// hold `limit` bytes. Returns how much its peak of resident memory has grown by the larger ones.
async fn growth_of_peak(options: QueueOptions, limit: usize, jobs: usize, begin: &str, bytes: usize) -> u64 {
    const SMALL: usize = 2_000;
    let fixture = Fixture::on_dev_server("peak", options).await;
    let small = vec![NewJob::text(format!("{:200}", "0 ")); SMALL];
    fixture.queue.enqueue_many(&small).await.unwrap();
    let (limit, ledger) = (limit.to_string(), Arc::new(Ledger::new()));
    // As many as fit are wanted ahead, whatever is known of their run times.
    let settings = [("WORKER_MAX_IN_FLIGHT_BYTES", limit.as_str()), ("WORKER_THREADS", "1"), ("WORKER_BUFFER", "100")];
    let worker = ChildWorker::start(&fixture, &ledger, &settings).await;
    until("the small ones are done", || ledger.lines() == 2 * SMALL).await;
    let before = worker.peak_resident_bytes();
    enqueue_by_server(&fixture, jobs, begin, bytes).await;
    // As long as it takes: the full size takes minutes.
    while ledger.lines() < 2 * (SMALL + jobs) || fixture.job_counts().await.claimed > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let peak = worker.peak_resident_bytes();
    let did = worker.stop().await;
    assert_eq!((did.done, did.lost), ((SMALL + jobs) as u64, 0));
    fixture.remove().await;
    println!("{jobs} of {bytes} bytes, {begin}: {before} bytes at rest, {peak} at the most");
    peak - before
}

/// An eighth of what is reported of the full size. What the allocator keeps of what was freed is allowed for.
const EIGHTH: usize = 8 << 20;
const KEPT: usize = 4 << 20;

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn large_payloads_after_small_ones_take_no_more_memory_than_is_allowed() {
    const JOB: usize = 5_000_000;
    for (delivery, order) in [
        (Delivery::AtLeastOnce, ClaimOrder::Fifo),
        (Delivery::AtLeastOnce, ClaimOrder::Any),
        (Delivery::AtMostOnce, ClaimOrder::Lifo),
    ] {
        let options = QueueOptions::default().delivery(delivery).claim_order(order);
        let growth = growth_of_peak(options, EIGHTH, 12, "20000 ", JOB).await;
        assert!(growth <= (EIGHTH + JOB + KEPT) as u64, "{delivery:?}, {order:?}: {growth} bytes");
    }
}

/// The largest that the library enqueues is 256 MiB; a producer in T-SQL may enqueue 2 GiB.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_larger_than_all_that_is_allowed_comes_alone() {
    const JOB: usize = 37_500_000;
    for delivery in [Delivery::AtLeastOnce, Delivery::AtMostOnce] {
        let options = QueueOptions::default().delivery(delivery);
        // They run for so long that another claim could bring the next.
        let growth = growth_of_peak(options, EIGHTH, 3, "500000 ", JOB).await;
        assert!(growth <= (EIGHTH + JOB + KEPT) as u64, "{delivery:?}: {growth} bytes");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn large_outputs_after_small_ones_take_no_more_memory_than_is_allowed() {
    const OUTPUT: usize = 5_000_000;
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let growth = growth_of_peak(options, EIGHTH, 12, "leave 5000000 ", 20).await;
    assert!(growth <= (EIGHTH + OUTPUT + KEPT) as u64, "{growth} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_large_jobs_ends_before_it_takes_too_much_memory() {
    const JOB: usize = 10_000_000;
    const PAGE: usize = 64 << 20;
    let fixture = Fixture::new("pages").await;
    enqueue_by_server(&fixture, 10, "0 ", JOB).await;
    let small = fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    let (mut after, mut pages, mut ids) = (None, Vec::new(), Vec::new());
    loop {
        let page = fixture.queue.admin().list(&JobState::Ready.into(), after.as_ref(), 1_000).await.unwrap();
        assert!(page.jobs.iter().all(|job| job.payload.len() as u64 == job.payload_bytes), "whole");
        pages.push(page.jobs.iter().map(|job| job.payload.len()).sum::<usize>());
        ids.extend(page.jobs.iter().map(|job| job.job_id));
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    assert_eq!(pages, [PAGE / JOB * JOB, (10 - PAGE / JOB) * JOB + 3, 0]);
    assert!(ids.is_sorted() && ids.len() == 13 && ids.ends_with(&[small[2].job_id]));

    let cut = JobFilter::from(JobState::Ready).cut_at(9_000_000);
    let page = fixture.queue.admin().list(&cut, None, 10).await.unwrap();
    assert_eq!(page.jobs.len(), PAGE / 9_000_000);
    assert!(page.jobs.iter().all(|job| job.payload.len() == 9_000_000 && job.payload_bytes == JOB as u64));
    fixture.remove().await;
}

/// The full size.
///
///     cargo test --test tests bytes_in_flight -- --ignored --nocapture
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes, and 1.3 GB for the stand-in"]
async fn the_full_sizes_take_no_more_memory_than_is_allowed() {
    const LIMIT: usize = 64 << 20;
    const JOB: usize = 40_000_000;
    let options = QueueOptions::default();
    for (jobs, begin, bytes, most) in
        // (The driver makes two copies of an output that it sends.)
        [(30, "20000 ", JOB, JOB), (30, "leave 40000000 ", 20, 2 * JOB), (1, "0 ", 300_000_000, 300_000_000)]
    {
        let options = options.clone().completion(CompletionPolicy::Annotate);
        let growth = growth_of_peak(options, LIMIT, jobs, begin, bytes).await;
        assert!(growth <= (LIMIT + most) as u64, "{begin}{growth} bytes");
    }
}

/// The full size, 4 GB over a link of 20 MB/s, takes some four minutes, and longer where the tests are built without
/// optimization:
///
///     cargo test --test tests bytes_in_flight -- --ignored --nocapture
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn a_process_takes_little_more_memory_than_its_jobs_may() {
    const JOBS: usize = 2_000;
    const JOB: usize = 2_000_000;
    let fixture = Fixture::new("resident").await;
    let proxy = Proxy::start(fixture.url()).await;
    proxy.throttle(20_000_000);
    let (url, limit, ledger) = (proxy.connection_string(), (64 << 20).to_string(), Arc::new(Ledger::new()));
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listen = address.to_string();
    let settings =
        [("URL", url.as_str()), ("WORKER_MAX_IN_FLIGHT_BYTES", limit.as_str()), ("METRICS_LISTEN", listen.as_str())];
    let worker = ChildWorker::start(&fixture, &ledger, &settings).await;
    let (at_start, started_at) = (worker.resident_bytes(), Instant::now());
    // By the server itself, which is faster than the link. The jobs run for a tenth of a second, so that many are
    // wanted ahead.
    let enqueue = format!(
        "DECLARE @spaces varchar(max) = REPLICATE(CAST(' ' AS varchar(max)), {JOB} - 7);
         DECLARE @job varbinary(max) = CAST('100000 ' + @spaces AS varbinary(max));
         EXEC [$(schema)].[enqueue] @queue = N'work', @payload = @job;"
    );
    let mut session = fixture.session().await;
    let enqueuing = tokio::spawn({
        let ledger = ledger.clone();
        async move {
            for number in 0..JOBS {
                // Only so many ahead, because the stand-in keeps them in memory.
                until("there is room", || ledger.lines() / 2 + 200 > number).await;
                session.sql(&enqueue).await;
            }
        }
    });
    let mut most = 0;
    while ledger.lines() < 2 * JOBS {
        most = most.max(worker.resident_bytes());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    enqueuing.await.unwrap();
    let (_, text) = get(address, "/metrics").await;
    println!("resident: {at_start} bytes at the start, {most} at the most; {:?}", started_at.elapsed());
    assert!(!text.contains("timed_out"), "{text}");
    assert!(most < 128 << 20, "{most} bytes are resident");
    assert_eq!(worker.stop().await.done, JOBS as u64);
    fixture.remove().await;
}
