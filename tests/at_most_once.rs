//! Queues that deliver at most once: the claim deletes the row, so that there is nothing to finish and nothing to give
//! back.

use std::sync::atomic::Ordering;

use readpast::admin::{ClaimOrder, Delivery, QueueOptions};
use readpast::{Handlers, JobError, NewJob, Worker};

use crate::support::blocked::{BlockedWorker, blocked_worker};
use crate::support::{Fixture, Session, WorkerSession, number, numbers};

async fn fixture(name: &str) -> Fixture {
    let options = QueueOptions::default().delivery(Delivery::AtMostOnce);
    Fixture::with(name, options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_run_counts_as_done_and_a_failure_as_dead() {
    let fixture = fixture("once").await;
    fixture.queue.enqueue_many(&numbers(10)).await.unwrap();
    let handlers = Handlers::any(|job, _| match job.json::<u32>()? {
        3 => Err(JobError::retry("there is no second time").into()),
        _ => Ok(()),
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead, stats.retried, stats.lost), (9, 1, 0, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_runs_what_it_holds_because_it_cannot_give_it_back() {
    let fixture = fixture("once_shutdown").await;
    let config = fixture.config.worker.clone();
    let BlockedWorker { worker, gate, starts } = blocked_worker(&fixture, &fixture.queue, config).await;
    let ending = tokio::spawn(worker.shutdown());
    gate.add_permits(10);
    let stats = ending.await.unwrap().unwrap().stats;
    assert_eq!((stats.done, stats.released, starts.load(Ordering::Relaxed)), (10, 0, 10));
    fixture.remove().await;
}

/// The ids of what a claim of ten returns, in ascending order, and whether a payload was withheld.
async fn claimed(session: &mut Session, worker: &WorkerSession, max_payload_bytes: u64) -> (Vec<i64>, bool) {
    let sql = format!(
        "EXEC [$(schema)].[claim] @queue = N'work', @worker_id = '{}', @max = 10, @max_payload_bytes = {max_payload_bytes}",
        worker.id
    );
    let rows = session.sql(&sql).await;
    let mut ids: Vec<i64> = rows.iter().map(|row| number(row, "job_id")).collect();
    ids.sort_unstable();
    (ids, rows.iter().any(|row| row.get::<bool, _>("payload_utf16").is_none()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_takes_the_jobs_before_a_payload_that_is_too_long_and_none_behind_it() {
    for order in [ClaimOrder::Fifo, ClaimOrder::Lifo, ClaimOrder::Any] {
        let options = QueueOptions::default().delivery(Delivery::AtMostOnce).claim_order(order);
        let fixture = Fixture::with("once_long", options).await;
        let jobs = ["1", "2", "longer than ten bytes", "4", "5"].map(NewJob::text);
        let ids = fixture.queue.enqueue_many(&jobs).await.unwrap();
        let mut ids: Vec<i64> = ids.iter().map(|job| job.job_id.0).collect();
        let (mut session, worker) = (fixture.session().await, WorkerSession::register(&fixture).await);
        if order == ClaimOrder::Lifo {
            ids.reverse();
        }
        let sorted = |ids: &[i64]| {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            ids
        };
        assert_eq!(claimed(&mut session, &worker, 10).await, (sorted(&ids[..2]), false), "{order:?}");
        for _ in 0..2 {
            assert_eq!(claimed(&mut session, &worker, 10).await, (vec![ids[2]], true), "{order:?}: it stays");
        }
        assert_eq!(claimed(&mut session, &worker, 100).await, (sorted(&ids[2..]), false), "{order:?}");
        fixture.remove().await;
    }
}

/// Whoever is about to change jobs has U locks on them, which nobody who reads waits for.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_goes_past_jobs_that_another_session_is_about_to_take() {
    for order in [ClaimOrder::Fifo, ClaimOrder::Lifo] {
        let options = QueueOptions::default().delivery(Delivery::AtMostOnce).claim_order(order);
        let fixture = Fixture::with("once_taken", options).await;
        fixture.queue.enqueue_many(&numbers(30)).await.unwrap();
        let mut holder = fixture.session().await;
        let descending = if order == ClaimOrder::Lifo { "DESC" } else { "" };
        let hold = format!(
            "BEGIN TRANSACTION;
             SELECT TOP (12) job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK) ORDER BY job_id {descending}"
        );
        holder.sql(&hold).await;
        let (mut session, worker) = (fixture.session().await, WorkerSession::register(&fixture).await);
        assert_eq!(claimed(&mut session, &worker, 100).await.0.len(), 10, "{order:?}");
        holder.sql("ROLLBACK TRANSACTION").await;
        assert_eq!(claimed(&mut session, &worker, 100).await.0.len(), 10, "{order:?}");
        fixture.remove().await;
    }
}
