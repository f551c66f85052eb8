//! What the overview makes of the last hours: dead jobs that become more and late schedules are flagged, and the small
//! chart does not fall at its end.

use readpast::NewJob;
use readpast::admin::Schedule;

use crate::support::{Browser, Fixture};

async fn flags(browser: &mut Browser) -> Vec<String> {
    browser.page("overview").await.texts("tbody th .tag")
}

/// As a worker writes it for a minute.
async fn history_row(fixture: &Fixture, minutes_ago: u32, dead: u32, done: u32) {
    let insert = format!(
        "INSERT INTO [$(schema)].[history] (queue_id, at, minutes, ready, scheduled, waiting, claimed, dead, cancelled, \
         workers, done, failed, died) SELECT q.queue_id, DATEADD(MINUTE, -{minutes_ago}, SYSUTCDATETIME()), 1, 0, 0, 0, \
         0, {dead}, 0, 1, {done}, 0, 0 FROM [$(schema)].[queues] AS q"
    );
    fixture.sql(&insert).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_that_become_more_are_flagged() {
    let fixture = Fixture::new("rising").await;
    fixture.queue.enqueue_many(&vec![NewJob::text("x"); 3]).await.unwrap();
    fixture.kill_all("no space left").await;
    // Two were dead ten minutes before the last sample, and none an hour before.
    for (minutes_ago, dead) in [(60, 0), (10, 2), (0, 3)] {
        history_row(&fixture, minutes_ago, dead, 0).await;
    }
    assert_eq!(flags(&mut fixture.open()).await, ["1 more dead"]);

    fixture.sql("UPDATE [$(schema)].[history] SET dead = 3").await;
    assert!(flags(&mut fixture.open()).await.is_empty(), "those that stay dead are no news");
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_that_are_late_are_flagged() {
    let fixture = Fixture::new("late").await;
    for name in ["on time", "late", "unreadable", "paused"] {
        fixture.queue.admin().set_schedule(&Schedule::new(name, "0 30 3 * * *", NewJob::text("x"))).await.unwrap();
    }
    fixture.queue.admin().pause_schedule("paused").await.unwrap();
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

#[tokio::test(flavor = "multi_thread")]
async fn the_small_chart_does_not_fall_at_its_end() {
    let fixture = Fixture::new("spark").await;
    for minutes_ago in 1..=12 {
        history_row(&fixture, minutes_ago, 0, 100).await;
    }
    history_row(&fixture, 0, 0, 1).await; // the minute has just begun
    let points = fixture.open().page("overview").await.values(".spark polyline", "points").remove(0);
    assert!(points.ends_with(",1.0"), "{points}");
}
