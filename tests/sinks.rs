//! A queue's sink: results are written in the transaction of the acknowledgement, once, however often a job has run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use readpast::admin::{CompletionPolicy, Delivery, JobChange, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::crates::uuid::Uuid;
use readpast::{BoxError, Error, Handlers, JobError, NewJob, Output, Queue, Worker};
use readpast_devserver::SqlError;

use crate::support::under_faults::UnderFaults;
use crate::support::{Fixture, JobCounts, Session, WorkerSession, bytes, changed, dev_server, number, text};

/// The error of an acknowledgement whose sink failed.
const SINK_FAILED: u32 = 58020;

const REFUSED: u32 = 58003;

/// Results by job, and a sink that writes them and refuses some.
const RESULTS: &str = "CREATE TABLE [$(schema)].[results]
    (
        job_id         bigint           NOT NULL PRIMARY KEY,
        kind           varchar(64)      NULL,
        correlation_id uniqueidentifier NULL,
        fence          int              NOT NULL,
        output         varbinary(max)   NULL CONSTRAINT good CHECK (output <> 0x626164)
    )";

const WRITE_RESULTS: &str = "INSERT [$(schema)].[results] (job_id, kind, correlation_id, fence, output)
    SELECT job_id, kind, correlation_id, fence, output FROM @done;";

/// Makes the sink `[schema].[sink]` with this body and gives it to the queue.
async fn give_sink(fixture: &Fixture, body: &str) {
    make_sink(fixture, body).await;
    let sink = format!("{}.sink", fixture.schema());
    fixture.queue.admin().create(QueueOptions::default().sink(sink)).await.unwrap();
}

async fn make_sink(fixture: &Fixture, body: &str) {
    let create =
        "CREATE OR ALTER PROCEDURE [$(schema)].[sink] @done [$(schema)].[sink_list] READONLY AS SET NOCOUNT ON;";
    fixture.sql(&format!("{create} {body}")).await;
}

/// Removes what is not readpast's, then the rest.
async fn remove(fixture: Fixture, tables: &[&str]) {
    let mut session = fixture.session().await;
    session.sql("DROP PROCEDURE IF EXISTS [$(schema)].[sink]").await;
    for table in tables {
        session.sql(&format!("DROP TABLE [$(schema)].[{table}]")).await;
    }
    drop(session);
    fixture.remove().await;
}

/// A worker whose jobs leave their payloads behind.
async fn echo(queue: &Queue, config: WorkerConfig) -> Worker {
    Worker::builder(queue, Handlers::any(|job, _| Ok(Output::bytes(job.payload()))))
        .config(&config)
        .start()
        .await
        .unwrap()
}

fn quick_retries() -> WorkerConfig {
    changed(WorkerConfig::default(), |worker| {
        worker.retry.base = Duration::from_millis(1);
        worker.retry.max = Duration::from_millis(1);
        worker.promote_interval = Duration::from_millis(10);
    })
}

async fn job_error(fixture: &Fixture) -> String {
    fixture.queue.admin().list(&JobState::Dead.into(), None, 1).await.unwrap().jobs[0].error.clone().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_gets_each_job_that_is_done_whatever_becomes_of_its_row() {
    for completion in [CompletionPolicy::Delete, CompletionPolicy::Annotate, CompletionPolicy::Archive] {
        let fixture = Fixture::with("sink_gets", QueueOptions::default().completion(completion)).await;
        fixture.sql(RESULTS).await;
        give_sink(&fixture, WRITE_RESULTS).await;
        let correlation_id = Uuid::new_v4();
        let large = vec![7_u8; 100_000];
        let jobs = [
            NewJob::text("one").kind("k").correlation_id(correlation_id),
            NewJob::text("two"),
            NewJob::bytes(large.clone()),
        ];
        let ids = fixture.queue.enqueue_many(&jobs).await.unwrap();
        let summary = echo(&fixture.queue, WorkerConfig::default()).await.drain().await.unwrap();
        assert_eq!(summary.stats.done, 3);

        let rows = fixture.sql("SELECT * FROM [$(schema)].[results] ORDER BY job_id").await;
        let written: Vec<i64> = rows.iter().map(|row| number(row, "job_id")).collect();
        assert_eq!(written, ids.iter().map(|enqueued| enqueued.job_id.0).collect::<Vec<_>>());
        assert_eq!((text(&rows[0], "kind").as_deref(), number(&rows[0], "fence")), (Some("k"), 1));
        assert_eq!(rows[0].get::<Uuid, _>("correlation_id"), Some(correlation_id));
        let outputs: Vec<_> = rows.iter().map(|row| bytes(row, "output").unwrap()).collect();
        assert_eq!(outputs, [b"one".to_vec(), b"two".to_vec(), large]);
        let kept = fixture.job_counts().await;
        assert_eq!(
            (kept.done, kept.archived),
            match completion {
                CompletionPolicy::Annotate => (3, 0),
                CompletionPolicy::Archive => (0, 3),
                _ => (0, 0),
            }
        );
        remove(fixture, &["results"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_refused_costs_its_job_and_no_other() {
    let fixture = Fixture::with("sink_refuses", QueueOptions::default().max_attempts(2)).await;
    fixture.sql(RESULTS).await;
    give_sink(&fixture, WRITE_RESULTS).await;
    let jobs: Vec<NewJob> =
        (0..300).map(|number| NewJob::text(if number == 123 { "bad".into() } else { number.to_string() })).collect();
    let ids = fixture.queue.enqueue_many(&jobs).await.unwrap();
    let summary = echo(&fixture.queue, quick_retries()).await.drain().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.retried, summary.stats.dead), (299, 1, 1));
    assert_eq!(fixture.sql("SELECT job_id FROM [$(schema)].[results]").await.len(), 299);
    let dead = fixture.queue.admin().job(ids[123].job_id, None).await.unwrap().unwrap();
    assert_eq!((dead.state, dead.attempt), (JobState::Dead, 2));
    let error = dead.error.unwrap();
    let names_all = ["the sink [", "].[sink] failed with error 547 in line 1 of ", "constraint", "good"];
    assert!(names_all.iter().all(|part| error.contains(part)), "{error}");
    remove(fixture, &["results"]).await;
}

/// The one with an output too large for a list, whose acknowledgement is a call of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_that_is_refused_costs_its_job_and_no_other() {
    let fixture = Fixture::with("sink_large", QueueOptions::default().max_attempts(1)).await;
    fixture.sql(RESULTS).await;
    let refuse = "IF EXISTS (SELECT 1 FROM @done WHERE DATALENGTH(output) = 70000) THROW 50001, N'too much', 1;";
    give_sink(&fixture, &format!("{refuse} {WRITE_RESULTS}")).await;
    let jobs = [NewJob::bytes(vec![1; 70_000]), NewJob::bytes(vec![1; 80_000]), NewJob::text("small")];
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let summary = echo(&fixture.queue, quick_retries()).await.drain().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.dead), (2, 1));
    let error = job_error(&fixture).await;
    assert!(error.contains("failed with error 50001") && error.ends_with(": too much"), "{error}");
    remove(fixture, &["results"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_job_is_not_the_sink_s_and_a_failed_one_neither() {
    let fixture = Fixture::new("sink_lost").await;
    fixture.sql(RESULTS).await;
    give_sink(&fixture, WRITE_RESULTS).await;
    fixture.queue.enqueue_many(&[NewJob::text("a"), NewJob::text("b"), NewJob::text("c")]).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let jobs = worker.claim(3).await;
    let mut late = jobs[0].done();
    late.fence -= 1;
    let reports = worker.finish(&[late, jobs[1].retry(0, "again"), jobs[2].done()]).await;
    assert_eq!(reports, [(jobs[0].job_id, "lost".to_string())]);
    let mut session = fixture.session().await;
    assert_eq!(session.numbers("SELECT job_id FROM [$(schema)].[results]").await, [jobs[2].job_id]);
    // Sent again, because the answer was lost: nothing is written twice.
    assert_eq!(worker.finish(&[jobs[2].done()]).await, [(jobs[2].job_id, "lost".to_string())]);
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[results]").await, 1);
    drop((worker, session));
    remove(fixture, &["results"]).await;
}

/// The worker's claimed jobs, and nothing that the sink wrote.
async fn nothing_happened(session: &mut Session) {
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE state = 2").await, 2);
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[results]").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_fails_or_meddles_with_the_transaction_undoes_all() {
    let fixture = Fixture::new("sink_meddles").await;
    fixture.sql(RESULTS).await;
    fixture.queue.enqueue_many(&[NewJob::text("a"), NewJob::text("b")]).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let jobs: Vec<_> = worker.claim(2).await.iter().map(|job| job.done()).collect();
    let mut session = fixture.session().await;
    for (body, number, reason) in [
        ("THROW 51000, N'it says no', 1;", "51000: ", "with error 51000 in line 3 of "),
        ("THROW 51000, N'50%%d', 1;", "51000: ", ": 50%d"),
        // Doubled and cut.
        ("DECLARE @long nvarchar(2048) = REPLICATE(N'%%', 1000); THROW 51000, @long, 1;", "51000: ", ": %%%%"),
        ("RAISERROR (N'it says no', 16, 1);", "50000: ", "it says no"),
        ("DECLARE @n int = 1 / 0;", "8134: ", "ivide by zero"),
        // (Which number SQL Server has for these depends on XACT_ABORT.)
        ("COMMIT TRANSACTION;", "", "ransaction"),
        ("ROLLBACK TRANSACTION;", "", "ransaction"),
        ("BEGIN TRANSACTION;", "", "ransaction"),
        (
            "BEGIN TRY DECLARE @n int = 1 / 0; END TRY BEGIN CATCH SET NOCOUNT ON; END CATCH;",
            "58003: ",
            "caught an error",
        ),
    ] {
        give_sink(&fixture, &format!("{WRITE_RESULTS}\n{body}")).await;
        let error = worker.try_finish(&jobs).await.unwrap_err();
        let tiberius::error::Error::Server(error) = error else { panic!("{body}: {error}") };
        assert_eq!(error.code(), SINK_FAILED, "{body}: {}", error.message());
        assert!(error.message().starts_with(number) && error.message().contains(reason), "{body}: {}", error.message());
        nothing_happened(&mut session).await;
        assert_eq!(worker.session.number("SELECT @@TRANCOUNT").await, 0, "{body}");
    }
    // One that answers with rows, of its own kind, does no harm.
    give_sink(&fixture, &format!("SELECT N'hello' AS word; {WRITE_RESULTS} SELECT N'world' AS word;")).await;
    drop((worker, session));
    fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap();
    fixture.sql("UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME())").await;
    fixture.sql("EXEC [$(schema)].[reap] @queue = N'work'").await;
    assert_eq!(echo(&fixture.queue, WorkerConfig::default()).await.drain().await.unwrap().stats.done, 2);
    remove(fixture, &["results"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_sink_is_refused_when_it_is_set() {
    let fixture = Fixture::new("no_sink").await;
    let mut session = fixture.session().await;
    make_sink(&fixture, "RETURN;").await;
    for (name, parameters) in [
        ("no_parameter", ""),
        ("a_number", "@done int"),
        ("another_list", "@done [$(schema)].[job_list] READONLY"),
        ("one_more", "@done [$(schema)].[sink_list] READONLY, @more int = 1"),
    ] {
        session.sql(&format!("CREATE PROCEDURE [$(schema)].[{name}] {parameters} AS RETURN")).await;
        let schema = fixture.schema();
        let error =
            fixture.queue.admin().create(QueueOptions::default().sink(format!("{schema}.{name}"))).await.unwrap_err();
        let expected = format!(
            "sink is '{schema}.{name}'; it must be a procedure with one parameter, a [{schema}].[sink_list] READONLY"
        );
        assert!(matches!(&error, Error::Refused { message, .. } if *message == expected), "{error}");
        session.sql(&format!("DROP PROCEDURE [$(schema)].[{name}]")).await;
    }
    let error =
        fixture.queue.admin().create(QueueOptions::default().sink("dbo.nowhere")).await.unwrap_err().to_string();
    assert!(error.contains("sink is 'dbo.nowhere'; it must be a procedure of this database"), "{error}");
    let error = fixture.queue.admin().create(QueueOptions::default().sink(" ")).await.unwrap_err().to_string();
    assert!(error.contains("sink is ''"), "{error}");

    let sink = || QueueOptions::default().sink(format!("{}.sink", fixture.schema()));
    let both =
        "EXEC [$(schema)].[create_queue] @queue = N'both', @delivery = 'at_most_once', @sink = N'[$(schema)].[sink]'";
    assert_eq!(session.refusal(both).await.0, REFUSED);
    fixture.queue.admin().create(sink()).await.unwrap();
    let error = fixture
        .queue
        .admin()
        .create(QueueOptions::default().delivery(Delivery::AtMostOnce))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("at_most_once cannot have a sink"), "{error}");
    fixture.queue.admin().create(QueueOptions::default().max_attempts(3)).await.unwrap();
    assert_eq!(
        fixture.queue.admin().stats(None).await.unwrap().sink,
        Some(format!("[{}].[sink]", fixture.schema())),
        "it stays"
    );
    fixture.queue.admin().create(QueueOptions::default().without_sink().delivery(Delivery::AtMostOnce)).await.unwrap();
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().sink, None);
    let error = fixture.queue.admin().create(sink()).await.unwrap_err().to_string();
    assert!(error.contains("at_most_once cannot have a sink"), "{error}");
    drop(session);
    remove(fixture, &[]).await;
}

/// As when the sink's tables are locked in another order than by another session.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_in_the_sink_is_nobody_s_fault() {
    let fixture = Fixture::on_dev_server("sink_deadlock", QueueOptions::default().max_attempts(1)).await;
    fixture.sql(RESULTS).await;
    give_sink(&fixture, WRITE_RESULTS).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let deadlock = "Transaction (Process ID 51) was deadlocked on lock resources with another process.";
    let decide =
        move |_| (counted.fetch_add(1, Ordering::Relaxed) < 3).then(|| SqlError::new(1205, deadlock).severity(13));
    dev_server().await.faults().on_call(&fixture.procedure_to_fail("sink"), decide);
    fixture.queue.enqueue_many(&crate::support::numbers(4)).await.unwrap();
    let summary = echo(&fixture.queue, WorkerConfig::default()).await.drain().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.retried, summary.stats.dead), (4, 0, 0));
    assert!(calls.load(Ordering::Relaxed) > 3);
    dev_server().await.faults().clear(&fixture.procedure_to_fail("sink"));
    remove(fixture, &["results"]).await;
}

/// A list of a failed and a done job is changed by two statements. While the sink runs, an operator cancels both: its
/// rows are locked in the order of job_id as the operator's are, so that one waits for the other, and not in a circle.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_failed_and_done_jobs_is_locked_in_one_order() {
    let fixture = Fixture::new("sink_order").await;
    fixture.sql("CREATE TABLE [$(schema)].[gate] (n int NOT NULL); INSERT [$(schema)].[gate] (n) VALUES (0)").await;
    give_sink(&fixture, "UPDATE [$(schema)].[gate] SET n = 2;").await;
    fixture.queue.enqueue_many(&crate::support::numbers(2)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let jobs = worker.claim(2).await;
    let (mut gate, mut operator) = (fixture.session().await, fixture.session().await);
    gate.sql("BEGIN TRANSACTION; UPDATE [$(schema)].[gate] SET n = 1").await;
    let (first, second) = (worker.session.number("SELECT @@SPID").await, operator.number("SELECT @@SPID").await);
    let waits = |spid: i64| {
        format!("SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = {spid} AND request_status = 'WAIT'")
    };

    let acknowledged = [jobs[0].retry(0, "again"), jobs[1].done()];
    let finishing = tokio::spawn(async move { worker.finish(&acknowledged).await });
    while gate.number(&waits(first)).await == 0 {}
    let ids = format!("INSERT @ids (job_id) VALUES ({}), ({});", jobs[0].job_id, jobs[1].job_id);
    let cancelling = tokio::spawn(async move {
        let cancel = "EXEC [$(schema)].[cancel] @queue = N'work', @jobs = @ids";
        operator.sql(&format!("DECLARE @ids [$(schema)].[id_list]; {ids} {cancel}")).await;
    });
    while gate.number(&waits(second)).await == 0 {}
    gate.sql("COMMIT TRANSACTION").await;
    assert_eq!(finishing.await.unwrap(), [], "no deadlock: both ended as asked");
    cancelling.await.unwrap();
    drop(gate);
    remove(fixture, &["gate"]).await;
}

/// The retry that a refused result becomes is an end like any other: what was noted before is there for the next
/// attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_result_keeps_the_checkpoint_that_was_noted_last() {
    let fixture = Fixture::new("sink_checkpoint").await;
    fixture.sql(RESULTS).await;
    give_sink(&fixture, WRITE_RESULTS).await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    let handlers = Handlers::any(move |job, context| {
        counted.fetch_add(1, Ordering::Relaxed);
        let (found, first) = (job.checkpoint().is_some(), job.attempt() == 1);
        assert!(found != first, "the second attempt finds what the first has noted");
        context.checkpoint("noted")?;
        Ok(Output::bytes(if found { "good" } else { "bad" }))
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&quick_retries()).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, attempts.load(Ordering::Relaxed)), (1, 1, 2));
    remove(fixture, &["results"]).await;
}

/// Its results would be called bad, one by one, though none of them is.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_is_gone_stops_the_worker_and_fails_no_job() {
    let fixture = Fixture::with("sink_gone", QueueOptions::default().max_attempts(1)).await;
    give_sink(&fixture, "RETURN;").await;
    fixture.sql("DROP PROCEDURE [$(schema)].[sink]").await;
    fixture.queue.enqueue_many(&crate::support::numbers(5)).await.unwrap();
    let worker = echo(&fixture.queue, WorkerConfig::default()).await;
    let error = worker.run().await.unwrap_err();
    assert!(matches!(error, Error::ResultRefused { number: 2812, .. }), "{error}");
    let JobCounts { dead, claimed, ready, .. } = fixture.job_counts().await;
    assert_eq!((dead, claimed + ready), (0, 5));
    remove(fixture, &[]).await;
}

/// One result takes the sink longer than a call may last.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_hangs_over_one_result_costs_that_job_only() {
    let mut fixture = Fixture::with("sink_hangs", QueueOptions::default().max_attempts(1)).await;
    fixture.sql(RESULTS).await;
    let hang = "IF EXISTS (SELECT 1 FROM @done WHERE output = 0x626164) WAITFOR DELAY '00:00:03';";
    give_sink(&fixture, &format!("{hang} {WRITE_RESULTS}")).await;
    fixture.config.connection.command_timeout = Duration::from_secs(1);
    let queue = fixture.connect().await;
    let jobs: Vec<NewJob> =
        (0..20).map(|number| NewJob::text(if number == 5 { "bad".into() } else { number.to_string() })).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let summary = echo(&queue, quick_retries()).await.drain().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.dead), (19, 1));
    assert!(job_error(&fixture).await.contains("could not be delivered in "), "{}", job_error(&fixture).await);
    drop(queue);
    remove(fixture, &["results"]).await;
}

/// What a sink does not even see cannot be undeliverable because of it, however often SQL Server does not answer in
/// time.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_dead_stays_dead_however_late_its_acknowledgement_is() {
    let mut fixture = Fixture::on_dev_server("sink_dead", QueueOptions::default().max_attempts(3)).await;
    fixture.sql(RESULTS).await;
    give_sink(&fixture, WRITE_RESULTS).await;
    // As often as a result would be given up. What hangs does so until it is tried again, and is undone.
    let tries = Arc::new((Mutex::new(0_u64), Condvar::new()));
    let counted = tries.clone();
    dev_server().await.faults().on_call(&fixture.procedure_to_fail("finish"), move |call| {
        let (count, tried_again) = &*counted;
        let mut count = count.lock();
        *count += 1;
        tried_again.notify_all();
        if call > 6 {
            return None;
        }
        let this = *count;
        tried_again.wait_while(&mut count, |count| *count == this);
        Some(SqlError::new(40501, "busy").severity(16))
    });
    fixture.config.connection.command_timeout = Duration::from_secs(1);
    let queue = fixture.connect().await;
    queue.enqueue(&NewJob::text("x")).await.unwrap();
    let handlers = Handlers::any(|_, _| -> Result<(), BoxError> { Err(JobError::dead("hopeless").into()) });
    let worker = Worker::builder(&queue, handlers).config(&quick_retries()).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.dead, stats.retried, stats.lost), (1, 0, 0));
    assert_eq!(job_error(&fixture).await, "hopeless");
    assert!(*tries.0.lock() > 6);
    drop(queue);
    remove(fixture, &["results"]).await;
}

/// The worker's login has no right on the sink or its table: they have the owner that readpast's procedures have.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_s_login_needs_no_right_on_what_the_sink_writes() {
    let fixture = Fixture::new("sink_role").await;
    fixture.sql(RESULTS).await;
    give_sink(&fixture, WRITE_RESULTS).await;
    let login = fixture.create_login(Some("worker")).await;
    fixture.queue.enqueue_many(&crate::support::numbers(5)).await.unwrap();
    let queue = fixture.connect_as(&login).await;
    assert_eq!(echo(&queue, WorkerConfig::default()).await.drain().await.unwrap().stats.done, 5);
    let mut session = fixture.session_as(&login).await;
    assert_eq!(session.refusal("SELECT * FROM [$(schema)].[results]").await.0, 229);
    drop((queue, session));
    fixture.drop_login(&login).await;
    remove(fixture, &["results"]).await;
}

/// Sums in ten rows, which acknowledgements of several workers change at once.
const SUMS: &str = "CREATE TABLE [$(schema)].[sums]
    (bucket int NOT NULL PRIMARY KEY, jobs bigint NOT NULL, total bigint NOT NULL);
    INSERT [$(schema)].[sums] (bucket, jobs, total)
    VALUES (0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0), (5, 0, 0), (6, 0, 0), (7, 0, 0), (8, 0, 0),
           (9, 0, 0);";

const ADD_UP: &str = "UPDATE s SET jobs = s.jobs + d.jobs, total = s.total + d.total
    FROM [$(schema)].[sums] AS s
    INNER JOIN (SELECT job_id % 10 AS bucket, COUNT_BIG(*) AS jobs,
                       SUM(CAST(SUBSTRING(CAST(output AS varchar(20)), 6, 15) AS bigint)) AS total
                FROM @done GROUP BY job_id % 10) AS d ON d.bucket = s.bucket;";

/// `jobs` jobs in three worker processes that reach SQL Server by a proxy; processes are killed and connections cut,
/// stalled and reset in the middle of acknowledgements. In the end every job has been added once.
async fn sums_are_exact(test_name: &str, jobs: usize, kills: usize) {
    let fixture = Fixture::with(test_name, QueueOptions::default().max_attempts(10_000)).await;
    fixture.sql(SUMS).await;
    give_sink(&fixture, ADD_UP).await;
    let new: Vec<NewJob> = (1..=jobs).map(|number| NewJob::text(format!("echo {number}"))).collect();
    fixture.queue.enqueue_many(&new).await.unwrap();
    let mut workers = UnderFaults::start(&fixture).await;
    workers.strike(jobs, kills).await;
    let give_up = Instant::now() + Duration::from_secs(600);
    while fixture.queue.admin().stats(None).await.unwrap().claimed
        + fixture.queue.admin().stats(None).await.unwrap().ready
        > 0
    {
        assert!(Instant::now() < give_up, "jobs are left: {:?}", fixture.queue.admin().stats(None).await.unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    workers.stop().await;
    assert_eq!(fixture.job_counts().await, JobCounts::default());
    let row =
        fixture.session().await.row("SELECT SUM(jobs) AS jobs, SUM(total) AS total FROM [$(schema)].[sums]").await;
    let expected = jobs as i64;
    assert_eq!((number(&row, "jobs"), number(&row, "total")), (expected, expected * (expected + 1) / 2));
    remove(fixture, &["sums"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_are_exact_under_kills_cuts_and_stalls() {
    sums_are_exact("sink_sums", 10_000, 6).await;
}

/// `cargo test --release --test tests -- --ignored a_hundred_thousand_results_are_added_once`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes"]
async fn a_hundred_thousand_results_are_added_once() {
    sums_are_exact("sink_100k", 100_000, 24).await;
}

/// `cargo test --release --test tests -- --ignored --nocapture one_bad_result_in_ten_thousand`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a minute"]
async fn one_bad_result_in_ten_thousand_costs_only_its_job() {
    const JOBS: usize = 100_000;
    let fixture = Fixture::with("sink_one_in", QueueOptions::default().max_attempts(1)).await;
    fixture.sql(RESULTS).await;
    give_sink(&fixture, WRITE_RESULTS).await;
    let jobs: Vec<NewJob> =
        (0..JOBS).map(|number| NewJob::text(if number % 10_000 == 777 { "bad" } else { "good" })).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let started_at = Instant::now();
    let summary = echo(&fixture.queue, WorkerConfig::default()).await.drain().await.unwrap();
    eprintln!("{JOBS} jobs, 10 of them refused: {:?}", started_at.elapsed());
    assert_eq!((summary.stats.done, summary.stats.dead), (JOBS as u64 - 10, 10));
    let mut session = fixture.session().await;
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[results]").await, JOBS as i64 - 10);
    drop(session);
    remove(fixture, &["results"]).await;
}

/// `cargo test --release --test tests -- --ignored --nocapture a_trivial_sink_costs_a_fifth`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: for a quiet machine and a release build"]
async fn a_trivial_sink_costs_a_fifth_of_the_throughput_at_the_most() {
    const JOBS: usize = 100_000;
    let fixture = Fixture::new("sink_speed").await;
    fixture.sql("CREATE TABLE [$(schema)].[sums] (jobs bigint NOT NULL); INSERT [$(schema)].[sums] VALUES (0)").await;
    let add =
        "DECLARE @jobs bigint = (SELECT COUNT_BIG(*) FROM @done); UPDATE [$(schema)].[sums] SET jobs = jobs + @jobs;";
    make_sink(&fixture, add).await;
    let sink = format!("{}.sink", fixture.schema());
    let jobs: Vec<NewJob> = (0..JOBS).map(|_| NewJob::text("x")).collect();
    let mut best = [Duration::MAX; 2];
    for round in 0..6 {
        let options = QueueOptions::default();
        let options = if round % 2 == 1 { options.sink(&sink) } else { options.without_sink() };
        fixture.queue.admin().create(options).await.unwrap();
        fixture.queue.enqueue_many(&jobs).await.unwrap();
        let started_at = Instant::now();
        let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
        assert_eq!(worker.drain().await.unwrap().stats.done, JOBS as u64);
        best[round % 2] = best[round % 2].min(started_at.elapsed());
    }
    let ratio = best[0].as_secs_f64() / best[1].as_secs_f64();
    eprintln!("without: {:?}, with: {:?}: {ratio:.2} of the throughput", best[0], best[1]);
    let mut session = fixture.session().await;
    assert_eq!(session.number("SELECT jobs FROM [$(schema)].[sums]").await, 3 * JOBS as i64);
    assert!(ratio >= 0.8, "{ratio}");
    drop(session);
    remove(fixture, &["sums"]).await;
}
