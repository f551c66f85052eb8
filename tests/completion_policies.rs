//! What becomes of a job that is done: deleted, annotated or archived; and of one that is delivered at most once.

use std::time::Duration;

use readpast::NewJob;
use readpast::admin::{CompletionPolicy, Delivery, JobState, QueueOptions};
use uuid::Uuid;

use crate::support::{Claimed, Finish, Fixture, JobCounts, WorkerSession, number};

fn completing(completion: CompletionPolicy) -> QueueOptions {
    QueueOptions::default().completion(completion)
}

fn done_with(job: &Claimed, run_us: i64, output: &[u8]) -> Finish {
    Finish { run_us: Some(run_us), output: Some(output.to_vec()), ..job.done() }
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_leaves_no_trace() {
    let fixture = Fixture::with("delete", completing(CompletionPolicy::Delete)).await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    assert_eq!(worker.finish(&[done_with(&job, 5, b"output")]).await, []);
    assert_eq!(fixture.job_counts().await, JobCounts::default());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn annotate_keeps_the_job_with_its_times_and_output() {
    let fixture = Fixture::with("annotate", completing(CompletionPolicy::Annotate)).await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    assert_eq!(worker.finish(&[done_with(&job, 123_456, b"output")]).await, []);

    assert_eq!(fixture.job_counts().await, JobCounts { done: 1, ..JobCounts::default() });
    let done = fixture.queue.admin().list(&JobState::Done.into(), None, 10).await.unwrap().jobs.remove(0);
    assert_eq!(done.job_id.0, job.job_id);
    assert_eq!(done.run, Some(Duration::from_micros(123_456)));
    assert_eq!(done.output.as_deref(), Some(b"output".as_slice()));
    assert_eq!(done.error, None);
    let times = "SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE enqueued_at <= claimed_at AND claimed_at <= finished_at";
    assert_eq!(fixture.session().await.number(times).await, 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_moves_the_whole_job() {
    let fixture = Fixture::with("archive", completing(CompletionPolicy::Archive)).await;
    let job = NewJob::text("x").priority(-3).dedup_key("key").correlation_id(Uuid::new_v4());
    fixture.queue.enqueue(&job).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let failed = worker.claim_one().await;
    worker.finish(&[failed.retry(0, "the first time")]).await;
    let job = worker.claim_one().await;
    let mut session = fixture.session().await;
    let kept = "job_id, queue_id, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, dedup_key, correlation_id, \
                payload_utf16, payload, error";
    let before = session.row(&format!("SELECT {kept} FROM [$(schema)].[jobs]")).await;

    assert_eq!(worker.finish(&[done_with(&job, 77, b"output")]).await, []);

    assert_eq!(fixture.job_counts().await, JobCounts { archived: 1, ..JobCounts::default() });
    let after = session.row(&format!("SELECT {kept} FROM [$(schema)].[archive]")).await;
    assert_eq!(after.into_iter().collect::<Vec<_>>(), before.into_iter().collect::<Vec<_>>());
    let archived = fixture.queue.admin().list(&JobState::Archived.into(), None, 10).await.unwrap().jobs.remove(0);
    assert_eq!(archived.run, Some(Duration::from_micros(77)));
    assert_eq!(archived.output.as_deref(), Some(b"output".as_slice()));
    assert_eq!(archived.error.as_deref(), Some("the first time"));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_output_and_an_empty_output_are_two_things() {
    for completion in [CompletionPolicy::Annotate, CompletionPolicy::Archive] {
        let state = if completion == CompletionPolicy::Annotate { JobState::Done } else { JobState::Archived };
        let fixture = Fixture::with("empty_output", completing(completion)).await;
        fixture.queue.enqueue_many(&[NewJob::text("none"), NewJob::text("empty")]).await.unwrap();
        let mut worker = WorkerSession::register(&fixture).await;
        let jobs = worker.claim(2).await;
        worker.finish(&[jobs[0].done(), done_with(&jobs[1], 0, b"")]).await;
        let finished = fixture.queue.admin().list(&state.into(), None, 10).await.unwrap().jobs;
        assert_eq!(finished[0].output, None);
        assert_eq!(finished[1].output.as_deref(), Some([].as_slice()));
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_stay_whatever_the_policy() {
    for completion in [CompletionPolicy::Delete, CompletionPolicy::Annotate, CompletionPolicy::Archive] {
        let fixture = Fixture::with("dead_stays", completing(completion)).await;
        fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
        let mut worker = WorkerSession::register(&fixture).await;
        let job = worker.claim_one().await;
        worker.finish(&[job.dead("for good")]).await;
        assert_eq!(fixture.job_counts().await, JobCounts { dead: 1, ..JobCounts::default() });
        let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs.remove(0);
        assert_eq!(dead.error.as_deref(), Some("for good"));
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_at_the_time_of_the_finish_decides() {
    let fixture = Fixture::with("policy_changed", completing(CompletionPolicy::Delete)).await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    fixture.queue.admin().create(completing(CompletionPolicy::Archive)).await.unwrap();
    worker.finish(&[job.done()]).await;
    assert_eq!(fixture.job_counts().await, JobCounts { archived: 1, ..JobCounts::default() });
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_once_deletes_with_the_claim() {
    let options = QueueOptions::default().delivery(Delivery::AtMostOnce);
    let fixture = Fixture::with("at_most_once", options).await;
    let correlation_id = Uuid::new_v4();
    fixture.queue.enqueue(&NewJob::text("x").priority(4).correlation_id(correlation_id)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;

    let job = worker.claim_one().await;

    assert_eq!((job.fence, job.attempt, job.max_attempts, job.priority), (0, 1, 5, 4));
    let details = serde_json::json!({"dedup_key": null, "correlation_id": correlation_id.to_string().to_uppercase(),
                                     "time_limit_ms": null, "checkpointed": false, "headers": null, "batch_id": null,
                                     "group_key": null, "needs": null, "start_by_ms": null,
                                     "has_parents": false});
    assert_eq!((job.payload.as_slice(), job.details), (b"x".as_slice(), details));
    assert_eq!(fixture.job_counts().await, JobCounts::default());
    assert_eq!(worker.claim(10).await, []);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_delivered_at_most_once_cannot_be_finished_or_reaped() {
    let options = QueueOptions::default().delivery(Delivery::AtMostOnce);
    let fixture = Fixture::with("nothing_to_finish", options).await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    assert_eq!(worker.finish(&[job.retry(0, "no")]).await, [(job.job_id, "lost".to_string())]);
    let mut session = fixture.session().await;
    session.sql("UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME())").await;
    let reaped = session.row("EXEC [$(schema)].[reap] @queue = N'work'").await;
    assert_eq!((number(&reaped, "workers_lost"), number(&reaped, "jobs_ready")), (1, 0));
    fixture.remove().await;
}
