//! What a DBA uses without the procedures of a worker: views for reports, and duties for an Agent job.

use std::time::Duration;

use readpast::NewJob;
use readpast::admin::QueueOptions;

use crate::support::{Fixture, WorkerSession, number, numbers};

/// What queues are short of, in an Agent alert.
const UNSERVED: &str =
    "SELECT queue, ready, oldest_ready_at FROM [$(schema)].[queues_now] WHERE paused = 0 AND workers = 0 AND ready > 0";

#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_reads_the_views_and_no_payload() {
    let fixture = Fixture::new("reports").await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    worker.claim(1).await;
    fixture.sql("EXEC [$(schema)].[sample] @queue = N'work', @max_age_ms = 0").await;
    let login = fixture.create_login(Some("monitor")).await;
    let mut monitor = fixture.session_as(&login).await;
    let row = monitor.row("SELECT queue, ready, claimed, workers, held FROM [$(schema)].[queues_now]").await;
    assert_eq!((row.get::<&str, _>(0), row.get::<&str, _>(4)), (Some("work"), None));
    assert_eq!([1, 2, 3].map(|column| number(&row, column)), [2, 1, 1]);
    let jobs = "SELECT COUNT(*) AS n FROM [$(schema)].[jobs_now] WHERE queue = N'work' AND state = 'ready'";
    assert_eq!(monitor.number(jobs).await, 2);
    let claimed = monitor.row("SELECT worker_id FROM [$(schema)].[jobs_now] WHERE state = 'claimed'").await;
    assert_eq!(claimed.get(0), Some(worker.id));
    assert_eq!(monitor.number("SELECT COUNT(*) AS n FROM [$(schema)].[workers_now] WHERE is_live = 1").await, 1);
    assert_eq!(monitor.refusal("SELECT payload FROM [$(schema)].[jobs_now]").await.0, 207, "no such column");
    assert_eq!(monitor.refusal("SELECT job_id FROM [$(schema)].[jobs]").await.0, 229);
    assert!(monitor.sql(UNSERVED).await.is_empty());
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn duties_are_done_without_a_worker() {
    let fixture = Fixture::new("agent").await;
    let mut worker = WorkerSession::register(&fixture).await;
    fixture.queue.enqueue(&NewJob::text("of a lost worker")).await.unwrap();
    worker.claim(1).await;
    fixture.sql("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()").await;
    fixture.queue.enqueue(&NewJob::text("due").delay(Duration::from_millis(1))).await.unwrap();
    let mut operator = fixture.session().await;
    operator.sql("EXEC [$(schema)].[do_duties]").await;
    assert_eq!(fixture.job_counts().await.ready, 2);
    assert_eq!(operator.number("SELECT ready FROM [$(schema)].[queues_now]").await, 2, "sampled after that");
    assert_eq!(operator.sql(UNSERVED).await.len(), 1);
    assert_eq!(operator.refusal("EXEC [$(schema)].[do_duties] @queue = N'none'").await.0, 58001);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_whose_duties_fail_does_not_keep_the_others() {
    let fixture = Fixture::on_dev_server("agent_fails", QueueOptions::default()).await;
    let other = fixture.queue.named("zebra").unwrap();
    other.admin().create(QueueOptions::default()).await.unwrap();
    other.enqueue(&NewJob::text("due").delay(Duration::from_millis(1))).await.unwrap();
    // A check that the first queue's samples cannot meet.
    fixture.sql("ALTER TABLE [$(schema)].[samples] ADD CONSTRAINT none CHECK (queue_id > 1)").await;
    let (number, error) = fixture.session().await.refusal("EXEC [$(schema)].[do_duties]").await;
    assert!(number == 58003 && error.contains("the duties of queue work failed with error 547"), "{error}");
    let ready = "SELECT ready FROM [$(schema)].[queues_now] WHERE queue = N'zebra'";
    assert_eq!(fixture.session().await.number(ready).await, 1);
    fixture.remove().await;
}
