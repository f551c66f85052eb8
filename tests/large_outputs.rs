//! Outputs that a link cannot carry in time: the others do not wait for them, and their jobs fail with that as the
//! error. An output that only needs more than one try, or a server that comes back, arrives once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use readpast::admin::{CompletionPolicy, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{Handlers, NewJob, Output, Queue, Worker};
use readpast_devserver::SqlError;
use tokio::sync::Semaphore;

use crate::support::proxy::Proxy;
use crate::support::{Fixture, changed, dev_server, until};

/// Over a driver's limit for a list, so that it goes by itself.
const LARGE: usize = 100_000;

/// A fixture whose jobs stay, with their outputs, and die of their first failure; and a queue that reaches it by a
/// proxy, with a command time-out of a second.
async fn through_proxy(test_name: &str) -> (Fixture, Proxy, Queue) {
    let completion = CompletionPolicy::Annotate;
    let options = QueueOptions::default().completion(completion).max_attempts(1);
    let fixture = Fixture::with(test_name, options).await;
    let proxy = Proxy::start(fixture.url()).await;
    let mut config = fixture.config.clone();
    config.connection.url = proxy.connection_string().into();
    config.connection.connect_timeout = Duration::from_secs(1);
    config.connection.command_timeout = Duration::from_secs(1);
    let queue = Queue::connect(&config).await.unwrap();
    (fixture, proxy, queue)
}

/// The same on the dev server, whatever `READPAST_URL` says, without a proxy and with more attempts.
async fn on_dev_server(test_name: &str) -> (Fixture, Queue) {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let fixture = Fixture::on_dev_server(test_name, options).await;
    let mut config = fixture.config.clone();
    config.connection.command_timeout = Duration::from_secs(1);
    let queue = Queue::connect(&config).await.unwrap();
    (fixture, queue)
}

/// A worker whose jobs' outputs have as many bytes as their payloads say. Each job waits for a permit.
async fn gated_worker(queue: &Queue) -> (Worker, Arc<Semaphore>) {
    let config = changed(WorkerConfig::default(), |worker| {
        worker.threads = 2;
        worker.lease = Duration::from_secs(60);
        worker.heartbeat_interval = Duration::from_millis(300);
    });
    let gate = Arc::new(Semaphore::new(0));
    let (handler_gate, runtime) = (gate.clone(), tokio::runtime::Handle::current());
    let handlers = Handlers::any(move |job, _| {
        runtime.block_on(handler_gate.acquire())?.forget();
        match job.json::<usize>()? {
            0 => Ok(None),
            bytes => Ok(Some(Output::bytes(vec![7; bytes]))),
        }
    });
    let worker = Worker::builder(queue, handlers).config(&config).start();
    (worker.await.unwrap(), gate)
}

/// The same without the waiting.
async fn worker(queue: &Queue) -> Worker {
    let (worker, gate) = gated_worker(queue).await;
    gate.add_permits(Semaphore::MAX_PERMITS);
    worker
}

fn job(output_bytes: usize) -> NewJob {
    NewJob::json(&output_bytes).unwrap()
}

/// The outputs of the jobs that are done, and the errors of those that are dead.
async fn ended(fixture: &Fixture) -> (Vec<usize>, Vec<String>) {
    let mut done = fixture.queue.admin().list(&JobState::Done.into(), None, 1_000).await.unwrap().jobs;
    done.sort_by_key(|job| job.job_id);
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 1_000).await.unwrap().jobs;
    let output = |output: Option<Vec<u8>>| output.map_or(0, |bytes| bytes.len());
    let errors = dead.into_iter().map(|job| job.error.unwrap_or_default()).collect();
    (done.into_iter().map(|job| output(job.output)).collect(), errors)
}

async fn shut_down(worker: Worker) -> readpast::WorkerStats {
    let ending = tokio::time::timeout(Duration::from_secs(30), worker.shutdown());
    ending.await.expect("nothing is left to wait for").unwrap().stats
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_that_cannot_be_sent_in_time_fail_their_jobs_and_hold_up_no_others() {
    const TOO_LARGE: usize = 12_000_000;
    let (fixture, proxy, queue) = through_proxy("undeliverable").await;
    fixture.queue.enqueue_many(&[job(TOO_LARGE), job(TOO_LARGE)]).await.unwrap();
    proxy.throttle(1_500_000); // eight seconds each, of which the sockets' buffers take some
    let worker = worker(&queue).await;
    until("both outputs are on their way", || worker.stats().awaiting_finish == 2).await;
    fixture.queue.enqueue_many(&(0..400).map(|_| job(0)).collect::<Vec<_>>()).await.unwrap();
    // (A job counts as done just before it leaves memory.)
    until("the others are acknowledged, and gone, while the two are still being tried", || {
        let stats = worker.stats();
        (stats.done, stats.awaiting_finish, stats.held_bytes) == (400, 2, 2 * TOO_LARGE)
    })
    .await;
    until("the two have failed", || worker.stats().dead == 2).await;

    let held = worker.stats().lease_held;
    let stats = shut_down(worker).await;
    assert_eq!((stats.done, stats.dead, stats.lost, stats.held_bytes, held), (400, 2, 0, 0, true));
    let (done, errors) = ended(&fixture).await;
    assert_eq!(done.len(), 400);
    let error = "the output of 12000000 bytes could not be delivered in 5 tries of 1000 ms";
    assert_eq!(errors, [error, error]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_over_the_limit_is_not_sent_and_its_job_is_dead_at_once() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let fixture = Fixture::with("over_the_limit", options).await;
    fixture.queue.enqueue(&job(0)).await.unwrap();
    let too_large = (256 << 20) + 1;
    let handlers = Handlers::any(move |_, _| Ok(Output::bytes(vec![0; too_large])));
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    until("it is dead", || worker.stats().dead == 1).await;
    assert_eq!(shut_down(worker).await.retried, 0, "another attempt would end in the same way");
    let error = "the output is 268435457 bytes; it must be at most 268435456 (256 MiB)";
    assert_eq!(ended(&fixture).await, (vec![], vec![error.to_string()]));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_fails_no_output() {
    let (fixture, proxy, queue) = through_proxy("away").await;
    fixture.queue.enqueue(&job(LARGE)).await.unwrap();
    let (worker, gate) = gated_worker(&queue).await;
    until("it runs", || worker.stats().running == 1).await;
    proxy.stall();
    gate.add_permits(1);
    let connections = proxy.connections();
    until("every call was tried again and again", || proxy.connections() >= connections + 12).await;
    assert_eq!((worker.stats().awaiting_finish, worker.stats().done), (1, 0));
    proxy.resume();
    until("it arrives", || worker.stats().done == 1).await;
    let stats = shut_down(worker).await;
    assert_eq!((stats.done, stats.dead, stats.lost), (1, 0, 0));
    assert_eq!(ended(&fixture).await, (vec![LARGE], vec![]));
    fixture.remove().await;
}

/// It lets everybody log in and then answers nothing, as when its disks hang; what was called meanwhile is undone.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_fails_no_output() {
    let (fixture, queue) = on_dev_server("hangs").await;
    let hangs = Arc::new(AtomicBool::new(true));
    let tries = Arc::new(AtomicU64::new(0));
    for procedure in ["finish_one", "heartbeat"] {
        let (hangs, tries) = (hangs.clone(), tries.clone());
        dev_server().await.faults().on_call(&fixture.procedure_to_fail(procedure), move |call| {
            if procedure == "finish_one" {
                tries.store(call, Ordering::Relaxed);
            }
            let has_hung = hangs.load(Ordering::Relaxed);
            while hangs.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            has_hung.then(|| SqlError::new(40501, "busy").severity(16))
        });
    }
    fixture.queue.enqueue(&job(LARGE)).await.unwrap();
    let worker = worker(&queue).await;
    until("the output was tried as often as it may, and once more", || tries.load(Ordering::Relaxed) >= 6).await;
    hangs.store(false, Ordering::Relaxed);
    until("it arrives", || worker.stats().done == 1).await;
    let stats = shut_down(worker).await;
    assert_eq!((stats.retried, stats.dead, stats.lost), (0, 0, 0));
    assert_eq!(ended(&fixture).await, (vec![LARGE], vec![]));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_needs_another_try_arrives_once() {
    for lost in ["request", "answer", "late answer", "late request"] {
        let (fixture, proxy, queue) = through_proxy("again").await;
        match lost {
            "request" => proxy.reset_request("finish_one", 50),
            "answer" => proxy.reset_answer("finish_one", 0),
            "late answer" => proxy.stall_answer("finish_one", 0),
            _ => proxy.stall_request("finish_one"),
        }
        fixture.queue.enqueue_many(&[job(LARGE), job(0)]).await.unwrap();
        let worker = worker(&queue).await;
        until("both are done", || worker.stats().done + worker.stats().lost == 2).await;
        assert!(proxy.has_sprung());
        let stats = shut_down(worker).await;
        assert_eq!((stats.done, stats.dead, stats.retried, stats.lost), (2, 0, 0, 0), "{lost}");
        assert_eq!(ended(&fixture).await, (vec![LARGE, 0], vec![]), "{lost}");
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_for_large_outputs() {
    let (fixture, proxy, queue) = through_proxy("flushed").await;
    proxy.reset_request("finish_one", 50);
    fixture.queue.enqueue_many(&[job(LARGE), job(LARGE)]).await.unwrap();
    let worker = worker(&queue).await;
    until("both have run", || worker.stats().awaiting_finish + worker.stats().done as usize == 2).await;
    let stats = shut_down(worker).await;
    assert_eq!((stats.done, stats.awaiting_finish), (2, 0));
    assert_eq!(ended(&fixture).await, (vec![LARGE, LARGE], vec![]));
    fixture.remove().await;
}

/// Each output fits into a list, but not all of them into a call.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_a_slow_link_does_not_carry_in_time_goes_in_parts() {
    const SMALL: usize = 60_000;
    let (fixture, proxy, queue) = through_proxy("parts").await;
    fixture.queue.enqueue_many(&(0..120).map(|_| job(SMALL)).collect::<Vec<_>>()).await.unwrap();
    proxy.throttle(1_000_000); // seven seconds for all of them
    let worker = worker(&queue).await;
    until("all are acknowledged", || worker.stats().done == 120).await;
    let stats = shut_down(worker).await;
    assert_eq!((stats.done, stats.dead, stats.retried, stats.lost), (120, 0, 0, 0));
    assert_eq!(ended(&fixture).await, (vec![SMALL; 120], vec![]));
    fixture.remove().await;
}

/// The output is not the reason when the row itself is locked, however often its acknowledgement runs out of time. How
/// often it did is counted by the dev server.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_locked_for_long_fails_no_output() {
    let (fixture, queue) = on_dev_server("locked").await;
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    dev_server().await.faults().on_call(&fixture.procedure_to_fail("finish_one"), move |call| {
        counted.store(call, Ordering::Relaxed);
        None
    });
    fixture.queue.enqueue_many(&[job(LARGE), job(0)]).await.unwrap();
    let (worker, gate) = gated_worker(&queue).await;
    until("both run", || worker.stats().running == 2).await;
    let mut other = fixture.session().await;
    other.sql("BEGIN TRANSACTION").await;
    other.sql("UPDATE [$(schema)].[jobs] SET due_at = due_at WHERE state = 2").await;
    gate.add_permits(2);
    until("the output was tried more often than it may", || calls.load(Ordering::Relaxed) >= 6).await;
    assert_eq!(worker.stats().awaiting_finish, 2);
    other.sql("ROLLBACK TRANSACTION").await;
    until("both are done", || worker.stats().done == 2).await;
    let stats = shut_down(worker).await;
    assert_eq!((stats.retried, stats.dead, stats.lost), (0, 0, 0));
    assert_eq!(ended(&fixture).await, (vec![LARGE, 0], vec![]));
    fixture.remove().await;
}
