//! Jobs that must not start before their time. Time is SQL Server's: the tests move a job's `due_at`, they do not wait.

use std::time::{Duration, SystemTime};

use readpast::NewJob;

use crate::support::{Fixture, JobCounts, Session, WorkerSession};

async fn promote(session: &mut Session) -> i64 {
    session.number("EXEC [$(schema)].[promote] @queue = N'work'").await
}

const MAKE_DUE: &str = "UPDATE [$(schema)].[jobs] SET due_at = DATEADD(SECOND, -1, SYSUTCDATETIME())";

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_is_claimed_only_when_it_is_due() {
    let fixture = Fixture::new("delayed").await;
    let mut session = fixture.session().await;
    let mut worker = WorkerSession::register(&fixture).await;
    let delayed = fixture.queue.enqueue(&NewJob::text("later").delay(Duration::from_secs(3_600))).await.unwrap();

    assert_eq!(promote(&mut session).await, 0);
    assert_eq!(worker.claim(10).await, []);
    assert_eq!(fixture.job_counts().await, JobCounts { scheduled: 1, ..JobCounts::default() });

    session.sql(MAKE_DUE).await;
    assert_eq!(promote(&mut session).await, 1);
    assert_eq!(worker.claim_one().await.job_id, delayed.job_id.0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_point_in_time_is_kept_to_the_millisecond() {
    let fixture = Fixture::new("due_at").await;
    // 2100-01-01 00:00:00.123 UTC
    let due_at = SystemTime::UNIX_EPOCH + Duration::from_millis(4_102_444_800_123);
    fixture.queue.enqueue(&NewJob::text("one").due_at(due_at)).await.unwrap();
    fixture.queue.enqueue_many(&[NewJob::text("many").due_at(due_at)]).await.unwrap();
    let exact = "SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE state = 1 AND due_at = '2100-01-01T00:00:00.123'";
    assert_eq!(fixture.session().await.number(exact).await, 2);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_has_passed_and_a_delay_of_nothing_are_now() {
    let fixture = Fixture::new("due_now").await;
    let past = SystemTime::UNIX_EPOCH;
    fixture.queue.enqueue(&NewJob::text("past").due_at(past)).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("nothing").delay(Duration::ZERO)).await.unwrap();
    fixture
        .queue
        .enqueue_many(&[NewJob::text("past").due_at(past), NewJob::text("nothing").delay(Duration::ZERO)])
        .await
        .unwrap();
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 4, ..JobCounts::default() });
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delays_are_exact_from_a_millisecond_to_ten_years() {
    let fixture = Fixture::new("delays").await;
    // More milliseconds than an int holds, as DATEADD takes one.
    let delays = [1, 1_001, 2_147_483_648, 315_360_000_000];
    for milliseconds in delays {
        let delay = Duration::from_millis(milliseconds);
        fixture.queue.enqueue(&NewJob::text("one").delay(delay)).await.unwrap();
        fixture.queue.enqueue_many(&[NewJob::text("many").delay(delay)]).await.unwrap();
    }
    let stored = "SELECT DATEDIFF_BIG(MILLISECOND, enqueued_at, due_at) FROM [$(schema)].[jobs] ORDER BY job_id";
    let expected: Vec<i64> = delays.into_iter().flat_map(|delay| [delay as i64; 2]).collect();
    assert_eq!(fixture.session().await.numbers(stored).await, expected);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_takes_its_place_among_the_ready_ones() {
    let fixture = Fixture::new("delayed_place").await;
    let delayed = fixture.queue.enqueue(&NewJob::text("first").delay(Duration::from_secs(60))).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("second")).await.unwrap();
    let mut session = fixture.session().await;
    session.sql(&format!("{MAKE_DUE} WHERE state = 1")).await;
    promote(&mut session).await;
    assert_eq!(WorkerSession::register(&fixture).await.claim_one().await.job_id, delayed.job_id.0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_has_not_waited_before_it_was_due() {
    let fixture = Fixture::new("waited").await;
    fixture.queue.enqueue(&NewJob::text("x").delay(Duration::from_secs(60))).await.unwrap();
    let mut session = fixture.session().await;
    let an_hour_ago = "UPDATE [$(schema)].[jobs] SET enqueued_at = DATEADD(HOUR, -1, enqueued_at), due_at = DATEADD(MINUTE, -10, SYSUTCDATETIME())";
    session.sql(an_hour_ago).await;
    promote(&mut session).await;
    let job = WorkerSession::register(&fixture).await.claim_one().await;
    assert!((600_000..3_600_000).contains(&job.waited_ms), "{}", job.waited_ms);
    assert!(job.age_ms >= 3_600_000, "{}", job.age_ms);
    fixture.remove().await;
}
