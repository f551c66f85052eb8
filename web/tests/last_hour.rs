//! The last hour of all queues together, on the overview.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use readpast::admin::QueueOptions;

use crate::server::{dev_server, real_server_url};
use crate::support::{Fixture, Minute};

/// The history: queue, minutes ago, ready, dead, done, failed, died.
async fn minutes(fixture: &Fixture, rows: &[(&str, u32, u32, u32, u32, u32, u32)]) {
    let minutes = rows
        .iter()
        .map(|&(queue, ago, ready, dead, done, failed, died)| (queue, Minute { ago, ready, dead, done, failed, died }));
    fixture.write_history(minutes).await;
}

/// Runs of a kind in the current hour: measure 1 done, 2 failed, 3 died.
async fn runs(fixture: &Fixture, queue: &str, kind: &str, measure: u8, jobs: u32, us: u64) {
    let insert = format!(
        "INSERT [$(schema)].[kind_history] (queue_id, hour, kind, measure, bucket, jobs, total, largest) \
         SELECT queue_id, DATEADD(HOUR, DATEDIFF(HOUR, '20000101', SYSUTCDATETIME()), '20000101'), '{kind}', {measure}, \
         40, {jobs}, {jobs} * CAST({us} AS float), {us} FROM [$(schema)].[queues] WHERE name = N'{queue}'"
    );
    fixture.sql(&insert).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_in_and_went_out_is_summed_over_all_queues() {
    let fixture = Fixture::new("together").await;
    fixture.queue.named("other").unwrap().admin().create(QueueOptions::default()).await.unwrap();
    assert_eq!(fixture.open().page("overview").await.count("#hour *"), 0, "there is no history");
    minutes(
        &fixture,
        &[
            ("work", 4, 10, 0, 7, 0, 0),
            ("work", 3, 15, 1, 4, 2, 1), // 10 came in: 5 more are there, 4 are done, and 1 is dead
            ("work", 2, 12, 1, 5, 0, 0), // 2
            ("other", 4, 100, 0, 0, 0, 0), // nobody reports in the next minute: they are still there
            ("other", 2, 103, 3, 0, 0, 0),
        ],
    )
    .await;
    let page = fixture.open().page("overview").await;
    let pictures = page.values("#hour .plot svg", "aria-label");
    assert_eq!(
        pictures,
        [
            "out: at most 7, latest 5; in: at most 10, latest 2",
            "dead: at most 4, latest 4; unfinished: at most 115, latest 115"
        ]
    );
    // What is wrong, then the queues, then this.
    let heads = page.texts("main h2");
    assert_eq!(heads[heads.len() - 2..], ["Queues", "All queues together, the last hour"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_busiest_kinds_of_all_queues_are_listed() {
    let fixture = Fixture::new("busiest").await;
    fixture.queue.named("other").unwrap().admin().create(QueueOptions::default()).await.unwrap();
    minutes(&fixture, &[("work", 1, 0, 0, 70, 5, 2), ("other", 1, 0, 0, 90, 0, 0)]).await;
    for number in 0..12 {
        runs(&fixture, "work", &format!("k{number:02}"), 1, 20 - number, 2_000_000).await;
    }
    runs(&fixture, "work", "k00", 2, 3, 4_000_000).await;
    runs(&fixture, "work", "k00", 3, 2, 4_000_000).await;
    runs(&fixture, "other", "", 1, 90, 50_000).await;
    let page = fixture.open().page("overview").await;
    let rows = page.texts("[aria-labelledby=kinds] tbody tr");
    assert_eq!((rows.len(), &*rows[0], &*rows[1]), (10, "(none)other900050 ms", "k00work20322.4 s"));
    assert!(!page.texts("[aria-labelledby=kinds] .hd").concat().contains("most attempts"));
    let ready = page.values("[aria-labelledby=kinds] tbody th a", "href").remove(1);
    fixture.open().page(&ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_of_twenty_queues_are_read_however_many_there_are_once_a_minute() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("hundred").await;
    let mut rows = vec![("work".to_owned(), 1)];
    for number in 0..30 {
        let name = format!("q{number}");
        fixture.queue.named(&name).unwrap().admin().create(QueueOptions::default()).await.unwrap();
        rows.push((name, 100 + number));
    }
    let rows: Vec<_> = rows.iter().map(|(name, done)| (&**name, 1, 0, 0, *done, 0, 0)).collect();
    minutes(&fixture, &rows).await;
    runs(&fixture, "q29", "busy", 1, 5, 1_000).await;
    runs(&fixture, "work", "idle", 1, 5, 1_000).await;
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let kinds = fixture.procedure_to_fail("list_kinds");
    server.faults().on_call(&kinds, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        None
    });
    let mut browser = fixture.open();
    let page = browser.page("overview").await;
    assert_eq!(page.texts("[aria-labelledby=kinds] tbody th"), ["busy"]);
    assert!(page.texts("[aria-labelledby=kinds] .hd").concat().contains("of the queues with the most attempts"));
    let mut live = browser.listen("events?part=overview").await;
    for _ in 0..3 {
        assert!(!live.next().await.unwrap().contains("busy"), "it is not sent every second");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 20);
    server.faults().clear(&kinds);
}
