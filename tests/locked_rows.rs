//! Rows that a session holds for long: what looks for rows a page at a time finds those behind them.
//!
//! Whoever changes a row without changing a column of an index locks the row and not the index's entry. A page that is
//! taken from the index, and whose locked rows are skipped only afterwards, has the same rows each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use readpast::admin::{CompletionPolicy, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{Handlers, NewJob, Worker};

use crate::support::{Fixture, Session, WorkerSession, changed, numbers, until};

/// A session in whose open transaction the rows of the first ten jobs of `table` are locked, and no index's entry.
async fn holding(fixture: &Fixture, table: &str, key: &str, column: &str) -> Session {
    let mut holder = fixture.session().await;
    let change = format!(
        "BEGIN TRANSACTION;
         UPDATE [$(schema)].[{table}] WITH (ROWLOCK) SET [{column}] = [{column}]
         WHERE {key} IN (SELECT TOP (10) {key} FROM [$(schema)].[{table}] WITH (NOLOCK) ORDER BY {key})"
    );
    holder.sql(&change).await;
    holder
}

/// The first number of the first result, within a time in which a call that waits for the holder fails.
async fn first_number(fixture: &Fixture, sql: &str) -> i64 {
    let mut session = fixture.session().await;
    let call = session.number(sql);
    tokio::time::timeout(Duration::from_secs(60), call).await.expect("it waits for nobody")
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_lost_workers_are_given_back_past_those_whose_rows_are_locked() {
    let fixture = Fixture::new("reap_past").await;
    fixture.queue.enqueue_many(&numbers(30)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim(30).await.len(), 30);
    fixture.sql("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()").await;
    let mut holder = holding(&fixture, "jobs", "job_id", "run_us").await;
    let given_back = "DECLARE @ready int; EXEC [$(schema)].[reap] @queue = N'work', @max = 10, @report = 0, @jobs_ready = @ready OUTPUT;
                      SELECT @ready";
    for (call, expected) in [10, 10, 0].into_iter().enumerate() {
        assert_eq!(first_number(&fixture, given_back).await, expected, "call {call}");
    }
    holder.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(first_number(&fixture, given_back).await, 10);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_jobs_expire_past_those_whose_rows_are_locked() {
    for (completion, table) in [(CompletionPolicy::Annotate, "jobs"), (CompletionPolicy::Archive, "archive")] {
        let options = QueueOptions::default()
            .completion(completion)
            .keep_done(readpast::admin::Keep::For(Duration::from_secs(60)));
        let fixture = Fixture::with("expire_past", options).await;
        fixture.queue.enqueue_many(&numbers(30)).await.unwrap();
        let mut worker = WorkerSession::register(&fixture).await;
        let done: Vec<_> = worker.claim(30).await.iter().map(|job| job.done()).collect();
        assert_eq!(worker.finish(&done).await, []);
        fixture.sql(&format!("UPDATE [$(schema)].[{table}] SET finished_at = DATEADD(HOUR, -1, finished_at)")).await;
        let mut holder = holding(&fixture, table, "job_id", "run_us").await;
        let expired = "EXEC [$(schema)].[expire] @queue = N'work', @max = 10";
        for expected in [10, 10, 0] {
            assert_eq!(first_number(&fixture, expired).await, expected, "{table}");
        }
        holder.sql("ROLLBACK TRANSACTION").await;
        assert_eq!(first_number(&fixture, expired).await, 10, "{table}");
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_jobs_have_noted_and_ended_batches_expire_past_those_whose_rows_are_locked() {
    let fixture = Fixture::new("expire_notes").await;
    fixture
        .sql(
            "DECLARE @number int = 1;
             WHILE @number <= 60
             BEGIN
                 INSERT [$(schema)].[progress] (job_id, queue_id, fence, noted_at) VALUES (@number, 1, 1, SYSUTCDATETIME());
                 INSERT [$(schema)].[batches] (queue_id, created_at, priority, payload_utf16) VALUES (1, '20200101', 0, 0);
                 INSERT [$(schema)].[batch_counts] (batch_id, queue_id, ended_at) VALUES (@number, 1, '20200101');
                 SET @number = @number + 1;
             END",
        )
        .await;
    let expired = "EXEC [$(schema)].[expire] @queue = N'work', @max = 10";
    for (table, key, column, left) in [
        ("progress", "job_id", "fraction", "SELECT COUNT(*) FROM [$(schema)].[progress] WITH (NOLOCK)"),
        ("batches", "batch_id", "name", "SELECT COUNT(*) FROM [$(schema)].[batches] WITH (NOLOCK)"),
        ("batch_counts", "batch_id", "done", "SELECT COUNT(*) FROM [$(schema)].[batch_counts] WITH (NOLOCK)"),
    ] {
        let before = first_number(&fixture, left).await;
        let mut holder = holding(&fixture, table, key, column).await;
        first_number(&fixture, expired).await;
        assert!(first_number(&fixture, left).await < before, "{table}: those behind the locked ones are gone");
        holder.sql("ROLLBACK TRANSACTION").await;
    }
    fixture.remove().await;
}

/// A pass that could not have a group's next job ends: the next one looks again.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_next_job_is_locked_keeps_no_caller_busy_and_no_other_group_waiting() {
    let options = QueueOptions::default().group_limit(1_000);
    let fixture = Fixture::with("locked_group", options).await;
    let mut producer = fixture.session().await;
    producer
        .sql(
            "BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @group_key = N'held'; COMMIT TRANSACTION",
        )
        .await;
    let mut holder = holding(&fixture, "jobs", "job_id", "run_us").await;
    let promote = "EXEC [$(schema)].[promote] @queue = N'work'";
    first_number(&fixture, promote).await;
    let free = NewJob::text("x").group_key("free");
    fixture.queue.enqueue(&free).await.unwrap();
    first_number(&fixture, promote).await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim(10).await.len(), 1, "the other group's");
    holder.sql("ROLLBACK TRANSACTION").await;
    // As if the minute had passed after which promote looks for what was held by hand.
    fixture.sql("UPDATE [$(schema)].[duties] SET looked_at = '2000-01-01'").await;
    first_number(&fixture, promote).await;
    assert_eq!(worker.claim(10).await.len(), 1, "and now this one's");
    fixture.remove().await;
}

/// The row of one job of five hundred, which all end in one call, is locked by a session that is no handler's. The call
/// runs out of time once, and not again for each halving.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_whose_row_is_locked_holds_up_the_others_for_one_time_out_only() {
    let mut fixture = Fixture::new("locked_result").await;
    fixture.config.connection.command_timeout = Duration::from_secs(4);
    fixture.queue = fixture.connect().await;
    fixture.queue.enqueue_many(&numbers(500)).await.unwrap();
    let gate = Arc::new(AtomicBool::new(false));
    let opens = gate.clone();
    let handlers = Handlers::any(move |_, _| {
        while !opens.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    });
    let config = changed(WorkerConfig::default(), |worker| {
        worker.buffer = 500;
        worker.finish_linger = Duration::from_secs(1);
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("all are claimed", || worker.stats().buffered + worker.stats().running == 500).await;
    let mut holder = fixture.session().await;
    holder
        .sql(
            "BEGIN TRANSACTION;
             UPDATE [$(schema)].[jobs] SET run_us = run_us WHERE job_id = (SELECT MAX(job_id) FROM [$(schema)].[jobs])",
        )
        .await;
    gate.store(true, Ordering::Release);
    let others = until("all others are done", || worker.stats().done == 499);
    tokio::time::timeout(Duration::from_secs(20), others).await.expect("there is one time-out, and not nine");
    holder.sql("ROLLBACK TRANSACTION").await;
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.lost), (500, 0, 0));
    fixture.remove().await;
}
