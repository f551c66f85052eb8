//! A job's own time limit: it wins over its kind's and the worker's, stays with the job, and comes from any producer.

use std::time::{Duration, Instant};

use readpast::admin::{CompletionPolicy, JobChange, JobState, QueueOptions};
use readpast::{BoxError, Context, Error, Handlers, Job, KindOptions, NewJob, Worker};

use crate::support::{Fixture, Session, WorkerSession, changed, until};

const REFUSED: u32 = 58_003;

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(3_600);

/// Ends when it is cancelled or, where it has much time, at once.
fn until_cancelled(_: &Job, context: &Context) -> Result<(), BoxError> {
    if context.time_left().is_none_or(|left| left > LONG / 2) {
        return Ok(());
    }
    let started_at = Instant::now();
    while !context.is_cancelled() {
        assert!(started_at.elapsed() < Duration::from_secs(60), "nobody told it");
        std::thread::sleep(Duration::from_millis(1));
    }
    Err("too late".into())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_a_limit_of_its_own_is_cancelled_and_its_neighbour_is_not() {
    let fixture = Fixture::with("own_limit", QueueOptions::default().max_attempts(2)).await;
    let job = |name: &str| NewJob::text(name).kind("render");
    let jobs = [job("a").time_limit(SHORT), job("b")];
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    // Each attempt has it anew.
    let handlers = Handlers::new()
        .kind("render", until_cancelled)
        .options("render", KindOptions::new().retry(Duration::ZERO, Duration::ZERO));
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.dead), (1, 1, 1));
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs;
    assert_eq!(dead[0].payload_text().unwrap(), "a");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_s_own_limit_wins_whether_it_is_shorter_or_longer() {
    let fixture = Fixture::with("own_wins", QueueOptions::default().max_attempts(1)).await;
    let limits = [Some(SHORT), Some(LONG), None];
    for kind in ["limited", "plain"] {
        for limit in limits {
            let job = NewJob::text("").kind(kind);
            let job = if let Some(limit) = limit { job.time_limit(limit) } else { job };
            fixture.queue.enqueue(&job).await.unwrap();
        }
    }
    // Of each kind only the one with the short limit, and the one that has its kind's or the worker's.
    let limited = KindOptions::new().time_limit(SHORT);
    let handlers =
        Handlers::new().kind("limited", until_cancelled).options("limited", limited).kind("plain", until_cancelled);
    let config = changed(fixture.config.worker.clone(), |worker| worker.job_time_limit = Duration::from_millis(30));
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead), (2, 4));
    fixture.remove().await;
}

/// Nothing else in the worker has a limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_does_not_look_at_its_own_limit_is_reported() {
    let fixture = Fixture::new("own_overdue").await;
    fixture.queue.enqueue(&NewJob::text("").time_limit(SHORT)).await.unwrap();
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = parking_lot::Mutex::new(receiver);
    let handlers = Handlers::any(move |_, _| {
        let _ = receiver.lock().recv();
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    until("it is reported", || worker.stats().overdue == 1).await;
    drop(sender);
    assert_eq!(worker.drain().await.unwrap().stats.done, 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_stays_with_the_job_until_it_is_archived() {
    let options = QueueOptions::default().completion(CompletionPolicy::Archive);
    let fixture = Fixture::with("limit_stays", options).await;
    let id = fixture.queue.enqueue(&NewJob::text("x").time_limit(Duration::from_micros(1_500))).await.unwrap().job_id;
    let limit = Some(Duration::from_millis(2)); // rounded up
    let shown = async || fixture.queue.admin().job(id, None).await.unwrap().map(|job| (job.state, job.time_limit));
    assert_eq!(shown().await, Some((JobState::Ready, limit)));

    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    worker.finish(&[job.retry(3_600_000, "later")]).await;
    assert_eq!(shown().await, Some((JobState::Scheduled, limit)));
    fixture.sql("UPDATE [$(schema)].[jobs] SET due_at = SYSUTCDATETIME()").await;
    fixture.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
    let job = worker.claim_one().await;
    worker.finish(&[job.dead("for good")]).await;
    assert_eq!(shown().await, Some((JobState::Dead, limit)));
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 1);
    assert_eq!(shown().await, Some((JobState::Ready, limit)));
    let job = worker.claim_one().await;
    worker.finish(&[job.done()]).await;
    assert_eq!(shown().await, Some((JobState::Archived, limit)));
    let json = serde_json::to_value(fixture.queue.admin().job(id, None).await.unwrap()).unwrap();
    assert_eq!(json["time_limit_s"], 0.002);
    fixture.remove().await;
}

/// The limits in the table, in the order of the jobs.
async fn limits(session: &mut Session) -> Vec<Option<i32>> {
    let rows = session.sql("SELECT time_limit_ms FROM [$(schema)].[jobs] ORDER BY job_id").await;
    rows.iter().map(|row| row.get("time_limit_ms")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_in_t_sql_give_limits_by_an_optional_parameter() {
    let fixture = Fixture::new("t_sql_limits").await;
    let mut session = fixture.session().await;
    session.sql("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @time_limit_ms = 2147483647").await;
    session.sql("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x'").await;
    let jobs = "DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list];
                INSERT @jobs (ordinal, text, dedup_key)
                VALUES (1, N'x', NULL), (2, N'x', NULL), (3, N'x', N'a'), (4, N'x', N'b');";
    session
        .sql(&format!(
            "{jobs} INSERT @details (ordinal, time_limit_ms) VALUES (2, 1), (3, 5000);
             EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @details = @details"
        ))
        .await;
    assert_eq!(limits(&mut session).await, [Some(i32::MAX), None, None, Some(1), Some(5_000), None]);

    for (rows, expected) in [
        ("(2, 0)", "time_limit_ms is 0; it must be 1 to 2147483647 (24 days)"),
        ("(1, 1), (2, 2147483648)", "time_limit_ms is 2147483648; it must be 1 to 2147483647 (24 days)"),
        ("(5, 1)", "ordinal in details is 5; it must be the ordinal of a job"),
    ] {
        let batch = format!(
            "{jobs} INSERT @details (ordinal, time_limit_ms) VALUES {rows};
             EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @details = @details"
        );
        assert_eq!(session.refusal(&batch).await, (REFUSED, expected.to_owned()));
    }
    let one = "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @time_limit_ms = -1";
    let expected = "time_limit_ms is -1; it must be 1 to 2147483647 (24 days)";
    assert_eq!(session.refusal(one).await, (REFUSED, expected.to_owned()));
    assert_eq!(limits(&mut session).await.len(), 6, "nothing was added");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_jobs_each_has_its_own_limit_or_none() {
    let fixture = Fixture::new("many_limits").await;
    let job = |n: usize| {
        let job = NewJob::text("x");
        let job = if n.is_multiple_of(3) { job.time_limit(Duration::from_secs(n as u64 + 1)) } else { job };
        if n.is_multiple_of(2) { job.dedup_key(n.to_string()) } else { job }
    };
    let jobs: Vec<NewJob> = (0..1_200).map(job).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let expected: Vec<_> = (0..1_200).map(|n| (n % 3 == 0).then_some((n + 1) * 1_000)).collect();
    assert_eq!(limits(&mut fixture.session().await).await, expected);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_out_of_range_is_refused_before_anything_is_sent() {
    let fixture = Fixture::new("refused_limit").await;
    let jobs = [NewJob::text("good"), NewJob::text("bad").time_limit(Duration::ZERO)];
    let error = fixture.queue.enqueue_many(&jobs).await.unwrap_err();
    assert!(matches!(error, Error::InvalidJob { .. }), "{error}");
    let expected = "jobs[1]: time_limit is 0ns; it must be 1 ms to 2147483647 ms (24 days)";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert_eq!(fixture.job_counts().await.ready, 0);
    fixture.remove().await;
}
