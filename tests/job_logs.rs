//! What a job said: the end of each attempt's log, while it runs and afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use readpast::admin::{CompletionPolicy, JobLog, JobState, QueueOptions};
use readpast::config::{KeepLog, WorkerConfig};
use readpast::{BoxError, Context, Handlers, Job, JobError, JobId, NewJob, Output, Queue, Worker};
use tokio::sync::Semaphore;

use crate::support::{Fixture, Session, WorkerSession, changed, until};

fn keeping(keep_log: KeepLog) -> WorkerConfig {
    changed(WorkerConfig::default(), |worker| {
        worker.keep_log = keep_log;
        worker.log_bytes = 1_024;
        worker.threads = 2;
        (worker.retry.base, worker.retry.max) = (Duration::from_millis(1), Duration::from_millis(1));
        worker.promote_interval = Duration::from_millis(10);
    })
}

async fn start(queue: &Queue, config: &WorkerConfig, handlers: Handlers) -> Worker {
    Worker::builder(queue, handlers).config(config).start().await.unwrap()
}

/// A handler that logs its attempt, and fails as often as the payload says.
fn failing(job: &Job, context: &Context) -> Result<(), BoxError> {
    let failures: u32 = job.text()?.parse()?;
    context.log(format!("attempt {}", job.attempt()));
    if job.attempt() <= failures { Err("it failed".into()) } else { Ok(()) }
}

async fn enqueued(queue: &Queue, payload: &str) -> JobId {
    queue.enqueue(&NewJob::text(payload)).await.unwrap().job_id
}

async fn texts(queue: &Queue, job_id: JobId) -> Vec<(u32, String)> {
    let logs = queue.admin().logs(job_id, 20).await.unwrap();
    assert!(logs.iter().all(|log| !log.is_running && log.length == log.text.len() as u64), "{logs:?}");
    logs.into_iter().map(|log| (log.attempt, log.text)).collect()
}

fn said(attempts: impl IntoIterator<Item = u32>) -> Vec<(u32, String)> {
    attempts.into_iter().map(|attempt| (attempt, format!("attempt {attempt}\n"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_setting_chooses_which_logs_stay() {
    for (keep_log, dead, done) in [
        (KeepLog::Failed, said([2, 1]), said([1])),
        (KeepLog::All, said([2, 1]), said([2, 1])),
        (KeepLog::None, said([]), said([])),
    ] {
        let options = QueueOptions::default().completion(CompletionPolicy::Annotate).max_attempts(2);
        let fixture = Fixture::with("keep_log", options).await;
        let job_ids = [enqueued(&fixture.queue, "2").await, enqueued(&fixture.queue, "1").await];
        let worker = start(&fixture.queue, &keeping(keep_log), Handlers::any(failing)).await;
        worker.drain().await.unwrap();
        let found = [texts(&fixture.queue, job_ids[0]).await, texts(&fixture.queue, job_ids[1]).await];
        assert_eq!(found, [dead, done], "{keep_log:?}");
        fixture.remove().await;
    }
}

/// Waits for a log that fits.
async fn log_until(queue: &Queue, job_id: JobId, fits: impl Fn(&JobLog) -> bool) -> JobLog {
    loop {
        if let Some(log) = queue.admin().logs(job_id, 1).await.unwrap().pop().filter(&fits) {
            return log;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A large output has a way of its own to SQL Server.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_a_large_output_keeps_its_log() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let fixture = Fixture::with("log_large", options).await;
    let job_id = enqueued(&fixture.queue, "").await;
    let handlers = Handlers::any(|_: &Job, context: &Context| -> Result<Output, BoxError> {
        context.log("attempt 1");
        Ok(Output::bytes(vec![b'x'; 1 << 20]))
    });
    start(&fixture.queue, &keeping(KeepLog::All), handlers).await.drain().await.unwrap();
    assert_eq!(texts(&fixture.queue, job_id).await, said([1]));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_running_job_is_shown_and_bounded_and_goes_when_the_job_is_done() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let fixture = Fixture::with("log_live", options).await;
    let gate = Arc::new(Semaphore::new(0));
    let opens = gate.clone();
    let handlers = Handlers::any(move |_: &Job, context: &Context| -> Result<(), BoxError> {
        context.log("begun");
        context.block_on(opens.acquire())?.forget();
        for _ in 0..1_000 {
            context.log_output("\u{1B}[31m1234567\u{1B}[0m\r\n".as_bytes());
        }
        context.block_on(opens.acquire())?.forget();
        Ok(())
    });
    let worker = start(&fixture.queue, &keeping(KeepLog::Failed), handlers).await;
    let job_id = enqueued(&fixture.queue, "").await;
    let log = log_until(&fixture.queue, job_id, |log| log.is_running).await;
    assert_eq!((log.text.as_str(), log.length, log.attempt), ("begun\n", 6, 1));
    gate.add_permits(1);
    let all = 6 + 8 * 1_000;
    let log = log_until(&fixture.queue, job_id, |log| log.length == all).await;
    assert_eq!(log.text, "1234567\n".repeat(128), "the last 1,024 bytes");
    assert_eq!(log.since(6), (all - 1_024 - 6, log.text.as_str()));
    gate.add_permits(1);
    until("it is done", || worker.stats().done == 1).await;
    let expire = "EXEC [$(schema)].[expire] @queue = N'work'";
    let mut session = fixture.session().await;
    session.sql(expire).await;
    assert_eq!(fixture.queue.admin().logs(job_id, 1).await.unwrap(), []);
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

/// The worker dies; its attempt's log is there until the next attempt writes one, and then beside it.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_lost_worker_stays() {
    let fixture = Fixture::new("log_lost").await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let handlers = move || {
        let runs = counted.clone();
        Handlers::any(move |job: &Job, context: &Context| -> Result<(), BoxError> {
            context.log(format!("attempt {}", job.attempt()));
            if job.attempt() > 1 {
                return Err(JobError::dead("it failed").into());
            }
            runs.fetch_add(1, Ordering::SeqCst);
            while !context.is_cancelled() {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        })
    };
    let worker = start(&fixture.queue, &keeping(KeepLog::Failed), handlers()).await;
    let job_id = enqueued(&fixture.queue, "").await;
    log_until(&fixture.queue, job_id, |log| log.is_running).await;
    drop(worker);
    let mut session = fixture.session().await;
    session.sql("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()").await;
    session.sql("EXEC [$(schema)].[reap] @queue = N'work'").await;
    assert_eq!(texts(&fixture.queue, job_id).await, said([1]));
    let worker = start(&fixture.queue, &keeping(KeepLog::Failed), handlers()).await;
    until("it is dead", || worker.stats().dead == 1).await;
    assert_eq!(texts(&fixture.queue, job_id).await, said([2, 1]));
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

/// How many rows there are of logs, ended and running.
async fn rows(session: &mut Session) -> i64 {
    let rows = "SELECT (SELECT COUNT(*) FROM [$(schema)].[logs]) + \
                (SELECT COUNT(*) FROM [$(schema)].[progress] WHERE log IS NOT NULL) AS n";
    session.number(rows).await
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_go_with_their_job_and_the_newest_twenty_stay() {
    let fixture = Fixture::with("log_retention", QueueOptions::default().max_attempts(30)).await;
    let queue = &fixture.queue;
    let worker = start(queue, &keeping(KeepLog::All), Handlers::any(failing)).await;
    let (done, dead, purged) = (enqueued(queue, "3").await, enqueued(queue, "30").await, enqueued(queue, "30").await);
    until("all have ended", || (worker.stats().done, worker.stats().dead) == (1, 2)).await;
    let mut session = fixture.session().await;
    assert_eq!(texts(queue, done).await, []);
    assert_eq!(texts(queue, dead).await, said((11..=30).rev()));
    session.sql("EXEC [$(schema)].[expire] @queue = N'work'").await;
    assert_eq!(rows(&mut session).await, 40, "the queue deletes done jobs");
    let purge = queue.admin().change(&readpast::admin::JobChange::Purge, purged).await.unwrap();
    assert_eq!((purge.total(), rows(&mut session).await), (1, 20));
    worker.shutdown().await.unwrap();
    session.sql("UPDATE [$(schema)].[queues] SET keep_dead_s = 0").await;
    session.sql("EXEC [$(schema)].[expire] @queue = N'work'").await;
    assert_eq!(rows(&mut session).await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_go_with_their_queue_and_their_archive() {
    let options = QueueOptions::default().completion(CompletionPolicy::Archive);
    let fixture = Fixture::with("log_deleted", options).await;
    let queue = &fixture.queue;
    let worker = start(queue, &keeping(KeepLog::All), Handlers::any(failing)).await;
    let job_id = enqueued(queue, "1").await;
    until("it is done", || worker.stats().done == 1).await;
    assert_eq!(texts(queue, job_id).await, said([2, 1]));
    worker.shutdown().await.unwrap();
    queue.admin().delete(true).await.unwrap();
    assert_eq!(rows(&mut fixture.session().await).await, 0);
    fixture.remove().await;
}

/// A worker in another language reports by the procedure.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_holder_of_a_job_writes_its_log_and_no_more_than_it_may() {
    let fixture = Fixture::new("log_procedure").await;
    let job_id = enqueued(&fixture.queue, "").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let fence = worker.claim_one().await.fence;
    let (id, mut session) = (worker.id, fixture.session().await);
    let note = |fence: i32, log: &str, keeps: u8| {
        format!(
            "DECLARE @n [$(schema)].[progress_list]; INSERT @n (job_id, fence, log_end, log, keeps_log) \
             VALUES ({job_id}, {fence}, {log}, {keeps}); \
             EXEC [$(schema)].[note_progress] @worker_id = '{id}', @notes = @n"
        )
    };
    session.sql(&note(fence + 1, "5, N'other'", 0)).await;
    assert_eq!(rows(&mut session).await, 0, "of another claim");
    session.sql(&note(fence, "5, N'right'", 0)).await;
    session.sql(&note(fence, "9, N'right, yes'", 1)).await;
    session.sql(&note(fence, "9, N'right, yes'", 1)).await;
    assert_eq!(rows(&mut session).await, 1, "a repeated call changes nothing");
    for (log, refused) in [
        ("5, CAST(REPLICATE(CAST(N'x' AS nvarchar(max)), 65537) AS nvarchar(max))", "at most 65536 characters"),
        ("NULL, N'x'", "a log_end"),
        ("-1, N'x'", "a log_end"),
    ] {
        let (_, error) = session.refusal(&note(fence, log, 0)).await;
        assert!(error.contains(&format!("the log of job {job_id} must have")) && error.contains(refused), "{error}");
    }
    fixture.remove().await;
}

/// A job that says nothing costs nothing: no call, no row.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_a_log_makes_no_call() {
    let fixture = Fixture::new("log_none").await;
    let worker =
        start(&fixture.queue, &keeping(KeepLog::All), Handlers::any(|_, _| Err::<(), BoxError>("x".into()))).await;
    let job_id = enqueued(&fixture.queue, "").await;
    until("it is dead", || worker.stats().dead == 1).await;
    assert_eq!(texts(&fixture.queue, job_id).await, []);
    let row = "SELECT COUNT(*) AS n FROM [$(schema)].[progress]";
    assert_eq!(fixture.session().await.number(row).await, 0);
    let job = fixture.queue.admin().job(job_id, None).await.unwrap().unwrap();
    assert_eq!(job.state, JobState::Dead);
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_moves_to_the_dead_queue_keeps_its_log() {
    let fixture = Fixture::new("moved_log").await;
    let broken = fixture.queue.named("broken").unwrap();
    broken.admin().create(QueueOptions::default()).await.unwrap();
    fixture.queue.admin().create(QueueOptions::default().dead_queue("broken".to_owned())).await.unwrap();
    let handlers = Handlers::any(|_: &Job, context: &Context| -> Result<(), BoxError> {
        context.log("why");
        Err(JobError::dead("no").into())
    });
    let job_id = enqueued(&fixture.queue, "x").await;
    start(&fixture.queue, &keeping(KeepLog::Failed), handlers).await.drain().await.unwrap();
    assert_eq!(broken.admin().stats(None).await.unwrap().ready, 1);
    assert_eq!(texts(&broken, job_id).await, [(1, "why\n".to_owned())]);
    fixture.remove().await;
}
