//! A restored or copied database starts held, and all queues of a schema can be paused together.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use readpast::admin::{Check, CheckResult, Held, QueueOptions, Schedule};
use readpast::{BoxError, Context, Handlers, Job, NewJob, Queue, Worker};

use crate::deleting::{hold_up, let_go_on, send_until_it_waits};
use crate::support::{Fixture, WorkerSession, dev_server, numbers, until};

fn no_op() -> Handlers {
    Handlers::any(|_: &Job, _: &Context| -> Result<(), BoxError> { Ok(()) })
}

async fn held(queue: &Queue) -> (bool, Option<Held>) {
    let stats = queue.admin().stats(None).await.unwrap();
    (stats.paused, stats.held)
}

/// What holds it, as `verify` says it, if anything.
async fn finding(queue: &Queue) -> Option<String> {
    let findings = queue.admin().findings().await;
    let held = findings.into_iter().find(|finding| finding.check == Check::NotHeld).unwrap();
    match held.result {
        CheckResult::Failed(error) => Some(error.to_string()),
        _ => None,
    }
}

/// The database under another name, as RESTORE makes it: it has another database_guid, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_runs_nothing_until_it_is_confirmed() {
    let fixture = Fixture::on_dev_server("copied", QueueOptions::default()).await;
    let queue = &fixture.queue;
    let mut original = WorkerSession::register(&fixture).await;
    queue.enqueue_many(&numbers(3)).await.unwrap();
    original.claim(1).await;
    let name = format!("{}_copy", fixture.database().unwrap());
    dev_server().await.copy_database(fixture.database().unwrap(), &name).unwrap();

    let mut config = fixture.config.clone();
    config.connection.url = format!("{};Database={name}", fixture.url()).into();
    let copy = Queue::connect(&config).await.unwrap();
    assert_eq!((held(&copy).await, finding(&copy).await), ((false, None), None), "nobody has looked yet");
    let ran = Arc::new(Mutex::new(BTreeSet::new()));
    let runs = ran.clone();
    let handlers = Handlers::any(move |job: &Job, _: &Context| -> Result<(), BoxError> {
        runs.lock().unwrap().insert(job.text()?.into_owned());
        Ok(())
    });
    let worker = Worker::builder(&copy, handlers).start().await.unwrap();
    assert_eq!(held(&copy).await, (true, Some(Held::Copy)));
    let said = finding(&copy).await.unwrap();
    assert!(said.contains("restored or copied") && said.contains("confirm-copy"), "{said}");
    let hold = copy.admin().holds().await.unwrap().remove(0);
    let original_name = hold.original.clone().unwrap().database;
    assert_eq!((hold.held, original_name.as_str()), (Held::Copy, fixture.database().unwrap()));
    let rows = copy.admin().workers(Duration::MAX).await.unwrap();
    assert_eq!(rows.iter().filter(|row| row.is_live()).count(), 1, "the original's worker is lost here");
    until("it has claimed", || worker.stats().last_claim_succeeded).await;
    assert_eq!((worker.stats().buffered, ran.lock().unwrap().len()), (0, 0));
    // A queue that is created now is held, too.
    let another = copy.named("another").unwrap();
    another.admin().create(QueueOptions::default()).await.unwrap();
    assert_eq!(held(&another).await, (true, Some(Held::Copy)));
    assert_eq!(held(queue).await, (false, None), "the original goes on");

    copy.admin().confirm_copy().await.unwrap();
    assert_eq!((held(&copy).await, finding(&copy).await), ((false, None), None));
    until("its jobs run, also that of the lost worker", || ran.lock().unwrap().len() == 3).await;
    worker.shutdown().await.unwrap();
    let worker = Worker::builder(&copy, no_op()).start().await.unwrap();
    assert_eq!(held(&copy).await, (false, None), "it is a home now");
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

/// Two connections are the first to use a schema, at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn a_home_that_is_noted_during_the_first_check_makes_no_copy() {
    let fixture = Fixture::new("first_home").await;
    fixture.sql("DELETE [$(schema)].[homes]").await;
    let before = "IF @home_id IS NOT NULL OR @confirm";
    let mut holder = hold_up(&fixture, include_str!("../sql/199_check_home.sql"), before).await;
    let check = "EXEC [$(schema)].[check_home]";
    let first = send_until_it_waits(&fixture, check).await;
    fixture
        .sql(
            "INSERT [$(schema)].[homes] (server, database_name, database_guid, recovery_fork_guid, noted_at)
             SELECT CAST(SERVERPROPERTY(N'ServerName') AS nvarchar(128)), DB_NAME(), r.database_guid,
                 r.recovery_fork_guid, SYSUTCDATETIME()
             FROM sys.database_recovery_status AS r WHERE r.database_id = DB_ID()",
        )
        .await;
    let_go_on(&mut holder).await;
    let (mut session, error) = first.await.unwrap();
    assert_eq!(error, None);
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[holds]").await, 0);
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[homes]").await, 1, "none is noted twice");
    drop((holder, session));
    fixture.remove().await;
}

/// A restore over the database itself: the same server and name, another recovery fork.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_went_back_in_time_is_held_for_each_new_connection() {
    let fixture = Fixture::new("went_back").await;
    let mut first = WorkerSession::register(&fixture).await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    assert_eq!(first.claim(1).await.len(), 1);
    let old = NewJob::text("ended");
    let old = fixture.queue.enqueue(&old).await.unwrap().job_id;
    let every_minute = Schedule::new("tick", "* * * * *", NewJob::text("tick"));
    fixture.queue.admin().set_schedule(&every_minute).await.unwrap();
    let mut session = fixture.session().await;
    let past = "UPDATE [$(schema)].[schedules] SET next_at = '20200101', look_at = '20200101'";
    session.sql(past).await;
    session.sql("UPDATE [$(schema)].[queues] SET keep_dead_s = 1").await;
    let ended = "UPDATE [$(schema)].[jobs] SET state = 4, ended = 1, finished_at = '20200101' WHERE job_id = ";
    session.sql(&format!("{ended}{old}")).await;
    let late = fixture.queue.enqueue(&NewJob::text("late").start_within(Duration::from_secs(1))).await.unwrap().job_id;
    session.sql(&format!("UPDATE [$(schema)].[jobs] SET start_by = '20200101' WHERE job_id = {late}")).await;
    session.sql("UPDATE [$(schema)].[homes] SET recovery_fork_guid = NEWID()").await;
    // The first that looks may be one of the duties.
    let cancelled = fixture.session().await.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
    assert_eq!(cancelled[0].get::<i32, _>("expired"), Some(0));
    session.sql("DELETE FROM [$(schema)].[holds]; UPDATE [$(schema)].[queues] SET paused = 0").await;
    fixture.session().await.sql("EXEC [$(schema)].[expire] @queue = N'work'").await;
    session.sql(&format!("UPDATE [$(schema)].[jobs] SET start_by = NULL WHERE job_id = {late}")).await;
    let mut second = WorkerSession::register(&fixture).await;
    assert_eq!(second.claim(1).await.len(), 0);
    assert_eq!(held(&fixture.queue).await, (true, Some(Held::Copy)));
    let mut later = fixture.session().await;
    let due = "EXEC [$(schema)].[due_schedules] @queue = N'work'";
    assert!(later.sql(due).await.is_empty());
    later.sql("EXEC [$(schema)].[expire] @queue = N'work'").await;
    assert_eq!(fixture.job_counts().await.dead, 1, "nothing is deleted");
    let lost = first.try_claim(1).await.unwrap_err().to_string();
    assert!(lost.contains("has lost its lease"), "{lost}");
    fixture.queue.admin().confirm_copy().await.unwrap();
    assert_eq!(second.claim(4).await.len(), 3);
    later.sql("EXEC [$(schema)].[expire] @queue = N'work'").await;
    assert_eq!(fixture.job_counts().await.dead, 0);
    let next = "SELECT COUNT(*) AS n FROM [$(schema)].[schedules] WHERE next_at > '20210101'";
    assert_eq!(later.number(next).await, 1, "the times that have passed fired in the original");
    fixture.remove().await;
}

/// The group's id is not visible on the dev server, so it is written as if it had been noted.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_unknown_is_noted_later_and_a_server_s_name_has_no_case() {
    let fixture = Fixture::new("home_details").await;
    WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    session.sql("UPDATE [$(schema)].[homes] SET recovery_fork_guid = NULL, server = N'READPAST-devserver'").await;
    WorkerSession::register(&fixture).await;
    assert_eq!(held(&fixture.queue).await, (false, None));
    let noted = "SELECT COUNT(*) AS n FROM [$(schema)].[homes] WHERE recovery_fork_guid IS NOT NULL";
    assert_eq!(session.number(noted).await, 1);
    // In a transaction, nothing is written, and nothing is claimed in a copy.
    fixture.queue.enqueue_many(&numbers(1)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    session.sql("UPDATE [$(schema)].[homes] SET recovery_fork_guid = NEWID()").await;
    let mut other = fixture.session().await;
    let claim = "BEGIN TRANSACTION; EXEC [$(schema)].[claim] @queue = N'work', @max = 1, @worker_id = ";
    assert!(other.sql(&format!("{claim}'{}'", worker.id)).await.is_empty());
    other.sql("ROLLBACK TRANSACTION").await;
    assert_eq!((held(&fixture.queue).await, worker.claim(1).await.len()), ((false, None), 1), "checked before");
    fixture.remove().await;
}

/// What a login may not see proves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_id_is_no_copy() {
    let fixture = Fixture::new("unknown_home").await;
    WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    session.sql("UPDATE [$(schema)].[homes] SET recovery_fork_guid = NULL, database_guid = NULL").await;
    WorkerSession::register(&fixture).await;
    assert_eq!(held(&fixture.queue).await, (false, None));
    session.sql("UPDATE [$(schema)].[homes] SET server = N'another'").await;
    WorkerSession::register(&fixture).await;
    assert_eq!(held(&fixture.queue).await, (true, Some(Held::Copy)));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_queues_are_paused_and_resumed_together() {
    let fixture = Fixture::new("pause_all").await;
    let admin = fixture.queue.admin();
    let by_itself = fixture.queue.named("by_itself").unwrap();
    by_itself.admin().create(QueueOptions::default()).await.unwrap();
    by_itself.admin().pause().await.unwrap();
    let worker = Worker::builder(&fixture.queue, no_op()).start().await.unwrap();
    admin.pause_all(Some("the storage moves")).await.unwrap();
    let later = fixture.queue.named("later").unwrap();
    later.admin().create(QueueOptions::default()).await.unwrap();
    for queue in [&fixture.queue, &by_itself, &later] {
        assert_eq!(held(queue).await, (true, Some(Held::Schema)), "{}", queue.name());
    }
    let hold = admin.holds().await.unwrap().remove(0);
    assert_eq!((hold.held, hold.why.as_deref(), hold.original), (Held::Schema, Some("the storage moves"), None));
    let mut session = WorkerSession::register(&fixture).await;
    fixture.queue.enqueue_many(&numbers(2)).await.unwrap();
    assert_eq!(session.claim(1).await.len(), 0);
    admin.resume().await.unwrap();
    assert_eq!(held(&fixture.queue).await, (true, Some(Held::Schema)), "one queue is not resumed alone");
    admin.resume_all().await.unwrap();
    let paused = [held(&fixture.queue).await, held(&by_itself).await, held(&later).await];
    assert_eq!(paused, [(false, None), (true, None), (false, None)]);
    assert_eq!(admin.holds().await.unwrap(), []);
    until("the jobs run", || worker.stats().done == 2).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}
