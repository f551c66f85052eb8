//! How an idle worker notices a job: at once when its own process enqueues it, by `await_jobs` when another does.

use std::time::Duration;

use readpast::{Handlers, NewJob, Queue, QueueOptions, Worker, WorkerConfig};

use crate::support::{Fixture, Session, changed, numbers, until};

const UNKNOWN_QUEUE: u32 = 58001;
const REFUSED: u32 = 58003;

/// A worker that has found its queue empty.
async fn idle_worker(queue: &Queue, config: WorkerConfig) -> Worker {
    let worker = Worker::builder(queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    until("the first claim was answered", || monitor.stats().last_claim_succeeded).await;
    worker
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_the_same_process_starts_although_nobody_would_look_for_it_for_half_a_minute() {
    let fixture = Fixture::new("same_process").await;
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.poll_min_ms = 60_000;
        worker.poll_max_ms = 60_000;
    });
    let worker = idle_worker(&fixture.queue, config).await;
    let monitor = worker.monitor();
    fixture.queue.clone().enqueue(&NewJob::bytes("x")).await.unwrap();
    until("the job is done", || monitor.stats().done == 1).await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    until("the others are done", || monitor.stats().done == 4).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_another_process_is_noticed() {
    let fixture = Fixture::new("other_process").await;
    let worker = idle_worker(&fixture.queue, fixture.config.worker.clone()).await;
    let monitor = worker.monitor();
    let mut session = fixture.session().await;
    for done in 1..=3 {
        session.sql("EXEC [$(schema)].[enqueue] @queue = N'work', @payload = 0x01").await;
        until("the job is done", || monitor.stats().done == done).await;
    }
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

async fn found(session: &mut Session, wait_ms: u32) -> bool {
    let sql = format!(
        "DECLARE @answer TABLE (found bit NOT NULL, waited bit NOT NULL);
         INSERT @answer EXEC [$(schema)].[await_jobs] @queue = N'work', @first_ms = 1, @most_ms = 5, @wait_ms = {wait_ms};
         SELECT CAST(found AS int) FROM @answer;"
    );
    session.number(&sql).await == 1
}

#[tokio::test(flavor = "multi_thread")]
async fn await_jobs_finds_what_a_claim_would_get() {
    for claim_order in [readpast::ClaimOrder::Fifo, readpast::ClaimOrder::Lifo, readpast::ClaimOrder::Any] {
        let options = QueueOptions::default().claim_order(claim_order);
        let fixture = Fixture::with("await", options).await;
        let mut session = fixture.session().await;
        assert!(!found(&mut session, 20).await, "the queue is empty");

        fixture.queue.enqueue(&NewJob::bytes("x").delay(Duration::from_secs(3_600))).await.unwrap();
        assert!(!found(&mut session, 20).await, "the job is not due");

        let mut other = fixture.session().await;
        other.sql("BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @payload = 0x01").await;
        assert!(
            !found(&mut session, 20).await,
            "the job is locked: a claim would skip it, and nobody waits for its lock"
        );
        other.sql("COMMIT TRANSACTION").await;
        assert!(found(&mut session, 20).await);

        fixture.queue.pause().await.unwrap();
        assert!(!found(&mut session, 20).await, "claims find nothing while the queue is paused");
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn await_jobs_ends_when_a_job_comes() {
    let fixture = Fixture::new("await_ends").await;
    let mut session = fixture.session().await;
    let waiting = tokio::spawn(async move { found(&mut session, 600_000).await });
    fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    let answered = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    assert!(answered.expect("long before its ten minutes are over").unwrap());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn await_jobs_refuses_what_cannot_be() {
    let fixture = Fixture::new("await_refuses").await;
    let mut session = fixture.session().await;
    for (parameters, refusal, word) in [
        ("N'no such queue', 1, 5, 20", UNKNOWN_QUEUE, "no such queue"),
        ("N'work', 0, 5, 20", REFUSED, "first_ms"),
        ("N'work', 6, 5, 20", REFUSED, "most_ms"),
        ("N'work', 1, 5, 3600001", REFUSED, "wait_ms"),
        ("N'work', 1, NULL, 20", REFUSED, "most_ms"),
    ] {
        let (number, message) = session.refusal(&format!("EXEC [$(schema)].[await_jobs] {parameters}")).await;
        assert_eq!(number, refusal, "{parameters}");
        assert!(message.contains(word), "{message}");
    }
    fixture.remove().await;
}
