//! A restored or copied database starts held, and all queues of a schema can be paused together.

use std::time::Duration;

use readpast::admin::{Check, CheckResult, Held, QueueOptions, Schedule};
use readpast::{BoxError, Context, Handlers, Job, NewJob, Queue, Worker};

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
    let every_second = Schedule::new("tick", "* * * * * *", NewJob::text("tick"));
    queue.admin().set_schedule(&every_second).await.unwrap();
    let name = format!("{}_copy", fixture.database().unwrap());
    dev_server().await.copy_database(fixture.database().unwrap(), &name).unwrap();

    let mut config = fixture.config.clone();
    config.connection.url = format!("{};Database={name}", fixture.url()).into();
    let copy = Queue::connect(&config).await.unwrap();
    assert_eq!((held(&copy).await, finding(&copy).await), ((false, None), None), "nobody has looked yet");
    let worker = Worker::builder(&copy, no_op()).start().await.unwrap();
    assert_eq!(held(&copy).await, (true, Some(Held::Copy)));
    let said = finding(&copy).await.unwrap();
    assert!(said.contains("restored or copied") && said.contains("confirm-copy"), "{said}");
    let hold = copy.admin().holds().await.unwrap().remove(0);
    let original_name = hold.original.clone().unwrap().1;
    assert_eq!((hold.held, original_name.as_str()), (Held::Copy, fixture.database().unwrap()));
    let rows = copy.admin().workers(Duration::MAX).await.unwrap();
    assert_eq!(rows.iter().filter(|row| row.is_live()).count(), 1, "the original's worker is lost here");
    tokio::time::sleep(Duration::from_millis(1_500)).await; // the schedule would have fired, and claims have come
    assert_eq!(worker.stats().done, 0);
    let next = copy.admin().schedules().await.unwrap().remove(0);
    assert_eq!(next.last_at, None);
    // A queue that is created now is held, too.
    let another = copy.named("another").unwrap();
    another.admin().create(QueueOptions::default()).await.unwrap();
    assert_eq!(held(&another).await, (true, Some(Held::Copy)));
    assert_eq!(held(queue).await, (false, None), "the original goes on");

    copy.admin().confirm_copy().await.unwrap();
    assert_eq!((held(&copy).await, finding(&copy).await), ((false, None), None));
    until("its jobs run, also that of the lost worker", || worker.stats().done >= 3).await;
    worker.shutdown().await.unwrap();
    let worker = Worker::builder(&copy, no_op()).start().await.unwrap();
    assert_eq!(held(&copy).await, (false, None), "it is a home now");
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

/// A restore over the database itself: the same server and name, another recovery fork.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_went_back_in_time_is_held_for_each_new_connection() {
    let fixture = Fixture::new("went_back").await;
    let mut first = WorkerSession::register(&fixture).await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    assert_eq!(first.claim(1).await.len(), 1);
    let mut session = fixture.session().await;
    session.sql("UPDATE [$(schema)].[homes] SET recovery_fork_guid = NEWID()").await;
    let mut second = WorkerSession::register(&fixture).await;
    assert_eq!(second.claim(1).await.len(), 0);
    assert_eq!(held(&fixture.queue).await, (true, Some(Held::Copy)));
    let lost = first.try_claim(1).await.unwrap_err().to_string();
    assert!(lost.contains("has lost its lease"), "{lost}");
    fixture.queue.admin().confirm_copy().await.unwrap();
    assert_eq!(second.claim(3).await.len(), 2);
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
