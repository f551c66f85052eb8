//! Producers that wait for a job: they get its output, its error, or are told that it takes longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use readpast::admin::{CompletionPolicy, JobChange, JobState, QueueOptions};
use readpast::{BoxError, Context, Error, Handlers, Job, JobEnd, JobError, JobId, NewJob, Output, Queue, Worker};

use crate::support::proxy::Proxy;
use crate::support::{Fixture, WorkerSession, changed, dev_server, numbers, text, until};

const MINUTE: Duration = Duration::from_secs(60);

fn done(output: &str) -> Option<JobEnd> {
    Some(JobEnd::Done { output: Some(output.as_bytes().to_vec()) })
}

/// Upper case; dead where there is nothing to write.
fn shout(job: &Job, _: &Context) -> Result<Output, BoxError> {
    match job.text()?.to_uppercase() {
        text if text.is_empty() => Err(JobError::dead("nothing to say").into()),
        text => Ok(Output::bytes(text.into_bytes())),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_gets_the_output_or_the_error() {
    for completion in [CompletionPolicy::Annotate, CompletionPolicy::Archive] {
        let fixture = Fixture::with("wait", QueueOptions::default().completion(completion)).await;
        let queue = &fixture.queue;
        let jobs = queue.enqueue_many(&["to be", "", "later"].map(NewJob::text)).await.unwrap();
        queue.admin().change(&JobChange::cancel("never mind"), jobs[2].job_id).await.unwrap();
        let worker = Worker::builder(queue, Handlers::any(shout)).start().await.unwrap();
        assert_eq!(queue.wait(jobs[0].job_id, MINUTE).await.unwrap(), done("TO BE"));
        let dead = Some(JobEnd::Dead { error: "nothing to say".to_string() });
        assert_eq!(queue.wait(jobs[1].job_id, MINUTE).await.unwrap(), dead);
        match queue.wait(jobs[2].job_id, MINUTE).await.unwrap() {
            Some(JobEnd::Cancelled { error }) => assert!(error.ends_with(": never mind"), "{error}"),
            other => panic!("{other:?}"),
        }
        worker.drain().await.unwrap();
        // Later as well, and for two at once.
        let (one, other) =
            tokio::join!(queue.wait(jobs[0].job_id, Duration::ZERO), queue.wait(jobs[0].job_id, Duration::ZERO));
        assert_eq!((one.unwrap(), other.unwrap()), (done("TO BE"), done("TO BE")));
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_done_jobs_are_deleted_a_job_is_gone_when_it_has_ended() {
    let fixture = Fixture::new("wait_gone").await;
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim_one().await;
    let queue = fixture.queue.clone();
    let waits = tokio::spawn(async move { queue.wait(job, MINUTE).await });
    assert_eq!(fixture.queue.wait(job, Duration::from_millis(50)).await.unwrap(), None);
    assert_eq!(worker.finish(&[claimed.done()]).await, []);
    assert_eq!(waits.await.unwrap().unwrap(), Some(JobEnd::Gone));
    assert_eq!(fixture.queue.wait(JobId(4_711), MINUTE).await.unwrap(), Some(JobEnd::Gone), "it has never been");
    fixture.remove().await;
}

/// In every state before its end, and also where its row is locked for long.
#[tokio::test(flavor = "multi_thread")]
async fn what_takes_longer_is_told_in_time() {
    let fixture = Fixture::with("wait_longer", QueueOptions::default().completion(CompletionPolicy::Archive)).await;
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let limit = Duration::from_millis(300);
    let in_time = async || {
        let started_at = Instant::now();
        let end = fixture.queue.wait(job, limit).await.unwrap();
        let took = started_at.elapsed();
        assert!(took >= limit && took < MINUTE, "{took:?}");
        end
    };
    assert_eq!(in_time().await, None);
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim_one().await;
    assert_eq!(in_time().await, None);
    assert_eq!(fixture.queue.wait(job, Duration::ZERO).await.unwrap(), None, "one look, and no more");
    worker.session.sql("BEGIN TRANSACTION").await;
    worker.session.sql(&format!("UPDATE [$(schema)].[jobs] SET priority = 1 WHERE job_id = {job}")).await;
    assert_eq!(in_time().await, None, "locked");
    worker.session.sql("ROLLBACK TRANSACTION").await;

    // An acknowledgement that is not committed yet has no effect; its rollback takes it back.
    worker.session.sql("BEGIN TRANSACTION").await;
    assert_eq!(worker.finish(&[claimed.done()]).await, []);
    let queue = fixture.queue.clone();
    let waits = tokio::spawn(async move { queue.wait(job, limit).await });
    let session_id = worker.session.number("SELECT CAST(@@SPID AS bigint)").await;
    let blocked = format!("SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id = {session_id}");
    let mut observer = fixture.session().await;
    while observer.number(&blocked).await == 0 {
        assert!(!waits.is_finished(), "it waits for the end of the transaction");
    }
    drop(observer);
    worker.session.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(waits.await.unwrap().unwrap(), None);
    assert_eq!(worker.finish(&[claimed.done()]).await, []);
    assert_eq!(fixture.queue.wait(job, limit).await.unwrap(), Some(JobEnd::Done { output: None }));
    fixture.remove().await;
}

/// Those that wait share the looks, and each gets its own job's output.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_that_wait_cost_a_few_calls() {
    let fixture = Fixture::with("wait_thousand", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    let calls = "SELECT CAST(MAX(calls) AS bigint) FROM [$(schema)].[calls]";
    fixture.sql("CREATE TABLE [$(schema)].[calls] (calls int NOT NULL); INSERT [$(schema)].[calls] VALUES (0)").await;
    // Counts the calls of outcomes.
    let row = "SELECT m.definition FROM sys.sql_modules AS m WHERE m.object_id = OBJECT_ID(N'[$(schema)].[outcomes]')";
    let definition = text(&fixture.session().await.row(row).await, "definition").unwrap();
    let begin = "SET NOCOUNT, XACT_ABORT ON;";
    let count = format!("{begin} UPDATE [$(schema)].[calls] SET calls = calls + 1;");
    let counted = definition.replacen(begin, &count, 1);
    fixture.sql(&counted).await;

    let jobs = fixture.queue.enqueue_many(&numbers(1_200)).await.unwrap();
    let told = Arc::new(AtomicUsize::new(0));
    let waits: Vec<_> = jobs
        .iter()
        .enumerate()
        .map(|(number, job)| {
            let (queue, told, job_id) = (fixture.queue.clone(), told.clone(), job.job_id);
            tokio::spawn(async move {
                assert_eq!(queue.wait(job_id, 5 * MINUTE).await.unwrap(), done(&number.to_string()));
                told.fetch_add(1, Ordering::AcqRel);
            })
        })
        .collect();
    // Nothing ends for a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let while_nothing_ends = fixture.session().await.number(calls).await;
    assert!(while_nothing_ends <= 60, "{while_nothing_ends} calls for 1,200 in a second, two a look");
    assert_eq!(told.load(Ordering::Acquire), 0);
    let worker = Worker::builder(&fixture.queue, Handlers::any(shout)).start().await.unwrap();
    worker.drain().await.unwrap();
    for wait in waits {
        wait.await.unwrap();
    }
    let all = fixture.session().await.number(calls).await;
    assert!(all - while_nothing_ends <= 400, "{all} calls");
    fixture.sql("DROP TABLE [$(schema)].[calls]").await;
    fixture.remove().await;
}

/// The one whose turn it was to look gives up, in the middle of it or before.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_gives_up_leaves_the_others_waiting() {
    let fixture = Fixture::with("wait_dropped", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    let jobs = fixture.queue.enqueue_many(&["x", "y"].map(NewJob::text)).await.unwrap();
    let waits = |job_id| {
        let queue = fixture.queue.clone();
        tokio::spawn(async move { queue.wait(job_id, MINUTE).await })
    };
    for ms in 0..20 {
        let (gives_up, stays) = (waits(jobs[0].job_id), waits(jobs[1].job_id));
        tokio::time::sleep(Duration::from_millis(ms)).await;
        gives_up.abort();
        let _ = gives_up.await;
        assert_eq!(fixture.queue.wait(jobs[1].job_id, Duration::ZERO).await.unwrap(), None);
        stays.abort();
    }
    let stays = waits(jobs[1].job_id);
    let worker = Worker::builder(&fixture.queue, Handlers::any(shout)).start().await.unwrap();
    worker.drain().await.unwrap();
    assert_eq!(stays.await.unwrap().unwrap(), done("Y"));
    fixture.remove().await;
}

/// As where a branch of `select!` waits for something else while the first wait is only borrowed.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_not_polled_holds_up_no_other() {
    let fixture = Fixture::with("wait_unpolled", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    let queue = fixture.queue.clone();
    let jobs = fixture.queue.enqueue_many(&["x", "y"].map(NewJob::text)).await.unwrap();
    for ms in 0..20 {
        let mut unpolled = std::pin::pin!(queue.wait(jobs[0].job_id, MINUTE));
        let polled = tokio::time::timeout(Duration::from_millis(ms), unpolled.as_mut()).await;
        assert!(polled.is_err(), "{polled:?}");
        let other = fixture.queue.wait(jobs[1].job_id, Duration::from_millis(30));
        let in_time = tokio::time::timeout(Duration::from_secs(20), other).await;
        assert_eq!(in_time.expect("it returns").unwrap(), None);
    }
    let mut unpolled = std::pin::pin!(queue.wait(jobs[0].job_id, MINUTE));
    assert!(tokio::time::timeout(Duration::from_millis(15), unpolled.as_mut()).await.is_err());
    let worker = Worker::builder(&fixture.queue, Handlers::any(shout)).start().await.unwrap();
    worker.drain().await.unwrap();
    assert_eq!(fixture.queue.wait(jobs[1].job_id, MINUTE).await.unwrap(), done("Y"));
    assert_eq!(unpolled.await.unwrap(), done("X"));
    fixture.remove().await;
}

/// The looks end with the runtime of the one who came first; who waits on another one is told all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_ends_takes_nobody_s_looks_along() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let fixture = Fixture::on_dev_server("wait_runtime", options).await;
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = looks.clone();
    dev_server().await.faults().on_call(&fixture.procedure_to_fail("outcomes"), move |_| {
        counted.fetch_add(1, Ordering::AcqRel);
        None
    });
    let jobs = fixture.queue.enqueue_many(&["x", "y"].map(NewJob::text)).await.unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let waits = |job_id| {
        let queue = fixture.queue.clone();
        async move { queue.wait(job_id, MINUTE).await }
    };
    runtime.spawn(waits(jobs[0].job_id));
    until("the first looks", || looks.load(Ordering::Acquire) > 0).await;
    let stays = tokio::spawn(waits(jobs[1].job_id));
    let so_far = looks.load(Ordering::Acquire);
    until("it looks for both", || looks.load(Ordering::Acquire) > so_far + 2).await;
    runtime.shutdown_background();
    let worker = Worker::builder(&fixture.queue, Handlers::any(shout)).start().await.unwrap();
    worker.drain().await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(20), stays).await;
    assert_eq!(told.expect("long before its time is over").unwrap().unwrap(), done("Y"));
    fixture.remove().await;
}

async fn through_proxy(fixture: &Fixture) -> (Proxy, Queue) {
    let proxy = Proxy::start(fixture.url()).await;
    let config = changed(fixture.config.clone(), |config| {
        config.connection.url = proxy.connection_string().into();
        config.connection.connect_timeout = Duration::from_secs(1);
        config.connection.command_timeout = Duration::from_secs(1);
    });
    let queue = Queue::connect(&config).await.unwrap();
    (proxy, queue)
}

/// That it takes longer is said only where SQL Server has said so.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached_is_an_error_for_all_that_wait() {
    let fixture = Fixture::new("wait_unreachable").await;
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let (proxy, queue) = through_proxy(&fixture).await;
    assert_eq!(queue.wait(job, Duration::from_millis(1)).await.unwrap(), None);
    proxy.block();
    let waits: Vec<_> = [0, 1, 50, 100, 300]
        .map(|ms| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.wait(job, Duration::from_millis(ms)).await })
        })
        .into();
    for wait in waits {
        let error = wait.await.unwrap().expect_err("nobody has looked");
        assert!(error.is_transient(), "{error}");
    }
    // What comes back within the time is no error.
    let waits = tokio::spawn({
        let queue = queue.clone();
        async move { queue.wait(job, MINUTE).await }
    });
    let refused = proxy.refused();
    until("the looks fail", || proxy.refused() >= refused + 2).await;
    fixture.queue.admin().change(&JobChange::cancel("never mind"), job).await.unwrap();
    proxy.unblock();
    assert!(matches!(waits.await.unwrap(), Ok(Some(JobEnd::Cancelled { .. }))));
    drop(queue);
    fixture.remove().await;
}

/// One call for all would never get through.
#[tokio::test(flavor = "multi_thread")]
async fn outputs_that_do_not_arrive_in_one_call_arrive_in_several() {
    const LARGE: usize = 300_000;
    let fixture = Fixture::with("wait_large", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    let jobs = fixture.queue.enqueue_many(&numbers(8)).await.unwrap();
    let handlers = Handlers::any(|_, _| Ok(Output::bytes(vec![7; LARGE])));
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    worker.drain().await.unwrap();
    let (proxy, queue) = through_proxy(&fixture).await;
    proxy.throttle(600_000); // four seconds for all of them
    let waits: Vec<_> = jobs
        .iter()
        .map(|job| {
            let (queue, job_id) = (queue.clone(), job.job_id);
            tokio::spawn(async move { queue.wait(job_id, MINUTE).await })
        })
        .collect();
    for wait in waits {
        let end = tokio::time::timeout(MINUTE / 2, wait).await.expect("long before its time is over").unwrap();
        assert!(matches!(end, Ok(Some(JobEnd::Done { output: Some(output) })) if output.len() == LARGE));
    }
    drop(queue);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_that_stay_are_told_at_once() {
    let fixture = Fixture::new("wait_errors").await;
    let nowhere = changed(fixture.config.clone(), |config| config.queue.name = "nowhere".into());
    let nowhere = Queue::connect(&nowhere).await.unwrap();
    let refused = tokio::time::timeout(MINUTE / 2, nowhere.wait(JobId(1), MINUTE)).await;
    let error = refused.expect("long before its time is over").unwrap_err();
    assert!(matches!(error, Error::UnknownQueue { .. }), "{error}");
    let login = fixture.create_login(Some("producer")).await;
    let queue = fixture.connect_as(&login).await;
    let job = queue.enqueue(&NewJob::text("x")).await.unwrap();
    assert_eq!(queue.wait(job.job_id, Duration::ZERO).await.unwrap(), None, "a producer may");
    drop((queue, nowhere));
    assert_eq!(fixture.queue.admin().change(&JobChange::Purge, JobState::Ready).await.unwrap().changed, 1);
    fixture.drop_login(&login).await;
    fixture.remove().await;
}
