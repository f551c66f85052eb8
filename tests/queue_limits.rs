//! A queue's own limits, across all workers: how many jobs are held at once (`max_running`) and how many are claimed in
//! an interval (`rate`). They are never exceeded, and nobody who waits for them waits long or asks often.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use readpast::admin::{ClaimOrder, CompletionPolicy, Delivery, QueueOptions, Rate};
use readpast::{Bottleneck, Error, Handlers, NewJob, Queue, Worker};
use tiberius::Row;

use crate::support::http::get;
use crate::support::{Claimed, Fixture, Session, WorkerSession, bytes, changed, number, numbers, until};

/// What a claim's return status is the sum of.
const ALONE_WAITS: i64 = 1;
const LIMITED: i64 = 2;
const LIMITED_BY_RATE: i64 = 4;

/// Claims by T-SQL; returns how many jobs it got, and the return status.
async fn claim_status(worker: &mut WorkerSession, max: u32) -> (usize, i64) {
    let call = format!(
        "DECLARE @status int; EXEC @status = [$(schema)].[claim] @queue = N'work', @worker_id = '{}', @max = {max};
         SELECT @status AS status",
        worker.id
    );
    let mut results = worker.session.try_sql(&call).await.unwrap();
    let status = number(&results.pop().unwrap()[0], "status");
    (results.iter().map(Vec::len).sum(), status)
}

/// How many handlers run, and how many ever ran at once.
#[derive(Default)]
struct Ledger {
    running: AtomicI64,
    most: AtomicI64,
}

impl Ledger {
    fn run(&self) {
        self.most.fetch_max(self.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(1));
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Four workers with three threads each, which drain the queue.
async fn drain_with_four(fixture: &Fixture) -> Arc<Ledger> {
    let ledger = Arc::new(Ledger::default());
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.threads = 3;
        worker.poll_max = Duration::from_millis(50);
    });
    let mut drains = Vec::new();
    for _ in 0..4 {
        let seen = ledger.clone();
        let handler = Handlers::any(move |_, _| {
            seen.run();
            Ok(())
        });
        let worker = Worker::builder(&fixture.queue, handler).config(&config).start().await.unwrap();
        drains.push(tokio::spawn(worker.drain()));
    }
    for drain in drains {
        drain.await.unwrap().unwrap();
    }
    ledger
}

/// The most jobs that were claimed at one time, until `stop`: counted under a lock that no change passes.
async fn most_claimed(mut session: Session, stop: Arc<AtomicBool>) -> i64 {
    let mut most = 0;
    while !stop.load(Ordering::Relaxed) {
        let claimed = "SELECT COUNT(*) FROM [$(schema)].[jobs] WITH (TABLOCK, HOLDLOCK) WHERE state = 2";
        most = most.max(session.number(claimed).await);
    }
    most
}

/// When jobs were claimed, in milliseconds, in their order.
async fn claim_times(fixture: &Fixture) -> Vec<i64> {
    let times = "SELECT DATEDIFF_BIG(MILLISECOND, '20260101', claimed_at) FROM [$(schema)].[jobs] ORDER BY claimed_at";
    fixture.session().await.numbers(times).await
}

fn assert_within_rate(claimed_at: &[i64], rate: Rate) {
    let interval = rate.interval.as_millis() as i64;
    for window in claimed_at.windows(rate.jobs as usize + 1) {
        let took = window[window.len() - 1] - window[0];
        assert!(took >= interval, "{} jobs within {took} ms", window.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_together_hold_no_more_than_the_queue_allows() {
    let fixture = Fixture::with("max_running", QueueOptions::default().max_running(5)).await;
    fixture.queue.enqueue_many(&numbers(300)).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let sampling = tokio::spawn(most_claimed(fixture.session().await, stop.clone()));
    let ledger = drain_with_four(&fixture).await;
    stop.store(true, Ordering::Relaxed);
    assert_eq!(sampling.await.unwrap(), 5, "the limit is reached and not exceeded");
    assert!(ledger.most.load(Ordering::SeqCst) <= 5);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_no_interval_are_more_claimed_than_the_rate_says() {
    let rate = Rate::new(20, Duration::from_millis(400));
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate).rate(rate);
    let fixture = Fixture::with("rate", options).await;
    fixture.queue.enqueue_many(&numbers(100)).await.unwrap();
    drain_with_four(&fixture).await;
    let claimed_at = claim_times(&fixture).await;
    assert_eq!(claimed_at.len(), 100);
    assert_within_rate(&claimed_at, rate);
    let slots = "SELECT COUNT(*) FROM [$(schema)].[claim_rates]";
    assert!(fixture.session().await.number(slots).await <= 101, "no more than an interval is remembered");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_and_both_limits_hold_together() {
    let rate = Rate::new(30, Duration::from_millis(300));
    let options =
        QueueOptions::default().completion(CompletionPolicy::Annotate).rate(rate).max_running(4).group_limit(2);
    let fixture = Fixture::with("together", options).await;
    let jobs: Vec<NewJob> = (0..120).map(|n| NewJob::text("x").group_key((n % 3).to_string())).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let sampling = tokio::spawn(most_claimed(fixture.session().await, stop.clone()));
    let ledger = drain_with_four(&fixture).await;
    stop.store(true, Ordering::Relaxed);
    assert!(sampling.await.unwrap() <= 4);
    assert!(ledger.most.load(Ordering::SeqCst) <= 4);
    let claimed_at = claim_times(&fixture).await;
    assert_eq!(claimed_at.len(), 120);
    assert_within_rate(&claimed_at, rate);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_says_that_it_was_limited_and_what_is_left_goes_to_the_next() {
    for claim_order in [ClaimOrder::Fifo, ClaimOrder::Lifo, ClaimOrder::Any] {
        let options = QueueOptions::default().claim_order(claim_order).max_running(3);
        let fixture = Fixture::with("status", options).await;
        let mut worker = WorkerSession::register(&fixture).await;
        assert_eq!(claim_status(&mut worker, 10).await, (0, 0), "nothing is kept back");
        let jobs: Vec<NewJob> = (0..5).map(|n| NewJob::text("x").priority(n % 2).dedup_key(n.to_string())).collect();
        fixture.queue.enqueue_many(&jobs).await.unwrap();
        assert_eq!(claim_status(&mut worker, 2).await, (2, 0));
        assert_eq!(claim_status(&mut worker, 2).await, (1, LIMITED));
        assert_eq!(claim_status(&mut worker, 2).await, (0, LIMITED));
        // As it is claimed elsewhere, with its details.
        fixture.queue.admin().create(QueueOptions::default().max_running(10)).await.unwrap();
        let claimed = worker.claim(10).await;
        assert_eq!(claimed.len(), 2);
        assert!(claimed.iter().all(|job| job.attempt == 1 && job.details["dedup_key"].is_string()), "{claimed:?}");
        fixture.queue.admin().create(QueueOptions::default().max_running(None)).await.unwrap();
        fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
        assert_eq!(claim_status(&mut worker, 20).await, (20, 0));
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_slowly_keeps_nobody_from_claiming() {
    let fixture = Fixture::with("slow_reader", QueueOptions::default().max_running(10)).await;
    let large = NewJob::bytes(vec![7; 16 << 20]);
    fixture.queue.enqueue_many(&[large.clone(), large, NewJob::text("small")]).await.unwrap();
    let mut slow = WorkerSession::register(&fixture).await;
    let mut call = slow.session.procedure("claim");
    call.bind_param("@queue", "work");
    call.bind_param("@worker_id", slow.id);
    call.bind_param("@max", 2);
    // More than the buffers of the connection take; nobody reads it.
    let unread = call.exec(&mut slow.session.client).await.unwrap();
    let mut other = WorkerSession::register(&fixture).await;
    let held = "SELECT COUNT(*) FROM [$(schema)].[jobs] WITH (NOLOCK) WHERE state = 2";
    while other.session.number(held).await < 2 {
        tokio::task::yield_now().await;
    }
    let claimed = tokio::time::timeout(Duration::from_secs(20), other.claim(10)).await.expect("nobody waits");
    assert_eq!(claimed.iter().map(|job| job.payload.len()).collect::<Vec<_>>(), ["small".len()]);
    drop(unread);
    drop(slow);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_is_not_committed_counts_as_held_and_a_claim_does_not_wait_for_it() {
    let fixture = Fixture::with("stalled", QueueOptions::default().max_running(2)).await;
    fixture.queue.enqueue_many(&numbers(4)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let held = worker.claim(2).await;
    worker.session.sql("BEGIN TRANSACTION").await;
    worker.finish(&[held[0].done()]).await;
    let mut other = WorkerSession::register(&fixture).await;
    let asked_at = Instant::now();
    assert_eq!(claim_status(&mut other, 10).await, (0, LIMITED));
    assert!(asked_at.elapsed() < Duration::from_secs(10));
    assert_eq!(other.session.number("SELECT @@TRANCOUNT + @@LOCK_TIMEOUT").await, -1, "as the session was");
    worker.session.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(claim_status(&mut other, 10).await, (0, LIMITED), "the end was taken back");
    worker.finish(&[held[0].done()]).await;
    assert_eq!(claim_status(&mut other, 10).await, (1, LIMITED));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_under_way_is_not_waited_for_long() {
    let fixture = Fixture::with("under_way", QueueOptions::default().max_running(2)).await;
    fixture.queue.enqueue_many(&numbers(4)).await.unwrap();
    let mut first = WorkerSession::register(&fixture).await;
    first.session.sql("BEGIN TRANSACTION").await;
    assert_eq!(first.claim(1).await.len(), 1);
    let mut other = WorkerSession::register(&fixture).await;
    assert_eq!(claim_status(&mut other, 10).await, (0, LIMITED_BY_RATE), "what it claims may count");
    first.session.sql("COMMIT TRANSACTION").await;
    assert_eq!(claim_status(&mut other, 10).await, (1, LIMITED));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_claims_at_one_moment_do_not_both_take_the_last_place() {
    let fixture = Fixture::with("last_place", QueueOptions::default().max_running(1)).await;
    let jobs = fixture.queue.enqueue_many(&numbers(2)).await.unwrap();
    // The first claim has counted when it comes to the job that it may not change yet.
    let mut reader = fixture.session().await;
    let read = format!("SELECT 1 FROM [$(schema)].[jobs] WITH (REPEATABLEREAD) WHERE job_id = {}", jobs[0].job_id);
    reader.sql("BEGIN TRANSACTION").await;
    reader.sql(&read).await;
    let mut first = WorkerSession::register(&fixture).await;
    let mut second = WorkerSession::register(&fixture).await;
    let session_id = first.session.number("SELECT @@SPID").await;
    let claiming = tokio::spawn(async move { first.claim(1).await.len() });
    let blocked = format!(
        "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE session_id = {session_id} AND blocking_session_id <> 0"
    );
    while reader.number(&blocked).await == 0 {
        assert!(!claiming.is_finished(), "the first claim waits");
    }
    assert_eq!(claim_status(&mut second, 1).await, (0, LIMITED_BY_RATE));
    reader.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(claiming.await.unwrap(), 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_must_run_alone_is_claimed_alone_within_the_limits() {
    let options = QueueOptions::default().max_attempts(1).max_running(3);
    let fixture = Fixture::with("alone_limited", options).await;
    fixture.queue.enqueue_many(&numbers(2)).await.unwrap();
    let mut lost = WorkerSession::register(&fixture).await;
    assert_eq!(lost.claim(10).await.len(), 2);
    lost.lose(&fixture).await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let alone: Vec<Claimed> = worker.claim_alone(10).await;
    assert_eq!(alone.len(), 1);
    assert_eq!(claim_status(&mut worker, 10).await, (2, LIMITED + ALONE_WAITS));
    assert_eq!(worker.claim_alone(10).await, [], "not above the limit");
    worker.finish(&[alone[0].done()]).await;
    assert_eq!(worker.claim_alone(10).await.len(), 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_gives_nothing_whatever_its_limits() {
    let fixture = Fixture::with("paused_limited", QueueOptions::default().max_running(3)).await;
    fixture.queue.enqueue_many(&numbers(2)).await.unwrap();
    fixture.queue.admin().pause().await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(claim_status(&mut worker, 10).await, (0, 0));
    fixture.queue.admin().resume().await.unwrap();
    assert_eq!(claim_status(&mut worker, 10).await, (2, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_is_remembered_for_an_interval_whoever_claims_and_whatever_the_clock_does() {
    let fixture =
        Fixture::with("remembered", QueueOptions::default().rate(Rate::new(3, Duration::from_secs(3_600)))).await;
    fixture.queue.enqueue_many(&numbers(9)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(claim_status(&mut worker, 2).await, (2, 0));
    let mut other = WorkerSession::register(&fixture).await;
    assert_eq!(claim_status(&mut other, 9).await, (1, LIMITED_BY_RATE));
    assert_eq!(claim_status(&mut worker, 9).await, (0, LIMITED_BY_RATE));
    // An hour and a slot later.
    let back = "UPDATE [$(schema)].[claim_rates] SET slot_ms = slot_ms - 3636000";
    fixture.sql(back).await;
    assert_eq!(claim_status(&mut worker, 9).await, (3, LIMITED_BY_RATE));
    // From before the clock was set back by a day.
    fixture.sql("UPDATE [$(schema)].[claim_rates] SET slot_ms = slot_ms + 86400000").await;
    assert_eq!(claim_status(&mut worker, 9).await, (3, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_has_no_room_for_takes_nothing_of_the_rate() {
    for (order, in_order) in [(ClaimOrder::Fifo, [0, 1, 2, 3]), (ClaimOrder::Lifo, [3, 2, 1, 0])] {
        let options = QueueOptions::default().claim_order(order).rate(Rate::new(4, Duration::from_secs(3_600)));
        let fixture = Fixture::with("withheld", options).await;
        let sizes = [10, 20, 5_000, 30];
        let mut jobs: Vec<NewJob> = sizes.iter().map(|bytes| NewJob::bytes(vec![b' '; *bytes])).collect();
        if order == ClaimOrder::Lifo {
            jobs.reverse();
        }
        fixture.queue.enqueue_many(&jobs).await.unwrap();
        let worker = WorkerSession::register(&fixture).await;
        let mut session = fixture.session().await;
        let claim = format!(
            "EXEC [$(schema)].[claim] @queue = N'work', @worker_id = '{}', @max = 9, @max_payload_bytes = 1000",
            worker.id
        );
        let rows: Vec<Row> = session.try_sql(&claim).await.unwrap().into_iter().flatten().collect();
        let mut payloads: Vec<(i64, Vec<u8>)> =
            rows.iter().map(|row| (number(row, "job_id"), bytes(row, "payload").unwrap())).collect();
        payloads.sort();
        let payloads = in_order.map(|place: usize| payloads[place].1.clone());
        let length = |bytes: u64| bytes.to_be_bytes().to_vec();
        assert_eq!(payloads, [vec![b' '; 10], vec![b' '; 20], length(5_000), length(30)], "{order:?}");
        let counted = "SELECT SUM(claimed) AS number FROM [$(schema)].[claim_rates]";
        assert_eq!(session.number(counted).await, 2, "{order:?}");

        // Where they may pass it, those behind it are jobs like any other.
        let give_back = "UPDATE [$(schema)].[jobs] SET state = 0, worker_id = NULL; DELETE [$(schema)].[claim_rates]";
        session.sql(give_back).await;
        let rows = session.try_sql(&format!("{claim}, @passes = 1")).await.unwrap().into_iter().flatten();
        let mut payloads: Vec<Vec<u8>> = rows.map(|row| bytes(&row, "payload").unwrap()).collect();
        payloads.sort_by_key(Vec::len);
        assert_eq!(payloads, [length(5_000), vec![b' '; 10], vec![b' '; 20], vec![b' '; 30]], "{order:?}");
        assert_eq!(session.number(counted).await, 3, "{order:?}");
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_claims_again_when_its_own_end_makes_room() {
    let fixture = Fixture::with("room", QueueOptions::default().max_running(1)).await;
    fixture.queue.enqueue_many(&numbers(6)).await.unwrap();
    // Whoever waits for any of these does not come to the fourth job in half a minute.
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.poll_min = Duration::from_secs(60);
        worker.poll_max = Duration::from_secs(60);
        worker.finish_linger = Duration::from_secs(10);
    });
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    until("all are done", || monitor.stats().done == 6).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_the_limits_keep_from_jobs_says_so_and_asks_seldom() {
    let fixture = Fixture::new("seldom").await;
    let mut config = fixture.config.clone();
    config.queue.name = "limited".to_string();
    config.metrics.listen = "127.0.0.1:0".to_string();
    let queue = Queue::connect(&config).await.unwrap();
    queue.admin().create(QueueOptions::default().rate(Rate::new(1, Duration::from_secs(86_400)))).await.unwrap();
    let address = queue.serve_metrics().await.unwrap().expect("the port is free");
    queue.enqueue_many(&numbers(10)).await.unwrap();
    let worker_config = changed(config.worker.clone(), |worker| {
        worker.poll_min = Duration::from_millis(1);
        worker.poll_max = Duration::from_millis(200);
    });
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).config(&worker_config).start().await.unwrap();
    let monitor = worker.monitor();
    until("the limit is told", || monitor.stats().limited_by == Bottleneck::QueueLimit).await;
    until("the one job is done", || monitor.stats().done == 1).await;

    let calls = async |procedure: &str| -> f64 {
        let series = format!("readpast_call_seconds_count{{queue=\"limited\",procedure=\"{procedure}\"}} ");
        let (_, text) = get(address, "/metrics").await;
        text.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).unwrap_or(0.0)
    };
    // Nor does it ask without a pause where one of the jobs must run alone.
    fixture.sql("UPDATE TOP (1) [$(schema)].[jobs] SET alone = 1 WHERE state = 0").await;
    let (before, since) = (calls("claim").await, Instant::now());
    // What is enqueued meanwhile is no reason to ask.
    while since.elapsed() < Duration::from_secs(1) {
        queue.enqueue(&NewJob::text("more")).await.unwrap();
    }
    let asked = calls("claim").await - before;
    let allowed = since.elapsed().as_millis() as f64 / 100.0 + 1.0; // half of poll_max_ms at the least
    assert!(asked <= allowed, "{asked} claims, {allowed} at the most");
    assert_eq!(calls("await_jobs").await, 0.0, "it knows that there are jobs");
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_are_not_allowed_are_refused() {
    let fixture = Fixture::new("refused_limits").await;
    let second = Duration::from_secs(1);
    let options = QueueOptions::default;
    for refused in [
        options().max_running(0),
        options().max_running(100_001),
        options().rate(Rate::new(0, second)),
        options().rate(Rate::new(1, Duration::from_millis(99))),
        options().rate(Rate::new(1, Duration::from_secs(86_401))),
        options().delivery(Delivery::AtMostOnce).max_running(1),
        options().delivery(Delivery::AtMostOnce).rate(Rate::new(1, second)),
    ] {
        let answer = fixture.queue.admin().create(refused.clone()).await;
        assert!(matches!(answer, Err(Error::Refused { .. })), "{refused:?}: {answer:?}");
    }
    let mut session = fixture.session().await;
    for parameters in ["@max_running = -1", "@rate_jobs = 1", "@rate_jobs = -1, @rate_ms = 1000", "@rate_ms = 1000"] {
        let call = format!("EXEC [$(schema)].[create_queue] @queue = N'work', {parameters}");
        assert_eq!(session.refusal(&call).await.0, 58003, "{parameters}");
    }
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.max_running, stats.rate), (None, None));

    let rate = Rate::new(7, Duration::from_secs(60));
    fixture.queue.admin().create(options().max_running(8).rate(rate)).await.unwrap();
    fixture.queue.admin().create(options().max_attempts(2)).await.unwrap();
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.max_running, stats.rate), (Some(8), Some(rate)), "they stay");
    // One of the two is still there.
    let at_most_once = || options().delivery(Delivery::AtMostOnce);
    let answer = fixture.queue.admin().create(at_most_once().max_running(None)).await;
    assert!(matches!(answer, Err(Error::Refused { .. })), "{answer:?}");
    fixture.queue.admin().create(options().rate(None)).await.unwrap();
    fixture.queue.admin().create(at_most_once().max_running(None)).await.unwrap();
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.max_running, stats.rate), (None, None));
    fixture.remove().await;
}
