//! Nobody waits for anybody: a claim skips exactly the rows that another open transaction has locked.
//!
//! That nothing waits is shown by `SET LOCK_TIMEOUT 0`, under which SQL Server answers with error 1222 instead of
//! waiting, and by the other transaction being open still when the answer is there. No test measures time.

use readpast::admin::{ClaimOrder, Delivery, QueueOptions};
use readpast::{NewJob, Queue};

use crate::support::{Fixture, JobCounts, Session, WorkerSession, number};

const LOCK_TIMED_OUT: u32 = 1222;

async fn enqueue(fixture: &Fixture, count: usize) -> Vec<i64> {
    let jobs = (0..count).map(|number| NewJob::text(number.to_string()));
    fixture.queue.enqueue_many(&jobs.collect::<Vec<_>>()).await.unwrap().iter().map(|job| job.job_id.0).collect()
}

/// A worker whose statements fail rather than wait.
async fn impatient_worker(fixture: &Fixture) -> WorkerSession {
    let mut worker = WorkerSession::register(fixture).await;
    worker.session.sql("SET LOCK_TIMEOUT 0").await;
    worker
}

async fn claimed_ids(worker: &mut WorkerSession, max: i32) -> Vec<i64> {
    worker.claim(max).await.iter().map(|job| job.job_id).collect()
}

/// Locks rows as an operator who changes them would.
async fn lock(session: &mut Session, ids: &[i64]) {
    session.sql("BEGIN TRANSACTION").await;
    for id in ids {
        session
            .sql(&format!("UPDATE [$(schema)].[jobs] SET due_at = DATEADD(SECOND, -1, due_at) WHERE job_id = {id}"))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_skips_exactly_the_locked_rows_in_every_order() {
    for claim_order in [ClaimOrder::Fifo, ClaimOrder::Lifo, ClaimOrder::Any] {
        for delivery in [Delivery::AtLeastOnce, Delivery::AtMostOnce] {
            let options = QueueOptions::default().claim_order(claim_order).delivery(delivery);
            let fixture = Fixture::with("skips", options).await;
            let ids = enqueue(&fixture, 6).await;
            let mut worker = impatient_worker(&fixture).await;
            let mut other = fixture.session().await;
            lock(&mut other, &[ids[0], ids[2], ids[5]]).await;

            assert_eq!(claimed_ids(&mut worker, 100).await, [ids[1], ids[3], ids[4]], "{claim_order:?}, {delivery:?}");

            other.sql("ROLLBACK TRANSACTION").await;
            assert_eq!(claimed_ids(&mut worker, 100).await, [ids[0], ids[2], ids[5]], "{claim_order:?}, {delivery:?}");
            fixture.remove().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_skips_what_an_open_claim_has_taken_and_goes_on_behind_it() {
    let fixture = Fixture::new("open_claim").await;
    let ids = enqueue(&fixture, 6).await;
    let mut first = WorkerSession::register(&fixture).await;
    let mut second = impatient_worker(&fixture).await;
    first.session.client.begin_transaction().await.unwrap();
    assert_eq!(claimed_ids(&mut first, 3).await, ids[..3]);

    assert_eq!(claimed_ids(&mut second, 2).await, ids[3..5]);

    first.session.client.commit_transaction().await.unwrap();
    assert_eq!(claimed_ids(&mut second, 100).await, ids[5..]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_rolled_back_leaves_its_jobs_to_others() {
    let fixture = Fixture::new("rolled_back").await;
    let ids = enqueue(&fixture, 2).await;
    let mut first = WorkerSession::register(&fixture).await;
    first.session.client.begin_transaction().await.unwrap();
    assert_eq!(claimed_ids(&mut first, 2).await, ids);
    first.session.client.rollback_transaction().await.unwrap();
    let again = impatient_worker(&fixture).await.claim(2).await;
    assert_eq!(
        again.iter().map(|job| (job.job_id, job.fence, job.attempt)).collect::<Vec<_>>(),
        [(ids[0], 1, 1), (ids[1], 1, 1)]
    );
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_nothing_but_locked_rows_is_empty() {
    let fixture = Fixture::new("all_locked").await;
    let ids = enqueue(&fixture, 3).await;
    let mut other = fixture.session().await;
    lock(&mut other, &ids).await;
    assert_eq!(impatient_worker(&fixture).await.claim(10).await, []);
    other.sql("ROLLBACK TRANSACTION").await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_claim_holds_up_no_heartbeat_and_no_other_call() {
    let fixture = Fixture::new("holds_up_nobody").await;
    let ids = enqueue(&fixture, 4).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let mut other_worker = impatient_worker(&fixture).await;
    let others_job = other_worker.claim_one().await;
    worker.session.client.begin_transaction().await.unwrap();
    assert_eq!(claimed_ids(&mut worker, 2).await, ids[1..3]);

    let mut session = fixture.session().await;
    session.sql("SET LOCK_TIMEOUT 0").await;
    session.sql(&format!("EXEC [$(schema)].[heartbeat] @worker_id = '{}'", worker.id)).await;
    session.sql("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = N'k'").await;
    assert_eq!(session.number("EXEC [$(schema)].[promote] @queue = N'work'").await, 0);
    let reaped = session.row("EXEC [$(schema)].[reap] @queue = N'work'").await;
    assert_eq!((number(&reaped, "workers_lost"), number(&reaped, "jobs_ready")), (0, 0));
    session.row("EXEC [$(schema)].[stats] @queue = N'work'").await;
    assert_eq!(
        session.numbers("EXEC [$(schema)].[peek] @queue = N'work', @state = 'ready'").await,
        [ids[3], ids[3] + 1]
    );
    assert_eq!(other_worker.finish(&[others_job.done()]).await, []);

    worker.session.client.commit_transaction().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finish_never_skips_a_locked_row() {
    let fixture = Fixture::new("finish_waits").await;
    let ids = enqueue(&fixture, 2).await;
    let mut worker = impatient_worker(&fixture).await;
    let claimed = worker.claim(2).await;
    let finished: Vec<_> = claimed.iter().map(|job| job.done()).collect();
    let mut other = fixture.session().await;
    lock(&mut other, &ids[1..]).await;

    match worker.try_finish(&finished).await {
        Err(tiberius::error::Error::Server(error)) => assert_eq!(error.code(), LOCK_TIMED_OUT),
        other => panic!("not {other:?}"),
    }
    assert_eq!(
        fixture.session().await.number("SELECT COUNT(*) FROM [$(schema)].[jobs] WITH (NOLOCK) WHERE state = 2").await,
        2
    );

    other.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(worker.finish(&finished).await, []);
    assert_eq!(fixture.job_counts().await, JobCounts::default());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_skip_locked_rows_under_read_committed_snapshot_too() {
    let fixture = Fixture::in_own_database("rcsi").await;
    fixture.sql("ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE").await;
    // The statement above has cut the library's connection.
    let queue = fixture.connect().await;
    queue.admin().install().await.unwrap();
    queue.admin().create(QueueOptions::default()).await.unwrap();
    let jobs = (0..3).map(|number| NewJob::text(number.to_string()));
    let ids: Vec<i64> =
        queue.enqueue_many(&jobs.collect::<Vec<_>>()).await.unwrap().iter().map(|job| job.job_id.0).collect();
    let mut worker = impatient_worker(&fixture).await;
    let mut other = fixture.session().await;
    lock(&mut other, &ids[..1]).await;
    let claimed = worker.claim(10).await;
    assert_eq!(claimed.iter().map(|job| job.job_id).collect::<Vec<_>>(), ids[1..]);
    let finished: Vec<_> = claimed.iter().map(|job| job.done()).collect();
    assert_eq!(worker.finish(&finished).await, []);
    drop((queue, worker, other));
    fixture.remove().await;
}

/// At 5,000 locks of one statement on one index SQL Server tries to take the table lock instead, which READPAST does
/// not skip; the table has LOCK_ESCALATION = DISABLE. (sql-server-transaction-locking-and-row-versioning-guide.md,
/// "Lock escalation")
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_with_more_than_five_thousand_locks_does_not_stop_the_claims() {
    let fixture = Fixture::new("no_escalation").await;
    let mut operator = fixture.session().await;
    operator.sql("EXEC [$(schema)].[create_queue] @queue = N'full'").await;
    let mut config = fixture.config.clone();
    config.queue.name = "full".to_string();
    let full = Queue::connect(&config).await.unwrap();
    full.enqueue_many(&(0..6_000).map(|_| NewJob::bytes("x")).collect::<Vec<_>>()).await.unwrap();
    let ids = enqueue(&fixture, 3).await;
    let mut worker = impatient_worker(&fixture).await;

    operator.sql("BEGIN TRANSACTION").await;
    let deleted = operator
        .number("DELETE [$(schema)].[jobs] WITH (ROWLOCK) WHERE payload = 0x78; SELECT @@ROWCOUNT AS deleted")
        .await;
    assert_eq!(deleted, 6_000);
    assert_eq!(claimed_ids(&mut worker, 10).await, ids);
    operator.sql("ROLLBACK TRANSACTION").await;
    fixture.remove().await;
}
