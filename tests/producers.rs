//! Producers whose calls fail: what certainly has not arrived is sent again, what may have arrived is said to be in
//! doubt, and no job is added a second time.

use std::time::Duration;

use readpast::{Error, NewJob, Queue, QueueOptions};
use readpast_devserver::error::SqlError;

use crate::support::proxy::Proxy;
use crate::support::{Fixture, dev_server, server_url, until};

const PLAIN: fn() -> NewJob = || NewJob::text("x");
const KEYED: fn() -> NewJob = || NewJob::text("x").dedup_key("k");

/// A fixture, and a queue that reaches it by a proxy, with a command time-out of two seconds.
async fn through_proxy(test_name: &str) -> (Fixture, Proxy, Queue) {
    let fixture = Fixture::new(test_name).await;
    let proxy = Proxy::start(&server_url().await).await;
    let mut config = fixture.config.clone();
    config.connection.url = proxy.connection_string().into();
    config.connection.connect_timeout_ms = 1_000;
    config.connection.command_timeout_ms = 2_000;
    let queue = Queue::connect(&config).await.unwrap();
    queue.pause().await.unwrap(); // the version is checked, so that the next call is the producer's
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
    tokio::time::sleep(Duration::from_millis(300)).await; // some tries meanwhile
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

/// Errors are raised on demand: on the dev server, whatever `READPAST_URL` says.
#[tokio::test]
async fn errors_that_pass_and_have_undone_the_call_are_waited_out() {
    let mut fixture = Fixture::on(dev_server().await, "deadlocks", QueueOptions::default()).await;
    let procedure = format!("{}.enqueue", fixture.schema());
    let victim = || SqlError::new(1205, "deadlock victim").severity(13);
    dev_server().await.faults().on_call(&procedure, move |call| (call <= 3).then(victim));
    assert!(!fixture.queue.enqueue(&PLAIN()).await.unwrap().duplicate);
    assert_eq!(fixture.job_counts().await.ready, 1);

    dev_server().await.faults().on_call(&procedure, move |_| Some(victim()));
    fixture.config.connection.command_timeout_ms = 1_000;
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
    fixture.remove().await;
}

/// Lets the next call of a procedure fail.
async fn dev_server_faults(procedure: &str, error: SqlError) {
    dev_server().await.faults().on_call(procedure, move |call| (call == 1).then(|| error.clone()));
}

#[tokio::test]
async fn of_many_jobs_the_error_says_how_many_are_in_the_queue_and_how_many_in_doubt() {
    let fixture = Fixture::on(dev_server().await, "in_part", QueueOptions::default()).await;
    let jobs: Vec<NewJob> = (0..2_500).map(|_| PLAIN()).collect();
    let procedure = format!("{}.enqueue_batch", fixture.schema());
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
