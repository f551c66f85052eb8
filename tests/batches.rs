//! Batches: the follow-up is enqueued once, when all jobs have ended, with the counts of how they did.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use readpast::admin::{Changed, ClaimOrder, CompletionPolicy, Delivery, JobChange, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::transaction::{create_batch_in, enqueue_in, seal_batch_in};
use readpast::{
    BatchEnd, BatchId, BatchRow, BoxError, Context, Error, Handlers, Job, JobError, JobId, NewBatch, NewJob, Output,
    Queue, Summary, Worker,
};
use readpast_devserver::SqlError;
use tokio::sync::{Barrier, mpsc};

use crate::support::proxy::Proxy;
use crate::support::under_faults::UnderFaults;
use crate::support::{
    Claimed, Finish, Fixture, Session, WorkerSession, changed, dev_server, number, optional_number, text,
};

const REFUSED: u32 = 58003;
const NOT_OPEN: u32 = 58021;

/// A follow-up in the queue `work`.
fn then_sum() -> NewBatch {
    NewBatch::new().then(NewJob::text("sum").kind("sum"))
}

/// `count` jobs of a batch.
fn parts(batch: BatchId, count: usize) -> Vec<NewJob> {
    (0..count).map(|part| NewJob::text(part.to_string()).batch(batch)).collect()
}

/// A sealed batch of so many jobs, with a follow-up.
async fn sealed(queue: &Queue, jobs: usize) -> BatchId {
    let batch = queue.create_batch(&then_sum()).await.unwrap();
    queue.enqueue_many(&parts(batch, jobs)).await.unwrap();
    queue.seal_batch(batch).await.unwrap();
    batch
}

async fn row(queue: &Queue, batch: BatchId) -> BatchRow {
    queue.batch(batch).await.unwrap().expect("the batch is there")
}

/// Jobs, done, dead, cancelled.
async fn counts(queue: &Queue, batch: BatchId) -> [u64; 4] {
    let BatchRow { jobs, done, dead, cancelled, .. } = row(queue, batch).await;
    [jobs, done, dead, cancelled]
}

/// How many follow-ups there are, whatever their state.
async fn follow_ups(session: &mut Session) -> i64 {
    session.number("SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE headers LIKE N'{\"readpast-batch\":%'").await
}

async fn queue_named(fixture: &Fixture, name: &str) -> Queue {
    let config = changed(fixture.config.clone(), |config| config.queue.name = name.to_string());
    let queue = Queue::connect(&config).await.unwrap();
    queue.admin().create(QueueOptions::default()).await.unwrap();
    queue
}

async fn drain(
    queue: &Queue,
    handler: impl Fn(&Job, &Context) -> Result<Output, BoxError> + Send + Sync + 'static,
) -> Summary {
    let config = changed(WorkerConfig::default(), |worker| {
        worker.retry.base = Duration::from_millis(1);
        worker.retry.max = Duration::from_millis(1);
        worker.promote_interval = Duration::from_millis(10);
    });
    Worker::builder(queue, Handlers::any(handler)).config(&config).start().await.unwrap().drain().await.unwrap()
}

/// Waits until a session waits for a lock.
async fn waits(observer: &mut Session, spid: i64) {
    let waiting =
        format!("SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = {spid} AND request_status = 'WAIT'");
    let give_up = Instant::now() + Duration::from_secs(30);
    while observer.number(&waiting).await == 0 {
        assert!(Instant::now() < give_up, "session {spid} does not wait");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_follow_up_comes_once_and_says_how_all_have_ended() {
    for completion in [CompletionPolicy::Delete, CompletionPolicy::Annotate, CompletionPolicy::Archive] {
        let fixture = Fixture::with("batch", QueueOptions::default().completion(completion).max_attempts(3)).await;
        let other = queue_named(&fixture, "other").await;
        let follow_up = NewJob::text("sum").kind("sum").priority(-5).max_attempts(7).header("tenant", "acme");
        let new = NewBatch::new().name("import").then(follow_up.time_limit(Duration::from_secs(9)));
        let batch = fixture.queue.create_batch(&new).await.unwrap();
        let jobs = ["done", "done", "again", "dead", "cancel"].map(|text| NewJob::text(text).batch(batch));
        let ids = fixture.queue.enqueue_many(&jobs).await.unwrap();
        other.enqueue(&NewJob::text("done").batch(batch)).await.unwrap();
        fixture.queue.admin().change(&JobChange::cancel(""), ids[4].job_id).await.unwrap();
        let BatchRow { sealed_at, ended_at, .. } = row(&fixture.queue, batch).await;
        assert_eq!((sealed_at, ended_at), (None, None));
        let sealed = other.seal_batch(batch).await.unwrap();
        assert_eq!((sealed.jobs, sealed.ended), (6, false), "through whatever queue");

        let (sender, mut ends) = mpsc::unbounded_channel::<(BatchEnd, i64)>();
        let handler = move |job: &Job, _: &Context| -> Result<Output, BoxError> {
            if let Some(end) = job.batch_end() {
                assert_eq!((job.kind(), job.text()?.as_ref(), job.batch_id()), (Some("sum"), "sum", None));
                assert_eq!((job.priority(), job.max_attempts(), job.header("tenant")), (-5, 7, Some("acme")));
                assert_eq!(job.time_limit(), Some(Duration::from_secs(9)));
                sender.send((end, job.id().0))?;
                return Ok(Output::default());
            }
            assert_eq!(job.batch_id(), Some(batch));
            match job.text()?.as_ref() {
                "dead" => Err(JobError::dead("hopeless").into()),
                "again" if job.attempt() == 1 => Err("again".into()),
                _ => Ok(Output::default()),
            }
        };
        drain(&fixture.queue, handler.clone()).await;
        assert_eq!(counts(&fixture.queue, batch).await, [6, 3, 1, 1]);
        assert_eq!(row(&fixture.queue, batch).await.unfinished(), 1);
        assert!(ends.try_recv().is_err(), "one has not ended");
        drain(&other, handler.clone()).await;
        drain(&fixture.queue, handler).await;
        let (end, job_id) = ends.recv().await.unwrap();
        assert_eq!((end.batch_id, end.done, end.dead, end.cancelled), (batch, 4, 1, 1));
        assert!(ends.try_recv().is_err(), "once");

        let row = row(&fixture.queue, batch).await;
        assert_eq!((row.name.as_deref(), row.queue.as_str(), row.unfinished()), (Some("import"), "work", 0));
        assert_eq!(row.follow_up_id, Some(JobId(job_id)));
        assert!(row.created_at <= row.sealed_at.unwrap() && row.sealed_at <= row.ended_at);
        drop(other);
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_batch_ends_when_it_is_sealed() {
    let fixture = Fixture::new("batch_empty").await;
    let mut session = fixture.session().await;
    let with = fixture.queue.create_batch(&then_sum()).await.unwrap();
    let without = fixture.queue.create_batch(&NewBatch::new()).await.unwrap();
    for batch in [with, without, with, without] {
        let sealed = fixture.queue.seal_batch(batch).await.unwrap();
        assert_eq!((sealed.jobs, sealed.ended), (0, true), "the second time, too");
    }
    assert_eq!(follow_ups(&mut session).await, 1);
    assert!(row(&fixture.queue, with).await.follow_up_id.is_some());
    assert!(row(&fixture.queue, without).await.follow_up_id.is_none());
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_adds_jobs_to_its_own_batch_until_it_is_sealed() {
    let fixture = Fixture::new("batch_grows").await;
    let other = queue_named(&fixture, "other").await;
    let batch = fixture.queue.create_batch(&then_sum()).await.unwrap();
    let late = fixture.queue.create_batch(&then_sum()).await.unwrap();
    fixture.queue.enqueue(&NewJob::json(&3).unwrap().batch(batch)).await.unwrap();
    fixture.queue.enqueue(&NewJob::json(&1).unwrap().batch(late).max_attempts(1)).await.unwrap();
    fixture.queue.seal_batch(late).await.unwrap();
    let handler = |job: &Job, _: &Context| -> Result<Output, BoxError> {
        let (Some(batch), level) = (job.batch_id(), job.json::<u32>().unwrap_or_default()) else {
            return Ok(Output::default());
        };
        let below = || Ok::<_, Error>(NewJob::json(&(level - 1))?.batch(batch));
        if level == 0 {
            return Ok(Output::default());
        }
        Ok(Output::default().enqueue("work", below()?).enqueue("other", below()?))
    };
    drain(&fixture.queue, handler).await;
    while other.admin().stats(None).await.unwrap().ready + fixture.queue.admin().stats(None).await.unwrap().ready > 0 {
        drain(&other, handler).await;
        drain(&fixture.queue, handler).await;
    }
    let sealed = fixture.queue.seal_batch(batch).await.unwrap();
    assert_eq!((sealed.jobs, sealed.ended), (1 + 2 + 4 + 8, true));
    assert_eq!(counts(&fixture.queue, batch).await, [15, 15, 0, 0]);

    assert_eq!(counts(&fixture.queue, late).await, [1, 0, 1, 0]);
    let dead =
        fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs.remove(0).error.unwrap();
    let expected = format!("error 58021: batch {late} is sealed: no job can be added to it");
    assert!(dead.contains(&expected), "{dead}");
    drop(other);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_job_can_be_added_to_a_batch_that_is_sealed_or_not_there() {
    let fixture = Fixture::new("batch_closed").await;
    let batch = sealed(&fixture.queue, 1).await;
    let nowhere = BatchId(batch.0 + 1);
    let in_batch = |batch| NewJob::text("x").batch(batch);
    let queue = &fixture.queue;
    for (error, expected) in [
        (queue.enqueue(&in_batch(batch)).await.unwrap_err(), "is sealed: no job can be added to it"),
        (queue.enqueue_many(&[NewJob::text("y"), in_batch(batch)]).await.unwrap_err(), "is sealed"),
        (queue.enqueue(&in_batch(nowhere)).await.unwrap_err(), "there is no batch 2; create one with "),
        (queue.enqueue_many(&[NewJob::text("y"), in_batch(nowhere)]).await.unwrap_err(), "there is no batch 2"),
        (queue.create_batch(&then_sum().parent(batch)).await.unwrap_err(), "is sealed"),
        (queue.create_batch(&then_sum().parent(nowhere)).await.unwrap_err(), "there is no batch 2"),
        (queue.seal_batch(nowhere).await.unwrap_err(), "there is no batch 2"),
        (queue.admin().cancel_batch(nowhere, "").await.unwrap_err(), "there is no batch 2"),
    ] {
        assert!(matches!(&error, Error::BatchNotOpen { message, .. } if message.contains(expected)), "{error}");
        assert_eq!((error.sql_number(), error.is_transient()), (Some(NOT_OPEN as i32), false));
    }
    assert_eq!(fixture.job_counts().await.ready, 1, "no other job of those calls is there either");
    assert_eq!(queue.batch(nowhere).await.unwrap(), None);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_batch_cannot_be_is_refused_when_it_is_created() {
    let fixture = Fixture::new("batch_refused").await;
    let error = fixture.queue.create_batch(&NewBatch::new().then(NewJob::text("").dedup_key("k"))).await.unwrap_err();
    assert!(matches!(error, Error::InvalidBatch { .. }), "{error}");
    let mut session = fixture.session().await;
    let too_long = "x".repeat(129);
    for (parameters, expected) in [
        ("@text = N'x', @payload = 0x01".to_string(), "either a payload or a text"),
        (format!("@name = N'{too_long}'"), "name must have at most 128 characters"),
        ("@text = N'x', @max_attempts = 0".to_string(), "max_attempts is 0; it must be 1 or more"),
        ("@text = N'x', @kind = 'two words'".to_string(), "kind must have 1 to 64 printable ASCII characters"),
        ("@text = N'x', @time_limit_ms = 0".to_string(), "time_limit_ms is 0; it must be 1 to 2147483647"),
        ("@text = N'x', @headers = N'[1]'".to_string(), "headers must be a JSON object"),
        ("@text = N'x', @headers = N'{\"readpast-batch\": 1}'".to_string(), "names that begin with readpast-"),
        ("@parent_id = 1".to_string(), "parent_id requires a payload or a text"),
    ] {
        let (number, message) =
            session.refusal(&format!("EXEC [$(schema)].[create_batch] @queue = N'work', {parameters}")).await;
        assert_eq!(number, REFUSED, "{parameters}: {message}");
        assert!(message.contains(expected), "{parameters}: {message}");
    }
    let unknown = session.refusal("EXEC [$(schema)].[create_batch] @queue = N'nowhere'").await;
    assert_eq!(unknown.0, 58001);
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[batch_counts]").await, 0);
    drop(session);
    fixture.remove().await;
}

/// The header of the follow-up stands before its own, whatever a producer in T-SQL has written there.
#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_of_t_sql_has_its_text_and_its_headers() {
    let fixture = Fixture::with("batch_t_sql", QueueOptions::default().claim_order(ClaimOrder::Lifo)).await;
    let mut session = fixture.session().await;
    for headers in ["NULL", "N'{}'", "N'{ }'", "N'{ \"a\": {\"b\": []} }'"] {
        let create = format!(
            "DECLARE @id bigint;
             EXEC [$(schema)].[create_batch] @queue = N'work', @text = N'Zoë', @headers = {headers}, @batch_id = @id OUTPUT;
             EXEC [$(schema)].[seal_batch] @batch_id = @id"
        );
        session.sql(&create).await;
    }
    let mut worker = WorkerSession::register(&fixture).await;
    let jobs = worker.claim(10).await;
    assert_eq!(jobs.len(), 4);
    for (number, job) in jobs.iter().enumerate() {
        let headers = &job.details["headers"];
        assert_eq!(headers["readpast-batch"]["batch_id"], number + 1);
        assert_eq!(headers["a"]["b"].is_array(), number == 3);
        assert_eq!((job.payload_utf16, job.payload.len()), (true, 6));
    }
    drop((session, worker));
    fixture.remove().await;
}

/// Two sessions each finish one of the last two jobs: the second waits for the first's transaction, and ends the batch.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_last_acknowledgements_at_once_the_second_ends_the_batch() {
    let fixture = Fixture::new("batch_last_two").await;
    let batch = sealed(&fixture.queue, 2).await;
    let mut first = WorkerSession::register(&fixture).await;
    let mut second = WorkerSession::register(&fixture).await;
    let mut observer = fixture.session().await;
    let (one, two) = (first.claim_one().await, second.claim_one().await);
    first.session.sql("BEGIN TRANSACTION").await;
    assert_eq!(first.finish(&[one.done()]).await, []);
    let spid = second.session.number("SELECT @@SPID").await;
    let finishing = tokio::spawn(async move { second.finish(&[two.done()]).await });
    waits(&mut observer, spid).await;
    first.session.sql("COMMIT TRANSACTION").await;
    assert_eq!(finishing.await.unwrap(), []);
    assert_eq!(follow_ups(&mut observer).await, 1);
    assert_eq!(counts(&fixture.queue, batch).await, [2, 2, 0, 0]);
    drop((first, observer));
    fixture.remove().await;
}

/// Whichever comes first: the last acknowledgement finds the batch sealed, or the sealing finds all ended.
#[tokio::test(flavor = "multi_thread")]
async fn sealing_beside_the_last_acknowledgement_enqueues_one_follow_up() {
    let fixture = Fixture::new("batch_race").await;
    let mut observer = fixture.session().await;
    let mut worker = WorkerSession::register(&fixture).await;
    let mut sealer = fixture.session().await;
    let one_job = async || {
        let batch = fixture.queue.create_batch(&then_sum()).await.unwrap();
        fixture.queue.enqueue(&NewJob::text("x").priority(-1).batch(batch)).await.unwrap();
        batch
    };
    let seal = |batch: BatchId| format!("EXEC [$(schema)].[seal_batch] @batch_id = {batch}");

    let batch = one_job().await;
    let job = worker.claim_one().await;
    sealer.sql(&format!("BEGIN TRANSACTION; {}", seal(batch))).await;
    let spid = worker.session.number("SELECT @@SPID").await;
    let finishing = tokio::spawn(async move {
        assert_eq!(worker.finish(&[job.done()]).await, []);
        worker
    });
    waits(&mut observer, spid).await;
    sealer.sql("COMMIT TRANSACTION").await;
    let mut worker = finishing.await.unwrap();
    assert_eq!(follow_ups(&mut observer).await, 1);

    let batch = one_job().await;
    let job = worker.claim_one().await;
    worker.session.sql("BEGIN TRANSACTION").await;
    assert_eq!(worker.finish(&[job.done()]).await, []);
    let spid = sealer.number("SELECT @@SPID").await;
    let call = seal(batch);
    let sealing = tokio::spawn(async move { sealer.row(&call).await });
    waits(&mut observer, spid).await;
    worker.session.sql("COMMIT TRANSACTION").await;
    let sealed = sealing.await.unwrap();
    assert_eq!((number(&sealed, "members"), number(&sealed, "ended")), (1, 1));
    assert_eq!(follow_ups(&mut observer).await, 2);

    // And as it comes.
    const ROUNDS: i64 = 30;
    for _ in 0..ROUNDS {
        let batch = one_job().await;
        let job = worker.claim_one().await;
        let both = Arc::new(Barrier::new(2));
        let (queue, other) = (fixture.queue.clone(), both.clone());
        let sealing = tokio::spawn(async move {
            other.wait().await;
            queue.seal_batch(batch).await.unwrap()
        });
        both.wait().await;
        assert_eq!(worker.finish(&[job.done()]).await, []);
        sealing.await.unwrap();
        assert!(row(&fixture.queue, batch).await.ended_at.is_some());
    }
    assert_eq!(follow_ups(&mut observer).await, 2 + ROUNDS);
    drop((worker, observer));
    fixture.remove().await;
}

/// Jobs and counts are one transaction: where the counting fails, the jobs have not ended either, and both are
/// repeated.
#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_that_cannot_be_counted_is_undone() {
    for procedure in ["note_ends", "end_batch"] {
        let fixture = Fixture::on_dev_server("batch_undone", QueueOptions::default()).await;
        let batch = sealed(&fixture.queue, 3).await;
        let name = fixture.procedure_to_fail(procedure);
        let busy = |call| (call <= 3).then(|| SqlError::new(40501, "busy").severity(16));
        dev_server().await.faults().on_call(&name, busy);
        let summary = drain(&fixture.queue, |_, _| Ok(Output::default())).await;
        assert_eq!((summary.stats.done, summary.stats.lost), (4, 0), "{procedure}");
        assert_eq!(counts(&fixture.queue, batch).await, [3, 3, 0, 0], "{procedure}");
        dev_server().await.faults().clear(&name);
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_no_end_does_not_count() {
    let fixture = Fixture::with("batch_retries", QueueOptions::default().max_attempts(10)).await;
    let batch = sealed(&fixture.queue, 1).await;
    let mut worker = WorkerSession::register(&fixture).await;
    for _ in 0..3 {
        let job = worker.claim_one().await;
        assert_eq!(worker.finish(&[job.retry(0, "again")]).await, []);
        let job = worker.claim_one().await;
        assert_eq!(worker.finish(&[job.snooze(0, "later")]).await, []);
        let job = worker.claim_one().await;
        worker.release([&job]).await;
    }
    worker.claim_one().await;
    worker.lose(&fixture).await;
    assert_eq!(counts(&fixture.queue, batch).await, [1, 0, 0, 0]);
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    let late = Finish { fence: job.fence - 1, ..job.done() };
    assert_eq!(worker.finish(&[late]).await, [(job.job_id, "lost".to_string())]);
    assert_eq!(counts(&fixture.queue, batch).await, [1, 0, 0, 0]);
    assert_eq!(worker.finish(&[job.done()]).await, []);
    assert_eq!(worker.finish(&[job.done()]).await, [(job.job_id, "lost".to_string())], "sent again");
    assert_eq!(counts(&fixture.queue, batch).await, [1, 1, 0, 0]);
    drop(worker);
    fixture.remove().await;
}

/// Each way in which a job can end, one after the other: each counts once, in its place.
#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_end_counts() {
    let fixture = Fixture::with("batch_ends", QueueOptions::default().max_attempts(1)).await;
    let queue = &fixture.queue;
    let batch = queue.create_batch(&then_sum()).await.unwrap();
    let mut expected = [0, 0, 0, 0];
    let mut worker = WorkerSession::register(&fixture).await;
    let ends: [fn(&Claimed) -> Finish; 3] = [|job| job.done(), |job| job.dead("no"), |job| job.retry(0, "its last")];
    let add = async |job: NewJob| queue.enqueue(&job.batch(batch)).await.unwrap().job_id;
    for (end, place) in ends.into_iter().zip([1, 2, 2]) {
        add(NewJob::text("x")).await;
        let job = worker.claim_one().await;
        worker.finish(&[end(&job)]).await;
        expected[0] += 1;
        expected[place] += 1;
        assert_eq!(counts(queue, batch).await, expected);
    }
    // Of a list with all of them, each once; and large outputs go by finish_one.
    for _ in 0..3 {
        add(NewJob::text("x")).await;
    }
    let jobs = worker.claim(3).await;
    worker.finish(&[jobs[0].done(), jobs[1].dead("no")]).await;
    worker.finish_one(&jobs[2].done()).await;
    expected = [6, 3, 3, 0];
    assert_eq!(counts(queue, batch).await, expected);

    // Cancelled while it waits, and while it runs: acknowledged, given back, lost.
    let later = || NewJob::text("later").delay(Duration::from_secs(3_600));
    for job in [NewJob::text("x"), later()] {
        queue.admin().change(&JobChange::cancel(""), add(job).await).await.unwrap();
        expected[0] += 1;
        expected[3] += 1;
        assert_eq!(counts(queue, batch).await, expected);
    }
    for end in ["finish", "release", "lose"] {
        let job_id = add(NewJob::text("x")).await;
        let job = worker.claim_one().await;
        queue.admin().change(&JobChange::cancel(""), job_id).await.unwrap();
        expected[0] += 1;
        assert_eq!(counts(queue, batch).await, expected, "it runs");
        match end {
            "finish" => drop(worker.finish(&[job.retry(0, "stopped")]).await),
            "release" => drop(worker.release([&job]).await),
            _ => {
                worker.lose(&fixture).await;
                worker = WorkerSession::register(&fixture).await;
            }
        }
        expected[3] += 1;
        assert_eq!(counts(queue, batch).await, expected, "{end}");
    }

    // Purged before they ended.
    add(NewJob::text("x")).await;
    add(later()).await;
    for state in [JobState::Ready, JobState::Scheduled] {
        assert_eq!(queue.admin().change(&JobChange::Purge, state).await.unwrap().changed, 1);
        expected[0] += 1;
        expected[3] += 1;
    }
    expected[0] = queue.batch(batch).await.unwrap().unwrap().jobs;
    assert_eq!(counts(queue, batch).await, expected);
    // Purging what has ended changes nothing.
    for state in [JobState::Dead, JobState::Cancelled] {
        assert!(queue.admin().change(&JobChange::Purge, state).await.unwrap().changed > 0);
    }
    assert_eq!(counts(queue, batch).await, expected);

    // Reaped on its last attempt: first it comes back, to run alone, then it is dead.
    add(NewJob::text("kills")).await;
    expected[0] += 1;
    worker.claim_one().await;
    worker.lose(&fixture).await;
    assert_eq!(counts(queue, batch).await, expected);
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim_alone(1).await.len(), 1);
    let sealed = queue.seal_batch(batch).await.unwrap();
    assert_eq!((sealed.jobs, sealed.ended), (expected[0], false));
    worker.lose(&fixture).await;
    expected[2] += 1;
    assert_eq!(counts(queue, batch).await, expected);
    assert_eq!(expected[0], expected[1..].iter().sum::<u64>());
    let row = row(queue, batch).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let end = worker.claim_one().await;
    assert_eq!(Some(JobId(end.job_id)), row.follow_up_id);
    let told = &end.details["headers"]["readpast-batch"];
    assert_eq!([&told["done"], &told["dead"], &told["cancelled"]].map(|n| n.as_u64().unwrap()), expected[1..]);
    drop(worker);
    fixture.remove().await;
}

/// A dead job that comes back is unfinished again; but what has ended stays so, whatever its jobs do later.
#[tokio::test(flavor = "multi_thread")]
async fn requeued_jobs_count_again_until_the_batch_has_ended() {
    let fixture = Fixture::with("batch_requeue", QueueOptions::default().max_attempts(1)).await;
    let queue = &fixture.queue;
    let batch = sealed(queue, 4).await;
    let mut session = fixture.session().await;
    let mut worker = WorkerSession::register(&fixture).await;
    let jobs = worker.claim(3).await;
    let id = |place: usize| JobId(jobs[place].job_id);
    assert_eq!(worker.finish(&[jobs[0].dead("no"), jobs[1].dead("no"), jobs[2].dead("no")]).await, []);
    queue.admin().change(&JobChange::cancel(""), JobId(jobs[2].job_id + 1)).await.unwrap();
    // It has ended: all four are dead or cancelled. Three more ways back, and a batch that has not.
    assert_eq!(counts(queue, batch).await, [4, 0, 3, 1]);
    assert_eq!(follow_ups(&mut session).await, 1);
    assert_eq!(queue.admin().change(&JobChange::Requeue, id(0)).await.unwrap().changed, 1);
    assert!(queue.admin().requeue_with(id(1), "y").await.unwrap());
    assert_eq!(queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 1);
    assert_eq!(queue.admin().change(&JobChange::Requeue, JobId(jobs[2].job_id + 1)).await.unwrap().changed, 1);
    assert_eq!(counts(queue, batch).await, [4, 0, 3, 1], "it has ended");
    let again: Vec<Finish> = worker.claim(10).await.iter().map(Claimed::done).collect();
    assert_eq!(again.len(), 5, "and the follow-up");
    assert_eq!(worker.finish(&again).await, []);
    assert_eq!(counts(queue, batch).await, [4, 0, 3, 1]);
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[jobs]").await, 0);

    let batch = sealed(queue, 4).await;
    let keyed = queue.create_batch(&then_sum()).await.unwrap();
    queue.enqueue(&NewJob::text("x").dedup_key("k").batch(keyed)).await.unwrap();
    queue.seal_batch(keyed).await.unwrap();
    let other = queue.create_batch(&NewBatch::new()).await.unwrap();
    queue.enqueue(&NewJob::text("x").dedup_key("o").batch(other)).await.unwrap();
    let jobs = worker.claim(10).await;
    let last = jobs[3].job_id;
    let dead: Vec<Finish> = jobs.iter().filter(|job| job.job_id != last).map(|job| job.dead("no")).collect();
    assert_eq!(worker.finish(&dead).await, []);
    assert_eq!(counts(queue, batch).await, [4, 0, 3, 0]);
    assert_eq!(queue.admin().change(&JobChange::Requeue, JobId(jobs[0].job_id)).await.unwrap().changed, 1);
    assert!(queue.admin().requeue_with(JobId(jobs[1].job_id), "y").await.unwrap());
    assert_eq!(counts(queue, batch).await, [4, 0, 1, 0]);
    assert_eq!(
        queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed,
        3,
        "with a key and without"
    );
    assert_eq!(counts(queue, batch).await, [4, 0, 0, 0]);
    assert_eq!(counts(queue, other).await, [1, 0, 0, 0], "it is not sealed");
    assert_eq!(counts(queue, keyed).await, [1, 0, 1, 0], "it has ended");
    let again = worker.claim(10).await;
    let last = jobs.iter().find(|job| job.job_id == last).unwrap();
    assert_eq!(worker.finish(&[last.done()]).await, []);
    assert!(row(queue, batch).await.ended_at.is_none());
    let done: Vec<Finish> = again.iter().map(Claimed::done).collect();
    assert_eq!(worker.finish(&done).await, []);
    assert_eq!(counts(queue, batch).await, [4, 4, 0, 0]);
    assert_eq!(follow_ups(&mut session).await, 1);
    drop((worker, session));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_no_member() {
    let fixture = Fixture::new("batch_dedup").await;
    let queue = &fixture.queue;
    let (one, two) = (queue.create_batch(&then_sum()).await.unwrap(), queue.create_batch(&then_sum()).await.unwrap());
    let keyed = |key: &str, batch| NewJob::text(key).dedup_key(key).batch(batch);
    assert!(!queue.enqueue(&keyed("a", one)).await.unwrap().duplicate);
    assert!(queue.enqueue(&keyed("a", two)).await.unwrap().duplicate);
    let jobs = [keyed("a", two), keyed("b", two), keyed("b", one), NewJob::text("x").batch(two), keyed("c", one)];
    let duplicates: Vec<bool> =
        queue.enqueue_many(&jobs).await.unwrap().iter().map(|enqueued| enqueued.duplicate).collect();
    assert_eq!(duplicates, [true, false, true, false, false]);
    assert_eq!(queue.seal_batch(one).await.unwrap().jobs, 2);
    assert_eq!(queue.seal_batch(two).await.unwrap().jobs, 2);
    drain(queue, |_, _| Ok(Output::default())).await;
    assert_eq!(counts(queue, one).await, [2, 2, 0, 0]);
    assert_eq!(counts(queue, two).await, [2, 2, 0, 0]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_nest_by_their_follow_ups() {
    let fixture = Fixture::new("batch_nest").await;
    let queue = &fixture.queue;
    let then = |text: &str| NewBatch::new().then(NewJob::text(text));
    let other = queue_named(&fixture, "other").await; // which has one follow-up, and no other job of a batch
    let top = queue.create_batch(&then("top")).await.unwrap();
    let middle = other.create_batch(&then("middle").parent(top)).await.unwrap();
    let mut low = Vec::new();
    for name in ["low 1", "low 2"] {
        let batch = queue.create_batch(&then(name).parent(middle)).await.unwrap();
        queue.enqueue_many(&parts(batch, 3)).await.unwrap();
        low.push(batch);
    }
    queue.enqueue_many(&parts(top, 2)).await.unwrap();
    for (batch, jobs) in [(top, 3), (middle, 2), (low[0], 3), (low[1], 3)] {
        let sealed = queue.seal_batch(batch).await.unwrap();
        assert_eq!((sealed.jobs, sealed.ended), (jobs, false), "their follow-ups count from the beginning");
    }
    let (sender, mut ends) = mpsc::unbounded_channel();
    let handler = move |job: &Job, _: &Context| -> Result<Output, BoxError> {
        if let Some(end) = job.batch_end() {
            sender.send((job.text()?.into_owned(), end.done, job.batch_id()))?;
        }
        Ok(Output::default())
    };
    for queue in [queue, &other, queue] {
        drain(queue, handler.clone()).await;
    }
    let mut seen = Vec::new();
    while let Ok(end) = ends.try_recv() {
        seen.push(end);
    }
    seen[..2].sort();
    let expected = [("low 1", 3, Some(middle)), ("low 2", 3, Some(middle)), ("middle", 2, Some(top)), ("top", 3, None)];
    assert_eq!(seen, expected.map(|(name, done, batch)| (name.to_string(), done, batch)));
    let middle = row(queue, middle).await;
    assert_eq!((middle.parent_id, middle.queue.as_str()), (Some(top), "other"));
    drop(other);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_without_acknowledgements_has_no_jobs_of_batches() {
    let fixture = Fixture::with("batch_once", QueueOptions::default().delivery(Delivery::AtMostOnce)).await;
    let queue = &fixture.queue;
    let other = queue_named(&fixture, "other").await;
    let batch = queue.create_batch(&then_sum()).await.unwrap();
    for error in [
        queue.enqueue(&NewJob::text("x").batch(batch)).await.unwrap_err(),
        queue.enqueue_many(&parts(batch, 2)).await.unwrap_err(),
        queue.create_batch(&then_sum().parent(batch)).await.unwrap_err(),
    ] {
        assert!(matches!(&error, Error::Refused { message, .. } if message.contains("at_most_once")), "{error}");
    }
    // Its follow-up may go there: nobody waits for its end.
    other.enqueue(&NewJob::text("x").batch(batch)).await.unwrap();
    queue.seal_batch(batch).await.unwrap();
    drain(&other, |_, _| Ok(Output::default())).await;
    assert!(row(queue, batch).await.follow_up_id.is_some());
    let error = other.admin().create(QueueOptions::default().delivery(Delivery::AtMostOnce)).await.unwrap_err();
    assert!(error.to_string().contains("has had groups, batches or edges"), "{error}");
    drop(other);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_forgotten_a_week_after_its_end() {
    let fixture = Fixture::new("batch_expire").await;
    let queue = &fixture.queue;
    let mut session = fixture.session().await;
    let (old, young, open) = (sealed(queue, 0).await, sealed(queue, 0).await, sealed(queue, 1).await);
    let days_ago = |days: i32, batch: BatchId| {
        format!(
            "UPDATE [$(schema)].[batch_counts] SET ended_at = DATEADD(DAY, -{days}, ended_at) WHERE batch_id = {batch}"
        )
    };
    session.sql(&days_ago(8, old)).await;
    session.sql(&days_ago(6, young)).await;
    assert_eq!(session.number("EXEC [$(schema)].[expire] @queue = N'work'").await, 1);
    assert_eq!(session.number("EXEC [$(schema)].[expire] @queue = N'work'").await, 0);
    assert_eq!(queue.batch(old).await.unwrap(), None);
    assert!(row(queue, young).await.ended_at.is_some());
    assert!(row(queue, open).await.ended_at.is_none());
    for table in ["batches", "batch_counts"] {
        assert_eq!(session.number(&format!("SELECT COUNT(*) FROM [$(schema)].[{table}]")).await, 2);
    }
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[batch_additions]").await, 0);
    drop(session);
    fixture.remove().await;
}

/// Pause, keys and retention, together: the batch ends with its last job, though its first ones are long gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_outlives_the_jobs_that_are_no_longer_kept() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate).max_attempts(1);
    let fixture = Fixture::with("batch_retention", options).await;
    let queue = &fixture.queue;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'work', @keep_done_s = 60, @keep_dead_s = 60").await;
    let batch = queue.create_batch(&then_sum()).await.unwrap();
    queue.enqueue_many(&["a", "b", "c"].map(|key| NewJob::text(key).dedup_key(key).batch(batch))).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let jobs = worker.claim(2).await;
    assert_eq!(worker.finish(&[jobs[0].done(), jobs[1].dead("no")]).await, []);
    // Its key is free: another job, and no member.
    queue.enqueue(&NewJob::text("b").dedup_key("b")).await.unwrap();
    assert_eq!(
        queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed,
        0,
        "so the dead one stays dead"
    );
    let mut session = fixture.session().await;
    session.sql("UPDATE [$(schema)].[jobs] SET finished_at = DATEADD(HOUR, -1, finished_at) WHERE ended = 1").await;
    assert_eq!(session.number("EXEC [$(schema)].[expire] @queue = N'work'").await, 2);
    queue.admin().pause().await.unwrap();
    queue.seal_batch(batch).await.unwrap();
    assert_eq!(counts(queue, batch).await, [3, 1, 1, 0]);
    assert_eq!(worker.claim(10).await, []);
    queue.admin().resume().await.unwrap();
    let rest: Vec<Finish> = worker.claim(10).await.iter().map(Claimed::done).collect();
    assert_eq!(worker.finish(&rest).await, []);
    assert_eq!(counts(queue, batch).await, [3, 2, 1, 0]);
    assert_eq!(follow_ups(&mut session).await, 1);
    drop((worker, session));
    fixture.remove().await;
}

/// Who adds jobs in a long transaction keeps the batch open, and delays nobody's acknowledgements.
#[tokio::test(flavor = "multi_thread")]
async fn a_producer_s_open_transaction_holds_up_sealing_and_no_acknowledgement() {
    let fixture = Fixture::new("batch_producer").await;
    let queue = &fixture.queue;
    let batch = queue.create_batch(&then_sum()).await.unwrap();
    queue.enqueue_many(&parts(batch, 3)).await.unwrap();
    let mut producer = fixture.session().await;
    let add = format!("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @batch_id = {batch}");
    producer.sql(&format!("BEGIN TRANSACTION; {add}; {add}")).await;
    let no_waiting = "SET LOCK_TIMEOUT 0";
    let mut other = fixture.session().await;
    other.sql(no_waiting).await;
    other.sql(&add).await;
    let mut worker = WorkerSession::register(&fixture).await;
    worker.session.sql(no_waiting).await;
    let jobs = worker.claim(10).await;
    assert_eq!(jobs.len(), 4);
    assert_eq!(worker.finish(&[jobs[0].done(), jobs[1].dead("no")]).await, []);
    let with_more = format!(
        "DECLARE @jobs [$(schema)].[finish_list], @follow_ups [$(schema)].[follow_up_list];
         INSERT @jobs (job_id, fence, outcome) VALUES ({}, 1, 0);
         INSERT @follow_ups (ordinal, job_id, queue, payload, batch_id) VALUES (1, {}, N'work', 0x01, {batch});
         EXEC [$(schema)].[finish_with] @queue = N'work', @worker_id = '{}', @jobs = @jobs, @follow_ups = @follow_ups;",
        jobs[2].job_id, jobs[2].job_id, worker.id
    );
    assert!(worker.session.numbers(&with_more).await.is_empty());
    assert_eq!(counts(queue, batch).await[1..], [2, 1, 0]);
    let seal = format!("EXEC [$(schema)].[seal_batch] @batch_id = {batch}");
    assert_eq!(other.refusal(&seal).await.0, 1222);
    producer.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(number(&other.row(&seal).await, "members"), 5, "what was rolled back is not among them");
    drop((producer, other, worker));
    fixture.remove().await;
}

/// A batch is locked before its job is inserted, which may have to wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_not_sealed_while_a_job_of_it_waits_for_its_key() {
    let fixture = Fixture::new("batch_key").await;
    let batch = fixture.queue.create_batch(&then_sum()).await.unwrap();
    let mut holder = fixture.session().await;
    let enqueue = "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = N'k'";
    let in_list = format!(
        "DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list];
         INSERT @jobs (ordinal, text, dedup_key) VALUES (1, N'x', N'k'); INSERT @details (ordinal, batch_id) VALUES (1, {batch});
         EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @details = @details"
    );
    let (mut observer, mut sealer) = (fixture.session().await, fixture.session().await);
    sealer.sql("SET LOCK_TIMEOUT 0").await;
    let seal = format!("EXEC [$(schema)].[seal_batch] @batch_id = {batch}");
    for call in [format!("{enqueue}, @batch_id = {batch}"), in_list] {
        holder.sql(&format!("BEGIN TRANSACTION; {enqueue}")).await;
        let mut producer = fixture.session().await;
        let spid = producer.number("SELECT @@SPID").await;
        let enqueuing = tokio::spawn(async move { producer.sql(&call).await });
        waits(&mut observer, spid).await;
        assert_eq!(sealer.refusal(&seal).await.0, 1222);
        holder.sql("ROLLBACK TRANSACTION").await;
        enqueuing.await.unwrap();
        observer.sql("DELETE [$(schema)].[jobs]").await; // its key is free again
    }
    assert_eq!(number(&sealer.row(&seal).await, "members"), 2);
    drop((holder, observer, sealer));
    fixture.remove().await;
}

/// As an import does it that is run again after whatever happened.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_batch_is_added_once() {
    let fixture = Fixture::new("parts").await;
    let queue = &fixture.queue;
    let batch = queue.create_batch(&then_sum()).await.unwrap();
    let other = queue.create_batch(&NewBatch::new()).await.unwrap();
    let jobs = |count: usize| (0..count).map(|job| NewJob::text(job.to_string())).collect::<Vec<_>>();
    let keyed: Vec<NewJob> = jobs(3).into_iter().map(|job| job.dedup_key("k").header("a", "b")).collect();
    // One job, many, some with keys and headers, and a payload that is sent alone.
    let parts = [(1, jobs(1)), (-2, jobs(1_000)), (i64::MAX, keyed), (4, vec![NewJob::bytes(vec![0; 100_000])])];
    for (number, jobs) in &parts {
        let enqueued = queue.enqueue_part(batch, *number, jobs).await.unwrap().expect("it was not there");
        assert_eq!(enqueued.len(), jobs.len());
        assert_eq!(queue.enqueue_part(batch, *number, jobs).await.unwrap(), None);
        assert_eq!(queue.enqueue_part(batch, *number, &parts[0].1).await.unwrap(), None, "whatever is in it");
        assert_eq!(queue.enqueue_part(batch, *number, &parts[1].1).await.unwrap(), None);
    }
    let mut session = fixture.session().await;
    let of_batch = format!("SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE batch_id = {batch} AND plain IS NULL");
    assert_eq!((session.number(&of_batch).await, counts(queue, batch).await[0]), (1_003, 1_003));
    assert_eq!(queue.enqueue_part(other, 1, &jobs(2)).await.unwrap().unwrap().len(), 2, "another batch's");
    // Other jobs of the batch change nothing.
    queue.enqueue_many(&self::parts(batch, 2)).await.unwrap();
    assert_eq!(queue.enqueue_part(batch, 5, &jobs(2)).await.unwrap().unwrap().len(), 2);

    for (refused, says) in [
        (jobs(1_001), "must fit one transaction: 1000 jobs"),
        (vec![NewJob::bytes(vec![0; 70_000]), NewJob::text("")], "alone; these are 2 jobs and 70000 bytes"),
        (vec![NewJob::text(""), NewJob::text("").batch(other)], "jobs[1] belongs to batch"),
        (vec![NewJob::text("").kind("a b")], "kind is 'a b'"),
    ] {
        let error = queue.enqueue_part(batch, 6, &refused).await.unwrap_err();
        assert!(matches!(&error, Error::InvalidJob { reason, .. } if reason.contains(says)), "{error}");
    }
    assert_eq!(queue.enqueue_part(batch, 6, &[]).await.unwrap(), Some(Vec::new()));
    assert_eq!(queue.seal_batch(batch).await.unwrap().jobs, 1_007);
    for number in [1, 7] {
        let error = queue.enqueue_part(batch, number, &jobs(2)).await.unwrap_err();
        assert!(matches!(error, Error::BatchNotOpen { .. }), "{error}");
    }
    assert_eq!(session.number(&of_batch).await, 1_007);
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_without_an_answer_is_sent_again_and_is_there_once() {
    let fixture = Fixture::new("lost_parts").await;
    let proxy = Proxy::start(fixture.url()).await;
    let through = changed(fixture.config.clone(), |config| config.connection.url = proxy.connection_string().into());
    let queue = Queue::connect(&through).await.unwrap();
    let batch = queue.create_batch(&then_sum()).await.unwrap();
    for (number, jobs) in [(1, 1), (2, 20)] {
        let procedure = if jobs == 1 { "enqueue" } else { "enqueue_batch" };
        let jobs: Vec<NewJob> = (0..jobs).map(|job| NewJob::text(job.to_string())).collect();
        proxy.reset_answer(procedure, 0);
        assert_eq!(queue.enqueue_part(batch, number, &jobs).await.unwrap(), None, "the first call has added it");
        assert!(proxy.has_sprung());
        proxy.reset_request(procedure, 0);
        let enqueued = queue.enqueue_part(batch, number + 10, &jobs).await.unwrap();
        assert_eq!(enqueued.map(|jobs| jobs.len()), Some(jobs.len()), "the first call has not arrived");
        assert!(proxy.has_sprung());
    }
    assert_eq!(queue.seal_batch(batch).await.unwrap().jobs, 2 + 40);
    drop(queue);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_is_being_added_is_waited_for() {
    let fixture = Fixture::new("same_part").await;
    let batch = fixture.queue.create_batch(&then_sum()).await.unwrap();
    let (mut holder, mut observer) = (fixture.session().await, fixture.session().await);
    let one = format!("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @part_of = {batch}, @part = 1");
    let many = format!(
        "DECLARE @jobs [$(schema)].[enqueue_list]; INSERT @jobs (ordinal, text) VALUES (1, N'x'), (2, N'y');
         EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @part_of = {batch}, @part = 1"
    );
    for (calls, end, jobs) in [(&one, "ROLLBACK", 2), (&many, "COMMIT", 2)] {
        observer.sql("DELETE [$(schema)].[jobs]; DELETE [$(schema)].[batch_additions]").await;
        holder.sql(&format!("BEGIN TRANSACTION; {calls}")).await;
        holder.sql(calls).await; // in its own transaction it is there
        let mut second = fixture.session().await;
        let spid = second.number("SELECT @@SPID").await;
        let call = many.clone();
        let adding = tokio::spawn(async move { second.sql(&call).await.len() });
        waits(&mut observer, spid).await;
        holder.sql(&format!("{end} TRANSACTION")).await;
        assert_eq!(adding.await.unwrap(), if end == "COMMIT" { 0 } else { 2 });
        assert_eq!(observer.number("SELECT COUNT(*) FROM [$(schema)].[jobs]").await, jobs);
    }
    let row = observer.row(&format!("DECLARE @id bigint = 7, @duplicate bit; {one}, @job_id = @id OUTPUT, @duplicate = @duplicate OUTPUT; SELECT @id AS id, CAST(@duplicate AS int) AS duplicate")).await;
    assert_eq!((optional_number(&row, "id"), number(&row, "duplicate")), (None, 1));
    for wrong in ["@part = 1", "@part_of = 1", "@part_of = 1, @part = 1, @batch_id = 2"] {
        let call = format!("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', {wrong}");
        assert_eq!(observer.refusal(&call).await.0, REFUSED, "{wrong}");
    }
    drop((holder, observer));
    fixture.remove().await;
}

/// Two begin a part at the very same moment: the unique index refuses the second.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_came_in_at_the_same_moment_is_asked_for_again() {
    let fixture = Fixture::on_dev_server("parts_at_once", QueueOptions::default()).await;
    let batch = fixture.queue.create_batch(&then_sum()).await.unwrap();
    let procedure = fixture.procedure_to_fail("enqueue");
    let refused = |call| (call == 1).then(|| SqlError::new(2601, "Cannot insert duplicate key row").severity(14));
    dev_server().await.faults().on_call(&procedure, refused);
    let job = [NewJob::text("x")];
    assert!(fixture.queue.enqueue_part(batch, 1, &job).await.unwrap().is_some());

    // Many at once, however they meet.
    let at_once = Arc::new(Barrier::new(8));
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let (queue, at_once) = (fixture.queue.clone(), at_once.clone());
            tokio::spawn(async move {
                let mut added = 0;
                for number in 100..120 {
                    at_once.wait().await;
                    let jobs = ["a", "b"].map(NewJob::text);
                    added += queue.enqueue_part(batch, number, &jobs).await.unwrap().map_or(0, |jobs| jobs.len());
                }
                added
            })
        })
        .collect();
    let mut added = 0;
    for call in calls {
        added += call.await.unwrap();
    }
    assert_eq!((added, counts(&fixture.queue, batch).await[0]), (40, 41));
    fixture.remove().await;
}

/// Batch, jobs and sealing in the caller's own transaction: all or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_in_the_caller_s_transaction_comes_with_its_commit() {
    let fixture = Fixture::new("batch_in").await;
    let (queue, schema) = (&fixture.queue, fixture.schema());
    let mut client = fixture.client().await;
    for commits in [false, true] {
        client.simple_query("BEGIN TRANSACTION").await.unwrap().into_results().await.unwrap();
        let batch = create_batch_in(&mut client, schema, "work", &then_sum()).await.unwrap();
        enqueue_in(&mut client, schema, "work", &parts(batch, 2)).await.unwrap();
        enqueue_in(&mut client, schema, "work", &parts(batch, 1)).await.unwrap();
        let sealed = seal_batch_in(&mut client, schema, batch).await.unwrap();
        assert_eq!((sealed.jobs, sealed.ended), (3, false));
        let end = if commits { "COMMIT TRANSACTION" } else { "ROLLBACK TRANSACTION" };
        client.simple_query(end).await.unwrap().into_results().await.unwrap();
        assert_eq!(queue.batch(batch).await.unwrap().is_some(), commits);
    }
    let ran = drain(queue, |_, _| Ok(Output::default())).await.stats.done;
    assert_eq!(ran, 4, "with the follow-up");
    let error = seal_batch_in(&mut client, schema, BatchId(99)).await.unwrap_err();
    assert!(matches!(error, Error::BatchNotOpen { .. }), "{error}");
    drop(client);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_batch_cancels_its_jobs_in_all_queues_and_below_it() {
    let fixture = Fixture::new("batch_cancel").await;
    let queue = &fixture.queue;
    let other = queue_named(&fixture, "other").await;
    let batch = queue.create_batch(&then_sum()).await.unwrap();
    let below = other.create_batch(&NewBatch::new().then(NewJob::text("below")).parent(batch)).await.unwrap();
    let bystander = sealed(queue, 1).await;
    queue.enqueue_many(&parts(batch, 1_500)).await.unwrap();
    other.enqueue_many(&parts(batch, 10)).await.unwrap();
    other.enqueue(&NewJob::text("later").delay(Duration::from_secs(3_600)).batch(below)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let running = worker.claim(4).await; // the bystander's, and three
    let cancelled = queue.admin().cancel_batch(batch, "a wrong file").await.unwrap();
    // With the follow-up of the one below it.
    assert_eq!((cancelled.changed, cancelled.requested), (1_497 + 10 + 1 + 1, 3));
    assert_eq!(queue.admin().cancel_batch(batch, "again").await.unwrap(), Changed::default());
    assert_eq!(counts(queue, below).await, [1, 0, 0, 1]);
    assert_eq!(counts(queue, batch).await, [1_511, 0, 0, 1_508]);
    assert_eq!(counts(queue, bystander).await, [1, 0, 0, 0]);
    let error = queue.enqueue(&NewJob::text("x").batch(batch)).await.unwrap_err();
    assert!(matches!(error, Error::BatchNotOpen { .. }), "it is sealed: {error}");
    // One is done all the same.
    assert_eq!(worker.finish(&[running[1].done(), running[2].retry(0, "x"), running[3].dead("x")]).await, []);
    assert_eq!(counts(queue, batch).await, [1_511, 1, 0, 1_510]);
    let follow_up = row(queue, batch).await.follow_up_id.unwrap();
    assert_eq!(queue.admin().job(follow_up, None).await.unwrap().unwrap().state, JobState::Ready);
    let why = queue.admin().job(JobId(running[2].job_id), None).await.unwrap().unwrap().error.unwrap();
    assert!(why.ends_with(": a wrong file"), "{why}");
    drop((worker, other));
    fixture.remove().await;
}

/// A job that is just being claimed must not escape.
#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_batch_waits_for_a_claim_that_is_under_way() {
    let fixture = Fixture::new("batch_cancel_claim").await;
    let batch = sealed(&fixture.queue, 1).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let mut observer = fixture.session().await;
    worker.session.sql("BEGIN TRANSACTION").await;
    let job = worker.claim_one().await;
    let queue = fixture.queue.clone();
    let cancelling = tokio::spawn(async move { queue.admin().cancel_batch(batch, "").await.unwrap() });
    let anybody = "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_status = 'WAIT'";
    while observer.number(anybody).await == 0 {
        assert!(!cancelling.is_finished(), "it has not seen the job");
    }
    worker.session.sql("COMMIT TRANSACTION").await;
    assert_eq!(cancelling.await.unwrap().requested, 1);
    assert_eq!(worker.finish(&[job.retry(0, "x")]).await, []);
    assert_eq!(counts(&fixture.queue, batch).await, [1, 0, 0, 1]);
    drop((worker, observer));
    fixture.remove().await;
}

/// The heartbeat, by which other processes' workers learn of it, is an hour away.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_this_process_hears_of_a_cancelled_batch_at_once() {
    let fixture = Fixture::new("batch_cancel_told").await;
    let batch = sealed(&fixture.queue, 1).await;
    let config = changed(WorkerConfig::default(), |worker| {
        worker.lease = Duration::from_secs(3_600);
        worker.heartbeat_interval = Duration::from_secs(1_000);
    });
    let (started, mut starts) = mpsc::unbounded_channel();
    let handlers = Handlers::any(move |job: &Job, context: &Context| -> Result<(), BoxError> {
        if job.batch_end().is_some() {
            return Ok(());
        }
        started.send(())?;
        let give_up = Instant::now() + Duration::from_secs(30);
        while !context.is_cancelled() {
            assert!(Instant::now() < give_up, "nobody has told it");
            std::thread::yield_now();
        }
        Err("stopped".into())
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let draining = tokio::spawn(worker.drain());
    starts.recv().await.unwrap();
    let cancelled = fixture.queue.admin().cancel_batch(batch, "").await.unwrap();
    assert_eq!((cancelled.changed, cancelled.requested), (0, 1));
    draining.await.unwrap().unwrap();
    assert_eq!(counts(&fixture.queue, batch).await, [1, 0, 0, 1]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_listed_the_newest_first() {
    let fixture = Fixture::new("batch_list").await;
    let queue = &fixture.queue;
    let other = queue_named(&fixture, "other").await;
    let mut created = Vec::new();
    for number in 0..5 {
        created.push(sealed(queue, number % 2).await);
        other.create_batch(&NewBatch::new()).await.unwrap();
    }
    created.reverse();
    let ids = |rows: Vec<BatchRow>| rows.iter().map(|row| row.batch_id).collect::<Vec<_>>();
    assert_eq!(ids(queue.admin().batches(false, None, 1_000).await.unwrap()), created);
    assert_eq!(ids(queue.admin().batches(false, None, 2).await.unwrap()), created[..2]);
    assert_eq!(ids(queue.admin().batches(false, Some(created[1]), 2).await.unwrap()), created[2..4]);
    assert_eq!(ids(queue.admin().batches(true, None, 9).await.unwrap()), [created[1], created[3]], "those with a job");
    assert_eq!(ids(queue.admin().batches(true, Some(created[1]), 9).await.unwrap()), [created[3]]);
    assert_eq!(queue.admin().batches(true, Some(created[3]), 9).await.unwrap(), []);
    let error = queue.admin().batches(false, None, 1_001).await.unwrap_err();
    assert!(matches!(&error, Error::Refused { message, .. } if message.contains("0 to 1000")), "{error}");

    let row = row(queue, created[1]).await;
    let json = serde_json::to_value(&row).unwrap();
    assert_eq!((&json["batch_id"], &json["jobs"]), (&created[1].0.into(), &1.into()));
    assert!(json["created_at"].as_str().unwrap().ends_with('Z') && json["ended_at"].is_null());
    let sampled = fixture.sql("EXEC [$(schema)].[sample] @queue = N'work', @max_age_ms = 0").await;
    assert_eq!(number(&sampled[0], "open_batches"), 2);
    drop(other);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_make_batches_operators_cancel_them_and_workers_need_no_right() {
    let fixture = Fixture::new("batch_roles").await;
    let logins = [
        fixture.create_login(Some("producer")).await,
        fixture.create_login(Some("worker")).await,
        fixture.create_login(Some("operator")).await,
        fixture.create_login(Some("monitor")).await,
    ];
    let mut queues = Vec::new();
    for login in &logins {
        queues.push(fixture.connect_as(login).await);
    }
    let [producer, worker, operator, monitor] = &queues[..] else { unreachable!() };
    let is_denied = |error: Error| assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    let batch = producer.create_batch(&then_sum()).await.unwrap();
    let nested = producer.create_batch(&then_sum().parent(batch)).await.unwrap();
    producer.enqueue_many(&parts(nested, 3)).await.unwrap();
    for batch in [batch, nested] {
        producer.seal_batch(batch).await.unwrap();
    }
    is_denied(producer.admin().cancel_batch(batch, "").await.unwrap_err());
    for queue in [worker, monitor] {
        is_denied(queue.create_batch(&then_sum()).await.unwrap_err());
        is_denied(queue.seal_batch(batch).await.unwrap_err());
        is_denied(queue.admin().cancel_batch(batch, "").await.unwrap_err());
    }
    is_denied(worker.batch(batch).await.unwrap_err());
    assert_eq!(drain(worker, |_, _| Ok(Output::default())).await.stats.done, 5);
    for queue in [producer, operator, monitor] {
        assert_eq!(counts(queue, batch).await, [1, 1, 0, 0]);
        assert_eq!(queue.admin().batches(false, None, 10).await.unwrap().len(), 2);
    }
    let batch = operator.create_batch(&then_sum()).await.unwrap();
    operator.admin().cancel_batch(batch, "").await.unwrap();
    drop(queues);
    for login in &logins {
        fixture.drop_login(login).await;
    }
    fixture.remove().await;
}

/// `batches` batches of 20 jobs in three worker processes that reach SQL Server by a proxy; processes are killed and
/// connections cut, stalled and reset in the middle of acknowledgements, while the batches are sealed. In the end each
/// batch has its follow-up once, with the right counts. The follow-ups go to a queue of their own, which nobody works
/// on.
async fn follow_ups_come_once(test_name: &str, completion: CompletionPolicy, batches: usize, kills: usize) {
    const JOBS: usize = 20;
    let options = QueueOptions::default().completion(completion).max_attempts(10_000);
    let fixture = Fixture::with(test_name, options).await;
    let ends = queue_named(&fixture, "ends").await;
    let mut ids = Vec::new();
    let mut jobs = Vec::new();
    for number in 0..batches {
        let batch = ends.create_batch(&NewBatch::new().then(NewJob::text(number.to_string()))).await.unwrap();
        jobs.extend((0..JOBS).map(|_| NewJob::text("0").batch(batch)));
        ids.push(batch);
    }
    fastrand::shuffle(&mut jobs); // each acknowledgement has jobs of many batches
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let mut workers = UnderFaults::start(&fixture).await;
    let (sealer, to_seal) = (fixture.queue.clone(), ids.clone());
    let sealing = tokio::spawn(async move {
        for batch in to_seal {
            sealer.seal_batch(batch).await.unwrap();
        }
    });
    workers.strike(jobs.len(), kills).await;
    sealing.await.unwrap();
    let give_up = Instant::now() + Duration::from_secs(600);
    while !ends.admin().batches(true, None, 1).await.unwrap().is_empty() {
        assert!(Instant::now() < give_up, "batches are left: {:?}", fixture.queue.admin().stats(None).await.unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    workers.stop().await;
    let followed = fixture
        .sql("SELECT CAST(payload AS varchar(20)) AS number, headers FROM [$(schema)].[jobs] WHERE state = 0")
        .await;
    let mut by_batch: HashMap<String, Vec<String>> = HashMap::new();
    for row in &followed {
        by_batch.entry(text(row, "number").unwrap()).or_default().push(text(row, "headers").unwrap());
    }
    for (number, batch) in ids.iter().enumerate() {
        let expected = format!(r#"{{"readpast-batch":{{"batch_id":{batch},"done":{JOBS},"dead":0,"cancelled":0}}}}"#);
        assert_eq!(by_batch.remove(&number.to_string()).as_deref(), Some(&[expected][..]));
    }
    assert!(by_batch.is_empty());
    drop(ends);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follow_ups_come_once_under_kills_cuts_and_stalls() {
    follow_ups_come_once("batch_faults", CompletionPolicy::Annotate, 100, 6).await;
}

/// `cargo test --release --test tests -- --ignored follow_ups_of_a_thousand_batches_come_once`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes"]
async fn follow_ups_of_a_thousand_batches_come_once() {
    follow_ups_come_once("batch_1000", CompletionPolicy::Delete, 1_000, 24).await;
}

/// `cargo test --release --test tests -- --ignored --nocapture a_job_of_a_batch_costs`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: for a quiet machine and a release build"]
async fn a_job_of_a_batch_costs_little_more_than_a_plain_one() {
    const JOBS: usize = 100_000;
    let fixture = Fixture::new("batch_cost").await;
    let linked = queue_named(&fixture, "linked").await;
    let mut best = [[Duration::MAX; 2]; 3];
    let plain: Vec<NewJob> = (0..JOBS).map(|_| NewJob::text("x")).collect();
    for _ in 0..3 {
        // A queue that never had a batch, one that had, and jobs of a batch.
        for (place, queue) in [&fixture.queue, &linked, &linked].into_iter().enumerate() {
            let batch = linked.create_batch(&NewBatch::new()).await.unwrap();
            let jobs = if place == 2 { parts(batch, JOBS) } else { plain.clone() };
            if place == 1 {
                linked.enqueue(&NewJob::text("x").batch(batch)).await.unwrap();
            }
            let began = Instant::now();
            queue.enqueue_many(&jobs).await.unwrap();
            let enqueued = began.elapsed();
            linked.seal_batch(batch).await.unwrap();
            let began = Instant::now();
            let worker = Worker::builder(queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
            assert!(worker.drain().await.unwrap().stats.done >= JOBS as u64);
            best[place][0] = best[place][0].min(enqueued);
            best[place][1] = best[place][1].min(began.elapsed());
        }
    }
    let names = ["plain", "plain, beside batches", "of a batch"];
    for (name, [enqueued, drained]) in names.iter().zip(best) {
        let us = |time: Duration| time.as_secs_f64() * 1e6 / JOBS as f64;
        eprintln!("{name}: enqueue {:.1} µs, claim, run and acknowledge {:.1} µs a job", us(enqueued), us(drained));
    }
    drop(linked);
    fixture.remove().await;
}
