//! Rows of an adopted table that somebody makes ready again while they have a job: taken over once, in the order in
//! which everybody locks.

use std::time::Duration;

use crate::adopted::{OUTBOX, SIMPLE_QUEUE, STATUS_QUEUE, STATUS_QUEUE_INDEXES, adopted};
use crate::support::{Fixture, Session, WorkerSession, number};

const READY: &str = "UPDATE SimpleQueue SET ProcessingStartedAt = NULL";

async fn with_rows(test_name: &str, rows: u32) -> (Fixture, Session, WorkerSession) {
    let (fixture, _) = adopted(test_name, SIMPLE_QUEUE, "simple-queue.toml").await;
    let mut session = fixture.session().await;
    add(&mut session, rows).await;
    let worker = WorkerSession::register(&fixture).await;
    (fixture, session, worker)
}

async fn add(session: &mut Session, rows: u32) {
    session
        .sql(&format!(
            "INSERT SimpleQueue (Id, CreatedAt, Payload)
             SELECT NEWID(), SYSUTCDATETIME(), N'one' FROM GENERATE_SERIES(1, {rows})"
        ))
        .await;
}

/// Its job waits for the next attempt, and somebody has made its row ready.
#[tokio::test(flavor = "multi_thread")]
async fn one_call_does_not_send_a_job_twice() {
    let (fixture, mut session, mut worker) = with_rows("adopt_sent_once", 1).await;
    let first = worker.claim(10).await.remove(0);
    worker.finish(&[first.retry(0, "not yet")]).await;
    session.sql(READY).await;
    let again = worker.claim(10).await;
    let runs: Vec<_> = again.iter().map(|job| (job.job_id, job.fence, job.attempt)).collect();
    assert_eq!(runs, [(first.job_id, 2, 2)]);
    assert_eq!(
        session.number("SELECT COUNT(*) FROM SimpleQueue WHERE ProcessingStartedAt IS NULL").await,
        0,
        "it is marked again"
    );
    assert_eq!(worker.finish(&[again[0].done()]).await, []);
    assert_eq!(session.number("SELECT COUNT(*) FROM SimpleQueue").await, 0);
    drop((session, worker));
    fixture.remove().await;
}

/// An acknowledgement has the job and wants the row; a claim has the row, which somebody has made ready, and wants the
/// job. The claim can be made again without harm, so it is the victim.
#[tokio::test(flavor = "multi_thread")]
async fn where_a_claim_and_an_acknowledgement_meet_the_claim_gives_way() {
    let (fixture, mut session, mut worker) = with_rows("adopt_meet", 1).await;
    let job = worker.claim(10).await.remove(0);
    add(&mut session, 20).await;
    session.sql(READY).await;

    let mut finisher = fixture.session().await;
    finisher.sql("BEGIN TRANSACTION").await;
    let held = "SELECT job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK)";
    assert_eq!(finisher.numbers(held).await, [job.job_id]);
    let mut other = WorkerSession::register(&fixture).await;
    let claim = tokio::spawn(async move { other.try_claim(50).await });
    // It has their rows, and waits for the job.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!claim.is_finished(), "it waits");
    let finish = format!(
        "DECLARE @jobs [$(schema)].[finish_list]; INSERT @jobs (job_id, fence, outcome) VALUES ({}, {}, 0);
         EXEC [$(schema)].[finish] @queue = N'SimpleQueue', @worker_id = '{}', @jobs = @jobs",
        job.job_id, job.fence, worker.id
    );
    assert!(finisher.numbers(&finish).await.is_empty(), "nothing is lost");
    finisher.sql("COMMIT TRANSACTION").await;
    match claim.await.unwrap() {
        Err(tiberius::error::Error::Server(error)) => assert_eq!(error.code(), 1205, "{}", error.message()),
        other => panic!("{other:?}"),
    }
    assert_eq!(worker.claim(50).await.len(), 20, "the row is done, and the others are there");
    drop((session, finisher, worker));
    fixture.remove().await;
}

/// A claim that takes jobs over, beside everything that ends them: nobody but the claim is ever a victim, and every job
/// stands once.
#[tokio::test(flavor = "multi_thread")]
async fn taking_over_disturbs_nobody() {
    const ROWS: u32 = 12;
    let (fixture, mut session, mut worker) = with_rows("adopt_beside", ROWS).await;
    let mut victims = 0;
    for round in 0..24 {
        session.sql("DELETE SimpleQueue; DELETE [$(schema)].[jobs]; DELETE [$(schema)].[attempts]").await;
        add(&mut session, ROWS).await;
        let jobs = worker.claim(ROWS as i32).await;
        assert_eq!(jobs.len(), ROWS as usize);
        session.sql(READY).await;
        let list = |columns: &str, row: &dyn Fn(i64, i64) -> String| {
            let rows: Vec<String> = jobs.iter().map(|job| row(job.job_id, i64::from(job.fence))).collect();
            format!("INSERT @jobs ({columns}) VALUES {}", rows.join(", "))
        };
        let outcome = |outcome: u8| {
            format!(
                "DECLARE @jobs [$(schema)].[finish_list]; {};
                 EXEC [$(schema)].[finish] @queue = N'SimpleQueue', @worker_id = '{}', @jobs = @jobs",
                list("job_id, fence, outcome", &|id, fence| format!("({id}, {fence}, {outcome})")),
                worker.id
            )
        };
        let call = match round % 4 {
            0 => outcome(0),
            1 => outcome(2),
            2 => format!(
                "DECLARE @jobs [$(schema)].[job_list]; {};
                 EXEC [$(schema)].[release] @worker_id = '{}', @jobs = @jobs",
                list("job_id, fence", &|id, fence| format!("({id}, {fence})")),
                worker.id
            ),
            _ => format!(
                "DECLARE @jobs [$(schema)].[id_list]; {};
                 EXEC [$(schema)].[cancel] @queue = N'SimpleQueue', @jobs = @jobs",
                list("job_id", &|id, _| format!("({id})"))
            ),
        };
        let mut beside = fixture.session().await;
        let ending = tokio::spawn(async move { beside.try_sql(&call).await.map(|_| ()) });
        if let Err(error) = worker.try_claim(ROWS as i32).await {
            assert!(matches!(&error, tiberius::error::Error::Server(error) if error.code() == 1205), "{error}");
            victims += 1;
        }
        ending.await.unwrap().unwrap_or_else(|error| panic!("round {round}: {error}"));
        let twice = "SELECT COUNT(*) - COUNT(DISTINCT their_Id) FROM [$(schema)].[jobs]";
        assert_eq!(session.number(twice).await, 0);
    }
    println!("{victims} claims gave way");
    drop((session, worker));
    fixture.remove().await;
}

/// What the row says now is what its job is.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_taken_over_is_what_its_row_says() {
    let (fixture, _) = adopted("adopt_said", OUTBOX, "outbox.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT Outbox (type, payload) VALUES (N'ordered', N'one')").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = worker.claim(1).await.remove(0);
    session
        .sql(
            "UPDATE [$(schema)].[jobs] SET checkpointed = 1;
             UPDATE Outbox SET processed_at = NULL, type = N'paid', created_at = '20200102'",
        )
        .await;
    let again = worker.claim(1).await.remove(0);
    assert_eq!((again.job_id, again.fence), (first.job_id, 2));
    let row = session
        .row(
            "SELECT CAST(ISNULL(checkpointed, 0) AS int) AS checkpointed,
                    CAST(CASE WHEN kind = 'paid' AND enqueued_at = '20200102' THEN 1 ELSE 0 END AS int) AS is_new
             FROM [$(schema)].[jobs]",
        )
        .await;
    assert_eq!((number(&row, "checkpointed"), number(&row, "is_new")), (0, 1));
    drop((session, worker));
    fixture.remove().await;
}

/// What somebody has done with a row that a worker holds is not undone, where the marks of a claim tell it apart.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_no_longer_marked_is_left_alone() {
    let tables = format!("{STATUS_QUEUE}GO\n{STATUS_QUEUE_INDEXES}");
    let (fixture, _) = adopted("adopt_unmarked", &tables, "status-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT [Queue] (Status, Message) VALUES (1, 0x01), (1, 0x02), (1, 0x03), (1, 0x04)").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let jobs = worker.claim(4).await;
    // One is put away by hand, one is made ready.
    session.sql("UPDATE [Queue] SET Status = 9 WHERE Id = 1; UPDATE [Queue] SET Status = 1 WHERE Id = 2").await;
    assert!(worker.release([&jobs[0], &jobs[2]]).await.is_empty(), "both are given back");
    worker.finish(&[jobs[1].dead("no use"), jobs[3].dead("no use")]).await;
    let status = "SELECT CAST(Status AS int) FROM [Queue] ORDER BY Id";
    assert_eq!(session.numbers(status).await, [9, 1, 1, 3]);
    let again = worker.claim(4).await;
    let runs: Vec<_> = again.iter().map(|job| (job.job_id, job.fence)).collect();
    assert_eq!(runs.len(), 2);
    assert!(runs.contains(&(jobs[1].job_id, 2)), "the dead one is taken over: {runs:?}");

    // Nor does the removal undo it.
    session
        .sql(&format!(
            "UPDATE [Queue] SET Status = 9 WHERE Id = 2;
             EXEC [$(schema)].[unregister_worker] @queue = N'messages', @worker_id = '{}'",
            worker.id
        ))
        .await;
    readpast_adopt::remove(&fixture.queue).await.unwrap();
    assert_eq!(session.numbers(status).await, [9, 9, 1, 3]);
    drop((session, worker));
    fixture.remove().await;
}

/// A client that does not read its answer keeps nobody's rows locked: all is committed before it is sent.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_read_locks_no_rows() {
    let (fixture, mut session, worker) = with_rows("adopt_slow_client", 200).await;
    // More than the buffers between the server and the client take.
    session.sql("UPDATE SimpleQueue SET Payload = REPLICATE(CAST(N'x' AS nvarchar(max)), 200000)").await;
    let mut slow = fixture.client().await;
    let claim = format!(
        "EXEC [{}].[claim] @queue = N'SimpleQueue', @worker_id = '{}', @max = 200",
        fixture.schema(),
        worker.id
    );
    let unread = slow.simple_query(claim).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    session.sql("SET LOCK_TIMEOUT 5000; UPDATE SimpleQueue SET Errors = N'seen'").await;
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE state = 2").await, 200);
    drop(unread);
    drop((slow, session, worker));
    fixture.remove().await;
}
