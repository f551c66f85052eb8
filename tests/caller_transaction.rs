//! Enqueueing inside the producer's own transaction: the job comes into being with the producer's data, or not at all.

use readpast::transaction::enqueue_in;
use readpast::{Error, NewJob};

use crate::support::{Fixture, JobCounts, Session, WorkerSession};

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
