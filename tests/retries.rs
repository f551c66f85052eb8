//! Failed jobs come back until their attempts are used up; then they are dead, with the last error, until they are
//! requeued.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use readpast::admin::{JobChange, JobState, QueueOptions};
use readpast::{Handlers, JobError, NewJob, Worker};

use crate::support::Fixture;

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_job_is_tried_as_often_as_allowed_then_dead_with_its_last_error() {
    let options = QueueOptions::default().max_attempts(3);
    let fixture = Fixture::with("retries", options).await;
    fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let seen = attempts.clone();
    let handlers = Handlers::any(move |job, _| {
        seen.lock().push((job.attempt(), job.is_last_attempt()));
        Err::<(), _>(JobError::retry(format!("failure {}", job.attempt())).into())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let summary = worker.drain().await.unwrap();
    assert_eq!(*attempts.lock(), [(1, false), (2, false), (3, true)]);
    assert_eq!((summary.stats.done, summary.stats.retried, summary.stats.dead), (0, 2, 1));
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs;
    assert_eq!(dead[0].error.as_deref(), Some("failure 3"));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_s_own_maximum_overrides_the_queue_s() {
    let fixture = Fixture::new("own_maximum").await;
    fixture.queue.enqueue(&NewJob::bytes("x").max_attempts(1)).await.unwrap();
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Err::<(), _>(JobError::retry("no").into())))
        .start()
        .await
        .unwrap();
    let summary = worker.drain().await.unwrap();
    assert_eq!((summary.stats.retried, summary.stats.dead), (0, 1));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_in_waits_as_long_as_it_says() {
    let fixture = Fixture::new("retry_in").await;
    fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    let handlers =
        Handlers::any(|_, _| Err::<(), _>(JobError::retry_in(Duration::from_secs(3_600), "in an hour").into()));
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let monitor = worker.monitor();
    crate::support::until("the failure is acknowledged", || monitor.stats().retried == 1).await;
    worker.shutdown().await.unwrap();
    let minutes = fixture
        .sql("SELECT DATEDIFF(MINUTE, SYSUTCDATETIME(), due_at) AS minutes FROM [$(schema)].[jobs] WHERE state = 1")
        .await;
    let minutes: i32 = minutes[0].get("minutes").unwrap();
    assert!((59..=60).contains(&minutes), "{minutes}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requeued_job_starts_from_its_first_attempt_with_a_higher_fence() {
    let options = QueueOptions::default().max_attempts(1);
    let fixture = Fixture::with("requeued", options).await;
    fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    let fail = |_: &readpast::Job, _: &readpast::Context| Err::<(), _>(JobError::retry("no").into());
    let worker = Worker::builder(&fixture.queue, Handlers::any(fail)).start().await.unwrap();
    worker.drain().await.unwrap();
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 1);
    let seen = Arc::new(Mutex::new(None));
    let sink = seen.clone();
    let handlers = Handlers::any(move |job, _| {
        *sink.lock() = Some((job.attempt(), job.fence().0));
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 1);
    assert_eq!(*seen.lock(), Some((1, 2)));
    fixture.remove().await;
}
