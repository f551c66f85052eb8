//! In a queue with `halt_groups`, no job of a group starts behind a dead one, until that is requeued, skipped or deleted.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use readpast::admin::{JobChange, JobState, Keep, QueueOptions};
use readpast::{Handlers, JobError, JobId, NewJob, Worker};

use crate::groups::enqueue;
use crate::support::counted::drained;
use crate::support::{Fixture, WorkerSession};

const NONE: [i64; 0] = [];

async fn halting(test_name: &str) -> Fixture {
    Fixture::with(test_name, QueueOptions::default().halt_groups(true).max_attempts(1)).await
}

async fn claim(worker: &mut WorkerSession) -> Vec<i64> {
    worker.claim(10).await.iter().map(|job| job.job_id).collect()
}

/// Claims the jobs that are ready, which must be these, and ends them as dead.
async fn die(worker: &mut WorkerSession, jobs: &[i64]) {
    let claimed = worker.claim(10).await;
    assert_eq!(claimed.iter().map(|job| job.job_id).collect::<Vec<_>>(), jobs);
    let dead: Vec<_> = claimed.iter().map(|job| job.dead("it fails")).collect();
    worker.finish(&dead).await;
}

async fn halts(fixture: &Fixture, job_id: i64) -> bool {
    fixture.queue.admin().job(JobId(job_id), None).await.unwrap().unwrap().halts_group
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_behind_a_dead_one_wait_until_it_is_requeued_and_run_after_it() {
    let fixture = halting("halts").await;
    let jobs = enqueue(&fixture, &["a", "a", "b", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    die(&mut worker, &[jobs[0], jobs[2]]).await;
    assert_eq!(claim(&mut worker).await, NONE, "b has no other");
    assert!(halts(&fixture, jobs[0]).await && halts(&fixture, jobs[2]).await);
    let later = enqueue(&fixture, &["b", "c"]).await;
    assert_eq!(claim(&mut worker).await, [later[1]], "new jobs of a halted group wait, too");

    let admin = fixture.queue.admin();
    assert_eq!(admin.change(&JobChange::Requeue, JobId(jobs[0])).await.unwrap().changed, 1);
    assert!(!halts(&fixture, jobs[0]).await);
    for job_id in [jobs[0], jobs[1], jobs[3]] {
        let claimed = worker.claim(10).await;
        assert_eq!(claimed.iter().map(|job| job.job_id).collect::<Vec<_>>(), [job_id]);
        worker.finish(&[claimed[0].done()]).await;
    }
    assert_eq!(claim(&mut worker).await, NONE);
    // All dead jobs, by a filter, as an operator does after a repair.
    assert_eq!(admin.change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 1);
    assert_eq!(claim(&mut worker).await, [jobs[2]]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_job_that_is_skipped_or_deleted_passes_its_turn_on() {
    let fixture = halting("skips").await;
    let jobs = enqueue(&fixture, &["a", "a", "a", "a", "a"]).await;
    let admin = fixture.queue.admin();
    let mut worker = WorkerSession::register(&fixture).await;
    die(&mut worker, &jobs[..1]).await;
    assert_eq!(admin.change(&JobChange::Skip, JobId(jobs[0])).await.unwrap().changed, 1);
    assert_eq!(admin.change(&JobChange::Skip, JobId(jobs[0])).await.unwrap().changed, 0, "it halts nothing any more");
    die(&mut worker, &jobs[1..2]).await;
    assert_eq!(
        admin.change(&JobChange::Skip, &jobs.iter().copied().map(JobId).collect::<Vec<_>>()).await.unwrap().changed,
        1
    );
    die(&mut worker, &jobs[2..3]).await;
    assert_eq!(admin.change(&JobChange::Purge, JobId(jobs[2])).await.unwrap().changed, 1);
    die(&mut worker, &jobs[3..4]).await;

    // Requeued after it was skipped, a job gives no turn away that it no longer has.
    assert_eq!(admin.change(&JobChange::Requeue, JobId(jobs[0])).await.unwrap().changed, 1);
    assert_eq!(claim(&mut worker).await, NONE, "the group is still halted");
    assert_eq!(admin.change(&JobChange::Skip, JobState::Dead).await.unwrap().changed, 1);
    assert_eq!(claim(&mut worker).await, [jobs[0]]);
    let stats = admin.stats(None).await.unwrap();
    assert_eq!((stats.dead, stats.waiting), (2, 1));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_also_halts_when_a_workers_loss_ends_its_job() {
    let fixture = halting("halts_lost").await;
    let jobs = enqueue(&fixture, &["a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(claim(&mut worker).await, jobs[..1]);
    worker.lose(&fixture).await;
    fixture.sql("EXEC [$(schema)].[reap] @queue = N'work'").await;
    let mut alone = WorkerSession::register(&fixture).await;
    assert_eq!(alone.claim_alone(10).await.iter().map(|job| job.job_id).collect::<Vec<_>>(), jobs[..1]);
    alone.lose(&fixture).await;
    fixture.sql("EXEC [$(schema)].[reap] @queue = N'work'").await;
    assert!(halts(&fixture, jobs[0]).await);
    let mut other = WorkerSession::register(&fixture).await;
    assert_eq!(claim(&mut other).await, NONE);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_halts_its_group_is_kept_longer_than_other_dead_ones() {
    let options = QueueOptions::default().halt_groups(true).keep_dead(Keep::For(Duration::from_secs(1)));
    let fixture = Fixture::with("halts_kept", options).await;
    let jobs = enqueue(&fixture, &["a", "a"]).await;
    let plain = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id.0;
    let mut worker = WorkerSession::register(&fixture).await;
    die(&mut worker, &[jobs[0], plain]).await;
    let expire = "UPDATE [$(schema)].[jobs] SET finished_at = '20260101' WHERE state = 4;
                  EXEC [$(schema)].[expire] @queue = N'work'";
    fixture.sql(expire).await;
    assert!(halts(&fixture, jobs[0]).await);
    assert_eq!(fixture.job_counts().await.dead, 1);
    fixture.queue.admin().change(&JobChange::Skip, JobId(jobs[0])).await.unwrap();
    fixture.sql(expire).await;
    assert_eq!(fixture.job_counts().await.dead, 0);
    fixture.remove().await;
}

/// A worker that could run several jobs of a group one after the other, and drains the queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_starts_nothing_behind_a_dead_job_and_its_drain_ends() {
    let fixture = halting("halts_run").await;
    let keys: Vec<&str> = ["a"; 20].into_iter().chain(["b"; 20]).collect();
    let jobs = enqueue(&fixture, &keys).await;
    let started = Arc::new(Mutex::new(Vec::new()));
    let (seen, fails) = (started.clone(), jobs[4]);
    let handlers = Handlers::any(move |job, _| {
        seen.lock().push(job.id().0);
        if job.id().0 == fails { Err(JobError::dead("it fails").into()) } else { Ok(()) }
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let summary = drained(worker).await;
    // Also after the setting has changed: the group stays halted.
    fixture.queue.admin().create(QueueOptions::default().halt_groups(false)).await.unwrap();
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    assert_eq!(drained(worker).await.stats.done, 0);
    assert_eq!((summary.stats.done, summary.stats.dead), (24, 1));
    let mut started = started.lock().clone();
    started.sort_unstable();
    assert_eq!(started, [&jobs[..5], &jobs[20..]].concat());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_setting_the_next_job_has_its_turn() {
    let fixture = Fixture::with("halts_not", QueueOptions::default().max_attempts(1)).await;
    let jobs = enqueue(&fixture, &["a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    die(&mut worker, &jobs[..1]).await;
    assert!(!halts(&fixture, jobs[0]).await);
    assert_eq!(claim(&mut worker).await, jobs[1..]);
    fixture.remove().await;
}

/// A worker could start them before the first one's end is confirmed.
#[tokio::test(flavor = "multi_thread")]
async fn no_claim_takes_the_jobs_behind_one_that_may_halt_them() {
    let fixture = halting("halts_runs").await;
    let jobs = enqueue(&fixture, &["a", "a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim_runs(10, 1, 10).await;
    assert_eq!(claimed.iter().map(|job| job.job_id).collect::<Vec<_>>(), jobs[..1]);
    fixture.remove().await;
}
