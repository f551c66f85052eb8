//! Enqueueing inside the producer's own transaction: the job comes into being with the producer's data, or not at all.

use readpast::admin::QueueOptions;
use readpast::transaction::enqueue_in;
use readpast::{Error, NewJob};

use crate::support::{Fixture, JobCounts, Session, WorkerSession, number as number_of};

async fn orders_table(session: &mut Session) {
    session.sql("CREATE TABLE [$(schema)].[orders] (id int NOT NULL PRIMARY KEY)").await;
}

async fn count_orders(session: &mut Session) -> i64 {
    session.number("SELECT COUNT(*) FROM [$(schema)].[orders]").await
}

/// Removes the table that is not readpast's, then the rest.
async fn remove(fixture: Fixture) {
    fixture.sql("DROP TABLE [$(schema)].[orders]").await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_come_into_being_with_the_commit() {
    let fixture = Fixture::new("commits").await;
    let mut session = fixture.session().await;
    orders_table(&mut session).await;
    session.client.begin_transaction().await.unwrap();
    session.sql("INSERT [$(schema)].[orders] VALUES (7)").await;
    let jobs = [NewJob::text("first"), NewJob::text("second").dedup_key("k"), NewJob::text("third").dedup_key("k")];
    let enqueued = enqueue_in(&mut session.client, fixture.schema(), "work", &jobs).await.unwrap();
    session.client.commit_transaction().await.unwrap();

    assert!(enqueued[0].job_id < enqueued[1].job_id);
    assert_eq!((enqueued[2].job_id, enqueued[2].duplicate), (enqueued[1].job_id, true));
    let claimed: Vec<i64> =
        WorkerSession::register(&fixture).await.claim(10).await.iter().map(|job| job.job_id).collect();
    assert_eq!(claimed, [enqueued[0].job_id.0, enqueued[1].job_id.0]);
    assert_eq!(count_orders(&mut session).await, 1);
    remove(fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_vanish_with_the_rollback() {
    let fixture = Fixture::new("rolls_back").await;
    let mut session = fixture.session().await;
    orders_table(&mut session).await;
    session.client.begin_transaction().await.unwrap();
    session.sql("INSERT [$(schema)].[orders] VALUES (7)").await;
    enqueue_in(&mut session.client, fixture.schema(), "work", &[NewJob::text("x").dedup_key("k")]).await.unwrap();
    session.client.rollback_transaction().await.unwrap();

    assert_eq!((count_orders(&mut session).await, fixture.job_counts().await), (0, JobCounts::default()));
    assert!(!fixture.queue.enqueue(&NewJob::text("x").dedup_key("k")).await.unwrap().duplicate, "the key is free");
    remove(fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_transaction_jobs_come_into_being_at_once() {
    let fixture = Fixture::new("autocommit").await;
    let mut client = fixture.client().await;
    enqueue_in(&mut client, fixture.schema(), "work", &[NewJob::text("x")]).await.unwrap();
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 1, ..JobCounts::default() });
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t_sql_enqueues_in_its_transaction_too() {
    let fixture = Fixture::new("t_sql").await;
    let mut session = fixture.session().await;
    for (end, expected) in [("ROLLBACK", 0), ("COMMIT", 2)] {
        let sql = format!(
            "BEGIN TRANSACTION;
             DECLARE @jobs [$(schema)].[enqueue_list];
             INSERT @jobs (ordinal, text) VALUES (1, N'x');
             EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @report = 0;
             EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x';
             {end} TRANSACTION;"
        );
        session.sql(&sql).await;
        assert_eq!(fixture.job_counts().await, JobCounts { ready: expected, ..JobCounts::default() });
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_not_committed_neither_is_claimed_nor_holds_up_a_claim() {
    let fixture = Fixture::new("uncommitted").await;
    let mut worker = WorkerSession::register(&fixture).await;
    worker.session.sql("SET LOCK_TIMEOUT 0").await;
    let mut client = fixture.client().await;
    client.begin_transaction().await.unwrap();
    enqueue_in(&mut client, fixture.schema(), "work", &[NewJob::text("first")]).await.unwrap();
    let second = fixture.queue.enqueue(&NewJob::text("second")).await.unwrap();

    assert_eq!(worker.claim_one().await.job_id, second.job_id.0);
    assert_eq!(worker.claim(10).await, []);

    client.commit_transaction().await.unwrap();
    assert_eq!(worker.claim_one().await.payload, b"first");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_job_rolls_the_callers_transaction_back() {
    let fixture = Fixture::new("refused").await;
    let mut session = fixture.session().await;
    orders_table(&mut session).await;
    session.client.begin_transaction().await.unwrap();
    session.sql("INSERT [$(schema)].[orders] VALUES (7)").await;
    let error = enqueue_in(&mut session.client, fixture.schema(), "nowhere", &[NewJob::text("x")]).await.unwrap_err();
    assert!(matches!(error, Error::UnknownQueue { .. }), "{error}");
    assert_eq!(session.number("SELECT @@TRANCOUNT").await, 0);
    assert_eq!(count_orders(&mut session).await, 0);
    remove(fixture).await;
}

/// As docs/enqueue.md says, so that its advice is needed: "SET XACT_ABORT" and "TRY...CATCH", uncommittable
/// transactions (docs/t-sql/statements/set-xact-abort-transact-sql.md,
/// docs/t-sql/language-elements/try-catch-transact-sql.md).
#[tokio::test(flavor = "multi_thread")]
async fn what_follows_a_refused_job_is_committed_alone_or_cannot_be_committed() {
    let fixture = Fixture::new("went_on").await;
    let mut session = fixture.session().await;
    orders_table(&mut session).await;
    session.sql("BEGIN TRANSACTION; INSERT [$(schema)].[orders] VALUES (7)").await;
    let refused = session.refusal("EXEC [$(schema)].[enqueue] @queue = N'work'").await;
    assert_eq!(refused.0, 58003, "{refused:?}");
    session.sql("INSERT [$(schema)].[orders] VALUES (8)").await;
    assert_eq!(session.refusal("COMMIT TRANSACTION").await.0, 3902);
    assert_eq!(session.number("SELECT SUM(id) FROM [$(schema)].[orders]").await, 8);

    let caught = "BEGIN TRANSACTION; INSERT [$(schema)].[orders] VALUES (9);
                  BEGIN TRY EXEC [$(schema)].[enqueue] @queue = N'work'; END TRY
                  BEGIN CATCH COMMIT TRANSACTION; END CATCH";
    assert_eq!(session.refusal(caught).await.0, 3930);
    session.sql("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION").await;
    assert_eq!(session.number("SELECT SUM(id) FROM [$(schema)].[orders]").await, 8);
    remove(fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_enqueued_is_refused_before_anything_is_sent() {
    let fixture = Fixture::new("not_sent").await;
    let mut session = fixture.session().await;
    session.client.begin_transaction().await.unwrap();
    let jobs = [NewJob::text("good"), NewJob::text("bad").max_attempts(0)];
    let error = enqueue_in(&mut session.client, fixture.schema(), "work", &jobs).await.unwrap_err();
    assert!(matches!(error, Error::InvalidJob { .. }), "{error}");
    assert_eq!(session.number("SELECT @@TRANCOUNT").await, 1, "the caller decides");
    session.client.commit_transaction().await.unwrap();
    assert_eq!(fixture.job_counts().await, JobCounts::default());
    fixture.remove().await;
}

/// `@on_bad = 'status'`: what is wrong with a job does not cost the order its transaction, whatever the caller's
/// XACT_ABORT. (An error under XACT_ABORT ON dooms the transaction even if it is caught: "XACT_STATE",
/// MicrosoftDocs/sql-docs, docs/t-sql/functions/xact-state-transact-sql.md.)
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_job_is_a_status_when_asked_for() {
    let fixture = Fixture::new("on_bad").await;
    fixture.queue.admin().create(QueueOptions::default().max_depth(1)).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut session = fixture.session().await;
    orders_table(&mut session).await;
    let long = "x".repeat(257);
    let job = |rest: &str| format!("EXEC @status = [$(schema)].[enqueue] @queue = N'work', @text = N'x', {rest}");
    let list = |rest: &str, values: &str| {
        format!(
            "DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list], @edges [$(schema)].[edge_list];
             {values}; EXEC @status = [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @details = @details,
             @edges = @edges, @report = 0{rest}"
        )
    };
    let one = "INSERT @jobs (ordinal, text) VALUES (1, N'x')";
    let bad: Vec<(String, i64, &str)> = vec![
        (
            job("").replace("N'work'", "N'nowhere'").replace(", @text = N'x', ", ", @text = N'x'"),
            58001,
            "no queue 'nowhere'",
        ),
        (job("@payload = 0x01"), 58003, "either a payload or a text"),
        (job("@delay_ms = -1"), 58003, "delay_ms must be"),
        (job("@headers = N'[1]'"), 58003, "headers must be a JSON object"),
        (job("@headers = N'{\"readpast-x\":1}'"), 58003, "headers must not have names"),
        (job(&format!("@dedup_key = N'{long}'")), 58003, "dedup_key must have"),
        (job("@dedup_key = @half"), 58003, "half of a surrogate pair"),
        (job("@kind = N'100 %'"), 58003, "kind must have"),
        (job("@group_key = N''"), 58003, "group_key must have"),
        (job("@needs = N'{\"gpu\":\"50%\"}'"), 58003, "the need of 'gpu' is '\"50%\"'"),
        (job("@max_attempts = 0"), 58003, "max_attempts is 0"),
        (job("@start_within_ms = 0"), 58003, "start_within_ms is 0"),
        (job("@part = 1"), 58003, "part_of and part must be given together"),
        (list("", "INSERT @jobs (ordinal, text, payload) VALUES (1, N'x', 0x01)"), 58003, "either a payload or a text"),
        (list("", "INSERT @jobs (ordinal, text, kind) VALUES (1, N'x', 'a b')"), 58003, "kind must have"),
        (list("", "INSERT @jobs (ordinal, text, dedup_key) VALUES (1, N'x', @half)"), 58003, "half of a surrogate"),
        (list("", &format!("{one}; INSERT @details (ordinal, headers) VALUES (1, N'x')")), 58003, "headers must be"),
        (list("", &format!("{one}; INSERT @details (ordinal, needs) VALUES (1, N'x')")), 58003, "needs is 'x'"),
        (
            list("", &format!("{one}; INSERT @edges (place, ordinal, parent_id, on_dead) VALUES (1, 2, 1, 'hold')")),
            58003,
            "ordinal in edges is 2",
        ),
        (list("", one), 58023, "queue 'work' is full"),
        (job("@kind = N'x'"), 58023, "queue 'work' is full"),
    ];
    for xact_abort in ["ON", "OFF"] {
        for (call, number, text) in &bad {
            let row = session
                .row(&format!(
                    "SET XACT_ABORT {xact_abort};
                     DECLARE @status int, @refused nvarchar(2048), @half nvarchar(2) = NCHAR(0xD83D);
                     BEGIN TRANSACTION; INSERT [$(schema)].[orders] VALUES (7);
                     {call}, @on_bad = 'status', @refused = @refused OUTPUT;
                     INSERT [$(schema)].[orders] VALUES (8);
                     SELECT @status, @refused, CAST(XACT_STATE() AS int), @@TRANCOUNT,
                         CASE WHEN @@OPTIONS & 16384 = 0 THEN 'OFF' ELSE 'ON' END;
                     ROLLBACK TRANSACTION"
                ))
                .await;
            assert_eq!((number_of(&row, 0), number_of(&row, 2), number_of(&row, 3)), (*number, 1, 1), "{call}");
            assert!(row.get::<&str, _>(1).unwrap().contains(text), "{:?} of {call}", row.get::<&str, _>(1));
            assert_eq!(row.get::<&str, _>(4), Some(xact_abort), "the caller's setting stays");
            // Without it, the transaction is gone with the error (unless the queue is full: full_queues.rs).
            let error = session
                .refusal(&format!(
                    "SET XACT_ABORT {xact_abort}; DECLARE @status int, @half nvarchar(2) = NCHAR(0xD83D);
                     BEGIN TRANSACTION; {call}"
                ))
                .await;
            assert_eq!(i64::from(error.0), *number, "{call}");
            assert!(error.1.contains(text), "{} of {call}", error.1);
            let left = session.number("SELECT @@TRANCOUNT").await;
            assert_eq!(left, i64::from(*number == 58023 && xact_abort == "OFF"), "{call}");
            session.sql("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION").await;
        }
    }
    // A good job beside a bad one, in one transaction.
    let good = session
        .row(
            "SET XACT_ABORT ON; DECLARE @bad int, @good int, @refused nvarchar(2048), @job_id bigint;
             BEGIN TRANSACTION; INSERT [$(schema)].[orders] VALUES (7);
             EXEC @bad = [$(schema)].[enqueue] N'work', @text = N'x', @kind = N'', @on_bad = 'status', @job_id = @job_id OUTPUT;
             EXEC @good = [$(schema)].[enqueue] N'work', @text = N'x', @on_bad = 'status', @refused = @refused OUTPUT, @force = 1;
             COMMIT TRANSACTION;
             SELECT @bad, @good, CASE WHEN @refused IS NULL AND @job_id IS NULL THEN 1 ELSE 0 END",
        )
        .await;
    assert_eq!((number_of(&good, 0), number_of(&good, 1), number_of(&good, 2)), (58003, 0, 1));
    assert_eq!((count_orders(&mut session).await, fixture.job_counts().await.ready), (1, 2));
    // In a trigger, XACT_ABORT is ON by default ("SET XACT_ABORT", MicrosoftDocs/sql-docs,
    // docs/t-sql/statements/set-xact-abort-transact-sql.md).
    session
        .sql(
            "CREATE TRIGGER [$(schema)].[enqueue_order] ON [$(schema)].[orders] AFTER INSERT AS
             SET NOCOUNT ON;
             DECLARE @headers nvarchar(20) = (SELECT CASE WHEN MAX(id) > 100 THEN N'bad' END FROM inserted);
             EXEC [$(schema)].[enqueue] N'work', @text = N'x', @headers = @headers, @on_bad = 'status', @force = 1",
        )
        .await;
    session.sql("INSERT [$(schema)].[orders] VALUES (101)").await;
    session.sql("BEGIN TRANSACTION; INSERT [$(schema)].[orders] VALUES (102), (9); INSERT [$(schema)].[orders] VALUES (10); COMMIT TRANSACTION").await;
    assert_eq!((count_orders(&mut session).await, fixture.job_counts().await.ready), (5, 3));
    let error = session.refusal("EXEC [$(schema)].[enqueue] N'work', @text = N'x', @on_bad = 'ignore'").await;
    assert_eq!(error, (58003, "on_bad is 'ignore'; it must be error or status".to_owned()));
    // What only the writing finds is an error.
    let missing = "BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] N'work', @text = N'x', @batch_id = 99, @on_bad = 'status', @force = 1";
    assert_eq!(session.refusal(missing).await.0, 58021);
    assert_eq!(session.number("SELECT @@TRANCOUNT").await, 0);
    drop(session);
    remove(fixture).await;
}
