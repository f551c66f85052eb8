//! How an idle worker notices a job: at once when its own process enqueues it, by `await_jobs` when another does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use readpast::admin::{JobChange, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{Handlers, NewJob, Queue, Worker};
use readpast_devserver::{DevServer, Product};

use crate::support::{Fixture, Session, changed, numbers, until};

const UNKNOWN_QUEUE: u32 = 58001;
const REFUSED: u32 = 58003;

/// A worker that has found its queue empty.
async fn idle_worker(queue: &Queue, config: WorkerConfig) -> Worker {
    let worker = Worker::builder(queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    until("the first claim was answered", || monitor.stats().last_claim_succeeded).await;
    worker
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_the_same_process_starts_although_nobody_would_look_for_it_for_half_a_minute() {
    let fixture = Fixture::new("same_process").await;
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.poll_min = Duration::from_secs(60);
        worker.poll_max = Duration::from_secs(60);
    });
    let worker = idle_worker(&fixture.queue, config).await;
    let monitor = worker.monitor();
    fixture.queue.clone().enqueue(&NewJob::bytes("x")).await.unwrap();
    until("the job is done", || monitor.stats().done == 1).await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    until("the others are done", || monitor.stats().done == 4).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requeued_job_starts_at_once_in_the_same_process() {
    let fixture = Fixture::new("requeued").await;
    let queue = &fixture.queue;
    let job = queue.enqueue(&NewJob::bytes("x")).await.unwrap().job_id;
    let admin = queue.admin();
    admin.change(&JobChange::cancel("early"), job).await.unwrap();
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.poll_min = Duration::from_secs(60);
        worker.poll_max = Duration::from_secs(60);
    });
    let worker = idle_worker(queue, config).await;
    let monitor = worker.monitor();
    admin.change(&JobChange::Requeue, job).await.unwrap();
    until("the job is done", || monitor.stats().done == 1).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_another_process_is_noticed() {
    let fixture = Fixture::new("other_process").await;
    let worker = idle_worker(&fixture.queue, fixture.config.worker.clone()).await;
    let monitor = worker.monitor();
    let mut session = fixture.session().await;
    for done in 1..=3 {
        session.sql("EXEC [$(schema)].[enqueue] @queue = N'work', @payload = 0x01").await;
        until("the job is done", || monitor.stats().done == done).await;
    }
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

async fn found(session: &mut Session, wait_ms: u32) -> bool {
    let sql = format!(
        "DECLARE @answer TABLE (found bit NOT NULL, waited bit NOT NULL);
         INSERT @answer EXEC [$(schema)].[await_jobs] @queue = N'work', @least_ms = 1, @most_ms = 5, @wait_ms = {wait_ms};
         SELECT CAST(found AS int) FROM @answer;"
    );
    session.number(&sql).await == 1
}

#[tokio::test(flavor = "multi_thread")]
async fn await_jobs_finds_what_a_claim_would_get() {
    for claim_order in
        [readpast::admin::ClaimOrder::Fifo, readpast::admin::ClaimOrder::Lifo, readpast::admin::ClaimOrder::Any]
    {
        let options = QueueOptions::default().claim_order(claim_order);
        let fixture = Fixture::with("await", options).await;
        let mut session = fixture.session().await;
        assert!(!found(&mut session, 20).await, "the queue is empty");

        fixture.queue.enqueue(&NewJob::bytes("x").delay(Duration::from_secs(3_600))).await.unwrap();
        assert!(!found(&mut session, 20).await, "the job is not due");

        let mut other = fixture.session().await;
        other.sql("BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @payload = 0x01").await;
        assert!(
            !found(&mut session, 20).await,
            "the job is locked: a claim would skip it, and nobody waits for its lock"
        );
        other.sql("COMMIT TRANSACTION").await;
        assert!(found(&mut session, 20).await);

        fixture.queue.admin().pause().await.unwrap();
        assert!(!found(&mut session, 20).await, "claims find nothing while the queue is paused");
        fixture.remove().await;
    }
}

/// One statement reads the ranges outside of a single mark; several marks, and gaps of a lifo queue, take more.
#[tokio::test(flavor = "multi_thread")]
async fn await_jobs_finds_jobs_of_each_priority_but_none_that_a_mark_skips() {
    const ABOVE: i64 = 1 << 40;
    let fixture = Fixture::new("await_marks").await;
    let mut session = fixture.session().await;
    // Marks: priority, job_id, from_id, below_to, below_from.
    type Mark = (i16, i64, i64, i64, i64);
    // The order of claims, the marks, and the priorities of jobs that are found, and of those that are skipped.
    type Case<'a> = (&'a str, &'a [Mark], &'a [i16], &'a [i16]);
    let (none, open): (&[Mark], Mark) = (&[], (0, 0, 0, 0, 0));
    let closed = |priority| (priority, ABOVE, 0, 0, 0);
    let cases: [Case<'_>; 7] = [
        ("fifo", none, &[-32768, -1, 0, 1, 32767], &[]),
        ("fifo", &[open], &[-32768, 0, 32767], &[]),
        ("fifo", &[closed(0)], &[-32768, -1, 1, 32767], &[0]),
        ("fifo", &[closed(-32768), closed(32767)], &[-32767, 0, 32766], &[-32768, 32767]),
        ("fifo", &[closed(0), closed(5), (7, 0, 0, 0, 0)], &[-1, 3, 6, 7, 8], &[0, 5]),
        // The job is below both gaps, or between them, or in one.
        ("lifo", &[(0, ABOVE + 2, ABOVE + 1, ABOVE, ABOVE - 1), (1, ABOVE + 2, ABOVE, 1, 0)], &[-1, 0, 1, 2], &[]),
        ("lifo", &[closed(0)], &[-1, 1], &[0]),
    ];
    for (order, marks, found_at, skipped_at) in cases {
        let queue_id = "(SELECT queue_id FROM [$(schema)].[queues] WHERE name = N'work')";
        session.sql(&format!("EXEC [$(schema)].[create_queue] @queue = N'work', @claim_order = '{order}'")).await;
        let mut set_marks = format!("DELETE [$(schema)].[marks] WHERE queue_id = {queue_id};");
        for (priority, job_id, from_id, below_to, below_from) in marks {
            let values = format!("{priority}, {job_id}, {from_id}, {below_to}, {below_from}, 0");
            let columns = "queue_id, priority, job_id, from_id, below_to, below_from, lowered";
            set_marks += &format!("INSERT [$(schema)].[marks] ({columns}) SELECT {queue_id}, {values};");
        }
        session.sql(&set_marks).await;
        assert!(!found(&mut session, 1).await, "{order}, {marks:?}: the queue is empty");
        for (priorities, expected) in [(found_at, true), (skipped_at, false)] {
            for priority in priorities {
                let enqueue = "EXEC [$(schema)].[enqueue] @queue = N'work', @payload = 0x01, @priority";
                session.sql(&format!("{enqueue} = {priority}; {set_marks}")).await; // it has lowered a mark
                assert_eq!(found(&mut session, 1).await, expected, "{order}, {marks:?}, priority {priority}");
                session.sql(&format!("DELETE [$(schema)].[jobs] WHERE queue_id = {queue_id}")).await;
            }
        }
    }
    drop(session);
    fixture.remove().await;
}

/// The claim after a job's finds nothing, but it was not asked for by a watch that was wrong.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_job_the_queue_is_checked_as_often_as_before_it() {
    let fixture = Fixture::new("checked_as_often").await;
    let mut session = fixture.session().await;
    session.sql("CREATE TABLE [$(schema)].[waits] (least_ms int NOT NULL)").await;
    session
        .sql(
            "CREATE OR ALTER PROCEDURE [$(schema)].[await_jobs] @queue nvarchar(129), @least_ms int, @most_ms int,
                 @wait_ms int, @most_sessions int = NULL AS
             SET NOCOUNT ON;
             INSERT [$(schema)].[waits] (least_ms) VALUES (@least_ms);
             WAITFOR DELAY '00:00:00.010';
             SELECT CAST(0 AS bit) AS found, CAST(1 AS bit) AS waited;",
        )
        .await;
    let config = changed(fixture.config.worker.clone(), |worker| worker.poll_min = Duration::from_millis(100));
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    let waits = "SELECT COUNT(*) FROM [$(schema)].[waits]";
    for done in 1..=4 {
        fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
        until("the job is done", || monitor.stats().done == done).await;
        // The enqueue has ended the watch before.
        let before = session.number(waits).await;
        while session.number(waits).await == before {}
    }
    let longest = session.number("SELECT MAX(least_ms) FROM [$(schema)].[waits]").await;
    assert!(longest <= 100, "{longest}");
    worker.shutdown().await.unwrap();
    session.sql("DROP TABLE [$(schema)].[waits]").await;
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn await_jobs_ends_when_a_job_comes() {
    let fixture = Fixture::new("await_ends").await;
    let mut session = fixture.session().await;
    let waiting = tokio::spawn(async move { found(&mut session, 600_000).await });
    fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    let answered = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    assert!(answered.expect("long before its ten minutes are over").unwrap());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn await_jobs_refuses_what_cannot_be() {
    let fixture = Fixture::new("await_refuses").await;
    let mut session = fixture.session().await;
    for (parameters, refusal, word) in [
        ("N'no such queue', 1, 5, 20", UNKNOWN_QUEUE, "no such queue"),
        ("N'work', 0, 5, 20", REFUSED, "least_ms"),
        ("N'work', 6, 5, 20", REFUSED, "most_ms"),
        ("N'work', 1, 5, 3600001", REFUSED, "wait_ms"),
        ("N'work', 1, NULL, 20", REFUSED, "most_ms"),
    ] {
        let (number, message) = session.refusal(&format!("EXEC [$(schema)].[await_jobs] {parameters}")).await;
        assert_eq!(number, refusal, "{parameters}");
        assert!(message.contains(word), "{message}");
    }
    fixture.remove().await;
}

/// Takes places among those that wait; they are given back with the session.
async fn take_places(session: &mut Session, places: std::ops::Range<u32>) {
    for place in places {
        let lock =
            "sys.sp_getapplock @Resource = N'readpast_wait_{place}', @LockMode = N'Exclusive', @LockOwner = N'Session'";
        let lock = lock.replace("{place}", &place.to_string());
        assert_eq!(session.number(&format!("DECLARE @got int; EXEC @got = {lock}; SELECT @got")).await, 0, "{place}");
    }
}

async fn give_back_places(session: &mut Session, places: std::ops::Range<u32>) {
    for place in places {
        let release = "EXEC sys.sp_releaseapplock @Resource = N'readpast_wait_{place}', @LockOwner = N'Session'";
        session.sql(&release.replace("{place}", &place.to_string())).await;
    }
}

/// Whether `await_jobs` has waited.
async fn waited(session: &mut Session, queue: &str, most_sessions: &str) -> bool {
    let sql = format!(
        "DECLARE @answer TABLE (found bit NOT NULL, waited bit NOT NULL);
         INSERT @answer EXEC [$(schema)].[await_jobs] @queue = N'{queue}', @least_ms = 1, @most_ms = 5, @wait_ms = 20,
             @most_sessions = {most_sessions};
         SELECT CAST(waited AS int) FROM @answer;"
    );
    session.number(&sql).await == 1
}

/// A database of its own, because its places are all schemas'.
async fn with_own_places(test_name: &str) -> Fixture {
    let fixture = Fixture::in_own_database(test_name).await;
    fixture.queue.admin().install().await.unwrap();
    fixture.queue.admin().create(QueueOptions::default()).await.unwrap();
    fixture
}

/// Each place is a thread of SQL Server's, whichever queue it is for.
#[tokio::test(flavor = "multi_thread")]
async fn all_queues_share_the_places_of_those_that_wait() {
    let fixture = with_own_places("places").await;
    for queue in ["second", "third"] {
        fixture.sql(&format!("EXEC [$(schema)].[create_queue] @queue = N'{queue}'")).await;
    }
    let (mut session, mut other) = (fixture.session().await, fixture.session().await);
    assert!(waited(&mut session, "work", "1").await);
    take_places(&mut other, 0..1).await;
    for queue in ["work", "second", "third"] {
        assert!(!waited(&mut session, queue, "1").await, "{queue}: the only place is taken");
        assert!(waited(&mut session, queue, "8").await, "{queue}: of several it has others");
    }
    // One queue does not take them all.
    take_places(&mut other, 1..8).await;
    for queue in ["work", "second", "third"] {
        let mut own = 0;
        for place in 0..8 {
            give_back_places(&mut other, place..place + 1).await;
            own += u32::from(waited(&mut session, queue, "8").await);
            take_places(&mut other, place..place + 1).await;
        }
        assert_eq!(own, 4, "{queue}");
    }
    drop((session, other));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_schemas_of_a_database_share_the_places() {
    let fixture = with_own_places("places_of_schemas").await;
    let second = changed(fixture.config.clone(), |config| config.connection.schema = "second".into());
    let second = Queue::connect(&second).await.unwrap();
    second.admin().install().await.unwrap();
    second.admin().create(QueueOptions::default()).await.unwrap();
    let (mut session, mut other) = (fixture.session().await, fixture.session().await);
    let first_waits = tokio::spawn(async move {
        let calls = "WHILE NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs])
             EXEC [$(schema)].[await_jobs] @queue = N'work', @least_ms = 10, @most_ms = 10, @wait_ms = 3600000,
                 @most_sessions = 1";
        session.sql(calls).await;
    });
    let mut waited_in_second = async || {
        let call = "DECLARE @answer TABLE (found bit NOT NULL, waited bit NOT NULL);
             INSERT @answer EXEC [second].[await_jobs] @queue = N'work', @least_ms = 1, @most_ms = 5, @wait_ms = 20,
                 @most_sessions = 1;
             SELECT CAST(waited AS int) FROM @answer;";
        other.number(call).await
    };
    // The first session has the only place almost always: not between two of its calls.
    let mut found_none = false;
    for _ in 0..200 {
        found_none = found_none || waited_in_second().await == 0;
    }
    assert!(found_none, "a session of the first schema has the only place");
    fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    first_waits.await.unwrap();
    assert_eq!(waited_in_second().await, 1);
    drop((other, second));
    fixture.remove().await;
}

/// How often one call of two seconds has checked the queue, while another session has taken so many places, and each
/// check takes so long.
async fn checks(places: u32, took: Duration, least_ms: u32) -> usize {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "checks", QueueOptions::default()).await;
    let (mut session, mut other) = (fixture.session().await, fixture.session().await);
    take_places(&mut other, 0..places).await;
    // With this mark, each check calls next_priority, once.
    let mark = "INSERT [$(schema)].[marks] (queue_id, priority, job_id, from_id, lowered)
                SELECT queue_id, 32767, 0, 1, 0 FROM [$(schema)].[queues]";
    session.sql(mark).await;
    let checks = Arc::<AtomicUsize>::default();
    let counted = checks.clone();
    server.faults().on_call(&format!("{}.next_priority", fixture.schema()), move |_| {
        counted.fetch_add(1, Ordering::AcqRel);
        std::thread::sleep(took);
        None
    });
    let call = format!(
        "EXEC [$(schema)].[await_jobs] @queue = N'work', @least_ms = {least_ms}, @most_ms = {}, @wait_ms = 2000,
             @most_sessions = 64",
        least_ms.max(1_000)
    );
    session.sql(&call).await;
    checks.load(Ordering::Acquire)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_more_sessions_wait_the_less_often_each_checks() {
    let (alone, in_company) = (checks(0, Duration::ZERO, 1).await, checks(20, Duration::ZERO, 1).await);
    // 2000 / (16 + 20 * 20)
    assert!(in_company <= 4, "{in_company}");
    assert!(alone > 2 * in_company, "{alone} and {in_company}");
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_take_long_come_seldom() {
    let slow = checks(0, Duration::from_millis(100), 1).await;
    assert!(slow <= 2, "{slow}"); // each second, or less often
}

/// The caller's command timeout is little longer than the wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_begins_no_delay_that_ends_after_its_wait() {
    assert_eq!(checks(0, Duration::ZERO, 1_500).await, 1);
    assert_eq!(checks(0, Duration::ZERO, 2_500).await, 1, "one check there is always");
}

// Max concurrent workers, in MicrosoftDocs/sql-docs, azure-sql/database/: "Resource limits for single databases using
// the DTU purchasing model" (Basic 30, S0 60, S2 120, S3 200), "… using the vCore purchasing model" (for each vCore 75
// of serverless, 80 of the DC series, 100 of Gen5) and "Resource limits for elastic pools using the vCore purchasing
// model" (at most 0.25 vCores for each database: 25). docs/database-engine/configure-windows/, "Configure the max worker
// threads": 512 up to 4 processors, or what is set, 128 at least; everybody may read it ("sys.configurations").
#[tokio::test(flavor = "multi_thread")]
async fn there_are_as_many_places_as_the_server_has_room_for() {
    let azure = |service_objective| Product { service_objective, ..Product::AZURE_SQL_DATABASE };
    let own = |max_worker_threads| Product { max_worker_threads, ..Product::default() };
    for (product, threads, places) in [
        (azure("Basic"), 30, 6),
        (azure("S0"), 60, 15),
        (azure("S2"), 120, 30),
        (azure("S3"), 200, 50),
        (azure("GP_S_Gen5_1"), 75, 18),
        (azure("GP_S_Gen5_2"), 150, 37),
        (azure("GP_Gen5_2"), 200, 37),
        (azure("GP_S_Gen5_4"), 300, 50),
        (azure("ElasticPool"), 25, 6),
        (own(0), 512, 64),
        (own(128), 128, 32),
        (own(1_024), 1_024, 64),
    ] {
        assert!(places * 4 <= threads);
        let server = DevServer::builder().product(product).start().await.unwrap();
        let fixture = Fixture::on(&server, "places_by_tier", QueueOptions::default()).await;
        let login = fixture.create_login(Some("worker")).await;
        let (mut session, mut other) = (fixture.session_as(&login).await, fixture.session().await);
        take_places(&mut other, 0..places).await;
        assert!(!waited(&mut session, "work", "NULL").await, "{product:?}");
        let mut own = 0;
        for place in 0..places {
            give_back_places(&mut other, place..place + 1).await;
            own += u32::from(waited(&mut session, "work", "NULL").await);
            take_places(&mut other, place..place + 1).await;
        }
        assert_eq!(own, places.div_ceil(2), "{product:?}");
        server.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_waits_at_one_of_the_places_that_are_set() {
    let fixture = Fixture::new("places_set").await;
    let config = changed(fixture.config.worker.clone(), |worker| worker.waiting_sessions = 1);
    let worker = idle_worker(&fixture.queue, config).await;
    let mut session = fixture.session().await;
    let taken =
        "DECLARE @got int; EXEC @got = sys.sp_getapplock @Resource = N'readpast_wait_0', @LockMode = N'Exclusive',
                     @LockOwner = N'Session', @LockTimeout = 0;
                 IF @got >= 0 EXEC sys.sp_releaseapplock @Resource = N'readpast_wait_0', @LockOwner = N'Session';
                 SELECT CASE WHEN @got < 0 THEN 1 ELSE 0 END;";
    let waits = async { while session.number(taken).await == 0 {} };
    tokio::time::timeout(Duration::from_secs(30), waits).await.expect("the worker is at the only place");
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

/// The polls of a worker without a place are eight seconds apart or more.
#[tokio::test(flavor = "multi_thread")]
async fn the_place_of_a_busy_worker_goes_to_another_of_the_process_at_once() {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "freed_place", QueueOptions::default()).await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'second'").await;
    let calls = Arc::<AtomicUsize>::default();
    let counted = calls.clone();
    server.faults().on_call(&format!("{}.await_jobs", fixture.schema()), move |_| {
        counted.fetch_add(1, Ordering::AcqRel);
        None
    });
    let (ends, ended) = tokio::sync::watch::channel(());
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let mut workers = Vec::new();
    for queue in ["work", "second"] {
        let queue = Queue::connect(&changed(fixture.config.clone(), |config| config.queue.name = queue.into())).await;
        let config = changed(fixture.config.worker.clone(), |worker| worker.waiting_sessions = 1);
        let (started, ended) = (started.clone(), ended.clone());
        let busy = Handlers::any(move |_, context| {
            started.send(())?;
            let _ = context.block_on(ended.clone().changed());
            Ok(())
        });
        let before = calls.load(Ordering::Acquire);
        workers.push(Worker::builder(&queue.unwrap(), busy).config(&config).threads(1).start().await.unwrap());
        until("it has asked for the place", || calls.load(Ordering::Acquire) > before).await;
    }
    let mut session = fixture.session().await;
    for queue in ["work", "second"] {
        session.sql(&format!("EXEC [$(schema)].[enqueue] @queue = N'{queue}', @payload = 0x01")).await;
    }
    let both_start = async { starts.recv().await.and(starts.recv().await) };
    tokio::time::timeout(Duration::from_secs(6), both_start).await.expect("it does not wait for its next poll");
    drop(ends);
    for worker in workers {
        worker.shutdown().await.unwrap();
    }
    fixture.remove().await;
}
