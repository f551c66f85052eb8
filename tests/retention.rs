//! How long finished jobs stay: for ever unless the queue says otherwise, and then not much longer than it says.

use std::time::{Duration, Instant};

use readpast::admin::{CompletionPolicy, Keep, QueueOptions};
use readpast::{Error, Handlers, NewJob, Worker};

use crate::support::{Fixture, JobCounts, Session, WorkerSession};

const HOUR: Duration = Duration::from_secs(3_600);

const REFUSED: u32 = 58003;

fn keeping(keep_done: Keep, keep_dead: Keep) -> QueueOptions {
    QueueOptions::default().keep_done(keep_done).keep_dead(keep_dead)
}

/// Jobs that ended `minutes` ago: done (annotated) ones, dead ones and archived ones, `count` of each.
async fn finished(fixture: &Fixture, count: usize, minutes: u32) {
    let mut worker = WorkerSession::register(fixture).await;
    for completion in [CompletionPolicy::Annotate, CompletionPolicy::Archive] {
        fixture.queue.admin().create(QueueOptions::default().completion(completion)).await.unwrap();
        let jobs = if completion == CompletionPolicy::Annotate { 2 * count } else { count };
        fixture.queue.enqueue_many(&(0..jobs).map(|_| NewJob::text("x")).collect::<Vec<_>>()).await.unwrap();
        let mut position = 0;
        while position < jobs {
            let claimed = worker.claim(1_000).await;
            let outcome = |job: &crate::support::Claimed| {
                position += 1;
                if position > count { job.dead("no") } else { job.done() }
            };
            let outcomes: Vec<_> = claimed.iter().map(outcome).collect();
            assert_eq!(worker.finish(&outcomes).await, []);
        }
    }
    let mut session = fixture.session().await;
    for table in ["jobs", "archive"] {
        let age = format!("UPDATE [$(schema)].[{table}] SET finished_at = DATEADD(MINUTE, -{minutes}, finished_at)");
        session.sql(&age).await;
    }
}

async fn expire(session: &mut Session, parameters: &str) -> i64 {
    session.number(&format!("EXEC [$(schema)].[expire] @queue = N'work'{parameters}")).await
}

fn counts(done: i64, archived: i64, dead: i64) -> JobCounts {
    JobCounts { done, archived, dead, ..JobCounts::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_keeps_finished_jobs_for_ever_until_it_is_told_otherwise() {
    let fixture = Fixture::new("keep").await;
    let kept = async || {
        let stats = fixture.queue.admin().stats(None).await.unwrap();
        (stats.keep_done, stats.keep_dead)
    };
    assert_eq!(kept().await, (Keep::Forever, Keep::Forever));
    // What is not given stays as it is.
    for (options, expected) in [
        (QueueOptions::default().keep_done(Keep::For(HOUR)), (Keep::For(HOUR), Keep::Forever)),
        (QueueOptions::default().keep_dead(Keep::For(2 * HOUR)), (Keep::For(HOUR), Keep::For(2 * HOUR))),
        (QueueOptions::default().max_attempts(3), (Keep::For(HOUR), Keep::For(2 * HOUR))),
        (QueueOptions::default().keep_done(Keep::Forever), (Keep::Forever, Keep::For(2 * HOUR))),
        // A part of a second counts as one.
        (
            keeping(Keep::For(Duration::from_millis(1_001)), Keep::Forever),
            (Keep::For(Duration::from_secs(2)), Keep::Forever),
        ),
    ] {
        fixture.queue.admin().create(options.clone()).await.unwrap();
        assert_eq!(kept().await, expected, "{options:?}");
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_can_keep_jobs_for_a_second_to_ten_years() {
    let fixture = Fixture::new("keep_limits").await;
    let ten_years = Duration::from_secs(315_360_000);
    fixture.queue.admin().create(keeping(Keep::For(Duration::from_secs(1)), Keep::For(ten_years))).await.unwrap();
    for wrong in [Duration::ZERO, ten_years + Duration::from_millis(1), Duration::MAX] {
        let wrong = Keep::For(wrong);
        for (options, named) in
            [(keeping(wrong, Keep::Forever), "keep_done is"), (keeping(Keep::Forever, wrong), "keep_dead is")]
        {
            let error = fixture.queue.admin().create(options).await.unwrap_err();
            assert!(matches!(&error, Error::Refused { message, .. } if message.contains(named)), "{error}");
            assert!(error.to_string().contains("ten years"), "{error}");
        }
    }
    let mut session = fixture.session().await;
    for name in ["keep_done_s", "keep_dead_s"] {
        for wrong in [-1, 315_360_001] {
            let create = format!("EXEC [$(schema)].[create_queue] @queue = N'work', @{name} = {wrong}");
            let (number, message) = session.refusal(&create).await;
            assert_eq!(number, REFUSED);
            assert!(message.contains(&format!("{name} is {wrong}")) && message.contains("ten years"), "{message}");
        }
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_old_is_deleted_and_nothing_else() {
    let fixture = Fixture::with("too_old", keeping(Keep::For(HOUR), Keep::For(HOUR))).await;
    finished(&fixture, 3, 59).await;
    finished(&fixture, 2, 30).await; // the three are 89 minutes old now
    assert_eq!(fixture.job_counts().await, counts(5, 5, 5));
    // Unfinished jobs stay, however old.
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("x").delay(HOUR)).await.unwrap();
    fixture
        .sql("UPDATE [$(schema)].[jobs] SET enqueued_at = '2020-01-01', finished_at = '2020-01-01' WHERE state < 3")
        .await;
    // Nor does another queue's rule count.
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'other', @keep_done_s = 1, @keep_dead_s = 1").await;
    let mut session = fixture.session().await;
    assert_eq!(session.number("EXEC [$(schema)].[expire] @queue = N'other'").await, 0);

    assert_eq!(expire(&mut session, "").await, 9);
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 1, scheduled: 1, ..counts(2, 2, 2) });
    assert_eq!(expire(&mut session, "").await, 0);

    // Each rule for itself.
    fixture.queue.admin().create(keeping(Keep::Forever, Keep::For(Duration::from_secs(60)))).await.unwrap();
    assert_eq!(expire(&mut session, "").await, 2);
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 1, scheduled: 1, ..counts(2, 2, 0) });
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_for_ever_stays() {
    let fixture = Fixture::new("for_ever").await;
    finished(&fixture, 2, 1_000_000).await;
    assert_eq!(expire(&mut fixture.session().await, "").await, 0);
    assert_eq!(fixture.job_counts().await, counts(2, 2, 2));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_deletes_no_more_than_asked_the_oldest_first() {
    let fixture = Fixture::with("batches", keeping(Keep::For(HOUR), Keep::For(HOUR))).await;
    finished(&fixture, 3, 100).await;
    fixture.sql("UPDATE [$(schema)].[jobs] SET finished_at = DATEADD(SECOND, -job_id, finished_at)").await;
    let mut session = fixture.session().await;
    let newest_dead = session.number("SELECT MIN(job_id) FROM [$(schema)].[jobs] WHERE state = 4").await;
    assert_eq!((expire(&mut session, ", @max = 4").await, expire(&mut session, ", @max = 4").await), (4, 4));
    assert_eq!(session.numbers("SELECT job_id FROM [$(schema)].[jobs]").await, [newest_dead]);
    assert_eq!(expire(&mut session, ", @max = 4").await, 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_jobs_are_not_waited_for() {
    // The row alone, and the row with its entry of the index.
    for change in ["error = N'?'", "finished_at = '2019-01-01'"] {
        let fixture = Fixture::with("locked", keeping(Keep::For(HOUR), Keep::For(HOUR))).await;
        finished(&fixture, 2, 100).await;
        let mut holder = fixture.session().await;
        holder.sql("BEGIN TRANSACTION").await;
        for (table, which) in [("jobs", "state = 3"), ("jobs", "state = 4"), ("archive", "1 = 1")] {
            holder.sql(&format!("UPDATE TOP (1) [$(schema)].[{table}] SET {change} WHERE {which}")).await;
        }
        let mut session = fixture.session().await;
        session.sql("SET LOCK_TIMEOUT 0").await;
        assert_eq!(expire(&mut session, "").await, 3, "{change}");
        holder.sql("ROLLBACK TRANSACTION").await;
        assert_eq!(fixture.job_counts().await, counts(1, 1, 1), "{change}");
        assert_eq!(expire(&mut session, "").await, 3, "{change}");
        fixture.remove().await;
    }
}

/// What a job has noted is deleted once its end is committed. One that is being deleted holds up its part only.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_is_not_committed_keeps_few_notes_of_others() {
    let fixture = Fixture::new("notes_in_parts").await;
    let job_id = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let mut session = fixture.session().await;
    let notes = format!(
        "INSERT [$(schema)].[progress] (job_id, queue_id, fence, noted_at)
         SELECT {job_id} + n.x, 1, 1, SYSUTCDATETIME()
         FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16), (17), (18), (19)) AS n (x)"
    );
    session.sql(&notes).await;
    let mut other = fixture.session().await;
    other.sql(&format!("BEGIN TRANSACTION; DELETE [$(schema)].[jobs] WHERE job_id = {job_id}")).await;
    expire(&mut session, ", @max = 20").await;
    let left = "SELECT COUNT(*) FROM [$(schema)].[progress]";
    assert_eq!(session.number(left).await, 2, "of twenty, in ten parts");
    other.sql("ROLLBACK TRANSACTION").await;
    expire(&mut session, ", @max = 20").await;
    assert_eq!(session.number(left).await, 1, "the job is there still");
    drop((session, other));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_deletes_what_is_too_old() {
    let fixture = Fixture::with("worker", keeping(Keep::For(HOUR), Keep::For(HOUR))).await;
    finished(&fixture, 1_100, 100).await; // more than one batch of each
    finished(&fixture, 2, 10).await;
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let stop = worker.stop_handle();
    let running = tokio::spawn(worker.run());
    let give_up = Instant::now() + Duration::from_secs(30);
    while fixture.job_counts().await != counts(2, 2, 2) {
        assert!(Instant::now() < give_up, "{:?}", fixture.job_counts().await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.stop();
    running.await.unwrap().unwrap();
    assert_eq!(fixture.job_counts().await, counts(2, 2, 2));
    fixture.remove().await;
}
