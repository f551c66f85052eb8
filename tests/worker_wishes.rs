//! What operators ask of a running worker: its next heartbeat delivers it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use readpast::admin::{Asked, Wish, WorkerRow, WorkerWish};
use readpast::config::WorkerConfig;
use readpast::{Bottleneck, BoxError, Context, Error, Handlers, Job, KindOptions, Needs, NewJob, Queue, Worker};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::support::{Fixture, WorkerSession, changed, numbers, until};

fn named(name: &str, threads: usize) -> WorkerConfig {
    changed(WorkerConfig::default(), |worker| {
        worker.name = name.to_owned();
        worker.threads = threads;
        worker.heartbeat_interval = Duration::from_millis(100);
        worker.poll_max = Duration::from_millis(20);
    })
}

async fn start(queue: &Queue, config: &WorkerConfig, handlers: Handlers) -> Worker {
    Worker::builder(queue, handlers).config(config).start().await.unwrap()
}

fn no_op() -> Handlers {
    Handlers::any(|_, _| Ok(()))
}

/// Handlers that wait for a permit, and count how many run.
fn gated(gate: &Arc<Semaphore>, running: &Arc<AtomicUsize>) -> Handlers {
    let (gate, running) = (gate.clone(), running.clone());
    Handlers::any(move |_: &Job, context: &Context| -> Result<(), BoxError> {
        running.fetch_add(1, Ordering::SeqCst);
        context.block_on(gate.acquire())?.forget();
        running.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    })
}

async fn ask(queue: &Queue, worker: &str, wish: Wish) {
    let asked = queue.admin().ask_workers(&WorkerWish::new(worker, wish)).await.unwrap();
    assert!(!asked.is_empty(), "{worker}: {wish}");
}

async fn listed(queue: &Queue) -> Vec<WorkerRow> {
    queue.admin().workers(Duration::ZERO).await.unwrap()
}

/// Waits until SQL Server shows that the only worker has been told, and returns what it was asked.
async fn delivered(queue: &Queue) -> Asked {
    loop {
        let asked = listed(queue).await[0].asked;
        if asked.is_delivered {
            return asked;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_worker_finishes_what_it_has_and_claims_nothing_until_it_is_resumed() {
    let fixture = Fixture::new("quiet").await;
    let (gate, running) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let worker = start(&fixture.queue, &named("a", 2), gated(&gate, &running)).await;
    fixture.queue.enqueue_many(&numbers(2)).await.unwrap();
    until("both run", || running.load(Ordering::SeqCst) == 2).await;
    ask(&fixture.queue, "a", Wish::Quiet).await;
    let asked = delivered(&fixture.queue).await;
    assert!(asked.quiet && asked.to_string() == "quiet", "{asked}");
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    gate.add_permits(1_000);
    until("they are done", || worker.stats().done == 2).await;
    until("it says why it is idle", || worker.stats().limited_by == Bottleneck::Quiet).await;
    assert_eq!((worker.stats().buffered, worker.stats().running), (0, 0));
    assert_eq!(fixture.job_counts().await.ready, 3);

    ask(&fixture.queue, "a", Wish::Resume).await;
    until("the rest is done", || worker.stats().done == 5).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_and_fewer_jobs_run_at_once() {
    let fixture = Fixture::new("threads").await;
    let (gate, running) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let worker = start(&fixture.queue, &named("a", 2), gated(&gate, &running)).await;
    fixture.queue.enqueue_many(&numbers(40)).await.unwrap();
    let are_running = |count| running.load(Ordering::SeqCst) == count;
    until("two run", || are_running(2)).await;
    ask(&fixture.queue, "a", Wish::Threads(5)).await;
    until("five run, of which two began before", || are_running(5)).await;
    let threads = async || listed(&fixture.queue).await[0].resources.as_ref().and_then(|has| has.get("threads"));
    while threads().await != Some(5) {
        tokio::time::sleep(Duration::from_millis(5)).await; // the next heartbeat reports it
    }
    ask(&fixture.queue, "a", Wish::Threads(1)).await;
    assert_eq!(delivered(&fixture.queue).await.threads, Some(1));
    gate.add_permits(4);
    until("four of five have ended, and none has followed", || worker.stats().done == 4).await;
    assert!(are_running(1));
    for done in 5..10 {
        gate.add_permits(1);
        until("one after the other runs", || worker.stats().done == done).await;
        until("the next runs", || are_running(1)).await;
    }
    ask(&fixture.queue, "a", Wish::Threads(0)).await;
    until("as many as configured run", || are_running(2)).await;
    while threads().await != Some(2) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(delivered(&fixture.queue).await.threads, None);
    gate.add_permits(1_000);
    until("all are done", || worker.stats().done == 40).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_needs_more_threads_than_are_left_gets_all_of_them() {
    let fixture = Fixture::new("threads_needed").await;
    let handlers = Handlers::new()
        .kind("large", |_: &Job, _: &Context| Ok(()))
        .options("large", KindOptions::new().needs(Needs::new().threads(4)));
    let worker = start(&fixture.queue, &named("a", 4), handlers).await;
    ask(&fixture.queue, "a", Wish::Threads(2)).await;
    delivered(&fixture.queue).await;
    fixture.queue.enqueue(&NewJob::text("").kind("large")).await.unwrap();
    until("it has run", || worker.stats().done == 1).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

/// The program's own pool is not resized, and the worker goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_the_programs_threads_keeps_their_number() {
    let fixture = Fixture::new("threads_shared").await;
    let threads = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let builder = Worker::builder(&fixture.queue, no_op()).config(&named("a", 1)).thread_pool(threads);
    let worker = builder.start().await.unwrap();
    ask(&fixture.queue, "a", Wish::Threads(3)).await;
    delivered(&fixture.queue).await;
    fixture.queue.enqueue_many(&numbers(10)).await.unwrap();
    until("they are done", || worker.stats().done == 10).await;
    let row = &listed(&fixture.queue).await[0];
    assert_eq!(row.resources.as_ref().and_then(|has| has.get("threads")), Some(1));
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_asked_to_stop_ends_in_order() {
    let fixture = Fixture::new("stop").await;
    let (gate, running) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let worker = start(&fixture.queue, &named("a", 1), gated(&gate, &running)).await;
    fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
    until("one runs", || running.load(Ordering::SeqCst) == 1).await;
    let ended = tokio::spawn(worker.run());
    ask(&fixture.queue, "a", Wish::Stop).await;
    delivered(&fixture.queue).await;
    gate.add_permits(1);
    let summary = ended.await.unwrap().unwrap();
    assert!(summary.ended_in_order && summary.cut_off == 0, "{summary:?}");
    assert_eq!((summary.stats.done, fixture.job_counts().await.ready), (1, 19));
    let counted = "SELECT COUNT(*) AS n FROM [$(schema)].[jobs] WHERE attempt > 0";
    assert_eq!(fixture.session().await.number(counted).await, 0, "none of them counts an attempt");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn debug_messages_begin_and_end_with_the_programs_hook() {
    let fixture = Fixture::new("debug").await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hook = heard.clone();
    let builder = Worker::builder(&fixture.queue, no_op()).config(&named("a", 1));
    let worker = builder.on_debug(move |begins| hook.lock().unwrap().push(begins)).start().await.unwrap();
    ask(&fixture.queue, "a", Wish::Debug(Duration::from_secs(600))).await;
    until("it begins", || *heard.lock().unwrap() == [true]).await;
    assert!(delivered(&fixture.queue).await.debug_left > Duration::from_secs(500));
    ask(&fixture.queue, "a", Wish::Debug(Duration::from_millis(1))).await; // a second
    until("it ends by itself", || *heard.lock().unwrap() == [true, false]).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_panics_stops_the_worker() {
    let fixture = Fixture::new("debug_panic").await;
    let builder = Worker::builder(&fixture.queue, no_op()).config(&named("a", 1));
    let worker = builder.on_debug(|_| panic!("the hook")).start().await.unwrap();
    ask(&fixture.queue, "a", Wish::Debug(Duration::from_secs(600))).await;
    let error = worker.run().await.unwrap_err();
    assert!(matches!(&error, Error::Panicked { message, .. } if message == "the hook"), "{error}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_loses_its_lease_keeps_what_it_was_asked_and_one_that_starts_again_does_not() {
    let fixture = Fixture::new("wish_lost").await;
    let worker = start(&fixture.queue, &named("a", 2), no_op()).await;
    ask(&fixture.queue, "a", Wish::Quiet).await;
    ask(&fixture.queue, "a", Wish::Threads(1)).await;
    delivered(&fixture.queue).await;
    let first = listed(&fixture.queue).await[0].worker_id;
    let mut session = fixture.session().await;
    session.sql("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()").await;
    let again = loop {
        match listed(&fixture.queue).await.into_iter().find(|worker| worker.worker_id != first) {
            Some(worker) => break worker,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert!(again.asked.quiet && again.asked.threads == Some(1), "{:?}", again.asked);
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    until("it is still quiet", || worker.stats().limited_by == Bottleneck::Quiet).await;
    assert_eq!(fixture.job_counts().await.ready, 3);
    worker.shutdown().await.unwrap();

    let worker = start(&fixture.queue, &named("a", 2), no_op()).await;
    until("it claims", || worker.stats().done == 3).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_by_name_holds_for_workers_that_start_later() {
    let fixture = Fixture::new("by_name").await;
    let queue = &fixture.queue;
    let worker = start(queue, &named("a", 2), no_op()).await;
    let other = start(queue, &named("b", 2), no_op()).await;
    let by_name = |wish| WorkerWish::new("a", wish).by_name();
    for wish in [Wish::Quiet, Wish::Threads(1)] {
        let asked = queue.admin().ask_workers(&by_name(wish)).await.unwrap();
        assert_eq!(asked.iter().map(|worker| &*worker.name).collect::<Vec<_>>(), ["a"]);
    }
    worker.shutdown().await.unwrap();
    let worker = start(queue, &named("a", 2), no_op()).await;
    let rows = listed(queue).await;
    assert!(rows[0].asked.quiet && rows[0].asked.threads == Some(1), "{rows:?}");
    assert!(rows[1].asked.is_nothing());
    other.shutdown().await.unwrap();
    queue.enqueue_many(&numbers(3)).await.unwrap();
    until("it starts quiet", || worker.stats().limited_by == Bottleneck::Quiet).await;

    // Resumed without the name: this one, not the next.
    ask(queue, "a", Wish::Resume).await;
    until("it claims", || worker.stats().done == 3).await;
    worker.shutdown().await.unwrap();
    let worker = start(queue, &named("a", 2), no_op()).await;
    assert!(listed(queue).await[0].asked.quiet);
    worker.shutdown().await.unwrap();

    // No worker runs: only those that start later are asked.
    for wish in [Wish::Resume, Wish::Threads(0)] {
        assert_eq!(queue.admin().ask_workers(&by_name(wish)).await.unwrap(), []);
    }
    let mut session = fixture.session().await;
    assert_eq!(session.number("SELECT COUNT_BIG(*) FROM [$(schema)].[name_wishes]").await, 0);
    let worker = start(queue, &named("a", 2), no_op()).await;
    assert!(listed(queue).await[0].asked.is_nothing());
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_names_one_of_several_workers_with_a_name() {
    let fixture = Fixture::new("wish_id").await;
    let workers =
        [start(&fixture.queue, &named("a", 1), no_op()).await, start(&fixture.queue, &named("a", 1), no_op()).await];
    let rows = listed(&fixture.queue).await;
    ask(&fixture.queue, &rows[1].worker_id.to_string(), Wish::Quiet).await;
    let quiet: Vec<bool> = listed(&fixture.queue).await.iter().map(|worker| worker.asked.quiet).collect();
    assert_eq!(quiet, [false, true]);
    let both = fixture.queue.admin().ask_workers(&WorkerWish::new("a", Wish::Quiet).of_all_queues()).await.unwrap();
    assert_eq!(both.len(), 2);
    for worker in workers {
        worker.shutdown().await.unwrap();
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_worker_s_drain_ends_with_the_queue() {
    let fixture = Fixture::new("quiet_drain").await;
    let worker = start(&fixture.queue, &named("a", 1), no_op()).await;
    ask(&fixture.queue, "a", Wish::Quiet).await;
    until("it is quiet", || worker.stats().limited_by == Bottleneck::Quiet).await;
    worker.drain().await.unwrap();
    fixture.remove().await;
}

/// Three workers are replaced one after the other under load: quiet, then stopped when they hold nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_is_replaced_one_by_one_while_jobs_flow() {
    const JOBS: u32 = 3_000;
    let fixture = Fixture::new("fleet_replaced").await;
    let queue = &fixture.queue;
    let (done, retried) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let handlers = || {
        let (done, retried) = (done.clone(), retried.clone());
        Handlers::any(move |job: &Job, _: &Context| -> Result<(), BoxError> {
            std::thread::sleep(Duration::from_micros(200));
            retried.fetch_add(usize::from(job.attempt() != 1), Ordering::SeqCst);
            done.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    };
    let mut fleet = Vec::new();
    for name in ["a", "b", "c"] {
        fleet.push((name, start(queue, &named(name, 1), handlers()).await));
    }
    let produced = tokio::spawn({
        let queue = queue.clone();
        async move {
            for some in numbers(JOBS).chunks(50) {
                queue.enqueue_many(some).await.unwrap();
            }
        }
    });
    for (name, worker) in std::mem::take(&mut fleet) {
        ask(queue, name, Wish::Quiet).await;
        let held = async || {
            listed(queue).await.iter().find(|row| row.name == name).map(|row| (row.held, row.asked.is_delivered))
        };
        while held().await != Some((0, true)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ask(queue, name, Wish::Stop).await;
        let summary = worker.run().await.unwrap();
        assert!(summary.ended_in_order && summary.stats.released == 0, "{summary:?}");
        fleet.push((name, start(queue, &named(name, 1), handlers()).await));
    }
    produced.await.unwrap();
    until("all are done", || done.load(Ordering::SeqCst) >= JOBS as usize).await;
    for (_, worker) in fleet {
        worker.shutdown().await.unwrap();
    }
    assert_eq!((done.load(Ordering::SeqCst), retried.load(Ordering::SeqCst)), (JOBS as usize, 0));
    assert_eq!(fixture.job_counts().await, Default::default());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wish_that_cannot_be_is_refused() {
    let fixture = Fixture::new("wish_refused").await;
    let worker = start(&fixture.queue, &named("a", 1), no_op()).await;
    let mut session = fixture.session().await;
    for (parameters, allowed) in [
        ("@worker = N'a'", "one of quiet, stop, threads and debug_s"),
        ("@worker = N'a', @stop = 0", "stop must be 1 or NULL"),
        ("@worker = N'a', @stop = 1, @by_name = 1", "stop cannot be combined with by_name"),
        ("@worker = N'a', @threads = 1025", "threads is 1025; it must be 0 (as configured) to 1024"),
        ("@worker = N'a', @threads = -1", "threads is -1"),
        ("@worker = N'a', @debug_s = 86401", "debug_s is 86401; it must be 0 to 86400 (a day)"),
        ("@worker = NULL, @quiet = 1", "worker must be the id or the name"),
        ("@worker = N'A', @quiet = 1", "no running worker has the name or the id A"),
        ("@worker = N'50%', @queue = N'work', @quiet = 1", "no running worker of work has the name or the id 50%"),
        ("@worker = N'a', @queue = N'none', @quiet = 1", "none"),
        ("@worker = N'nobody', @quiet = 1, @by_name = 1", "no running worker has the name"),
    ] {
        let (_, error) = session.refusal(&format!("EXEC [$(schema)].[worker_wish] {parameters}")).await;
        assert!(error.contains(allowed), "{parameters}: {error}");
    }
    let quiet = "BEGIN TRANSACTION; EXEC [$(schema)].[worker_wish] @worker = N'a', @quiet = 1";
    let (_, error) = session.refusal(quiet).await;
    assert!(error.contains("would block heartbeats inside a transaction"), "{error}");
    assert!(listed(&fixture.queue).await[0].asked.is_nothing());
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

/// A worker in another language gets the wishes with its registration and its heartbeats.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_row_of_a_heartbeat_has_the_wishes() {
    let fixture = Fixture::new("wish_row").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let name = listed(&fixture.queue).await[0].name.clone();
    ask(&fixture.queue, &name, Wish::Threads(7)).await;
    assert!(!listed(&fixture.queue).await[0].asked.is_delivered);
    let mut call = worker.session.procedure("heartbeat");
    call.bind_param("@worker_id", worker.id);
    let row = &worker.session.call(call).await[0];
    assert_eq!((row.get::<i32, _>("threads"), row.get::<bool, _>("quiet")), (Some(7), Some(false)));
    assert!(listed(&fixture.queue).await[0].asked.is_delivered);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_lost_when_it_is_asked_by_name_follows_when_it_registers_anew() {
    let fixture = Fixture::new("asked_lost").await;
    let mut session = fixture.session().await;
    let register = |id: Uuid, more: &str| {
        format!(
            "EXEC [$(schema)].[register_worker] @queue = N'work', @worker_id = '{id}', @name = N'a', @lease_ms = 60000{more}"
        )
    };
    let [old, new] = [Uuid::new_v4(), Uuid::new_v4()];
    session.sql(&register(old, "")).await;
    session.sql("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()").await;
    let asked = session.sql("EXEC [$(schema)].[worker_wish] @worker = N'a', @quiet = 1, @by_name = 1").await;
    assert!(asked.is_empty(), "no worker runs: {asked:?}");
    let row = session.row(&register(new, &format!(", @replaces = '{old}'"))).await;
    assert_eq!(row.get::<bool, _>("quiet"), Some(true));
    fixture.remove().await;
}
