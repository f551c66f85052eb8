//! Jobs that somebody cancels: those that wait never run, those that run are told, and what is done stays done.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use readpast::admin::{Changed, CompletionPolicy, JobChange, JobFilter, JobState, QueueOptions};
use readpast::{BoxError, Context, Error, Handlers, Job, JobId, NewJob, Queue, Worker};

use crate::support::{Claimed, Finish, Fixture, JobCounts, WorkerSession, changed, number, until};

const WHY: &str = "the customer has left";

/// What `cancel` found, as two numbers.
fn counts(cancelled: Changed) -> (u64, u64) {
    (cancelled.changed, cancelled.requested)
}

async fn row(fixture: &Fixture, job_id: i64) -> (JobState, String) {
    let job = fixture.queue.admin().job(JobId(job_id), None).await.unwrap().unwrap();
    (job.state, job.error.unwrap_or_default())
}

async fn login(fixture: &Fixture) -> String {
    let row = fixture.session().await.row("SELECT ORIGINAL_LOGIN() AS login").await;
    row.get::<&str, _>("login").unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_never_runs_and_says_who_cancelled_it_and_why() {
    let fixture = Fixture::new("cancel_waiting").await;
    let scheduled = NewJob::text("later").delay(Duration::from_secs(3_600)).dedup_key("later");
    let jobs = fixture.queue.enqueue_many(&[NewJob::text("now").dedup_key("now"), scheduled.clone()]).await.unwrap();
    for job in &jobs {
        assert_eq!(counts(fixture.queue.admin().change(&JobChange::cancel(WHY), job.job_id).await.unwrap()), (1, 0));
        let expected = format!("cancelled by {}: {WHY}", login(&fixture).await);
        assert_eq!(row(&fixture, job.job_id.0).await, (JobState::Cancelled, expected));
        assert_eq!(
            counts(fixture.queue.admin().change(&JobChange::cancel(WHY), job.job_id).await.unwrap()),
            (0, 0),
            "it has ended"
        );
    }
    fixture.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
    assert_eq!(WorkerSession::register(&fixture).await.claim(10).await, []);
    assert_eq!(fixture.job_counts().await, JobCounts { cancelled: 2, ..JobCounts::default() });
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.cancelled, stats.dead, stats.ready, stats.scheduled), (2, 0, 0, 0));
    let page = fixture.queue.admin().list(&JobState::Cancelled.into(), None, 10).await.unwrap();
    assert_eq!(page.jobs.iter().map(|job| job.job_id).collect::<Vec<_>>(), [jobs[0].job_id, jobs[1].job_id]);
    // Their keys are free.
    let again = fixture.queue.enqueue_many(&[NewJob::text("now").dedup_key("now"), scheduled]).await.unwrap();
    assert!(again.iter().all(|job| !job.duplicate));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_comes_back_by_its_id_and_not_with_the_dead_ones() {
    let fixture = Fixture::new("cancel_requeue").await;
    let jobs = fixture.queue.enqueue_many(&[NewJob::text("x").dedup_key("x"), NewJob::text("y")]).await.unwrap();
    for job in &jobs {
        fixture.queue.admin().change(&JobChange::cancel(""), job.job_id).await.unwrap();
    }
    assert_eq!(row(&fixture, jobs[0].job_id.0).await.1, format!("cancelled by {}", login(&fixture).await));
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 0);
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, jobs[1].job_id).await.unwrap().changed, 1);
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 1, cancelled: 1, ..JobCounts::default() });
    // Its key is another job's by now.
    let other = fixture.queue.enqueue(&NewJob::text("x").dedup_key("x")).await.unwrap();
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, jobs[0].job_id).await.unwrap().changed, 0);
    fixture.queue.admin().change(&JobChange::cancel(""), other.job_id).await.unwrap();
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, jobs[0].job_id).await.unwrap().changed, 1);
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim(10).await.len(), 2);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_jobs_are_purged_and_expire_like_dead_ones() {
    let fixture = Fixture::new("cancel_expire").await;
    let jobs = fixture.queue.enqueue_many(&["x", "y", "z"].map(NewJob::text)).await.unwrap();
    for job in &jobs[..2] {
        fixture.queue.admin().change(&JobChange::cancel(WHY), job.job_id).await.unwrap();
    }
    let old = "UPDATE [$(schema)].[jobs] SET finished_at = DATEADD(HOUR, -1, finished_at) WHERE job_id =";
    fixture.sql(&format!("{old} {}", jobs[0].job_id)).await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'work', @keep_dead_s = 60").await;
    assert_eq!(fixture.session().await.number("EXEC [$(schema)].[expire] @queue = N'work'").await, 1);
    // As a DBA calls it.
    let mut session = fixture.session().await;
    let purge = "EXEC [$(schema)].[purge] @queue = N'work', @state = 'cancelled'";
    assert_eq!(session.number(&format!("{purge}, @older_than_s = 60")).await, 0);
    assert_eq!(session.number(purge).await, 1);
    // As the library does.
    fixture.queue.admin().change(&JobChange::cancel(WHY), jobs[2].job_id).await.unwrap();
    let a_minute_old = JobFilter::from(JobState::Cancelled).older_than(Duration::from_secs(60));
    assert_eq!(fixture.queue.admin().change(&JobChange::Purge, a_minute_old).await.unwrap().changed, 0);
    assert_eq!(fixture.queue.admin().change(&JobChange::Purge, JobState::Cancelled).await.unwrap().changed, 1);
    assert_eq!(fixture.job_counts().await, JobCounts::default());
    fixture.remove().await;
}

/// Each way in which a run can end.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_running_job_only_what_is_done_stays_so() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate).max_attempts(1);
    let fixture = Fixture::with("cancel_running", options).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let ends: [fn(&Claimed) -> Finish; 4] =
        [|job| job.retry(0, "no"), |job| job.retry(60_000, "no"), |job| job.snooze(0, "no"), |job| job.dead("no")];
    let expected = (JobState::Cancelled, format!("cancelled by {}: {WHY}", login(&fixture).await));
    for end in ends {
        fixture.queue.enqueue(&NewJob::text("x").dedup_key("k").max_attempts(2)).await.unwrap();
        let job = worker.claim_one().await;
        assert_eq!(
            counts(fixture.queue.admin().change(&JobChange::cancel(WHY), JobId(job.job_id)).await.unwrap()),
            (0, 1)
        );
        assert_eq!(row(&fixture, job.job_id).await.0, JobState::Claimed);
        assert!(fixture.queue.enqueue(&NewJob::text("x").dedup_key("k")).await.unwrap().duplicate, "it runs");
        assert_eq!(worker.finish(&[end(&job)]).await, []);
        assert_eq!(row(&fixture, job.job_id).await, expected);
        let failed = fixture.queue.admin().attempts(JobId(job.job_id)).await.unwrap();
        let errors: Vec<_> = failed.iter().map(|attempt| attempt.error.as_deref().unwrap()).collect();
        assert_eq!(errors, if end(&job).outcome == 3 { vec![] } else { vec!["no"] });
    }
    // Its attempts are used up.
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let job = worker.claim_one().await;
    fixture.queue.admin().change(&JobChange::cancel(WHY), JobId(job.job_id)).await.unwrap();
    assert_eq!(worker.finish(&[job.retry(0, "no")]).await, [], "it is not dead");
    assert_eq!(row(&fixture, job.job_id).await, expected);

    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let job = worker.claim_one().await;
    fixture.queue.admin().change(&JobChange::cancel(WHY), JobId(job.job_id)).await.unwrap();
    assert_eq!(worker.finish(&[job.done()]).await, []);
    assert_eq!(row(&fixture, job.job_id).await.0, JobState::Done);
    assert_eq!(fixture.job_counts().await, JobCounts { done: 1, cancelled: 5, ..JobCounts::default() });
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_given_back_or_whose_worker_is_lost_is_cancelled_if_that_was_asked_for() {
    let fixture = Fixture::new("cancel_given_back").await;
    fixture.queue.enqueue_many(&["a", "b", "c", "d"].map(NewJob::text)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let jobs = worker.claim(4).await;
    for job in [&jobs[0], &jobs[2]] {
        fixture.queue.admin().change(&JobChange::cancel(WHY), JobId(job.job_id)).await.unwrap();
    }
    assert!(worker.release(&jobs[..2]).await.is_empty(), "both were this worker's");
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 1, claimed: 2, cancelled: 1, ..JobCounts::default() });
    assert_eq!(worker.release(&jobs[..2]).await, [jobs[0].job_id, jobs[1].job_id], "the second time neither is");
    fixture.sql("UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME())").await;
    let reaped = worker.session.row("EXEC [$(schema)].[reap] @queue = N'work'").await;
    assert_eq!((number(&reaped, "jobs_ready"), number(&reaped, "jobs_dead")), (1, 0), "a cancelled one is neither");
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 2, cancelled: 2, ..JobCounts::default() });
    let expected = (JobState::Cancelled, format!("cancelled by {}: {WHY}", login(&fixture).await));
    assert_eq!(row(&fixture, jobs[2].job_id).await, expected);
    // What comes back starts anew.
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobId(jobs[2].job_id)).await.unwrap().changed, 1);
    let mut worker = WorkerSession::register(&fixture).await;
    let again = worker.claim(3).await.into_iter().find(|job| job.job_id == jobs[2].job_id).unwrap();
    assert_eq!(worker.finish(&[again.retry(0, "no")]).await, []);
    assert_eq!(row(&fixture, again.job_id).await, (JobState::Ready, "no".to_string()));
    fixture.remove().await;
}

/// Runs until it is cancelled.
fn endless(started: Arc<AtomicUsize>) -> Handlers {
    Handlers::any(move |_: &Job, context: &Context| -> Result<(), BoxError> {
        started.fetch_add(1, Ordering::AcqRel);
        let give_up = Instant::now() + Duration::from_secs(60);
        while !context.is_cancelled() && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(1));
        }
        Err("stopped".into())
    })
}

/// By a queue of its own, as another program has.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_hears_of_it_with_its_next_heartbeat() {
    let fixture = Fixture::new("cancel_heartbeat").await;
    let config = changed(fixture.config.clone(), |config| {
        config.worker.heartbeat_interval = Duration::from_millis(100);
        config.worker.threads = 2;
    });
    let queue = Queue::connect(&config).await.unwrap();
    let jobs = fixture.queue.enqueue_many(&["x", "y"].map(NewJob::text)).await.unwrap();
    let started = Arc::new(AtomicUsize::new(0));
    let worker = Worker::builder(&queue, endless(started.clone())).start().await.unwrap();
    until("both run", || started.load(Ordering::Acquire) == 2).await;
    assert_eq!(counts(fixture.queue.admin().change(&JobChange::cancel(WHY), jobs[0].job_id).await.unwrap()), (0, 1));
    let cancelled = || worker.stats().cancelled;
    until("one is cancelled", || cancelled() == 1).await;
    assert_eq!(row(&fixture, jobs[0].job_id.0).await.0, JobState::Cancelled);
    assert_eq!(row(&fixture, jobs[1].job_id.0).await.0, JobState::Claimed, "the other is not told");
    fixture.queue.admin().change(&JobChange::cancel(WHY), jobs[1].job_id).await.unwrap();
    let summary = worker.drain().await.unwrap();
    assert_eq!((summary.stats.cancelled, summary.stats.retried, summary.stats.dead), (2, 0, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_of_the_same_process_hears_of_it_at_once() {
    let fixture = Fixture::new("cancel_here").await;
    let config = changed(fixture.config.clone(), |config| {
        config.worker.lease = Duration::from_secs(3_600);
        config.worker.heartbeat_interval = Duration::from_secs(600);
    });
    let queue = Queue::connect(&config).await.unwrap();
    let job = queue.enqueue(&NewJob::text("x")).await.unwrap();
    let started = Arc::new(AtomicUsize::new(0));
    let worker = Worker::builder(&queue, endless(started.clone())).start().await.unwrap();
    until("it runs", || started.load(Ordering::Acquire) == 1).await;
    assert_eq!(counts(queue.clone().admin().change(&JobChange::cancel(WHY), job.job_id).await.unwrap()), (0, 1));
    let summary = worker.drain().await.unwrap();
    assert_eq!(summary.stats.cancelled, 1);
    assert!(summary.elapsed < Duration::from_secs(30), "{:?}", summary.elapsed);
    fixture.remove().await;
}

/// It is claimed, and waits in the worker for a thread.
#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_job_that_has_not_started_does_not_start() {
    let fixture = Fixture::new("cancel_buffered").await;
    let jobs = fixture.queue.enqueue_many(&["x", "y"].map(NewJob::text)).await.unwrap();
    let started = Arc::new(AtomicUsize::new(0));
    let counted = started.clone();
    let handler = move |_: &Job, context: &Context| -> Result<(), BoxError> {
        counted.fetch_add(1, Ordering::AcqRel);
        while !context.is_cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    };
    let config = changed(fixture.config.clone(), |config| {
        config.worker.threads = 1;
        config.worker.buffer = 1;
    });
    let queue = Queue::connect(&config).await.unwrap();
    let worker = Worker::builder(&queue, Handlers::any(handler)).start().await.unwrap();
    until("one runs and one waits", || worker.stats().running == 1 && worker.stats().buffered == 1).await;
    // The worker hears of them in this order: when the first one ends, it knows of the second.
    for job in [&jobs[1], &jobs[0]] {
        assert_eq!(counts(queue.admin().change(&JobChange::cancel(WHY), job.job_id).await.unwrap()), (0, 1));
    }
    let summary = worker.drain().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.released), (1, 1));
    assert_eq!(started.load(Ordering::Acquire), 1);
    assert_eq!(row(&fixture, jobs[1].job_id.0).await.0, JobState::Cancelled);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_match_are_cancelled_however_many() {
    let fixture = Fixture::new("cancel_all").await;
    let mut jobs: Vec<NewJob> = (0..1_500).map(|_| NewJob::text("x").kind("resize")).collect();
    jobs.extend((0..3).map(|_| NewJob::text("x").kind("print")));
    jobs.push(NewJob::text("x").kind("resize").delay(Duration::from_secs(3_600)));
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    worker.claim(2).await;
    let filter = JobFilter::all().kind("resize");
    assert_eq!(
        counts(fixture.queue.admin().change(&JobChange::cancel(WHY), filter.clone()).await.unwrap()),
        (1_499, 2)
    );
    let left = JobCounts { ready: 3, claimed: 2, cancelled: 1_499, ..JobCounts::default() };
    assert_eq!(fixture.job_counts().await, left);
    let ready = JobFilter::from(JobState::Ready);
    assert_eq!(counts(fixture.queue.admin().change(&JobChange::cancel(WHY), ready.clone()).await.unwrap()), (3, 0));
    assert_eq!(
        counts(fixture.queue.admin().change(&JobChange::cancel(WHY), JobFilter::all()).await.unwrap()),
        (0, 2),
        "asked once more"
    );
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused() {
    let fixture = Fixture::new("cancel_refused").await;
    for state in [JobState::Done, JobState::Dead, JobState::Cancelled, JobState::Archived] {
        let error = fixture.queue.admin().change(&JobChange::cancel(WHY), state).await.unwrap_err();
        let expected =
            format!("the filter's state is {state}; it must be one of scheduled, waiting, ready, claimed, or none");
        assert!(matches!(&error, Error::Refused { message, .. } if *message == expected), "{error}");
    }
    let error = fixture.queue.admin().change(&JobChange::cancel("x".repeat(1_001)), JobId(1)).await.unwrap_err();
    assert!(matches!(&error, Error::Refused { message, .. } if message.contains("why")), "{error}");
    assert_eq!(
        counts(fixture.queue.admin().change(&JobChange::cancel("x".repeat(1_000)), JobId(1)).await.unwrap()),
        (0, 0),
        "no such job"
    );
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'other'").await;
    let other = changed(fixture.config.clone(), |config| config.queue.name = "other".into());
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let other = Queue::connect(&other).await.unwrap();
    assert_eq!(
        counts(other.admin().change(&JobChange::cancel(WHY), job.job_id).await.unwrap()),
        (0, 0),
        "another queue's"
    );
    drop(other);
    fixture.remove().await;
}

/// A page is one transaction: a change that is dropped has done whole pages, and can be made again.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_dropped_has_changed_whole_pages() {
    const JOBS: u64 = 3_500;
    let fixture = Fixture::new("dropped_change").await;
    let admin = fixture.queue.admin();
    fixture.queue.enqueue_many(&vec![NewJob::text("x"); JOBS as usize]).await.unwrap();
    let mut session = fixture.session().await;
    // Waits for a page that is under way.
    let cancelled = "SELECT COUNT(*) FROM [$(schema)].[jobs] WITH (TABLOCK, HOLDLOCK) WHERE state = 5";
    let change = JobChange::cancel(WHY);
    let some_are_done = async {
        while session.number("SELECT COUNT(*) FROM [$(schema)].[jobs] WITH (NOLOCK) WHERE state = 5").await == 0 {}
    };
    tokio::select! {
        _ = admin.change(&change, JobState::Ready) => {} // a slow machine
        () = some_are_done => {}
    }
    let before = fixture.session().await.number(cancelled).await as u64;
    assert!(before.is_multiple_of(1_000) || before == JOBS, "{before}"); // the page under way may have been undone
    let after = admin.change(&change, JobState::Ready).await.unwrap().changed;
    assert_eq!(before + after, JOBS);
    fixture.remove().await;
}
