//! Jobs that must not start late: nobody gets them after their time, whether a worker runs or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use readpast::admin::{Delivery, JobChange, JobState, QueueOptions, Schedule};
use readpast::config::WorkerConfig;
use readpast::{Handlers, JobId, KindOptions, Needs, NewJob, Output, Worker};

use crate::support::{Fixture, JobCounts, WorkerSession, changed, text, until};

/// A time that has passed, by any clock.
const PAST: SystemTime = SystemTime::UNIX_EPOCH;

const HOUR: Duration = Duration::from_secs(3_600);

async fn state_and_error(fixture: &Fixture, job_id: JobId) -> (JobState, String) {
    let job = fixture.queue.admin().job(job_id, None).await.unwrap().unwrap();
    (job.state, job.error.unwrap_or_default())
}

/// A worker whose jobs of one kind count themselves.
async fn counting(fixture: &Fixture, options: KindOptions) -> (Worker, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counts = runs.clone();
    let handler = move |_: &_, _: &_| {
        counts.fetch_add(1, Ordering::SeqCst);
        Ok(())
    };
    let handlers = Handlers::any(handler).otherwise_options(options);
    (Worker::builder(&fixture.queue, handlers).start().await.unwrap(), runs)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_claim_returns_an_expired_job_and_it_ends_as_cancelled() {
    let fixture = Fixture::new("expiry_claim").await;
    let jobs = [
        NewJob::text("ready").start_by(PAST),
        NewJob::text("later").delay(HOUR).start_within(HOUR),
        NewJob::text("in time").start_by(PAST + Duration::from_secs(4_000_000_000)),
        NewJob::text("plain"),
    ];
    let jobs = fixture.queue.enqueue_many(&jobs).await.unwrap();
    let one = fixture.queue.enqueue(&NewJob::text("one").start_by(PAST)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(10).await;
    assert_eq!(claimed.iter().map(|job| job.job_id).collect::<Vec<_>>(), [jobs[2].job_id.0, jobs[3].job_id.0]);
    for expired in [jobs[0].job_id, one.job_id] {
        let expected = "expired: no attempt may start after 1970-01-01T00:00:00Z";
        assert_eq!(state_and_error(&fixture, expired).await, (JobState::Cancelled, expected.to_owned()));
    }
    let later = fixture.queue.admin().job(jobs[1].job_id, None).await.unwrap().unwrap();
    assert_eq!(later.start_by.unwrap(), later.due_at + HOUR);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_job_keeps_no_other_with_its_key_out() {
    let fixture = Fixture::new("expiry_key").await;
    let late = NewJob::text("late").start_by(PAST).dedup_key("k");
    let first = fixture.queue.enqueue(&late).await.unwrap();
    let again = fixture.queue.enqueue(&late).await.unwrap();
    assert!(!again.duplicate, "the first one cannot run any more");
    let jobs = [NewJob::text("other"), NewJob::text("in time").dedup_key("k"), NewJob::text("third").dedup_key("k")];
    let jobs = fixture.queue.enqueue_many(&jobs).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.duplicate).collect::<Vec<_>>(), [false, false, true]);
    for expired in [first.job_id, again.job_id] {
        assert_eq!(state_and_error(&fixture, expired).await.0, JobState::Cancelled);
    }
    // One that runs does.
    let running = fixture.queue.enqueue(&NewJob::text("runs").dedup_key("r")).await.unwrap().job_id;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim(10).await.len(), 3);
    fixture.sql("UPDATE [$(schema)].[jobs] SET start_by = '2026-01-01'").await;
    let duplicate = fixture.queue.enqueue(&NewJob::text("runs").dedup_key("r")).await.unwrap();
    assert_eq!((duplicate.job_id, duplicate.duplicate), (running, true));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_moved_may_start_at_any_time() {
    let fixture = Fixture::new("expiry_moved").await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'letters'").await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'work', @dead_queue = N'letters'").await;
    fixture.queue.enqueue(&NewJob::text("x").start_within(HOUR)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    fixture.sql("UPDATE [$(schema)].[jobs] SET start_by = '2026-01-01'").await;
    assert_eq!(worker.finish(&[job.dead("no")]).await, []);
    assert_eq!(WorkerSession::register_for(&fixture, "letters").await.claim(10).await.len(), 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_for_resources_ends_when_it_expires() {
    let fixture = Fixture::new("expiry_waits").await;
    let needs = |job: NewJob| job.needs(Needs::new().token("gpu", 1));
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let entered = gate.clone();
    let handlers = Handlers::any(move |_, context| {
        context.block_on(entered.acquire())?.forget();
        Ok(())
    });
    let config = changed(WorkerConfig::default(), |worker| {
        worker.threads = 2;
        worker.resources.tokens.insert("gpu".to_owned(), 1);
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    fixture.queue.enqueue(&needs(NewJob::text("holds it"))).await.unwrap();
    until("one runs", || worker.stats().running == 1).await;
    let waits = needs(NewJob::text("waits")).start_within(Duration::from_millis(500));
    let waits = fixture.queue.enqueue(&waits).await.unwrap().job_id;
    until("the other has expired", || worker.stats().expired == 1).await;
    assert_eq!(state_and_error(&fixture, waits).await.0, JobState::Cancelled);
    assert_eq!(worker.stats().running, 1);
    gate.add_permits(1);
    worker.drain().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_many_expired_jobs_ends_with_a_thousand_and_the_worker_goes_on() {
    let fixture = Fixture::new("expiry_many").await;
    let jobs: Vec<_> = (0..2_100).map(|_| NewJob::text("x").start_by(PAST)).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("plain")).await.unwrap();
    let mut session = WorkerSession::register(&fixture).await;
    assert_eq!(session.claim(10).await, []);
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 1_101, cancelled: 1_000, ..JobCounts::default() });
    let (worker, runs) = counting(&fixture, KindOptions::new()).await;
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.expired, runs.load(Ordering::SeqCst)), (1, 1_100, 1));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_jobs_of_a_group_pass_their_turn_on_and_their_batch_ends() {
    let fixture = Fixture::new("expiry_members").await;
    let batch = fixture.queue.create_batch(&readpast::NewBatch::new()).await.unwrap();
    let member = |name: &str| NewJob::text(name).group_key("g").batch(batch);
    let jobs = [member("in turn").start_by(PAST), member("waits").start_by(PAST), NewJob::text("next").group_key("g")];
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    fixture.queue.seal_batch(batch).await.unwrap();
    let promoted = fixture.session().await.row("EXEC [$(schema)].[promote] @queue = N'work'").await;
    assert_eq!(promoted.get::<i32, _>("expired"), Some(2));
    let batches = fixture.queue.admin().batches(false, None, 10).await.unwrap();
    assert_eq!((batches[0].cancelled, batches[0].ended_at.is_some()), (2, true));
    let claimed = WorkerSession::register(&fixture).await.claim(10).await;
    assert_eq!(claimed.iter().map(|job| job.payload.as_slice()).collect::<Vec<_>>(), [b"next"]);
    fixture.remove().await;
}

/// With turns in groups, claims take another way, and the jobs behind the first of a group come with it.
#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_run_expire_too() {
    let fixture = Fixture::new("expiry_run").await;
    let may_wait = Duration::from_secs(1);
    let member = |name: &str| NewJob::text(name).group_key("g");
    let jobs = [member("first"), member("late").start_within(may_wait), member("last")];
    let ids = fixture.queue.enqueue_many(&jobs).await.unwrap();
    let mut session = WorkerSession::register(&fixture).await;
    let claimed = session.claim_runs(10, 10, 10).await;
    assert_eq!(claimed.iter().map(|job| job.details["start_by_ms"].is_null()).collect::<Vec<_>>(), [true, false, true]);
    session.release(&claimed).await;

    let names = Arc::new(std::sync::Mutex::new(Vec::new()));
    let ran = names.clone();
    let handlers = Handlers::any(move |job, _| {
        if job.text()? == "first" {
            std::thread::sleep(may_wait);
        }
        ran.lock().unwrap().push(job.text()?.into_owned());
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.expired), (2, 1));
    assert_eq!(*names.lock().unwrap(), ["first", "last"]);
    assert_eq!(state_and_error(&fixture, ids[1].job_id).await.0, JobState::Cancelled);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_job_that_waits_too_long_for_a_thread_does_not_start() {
    let fixture = Fixture::new("expiry_thread").await;
    let is_late = Arc::new(std::sync::Barrier::new(2));
    let late = is_late.clone();
    let handlers = Handlers::any(move |job, _| {
        assert_eq!(job.text()?, "blocks");
        late.wait();
        Ok(())
    });
    let config = changed(WorkerConfig::default(), |worker| (worker.threads, worker.buffer) = (1, 1));
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    fixture.queue.enqueue(&NewJob::text("blocks")).await.unwrap();
    until("one runs", || worker.stats().running == 1).await;
    let may_wait = Duration::from_secs(1);
    let waits = fixture.queue.enqueue(&NewJob::text("waits").start_within(may_wait)).await.unwrap().job_id;
    until("both are claimed", || worker.stats().running == 1 && worker.stats().buffered == 1).await;
    tokio::time::sleep(may_wait).await;
    tokio::task::spawn_blocking(move || is_late.wait()).await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.expired, stats.cancelled, stats.dead), (1, 1, 0, 0));
    let job = fixture.queue.admin().job(waits, None).await.unwrap().unwrap();
    assert_eq!((job.state, job.attempt), (JobState::Cancelled, 0));
    let error = job.error.unwrap();
    assert!(error.starts_with("expired: no attempt may start later than ") && error.ends_with("enqueued"), "{error}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_would_come_too_late_does_not_come() {
    let fixture = Fixture::new("expiry_retry").await;
    let job = fixture.queue.enqueue(&NewJob::text("x").start_within(HOUR)).await.unwrap().job_id;
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim_one().await;
    fixture.sql("UPDATE [$(schema)].[jobs] SET start_by = '2026-01-01'").await;
    assert_eq!(worker.claim(10).await, [], "what runs is left alone");
    assert_eq!(worker.finish(&[claimed.retry(3_600_000, "no")]).await, []);
    assert_eq!(worker.claim(10).await, []);
    let expected = "expired: no attempt may start after 2026-01-01T00:00:00Z";
    assert_eq!(state_and_error(&fixture, job).await, (JobState::Cancelled, expected.to_owned()));
    assert_eq!(fixture.queue.admin().attempts(job).await.unwrap()[0].error.as_deref(), Some("no"));
    // An operator lets it start.
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, job).await.unwrap().changed, 1);
    assert_eq!(worker.claim(10).await.len(), 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_kind_expire_that_have_waited_too_long() {
    let fixture = Fixture::new("expiry_kind").await;
    fixture.queue.enqueue_many(&[NewJob::text("old"), NewJob::text("new")]).await.unwrap();
    fixture.sql("UPDATE [$(schema)].[jobs] SET due_at = DATEADD(MINUTE, -2, due_at) WHERE payload = 0x6F6C64").await;
    let (worker, runs) = counting(&fixture, KindOptions::new().start_within(Duration::from_secs(60))).await;
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.expired, runs.load(Ordering::SeqCst)), (1, 1, 1));
    let errors = fixture.sql("SELECT error FROM [$(schema)].[jobs] WHERE state = 5").await;
    let error = text(&errors[0], "error").unwrap();
    assert!(error.starts_with("expired: it was due 120.") && error.ends_with("its kind may wait 60s"), "{error}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_jobs_of_an_at_most_once_queue_do_not_start() {
    let options = QueueOptions::default().delivery(Delivery::AtMostOnce);
    let fixture = Fixture::with("expiry_at_most_once", options).await;
    let late = |name: &str| NewJob::text(name).start_by(PAST);
    let jobs = [late("late"), late("with a key").dedup_key("k"), NewJob::text("of the kind")];
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    fixture.sql("UPDATE [$(schema)].[jobs] SET due_at = DATEADD(MINUTE, -2, due_at)").await;
    let (worker, runs) = counting(&fixture, KindOptions::new().start_within(Duration::from_secs(60))).await;
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.expired, runs.load(Ordering::SeqCst)), (0, 3, 0));
    assert_eq!(fixture.job_counts().await, JobCounts { cancelled: 2, ..JobCounts::default() }, "a claim deletes rows");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follow_ups_and_schedules_pass_their_latest_start_on() {
    let fixture = Fixture::new("expiry_passed_on").await;
    let schedule = Schedule::new("hourly", "0 * * * *", NewJob::text("scheduled").start_within(HOUR));
    fixture.queue.admin().set_schedule(&schedule).await.unwrap();
    assert_eq!(fixture.queue.admin().schedules().await.unwrap()[0].start_within, Some(HOUR));
    let scheduled = fixture.queue.admin().run_schedule_now("hourly").await.unwrap().job_id;
    let scheduled = fixture.queue.admin().job(scheduled, None).await.unwrap().unwrap();
    assert_eq!(scheduled.start_by, Some(scheduled.due_at + HOUR));

    let by = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let handlers = Handlers::any(move |job, _| {
        Ok(match job.text()?.as_ref() {
            "scheduled" => Output::default()
                .enqueue("work", NewJob::text("by").delay(HOUR).start_by(by))
                .enqueue("work", NewJob::text("within").delay(HOUR).start_within(HOUR)),
            _ => Output::default(),
        })
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    until("its follow-ups are there", || worker.stats().done == 1).await;
    let rows = fixture.queue.admin().list(&JobState::Scheduled.into(), None, 10).await.unwrap().jobs;
    let starts: Vec<_> = rows.iter().map(|job| job.start_by.unwrap()).collect();
    assert_eq!(starts, [by, rows[1].due_at + HOUR]);
    drop(worker);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latest_start_that_means_nothing_is_refused() {
    let fixture = Fixture::new("expiry_refused").await;
    let mut session = fixture.session().await;
    let enqueue = "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x'";
    let both = "start_by and start_within_ms cannot be combined";
    let range = "start_within_ms is 0; it must be 1 to 315360000000 (ten years)";
    for (parameters, message) in
        [("@start_by = '2099-01-01', @start_within_ms = 1", both), ("@start_within_ms = 0", range)]
    {
        assert_eq!(session.refusal(&format!("{enqueue}, {parameters}")).await, (58003, message.to_owned()));
    }
    for (columns, values, message) in
        [("start_by, start_within_ms", "'2099-01-01', 1", both), ("start_within_ms", "0", range)]
    {
        let sql = format!(
            "DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list];
             INSERT @jobs (ordinal, text, delay_ms) VALUES (1, N'x', 1000);
             INSERT @details (ordinal, {columns}) VALUES (1, {values});
             EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @details = @details"
        );
        assert_eq!(session.refusal(&sql).await, (58003, message.to_owned()));
    }
    let by = Schedule::new("x", "0 * * * *", NewJob::text("x").start_by(PAST));
    let refused = fixture.queue.admin().set_schedule(&by).await.unwrap_err().to_string();
    assert!(refused.contains("its job has start_by"), "{refused}");
    let endless = KindOptions::new().start_within(Duration::MAX);
    let refused =
        Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(())).otherwise_options(endless)).start().await;
    assert!(refused.err().unwrap().to_string().contains("it must be 1 ms to ten years"));
    assert_eq!(fixture.job_counts().await, JobCounts::default());
    fixture.remove().await;
}
