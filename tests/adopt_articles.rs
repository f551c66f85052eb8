//! The tables of well-known articles about queues, adopted: the author's own producer fills them, worker processes
//! drain them while the author's own dequeue runs beside them, and every row is handled exactly once.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use readpast::admin::{JobChange, JobState};
use readpast::{BoxError, Config, Handlers, Job, Queue, Worker};
use tiberius::ColumnData;

use crate::adopted::{
    FOUR_QUEUE, Handled, OUTBOX, REQUESTS_QUEUE, SIMPLE_QUEUE, STATUS_QUEUE, STATUS_QUEUE_INDEXES, TABLES_AS_QUEUES,
    adopted, example, own_database,
};
use crate::support::child::{ChildWorker, Ledger};
use crate::support::{Fixture, Session, changed, number, text, until};

const ROWS: usize = 600;
const PROCESSES: usize = 4;
const READERS: usize = 4;
const KILLS: usize = 2;

/// An article's table: how its producer adds rows, and how its reader takes one and is done with it.
struct Article {
    tables: &'static str,
    mapping: &'static str,
    table: &'static str,
    /// A batch that adds row `number`.
    add: fn(usize) -> String,
    /// A batch that takes a row, and returns what names it, if anything does, and its text.
    take: &'static str,
    /// What it does when it has handled the row.
    complete: Option<fn(&str) -> String>,
    /// What is in the table when all is done; `{rows}`: how many were added.
    left: &'static str,
}

fn status_tables() -> &'static str {
    // The indexes that the refusal names.
    Box::leak(format!("{STATUS_QUEUE}GO\n{STATUS_QUEUE_INDEXES}").into_boxed_str())
}

/// Runs a batch of an author's; one that was a deadlock's victim is run again, as any program has to.
async fn run(session: &mut Session, sql: &str) -> Vec<Vec<tiberius::Row>> {
    loop {
        match session.try_sql(sql).await {
            Ok(results) => return results,
            Err(tiberius::error::Error::Server(error)) if error.code() == 1205 => {}
            Err(error) => panic!("{error}\nin {sql}"),
        }
    }
}

/// A column as text.
fn shown(row: &tiberius::Row, column: usize) -> String {
    match row.cells().nth(column).expect("there is this column").1 {
        ColumnData::Guid(Some(id)) => id.to_string(),
        ColumnData::I32(Some(number)) => number.to_string(),
        ColumnData::I64(Some(number)) => number.to_string(),
        ColumnData::String(Some(text)) => text.to_string(),
        ColumnData::Binary(Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("column {column} is {other:?}"),
    }
}

/// Takes rows as the article says until nothing comes any more.
async fn reader(mut session: Session, article: &Article) -> Handled {
    let (mut handled, mut misses) = (Handled::new(), 0);
    while misses < 40 {
        let results = run(&mut session, article.take).await;
        let Some(row) = results.into_iter().flatten().next() else {
            misses += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        misses = 0;
        let name = shown(&row, 0);
        // What names the row and its text, or the text alone; a date may come behind them.
        let body = if row.columns().len() > 1 { shown(&row, 1) } else { name.clone() };
        *handled.entry(body).or_default() += 1;
        if let Some(complete) = article.complete {
            run(&mut session, &complete(&name)).await;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    handled
}

async fn drained(queue: &Queue) {
    let give_up = Instant::now() + Duration::from_secs(120);
    loop {
        let stats = queue.admin().stats(None).await.unwrap();
        if stats.ready + stats.scheduled + stats.claimed == 0 {
            return;
        }
        assert!(Instant::now() < give_up, "rows are left: {stats:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What four worker processes and four of the author's readers have handled of some new rows.
async fn handled(fixture: &Fixture, article: &Article, rows: Range<usize>, kills: usize) -> (Handled, Handled) {
    let url = own_database(fixture);
    let ledger = Ledger::new();
    let start = async |number: usize| {
        let name = format!("worker {number}");
        // With short leases, so that what a killed worker held comes back soon.
        let settings = [
            ("URL", url.as_str()),
            ("WORKER_NAME", &name),
            ("WORKER_BATCH_SIZE", "20"),
            ("WORKER_BUFFER", "40"),
            ("WORKER_LEASE_MS", "3000"),
            ("WORKER_HEARTBEAT_INTERVAL_MS", "300"),
            ("WORKER_REAP_INTERVAL_MS", "100"),
            ("CONNECTION_CONNECT_TIMEOUT_MS", "3000"),
            ("CONNECTION_COMMAND_TIMEOUT_MS", "3000"),
        ];
        let some = if kills == 0 { &settings[..4] } else { &settings };
        ChildWorker::start(fixture, &ledger, some).await
    };
    let mut workers = Vec::new();
    for number in 0..PROCESSES {
        workers.push(start(number).await);
    }
    let mut producer = fixture.session().await;
    let all_added = AtomicBool::new(false);
    let producing = async {
        for number in rows.clone() {
            run(&mut producer, &(article.add)(number)).await;
        }
        all_added.store(true, Ordering::Relaxed);
    };
    let killing = async {
        for kill in 1..=kills {
            // How many the readers leave to the workers is up to them.
            let some = || ledger.lines() >= kill * rows.len() / 16 || all_added.load(Ordering::Relaxed);
            until("some more rows were handled", some).await;
            workers[kill % PROCESSES].kill().await;
            workers[kill % PROCESSES] = start(PROCESSES + kill).await;
        }
    };
    let reading = async {
        let (a, b, c, d) =
            (fixture.session().await, fixture.session().await, fixture.session().await, fixture.session().await);
        tokio::join!(reader(a, article), reader(b, article), reader(c, article), reader(d, article))
    };
    let ((), (), readers) = tokio::join!(producing, killing, reading);
    let readers: [Handled; READERS] = readers.into();
    drained(&fixture.queue).await;
    let mut done = 0;
    for worker in workers {
        done += worker.stop().await.done;
    }
    let by_workers = ledger.rows();
    assert!(kills > 0 || done == u64::from(by_workers.values().sum::<u32>()));
    let mut by_readers = Handled::new();
    for (row, times) in readers.into_iter().flatten() {
        *by_readers.entry(row).or_default() += times;
    }
    (by_workers, by_readers)
}

/// Worker processes and the author's readers empty the table; nothing is handled twice or by nobody. Then again, while
/// workers are killed: what those held runs again, and nobody else gets it.
async fn each_row_is_handled_once(test_name: &str, article: Article) {
    let (fixture, _) = adopted(test_name, article.tables, article.mapping).await;
    let mut session = fixture.session().await;
    for (rows, kills) in [(0..ROWS, 0), (ROWS..ROWS + ROWS / 2, KILLS)] {
        let (count, rows_so_far) = (rows.len(), rows.end);
        let (by_workers, by_readers) = handled(&fixture, &article, rows, kills).await;
        println!("{test_name}: {} rows by workers, {} by the author's readers", by_workers.len(), by_readers.len());
        assert!(!by_workers.is_empty(), "workers got some");
        assert_eq!(by_workers.len() + by_readers.len(), count, "every row was handled, and by one side");
        assert!(by_workers.keys().all(|row| !by_readers.contains_key(row)), "every row was handled");
        assert!(
            by_readers.values().all(|times| *times == 1),
            "a reader never gets what a worker has had: {by_readers:?}"
        );
        let again = by_workers.values().filter(|times| **times > 1).count();
        assert!(again <= kills * 100, "{again} rows ran again: more than the killed workers held");
        let left = article.left.replace("{rows}", &rows_so_far.to_string());
        let left = if kills == 0 { left } else { left.replace(" OR attempts <> 1", "") };
        assert_eq!(session.numbers(&left).await, [0], "{}", article.table);
        assert_eq!(
            session.number("SELECT COUNT(*) FROM [$(schema)].[jobs]").await,
            0,
            "nothing is held, nothing is dead"
        );
    }
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simple_queue() {
    each_row_is_handled_once(
        "adopt_simple",
        Article {
            tables: SIMPLE_QUEUE,
            mapping: "simple-queue.toml",
            table: "SimpleQueue",
            add: |number| {
                format!(
                    "INSERT INTO SimpleQueue (Id, CreatedAt, Payload) VALUES (NEWID(), SYSUTCDATETIME(), N'row \
                         {number}')"
                )
            },
            take: "WITH PoppedItemCte(Id, Payload, ProcessingStartedAt) AS
                   (
                       SELECT TOP(1) sq.Id, sq.Payload, sq.ProcessingStartedAt
                       FROM SimpleQueue sq WITH (READPAST, UPDLOCK)
                       WHERE sq.ProcessingStartedAt IS NULL
                       ORDER BY sq.CreatedAt
                   )
                   UPDATE PoppedItemCte SET ProcessingStartedAt = '2021-09-16 18:42:38.403'
                   OUTPUT inserted.Id, inserted.Payload",
            complete: Some(|id| format!("DELETE FROM SimpleQueue WHERE Id = '{id}'")),
            left: "SELECT COUNT(*) FROM SimpleQueue",
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poor_mans_queue() {
    each_row_is_handled_once(
        "adopt_status",
        Article {
            tables: status_tables(),
            mapping: "status-queue.toml",
            table: "Queue",
            add: |number| {
                format!("DECLARE @m varbinary(max) = CAST('row {number}' AS varbinary(max)); EXEC EnqueueMessage @m")
            },
            take: "EXEC DequeueMessage",
            complete: Some(|id| format!("EXEC CompleteMessage {id}")),
            left: "SELECT COUNT(*) FROM [Queue]",
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heap_queue() {
    each_row_is_handled_once(
        "adopt_heap",
        Article {
            tables: TABLES_AS_QUEUES,
            mapping: "heap-queue.toml",
            table: "HeapQueue",
            add: |number| {
                format!("DECLARE @m varbinary(max) = CAST('row {number}' AS varbinary(max)); EXEC usp_enqueueHeap @m")
            },
            take: "EXEC usp_dequeueHeap",
            complete: None,
            left: "SELECT COUNT(*) FROM HeapQueue",
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fifo_queue() {
    each_row_is_handled_once(
        "adopt_fifo",
        Article {
            tables: TABLES_AS_QUEUES,
            mapping: "fifo-queue.toml",
            table: "FifoQueue",
            add: |number| {
                format!("DECLARE @m varbinary(max) = CAST('row {number}' AS varbinary(max)); EXEC usp_enqueueFifo @m")
            },
            take: "EXEC usp_dequeueFifo",
            complete: None,
            left: "SELECT COUNT(*) FROM FifoQueue",
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_queue() {
    each_row_is_handled_once(
        "adopt_pending",
        Article {
            tables: TABLES_AS_QUEUES,
            mapping: "pending-queue.toml",
            table: "PendingQueue",
            add: |number| {
                format!(
                    "DECLARE @m varbinary(max) = CAST('row {number}' AS varbinary(max)), @due datetime = GETUTCDATE();
                     EXEC usp_enqueuePending @due, @m"
                )
            },
            take: "EXEC usp_dequeuePending",
            complete: None,
            left: "SELECT COUNT(*) FROM PendingQueue",
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requests_queue_with_a_completed_table() {
    each_row_is_handled_once(
        "adopt_requests",
        Article {
            tables: REQUESTS_QUEUE,
            mapping: "requests-queue.toml",
            table: "RequestsQueue",
            add: |number| format!("EXEC usp_Request_Push 'row {number}'"),
            take: "EXEC usp_Request_Pop",
            complete: Some(|id| format!("UPDATE RequestsCompleted SET CompletedDate = GETDATE() WHERE id = '{id}'")),
            // All of them were moved, and none got lost.
            left: "SELECT (SELECT COUNT(*) FROM RequestsQueue)
                        + (SELECT COUNT(*) FROM RequestsCompleted WHERE CompletedDate IS NULL OR RemovedDate >
                        CompletedDate)
                        + ABS((SELECT COUNT(*) FROM RequestsCompleted) - {rows})",
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_with_retries_and_app_servers() {
    each_row_is_handled_once(
        "adopt_four",
        Article {
            tables: FOUR_QUEUE,
            mapping: "four-queue.toml",
            table: "four_queue",
            add: |number| format!("INSERT dbo.four_queue (reputation) VALUES ({number})"),
            // With app_server where the article says app_server_name, which its table has not.
            take: "DECLARE @id bigint, @reputation int, @app_server_name sysname = N'theirs';
                   WITH q4 AS
                   (
                       SELECT TOP (1) fq.*
                       FROM dbo.four_queue AS fq WITH(READPAST, ROWLOCK, UPDLOCK)
                       WHERE fq.scheduled_start_date <= SYSDATETIME()
                       AND
                       (
                           fq.in_process = 0
                           OR (fq.in_process = 1 AND end_date IS NULL AND app_server = @app_server_name AND attempts <
                           3)
                           OR (fq.in_process = 1 AND end_date IS NULL AND start_date < DATEADD(MINUTE, -10,
                           SYSDATETIME()) AND attempts < 3)
                       )
                       ORDER BY fq.id
                   )
                   UPDATE q4
                   SET q4.in_process = 1,
                       q4.start_date = SYSDATETIME(),
                       q4.app_server = @app_server_name,
                       q4.attempts = q4.attempts + 1,
                       @id = q4.id,
                       @reputation = q4.reputation
                   FROM q4;
                   SELECT @id AS id, CONCAT(N'{\"id\":', @id, N',\"reputation\":', @reputation, N'}') AS body
                   WHERE @id IS NOT NULL",
            complete: Some(|id| {
                format!(
                    "UPDATE fq SET fq.end_date = SYSDATETIME() FROM dbo.four_queue AS fq WHERE id = {id} AND \
                         in_process = 1"
                )
            }),
            // Done rows stay, marked, with their end and one attempt.
            left: "SELECT COUNT(*) FROM dbo.four_queue
                   WHERE in_process = 0 OR attempts <> 1 OR end_date > SYSDATETIME() OR duration_milliseconds < 0",
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outbox() {
    each_row_is_handled_once(
        "adopt_outbox",
        Article {
            tables: OUTBOX,
            mapping: "outbox.toml",
            table: "Outbox",
            add: |number| format!("INSERT Outbox (type, payload) VALUES (N'ordered', N'row {number}')"),
            take: "WITH next_event AS
                   (
                       SELECT TOP (1) id, payload, processed_at
                       FROM Outbox WITH (ROWLOCK, UPDLOCK, READPAST)
                       WHERE processed_at IS NULL
                       ORDER BY id
                   )
                   UPDATE next_event SET processed_at = SYSUTCDATETIME()
                   OUTPUT inserted.id, inserted.payload",
            complete: None,
            left: "SELECT COUNT(*) FROM Outbox WHERE processed_at IS NULL OR processed_at > SYSUTCDATETIME()",
        },
    )
    .await;
}

/// Drains the queue with a handler, without a pause between attempts.
async fn drain(config: &Config, queue: &Queue, handler: fn(&Job) -> Result<(), BoxError>) {
    let settings = changed(config.worker.clone(), |worker| {
        worker.retry.base = Duration::from_millis(1);
        worker.retry.max = Duration::from_millis(1);
        worker.promote_interval = Duration::from_millis(100);
    });
    let worker =
        Worker::builder(queue, Handlers::any(move |job, _| handler(job))).config(&settings).start().await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), worker.drain()).await.expect("it ends").unwrap();
}

/// Fails for good what says so, in all its attempts; some other rows once.
fn picky(job: &Job) -> Result<(), BoxError> {
    match job.text()? {
        body if body.contains("bad") || body.contains("13") => Err("it is bad".into()),
        body if body.contains("slow") && job.attempt() == 1 => Err("not yet".into()),
        _ => Ok(()),
    }
}

async fn fixture_with(test_name: &str, tables: &str, mapping: &str, rows: &str) -> (Fixture, Session) {
    let (fixture, _) = adopted(test_name, tables, mapping).await;
    let mut session = fixture.session().await;
    session.sql(rows).await;
    drain(&fixture.config, &fixture.queue, picky).await;
    (fixture, session)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_in_a_simple_queue_stays_with_its_error() {
    let (fixture, mut session) = fixture_with(
        "adopt_simple_failed",
        SIMPLE_QUEUE,
        "simple-queue.toml",
        "INSERT SimpleQueue (Id, CreatedAt, Payload) SELECT NEWID(), SYSUTCDATETIME(), value FROM (VALUES (N'good'), \
         (N'bad'), (N'slow')) AS v (value)",
    )
    .await;
    let row = session
        .row(
            "SELECT Payload, Errors, CAST(CASE WHEN ProcessingStartedAt IS NULL THEN 0 ELSE 1 END AS \
                           int) AS taken FROM SimpleQueue",
        )
        .await;
    assert_eq!(text(&row, "Payload").as_deref(), Some("bad"));
    assert_eq!(text(&row, "Errors").as_deref(), Some("it is bad"));
    assert_eq!(number(&row, "taken"), 1);
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.ready, stats.claimed, stats.dead), (0, 0, 1));

    // An operator has it run again, and it goes well.
    fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap();
    drain(&fixture.config, &fixture.queue, |_| Ok(())).await;
    assert_eq!(session.number("SELECT COUNT(*) FROM SimpleQueue").await, 0);
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_in_a_status_queue_has_its_own_status() {
    let (fixture, mut session) = fixture_with(
        "adopt_status_failed",
        status_tables(),
        "status-queue.toml",
        "EXEC EnqueueMessage 0x676F6F64; EXEC EnqueueMessage 0x626164; EXEC EnqueueMessage 0x736C6F77",
    )
    .await;
    assert_eq!(session.numbers("SELECT CAST(Status AS int) FROM [Queue]").await, [3]);
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_in_a_requests_queue_was_removed_and_not_completed() {
    let (fixture, mut session) = fixture_with(
        "adopt_requests_failed",
        REQUESTS_QUEUE,
        "requests-queue.toml",
        "EXEC usp_Request_Push 'good'; EXEC usp_Request_Push 'bad'; EXEC usp_Request_Push 'slow'",
    )
    .await;
    let rows = session
        .sql(
            "SELECT request, CAST(CASE WHEN CompletedDate IS NULL THEN 0 ELSE 1 END AS int) AS completed FROM \
              RequestsCompleted ORDER BY request",
        )
        .await;
    let found: Vec<_> = rows.iter().map(|row| (text(row, "request").unwrap(), number(row, "completed"))).collect();
    assert_eq!(found, [("bad".to_string(), 0), ("good".to_string(), 1), ("slow".to_string(), 1)]);
    assert_eq!(session.number("SELECT COUNT(*) FROM RequestsQueue").await, 0);
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_in_a_queue_with_retries_has_used_them_up() {
    let (fixture, mut session) = fixture_with(
        "adopt_four_failed",
        FOUR_QUEUE,
        "four-queue.toml",
        "INSERT dbo.four_queue (reputation) VALUES (11), (13), (17)",
    )
    .await;
    let rows = session
        .sql(
            "SELECT reputation, CAST(in_process AS int) AS in_process, CAST(attempts AS int) AS attempts,
                    CAST(CASE WHEN end_date IS NULL THEN 0 ELSE 1 END AS int) AS ended, app_server
             FROM dbo.four_queue ORDER BY id",
        )
        .await;
    let found: Vec<_> = rows
        .iter()
        .map(|row| {
            (number(row, "reputation"), number(row, "in_process"), number(row, "attempts"), number(row, "ended"))
        })
        .collect();
    assert_eq!(found, [(11, 1, 1, 1), (13, 1, 3, 0), (17, 1, 1, 1)]);
    assert!(text(&rows[0], "app_server").is_some_and(|name| !name.is_empty()));
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_in_an_outbox_is_neither_waiting_nor_sent() {
    let (fixture, mut session) = fixture_with(
        "adopt_outbox_failed",
        OUTBOX,
        "outbox.toml",
        "INSERT Outbox (type, payload) VALUES (N'a', N'good'), (N'b', N'bad'), (N'c', N'slow')",
    )
    .await;
    let never = "SELECT id FROM Outbox WHERE processed_at > '9999-01-01'";
    assert_eq!(session.numbers(never).await, [2]);
    assert_eq!(session.number("SELECT COUNT(*) FROM Outbox WHERE processed_at <= SYSUTCDATETIME()").await, 2);
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_row_of_a_heap_is_kept_until_it_is_requeued() {
    let (fixture, mut session) = fixture_with(
        "adopt_heap_failed",
        TABLES_AS_QUEUES,
        "heap-queue.toml",
        "EXEC usp_enqueueHeap 0x676F6F64; EXEC usp_enqueueHeap 0x626164",
    )
    .await;
    assert_eq!(session.number("SELECT COUNT(*) FROM HeapQueue").await, 0);
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().dead, 1);
    let refusal = readpast_adopt::remove(&fixture.queue).await.unwrap_err();
    assert!(refusal.to_string().contains("exist nowhere else"), "{refusal}");
    fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap();
    drain(&fixture.config, &fixture.queue, |_| Ok(())).await;
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[jobs]").await, 0);
    drop(session);
    fixture.remove().await;
}

/// "Using tables as queues": a row whose time has not come is nobody's.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_not_due_waits_in_its_table() {
    let (fixture, mut session) = fixture_with(
        "adopt_not_due",
        TABLES_AS_QUEUES,
        "pending-queue.toml",
        "DECLARE @later datetime = DATEADD(HOUR, 1, GETUTCDATE()), @sooner datetime = DATEADD(HOUR, -1, GETUTCDATE());
         EXEC usp_enqueuePending @later, 0x01; EXEC usp_enqueuePending @sooner, 0x02",
    )
    .await;
    assert_eq!(session.number("SELECT COUNT(*) FROM PendingQueue WHERE Payload = 0x01").await, 1);
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().ready, 0);
    drop(session);
    fixture.remove().await;
}

/// A handler gets the row's key with the job, and what the mapping says of its kind.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_knows_its_row() {
    let (fixture, _) = adopted("adopt_row", OUTBOX, "outbox.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT Outbox (type, payload) VALUES (N'ordered', N'{}')").await;
    let handler = |job: &Job, _: &readpast::Context| -> Result<(), BoxError> {
        let key = job.headers().find(|(name, _)| *name == "id").and_then(|(_, id)| id.as_str());
        if job.kind() == Some("ordered") && key == Some("1") { Ok(()) } else { Err(format!("{key:?}").into()) }
    };
    let worker = Worker::builder(&fixture.queue, Handlers::any(handler)).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 1);
    assert_eq!(example("outbox.toml").queue(), "outbox");
    assert!(session.numbers("SELECT id FROM Outbox WHERE processed_at IS NULL").await.is_empty());
    drop(session);
    fixture.remove().await;
}
