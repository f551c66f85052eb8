//! A job that kills its process each time is dead after as many starts as it has attempts; the jobs beside it are not.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use readpast::admin::{JobChange, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{Handlers, NewJob, Worker};
use tokio::sync::Semaphore;

use crate::support::child::{ChildWorker, Ledger};
use crate::support::{Fixture, WorkerSession, changed, number, until};

const SETTINGS: [(&str, &str); 3] =
    [("WORKER_NAME", "the one"), ("WORKER_TAKE_OVER", "true"), ("WORKER_SHUTDOWN_DEADLINE_MS", "5000")];

/// Starts a worker of the same name again and again until nothing is unfinished; returns how often it crashed.
async fn work_off(fixture: &Fixture, ledger: &Ledger, settings: &[(&str, &str)]) -> usize {
    let settings: Vec<_> = SETTINGS.iter().chain(settings).copied().collect();
    let mut crashes = 0;
    let mut worker = ChildWorker::start(fixture, ledger, &settings).await;
    loop {
        let stats = fixture.queue.admin().stats(None).await.unwrap();
        if stats.ready + stats.scheduled + stats.claimed == 0 {
            worker.stop().await;
            return crashes;
        }
        if worker.has_ended() {
            crashes += 1;
            assert!(crashes < 50, "the jobs kill one worker after the other");
            worker = ChildWorker::start(fixture, ledger, &settings).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Poison among innocent jobs: the poison's ids.
async fn enqueue_poisoned(fixture: &Fixture, poison: &[usize]) -> HashSet<i64> {
    let jobs = (0..40).map(|place| NewJob::text(if poison.contains(&place) { "abort" } else { "1000" }));
    let enqueued = fixture.queue.enqueue_many(&jobs.collect::<Vec<_>>()).await.unwrap();
    poison.iter().map(|place| enqueued[*place].job_id.0).collect()
}

async fn dead(fixture: &Fixture) -> HashSet<i64> {
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 1_000).await.unwrap().jobs;
    dead.iter().map(|job| job.job_id.0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_its_process_dies_after_its_attempts_and_nobody_with_it() {
    let options = QueueOptions::default().max_attempts(3);
    let fixture = Fixture::with("poison", options).await;
    let poison = enqueue_poisoned(&fixture, &[3]).await;
    let ledger = Ledger::new();
    // All are claimed at once and four run side by side, so that every crash meets innocent jobs, started and not.
    let crashes =
        work_off(&fixture, &ledger, &[("WORKER_THREADS", "4"), ("WORKER_BUFFER", "100"), ("WORKER_BATCH_SIZE", "100")])
            .await;
    assert_eq!(crashes, 3);
    assert_eq!(dead(&fixture).await, poison);
    let runs = ledger.read();
    assert_eq!(runs.len(), 40);
    for (job_id, runs) in runs {
        let (starts, ends) = (runs.starts.len(), runs.ends);
        match poison.contains(&job_id) {
            true => assert_eq!((starts, ends), (3, 0)),
            false => assert!(ends >= 1 && starts <= 3, "job {job_id}: {starts} starts, {ends} ends"),
        }
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_such_jobs_take_no_innocent_job_with_them_even_where_one_attempt_is_all() {
    let options = QueueOptions::default().max_attempts(1);
    let fixture = Fixture::with("poisons", options).await;
    let poison = enqueue_poisoned(&fixture, &[0, 7, 8, 30]).await;
    let ledger = Ledger::new();
    let crashes = work_off(&fixture, &ledger, &[("WORKER_THREADS", "4")]).await;
    assert!((5..=8).contains(&crashes), "one in company, at least, and one alone for each: {crashes}");
    assert_eq!(dead(&fixture).await, poison);
    let runs = ledger.read();
    let innocent_ends = runs.iter().filter(|(id, runs)| !poison.contains(id) && runs.ends >= 1).count();
    assert_eq!(innocent_ends, 36);
    assert!(poison.iter().all(|id| runs[id].starts.len() <= 2), "once in company at the most, and once alone");
    fixture.remove().await;
}

/// What the two above rest on, procedure by procedure.
#[tokio::test(flavor = "multi_thread")]
async fn before_its_last_attempt_a_lost_job_goes_to_a_worker_that_holds_nothing_else() {
    let options = QueueOptions::default().max_attempts(2);
    let fixture = Fixture::with("alone", options).await;
    fixture.queue.enqueue_many(&(0..3).map(|n| NewJob::text(n.to_string())).collect::<Vec<_>>()).await.unwrap();
    let mut lost = WorkerSession::register(&fixture).await;
    assert_eq!(lost.claim(10).await.len(), 3);
    lost.lose(&fixture).await;

    let mut worker = WorkerSession::register(&fixture).await;
    fixture.queue.enqueue(&NewJob::text("new")).await.unwrap();
    let in_company = worker.claim(10).await;
    assert_eq!(in_company.len(), 1, "the new one only");
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.ready, stats.claimed), (3, 1));
    assert!(stats.oldest_ready.is_some());
    assert_eq!(fixture.queue.admin().list(&JobState::Ready.into(), None, 10).await.unwrap().jobs.len(), 3);
    worker.finish(&[in_company[0].done()]).await;

    let alone = worker.claim_alone(10).await;
    assert_eq!(alone.iter().map(|job| job.attempt).collect::<Vec<_>>(), [2], "one, on its last attempt");
    worker.lose(&fixture).await;
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().dead, 1);

    // An operator's requeue forgets the suspicion.
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 1);
    let mut third = WorkerSession::register(&fixture).await;
    assert_eq!(third.claim(10).await.len(), 1);
    assert_eq!(fixture.queue.admin().change(&JobChange::Purge, JobState::Ready).await.unwrap().changed, 2);
    let left = fixture.sql("SELECT COUNT(*) AS jobs FROM [$(schema)].[jobs]").await;
    assert_eq!(number(&left[0], "jobs"), 1);
    fixture.remove().await;
}

/// As at a shutdown, or when the answer to its claim was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_must_run_alone_and_was_given_back_must_still_and_has_its_attempt() {
    let options = QueueOptions::default().max_attempts(1);
    let fixture = Fixture::with("alone_back", options).await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut lost = WorkerSession::register(&fixture).await;
    lost.claim_one().await;
    lost.lose(&fixture).await;
    let mut worker = WorkerSession::register(&fixture).await;
    for _ in 0..2 {
        let alone = worker.claim_alone(10).await.remove(0);
        assert_eq!(alone.attempt, 1);
        assert!(worker.release([&alone]).await.is_empty());
        assert_eq!(worker.claim(10).await, [], "not in company");
    }
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().dead, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_always_busy_stops_claiming_for_a_job_that_must_run_alone() {
    let options = QueueOptions::default().max_attempts(1);
    let fixture = Fixture::with("busy", options).await;
    let suspect = fixture.queue.enqueue(&NewJob::text("0")).await.unwrap().job_id.0;
    let mut lost = WorkerSession::register(&fixture).await;
    lost.claim_one().await;
    lost.lose(&fixture).await;

    // One thread and jobs for far longer than a lease: without the stop the suspect would wait for the end of them all.
    fixture.queue.enqueue_many(&(0..3_000).map(|_| NewJob::text("10000")).collect::<Vec<_>>()).await.unwrap();
    let ledger = Ledger::new();
    let settings = [
        ("WORKER_THREADS", "1"),
        ("WORKER_LEASE_MS", "1000"),
        ("WORKER_HEARTBEAT_INTERVAL_MS", "200"),
        ("CONNECTION_CONNECT_TIMEOUT_MS", "1000"),
        ("CONNECTION_COMMAND_TIMEOUT_MS", "1000"),
    ];
    // It holds a job of its own when the suspect comes back.
    fixture.sql(&format!("UPDATE [$(schema)].[jobs] SET state = 1 WHERE job_id = {suspect}")).await;
    let worker = ChildWorker::start(&fixture, &ledger, &settings).await;
    until("it is busy", || ledger.lines() > 3).await;
    fixture.sql(&format!("UPDATE [$(schema)].[jobs] SET state = 0 WHERE job_id = {suspect}")).await;
    until("the suspect has run", || ledger.read().get(&suspect).is_some_and(|runs| runs.ends == 1)).await;
    assert!(fixture.queue.admin().stats(None).await.unwrap().ready > 0, "not because there was nothing else to do");
    drop(worker);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_must_run_alone_waits_for_the_others_and_the_others_for_it() {
    let options = QueueOptions::default().max_attempts(1);
    let fixture = Fixture::with("waits", options).await;
    let suspect = fixture.queue.enqueue(&NewJob::text("suspect")).await.unwrap().job_id.0;
    let mut lost = WorkerSession::register(&fixture).await;
    lost.claim_one().await;
    lost.lose(&fixture).await;
    fixture
        .sql(&format!("UPDATE [$(schema)].[jobs] SET state = 1, due_at = '9999-01-01' WHERE job_id = {suspect}"))
        .await;

    // "first" and the suspect run until they may end; each that starts is noted.
    let gates = Arc::new([Semaphore::new(0), Semaphore::new(0)]);
    let started = Arc::new(Mutex::new(Vec::new()));
    let (handler_gates, noted) = (gates.clone(), started.clone());
    let runtime = tokio::runtime::Handle::current();
    let config = changed(WorkerConfig::default(), |worker| worker.threads = 4);
    let handlers = Handlers::any(move |job, _| {
        let name = job.text()?.to_string();
        noted.lock().push(name.clone());
        match name.as_str() {
            "first" => runtime.block_on(handler_gates[0].acquire())?.forget(),
            "suspect" => runtime.block_on(handler_gates[1].acquire())?.forget(),
            _ => {}
        }
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let has_started = |name: &str| started.lock().iter().any(|started| started == name);
    fixture.queue.enqueue(&NewJob::text("first")).await.unwrap();
    until("the first runs", || has_started("first")).await;
    fixture.sql(&format!("UPDATE [$(schema)].[jobs] SET state = 0 WHERE job_id = {suspect}")).await;
    for round in 0..5 {
        let name = format!("second {round}");
        fixture.queue.enqueue(&NewJob::text(name.clone())).await.unwrap();
        until("another runs beside it", || has_started(&name)).await;
    }
    assert!(!has_started("suspect"), "there are idle threads, but also a job that runs");

    gates[0].add_permits(1);
    until("the suspect runs when nothing else does", || has_started("suspect")).await;
    fixture.queue.enqueue(&NewJob::text("third")).await.unwrap();
    // Long enough for any claim that is made while it runs.
    for _ in 0..20 {
        fixture.queue.admin().stats(None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!has_started("third"), "it runs alone");
    gates[1].add_permits(1);
    assert_eq!(worker.drain().await.unwrap().stats.done, 8);
    assert!(has_started("third"));
    fixture.remove().await;
}
