//! Networks that cut, reset, stall, crawl and deliver late: a worker reconnects, and nothing is lost or run twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use readpast::admin::{CompletionPolicy, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{Handlers, NewJob, Queue, Worker};
use readpast_devserver::SqlError;
use tokio::sync::Semaphore;

use crate::support::blocked::{BlockedWorker, blocked_worker};
use crate::support::counted::{assert_each_once, counting_worker, drained};
use crate::support::proxy::Proxy;
use crate::support::{Fixture, changed, dev_server, number, until};

/// A fixture, and a queue that reaches it by a proxy, with a command time-out of a second.
async fn through_proxy(test_name: &str) -> (Fixture, Proxy, Queue) {
    through_proxy_with(test_name, QueueOptions::default()).await
}

/// The same with another command time-out.
async fn through_proxy_of(test_name: &str, command_timeout: Duration) -> (Fixture, Proxy, Queue) {
    let fixture = Fixture::new(test_name).await;
    let proxy = Proxy::start(fixture.url()).await;
    let mut config = fixture.config.clone();
    config.connection.url = proxy.connection_string().into();
    config.connection.command_timeout = command_timeout;
    let queue = Queue::connect(&config).await.unwrap();
    (fixture, proxy, queue)
}

async fn through_proxy_with(test_name: &str, options: QueueOptions) -> (Fixture, Proxy, Queue) {
    let fixture = Fixture::with(test_name, options).await;
    let proxy = Proxy::start(fixture.url()).await;
    let mut config = fixture.config.clone();
    config.connection.url = proxy.connection_string().into();
    config.connection.connect_timeout = Duration::from_secs(1);
    config.connection.command_timeout = Duration::from_secs(1);
    let queue = Queue::connect(&config).await.unwrap();
    (fixture, proxy, queue)
}

/// A lease that outlasts every fault but those that are meant to outlast it.
fn long_lease() -> WorkerConfig {
    changed(WorkerConfig::default(), |worker| {
        worker.lease = Duration::from_secs(60);
        worker.heartbeat_interval = Duration::from_millis(300);
    })
}

fn jobs(count: usize) -> Vec<NewJob> {
    (0..count).map(|number| NewJob::text(format!("{number:0500}"))).collect()
}

/// Runs 60 jobs while one call of `procedure` meets a fault.
async fn one_fault(test_name: &str, procedure: &str, set: impl Fn(&Proxy)) {
    let (fixture, proxy, queue) = through_proxy(test_name).await;
    let (worker, runs) = counting_worker(&queue, &long_lease()).await;
    if procedure == "finish" {
        set(&proxy);
        fixture.queue.enqueue_many(&jobs(60)).await.unwrap();
    } else {
        // The trap must meet the claim that finds them, not one that finds nothing.
        fixture.queue.admin().pause().await.unwrap();
        fixture.queue.enqueue_many(&jobs(60)).await.unwrap();
        fixture.queue.admin().resume().await.unwrap();
        set(&proxy);
    }
    until("the fault has happened", || proxy.has_sprung()).await;
    let connections = proxy.connections();
    let summary = drained(worker).await;
    assert!(proxy.connections() > connections || procedure == "heartbeat", "the broken connection was not used again");
    assert_each_once(&runs, 60);
    assert_eq!((summary.stats.done, summary.stats.lost), (60, 0), "{procedure}");
    let left = fixture.sql("SELECT COUNT(*) AS jobs FROM [$(schema)].[jobs]").await;
    assert_eq!(number(&left[0], "jobs"), 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_breaks_off_is_given_back_and_its_jobs_are_run_once() {
    for bytes in [0, 1, 700, 3_000] {
        one_fault("claim_answer", "claim", |proxy| proxy.reset_answer("claim", bytes)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_breaks_off_is_made_again() {
    for bytes in [0, 20] {
        one_fault("claim_request", "claim", |proxy| proxy.reset_request("claim", bytes)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finish_whose_answer_breaks_off_is_repeated_and_recognised() {
    for bytes in [0, 1, 20] {
        one_fault("finish_answer", "finish", |proxy| proxy.reset_answer("finish", bytes)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finish_that_breaks_off_is_repeated() {
    for bytes in [0, 200] {
        one_fault("finish_request", "finish", |proxy| proxy.reset_request("finish", bytes)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_answer_that_stalls_its_connection_is_not_used_again() {
    for procedure in ["claim", "finish"] {
        let (fixture, proxy, queue) = through_proxy("stalls").await;
        fixture.queue.enqueue_many(&jobs(60)).await.unwrap();
        proxy.stall_answer(procedure, 30);
        let (worker, runs) = counting_worker(&queue, &long_lease()).await;
        until("the answer stalls", || proxy.has_sprung()).await;
        let connections = proxy.connections();
        until("another connection is made", || proxy.connections() > connections).await;
        // The rest of the answer comes after all, and nobody takes it for that of a later call.
        proxy.resume();
        fixture.queue.enqueue_many(&jobs(60)).await.unwrap();
        let summary = drained(worker).await;
        assert_each_once(&runs, 120);
        assert_eq!((summary.stats.done, summary.stats.lost), (120, 0), "{procedure}");
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_arrives_long_after_it_was_given_up_is_found_again() {
    let (fixture, proxy, queue) = through_proxy("late_claim").await;
    fixture.queue.enqueue_many(&jobs(10)).await.unwrap();
    proxy.stall_request("claim");
    let (worker, runs) = counting_worker(&queue, &long_lease()).await;
    until("the first ten are run by other claims", || runs.lock().len() == 10).await;
    // The looks at once and after the command time-out have found nothing by now.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    fixture.queue.admin().pause().await.unwrap();
    fixture.queue.enqueue_many(&jobs(10)).await.unwrap();
    let mut session = fixture.session().await;
    let held = "SELECT COUNT(*) AS jobs FROM [$(schema)].[jobs] WHERE state = 2";
    session.sql("UPDATE [$(schema)].[queues] SET paused = 0").await;
    proxy.resume();
    let summary = drained(worker).await;
    assert_each_once(&runs, 20);
    assert_eq!((summary.stats.done, summary.stats.lost), (20, 0));
    assert_eq!(session.number(held).await, 0);
    fixture.remove().await;
}

/// Its jobs are given back although no thread is free for what another claim could bring.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_arrives_late_at_a_worker_without_room_is_given_back_while_its_jobs_run() {
    let (fixture, proxy, queue) = through_proxy("late_and_full").await;
    fixture.queue.enqueue_many(&jobs(2)).await.unwrap();
    proxy.stall_request("claim");
    let gate = Arc::new(Semaphore::new(0));
    let (handler_gate, runtime) = (gate.clone(), tokio::runtime::Handle::current());
    let config = changed(long_lease(), |worker| {
        worker.threads = 1;
        worker.batch_size = 1;
        worker.finish_batch_size = 1;
        worker.max_in_flight = 1;
    });
    let handlers = Handlers::any(move |_, _| {
        runtime.block_on(handler_gate.acquire()).unwrap().forget();
        Ok(())
    });
    let worker = Worker::builder(&queue, handlers).config(&config).start().await.unwrap();
    until("it runs one job", || worker.stats().running == 1).await;
    proxy.resume();
    until("the first claim has arrived", || proxy.has_answered_late()).await;
    let mut session = fixture.session().await;
    let given_back = "SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE state = 0 AND attempt = 0 AND fence = 1";
    let give_up = Instant::now() + Duration::from_secs(30);
    while session.number(given_back).await != 1 {
        assert!(Instant::now() < give_up, "the other job stays claimed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(worker.stats().running, 1);
    gate.add_permits(2);
    assert_eq!(drained(worker).await.stats.done, 2);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_for_lost_jobs_that_arrives_late_takes_nothing_from_the_worker() {
    let (fixture, proxy, queue) = through_proxy("late_recover").await;
    proxy.reset_answer("claim", 0);
    proxy.stall_request("recover");
    let gate = Arc::new(Semaphore::new(0));
    let starts = Arc::new(AtomicUsize::new(0));
    let (handler_gate, counted, runtime) = (gate.clone(), starts.clone(), tokio::runtime::Handle::current());
    fixture.queue.enqueue_many(&jobs(10)).await.unwrap();
    let handlers = Handlers::any(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        runtime.block_on(handler_gate.acquire()).unwrap().forget();
        Ok(())
    });
    let worker = Worker::builder(&queue, handlers)
        .config(&changed(long_lease(), |worker| {
            worker.threads = 1;
            worker.buffer = 20;
        }))
        .start()
        .await
        .unwrap();
    // The look that was given up was repeated, and the jobs claimed again.
    until("it holds them all", || worker.stats().running == 1 && worker.stats().buffered == 9).await;
    assert!(proxy.has_sprung());
    proxy.resume();
    until("the first look has arrived", || proxy.has_answered_late()).await;
    assert_eq!(fixture.job_counts().await.claimed, 10, "nothing was given back");
    gate.add_permits(100);
    let stats = drained(worker).await.stats;
    assert_eq!((stats.done, stats.lost, starts.load(Ordering::Relaxed)), (10, 0, 10));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finish_that_did_not_arrive_is_lost_and_not_done_when_the_job_was_given_to_another_meanwhile() {
    let (fixture, proxy, queue) = through_proxy("elsewhere").await;
    fixture.queue.enqueue_many(&jobs(1)).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let (handler_gate, runtime) = (gate.clone(), tokio::runtime::Handle::current());
    // By its own clock, its lease lasts to the end.
    let one = changed(long_lease(), |worker| {
        worker.batch_size = 1;
        worker.max_in_flight = 1;
        worker.finish_batch_size = 1;
        worker.heartbeat_interval = Duration::from_secs(25);
    });
    let handlers = Handlers::any(move |_, _| {
        runtime.block_on(handler_gate.acquire()).unwrap().forget();
        Ok(())
    });
    let cut_off = Worker::builder(&queue, handlers).config(&one).start().await.unwrap();
    until("the job runs", || cut_off.stats().running == 1).await;
    proxy.block();
    gate.add_permits(1);
    until("its result waits", || cut_off.stats().awaiting_finish == 1).await;

    // As when SQL Server's clock jumps, or when the worker's machine was suspended.
    fixture.sql("UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME())").await;
    let elsewhere = changed(WorkerConfig::default(), |worker| worker.reap_interval = Duration::from_millis(100));
    let (other, _) = counting_worker(&fixture.queue, &elsewhere).await;
    assert_eq!(drained(other).await.stats.done, 1);

    proxy.unblock();
    until("the result was sent", || cut_off.stats().awaiting_finish == 0).await;
    assert_eq!((cut_off.stats().done, cut_off.stats().lost), (0, 1));
    cut_off.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_given_back_are_recognised_when_the_answer_is_lost() {
    let (fixture, proxy, queue) = through_proxy("release_answer").await;
    let BlockedWorker { worker, gate, .. } = blocked_worker(&fixture, &queue, long_lease()).await;
    proxy.reset_answer("release", 0);
    let monitor = worker.monitor();
    let ending = tokio::spawn(worker.shutdown());
    until("the nine are given back", || monitor.stats().released + monitor.stats().lost == 9).await;
    assert!(proxy.has_sprung());
    gate.add_permits(1);
    let stats = ending.await.unwrap().unwrap().stats;
    assert_eq!((stats.done, stats.released, stats.lost), (1, 9, 0));
    let ready = fixture.queue.admin().list(&JobState::Ready.into(), None, 100).await.unwrap().jobs;
    assert!(ready.len() == 9 && ready.iter().all(|job| job.attempt == 0), "{ready:?}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_while_the_answer_to_a_claim_is_lost_gives_its_jobs_back_at_once() {
    let (fixture, proxy, queue) = through_proxy("claim_at_the_end").await;
    fixture.queue.enqueue_many(&jobs(60)).await.unwrap();
    proxy.stall_answer("claim", 30);
    let (worker, runs) = counting_worker(&queue, &long_lease()).await;
    until("the answer stalls", || proxy.has_sprung()).await;
    worker.shutdown().await.unwrap();
    assert_eq!(runs.lock().len(), 0);
    let ready = fixture.queue.admin().list(&JobState::Ready.into(), None, 100).await.unwrap().jobs;
    assert!(ready.len() == 60 && ready.iter().all(|job| job.attempt == 0), "{} ready", ready.len());
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().workers, 0);
    fixture.remove().await;
}

/// The claim could go on for longer than the worker may.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_hangs_at_the_shutdown_deadline_has_its_jobs_given_back() {
    let (fixture, proxy, queue) = through_proxy_of("claim_hangs", Duration::from_secs(60)).await;
    fixture.queue.enqueue_many(&jobs(60)).await.unwrap();
    proxy.stall_answer("claim", 30);
    // (Where `READPAST_URL` says another server, no look for them fails.)
    dev_server().await.faults().on_call(&fixture.procedure_to_fail("recover"), |call| {
        (call <= 2).then(|| SqlError::new(1205, "raised by a test").severity(13))
    });
    let config = changed(long_lease(), |worker| worker.shutdown_deadline = Duration::ZERO);
    let (worker, runs) = counting_worker(&queue, &config).await;
    until("the answer stalls", || proxy.has_sprung()).await;
    let summary = worker.shutdown().await.unwrap();
    assert_eq!((runs.lock().len(), summary.ended_in_order, summary.cut_off), (0, false, 0));
    let ready = fixture.queue.admin().list(&JobState::Ready.into(), None, 100).await.unwrap().jobs;
    assert!(ready.len() == 60 && ready.iter().all(|job| job.attempt == 0), "{} ready", ready.len());
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().workers, 0);
    fixture.remove().await;
}

/// With DELAYED_DURABILITY, or after a fail-over that loses data, transactions that were answered can be gone.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_whose_acknowledgement_a_crashed_server_has_forgotten_are_run_again() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let (fixture, proxy, queue) = through_proxy_with("forgotten", options).await;
    fixture.queue.enqueue_many(&jobs(20)).await.unwrap();
    let (worker, runs) = counting_worker(&queue, &long_lease()).await;
    until("all are done", || worker.stats().done == 20).await;
    let forgets = "UPDATE TOP (5) [$(schema)].[jobs] SET state = 2, finished_at = NULL, run_us = NULL WHERE state = 3";
    fixture.sql(forgets).await;
    proxy.cut();
    assert_eq!(drained(worker).await.stats.done, 25);
    assert_eq!(runs.lock().values().filter(|(times, _)| *times == 2).count(), 5);
    assert_eq!(fixture.job_counts().await.done, 20);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_swallows_everything_for_a_while_costs_nothing_but_time() {
    let (fixture, proxy, queue) = through_proxy("swallowed").await;
    fixture.queue.enqueue_many(&jobs(300)).await.unwrap();
    let config = changed(long_lease(), |worker| {
        worker.max_in_flight = 50;
        worker.batch_size = 20;
        worker.finish_batch_size = 20;
    });
    let (worker, runs) = counting_worker(&queue, &config).await;
    until("some have run", || runs.lock().len() > 50).await;
    proxy.stall();
    let connections = proxy.connections();
    until("every call has timed out and others are tried", || proxy.connections() > connections + 4).await;
    let stats = worker.stats();
    assert!(stats.buffered + stats.running + stats.awaiting_finish <= 50, "{stats:?}");
    proxy.resume();
    let summary = drained(worker).await;
    assert_each_once(&runs, 300);
    assert_eq!((summary.stats.done, summary.stats.lost), (300, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_is_gone_for_longer_than_the_lease_costs_the_jobs_in_hand_and_no_more() {
    let (fixture, proxy, queue) = through_proxy("gone").await;
    fixture.queue.enqueue_many(&jobs(5)).await.unwrap();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = parking_lot::Mutex::new(gate);
    let config = changed(WorkerConfig::default(), |worker| {
        worker.threads = 1;
        worker.buffer = 10;
        worker.lease = Duration::from_secs(1);
        worker.heartbeat_interval = Duration::from_millis(200);
    });
    let handlers = Handlers::any(move |_, context| {
        gate.lock().recv_timeout(Duration::from_secs(60))?;
        assert!(context.is_cancelled(), "the context says that there is no more use");
        Ok(())
    });
    let cut_off = Worker::builder(&queue, handlers).config(&config).start().await.unwrap();
    until("it runs one and holds four", || cut_off.stats().running == 1 && cut_off.stats().buffered == 4).await;
    proxy.stall();

    let elsewhere = changed(WorkerConfig::default(), |worker| worker.reap_interval = Duration::from_millis(100));
    let (other, runs) = counting_worker(&fixture.queue, &elsewhere).await;
    assert_eq!(drained(other).await.stats.done, 5);
    assert_eq!(runs.lock().len(), 5);

    proxy.resume();
    let workers = "SELECT COUNT(*) AS n FROM [$(schema)].[workers] WHERE lost_at IS NULL";
    let give_up = Instant::now() + Duration::from_secs(30);
    while number(&fixture.sql(workers).await[0], "n") != 1 {
        assert!(Instant::now() < give_up, "it registers anew");
    }
    release.send(()).unwrap();
    until("its result is refused and the others are dropped", || cut_off.stats().lost == 5).await;
    let summary = cut_off.shutdown().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.lost), (0, 5));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_network_is_only_slow() {
    let (fixture, proxy, queue) = through_proxy("slow").await;
    fixture.queue.enqueue_many(&jobs(200)).await.unwrap();
    proxy.throttle(400_000);
    let (worker, runs) = counting_worker(&queue, &long_lease()).await;
    let summary = drained(worker).await;
    assert_each_once(&runs, 200);
    assert_eq!((summary.stats.done, summary.stats.lost), (200, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_server_is_unreachable_results_are_held_and_the_backlog_is_bounded() {
    let (fixture, proxy, queue) = through_proxy("unreachable").await;
    fixture.queue.enqueue_many(&jobs(200)).await.unwrap();
    let config = changed(long_lease(), |worker| {
        worker.threads = 2;
        worker.buffer = 30;
        worker.max_in_flight = 40;
        worker.batch_size = 40;
        worker.finish_batch_size = 40;
    });
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = parking_lot::Mutex::new(gate);
    let handlers = Handlers::any(move |_, _| {
        gate.lock().recv_timeout(Duration::from_secs(60))?;
        Ok(())
    });
    let worker = Worker::builder(&queue, handlers).config(&config).start().await.unwrap();
    until("jobs run and wait", || worker.stats().running == 2 && worker.stats().buffered > 20).await;
    proxy.block();
    let held = worker.stats().running + worker.stats().buffered;
    for _ in 0..200 {
        release.send(()).unwrap();
    }
    until("all that it held has run", || worker.stats().awaiting_finish == held).await;
    assert!(held <= 40, "{held}");
    assert_eq!((worker.stats().done, worker.stats().running, worker.stats().buffered), (0, 0, 0));
    proxy.unblock();
    let summary = drained(worker).await;
    assert_eq!((summary.stats.done, summary.stats.lost), (200, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_without_the_server_ends_at_its_deadline_and_what_was_held_runs_elsewhere() {
    let (fixture, proxy, queue) = through_proxy("no_server").await;
    fixture.queue.enqueue_many(&jobs(20)).await.unwrap();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = parking_lot::Mutex::new(gate);
    let config = changed(long_lease(), |worker| {
        worker.threads = 1;
        worker.buffer = 20;
        worker.shutdown_deadline = Duration::from_millis(300);
    });
    let handlers = Handlers::any(move |_, _| {
        gate.lock().recv_timeout(Duration::from_secs(60))?;
        Ok(())
    });
    let worker = Worker::builder(&queue, handlers).config(&config).start().await.unwrap();
    until("it holds them all", || worker.stats().running == 1 && worker.stats().buffered == 19).await;
    proxy.block();
    release.send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(30), worker.shutdown()).await.expect("the deadline holds");
    let stats = ended.unwrap().stats;
    assert_eq!((stats.done, stats.released), (0, 0));
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().claimed, 20, "nothing was dropped");
    fixture.sql("UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME())").await;
    let elsewhere = changed(WorkerConfig::default(), |worker| worker.reap_interval = Duration::from_millis(100));
    let (other, runs) = counting_worker(&fixture.queue, &elsewhere).await;
    drained(other).await;
    assert_eq!(runs.lock().len(), 20);
    fixture.remove().await;
}

/// As behind a NAT gateway, which forgets what idles for four minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_forgotten_while_it_idled_costs_no_more_than_a_second() {
    let (fixture, proxy, queue) = through_proxy_of("idle", Duration::from_secs(20)).await;
    queue.enqueue(&NewJob::text("first")).await.unwrap();
    let connections = proxy.connections();
    queue.enqueue(&NewJob::text("soon after")).await.unwrap();
    assert_eq!(proxy.connections(), connections, "a connection that is in use is not made anew");

    let max_idle = Duration::from_millis(50);
    queue.set_max_idle(max_idle);
    proxy.swallow();
    tokio::time::sleep(max_idle * 2).await;
    let started_at = Instant::now();
    queue.enqueue(&NewJob::text("later")).await.unwrap();
    assert!(started_at.elapsed() < Duration::from_secs(1), "{:?}", started_at.elapsed());
    assert_eq!(proxy.connections(), connections + 1);
    assert_eq!(fixture.job_counts().await.ready, 3);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_whose_connections_were_forgotten_waits_for_one_time_limit_and_not_for_each() {
    // The watcher's call is under way when its connection dies, and no shorter limit ends it than its own. What it
    // finds out must be enough for the claim and the acknowledgement, which have connections of their own.
    let limit = Duration::from_secs(5);
    let (fixture, proxy, queue) = through_proxy_of("idle_worker", limit).await;
    let (worker, runs) = counting_worker(&queue, &WorkerConfig::default()).await;
    fixture.queue.enqueue(&NewJob::text("has every connection made")).await.unwrap();
    until("it is done", || worker.stats().done == 1).await;
    proxy.swallow();
    let started_at = Instant::now();
    fixture.queue.enqueue(&NewJob::text("after that")).await.unwrap();
    until("it is done, too", || worker.stats().done == 2).await;
    let took = started_at.elapsed();
    assert!(took < 2 * limit, "{took:?}");
    let summary = drained(worker).await;
    assert_each_once(&runs, 2);
    assert_eq!((summary.stats.done, summary.stats.lost), (2, 0));
    fixture.remove().await;
}

/// The calls that one worker makes for all cannot wait for `command_timeout_ms` on a connection that died without a
/// word.
#[tokio::test(flavor = "multi_thread")]
async fn delayed_jobs_do_not_wait_for_the_command_time_out_of_a_dead_connection() {
    let (fixture, proxy, queue) = through_proxy_of("dead_duties", Duration::from_secs(30)).await;
    let (worker, runs) = counting_worker(&queue, &WorkerConfig::default()).await;
    fixture.queue.enqueue(&NewJob::text("has every connection made")).await.unwrap();
    until("it is done", || worker.stats().done == 1).await;
    proxy.swallow();
    let started_at = Instant::now();
    fixture.queue.enqueue(&NewJob::text("delayed").delay(Duration::from_millis(100))).await.unwrap();
    until("it is done, too", || worker.stats().done == 2).await;
    let took = started_at.elapsed();
    assert!(took < Duration::from_secs(25), "{took:?}");
    let summary = drained(worker).await;
    assert_each_once(&runs, 2);
    assert_eq!((summary.stats.done, summary.stats.lost), (2, 0));
    fixture.remove().await;
}
