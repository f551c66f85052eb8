//! Jobs that wait for other jobs: each starts once, after its parents and never before, and none waits for ever.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use readpast::admin::{CompletionPolicy, Delivery, JobChange, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::transaction::enqueue_in;
use readpast::{Handlers, JobEnd, JobError, JobId, NewBatch, NewJob, OnDead, Output, Parent, Worker};

use crate::support::counted::{assert_each_once, counting_worker, drained};
use crate::support::{Fixture, WorkerSession, number};

const NONE: [i64; 0] = [];

async fn claim(worker: &mut WorkerSession) -> Vec<i64> {
    let mut jobs: Vec<i64> = worker.claim(100).await.iter().map(|job| job.job_id).collect();
    jobs.sort_unstable();
    jobs
}

/// Claims the jobs that are ready, which must be these, and finishes them as done.
async fn run(worker: &mut WorkerSession, jobs: &[JobId]) {
    let mut claimed = worker.claim(100).await;
    claimed.sort_unstable_by_key(|job| job.job_id);
    assert_eq!(claimed.iter().map(|job| JobId(job.job_id)).collect::<Vec<_>>(), jobs);
    worker.finish(&claimed.iter().map(|job| job.done()).collect::<Vec<_>>()).await;
}

/// The same, as dead.
async fn die(worker: &mut WorkerSession, jobs: &[JobId]) {
    let mut claimed = worker.claim(100).await;
    claimed.sort_unstable_by_key(|job| job.job_id);
    assert_eq!(claimed.iter().map(|job| JobId(job.job_id)).collect::<Vec<_>>(), jobs);
    worker.finish(&claimed.iter().map(|job| job.dead("it fails")).collect::<Vec<_>>()).await;
}

async fn enqueued(fixture: &Fixture, jobs: &[NewJob]) -> Vec<JobId> {
    fixture.queue.enqueue_many(jobs).await.unwrap().iter().map(|job| job.job_id).collect()
}

async fn state_and_error(fixture: &Fixture, job_id: JobId) -> (JobState, String) {
    let job = fixture.queue.admin().job(job_id, None).await.unwrap().unwrap();
    (job.state, job.error.unwrap_or_default())
}

async fn state(fixture: &Fixture, job_id: JobId) -> JobState {
    state_and_error(fixture, job_id).await.0
}

/// What is left of edges.
async fn left(fixture: &Fixture) -> i64 {
    let sql = "SELECT (SELECT COUNT(*) FROM [$(schema)].[edges]) + (SELECT COUNT(*) FROM [$(schema)].[edge_events])";
    number(&fixture.sql(sql).await[0], 0)
}

fn job() -> NewJob {
    NewJob::text("")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_starts_when_its_last_parent_is_done_and_leaves_nothing() {
    let fixture = Fixture::new("edges_diamond").await;
    // A diamond in one call, and a job behind it in a call of its own.
    let jobs = enqueued(
        &fixture,
        &[job(), job().after_earlier([0]), job().after_earlier([0, 0]), job().after_earlier([1, 2]).after_earlier([0])],
    )
    .await;
    let last = fixture.queue.enqueue(&job().after([jobs[3], jobs[1]])).await.unwrap().job_id;
    let mut worker = WorkerSession::register(&fixture).await;
    run(&mut worker, &jobs[..1]).await;
    run(&mut worker, &jobs[1..3]).await;
    run(&mut worker, &jobs[3..4]).await;
    run(&mut worker, &[last]).await;
    assert_eq!(claim(&mut worker).await, NONE);
    assert_eq!(left(&fixture).await, 0);

    // Parents that have ended, whether their rows are there or not.
    let after_all = fixture.queue.enqueue(&job().after(jobs)).await.unwrap().job_id;
    run(&mut worker, &[after_all]).await;
    assert_eq!(left(&fixture).await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_parent_holds_its_children_as_they_say() {
    let fixture = Fixture::with("edges_dead", QueueOptions::default().max_attempts(1)).await;
    let jobs = enqueued(
        &fixture,
        &[
            job(),
            job().after_earlier([0]),
            job().after_earlier([0]).on_dead(OnDead::Cancel),
            job().after_earlier([0]).on_dead(OnDead::Run),
            job().after_earlier([2]),
            job().after_earlier([2]).on_dead(OnDead::Run),
        ],
    )
    .await;
    let mut worker = WorkerSession::register(&fixture).await;
    die(&mut worker, &jobs[..1]).await;
    assert_eq!(state(&fixture, jobs[1]).await, JobState::Waiting);
    let reason = |parent: JobId, what: &str| format!("cancelled: it waited for job {parent}, which {what}");
    assert_eq!(state_and_error(&fixture, jobs[2]).await, (JobState::Cancelled, reason(jobs[0], "is dead")));
    assert_eq!(
        state_and_error(&fixture, jobs[4]).await,
        (JobState::Cancelled, reason(jobs[2], "was cancelled or deleted"))
    );
    run(&mut worker, &[jobs[3], jobs[5]]).await;

    let edges = fixture.queue.admin().edges(jobs[0], 1_000).await.unwrap();
    let children: Vec<_> = edges.children.iter().map(|edge| (edge.job_id, edge.on_dead, edge.ended)).collect();
    assert_eq!(
        children,
        [(jobs[1], OnDead::Hold, None), (jobs[2], OnDead::Cancel, Some(JobState::Dead))],
        "the edge of a job that is gone is gone"
    );
    let parents = fixture.queue.admin().edges(jobs[1], 1_000).await.unwrap().parents;
    assert_eq!((parents[0].job_id, parents[0].state), (jobs[0], Some(JobState::Dead)));

    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, jobs[0]).await.unwrap().changed, 1);
    run(&mut worker, &jobs[..1]).await;
    run(&mut worker, &jobs[1..2]).await;
    assert_eq!(claim(&mut worker).await, NONE);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_ends_or_deletes_a_parent_cancels_what_waits_for_it() {
    let fixture = Fixture::with("edges_cancel", QueueOptions::default().max_attempts(1)).await;
    let admin = fixture.queue.admin();
    let mut worker = WorkerSession::register(&fixture).await;
    let chain = [job(), job().after_earlier([0]), job().after_earlier([1])];
    let cancelled = async |jobs: &[JobId]| {
        for job_id in &jobs[1..] {
            assert_eq!(state(&fixture, *job_id).await, JobState::Cancelled);
        }
    };
    // What the calls of workers leave to promote.
    let promote = async || fixture.sql("EXEC [$(schema)].[promote] N'work'").await;

    let jobs = enqueued(&fixture, &chain).await;
    assert_eq!(admin.change(&JobChange::Cancel { why: String::new() }, jobs[0]).await.unwrap().changed, 1);
    cancelled(&jobs).await;

    let jobs = enqueued(&fixture, &chain).await;
    assert_eq!(admin.change(&JobChange::Purge, jobs[0]).await.unwrap().changed, 1);
    cancelled(&jobs).await;

    // Dead and then deleted, by an operator or by age.
    for purge in [true, false] {
        let jobs = enqueued(&fixture, &chain).await;
        die(&mut worker, &jobs[..1]).await;
        if purge {
            assert_eq!(admin.change(&JobChange::Purge, jobs[0]).await.unwrap().changed, 1);
        } else {
            fixture
                .sql("UPDATE [$(schema)].[queues] SET keep_dead_s = 1; UPDATE [$(schema)].[jobs] SET finished_at = '2026-01-01' WHERE state = 4; EXEC [$(schema)].[expire] N'work'")
                .await;
            promote().await;
        }
        cancelled(&jobs).await;
    }

    // Cancelled while it runs, given back by a lost worker, and expired.
    let jobs = enqueued(&fixture, &chain).await;
    let claimed = worker.claim(10).await;
    assert_eq!(admin.change(&JobChange::Cancel { why: String::new() }, jobs[0]).await.unwrap().requested, 1);
    worker.release(&claimed).await;
    promote().await;
    cancelled(&jobs).await;

    let jobs = enqueued(&fixture, &chain).await;
    worker.claim(10).await;
    assert_eq!(admin.change(&JobChange::Cancel { why: String::new() }, jobs[0]).await.unwrap().requested, 1);
    worker.lose(&fixture).await;
    promote().await;
    cancelled(&jobs).await;

    let mut expiring = chain.clone();
    expiring[0] = job().start_by(std::time::SystemTime::UNIX_EPOCH);
    let jobs = enqueued(&fixture, &expiring).await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(claim(&mut worker).await, NONE);
    promote().await;
    cancelled(&jobs).await;

    // The parent's queue is deleted.
    let other = fixture.queue.named("other").unwrap();
    other.admin().create(QueueOptions::default()).await.unwrap();
    let parent = other.enqueue(&job()).await.unwrap().job_id;
    let child = fixture.queue.enqueue(&job().after([parent])).await.unwrap().job_id;
    other.admin().delete(true).await.unwrap();
    cancelled(&[parent, child]).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_waits_for_its_due_time_and_its_turn_too_and_counts_in_its_batch() {
    let fixture = Fixture::new("edges_turns").await;
    let batch = fixture.queue.create_batch(&NewBatch::new().then(NewJob::text("all ended"))).await.unwrap();
    let jobs = enqueued(
        &fixture,
        &[
            job().batch(batch),
            job().after_earlier([0]).delay(Duration::from_secs(3_600)).batch(batch),
            job().after_earlier([0]).group_key("g").batch(batch),
            // Nobody waits in the group for the one before.
            job().group_key("g").batch(batch),
            job().group_key("g").batch(batch),
        ],
    )
    .await;
    fixture.queue.seal_batch(batch).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    run(&mut worker, &[jobs[0], jobs[3]]).await;
    assert_eq!(state(&fixture, jobs[1]).await, JobState::Scheduled);
    assert_eq!(state(&fixture, jobs[2]).await, JobState::Waiting, "the turn was given to one that could take it");
    run(&mut worker, &jobs[4..]).await;
    run(&mut worker, &jobs[2..3]).await;
    assert_eq!(
        fixture.queue.admin().change(&JobChange::Cancel { why: String::new() }, jobs[1]).await.unwrap().changed,
        1
    );
    let follow_up = worker.claim(10).await;
    assert_eq!(follow_up.len(), 1, "the batch has ended");
    assert_eq!(follow_up[0].payload, b"all ended");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_child_ends_its_batch_and_is_not_woken_after_it_is_requeued() {
    let fixture = Fixture::new("edges_requeued").await;
    let batch = fixture.queue.create_batch(&NewBatch::new().then(NewJob::text("all ended"))).await.unwrap();
    let jobs = enqueued(&fixture, &[job(), job(), job().after_earlier([0, 1]).batch(batch)]).await;
    fixture.queue.seal_batch(batch).await.unwrap();
    let admin = fixture.queue.admin();
    assert_eq!(admin.change(&JobChange::Cancel { why: String::new() }, jobs[0]).await.unwrap().changed, 1);
    assert_eq!(state(&fixture, jobs[2]).await, JobState::Cancelled);
    // Requeued by hand, it waits for nobody.
    assert_eq!(admin.change(&JobChange::Requeue, jobs[2]).await.unwrap().changed, 1);
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(10).await;
    assert_eq!(claimed.len(), 3, "and the follow-up of the batch, which has ended");
    worker.finish(&claimed.iter().map(|job| job.done()).collect::<Vec<_>>()).await;
    assert_eq!(claim(&mut worker).await, NONE);
    assert_eq!(admin.change(&JobChange::Purge, jobs[0]).await.unwrap().changed, 1);
    assert_eq!(left(&fixture).await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_was_dead_before_its_first_child_came_releases_it_when_it_is_done() {
    for dead in [true, false] {
        let fixture = Fixture::with("edges_late", QueueOptions::default().max_attempts(1)).await;
        let other = fixture.queue.named("other").unwrap();
        other.admin().create(QueueOptions::default().max_attempts(1)).await.unwrap();
        let parent = other.enqueue(&job()).await.unwrap().job_id;
        let mut worker = WorkerSession::register_for(&fixture, "other").await;
        let on_dead = if dead { OnDead::Hold } else { OnDead::Run };
        if dead {
            die(&mut worker, &[parent]).await;
        } else {
            other.admin().change(&JobChange::Cancel { why: String::new() }, parent).await.unwrap();
        }
        let child = fixture.queue.enqueue(&job().after([parent]).on_dead(on_dead)).await.unwrap().job_id;
        other.admin().change(&JobChange::Requeue, parent).await.unwrap();
        let second = fixture.queue.enqueue(&job().after([parent])).await.unwrap().job_id;
        run(&mut worker, &[parent]).await;
        let mut worker = WorkerSession::register(&fixture).await;
        run(&mut worker, &[child, second]).await;
        fixture.remove().await;
    }
}

/// What was noted of a parent before it was requeued says nothing about its children any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_requeued_parent_is_waited_for_again() {
    let fixture = Fixture::with("edges_stale", QueueOptions::default().max_attempts(1)).await;
    let jobs = enqueued(&fixture, &[job(), job().after_earlier([0]).on_dead(OnDead::Cancel)]).await;
    let mut operator = fixture.session().await;
    operator
        .sql(&format!("BEGIN TRANSACTION; UPDATE [$(schema)].[jobs] SET priority = 1 WHERE job_id = {}", jobs[1]))
        .await;
    let mut worker = WorkerSession::register(&fixture).await;
    die(&mut worker, &jobs[..1]).await;
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, jobs[0]).await.unwrap().changed, 1);
    let late = fixture.queue.enqueue(&job().after([jobs[0]]).on_dead(OnDead::Run)).await.unwrap().job_id;
    operator.sql("COMMIT; EXEC [$(schema)].[promote] N'work'").await;
    run(&mut worker, &jobs[..1]).await;
    run(&mut worker, &[jobs[1], late]).await;
    fixture.remove().await;
}

/// Sessions keep the count of a batch, and a key, locked until their transactions end.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_whose_batch_or_key_is_locked_holds_up_no_other() {
    let fixture = Fixture::new("edges_batch_locked").await;
    let batch = fixture.queue.create_batch(&NewBatch::new()).await.unwrap();
    let jobs = enqueued(
        &fixture,
        &[
            job(),
            job().after_earlier([0]).batch(batch),
            job().after_earlier([0]).dedup_key("k"),
            job().after_earlier([0]).on_dead(OnDead::Run),
        ],
    )
    .await;
    let mut finisher = fixture.session().await;
    finisher.sql("BEGIN TRANSACTION; UPDATE [$(schema)].[batch_counts] SET done = done").await;
    let mut producer = fixture.session().await;
    // It has met the key, and keeps its lock.
    let held = "BEGIN TRANSACTION; SELECT job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
                WHERE queue_id = 1 AND dedup_key = N'k' AND dedup_key IS NOT NULL AND ended = 0";
    producer.sql(held).await;
    fixture.queue.admin().change(&JobChange::Cancel { why: String::new() }, jobs[0]).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    run(&mut worker, &jobs[3..]).await;
    producer.sql("COMMIT").await;
    finisher.sql("COMMIT; EXEC [$(schema)].[promote] N'work'").await;
    for job_id in &jobs[1..3] {
        assert_eq!(state(&fixture, *job_id).await, JobState::Cancelled);
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_only_a_worker_can_handle_asks_for_one() {
    let fixture = Fixture::new("edges_backlog").await;
    let parent = fixture.queue.enqueue(&job()).await.unwrap().job_id;
    let mut worker = WorkerSession::register(&fixture).await;
    run(&mut worker, &[parent]).await;
    worker
        .session
        .sql(&format!("EXEC [$(schema)].[unregister_worker] @queue = N'work', @worker_id = '{}'", worker.id))
        .await;
    let mut session = fixture.session().await;
    let workers = "EXEC [$(schema)].[backlog] N'work'";
    assert_eq!(session.number(workers).await, 0);
    let mut client = fixture.client().await;
    client.simple_query("BEGIN TRANSACTION").await.unwrap();
    enqueue_in(&mut client, fixture.queue.schema(), "work", &[job().after([parent])]).await.unwrap();
    client.simple_query("COMMIT").await.unwrap();
    assert_eq!(session.number(workers).await, 1);
    session.sql("EXEC [$(schema)].[promote] N'work'").await;
    session.sql("DELETE [$(schema)].[jobs]").await;
    assert_eq!(session.number(workers).await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_has_its_part() {
    let fixture = Fixture::with("edges_roles", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    let (producer, worker, monitor) = (
        fixture.create_login(Some("producer")).await,
        fixture.create_login(Some("worker")).await,
        fixture.create_login(Some("monitor")).await,
    );
    let producing = fixture.connect_as(&producer).await;
    let first = producing.enqueue_many(&[job(), job().after_earlier([0])]).await.unwrap()[1].job_id;
    // With a parent in an earlier chunk, and a payload that is sent alone.
    let large = NewJob::bytes(vec![b'x'; 100_000]);
    let jobs = producing
        .enqueue_many(&[large.clone(), job().after_earlier([0]), large.after_earlier([0, 1]).after([first])])
        .await
        .unwrap();
    let edges = fixture.connect_as(&monitor).await;
    let edges = edges.admin().edges(jobs[2].job_id, 10).await.unwrap();
    assert_eq!(
        edges.parents.iter().map(|edge| edge.job_id).collect::<Vec<_>>(),
        [first, jobs[0].job_id, jobs[1].job_id]
    );
    let parents = Arc::new(Mutex::new(Vec::new()));
    let seen = parents.clone();
    let handlers = Handlers::any(move |_, context| {
        seen.lock().push(context.parents()?.len());
        Ok(())
    });
    drained(Worker::builder(&fixture.connect_as(&worker).await, handlers).start().await.unwrap()).await;
    let mut seen = parents.lock().clone();
    seen.sort_unstable();
    assert_eq!(seen, [0, 0, 1, 1, 3]);
    for login in [&producer, &worker, &monitor] {
        fixture.drop_login(login).await;
    }
    fixture.remove().await;
}

/// The first child of a queue's job is enqueued while the job is being finished: the finish has looked for a link of the
/// queue before there was one.
#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_waits_for_a_finish_of_a_parent_and_a_finish_does_not_wait_for_an_enqueue() {
    let fixture = Fixture::new("edges_races").await;
    let parents = enqueued(&fixture, &[job(), job(), job()]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(10).await;
    worker.session.sql("BEGIN TRANSACTION").await;
    worker.finish(&[claimed[0].done()]).await;
    let queue = fixture.queue.clone();
    let parent = parents[0];
    let waits = tokio::spawn(async move { queue.enqueue(&job().after([parent])).await });
    let mut observer = fixture.session().await;
    let finisher = worker.session.number("SELECT @@SPID").await;
    let blocked = format!("SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id = {finisher}");
    while observer.number(&blocked).await == 0 {
        assert!(!waits.is_finished());
        tokio::task::yield_now().await;
    }
    worker.session.sql("COMMIT").await;
    let child = waits.await.unwrap().unwrap().job_id;
    assert_eq!(claim(&mut worker).await, [child.0]);

    // The child is not committed when its parent ends, and starts when it is.
    let mut client = fixture.client().await;
    client.simple_query("BEGIN TRANSACTION").await.unwrap();
    let schema = fixture.queue.schema();
    let child = enqueue_in(&mut client, schema, "work", &[job().after([parents[1]])]).await.unwrap()[0].job_id;
    worker.finish(&[claimed[1].done()]).await;
    observer.sql("EXEC [$(schema)].[promote] N'work'").await;
    assert_eq!(claim(&mut worker).await, NONE);
    client.simple_query("COMMIT").await.unwrap();
    observer.sql("EXEC [$(schema)].[promote] N'work'").await;
    assert_eq!(claim(&mut worker).await, [child.0]);

    // And never if it is rolled back.
    client.simple_query("BEGIN TRANSACTION").await.unwrap();
    enqueue_in(&mut client, schema, "work", &[job().after([parents[2]])]).await.unwrap();
    worker.finish(&[claimed[2].done()]).await;
    observer.sql("EXEC [$(schema)].[promote] N'work'").await;
    client.simple_query("ROLLBACK").await.unwrap();
    observer.sql("EXEC [$(schema)].[promote] N'work'").await;
    assert_eq!(observer.number("SELECT COUNT(*) FROM [$(schema)].[edge_events]").await, 0);
    fixture.remove().await;
}

/// Its earlier death says nothing of how it ends now. (The model has found this.)
#[tokio::test(flavor = "multi_thread")]
async fn a_parent_whose_end_is_not_committed_has_not_ended() {
    let fixture = Fixture::with("edges_uncommitted", QueueOptions::default().max_attempts(1)).await;
    let parent = fixture.queue.enqueue(&job()).await.unwrap().job_id;
    let mut client = fixture.client().await;
    client.simple_query("BEGIN TRANSACTION").await.unwrap();
    let new = [job().after([parent]).on_dead(OnDead::Cancel)];
    let child = enqueue_in(&mut client, fixture.schema(), "work", &new).await.unwrap()[0].job_id;
    // Its edge is not committed, so the event of the death stays.
    let mut worker = WorkerSession::register(&fixture).await;
    die(&mut worker, &[parent]).await;
    fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap();
    let again = worker.claim_one().await;
    client.simple_query("COMMIT").await.unwrap();

    let mut finisher = fixture.session().await;
    let finish = format!(
        "BEGIN TRANSACTION; EXEC [$(schema)].[finish_one] N'work', '{}', {}, {}, 0",
        worker.id, again.job_id, again.fence
    );
    finisher.sql(&finish).await;
    let mut observer = fixture.session().await;
    observer.sql("EXEC [$(schema)].[promote] N'work'").await;
    assert_eq!(state(&fixture, child).await, JobState::Waiting);
    finisher.sql("COMMIT").await;
    observer.sql("EXEC [$(schema)].[promote] N'work'").await;
    run(&mut worker, &[child]).await;
    assert_eq!(left(&fixture).await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_child_is_passed_over_and_gets_its_end_later() {
    let fixture = Fixture::new("edges_locked").await;
    let jobs = enqueued(&fixture, &[job(), job().after_earlier([0]), job().after_earlier([0])]).await;
    let mut operator = fixture.session().await;
    let lock = format!("BEGIN TRANSACTION; UPDATE [$(schema)].[jobs] SET priority = 1 WHERE job_id = {}", jobs[1]);
    operator.sql(&lock).await;
    let mut worker = WorkerSession::register(&fixture).await;
    run(&mut worker, &jobs[..1]).await;
    run(&mut worker, &jobs[2..]).await;
    operator.sql("COMMIT").await;
    assert_eq!(claim(&mut worker).await, NONE);
    operator.sql("EXEC [$(schema)].[promote] N'work'").await;
    run(&mut worker, &jobs[1..2]).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_reads_the_outputs_of_the_jobs_it_has_waited_for() {
    for completion in [CompletionPolicy::Annotate, CompletionPolicy::Archive, CompletionPolicy::Delete] {
        let fixture =
            Fixture::with("edges_outputs", QueueOptions::default().completion(completion).max_attempts(1)).await;
        let jobs = enqueued(
            &fixture,
            &[NewJob::text("a"), NewJob::text("dies"), NewJob::text("sum").after_earlier([0, 1]).on_dead(OnDead::Run)],
        )
        .await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sums = seen.clone();
        let handlers = Handlers::any(move |job, context| match &*job.text()? {
            "dies" => Err(JobError::dead("it fails").into()),
            "sum" => {
                assert!(job.has_parents());
                *sums.lock() = context.parents()?;
                Ok(None)
            }
            other => {
                assert!(!job.has_parents());
                Ok(Some(Output::bytes(other.to_uppercase())))
            }
        });
        drained(Worker::builder(&fixture.queue, handlers).start().await.unwrap()).await;
        let output = (completion != CompletionPolicy::Delete).then(|| b"A".to_vec());
        let ends = [(jobs[0], JobEnd::Done { output }), (jobs[1], JobEnd::Dead { error: "it fails".to_owned() })];
        let seen: Vec<_> = seen.lock().drain(..).map(|parent: Parent| (parent.job_id, parent.end)).collect();
        assert_eq!(seen, ends, "{completion:?}");
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_could_wait_for_is_refused() {
    let fixture = Fixture::new("edges_refused").await;
    let refused = async |job: NewJob| fixture.queue.enqueue(&job).await.unwrap_err().to_string();
    assert!(
        refused(job().after([JobId(i64::MAX)]))
            .await
            .contains("after is 9223372036854775807; it must be the id of a job")
    );
    assert!(refused(job().after([JobId(0)])).await.contains("waits for job 0; the id of a job is 1 or more"));
    assert!(refused(job().after_earlier([0])).await.contains("jobs[0] waits for jobs[0]"));
    let many = refused(job().after((1..=10_001).map(JobId))).await;
    assert!(many.contains("waits for 10001 others; it must be at most 10000"), "{many}");
    let later = fixture.queue.enqueue_many(&[job().after_earlier([1]), job()]).await.unwrap_err().to_string();
    assert!(later.contains("jobs[0] waits for jobs[1]; it can only wait for those before it"), "{later}");

    let once = fixture.queue.named("once").unwrap();
    once.admin().create(QueueOptions::default().delivery(Delivery::AtMostOnce)).await.unwrap();
    let parent = once.enqueue(&job()).await.unwrap().job_id;
    assert!(refused(job().after([parent])).await.contains("at_most_once"));
    let own = fixture.queue.enqueue(&job()).await.unwrap().job_id;
    for jobs in [vec![job().after([own])], vec![job(), job().after([own])]] {
        assert!(once.enqueue_many(&jobs).await.unwrap_err().to_string().contains("at_most_once"));
    }
    let edge = "DECLARE @jobs [$(schema)].[enqueue_list], @edges [$(schema)].[edge_list];
                INSERT @jobs (ordinal, text) VALUES (1, N'a'), (2, N'b');
                INSERT @edges (place, ordinal, parent_id, parent_ordinal, on_dead) VALUES (1, {edge});
                EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @edges = @edges";
    let mut session = fixture.session().await;
    for (row, expected) in [
        ("2, NULL, NULL, NULL", "an edge needs either a parent_id or a parent_ordinal"),
        ("2, 1, 1, NULL", "an edge needs either a parent_id or a parent_ordinal"),
        ("1, NULL, 2, NULL", "parent_ordinal in edges is 2; it must be the ordinal of an earlier job"),
        ("2, NULL, 7, NULL", "parent_ordinal in edges is 7; it must be the ordinal of an earlier job"),
        ("3, NULL, 1, NULL", "ordinal in edges is 3; it must be the ordinal of a job"),
        ("2, NULL, 1, 'wait'", "on_dead must be hold, cancel or run"),
        ("2, 99999999, NULL, NULL", "parent_id in edges is 99999999; it must be the id of a job"),
    ] {
        let (number, message) = session.refusal(&edge.replace("{edge}", row)).await;
        assert_eq!((number, message.as_str()), (58003, expected));
    }
    assert_eq!(left(&fixture).await, 0);
    assert_eq!(fixture.job_counts().await.ready, 2, "nothing was added");
    fixture.remove().await;
}

/// The ends of many parents take several passes, and a drain waits for all of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_for_children_whose_parents_have_ended() {
    let fixture = Fixture::new("edges_drain").await;
    let parents = enqueued(&fixture, &vec![job(); 500]).await;
    enqueued(&fixture, &vec![job().after(parents); 20]).await;
    let (worker, runs) = counting_worker(&fixture.queue, &WorkerConfig::default()).await;
    drained(worker).await;
    assert_each_once(&runs, 520);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_found_from_each_of_its_jobs_and_from_its_batch() {
    let fixture = Fixture::new("edges_graph").await;
    let admin = fixture.queue.admin();
    let batch = fixture.queue.create_batch(&NewBatch::new()).await.unwrap();
    let first = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let second = fixture.queue.enqueue(&NewJob::text("x").after([first]).batch(batch)).await.unwrap().job_id;
    let third = fixture.queue.enqueue(&NewJob::text("x").after([first, second])).await.unwrap().job_id;
    fixture.queue.enqueue(&NewJob::text("another graph")).await.unwrap();
    let edges = vec![(first, second), (first, third), (second, third)];
    for graph in [
        admin.graph(first, 10).await.unwrap(),
        admin.graph(third, 3).await.unwrap(),
        admin.batch_graph(batch, 10).await.unwrap(),
    ] {
        assert_eq!(graph.jobs.iter().map(|job| job.job_id).collect::<Vec<_>>(), [first, second, third]);
        assert_eq!((&graph.edges, graph.is_partial), (&edges, false));
        assert_eq!(graph.jobs[2].state, Some(JobState::Waiting));
    }
    let nearest = admin.graph(second, 2).await.unwrap();
    assert_eq!((nearest.jobs.len(), nearest.is_partial), (2, true));
    // A done job has no row any more.
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(1).await;
    worker.finish(&[claimed[0].done()]).await;
    let graph = admin.graph(third, 10).await.unwrap();
    assert_eq!((graph.jobs[0].state, graph.jobs[0].queue.as_deref()), (Some(JobState::Done), None));
    fixture.remove().await;
}
