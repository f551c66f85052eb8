//! Every failed attempt of a job is kept, as long as the job is.

use std::time::Duration;

use readpast::admin::{CompletionPolicy, JobChange, JobState, QueueOptions};
use readpast::{Fence, Handlers, JobError, JobId, NewJob, Worker};

use crate::support::{Fixture, WorkerSession, changed, literal};

const LOST: &str = "worker a test was lost while it held the job (attempt 2)";

async fn kept(fixture: &Fixture) -> i64 {
    fixture.session().await.number("SELECT COUNT_BIG(*) FROM [$(schema)].[attempts]").await
}

/// Attempt, fence and error of each failed attempt of the job.
async fn attempts(fixture: &Fixture, job_id: i64) -> Vec<(u32, i32, String)> {
    let attempts = fixture.queue.admin().attempts(JobId(job_id)).await.unwrap();
    attempts.into_iter().map(|one| (one.attempt, one.fence.0, one.error.unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_failed_says_when_where_how_long_and_why() {
    let fixture = Fixture::new("attempts").await;
    let job_id = fixture.queue.enqueue(&NewJob::text("x").max_attempts(2)).await.unwrap().job_id;
    let config = changed(fixture.config.clone(), |config| {
        config.worker.name = "the third floor".into();
        config.worker.retry.base = Duration::ZERO;
        config.worker.retry.max = Duration::ZERO;
    });
    let queue = readpast::Queue::connect(&config).await.unwrap();
    let handler = |_: &readpast::Job, context: &readpast::Context| -> Result<(), readpast::BoxError> {
        std::thread::sleep(Duration::from_millis(2));
        Err(JobError::retry(format!("no paper, {}", context.attempt())).into())
    };
    let worker = Worker::builder(&queue, Handlers::any(handler)).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.dead, 1);

    let found = fixture.queue.admin().attempts(job_id).await.unwrap();
    assert_eq!(found.iter().map(|one| (one.attempt, one.fence)).collect::<Vec<_>>(), [(1, Fence(1)), (2, Fence(2))]);
    let job = fixture.queue.admin().job(job_id, None).await.unwrap().unwrap();
    for one in &found {
        assert_eq!(one.worker, "the third floor");
        assert_eq!(Some(one.worker_id), job.worker_id);
        assert!(one.run.unwrap() >= Duration::from_millis(2) && one.run.unwrap() < Duration::from_secs(60), "{one:?}");
        assert!(one.failed_at >= job.enqueued_at, "{one:?}");
        assert_eq!(one.error.as_deref(), Some(format!("no paper, {}", one.attempt).as_str()));
    }
    let json = serde_json::to_value(&found[0]).unwrap();
    assert_eq!(json["worker"], "the third floor");
    assert!(json["run_s"].as_f64().unwrap() >= 0.002 && json["failed_at"].is_string());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_worker_s_attempt_is_kept_and_a_snooze_or_a_release_is_none() {
    let fixture = Fixture::new("attempts_lost").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    assert_eq!(worker.finish(&[job.retry(0, "no paper")]).await, []);
    let job = worker.claim_one().await;
    assert_eq!(worker.finish(&[job.snooze(0, "too early")]).await, []);
    let job = worker.claim_one().await;
    let id = job.job_id;
    worker.release([&job]).await;
    worker.claim_one().await;
    worker.lose(&fixture).await;
    assert_eq!(attempts(&fixture, id).await, [(1, 1, "no paper".to_string()), (2, 4, LOST.to_string())]);
    assert_eq!(fixture.queue.admin().attempts(JobId(id)).await.unwrap()[1].run, None);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_20_stay_also_over_a_requeue() {
    let fixture = Fixture::new("attempts_20").await;
    fixture.queue.enqueue_many(&[NewJob::text("x").max_attempts(99), NewJob::text("y")]).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    for round in 0..22 {
        let jobs = worker.claim(2).await;
        let finish: Vec<_> = jobs.iter().map(|job| job.dead(&format!("{} {round}", job.job_id))).collect();
        assert_eq!(worker.finish(&finish).await, []);
        assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 2);
    }
    for job_id in fixture.session().await.numbers("SELECT job_id FROM [$(schema)].[jobs]").await {
        let expected: Vec<_> = (2..22).map(|round| (1, round + 1, format!("{job_id} {round}"))).collect();
        assert_eq!(attempts(&fixture, job_id).await, expected);
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_done_job_keeps_its_failed_attempts_where_the_queue_keeps_the_job() {
    for (completion, expected) in
        [(CompletionPolicy::Delete, 0), (CompletionPolicy::Annotate, 1), (CompletionPolicy::Archive, 1)]
    {
        let options = QueueOptions::default().completion(completion);
        let fixture = Fixture::with("attempts_done", options).await;
        fixture.queue.enqueue_many(&[NewJob::text("x"), NewJob::text("y")]).await.unwrap();
        let mut worker = WorkerSession::register(&fixture).await;
        let first = worker.claim_one().await;
        assert_eq!(worker.finish(&[first.retry(0, "no paper")]).await, []);
        let both = worker.claim(2).await;
        assert_eq!(worker.finish(&both.iter().map(|job| job.done()).collect::<Vec<_>>()).await, []);
        assert_eq!(kept(&fixture).await, expected, "{completion:?}");
        assert_eq!(attempts(&fixture, first.job_id).await.len() as i64, expected, "{completion:?}");
        fixture.remove().await;
    }
}

/// What is refused as too late has not happened.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_acknowledgement_is_no_attempt() {
    let fixture = Fixture::new("attempts_late").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    assert_eq!(worker.finish(&[job.retry(0, "no paper")]).await, []);
    assert_eq!(worker.finish(&[job.retry(0, "no paper")]).await, [(job.job_id, "lost".to_string())]);
    assert_eq!(kept(&fixture).await, 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_go_with_their_job_when_it_is_purged_or_expires() {
    for completion in [CompletionPolicy::Annotate, CompletionPolicy::Archive] {
        for expires in [false, true] {
            let fixture = Fixture::with("attempts_purged", QueueOptions::default().completion(completion)).await;
            fixture.queue.enqueue_many(&["x", "y", "z"].map(NewJob::text)).await.unwrap();
            let mut worker = WorkerSession::register(&fixture).await;
            let jobs = worker.claim(3).await;
            assert_eq!(worker.finish(&jobs.iter().map(|job| job.retry(0, "no")).collect::<Vec<_>>()).await, []);
            let jobs = worker.claim(2).await;
            assert_eq!(worker.finish(&[jobs[0].done(), jobs[1].dead("no paper")]).await, []);
            assert_eq!(kept(&fixture).await, 4);
            if expires {
                for table in ["jobs", "archive"] {
                    let hour = "SET finished_at = DATEADD(HOUR, -1, finished_at)";
                    fixture.sql(&format!("UPDATE [$(schema)].[{table}] {hour}")).await;
                }
                let keep = "EXEC [$(schema)].[create_queue] @queue = N'work', @keep_done_s = 60, @keep_dead_s = 60";
                fixture.sql(keep).await;
                let expired = fixture.session().await.number("EXEC [$(schema)].[expire] @queue = N'work'").await;
                assert_eq!(expired, 2);
            } else {
                let state = if completion == CompletionPolicy::Archive { JobState::Archived } else { JobState::Done };
                for state in [state, JobState::Dead] {
                    assert_eq!(
                        fixture.queue.admin().change(&JobChange::Purge, state).await.unwrap().changed,
                        1,
                        "{state}"
                    );
                }
            }
            assert_eq!(kept(&fixture).await, 1, "{completion:?}, expires: {expires}");
            assert_eq!(fixture.queue.admin().change(&JobChange::Purge, JobState::Ready).await.unwrap().changed, 1);
            assert_eq!(kept(&fixture).await, 0, "{completion:?}, expires: {expires}");
            fixture.remove().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_attempts_of_another_queue_s_job_are_not_shown() {
    let fixture = Fixture::new("attempts_of").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    assert_eq!(worker.finish(&[job.dead("no paper")]).await, []);
    fixture.sql(&format!("EXEC [$(schema)].[create_queue] @queue = {}", literal("other"))).await;
    let other = changed(fixture.config.clone(), |config| config.queue.name = "other".into());
    let other = readpast::Queue::connect(&other).await.unwrap();
    assert_eq!(other.admin().attempts(JobId(job.job_id)).await.unwrap(), []);
    assert_eq!(fixture.queue.admin().attempts(JobId(job.job_id)).await.unwrap().len(), 1);
    drop(other);
    fixture.remove().await;
}
