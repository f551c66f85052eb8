//! What operators see of workers: what SQL Server knows, and what the workers say with their heartbeats.

use std::time::Duration;

use readpast::admin::{QueueOptions, WorkerRow};
use readpast::{Error, Handlers, JobError, NewJob, Queue, Worker};
use uuid::Uuid;

use crate::support::blocked::blocked_worker;
use crate::support::{Fixture, WorkerSession, changed, numbers};

/// Waits until the only worker's row is so; it changes with a heartbeat.
async fn row_until(queue: &Queue, what: &str, is_so: impl Fn(&WorkerRow) -> bool) -> WorkerRow {
    let give_up = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let mut workers = queue.admin().workers(Duration::MAX).await.unwrap();
        assert_eq!(workers.len(), 1, "{workers:?}");
        let row = workers.remove(0);
        if is_so(&row) {
            return row;
        }
        assert!(tokio::time::Instant::now() < give_up, "{what}: {row:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_row_of_a_running_worker_tells_the_truth() {
    let fixture = Fixture::new("shown").await;
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.name = "the first".to_string();
        worker.heartbeat_interval = Duration::from_millis(100);
    });
    let blocked = blocked_worker(&fixture, &fixture.queue, config.clone()).await;
    let row = row_until(&fixture.queue, "it has said that a job runs", |row| row.running == Some(1)).await;
    assert_eq!((row.queue.as_str(), row.name.as_str()), ("work", "the first"));
    assert!(row.is_live() && row.lost_at.is_none());
    // The lease may have been renewed since the time was read by which it is measured.
    let longest = config.lease + Duration::from_secs(5);
    assert!(row.lease_left > Duration::ZERO && row.lease_left <= longest, "{row:?}");
    assert_eq!((row.held, row.done, row.failed), (10, Some(0), Some(0)));
    assert_eq!((row.done_per_s, row.failed_per_s), (Some(0.0), Some(0.0)));
    let oldest = row.oldest_claimed_at.unwrap();
    assert!(row.registered_at <= oldest && oldest <= row.reported_at.unwrap(), "{row:?}");
    // All threads are busy.
    row_until(&fixture.queue, "the cores limit it", |row| row.limited_by.as_deref() == Some("busy")).await;

    blocked.gate.add_permits(4);
    let row = row_until(&fixture.queue, "four are done", |row| row.done == Some(4) && row.held == 6).await;
    assert_eq!(row.failed, Some(0));
    blocked.gate.add_permits(6);
    let is_idle = |row: &WorkerRow| row.done == Some(10) && row.limited_by.as_deref() == Some("idle");
    let row = row_until(&fixture.queue, "there is nothing to do", is_idle).await;
    assert_eq!((row.running, row.held, row.oldest_claimed_at), (Some(0), 0, None));

    blocked.worker.stop_handle().stop();
    blocked.worker.run().await.unwrap();
    let row = row_until(&fixture.queue, "it has ended", |row| row.lost_at.is_some()).await;
    assert!(!row.is_live() && row.lease_left.is_zero());
    assert_eq!(row.done, Some(10), "what it said last");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retried_and_dead_jobs_count_as_failed() {
    let fixture = Fixture::with("shown_failed", QueueOptions::default().max_attempts(2)).await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.heartbeat_interval = Duration::from_millis(100);
        worker.promote_interval = Duration::from_millis(10);
        worker.retry.base = Duration::from_millis(1);
        worker.retry.max = Duration::from_millis(1);
    });
    let fails = Handlers::any(|_, _| Err::<(), _>(JobError::retry("no").into()));
    let worker = Worker::builder(&fixture.queue, fails).config(&config).start().await.unwrap();
    let row = row_until(&fixture.queue, "each has failed twice", |row| row.failed == Some(6)).await;
    assert_eq!(row.done, Some(0));
    worker.stop_handle().stop();
    worker.run().await.unwrap();
    fixture.remove().await;
}

/// A worker's numbers begin with its registration: one that registers anew has done nothing yet.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_lost_lease_a_worker_counts_from_its_new_registration() {
    let fixture = Fixture::new("shown_anew").await;
    let config =
        changed(fixture.config.worker.clone(), |worker| worker.heartbeat_interval = Duration::from_millis(100));
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    fixture.queue.enqueue_many(&numbers(5)).await.unwrap();
    row_until(&fixture.queue, "five are done", |row| row.done == Some(5)).await;
    fixture.sql("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let monitor = worker.monitor();
    loop {
        let workers = fixture.queue.admin().workers(Duration::MAX).await.unwrap();
        if let Some(live) = workers.iter().find(|row| row.is_live() && row.reported_at.is_some()) {
            let done_since = monitor.stats().done - 5;
            assert!(live.done.unwrap() <= done_since && live.done_per_s.unwrap() < 1_000.0, "{live:?}");
            if live.done == Some(1) {
                break;
            }
        }
    }
    worker.stop_handle().stop();
    worker.run().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rates_are_of_the_time_between_two_reports_by_sql_server_s_clock() {
    let fixture = Fixture::new("rates").await;
    let worker = WorkerSession::register(&fixture).await;
    let report = async |numbers: &str| {
        let (before, numbers) = numbers.split_once(';').unwrap_or(("", numbers));
        fixture.sql(&format!("{before}; EXEC [$(schema)].[heartbeat] @worker_id = '{}'{numbers}", worker.id)).await;
        fixture.queue.admin().workers(Duration::MAX).await.unwrap().remove(0)
    };
    // As a worker of a release before calls it.
    let row = report("").await;
    assert_eq!((row.reported_at, row.done, row.running, row.limited_by), (None, None, None, None));

    fixture.sql("UPDATE [$(schema)].[workers] SET registered_at = DATEADD(SECOND, -10, SYSUTCDATETIME())").await;
    let near = |rate: Option<f64>, expected: f64| {
        let rate = rate.unwrap();
        assert!((expected * 0.8..=expected).contains(&rate), "{rate} instead of {expected}");
    };
    let row = report(", @running = 3, @done = 1000, @failed = 50, @limited_by = 'claim'").await;
    assert_eq!(
        (row.running, row.done, row.failed, row.limited_by.as_deref()),
        (Some(3), Some(1000), Some(50), Some("claim"))
    );
    near(row.done_per_s, 100.0);
    near(row.failed_per_s, 5.0);

    fixture.sql("UPDATE [$(schema)].[workers] SET reported_at = DATEADD(SECOND, -20, SYSUTCDATETIME())").await;
    let row = report(", @running = 0, @done = 5000000000, @failed = 50, @limited_by = 'busy'").await;
    assert_eq!(row.done, Some(5_000_000_000));
    near(row.done_per_s, 249_999_950.0);
    assert_eq!(row.failed_per_s, Some(0.0));

    // One that was sent before, and one that says nothing, change nothing but the lease.
    let soon = ", @running = 9, @done = 5000000001, @failed = 51, @limited_by = 'finish'";
    let fewer_done = ", @running = 9, @done = 2000, @failed = 50, @limited_by = 'finish'";
    let fewer_failed = ", @running = 9, @done = 5000000000, @failed = 49, @limited_by = 'finish'";
    for (late, ms) in [(soon, 0), (fewer_done, 20_000), (fewer_failed, 20_000), ("", 20_000)] {
        let ago = format!("DATEADD(MILLISECOND, -{ms}, SYSUTCDATETIME())");
        // In one call, so that it is soon.
        let unchanged = report(&format!("UPDATE [$(schema)].[workers] SET reported_at = {ago};{late}")).await;
        assert_eq!(
            (unchanged.running, unchanged.done, unchanged.failed, unchanged.failed_per_s),
            (Some(0), row.done, row.failed, row.failed_per_s),
            "{late}"
        );
        assert!(ms == 0 || unchanged.reported_at.unwrap() < row.reported_at.unwrap(), "{late}");
        assert_eq!(unchanged.limited_by.as_deref(), Some("busy"));
    }
    // The clock was set back.
    fixture.sql("UPDATE [$(schema)].[workers] SET reported_at = DATEADD(SECOND, 20, SYSUTCDATETIME())").await;
    let ahead = fixture.queue.admin().workers(Duration::MAX).await.unwrap()[0].reported_at;
    let row = report(", @running = 0, @done = 5000000007, @failed = 50, @limited_by = 'busy'").await;
    assert!(row.done_per_s.unwrap() > 0.0 && row.reported_at < ahead);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_shown_for_a_day_after_their_end_by_queue_and_name() {
    let fixture = Fixture::new("shown_day").await;
    let mut session = fixture.session().await;
    session.sql("EXEC [$(schema)].[create_queue] @queue = N'other'").await;
    for (queue, name) in
        [("work", "b"), ("work", "a"), ("other", "c"), ("work", "lost"), ("work", "long lost"), ("work", "ran out")]
    {
        let (id, lease) = (Uuid::new_v4(), 60_000);
        let register = format!(
            "EXEC [$(schema)].[register_worker] @queue = N'{queue}', @worker_id = '{id}', @name = N'{name}', @lease_ms = {lease}"
        );
        session.sql(&register).await;
    }
    session
        .sql(
            "UPDATE [$(schema)].[workers] SET lost_at = DATEADD(HOUR, -23, SYSUTCDATETIME()) WHERE name = N'lost';
             UPDATE [$(schema)].[workers] SET lost_at = DATEADD(HOUR, -25, SYSUTCDATETIME()) WHERE name = N'long lost';
             UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME()) WHERE name = N'ran out'",
        )
        .await;
    let shown = |workers: Vec<WorkerRow>| -> Vec<(String, String, bool)> {
        workers.into_iter().map(|row| (row.queue.clone(), row.name.clone(), row.is_live())).collect()
    };
    let row = |queue: &str, name: &str, is_live| (queue.to_string(), name.to_string(), is_live);
    let work =
        [row("work", "a", true), row("work", "b", true), row("work", "lost", false), row("work", "ran out", false)];
    assert_eq!(shown(fixture.queue.admin().workers(Duration::MAX).await.unwrap()), work);
    let all = fixture.queue.admin().all_workers(Duration::MAX).await.unwrap();
    assert_eq!(shown(all), [&[row("other", "c", true)], &work[..]].concat());
    for (ended_s, expected) in [(60, 4), (22 * 3_600, 4), (23 * 3_600 + 60, 5), (u64::MAX, 5)] {
        let some = fixture.queue.admin().all_workers(Duration::from_secs(ended_s)).await.unwrap();
        assert_eq!(some.len(), expected, "{ended_s} s");
    }

    let names: Vec<String> =
        fixture.queue.admin().all_stats(None).await.unwrap().into_iter().map(|row| row.queue).collect();
    assert_eq!(names, ["other", "work"]);
    let nowhere = changed(fixture.config.clone(), |config| config.queue.name = "nowhere".to_string());
    let nowhere = Queue::connect(&nowhere).await.unwrap();
    assert!(matches!(nowhere.admin().workers(Duration::MAX).await.unwrap_err(), Error::UnknownQueue { .. }));
    assert_eq!(nowhere.admin().all_workers(Duration::MAX).await.unwrap().len(), 5);
    assert_eq!(nowhere.admin().all_stats(None).await.unwrap().len(), 2);
    fixture.remove().await;
}

/// Others have locked all that it reads.
#[tokio::test(flavor = "multi_thread")]
async fn showing_workers_waits_for_nobody() {
    let fixture = Fixture::new("shown_locked").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    worker.claim_one().await;
    let mut holder = fixture.session().await;
    holder
        .sql(
            "BEGIN TRANSACTION;
             UPDATE [$(schema)].[workers] SET unserved = 0; UPDATE [$(schema)].[jobs] SET priority = 1;
             UPDATE [$(schema)].[queues] SET paused = 1",
        )
        .await;
    let mut session = fixture.session().await;
    let rows = session.sql("SET LOCK_TIMEOUT 0; EXEC [$(schema)].[list_workers]").await;
    assert_eq!(rows.len(), 1);
    assert_eq!(session.sql("EXEC [$(schema)].[find_job] @job_id = 1").await.len(), 1);
    holder.sql("ROLLBACK TRANSACTION").await;
    drop((session, holder, worker));
    fixture.remove().await;
}
