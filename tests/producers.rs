//! Producers whose calls fail: what certainly has not arrived is sent again, what may have arrived is said to be in
//! doubt, and no job is added a second time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use readpast::admin::QueueOptions;
use readpast::{Error, NewJob, Queue};
use readpast_devserver::DevServer;
use readpast_devserver::SqlError;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::support::proxy::Proxy;
use crate::support::{Fixture, dev_server, until};

const PLAIN: fn() -> NewJob = || NewJob::text("x");
const KEYED: fn() -> NewJob = || NewJob::text("x").dedup_key("k");

/// A fixture, and a queue that reaches it by a proxy, with a command time-out of two seconds.
async fn through_proxy(test_name: &str) -> (Fixture, Proxy, Queue) {
    let fixture = Fixture::new(test_name).await;
    let proxy = Proxy::start(fixture.url()).await;
    let mut config = fixture.config.clone();
    config.connection.url = proxy.connection_string().into();
    config.connection.connect_timeout = Duration::from_secs(1);
    config.connection.command_timeout = Duration::from_secs(2);
    let queue = Queue::connect(&config).await.unwrap();
    queue.admin().pause().await.unwrap(); // the version is checked, so that the next call is the producer's
    (fixture, proxy, queue)
}

#[tokio::test]
async fn without_an_answer_a_job_is_in_doubt_and_is_not_sent_again() {
    let (fixture, proxy, queue) = through_proxy("in_doubt").await;
    for (arrives, jobs_in_queue) in [(false, 0), (true, 1)] {
        let job = PLAIN();
        match arrives {
            true => proxy.reset_answer("enqueue", 0),
            false => proxy.reset_request("enqueue", 0),
        }
        let error = queue.enqueue(&job).await.unwrap_err();
        assert!(matches!(&error, Error::EnqueueInDoubt { jobs: 1, cause, .. } if cause.is_transient()), "{error}");
        assert!(!error.is_transient(), "the same call might add a second job");
        assert_eq!(fixture.job_counts().await.ready, jobs_in_queue);
    }
    drop(queue);
    fixture.remove().await;
}

#[tokio::test]
async fn a_job_with_a_key_is_sent_again_and_is_there_once() {
    let (fixture, proxy, queue) = through_proxy("keyed_again").await;
    proxy.reset_request("enqueue", 0);
    let first = queue.enqueue(&NewJob::text("x").dedup_key("has not arrived")).await.unwrap();
    assert!(!first.duplicate);
    proxy.reset_answer("enqueue", 0);
    let second = queue.enqueue(&NewJob::text("x").dedup_key("has arrived")).await.unwrap();
    assert!(second.duplicate, "of itself");
    assert_eq!(fixture.job_counts().await.ready, 2);

    proxy.reset_answer("enqueue_batch", 0);
    let keyed: Vec<NewJob> = (0..10).map(|number| NewJob::text("x").dedup_key(number.to_string())).collect();
    assert_eq!(queue.enqueue_many(&keyed).await.unwrap().len(), 10);
    proxy.reset_answer("enqueue_batch", 0);
    let one_without: Vec<NewJob> = keyed.into_iter().chain([PLAIN()]).collect();
    let error = queue.enqueue_many(&one_without).await.unwrap_err();
    assert!(matches!(error, Error::EnqueueInDoubt { jobs: 11, .. }), "{error}");
    assert_eq!(fixture.job_counts().await.ready, 2 + 10 + 1);
    drop(queue);
    fixture.remove().await;
}

/// A restarted server, a fail-over: the connections that idle are dead, and it takes a while until there are others.
#[tokio::test]
async fn while_no_connection_can_be_made_nothing_is_in_doubt() {
    let (fixture, proxy, queue) = through_proxy("no_connection").await;
    proxy.block();
    until("the connections are closed", || proxy.is_closed()).await;
    let producer = tokio::spawn({
        let queue = queue.clone();
        async move { queue.enqueue(&PLAIN()).await }
    });
    until("it has tried more than once", || proxy.refused() >= 3).await;
    proxy.unblock();
    producer.await.unwrap().unwrap();
    assert_eq!(fixture.job_counts().await.ready, 1);

    proxy.block();
    until("the connections are closed", || proxy.is_closed()).await;
    let error = queue.enqueue(&PLAIN()).await.unwrap_err();
    assert!(error.is_transient() && !matches!(error, Error::EnqueueInDoubt { .. }), "{error}");
    assert_eq!(fixture.job_counts().await.ready, 1);
    drop(queue);
    fixture.remove().await;
}

/// What the documentation promises: the command time-out, and a second where a call was sent late. Here with another
/// one for a busy machine.
const LONGEST: Duration = Duration::from_millis(1_000 + 1_000 + 1_000);

#[tokio::test(flavor = "multi_thread")]
async fn in_an_outage_every_caller_hears_in_time_whether_its_job_was_sent() {
    const CALLERS: u32 = 60; // for eight connections
    let server = DevServer::start().await.unwrap();
    let mut fixture = Fixture::on(&server, "outage", QueueOptions::default()).await;
    fixture.config.connection.command_timeout = Duration::from_secs(1);
    let queue = fixture.connect().await;
    queue.enqueue(&PLAIN()).await.unwrap();
    server.faults().freeze();
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let queue = queue.clone();
        callers.spawn(async move {
            let began_at = Instant::now();
            let result = match number % 2 {
                0 => queue.enqueue(&PLAIN()).await.map(|_| ()),
                _ => queue.enqueue_many(&[PLAIN()]).await.map(|_| ()), // shares no call with others
            };
            (result, began_at.elapsed())
        });
    }
    let (mut in_doubt, mut without_connection, mut connecting) = (0, 0, 0);
    while let Some(ended) = callers.join_next().await {
        let (result, took) = ended.unwrap();
        let error = result.unwrap_err();
        assert!(took < LONGEST, "{took:?}: {error}");
        match &error {
            Error::EnqueueInDoubt { jobs: 1, .. } => in_doubt += 1,
            Error::NoFreeConnection { .. } => without_connection += 1,
            Error::TimedOut { call, .. } if call.starts_with("connecting to ") => connecting += 1,
            other => panic!("{other}"),
        }
        assert!(error.is_transient() || matches!(error, Error::EnqueueInDoubt { .. }));
    }
    assert_eq!(in_doubt, 1, "of the one that had a connection");
    assert!(connecting >= 7 && without_connection > 0, "{connecting} {without_connection}");
    server.faults().thaw();
    queue.enqueue(&PLAIN()).await.unwrap();
    let ready = fixture.job_counts().await.ready;
    assert!((2..=2 + in_doubt).contains(&ready), "{ready} jobs: only what was in doubt may be there");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_pauses_before_another_try_keeps_no_connection_from_others() {
    const CALLERS: usize = 16; // for eight connections
    let fixture = Fixture::on_dev_server("pauses", QueueOptions::default()).await;
    let procedure = fixture.procedure_to_fail("enqueue");
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    dev_server().await.faults().on_call(&procedure, move |_| {
        counted.fetch_add(1, Ordering::AcqRel);
        Some(SqlError::new(1205, "deadlock victim").severity(13))
    });
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let queue = fixture.queue.clone();
        callers.spawn(async move { queue.enqueue_many(&[PLAIN()]).await });
    }
    until("the callers' pauses are long", || calls.load(Ordering::Acquire) >= 6 * CALLERS).await;
    let began_at = Instant::now();
    for _ in 0..10 {
        fixture.queue.admin().stats(None).await.unwrap();
    }
    assert!(began_at.elapsed() < Duration::from_secs(2), "{:?}", began_at.elapsed());
    dev_server().await.faults().clear(&procedure);
    while let Some(enqueued) = callers.join_next().await {
        assert_eq!(enqueued.unwrap().unwrap().len(), 1);
    }
    assert_eq!(fixture.job_counts().await.ready, CALLERS as i64);
    fixture.remove().await;
}

#[tokio::test]
async fn without_an_answer_in_time_jobs_with_keys_are_sent_once_more_and_others_are_in_doubt() {
    let (fixture, proxy, queue) = through_proxy("timed_out").await;
    let keyed = |key: &str| [NewJob::text("x").dedup_key(format!("{key} 1")), NewJob::text("x").dedup_key(key)];
    let longest = Duration::from_millis(2_000) + LONGEST;

    // A line that has died without a word.
    proxy.stall_request("enqueue_batch");
    let began_at = Instant::now();
    let enqueued = queue.enqueue_many(&keyed("has not arrived")).await.unwrap();
    assert!(began_at.elapsed() < longest && !enqueued.iter().any(|enqueued| enqueued.duplicate), "{enqueued:?}");
    assert_eq!(fixture.job_counts().await.ready, 2);

    proxy.stall_answer("enqueue_batch", 0);
    let enqueued = queue.enqueue_many(&keyed("has arrived")).await.unwrap();
    assert!(enqueued.iter().all(|enqueued| enqueued.duplicate), "of themselves: {enqueued:?}");
    assert_eq!(fixture.job_counts().await.ready, 4);

    // One job without a key, and all of them are not to be sent again.
    proxy.stall_answer("enqueue_batch", 0);
    let mixed: Vec<NewJob> = keyed("of a mixed call").into_iter().chain([PLAIN()]).collect();
    let began_at = Instant::now();
    let error = queue.enqueue_many(&mixed).await.unwrap_err();
    assert!(matches!(&error, Error::EnqueueInDoubt { jobs: 3, cause, .. } if cause.is_transient()), "{error}");
    assert!((Duration::from_millis(1_900)..longest).contains(&began_at.elapsed()), "all the time is the first try's");
    assert_eq!(fixture.job_counts().await.ready, 4 + 3);

    // Nor is there an end of doubt when the second try fails, too.
    proxy.stall_request("enqueue");
    proxy.stall_request("enqueue");
    let error = queue.enqueue(&KEYED()).await.unwrap_err();
    assert!(matches!(&error, Error::EnqueueInDoubt { jobs: 1, .. }), "{error}");
    assert!(proxy.has_sprung(), "it was sent twice");
    drop(queue);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_only_enqueues_closes_the_connections_that_it_no_longer_needs() {
    let (fixture, proxy, queue) = through_proxy("idle").await;
    queue.set_max_idle(Duration::from_millis(100));
    for _ in 0..2 {
        let before = proxy.connections();
        let mut callers = JoinSet::new();
        for _ in 0..8 {
            let queue = queue.clone();
            callers.spawn(async move { queue.enqueue(&PLAIN()).await });
        }
        while let Some(enqueued) = callers.join_next().await {
            enqueued.unwrap().unwrap();
        }
        assert!(proxy.connections() > before, "there were connections");
        until("all are closed", || proxy.is_closed()).await;
    }
    drop(queue);
    fixture.remove().await;
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Makes a call in a runtime, ends that, and makes the call again in another one.
fn in_an_ended_runtime_and_then(other: &Runtime, fixture: &Fixture, call: impl AsyncFn(&Queue) -> bool) {
    let ended = runtime();
    let queue = ended.block_on(fixture.connect());
    assert!(ended.block_on(call(&queue)));
    drop(ended);
    assert!(other.block_on(call(&queue)));
}

/// A worker has a runtime of its own, in which its handlers enqueue, and which ends with it.
#[test]
fn a_connection_is_not_used_after_the_end_of_the_runtime_that_it_was_made_in() {
    let base = runtime();
    let fixture = base.block_on(Fixture::new("ended_runtime"));
    in_an_ended_runtime_and_then(&base, &fixture, async |queue| queue.enqueue(&PLAIN()).await.is_ok());
    in_an_ended_runtime_and_then(&base, &fixture, async |queue| queue.admin().stats(None).await.is_ok());
    base.block_on(async {
        assert_eq!(fixture.job_counts().await.ready, 2);
        fixture.remove().await;
    });
}

/// A program that makes a runtime for each call, as `#[tokio::main]` around parts of a program does.
#[test]
fn idle_connections_are_closed_on_a_second_runtime_too() {
    let (base, first) = (runtime(), runtime());
    let (fixture, proxy, queue) = base.block_on(through_proxy("runtimes"));
    queue.set_max_idle(Duration::from_millis(100));
    base.block_on(async { until("the first are closed", || proxy.is_closed()).await });
    first.block_on(queue.enqueue(&PLAIN())).unwrap();
    drop(first);
    base.block_on(async {
        queue.enqueue(&PLAIN()).await.unwrap();
        until("they are closed", || proxy.is_closed()).await;
        drop(queue);
        fixture.remove().await;
    });
}

/// Errors are raised on demand: on the dev server, whatever `READPAST_URL` says.
#[tokio::test]
async fn errors_that_pass_and_have_undone_the_call_are_waited_out() {
    let mut fixture = Fixture::on_dev_server("deadlocks", QueueOptions::default()).await;
    let procedure = fixture.procedure_to_fail("enqueue");
    let victim = || SqlError::new(1205, "deadlock victim").severity(13);
    dev_server().await.faults().on_call(&procedure, move |call| (call <= 3).then(victim));
    assert!(!fixture.queue.enqueue(&PLAIN()).await.unwrap().duplicate);
    assert_eq!(fixture.job_counts().await.ready, 1);

    dev_server().await.faults().on_call(&procedure, move |_| Some(victim()));
    fixture.config.connection.command_timeout = Duration::from_secs(1);
    let error = fixture.connect().await.enqueue(&PLAIN()).await.unwrap_err();
    assert!(error.is_transient() && error.sql_number() == Some(1205), "{error}");

    // What does not pass is not repeated, and what speaks of the server does not say whether the job was added.
    let calls = |number, severity| {
        let error = SqlError::new(number, "raised by a test").severity(severity);
        dev_server_faults(&procedure, error)
    };
    calls(50_000, 16).await;
    let error = fixture.queue.enqueue(&PLAIN()).await.unwrap_err();
    assert_eq!(error.sql_number(), Some(50_000));
    assert!(!error.is_transient() && !matches!(error, Error::EnqueueInDoubt { .. }), "{error}");
    calls(40_197, 17).await;
    let error = fixture.queue.enqueue(&PLAIN()).await.unwrap_err();
    assert!(matches!(error, Error::EnqueueInDoubt { jobs: 1, .. }), "{error}");
    assert_eq!(fixture.job_counts().await.ready, 1);
    // The job is the caller's still.
    let job = KEYED();
    calls(40_197, 17).await;
    assert!(!fixture.queue.enqueue(&job).await.unwrap().duplicate);
    assert!(fixture.queue.enqueue(&job).await.unwrap().duplicate);
    // What comes of a second try says nothing about the first.
    dev_server().await.faults().on_call(&procedure, |call| {
        let (number, severity) = if call == 1 { (40_197, 17) } else { (50_000, 16) };
        Some(SqlError::new(number, "raised by a test").severity(severity))
    });
    let error = fixture.queue.enqueue(&job).await.unwrap_err();
    assert!(matches!(error, Error::EnqueueInDoubt { .. }) && error.sql_number() == Some(40_197), "{error}");
    fixture.remove().await;
}

/// Lets the next call of a procedure fail.
async fn dev_server_faults(procedure: &str, error: SqlError) {
    dev_server().await.faults().on_call(procedure, move |call| (call == 1).then(|| error.clone()));
}

#[tokio::test]
async fn of_many_jobs_the_error_says_how_many_are_in_the_queue_and_how_many_in_doubt() {
    let fixture = Fixture::on_dev_server("in_part", QueueOptions::default()).await;
    let jobs: Vec<NewJob> = (0..2_500).map(|_| PLAIN()).collect();
    let procedure = fixture.procedure_to_fail("enqueue_batch");
    let busy = || SqlError::new(40_501, "the service is busy").severity(20);
    dev_server().await.faults().on_call(&procedure, move |call| (call == 3).then(busy));
    let error = fixture.queue.enqueue_many(&jobs).await.unwrap_err();
    assert!(!error.is_transient(), "the same call would add the first ones again");
    let Error::EnqueuedInPart { enqueued, cause, .. } = error else { panic!("{error}") };
    assert_eq!(enqueued.len(), 2_000);
    assert!(matches!(*cause, Error::EnqueueInDoubt { jobs: 500, .. }), "{cause}");
    assert_eq!(fixture.job_counts().await.ready, 2_000);
    fixture.remove().await;
}

#[tokio::test]
async fn one_job_that_cannot_be_enqueued_keeps_all_from_being_sent() {
    let fixture = Fixture::new("one_invalid").await;
    let mut jobs: Vec<NewJob> = (0..1_500).map(|_| PLAIN()).collect();
    jobs.push(PLAIN().kind("two words"));
    let error = fixture.queue.enqueue_many(&jobs).await.unwrap_err();
    assert!(
        matches!(&error, Error::InvalidJob { reason, .. } if reason.starts_with("jobs[1500]: kind is 'two words'")),
        "{error}"
    );
    assert_eq!(fixture.job_counts().await.ready, 0);
    fixture.remove().await;
}
