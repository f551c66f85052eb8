//! A queue with a `max_depth` refuses jobs when it is full, whether workers run or not, and loses none.

use std::time::Duration;

use readpast::admin::{CompletionPolicy, JobChange, QueueOptions, Schedule};
use readpast::transaction::enqueue_in;
use readpast::{Context, Enqueued, Error, Handlers, Job, NewBatch, NewJob, Output, Worker};

use crate::support::counted::drained;
use crate::support::{Fixture, JobCounts, WorkerSession, numbers};

/// Otherwise an enqueue may use a count that is some milliseconds old.
const COUNT_AGAIN: &str = "UPDATE [$(schema)].[depths] SET begun_at = '00010101'";

async fn of_depth(test_name: &str, max_depth: u32) -> Fixture {
    Fixture::with(test_name, QueueOptions::default().max_depth(max_depth)).await
}

/// The jobs that were added before the queue was full, and the error's text.
fn in_part(result: Result<Vec<Enqueued>, Error>) -> (usize, String) {
    match result {
        Err(Error::EnqueuedInPart { enqueued, cause, .. }) if matches!(*cause, Error::QueueFull { .. }) => {
            (enqueued.len(), cause.to_string())
        }
        Err(error @ Error::QueueFull { .. }) => (0, error.to_string()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_jobs_until_one_has_ended() {
    let fixture = of_depth("full", 3).await;
    let states = [
        NewJob::text("ready"),
        NewJob::text("scheduled").delay(Duration::from_secs(3_600)),
        NewJob::text("in turn").group_key("g"),
    ];
    fixture.queue.enqueue_many(&states).await.unwrap();
    fixture.sql(COUNT_AGAIN).await;
    let error = fixture.queue.enqueue(&NewJob::text("fourth")).await.unwrap_err();
    assert_eq!(error.to_string(), "queue 'work' is full: its max_depth is 3");
    assert!(!error.is_transient() && error.sql_number() == Some(58023));

    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(10).await;
    assert_eq!(claimed.len(), 2);
    fixture.sql(COUNT_AGAIN).await;
    assert_eq!(in_part(fixture.queue.enqueue_many(&numbers(2)).await).0, 0, "claimed jobs are unfinished");
    worker.finish(&[claimed[0].done(), claimed[1].dead("it fails")]).await;
    fixture.sql(COUNT_AGAIN).await;
    assert_eq!(in_part(fixture.queue.enqueue_many(&numbers(5)).await).0, 2, "as many as there is room for");
    let kept = fixture.job_counts().await;
    assert_eq!(kept, JobCounts { ready: 2, scheduled: 1, dead: 1, ..JobCounts::default() });

    fixture.queue.admin().create(QueueOptions::default().max_depth(None)).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("without a limit")).await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_already_is_not_refused() {
    let fixture = of_depth("full_keys", 4).await;
    let keyed = |keys: &[&str]| keys.iter().map(|key| NewJob::text("x").dedup_key(*key)).collect::<Vec<_>>();
    let batch = fixture.queue.create_batch(&NewBatch::new()).await.unwrap();
    let part = [NewJob::text("1"), NewJob::text("2")];
    fixture.queue.enqueue_part(batch, 1, &part).await.unwrap().unwrap();
    let first = fixture.queue.enqueue_many(&keyed(&["a", "b"])).await.unwrap();

    fixture.sql(COUNT_AGAIN).await;
    assert_eq!(fixture.queue.enqueue_part(batch, 1, &part).await.unwrap(), None, "it was added");
    assert_eq!(fixture.queue.enqueue_part(batch, 1, &part[..1]).await.unwrap(), None, "also by the call for one job");
    fixture.sql(COUNT_AGAIN).await;
    assert!(matches!(fixture.queue.enqueue_part(batch, 2, &part).await, Err(Error::QueueFull { .. })));
    let again = fixture.queue.enqueue(&keyed(&["b"])[0]).await.unwrap();
    assert_eq!((again.job_id, again.duplicate), (first[1].job_id, true));
    let all = fixture.queue.enqueue_many(&keyed(&["b", "a"])).await.unwrap();
    assert!(all.iter().all(|job| job.duplicate));
    fixture.sql(COUNT_AGAIN).await;
    let mixed = fixture.queue.enqueue_many(&keyed(&["a", "new", "b"])).await;
    assert_eq!(in_part(mixed).0, 1, "those from the first refused one on");
    assert_eq!(fixture.job_counts().await.ready, 4);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_is_added_as_a_whole_and_the_last_one_may_be_too_many() {
    let fixture = of_depth("full_part", 4).await;
    let batch = fixture.queue.create_batch(&NewBatch::new()).await.unwrap();
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    fixture.sql(COUNT_AGAIN).await;
    assert_eq!(fixture.queue.enqueue_part(batch, 1, &numbers(2)).await.unwrap().unwrap().len(), 2, "room for one");
    fixture.sql(COUNT_AGAIN).await;
    let part = fixture.queue.enqueue_part(batch, 2, &numbers(2)).await;
    assert!(matches!(part, Err(Error::QueueFull { .. })), "{part:?}");
    assert_eq!(fixture.job_counts().await.ready, 5);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_transaction_stays_usable() {
    let fixture = of_depth("full_transaction", 2).await;
    let mut session = fixture.session().await;
    session.sql("CREATE TABLE [$(schema)].[orders] (id int NOT NULL PRIMARY KEY)").await;
    let (schema, job) = (fixture.schema().to_owned(), NewJob::text("x"));
    session.client.begin_transaction().await.unwrap();
    session.sql("INSERT [$(schema)].[orders] VALUES (7)").await;
    enqueue_in(&mut session.client, &schema, "work", std::slice::from_ref(&job)).await.unwrap();
    session.sql(COUNT_AGAIN).await;
    assert_eq!(in_part(enqueue_in(&mut session.client, &schema, "work", &[job.clone(), job.clone()]).await).0, 1);
    session.sql(COUNT_AGAIN).await;
    assert_eq!(in_part(enqueue_in(&mut session.client, &schema, "work", &[job]).await).0, 0);
    session.sql("INSERT [$(schema)].[orders] VALUES (8)").await;
    session.client.commit_transaction().await.unwrap();
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[orders]").await, 2);
    assert_eq!(fixture.job_counts().await.ready, 2);

    // A caller in T-SQL catches it. Its XACT_ABORT decides: "XACT_STATE" (MicrosoftDocs/sql-docs,
    // docs/t-sql/functions/xact-state-transact-sql.md).
    for (xact_abort, expected) in [("OFF", 1), ("ON", -1)] {
        session.sql(COUNT_AGAIN).await;
        let caught = format!(
            "SET XACT_ABORT {xact_abort};
             DECLARE @number int, @state int, @jobs [$(schema)].[enqueue_list];
             INSERT @jobs (ordinal, text) VALUES (1, N'x'), (2, N'y');
             BEGIN TRANSACTION;
             BEGIN TRY
                 EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs;
             END TRY
             BEGIN CATCH
                 SELECT @number = ERROR_NUMBER(), @state = XACT_STATE();
             END CATCH;
             ROLLBACK TRANSACTION;
             SELECT CASE WHEN @number = 58023 THEN @state END"
        );
        assert_eq!(session.number(&caught).await, expected, "{xact_abort}");
    }
    session.sql("DROP TABLE [$(schema)].[orders]").await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_in_t_sql_is_added_as_a_whole_unless_it_says_otherwise() {
    let fixture = of_depth("full_list", 2).await;
    let mut session = fixture.session().await;
    let list = "DECLARE @jobs [$(schema)].[enqueue_list];
                INSERT @jobs (ordinal, text) VALUES (1, N'1'), (2, N'2'), (3, N'3');
                EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs";
    let rows = session.sql(&format!("{list}, @in_part = 1")).await;
    let refused: Vec<(bool, bool)> = rows
        .iter()
        .map(|row| {
            let (job_id, refused): (Option<i64>, Option<&str>) = (row.get("job_id"), row.get("refused"));
            (job_id.is_none(), refused.is_some_and(|why| why.contains("max_depth is 2")))
        })
        .collect();
    assert_eq!(refused.iter().filter(|row| **row == (true, true)).count(), 1, "{refused:?}");
    assert_eq!(refused.iter().filter(|row| **row == (false, false)).count(), 2, "{refused:?}");
    session.sql(COUNT_AGAIN).await;
    assert_eq!(session.refusal(list).await.0, 58023);
    session.sql(COUNT_AGAIN).await;
    assert_eq!(session.refusal(&format!("{list}, @report = 0, @in_part = 1")).await.0, 58023, "it could not tell");
    assert_eq!(fixture.job_counts().await.ready, 2);
    session.sql(&format!("{list}, @force = 1")).await;
    session.sql("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @force = 1").await;
    assert_eq!(fixture.job_counts().await.ready, 6);

    session.sql("DELETE [$(schema)].[jobs] WHERE job_id > (SELECT MIN(job_id) FROM [$(schema)].[jobs])").await;
    session.sql(COUNT_AGAIN).await;
    session.sql(list).await;
    assert_eq!(fixture.job_counts().await.ready, 4, "there was room for one");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_in_progress_ends_and_operators_are_not_refused() {
    let options = QueueOptions::default().max_depth(2).completion(CompletionPolicy::Annotate);
    let fixture = Fixture::with("full_follow_ups", options).await;
    let jobs = fixture.queue.enqueue_many(&numbers(2)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(2).await;
    worker.finish(&[claimed[0].done(), claimed[1].dead("it fails")]).await;
    fixture.queue.enqueue_many(&numbers(2)).await.unwrap();
    let admin = fixture.queue.admin();
    assert!(admin.run_again(jobs[0].job_id).await.unwrap().is_some());
    assert_eq!(admin.change(&JobChange::Requeue, jobs[1].job_id).await.unwrap().changed, 1);
    assert_eq!(fixture.job_counts().await.ready, 4);

    fixture.sql(COUNT_AGAIN).await;
    assert_eq!(in_part(fixture.queue.enqueue_many(&numbers(1)).await).0, 0);
    let follow = |job: &Job, _: &Context| match job.kind() {
        None => Ok(Output::default().enqueue("work", NewJob::text("next").kind("next"))),
        Some(_) => Ok(Output::default()),
    };
    let worker = Worker::builder(&fixture.queue, Handlers::any(follow)).start().await.unwrap();
    assert_eq!(drained(worker).await.stats.done, 8);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_waits_for_room() {
    let fixture = of_depth("full_schedule", 1).await;
    let mut session = fixture.session().await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let schedule = Schedule::new("nightly", "0 3 * * *", NewJob::text("x"));
    fixture.queue.admin().set_schedule(&schedule).await.unwrap();
    session.sql(COUNT_AGAIN).await;
    let (number, text) = session
        .refusal(
            "DECLARE @revision int = (SELECT revision FROM [$(schema)].[schedules]);
             EXEC [$(schema)].[fire_schedule] @queue = N'work', @name = N'nightly', @revision = @revision,
                 @fire_at = '2026-01-01T03:00:00', @next_at = '2027-01-01T03:00:00'",
        )
        .await;
    assert_eq!(number, 58023, "{text}");
    assert_eq!(session.number("SELECT @@TRANCOUNT").await, 0);
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[schedules] WHERE last_at IS NOT NULL").await, 0);
    fixture.remove().await;
}

/// Also while another session keeps the row of the last count locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_count_neither_holds_up_an_enqueue_nor_lets_it_in() {
    let fixture = of_depth("full_locked", 2).await;
    let mut holder = fixture.session().await;
    holder.client.begin_transaction().await.unwrap();
    holder.sql("UPDATE [$(schema)].[depths] SET cost_ms = cost_ms").await;
    let mut other = fixture.session().await;
    other.sql("SET LOCK_TIMEOUT 0").await;
    let enqueue = "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x'";
    other.sql(enqueue).await;
    other.sql(enqueue).await;
    assert_eq!(other.refusal(enqueue).await.0, 58023, "each call counts for itself");
    holder.client.rollback_transaction().await.unwrap();
    // Not counted again while there is certainly room.
    other
        .sql(
            "DECLARE @id bigint = NEXT VALUE FOR [$(schema)].[job_ids];
             UPDATE [$(schema)].[depths] SET jobs = 0, last_id = @id, cost_ms = 0, begun_at = SYSUTCDATETIME()",
        )
        .await;
    other.sql(enqueue).await;
    assert_eq!(fixture.job_counts().await.ready, 3, "it believes the count");
    assert_eq!(other.refusal(enqueue).await.0, 58023, "the ids given out since are more than the rest");
    fixture.remove().await;
}
