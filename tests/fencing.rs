//! A worker that lost its lease must not acknowledge what another worker has re-claimed, and goes on under a new
//! registration.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use readpast::admin::{CompletionPolicy, JobState, QueueOptions};
use readpast::{Handlers, NewJob, Output, Worker};
use tokio::sync::Semaphore;

use crate::support::counted::drained;
use crate::support::{Fixture, WorkerSession, numbers, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_late_acknowledgement_changes_nothing_and_is_counted_as_lost() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let fixture = Fixture::with("late", options).await;
    fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let runtime = tokio::runtime::Handle::current();
    // The slow worker holds one job and no more, or it might claim the same job again under its next registration.
    let mut slow_config = fixture.config.worker.clone();
    (slow_config.batch_size, slow_config.finish_batch_size, slow_config.max_in_flight) = (1, 1, 1);
    let handlers = Handlers::any(move |_, _| {
        runtime.block_on(handler_gate.acquire()).unwrap().forget();
        Ok(Output::bytes("slow"))
    });
    let slow = Worker::builder(&fixture.queue, handlers).config(&slow_config).start().await.unwrap();
    let monitor = slow.monitor();
    until("the job runs on the slow worker", || monitor.stats().running == 1).await;

    // SQL Server calls the slow worker lost; another worker runs the job.
    fixture.sql("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()").await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let mut config = fixture.config.worker.clone();
    config.reap_interval = Duration::from_millis(100);
    let handlers = Handlers::any(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(Output::bytes("fast"))
    });
    let fast = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    assert_eq!(fast.drain().await.unwrap().stats.done, 1);
    assert_eq!(runs.load(Ordering::Relaxed), 1);

    gate.add_permits(1);
    until("the late acknowledgement is refused", || monitor.stats().lost == 1).await;
    let summary = slow.shutdown().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.lost), (0, 1));
    let done = fixture.queue.admin().list(&JobState::Done.into(), None, 10).await.unwrap().jobs;
    assert_eq!(done[0].output.as_deref(), Some(b"fast".as_slice()));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_lost_lease_the_worker_registers_anew_and_goes_on() {
    let fixture = Fixture::new("anew").await;
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    fixture.sql("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()").await;
    fixture.queue.enqueue_many(&numbers(50)).await.unwrap();
    let summary = worker.drain().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.lost), (50, 0));
    let registered = fixture.sql("SELECT COUNT(*) AS n FROM [$(schema)].[workers] WHERE lost_at IS NOT NULL").await;
    assert_eq!(registered[0].get::<i32, _>("n"), Some(2), "the old registration, and the new one that has ended");
    fixture.remove().await;
}

/// A job that was claimed as often as 32 bits can count, by a handler that puts it off each time, goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_fence_at_its_end_begins_anew_and_stops_no_claim() {
    for options in [QueueOptions::default(), QueueOptions::default().max_running(100)] {
        let fixture = Fixture::with("last_fence", options).await;
        fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
        fixture.sql("UPDATE TOP (1) [$(schema)].[jobs] SET fence = 2147483646").await;
        let mut worker = WorkerSession::register(&fixture).await;
        let claimed = worker.claim(10).await;
        assert_eq!(claimed.iter().map(|job| job.fence).max(), Some(i32::MAX));
        let again: Vec<_> = claimed.iter().map(|job| job.snooze(0, "again")).collect();
        assert_eq!(worker.finish(&again).await, []);
        let claimed = worker.claim(10).await;
        let mut fences: Vec<_> = claimed.iter().map(|job| job.fence).collect();
        fences.sort_unstable();
        assert_eq!(fences, [1, 2, 2]);
        let done: Vec<_> = claimed.iter().map(|job| job.done()).collect();
        assert_eq!(worker.finish(&done).await, []);
        fixture.remove().await;
    }
}

/// What docs/dba.md has a DBA do after a restore, where fences are kept outside the database.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_whose_fences_were_raised_run_under_higher_ones() {
    let fixture = Fixture::new("raised").await;
    fixture.queue.enqueue_many(&numbers(5)).await.unwrap();
    // A worker of the time of the backup holds two of them.
    fixture
        .sql(
            "DECLARE @worker uniqueidentifier = NEWID();
             EXEC [$(schema)].[register_worker] @queue = N'work', @worker_id = @worker, @name = N'old', @lease_ms = 86400000;
             EXEC [$(schema)].[claim] @queue = N'work', @worker_id = @worker, @max = 2;
             UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME();",
        )
        .await;
    fixture.sql("UPDATE [$(schema)].[jobs] SET fence = fence + 1000").await;

    let (fences, mut config) = (Arc::new(Mutex::new(Vec::new())), fixture.config.worker.clone());
    config.reap_interval = Duration::from_millis(100);
    let seen = fences.clone();
    let handler = Handlers::any(move |job, _| {
        seen.lock().unwrap().push(job.fence().0);
        Ok(())
    });
    let summary =
        Worker::builder(&fixture.queue, handler).config(&config).start().await.unwrap().drain().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.lost), (5, 0));
    fences.lock().unwrap().sort_unstable();
    assert_eq!(*fences.lock().unwrap(), [1001, 1001, 1001, 1002, 1002]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_living_workers_of_one_name_the_second_takes_over_and_the_first_goes_on_beside_it() {
    let fixture = Fixture::new("twins").await;
    let mut config = fixture.config.worker.clone();
    (config.name, config.take_over) = ("twin".to_string(), true);
    (config.batch_size, config.finish_batch_size, config.max_in_flight) = (1, 1, 1);
    fixture.queue.enqueue_many(&numbers(1)).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let (handler_gate, runtime) = (gate.clone(), tokio::runtime::Handle::current());
    let handlers = Handlers::any(move |_, _| {
        runtime.block_on(handler_gate.acquire()).unwrap().forget();
        Ok(())
    });
    let first = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("the job runs", || first.stats().running == 1).await;
    let second = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    until("the second has run it", || second.stats().done == 1).await;

    gate.add_permits(10);
    until("the first's result is refused", || first.stats().lost == 1).await;
    let mut session = fixture.session().await;
    let registered = async { while session.number("SELECT COUNT(*) FROM [$(schema)].[workers]").await < 3 {} };
    tokio::time::timeout(Duration::from_secs(30), registered).await.expect("the first registers anew");
    // Had it taken over again, the second would be lost now, and then the first, and so on for ever.
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[workers] WHERE lost_at IS NOT NULL").await, 1);
    second.shutdown().await.unwrap();
    fixture.queue.enqueue_many(&numbers(5)).await.unwrap();
    let stats = drained(first).await.stats;
    assert_eq!((stats.done, stats.lost), (5, 1));
    fixture.remove().await;
}
