//! What operators do to single jobs and groups of them: run one now, put some forwards or back, mend one's payload.

use std::time::Duration;

use readpast::admin::{CompletionPolicy, JobChange, JobFilter, JobState, QueueOptions};
use readpast::{Error, Handlers, JobId, Needs, NewBatch, NewJob, Worker};
use uuid::Uuid;

use crate::support::{Claimed, Fixture, JobCounts, WorkerSession};

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_job_runs_now_if_told_so() {
    let fixture = Fixture::new("promote_now").await;
    let queue = &fixture.queue;
    let mut worker = WorkerSession::register(&fixture).await;
    // The marks stand beyond the scheduled one.
    let delayed = queue.enqueue(&NewJob::text("x").delay(HOUR)).await.unwrap().job_id;
    queue.enqueue_many(&crate::support::numbers(200)).await.unwrap();
    let jobs = worker.claim(1_000).await;
    worker.finish(&jobs.iter().map(|job| job.done()).collect::<Vec<_>>()).await;
    let raise = "UPDATE [$(schema)].[marks] SET job_id = 150";
    fixture.sql(raise).await;
    assert_eq!(worker.claim(1).await, []);
    assert!(queue.admin().change(&JobChange::Promote, delayed).await.unwrap().changed > 0);
    let job = worker.claim_one().await;
    assert_eq!((job.job_id, job.waited_ms < 60_000), (delayed.0, true));
    assert!(!queue.admin().change(&JobChange::Promote, delayed).await.unwrap().changed > 0, "it runs");
    assert!(!queue.admin().change(&JobChange::Promote, JobId(4_711)).await.unwrap().changed > 0, "there is none");
    // One that waits for its next attempt, too.
    assert_eq!(worker.finish(&[job.retry(3_600_000, "no")]).await, []);
    assert!(queue.admin().change(&JobChange::Promote, delayed).await.unwrap().changed > 0);
    assert_eq!(worker.claim_one().await.attempt, 2);
    fixture.remove().await;
}

/// More than one call takes; with groups, of which each lets one run; and other jobs among them.
#[tokio::test(flavor = "multi_thread")]
async fn many_scheduled_jobs_run_now_if_told_so() {
    let fixture = Fixture::new("promote_many").await;
    let queue = &fixture.queue;
    let ready = queue.enqueue(&NewJob::text("x").priority(9)).await.unwrap().job_id;
    let late = |number: usize| {
        let job = NewJob::text("x").delay(HOUR);
        if number < 10 { job.group_key(["a", "b"][number % 2]) } else { job }
    };
    let jobs: Vec<NewJob> = (0..1_100).map(late).collect();
    let mut ids: Vec<JobId> = queue.enqueue_many(&jobs).await.unwrap().iter().map(|job| job.job_id).collect();
    ids.push(ready);
    ids.push(JobId(4_711_000));
    assert_eq!(queue.admin().change(&JobChange::Promote, &ids).await.unwrap().changed, 1_100);
    assert_eq!(
        queue.admin().change(&JobChange::Promote, &ids).await.unwrap().changed,
        0,
        "they are not scheduled any more"
    );
    let stats = queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.scheduled, stats.waiting, stats.ready), (0, 8, 1_093));
    // By filter.
    queue.enqueue_many(&jobs[1_000..]).await.unwrap();
    let mut pages = queue.admin().matching(&JobFilter::all(), JobChange::Promote).unwrap();
    let mut promoted = 0;
    while let Some(page) = pages.next().await.unwrap() {
        promoted += queue.admin().change(&JobChange::Promote, page).await.unwrap().changed;
    }
    assert_eq!((promoted, queue.admin().stats(None).await.unwrap().scheduled), (100, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_of_the_same_process_runs_it_at_once() {
    let fixture = Fixture::new("promote_here").await;
    let config =
        crate::support::changed(fixture.config.clone(), |config| config.worker.poll_max = Duration::from_secs(3_600));
    let queue = readpast::Queue::connect(&config).await.unwrap();
    let job = queue.enqueue(&NewJob::text("x").delay(HOUR)).await.unwrap().job_id;
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    assert!(queue.admin().change(&JobChange::Promote, job).await.unwrap().changed > 0);
    crate::support::until("it is done", || worker.stats().done == 1).await;
    worker.drain().await.unwrap();
    fixture.remove().await;
}

/// Up and down, over several pages, and past where claims begin.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_with_another_priority_are_claimed_by_it() {
    let fixture = Fixture::new("set_priority").await;
    let queue = &fixture.queue;
    let mut worker = WorkerSession::register(&fixture).await;
    queue.enqueue(&NewJob::text("first").priority(5)).await.unwrap();
    let held = worker.claim_one().await;
    let mut jobs: Vec<NewJob> = (0..1_200).map(|_| NewJob::text("x").kind("late")).collect();
    jobs.extend((0..3).map(|_| NewJob::text("x").kind("soon").priority(9)));
    jobs.push(NewJob::text("x").kind("soon").delay(HOUR));
    queue.enqueue_many(&jobs).await.unwrap();
    fixture.sql("UPDATE [$(schema)].[marks] SET job_id = 100000").await;
    assert_eq!(
        queue.admin().change(&JobChange::SetPriority(5), JobFilter::all().kind("late")).await.unwrap().changed,
        1_200
    );
    assert_eq!(
        queue.admin().change(&JobChange::SetPriority(5), JobFilter::all().kind("late")).await.unwrap().changed,
        0,
        "they have it"
    );
    assert_eq!(
        queue.admin().change(&JobChange::SetPriority(-1), JobFilter::all().kind("soon")).await.unwrap().changed,
        4
    );
    let claimed = worker.claim(3).await;
    assert!(claimed.iter().all(|job| job.priority == -1), "{claimed:?}");
    assert_eq!(worker.claim(1_000).await.len(), 1_000);
    assert_eq!(worker.claim(1_000).await.len(), 200);
    // A running one has it when it comes back.
    assert_eq!(queue.admin().change(&JobChange::SetPriority(2), JobState::Claimed).await.unwrap().changed, 1_204);
    assert_eq!(worker.finish(&[held.retry(0, "no")]).await, []);
    assert_eq!(worker.claim_one().await.priority, 2);
    let error = queue.admin().change(&JobChange::SetPriority(1), JobState::Dead).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_job_comes_back_with_another_payload() {
    let fixture = Fixture::new("requeue_with").await;
    let queue = &fixture.queue;
    let jobs = queue.enqueue_many(&[NewJob::text("wrong").dedup_key("k"), NewJob::text("wrong")]).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(2).await;
    assert!(!queue.admin().requeue_with(jobs[0].job_id, "right").await.unwrap(), "it runs");
    assert_eq!(worker.finish(&claimed.iter().map(|job| job.dead("no")).collect::<Vec<_>>()).await, []);
    // Its key is taken: it stays dead, as it was.
    let other = queue.enqueue(&NewJob::text("other").dedup_key("k")).await.unwrap();
    assert!(!queue.admin().requeue_with(jobs[0].job_id, "right").await.unwrap());
    assert_eq!(queue.admin().job(jobs[0].job_id, None).await.unwrap().unwrap().payload, b"wrong");
    queue.admin().change(&JobChange::cancel(""), other.job_id).await.unwrap();
    assert!(queue.admin().requeue_with(jobs[0].job_id, "right").await.unwrap());
    assert_eq!(worker.claim_one().await.payload, b"right");
    assert!(queue.admin().requeue_with(jobs[1].job_id, vec![7; 100_000]).await.unwrap());
    assert_eq!(worker.claim_one().await.payload, vec![7; 100_000]);
    // A cancelled one as well; text, from a tool.
    let cancelled = queue.enqueue(&NewJob::text("wrong")).await.unwrap().job_id;
    queue.admin().change(&JobChange::cancel(""), cancelled).await.unwrap();
    let requeue = format!("EXEC [$(schema)].[requeue] @queue = N'work', @job_id = {cancelled}, @text = N'rights'");
    assert_eq!(fixture.session().await.number(&requeue).await, 1);
    let job = worker.claim_one().await;
    assert!(job.payload_utf16 && job.payload.len() == 12);
    assert_eq!(fixture.job_counts().await, JobCounts { claimed: 3, cancelled: 1, ..JobCounts::default() });
    let mut session = fixture.session().await;
    for parameters in ["@payload = 0x01", "@job_id = 1, @payload = 0x01, @text = N'x'"] {
        let call = format!("EXEC [$(schema)].[requeue] @queue = N'work', {parameters}");
        assert_eq!(session.refusal(&call).await.0, 58003, "{parameters}");
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_done_job_runs_again_as_a_new_job() {
    for completion in [CompletionPolicy::Annotate, CompletionPolicy::Archive] {
        let fixture = Fixture::with("run_again", QueueOptions::default().completion(completion)).await;
        let batch = fixture.queue.create_batch(&NewBatch::new()).await.unwrap();
        let correlation_id = Uuid::new_v4();
        let job = NewJob::text("x")
            .kind("k")
            .priority(3)
            .dedup_key("key")
            .group_key("g")
            .correlation_id(correlation_id)
            .header("tenant", "acme")
            .time_limit(Duration::from_secs(5))
            .needs(Needs::new().memory(7))
            .batch(batch);
        let (first, plain) =
            (fixture.queue.enqueue(&job).await.unwrap(), fixture.queue.enqueue(&NewJob::text("plain")).await.unwrap());
        let admin = fixture.queue.admin();
        assert_eq!(admin.run_again(first.job_id).await.unwrap(), None, "it is not done");
        let mut worker = WorkerSession::register(&fixture).await;
        let claimed = worker.claim(2).await;
        worker.finish(&claimed.iter().map(Claimed::done).collect::<Vec<_>>()).await;

        let again = admin.run_again(first.job_id).await.unwrap().unwrap();
        assert!(again.job_id > plain.job_id && !again.duplicate);
        let duplicate = admin.run_again(first.job_id).await.unwrap().unwrap();
        assert_eq!((duplicate.job_id, duplicate.duplicate), (again.job_id, true));
        let row = admin.job(again.job_id, None).await.unwrap().unwrap();
        assert_eq!((row.payload.as_slice(), row.payload_utf16, row.priority), (&b"x"[..], false, 3));
        assert_eq!((row.kind.as_deref(), row.dedup_key.as_deref()), (Some("k"), Some("key")));
        assert_eq!((row.group_key.as_deref(), row.batch_id), (Some("g"), None));
        assert_eq!((row.correlation_id, row.time_limit), (Some(correlation_id), Some(Duration::from_secs(5))));
        assert_eq!(row.needs, Some(Needs::new().memory(7)));
        let headers = |first: JobId| serde_json::json!({"readpast-run-again": first.to_string(), "tenant": "acme"});
        assert_eq!(serde_json::Value::Object(row.headers.unwrap()), headers(first.job_id));

        // What ran again can run again, and a list can.
        let claimed = worker.claim_one().await;
        worker.finish(&[claimed.done()]).await;
        let third = admin.run_again(again.job_id).await.unwrap().unwrap().job_id;
        let row = admin.job(third, None).await.unwrap().unwrap();
        assert_eq!(serde_json::Value::Object(row.headers.unwrap()), headers(again.job_id));
        let all = [first.job_id, plain.job_id, again.job_id, third, JobId(4_711)];
        assert_eq!(admin.change(&JobChange::RunAgain, &all[..]).await.unwrap().changed, 1, "the others have the key");
        let mut claimed: Vec<_> = worker.claim(10).await.into_iter().map(|job| job.payload).collect();
        claimed.sort_unstable();
        assert_eq!(claimed, [b"plain".to_vec(), b"x".to_vec()]);
        fixture.remove().await;
    }
}
