//! `drain` ends when the queue is empty and not before: delayed jobs, other workers' jobs and a pause are waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use readpast::{BoxError, Context, Handlers, Job, JobError, NewJob, Worker};

use crate::support::{Fixture, changed, numbers, until};

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_queue_is_drained_at_once() {
    let fixture = Fixture::new("empty").await;
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead, stats.lost), (0, 0, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_is_waited_for() {
    let fixture = Fixture::new("delayed").await;
    fixture.queue.enqueue(&NewJob::bytes("x").delay(Duration::from_millis(300))).await.unwrap();
    let mut config = fixture.config.worker.clone();
    config.promote_interval = Duration::from_millis(50);
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_is_waited_for() {
    let fixture = Fixture::new("paused").await;
    fixture.queue.enqueue_many(&numbers(5)).await.unwrap();
    fixture.queue.admin().pause().await.unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let handlers = Handlers::any(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let draining = tokio::spawn(worker.drain());
    // The queue's own count says that nothing is claimed while it is paused.
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().ready, 5);
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    fixture.queue.admin().resume().await.unwrap();
    assert_eq!(draining.await.unwrap().unwrap().stats.done, 5);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_share_a_queue_and_both_end_when_it_is_empty() {
    let fixture = Fixture::new("two_workers").await;
    fixture.queue.enqueue_many(&numbers(2_000)).await.unwrap();
    let work = |_: &readpast::Job, _: &readpast::Context| Ok(());
    let first = Worker::builder(&fixture.queue, Handlers::any(work)).start().await.unwrap();
    let second = Worker::builder(&fixture.queue, Handlers::any(work)).start().await.unwrap();
    let (first, second) = tokio::join!(first.drain(), second.drain());
    assert_eq!(first.unwrap().stats.done + second.unwrap().stats.done, 2_000);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_tells_its_progress_up_to_the_end() {
    let fixture = Fixture::new("progress").await;
    fixture.queue.enqueue_many(&numbers(300)).await.unwrap();
    let gate = Arc::new(AtomicU32::new(0));
    let open = gate.clone();
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.threads = 2;
        (worker.batch_size, worker.finish_batch_size) = (2, 2);
        worker.max_in_flight = 2;
    });
    let handlers = Handlers::any(move |_, context| {
        while open.load(Ordering::Acquire) == 0 && !context.is_cancelled() {
            std::thread::yield_now();
        }
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("each thread has a job", || worker.stats().running == 2).await;
    // A sample reads past locks, and may count a job twice or not at all that is being claimed at that moment, as when
    // the worker took its first sample. No claim is under way now.
    fixture.sql("EXEC [$(schema)].[sample] @queue = N'work', @max_age_ms = 0").await;
    let mut shown = Vec::new();
    let summary = worker
        .drain_with(Duration::from_millis(1), |progress| {
            shown.push(*progress);
            // Nothing ends before it is known how much there is.
            if progress.unfinished.is_some() {
                gate.store(1, Ordering::Release);
            }
        })
        .await
        .unwrap();
    assert_eq!(summary.stats.done, 300);
    let first = shown.iter().find(|progress| progress.unfinished.is_some()).unwrap();
    assert_eq!((first.finished, first.unfinished), (0, Some(300)));
    let last = shown.last().unwrap();
    assert_eq!((last.finished, last.unfinished), (300, Some(0)));
    assert!(shown.windows(2).all(|pair| pair[0].finished <= pair[1].finished));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_later_is_left_and_what_is_due_in_time_is_run() {
    let fixture = Fixture::new("until").await;
    fixture.queue.enqueue_many(&numbers(5)).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("soon").delay(Duration::from_millis(300))).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("tomorrow").delay(Duration::from_secs(86_400))).await.unwrap();
    let mut config = fixture.config.worker.clone();
    config.promote_interval = Duration::from_millis(50);
    let start = || Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start();
    let now = start().await.unwrap().drain_until(Duration::ZERO).await.unwrap();
    assert!(now.ended_in_order && (5..=6).contains(&now.stats.done), "{now:?}");
    let soon = start().await.unwrap().drain_until(Duration::from_secs(10)).await.unwrap();
    assert_eq!(now.stats.done + soon.stats.done, 6);
    let left = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((left.ready, left.scheduled), (0, 1));
    fixture.remove().await;
}

/// They get their turn when that one has ended.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_in_its_group_behind_a_job_that_is_due_later_is_left() {
    let fixture = Fixture::new("until_group").await;
    fixture.queue.enqueue_many(&["a", "b"].map(|text| NewJob::text(text).group_key("k"))).await.unwrap();
    let tomorrow = |_: &Job, _: &Context| -> Result<(), BoxError> {
        Err(JobError::retry_in(Duration::from_secs(86_400), "not now").into())
    };
    let worker = Worker::builder(&fixture.queue, Handlers::any(tomorrow)).start().await.unwrap();
    let drained = tokio::time::timeout(Duration::from_secs(60), worker.drain_until(Duration::ZERO));
    assert_eq!(drained.await.expect("it does not wait").unwrap().stats.retried, 1);
    let left = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((left.scheduled, left.waiting), (1, 1));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_progress_shows_what_is_scheduled() {
    let fixture = Fixture::new("scheduled").await;
    fixture.queue.enqueue(&NewJob::text("tomorrow").delay(Duration::from_secs(86_400))).await.unwrap();
    let builder = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(())));
    let worker = builder.start().await.unwrap();
    let stop = worker.stop_handle();
    let shown = std::sync::Mutex::new(String::new());
    worker
        .drain_with(Duration::from_millis(1), |progress| {
            if progress.scheduled == Some(1) {
                *shown.lock().unwrap() = progress.to_string();
                stop.stop();
            }
        })
        .await
        .unwrap();
    assert_eq!(shown.into_inner().unwrap(), "0 of 1 job, 0/s (0 buffered, 0 running, 0 to finish, 1 scheduled)");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_is_what_is_ready_scheduled_or_claimed() {
    let fixture = Fixture::new("unfinished").await;
    let mut session = fixture.session().await;
    assert_eq!(session.refusal("EXEC [$(schema)].[unfinished] @queue = N'none'").await.0, 58001);
    fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    for (state, unfinished) in [
        ("state = 0", 1),
        ("state = 0, alone = 1", 1),
        ("state = 1", 1),
        ("state = 2", 1),
        ("state = 3", 0),
        ("state = 4", 0),
    ] {
        session.sql(&format!("UPDATE [$(schema)].[jobs] SET {state}")).await;
        let said = session.number("EXEC [$(schema)].[unfinished] @queue = N'work'").await;
        assert_eq!(said, unfinished, "{state}");
        session.sql("UPDATE [$(schema)].[jobs] SET alone = 0").await;
    }
    fixture.remove().await;
}
