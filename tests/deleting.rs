//! Deleting a queue: what keeps it from being deleted, that nothing of it stays, and that a producer that enqueues
//! meanwhile leaves no job without a queue.

use std::time::Duration;

use readpast::admin::{CompletionPolicy, Deleted, JobChange, JobState, QueueOptions, Rate, Schedule};
use readpast::{Error, JobId, NewBatch, NewJob, Queue};

use crate::support::{Fixture, Session, WorkerSession, changed, number, numbers};

const UNKNOWN_QUEUE: u32 = 58001;
const QUEUE_IN_USE: u32 = 58022;

async fn queue_named(fixture: &Fixture, name: &str) -> Queue {
    let config = changed(fixture.config.clone(), |config| config.queue.name = name.to_string());
    let queue = Queue::connect(&config).await.unwrap();
    queue.admin().create(QueueOptions::default()).await.unwrap();
    queue
}

/// Deleting is refused, because of what the message says; the queue is there afterwards.
async fn is_kept(queue: &Queue, with_jobs: bool, because: &str) {
    let error = queue.admin().delete(with_jobs).await.unwrap_err();
    assert!(matches!(&error, Error::QueueInUse { message, .. } if message.contains(because)), "{error}");
    assert_eq!(error.sql_number(), Some(QUEUE_IN_USE as i32));
    queue.admin().stats(None).await.unwrap();
}

/// How many rows there are of queue 1, in all tables that know queues.
async fn rows_of_the_queue(session: &mut Session) -> i64 {
    let tables = "SELECT OBJECT_NAME(c.object_id) AS name FROM sys.columns AS c
                  INNER JOIN sys.tables AS t ON t.object_id = c.object_id
                  WHERE c.name = N'queue_id' AND t.schema_id = SCHEMA_ID(N'$(schema)')";
    let tables: Vec<String> =
        session.sql(tables).await.iter().map(|row| row.get::<&str, _>("name").unwrap().to_string()).collect();
    assert!(tables.len() >= 16, "{tables:?}");
    let mut rows = 0;
    for table in tables {
        rows += session.number(&format!("SELECT COUNT(*) FROM [$(schema)].[{table}] WHERE queue_id = 1")).await;
    }
    rows
}

/// Holds up whoever adds jobs, and nobody who looks for them.
async fn hold_up_inserts(fixture: &Fixture) -> Session {
    let mut holder = fixture.session().await;
    let range = "SELECT COUNT(*) FROM [$(schema)].[jobs] WITH (HOLDLOCK, INDEX (jobs_pk)) WHERE job_id > 0";
    holder.sql(&format!("BEGIN TRANSACTION; {range}")).await;
    holder
}

/// Sends it in a session of its own and returns when it waits for a lock; the call returns the error, if it has one.
pub(crate) async fn send_until_it_waits(
    fixture: &Fixture,
    sql: &str,
) -> tokio::task::JoinHandle<(Session, Option<u32>)> {
    let mut session = fixture.session().await;
    let spid = session.number("SELECT @@SPID").await;
    let text = sql.to_owned();
    let call = tokio::spawn(async move {
        let error = session.try_sql(&text).await.err().map(|error| error.code().expect("an error of SQL Server"));
        (session, error)
    });
    let waiting = format!(
        "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = {spid} AND request_status <> 'GRANT'"
    );
    let mut other = fixture.session().await;
    while other.number(&waiting).await == 0 {
        assert!(!call.is_finished(), "it waits for nobody: {sql}");
    }
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_queue_is_deleted_and_can_be_created_anew() {
    let fixture = Fixture::new("delete_empty").await;
    assert_eq!(fixture.queue.admin().delete(false).await.unwrap(), Deleted::default());
    assert_eq!(rows_of_the_queue(&mut fixture.session().await).await, 0);
    for error in
        [fixture.queue.admin().stats(None).await.unwrap_err(), fixture.queue.admin().delete(false).await.unwrap_err()]
    {
        assert!(matches!(error, Error::UnknownQueue { .. }), "{error}");
    }
    assert!(fixture.queue.admin().create(QueueOptions::default()).await.unwrap());
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();

    // It would be the caller's transaction that is rolled back.
    let mut session = fixture.session().await;
    session.sql("BEGIN TRANSACTION").await;
    let (number, message) = session.refusal("EXEC [$(schema)].[delete_queue] @queue = N'work', @with_jobs = 1").await;
    assert!(number == 58003 && message.contains("inside a transaction"), "{message}");
    assert_eq!(fixture.job_counts().await.ready, 1);
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_kept_while_a_worker_has_a_lease() {
    let fixture = Fixture::new("delete_worked").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    worker.claim_one().await;
    is_kept(&fixture.queue, true, "a worker has a lease").await;
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().claimed, 1, "no job was deleted");
    worker.lose(&fixture).await;
    fixture.queue.admin().delete(true).await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_kept_while_it_has_a_job_of_any_state_unless_they_are_to_go() {
    let fixture = Fixture::with("delete_jobs", QueueOptions::default().completion(CompletionPolicy::Archive)).await;
    let mut session = fixture.session().await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let worker = "worker_id = NEWID(), claimed_at = enqueued_at, finished_at = enqueued_at";
    for state in [
        "state = 0, ended = 0",
        "state = 0, ended = 0, alone = 1",
        "state = 1, ended = 0, alone = 0",
        "state = 2, ended = 0",
        "state = 3, ended = 1",
        "state = 4, ended = 1",
        "state = 5, ended = 1",
        "state = 6, ended = 0, group_key = N'k'",
    ] {
        session.sql(&format!("UPDATE [$(schema)].[jobs] SET {state}, {worker}")).await;
        is_kept(&fixture.queue, false, "the queue has jobs").await;
    }
    session.sql("UPDATE [$(schema)].[jobs] SET state = 0, group_key = NULL, finished_at = NULL").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    worker.finish(&[job.done()]).await;
    worker.lose(&fixture).await;
    is_kept(&fixture.queue, false, "the queue has jobs").await; // in the archive
    assert_eq!(fixture.queue.admin().change(&JobChange::Purge, JobState::Archived).await.unwrap().changed, 1);
    fixture.queue.admin().delete(false).await.unwrap();
    assert_eq!(rows_of_the_queue(&mut session).await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_kept_while_an_open_batch_has_its_follow_up_in_it() {
    let fixture = Fixture::new("delete_follow_up").await;
    let other = queue_named(&fixture, "other").await;
    let batch = fixture.queue.create_batch(&NewBatch::new().then(NewJob::text("add up"))).await.unwrap();
    other.enqueue(&NewJob::text("part").batch(batch)).await.unwrap();
    is_kept(&fixture.queue, true, "an open batch has its follow-up in the queue").await;
    fixture.queue.admin().cancel_batch(batch, "the queue goes").await.unwrap();
    assert_eq!(fixture.queue.admin().delete(true).await.unwrap().jobs, 1, "the follow-up");
    assert_eq!(rows_of_the_queue(&mut fixture.session().await).await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_its_jobs_nothing_of_a_queue_stays_and_other_queues_hear_of_it() {
    let options =
        QueueOptions::default().completion(CompletionPolicy::Archive).rate(Rate::new(100_000, Duration::from_secs(1)));
    let fixture = Fixture::with("delete_all", options).await;
    let (queue, mut session) = (&fixture.queue, fixture.session().await);
    let other = queue_named(&fixture, "other").await;
    let batch = other.create_batch(&NewBatch::new().then(NewJob::text("add up"))).await.unwrap();
    let ended = queue.create_batch(&NewBatch::new()).await.unwrap();
    queue.seal_batch(ended).await.unwrap();
    let grouped = |n: u32| NewJob::text("x").group_key(format!("{}", n % 3)).batch(batch);
    queue.enqueue_many(&(0..20).map(grouped).collect::<Vec<_>>()).await.unwrap();
    other.enqueue(&NewJob::text("x").group_key("0").batch(batch)).await.unwrap();
    other.seal_batch(batch).await.unwrap();
    queue.enqueue_many(&numbers(1_500)).await.unwrap();
    queue.enqueue(&NewJob::text("later").delay(Duration::from_secs(600)).dedup_key("k")).await.unwrap();
    queue.admin().set_schedule(&Schedule::new("yearly", "@yearly", NewJob::text("x"))).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let jobs = worker.claim(10).await;
    worker.finish(&[jobs[0].done(), jobs[1].dead("no"), jobs[2].retry(60_000, "again")]).await;
    session
        .sql(&format!(
            "DECLARE @notes [$(schema)].[progress_list]; INSERT @notes (job_id, fence, fraction) VALUES ({}, 1, 0.5);
             EXEC [$(schema)].[note_progress] @worker_id = '{}', @notes = @notes;
             EXEC [$(schema)].[sample] @queue = N'work';
             EXEC [$(schema)].[promote] @queue = N'work'",
            jobs[3].job_id, worker.id
        ))
        .await;
    worker.lose(&fixture).await;
    assert!(rows_of_the_queue(&mut session).await > 1_500);

    let before = other.batch(batch).await.unwrap().unwrap();
    let ended_before = before.done + before.dead + before.cancelled;
    assert_eq!(queue.admin().delete(true).await.unwrap().jobs, 1_521);
    assert_eq!(rows_of_the_queue(&mut session).await, 0);
    let after = other.batch(batch).await.unwrap().unwrap();
    assert_eq!((after.done, after.dead), (before.done, before.dead));
    assert_eq!(after.cancelled - before.cancelled, 20 - ended_before, "all of this queue's");
    assert_eq!((after.unfinished(), after.ended_at), (1, None), "the other queue's job is left");
    assert_eq!(other.admin().stats(None).await.unwrap().ready, 1);
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[queues]").await, 1);
    fixture.remove().await;
}

/// The producer has looked for the queue before it was deleted, and adds its job afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_comes_in_behind_the_deletion_is_taken_back() {
    let one = "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x'";
    let keyed = "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = N'k'";
    let in_transaction = "BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x'";
    let many = "DECLARE @jobs [$(schema)].[enqueue_list]; INSERT @jobs (ordinal, text) VALUES (1, N'x'), (2, N'y');
                EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs";
    let many_keyed = "DECLARE @jobs [$(schema)].[enqueue_list];
                      INSERT @jobs (ordinal, text, dedup_key) VALUES (1, N'x', N'k'), (2, N'y', NULL);
                      EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs";
    for call in [one, keyed, in_transaction, many, many_keyed] {
        let fixture = Fixture::new("behind").await;
        let mut holder = hold_up_inserts(&fixture).await;
        let producer = send_until_it_waits(&fixture, call).await;
        fixture.queue.admin().delete(false).await.unwrap();
        holder.sql("COMMIT TRANSACTION").await;
        let (mut session, error) = producer.await.unwrap();
        assert_eq!(error, Some(UNKNOWN_QUEUE), "{call}");
        assert_eq!(session.number("SELECT @@TRANCOUNT").await, 0);
        assert_eq!(rows_of_the_queue(&mut session).await, 0, "{call}");
        drop((session, holder));
        fixture.remove().await;
    }
}

const ADD_ONE: &str = "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x'";
const ADD_TWO: &str =
    "DECLARE @jobs [$(schema)].[enqueue_list]; INSERT @jobs (ordinal, text) VALUES (1, N'x'), (2, N'y');
                       EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs";

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_s_look_for_its_queue_waits_for_no_change_of_it() {
    for (call, jobs) in [(ADD_ONE, 1), (ADD_TWO, 2)] {
        let fixture = Fixture::new("paused_meanwhile").await;
        let mut holder = hold_up_inserts(&fixture).await;
        let producer = send_until_it_waits(&fixture, call).await;
        let mut operator = fixture.session().await;
        operator.sql("BEGIN TRANSACTION; UPDATE [$(schema)].[queues] SET paused = 1").await;
        holder.sql("COMMIT TRANSACTION").await;
        assert_eq!(producer.await.unwrap().1, None, "{call}");
        operator.sql("ROLLBACK TRANSACTION").await;
        assert_eq!(fixture.queue.admin().stats(None).await.unwrap().ready, jobs);
        drop((holder, operator));
        fixture.remove().await;
    }
}

/// Somebody has deleted the queue's row, and may take that back, for longer than the producer waits: the job is there
/// and may run, so it stays.
#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_that_cannot_find_out_whether_its_queue_is_gone_has_added_its_job() {
    for (call, jobs) in [(ADD_ONE, 1), (ADD_TWO, 2)] {
        for in_transaction in [false, true] {
            let fixture = Fixture::new("locked_queue").await;
            let mut holder = hold_up_inserts(&fixture).await;
            let call =
                if in_transaction { format!("BEGIN TRANSACTION; {call}; COMMIT TRANSACTION") } else { call.into() };
            let call: &'static str = format!("SET LOCK_TIMEOUT 2000; {call}").leak();
            let producer = send_until_it_waits(&fixture, call).await;
            let mut operator = fixture.session().await;
            operator.sql("BEGIN TRANSACTION; DELETE [$(schema)].[queues]").await;
            holder.sql("COMMIT TRANSACTION").await;
            let (session, error) = producer.await.unwrap();
            assert_eq!(error, None, "{call}");
            operator.sql("ROLLBACK TRANSACTION").await;
            assert_eq!(fixture.queue.admin().stats(None).await.unwrap().ready, jobs, "{call}");
            drop((session, holder, operator));
            fixture.remove().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_kept_while_a_transaction_that_has_added_jobs_has_not_ended() {
    let fixture = Fixture::new("delete_added").await;
    let mut producer = fixture.session().await;
    producer.sql("BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x'").await;
    for with_jobs in [false, true] {
        is_kept(&fixture.queue, with_jobs, "another transaction has locked jobs or other rows of the queue").await;
    }
    producer.sql("ROLLBACK TRANSACTION").await;
    fixture.queue.admin().delete(false).await.unwrap();

    fixture.queue.admin().create(QueueOptions::default()).await.unwrap();
    let batch = "DECLARE @batch bigint; EXEC [$(schema)].[create_batch] @queue = N'work', @batch_id = @batch OUTPUT";
    producer.sql(&format!("BEGIN TRANSACTION; {batch}")).await;
    is_kept(&fixture.queue, true, "an open batch has its follow-up in the queue").await;
    producer.sql("ROLLBACK TRANSACTION").await;
    fixture.queue.admin().delete(false).await.unwrap();
    drop(producer);
    fixture.remove().await;
}

/// Has the procedure of this script wait, where this text stands in it, until the returned session lets it go on.
pub(crate) async fn hold_up(fixture: &Fixture, script: &str, before: &str) -> Session {
    let lock = |mode: &str| {
        format!(
            "EXEC sys.sp_getapplock @Resource = N'$(schema).gate', @LockMode = N'{mode}', @LockOwner = N'Session',
             @LockTimeout = 30000;\n"
        )
    };
    assert_eq!(script.matches(before).count(), 1, "{before}");
    let mut holder = fixture.session().await;
    holder.script(&script.replace(before, &(lock("Shared") + before))).await.unwrap();
    holder.sql(&lock("Exclusive")).await;
    holder
}

pub(crate) async fn let_go_on(holder: &mut Session) {
    holder.sql("EXEC sys.sp_releaseapplock @Resource = N'$(schema).gate', @LockOwner = N'Session'").await;
}

/// A job that stands in an index that is looked at later goes to one that was looked at already.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_changes_its_state_while_the_queue_is_looked_through_is_not_missed() {
    let dead = "state = 4, ended = 1, finished_at = enqueued_at";
    let waiting = "state = 6, group_key = N'k'; INSERT [$(schema)].[group_events] (queue_id, group_key, ended) VALUES (1, N'k', 0)";
    let lost = "state = 2, worker_id = NEWID(); INSERT [$(schema)].[workers]
                (worker_id, queue_id, name, lease_ms, registered_at, lease_until, lost_at)
                SELECT worker_id, 1, N'w', 1000, enqueued_at, enqueued_at, enqueued_at FROM [$(schema)].[jobs]";
    for (state, call) in [
        (dead, "EXEC [$(schema)].[requeue] @queue = N'work'"),
        ("state = 1", "EXEC [$(schema)].[promote] @queue = N'work'"),
        ("state = 1", "EXEC [$(schema)].[promote_now] @queue = N'work', @job_id = 1"),
        (waiting, "EXEC [$(schema)].[advance_groups] 1"),
        (lost, "EXEC [$(schema)].[reap] @queue = N'work'"),
    ] {
        let fixture = Fixture::in_own_database("moved").await;
        // So that the look for the queue by its name waits for nobody, as with one that was made before.
        fixture.sql("ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE").await;
        let queue = fixture.connect().await;
        queue.admin().install().await.unwrap();
        queue.admin().create(QueueOptions::default()).await.unwrap();
        let job = queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
        assert_eq!(job, JobId(1));
        fixture.sql(&format!("UPDATE [$(schema)].[jobs] SET {state}")).await;

        let script = include_str!("../sql/442_delete_empty_queue.sql");
        let looks = "    IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, HOLDLOCK, FORCESEEK (jobs_scheduled (queue_id)))";
        let mut holder = hold_up(&fixture, script, looks).await;
        let delete = "DECLARE @outcome varchar(8); EXEC [$(schema)].[delete_empty_queue] 1, N'work', @outcome OUTPUT";
        let deletion = send_until_it_waits(&fixture, delete).await;
        let moving = send_until_it_waits(&fixture, call).await;
        let_go_on(&mut holder).await;
        assert_eq!(deletion.await.unwrap().1, None);
        assert_eq!(moving.await.unwrap().1, None, "{call}");
        assert_eq!(
            queue.admin().stats(None).await.unwrap().ready,
            1,
            "{call}: the queue is there, and its job has moved"
        );
        drop((holder, queue));
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_registers_behind_the_look_for_workers_keeps_its_jobs() {
    let fixture = Fixture::new("delete_registered").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let script = include_str!("../sql/444_delete_queue.sql");
    let mut holder = hold_up(&fixture, script, "    -- Unfinished jobs are cancelled.").await;
    let delete = "EXEC [$(schema)].[delete_queue] @queue = N'work', @with_jobs = 1";
    let deletion = send_until_it_waits(&fixture, delete).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    let_go_on(&mut holder).await;
    assert_eq!(deletion.await.unwrap().1, Some(QUEUE_IN_USE));
    assert_eq!(worker.finish(&[job.done()]).await, [], "it is the worker's still");
    drop(holder);
    fixture.remove().await;
}

/// Jobs are deleted by their ids, which another queue may have by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_moved_while_its_queue_is_deleted_is_kept() {
    let fixture = Fixture::new("delete_moved").await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'other'").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let script = include_str!("../sql/444_delete_queue.sql");
    let mut holder = hold_up(&fixture, script, "    -- Unfinished jobs are cancelled.").await;
    let delete = "EXEC [$(schema)].[delete_queue] @queue = N'work', @with_jobs = 1";
    let deletion = send_until_it_waits(&fixture, delete).await;
    let to = "(SELECT queue_id FROM [$(schema)].[queues] WHERE name = N'other')";
    fixture.sql(&format!("UPDATE [$(schema)].[jobs] SET queue_id = {to}")).await;
    let_go_on(&mut holder).await;
    deletion.await.unwrap();
    assert_eq!(holder.number("SELECT COUNT(*) FROM [$(schema)].[jobs]").await, 1);
    drop(holder);
    fixture.remove().await;
}

/// It has looked for the queue before that was deleted, and comes in afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_and_a_schedule_that_come_in_behind_the_deletion_are_refused() {
    let register =
        "DECLARE @id uniqueidentifier = NEWID(); EXEC [$(schema)].[register_worker] N'work', @id, N'w', 60000";
    let schedule = "EXEC [$(schema)].[set_schedule] @queue = N'work', @name = N's', @cron = '* * * * *', @text = N'x'";
    let batch = "DECLARE @batch bigint; EXEC [$(schema)].[create_batch] @queue = N'work', @batch_id = @batch OUTPUT";
    for (call, table) in [(register, "workers"), (schedule, "schedules"), (batch, "batches")] {
        let fixture = Fixture::new("behind").await;
        let mut holder = fixture.session().await;
        let range = format!("SELECT COUNT(*) FROM [$(schema)].[{table}] WITH (HOLDLOCK)");
        holder.sql(&format!("BEGIN TRANSACTION; {range}")).await;
        let late = send_until_it_waits(&fixture, call).await;
        fixture.queue.admin().delete(false).await.unwrap();
        holder.sql("COMMIT TRANSACTION").await;
        let (mut session, error) = late.await.unwrap();
        assert_eq!(error, Some(UNKNOWN_QUEUE), "{call}");
        assert_eq!(rows_of_the_queue(&mut session).await, 0, "{call}");
        drop((session, holder));
        fixture.remove().await;
    }
}

/// What somebody has locked is neither waited for nor left behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_kept_while_what_belongs_to_it_is_locked() {
    let fixture = Fixture::new("delete_locked").await;
    let mut worker = WorkerSession::register(&fixture).await;
    worker.lose(&fixture).await;
    let mut session = fixture.session().await;
    session
        .sql(
            "INSERT [$(schema)].[progress] (job_id, queue_id, fence, noted_at)
             VALUES (1, 1, 1, SYSUTCDATETIME()), (2, 1, 1, SYSUTCDATETIME())",
        )
        .await;
    let mut other = fixture.session().await;
    for change in ["[progress] SET fence = 2 WHERE job_id = 2", "[workers] SET unserved = 1"] {
        other.sql(&format!("BEGIN TRANSACTION; UPDATE [$(schema)].{change}")).await;
        is_kept(&fixture.queue, true, "another transaction").await;
        other.sql("ROLLBACK TRANSACTION").await;
        session.sql("DELETE [$(schema)].[progress] WHERE job_id = 2").await;
    }
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[progress]").await, 0);
    fixture.queue.admin().delete(false).await.unwrap();
    assert_eq!(rows_of_the_queue(&mut session).await, 0);
    let (number, _) = session.refusal(&format!("EXEC [$(schema)].[heartbeat] @worker_id = '{}'", worker.id)).await;
    assert_eq!(number, 58002);
    drop((session, other));
    fixture.remove().await;
}

/// The session's own LOCK_TIMEOUT holds afterwards, and no transaction stays open.
#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_queue_leaves_the_session_s_lock_timeout_alone() {
    let fixture = Fixture::new("delete_timeout").await;
    let mut session = fixture.session().await;
    session.sql("SET LOCK_TIMEOUT 1234; EXEC [$(schema)].[delete_queue] @queue = N'work'").await;
    assert_eq!(session.numbers("SELECT @@LOCK_TIMEOUT UNION ALL SELECT @@TRANCOUNT").await, [1234, 0]);
    drop(session);
    fixture.remove().await;
}

/// Producers that go on all the time: each job was deleted or refused, and none is left.
#[tokio::test(flavor = "multi_thread")]
async fn no_job_is_left_without_a_queue_whatever_producers_do() {
    for _ in 0..3 {
        let fixture = Fixture::new("producers").await;
        let mut producers = Vec::new();
        for producer in 0..4 {
            let queue = fixture.connect().await;
            producers.push(tokio::spawn(async move {
                for n in 0.. {
                    let added = match producer {
                        0 => queue.enqueue_many(&numbers(20)).await.map(|_| ()),
                        1 => queue.enqueue(&NewJob::text("x").dedup_key(format!("{n}"))).await.map(|_| ()),
                        2 => queue.enqueue(&NewJob::text("x").group_key("k")).await.map(|_| ()),
                        _ => queue.enqueue(&NewJob::text("x")).await.map(|_| ()),
                    };
                    match added {
                        Ok(()) => {}
                        Err(Error::UnknownQueue { .. }) => return n,
                        Err(error) => panic!("{error}"),
                    }
                }
                unreachable!("it goes on until the queue is gone")
            }));
        }
        let mut session = fixture.session().await;
        while session.number("SELECT COUNT(*) FROM [$(schema)].[jobs] WITH (NOLOCK)").await < 100 {}
        loop {
            match fixture.queue.admin().delete(true).await {
                Ok(_) => break,
                Err(Error::QueueInUse { message, .. }) => assert!(message.contains("another transaction"), "{message}"),
                Err(error) => panic!("{error}"),
            }
        }
        for producer in producers {
            assert!(producer.await.unwrap() > 0);
        }
        assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[jobs]").await, 0);
        drop(session);
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_found_by_its_number_in_whatever_queue_it_is() {
    let fixture = Fixture::with("find_job", QueueOptions::default().completion(CompletionPolicy::Archive)).await;
    let other = queue_named(&fixture, "other").await;
    let here = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let there = other.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    assert_eq!(fixture.queue.admin().queue_of(here).await.unwrap().as_deref(), Some("work"));
    worker.finish(&[job.done()]).await;
    let archived = fixture.sql("SELECT COUNT(*) AS jobs FROM [$(schema)].[archive]").await;
    assert_eq!(number(&archived[0], "jobs"), 1);
    for queue in [&fixture.queue, &other] {
        assert_eq!(queue.admin().queue_of(here).await.unwrap().as_deref(), Some("work"));
        assert_eq!(queue.admin().queue_of(there).await.unwrap().as_deref(), Some("other"));
        assert_eq!(queue.admin().queue_of(JobId(there.0 + 1)).await.unwrap(), None);
    }
    fixture.remove().await;
}
