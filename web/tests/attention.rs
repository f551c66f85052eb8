//! What the overview flags: dead jobs that become more, and schedules that are late.

use readpast::{NewJob, Schedule};

use crate::support::{Browser, Fixture};

async fn flags(browser: &mut Browser) -> Vec<String> {
    browser.page("overview").await.texts("tbody th .tag")
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_that_become_more_are_flagged() {
    let fixture = Fixture::new("rising").await;
    fixture.queue.enqueue_many(&vec![NewJob::text("x"); 3]).await.unwrap();
    fixture.kill_all("no space left").await;
    // Two were dead ten minutes before the last sample, and none an hour before.
    for (minutes_ago, dead) in [(60, 0), (10, 2), (0, 3)] {
        fixture
            .sql(&format!(
                "INSERT INTO [$(schema)].[history] (queue_id, at, minutes, ready, scheduled, waiting, claimed, dead, \
                 cancelled, workers, done, failed, died) SELECT q.queue_id, DATEADD(MINUTE, -{minutes_ago}, \
                 SYSUTCDATETIME()), 1, 0, 0, 0, 0, {dead}, 0, 1, 0, 0, 0 FROM [$(schema)].[queues] AS q"
            ))
            .await;
    }
    assert_eq!(flags(&mut fixture.open()).await, ["1 more dead"]);

    fixture.sql("UPDATE [$(schema)].[history] SET dead = 3").await;
    assert!(flags(&mut fixture.open()).await.is_empty(), "those that stay dead are no news");
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_that_are_late_are_flagged() {
    let fixture = Fixture::new("late").await;
    for name in ["on time", "late", "unreadable", "paused"] {
        fixture.queue.set_schedule(&Schedule::new(name, "0 30 3 * * *", NewJob::text("x"))).await.unwrap();
    }
    fixture.queue.pause_schedule("paused").await.unwrap();
    let tomorrow = "UPDATE [$(schema)].[schedules] SET next_at = DATEADD(DAY, 1, SYSUTCDATETIME())";
    fixture.sql(tomorrow).await;
    assert!(flags(&mut fixture.open()).await.is_empty());

    // Its last time was an hour ago or earlier.
    let missed = "UPDATE [$(schema)].[schedules] SET next_at = DATEADD(HOUR, -25, SYSUTCDATETIME()) WHERE name IN \
                  (N'late', N'paused')";
    fixture.sql(missed).await;
    assert_eq!(flags(&mut fixture.open()).await, ["1 schedule is late"]);

    fixture.sql("UPDATE [$(schema)].[schedules] SET error = N'no such zone' WHERE name = N'unreadable'").await;
    assert_eq!(flags(&mut fixture.open()).await, ["2 schedules are late"]);
}
