//! A de-duplication key locks nothing but itself: a producer whose transaction stays open holds up nobody but producers
//! of the same key.
//!
//! "Transaction locking and row versioning guide", key-range locking: under SERIALIZABLE and HOLDLOCK a read of an
//! absent key locks the range up to the next key; under READ COMMITTED an INSERT locks its own keys alone.

use std::time::Duration;

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use readpast::config::WorkerConfig;
use readpast::{Handlers, JobId, NewJob, Worker};

use crate::support::{Fixture, Session, WorkerSession, literal, number};

const KEYED: &str = "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = ";

/// A session in which whatever would wait for a lock fails instead (1222).
async fn impatient(fixture: &Fixture) -> Session {
    let mut session = fixture.session().await;
    session.sql("SET LOCK_TIMEOUT 0").await;
    session
}

async fn keyed_batch(session: &mut Session, keys: &[&str]) {
    let rows: Vec<String> =
        keys.iter().enumerate().map(|(place, key)| format!("({place}, N'x', {})", literal(key))).collect();
    let sql = format!(
        "DECLARE @jobs [$(schema)].[enqueue_list]; INSERT @jobs (ordinal, text, dedup_key) VALUES {};
         EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs",
        rows.join(", ")
    );
    session.sql(&sql).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_in_an_open_transaction_holds_up_no_other_key_and_no_worker() {
    let fixture = Fixture::new("new_key").await;
    let mut producer = fixture.session().await;
    producer.sql(&format!("BEGIN TRANSACTION; {KEYED} N'm'")).await;

    let mut others = impatient(&fixture).await;
    for key in ["a", "m1", "l", "z"] {
        others.sql(&format!("{KEYED} {}", literal(key))).await;
    }
    keyed_batch(&mut others, &["b", "ma", "y"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    worker.session.sql("SET LOCK_TIMEOUT 0").await;
    let claimed = worker.claim(100).await;
    assert_eq!(claimed.len(), 7);
    let done: Vec<_> = claimed.iter().map(|job| job.done()).collect();
    assert_eq!(worker.finish(&done).await, []);
    // The same key waits: whether it is a duplicate is not known yet.
    assert_eq!(others.refusal(&format!("{KEYED} N'm'")).await.0, 1222);

    producer.sql("COMMIT TRANSACTION").await;
    others.sql(&format!("{KEYED} N'm'")).await;
    assert_eq!(fixture.job_counts().await.ready, 1);
    drop((producer, others, worker));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_found_key_in_an_open_transaction_holds_up_nobody() {
    let fixture = Fixture::new("found_key").await;
    let jobs: Vec<NewJob> = (0..500).map(|n| NewJob::text("x").dedup_key(format!("key {n:03}"))).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    worker.session.sql("SET LOCK_TIMEOUT 0").await;
    let claimed = worker.claim(500).await;
    for isolation in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let mut producer = fixture.session().await;
        producer
            .sql(&format!("SET TRANSACTION ISOLATION LEVEL {isolation}; BEGIN TRANSACTION; {KEYED} N'key 250'"))
            .await;
        keyed_batch(&mut producer, &["key 100", "key 400"]).await;
        let kept = producer
            .number(
                "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_type IN ('KEY', 'RID', 'PAGE')",
            )
            .await;
        assert_eq!(kept, 0, "locks that a found duplicate keeps under {isolation}");
        let mut others = impatient(&fixture).await;
        for key in ["key 250", "key 251", "new"] {
            others.sql(&format!("{KEYED} {}", literal(key))).await;
        }
        assert_eq!(claimed.len(), 500);
        producer.sql("ROLLBACK TRANSACTION").await;
    }
    let mut producer = fixture.session().await;
    producer.sql(&format!("BEGIN TRANSACTION; {KEYED} N'key 250'")).await;
    let done: Vec<_> = claimed.iter().map(|job| job.done()).collect();
    assert_eq!(worker.finish(&done).await, []);
    drop((producer, worker));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_callers_isolation_level_is_his_own_again_after_an_enqueue() {
    let fixture = Fixture::new("isolation").await;
    let mut producer = fixture.session().await;
    // As .NET's TransactionScope does by default.
    producer.sql(&format!("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRANSACTION; {KEYED} N'new'")).await;
    let ranges =
        "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND request_mode LIKE 'Range%'";
    assert_eq!(producer.number(ranges).await, 0);
    // 4: SERIALIZABLE.
    let level = "SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID";
    assert_eq!(producer.number(level).await, 4);
    producer.sql("COMMIT TRANSACTION").await;
    drop(producer);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_that_came_between_leaves_the_callers_transaction_whole() {
    let fixture = Fixture::new("between").await;
    let mut first = fixture.session().await;
    first.sql(&format!("BEGIN TRANSACTION; {KEYED} N'k'")).await;
    let mut second = fixture.session().await;
    // XACT_ABORT of the caller would doom the transaction at any error that is not caught without it.
    second
        .sql("SET XACT_ABORT ON; BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'mine'")
        .await;
    let spid = second.number("SELECT @@SPID").await;
    let waits = tokio::spawn(async move {
        let row = second
            .row(&format!(
                "DECLARE @id bigint, @duplicate bit; {KEYED} N'k', @job_id = @id OUTPUT, @duplicate = @duplicate OUTPUT;
                 SELECT @id AS job_id, @duplicate AS duplicate, XACT_STATE() AS state"
            ))
            .await;
        assert_eq!((number(&row, "duplicate"), number(&row, "state")), (1, 1));
        second.sql("COMMIT TRANSACTION").await;
    });
    let waiting =
        format!("SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = {spid} AND request_status = 'WAIT'");
    while first.number(&waiting).await == 0 {}
    first.sql("COMMIT TRANSACTION").await;
    waits.await.unwrap();
    assert_eq!(fixture.job_counts().await.ready, 2);
    drop(first);
    fixture.remove().await;
}

/// Producers of the same keys in orders of their own, while workers finish them: nobody is a deadlock's victim, no key
/// stands twice, none is lost.
async fn producers_of_the_same_keys(rounds: usize) {
    const PRODUCERS: u64 = 8;
    const KEYS: usize = 300;
    const BATCH: usize = 200;
    let mut fixture = Fixture::new("same_keys").await;
    fixture.config.connection.command_timeout = Duration::from_secs(120); // on a busy machine they wait for each other for long
    let runs: Arc<Mutex<Vec<JobId>>> = Arc::default();
    let mut workers = Vec::new();
    for _ in 0..2 {
        let runs = runs.clone();
        let config = WorkerConfig::default();
        let handlers = Handlers::any(move |job, _| {
            runs.lock().push(job.id());
            Ok(())
        });
        let worker = Worker::builder(&fixture.queue, handlers).config(&config).start();
        workers.push(worker.await.unwrap());
    }
    let mut producers = Vec::new();
    for seed in 0..PRODUCERS {
        let queue = fixture.connect().await;
        producers.push(tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut added = Vec::new();
            for _ in 0..rounds {
                let mut keys: Vec<usize> = (0..KEYS).collect();
                random.shuffle(&mut keys);
                let jobs = keys[..BATCH].iter().map(|key| NewJob::text("x").dedup_key(format!("key {key}")));
                let enqueued = queue.enqueue_many(&jobs.collect::<Vec<_>>()).await.expect("no producer is a victim");
                assert_eq!(enqueued.len(), BATCH);
                added.extend(enqueued.iter().filter(|job| !job.duplicate).map(|job| job.job_id));
            }
            added
        }));
    }
    let mut added = HashSet::new();
    for producer in producers {
        for job in producer.await.unwrap() {
            assert!(added.insert(job), "job {job} was added twice");
        }
    }
    for worker in workers {
        worker.drain().await.unwrap();
    }
    let runs = runs.lock().clone();
    println!("{} jobs with {KEYS} keys, {} runs", added.len(), runs.len());
    assert_eq!(runs.len(), added.len());
    assert_eq!(runs.iter().copied().collect::<HashSet<_>>(), added);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_of_the_same_keys_are_no_deadlocks_victims() {
    producers_of_the_same_keys(5).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute; run with --release and --ignored"]
async fn producers_of_the_same_keys_are_no_deadlocks_victims_for_a_minute() {
    producers_of_the_same_keys(300).await;
}
