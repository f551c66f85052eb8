//! In a queue with `age_after`, a job rises by one priority for each such time that it has waited.

use std::time::Duration;

use readpast::admin::{ClaimOrder, Delivery, QueueOptions};
use readpast::{Error, NewJob};

use crate::support::{Fixture, WorkerSession};

const MINUTE: Duration = Duration::from_secs(60);

/// Enqueues a job that has been ready for so many seconds.
async fn enqueue(fixture: &Fixture, priority: i16, waited_s: i64) -> i64 {
    let job_id = fixture.queue.enqueue(&NewJob::text("x").priority(priority)).await.unwrap().job_id.0;
    let waited = "UPDATE [$(schema)].[jobs] SET due_at = DATEADD(SECOND, -WAITED, due_at) WHERE job_id = JOB";
    fixture.sql(&waited.replace("WAITED", &waited_s.to_string()).replace("JOB", &job_id.to_string())).await;
    job_id
}

async fn claim(worker: &mut WorkerSession, max: i32) -> Vec<i64> {
    let call = format!("EXEC [$(schema)].[claim] @queue = N'work', @worker_id = '{}', @max = {max}", worker.id);
    worker.session.numbers(&call).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_has_waited_for_longer_overtakes_a_higher_priority() {
    let fixture = Fixture::with("ages", QueueOptions::default().age_after(MINUTE)).await;
    let fresh = enqueue(&fixture, 0, 0).await;
    let six_minutes = enqueue(&fixture, 5, 361).await;
    let four_minutes = enqueue(&fixture, 5, 240).await;
    let highest = enqueue(&fixture, -32768, 0).await;
    let lowest = enqueue(&fixture, 32767, 86_400).await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(claim(&mut worker, 1).await, [highest]);
    assert_eq!(claim(&mut worker, 1).await, [six_minutes]);
    assert_eq!(claim(&mut worker, 1).await, [fresh]);
    let (older, younger) = (enqueue(&fixture, 6, 363).await, enqueue(&fixture, 0, 0).await);
    assert_eq!(claim(&mut worker, 10).await, [older, younger, four_minutes, lowest], "in this order");
    assert_eq!(claim(&mut worker, 10).await, [0; 0]);
    // A job that is made ready again has waited from then on.
    let later = enqueue(&fixture, 1, 3_600).await;
    let claimed = worker.claim(1).await;
    assert_eq!(claimed[0].job_id, later);
    let other = enqueue(&fixture, 0, 0).await;
    worker.finish(&[claimed[0].retry(0, "again")]).await;
    assert_eq!(claim(&mut worker, 1).await, [other]);
    fixture.remove().await;
}

/// Jobs of the highest priority come faster than they are claimed.
#[tokio::test(flavor = "multi_thread")]
async fn no_job_starves_however_many_of_a_higher_priority_come() {
    let fixture = Fixture::with("ages_flood", QueueOptions::default().age_after(MINUTE)).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let starving = enqueue(&fixture, 3, 0).await;
    let second_passes = "UPDATE [$(schema)].[jobs] SET due_at = DATEADD(SECOND, -10, due_at) WHERE state = 0";
    let mut rounds = 0;
    loop {
        let flood: Vec<NewJob> = (0..20).map(|_| NewJob::text("x").priority(0)).collect();
        fixture.queue.enqueue_many(&flood).await.unwrap();
        if claim(&mut worker, 10).await.contains(&starving) {
            break;
        }
        fixture.sql(second_passes).await;
        rounds += 1;
        assert!(rounds < 100, "it starves");
    }
    // Those of priority 0 that came in its first three minutes go first: 18 rounds of 20 jobs, 10 of which are claimed.
    assert!((34..=38).contains(&rounds), "{rounds}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_jobs_are_left_out_and_found_later() {
    let fixture = Fixture::with("ages_locked", QueueOptions::default().age_after(MINUTE)).await;
    let mut jobs = Vec::new();
    for priority in [1, 2, 1, 2] {
        jobs.push(enqueue(&fixture, priority, 600).await);
    }
    let mut holder = fixture.session().await;
    holder.client.begin_transaction().await.unwrap();
    holder.sql(&format!("UPDATE [$(schema)].[jobs] SET error = N'x' WHERE job_id = {}", jobs[0])).await;
    let mut worker = WorkerSession::register(&fixture).await;
    worker.session.sql("SET LOCK_TIMEOUT 0").await;
    let mut claimed = claim(&mut worker, 2).await;
    assert!(!claimed.is_empty(), "the locked one may have its place");
    claimed.extend(claim(&mut worker, 10).await);
    assert_eq!(claimed, [jobs[2], jobs[1], jobs[3]]);
    holder.client.rollback_transaction().await.unwrap();
    assert_eq!(claim(&mut worker, 10).await, [jobs[0]]);
    fixture.remove().await;
}

/// The marks rise, so that claims do not read what is gone, and a job that comes late below them is found.
#[tokio::test(flavor = "multi_thread")]
async fn marks_rise_and_are_lowered() {
    let fixture = Fixture::with("ages_marks", QueueOptions::default().age_after(MINUTE)).await;
    let jobs: Vec<NewJob> = (0..300).map(|n| NewJob::text("x").priority(n % 2)).collect();
    let ids: Vec<i64> = fixture.queue.enqueue_many(&jobs).await.unwrap().iter().map(|job| job.job_id.0).collect();
    let mut worker = WorkerSession::register(&fixture).await;
    let mut claimed = Vec::new();
    for _ in 0..6 {
        claimed.extend(worker.claim(50).await);
    }
    claimed.sort_unstable_by_key(|job| job.job_id);
    assert_eq!(claimed.iter().map(|job| job.job_id).collect::<Vec<_>>(), ids);
    let mut session = fixture.session().await;
    assert!(session.number("SELECT MIN(job_id) FROM [$(schema)].[marks]").await > ids[0]);
    worker.release(&claimed).await;
    assert_eq!(claim(&mut worker, 1_000).await.len(), 300);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_combined_is_refused() {
    let fixture = Fixture::new("ages_refused").await;
    let admin = fixture.queue.admin();
    let ageing = || QueueOptions::default().age_after(MINUTE);
    for options in [
        ageing().claim_order(ClaimOrder::Lifo),
        ageing().delivery(Delivery::AtMostOnce),
        ageing().max_running(3),
        QueueOptions::default().age_after(Duration::from_millis(999)),
        QueueOptions::default().age_after(Duration::ZERO),
        QueueOptions::default().age_after(366 * 24 * 60 * MINUTE),
    ] {
        let refused = admin.create(options.clone()).await;
        assert!(
            matches!(&refused, Err(Error::Refused { message, .. }) if message.contains("age_after")),
            "{refused:?}"
        );
    }
    admin.create(ageing()).await.unwrap();
    let limited = admin.create(QueueOptions::default().max_running(3)).await;
    assert!(matches!(limited, Err(Error::Refused { .. })));
    assert_eq!(admin.stats(None).await.unwrap().age_after, Some(MINUTE));
    admin.create(QueueOptions::default().age_after(None)).await.unwrap();
    admin.create(QueueOptions::default().max_running(3)).await.unwrap();
    fixture.remove().await;
}
