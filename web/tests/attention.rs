//! What the overview makes of the last hours: what is wrong is a sentence with a number, and the thresholds are those of
//! the alerts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;
use readpast::NewJob;
use readpast::admin::{Held, QueueOptions, Schedule};

use crate::server::{dev_server, real_server_url};
use crate::support::{Answer, Browser, Fixture, Minute};

/// The sentences of the problems, without the word for how grave they are.
async fn problems(browser: &mut Browser) -> Vec<String> {
    let page = browser.page("overview").await;
    page.texts(".problems h2").iter().map(|text| text.split_once(": ").unwrap().1.to_owned()).collect()
}

async fn three_dead(fixture: &Fixture, error: &'static str) {
    let job = NewJob::text("x").kind("invoice").max_attempts(1);
    fixture.queue.enqueue_many(&vec![job; 3]).await.unwrap();
    fixture.kill_all(error).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_wrong_the_page_says_so() {
    let fixture = Fixture::new("calm").await;
    let page = fixture.open().page("overview").await;
    assert_eq!(page.texts("h1"), ["Nothing needs attention"]);
    assert_eq!(page.texts(".calm"), ["No job is waiting to be claimed."]);
    assert_eq!(page.texts("title"), [format!("Overview · {}", fixture.schema)]);
    assert_eq!(page.count("[data-problems]:not([hidden])"), 0);
    assert_eq!(page.texts(".live"), ["live · 1 queue · 0 workers · 0.0 jobs done per second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_died_lately_are_a_problem_with_their_error() {
    let fixture = Fixture::new("rising").await;
    three_dead(&fixture, "Traceback (most recent call last):\n  File \"a.py\"\napp.BadInvoice: no <total>").await;
    // Two were dead ten minutes before the last sample, and none an hour before.
    let minutes = [(60, 0), (10, 2), (0, 3)].map(|(ago, dead)| ("work", Minute { ago, dead, ..Minute::default() }));
    fixture.write_history(minutes).await;
    let mut browser = fixture.open();
    let page = browser.page("overview").await;
    assert_eq!(page.texts(".problems h2"), ["Problem: work: 1 job died in the last 15 minutes"]);
    assert_eq!(page.texts("h1"), ["1 thing needs attention"]);
    assert_eq!(page.texts(".problems .tell"), ["app.BadInvoice: no <total>"]);
    assert_eq!(
        page.texts(".problems .small"),
        ["3 dead jobs with this error, all of kind invoice. 3 dead jobs in total."]
    );
    let these = page.values(".problems .btn", "href").remove(0);
    assert_eq!(browser.page(&these).await.count("table.jobs tbody tr"), 3);
    tells_everywhere(&mut browser, &page).await;

    fixture.sql("UPDATE [$(schema)].[history] SET dead = 3").await;
    let page = fixture.open().page("overview").await;
    assert_eq!(page.count(".problems"), 0, "those that stay dead are no news");
    assert!(page.texts("main p").contains(&"Dead jobs that wait for a decision: 3 of work.".to_owned()));
}

/// The tab, its icon and the navigation say how many problems there are, on other pages, too.
async fn tells_everywhere(browser: &mut Browser, overview: &Answer) {
    assert!(overview.texts("title")[0].starts_with("1 problem · "));
    for page in ["overview", "audit", "queue?queue=work", "nothing"] {
        let page = browser.get(page).await;
        assert_eq!(page.texts("[data-problems]:not([hidden])"), ["1"]);
        assert_eq!(page.values("link[rel=icon]", "href"), page.values("link[rel=icon]", "data-alert"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn why_jobs_died_is_read_of_one_queue_a_minute() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("one_a_minute").await;
    three_dead(&fixture, "no space left").await;
    let other = fixture.queue.named("other").unwrap();
    other.admin().create(QueueOptions::default()).await.unwrap();
    fixture.write_history(["work", "other"].map(|queue| (queue, Minute { ago: 5, ..Minute::default() }))).await;
    fixture.sql("UPDATE [$(schema)].[jobs] SET queue_id = (SELECT queue_id FROM [$(schema)].[queues] WHERE name = N'other') \
                 WHERE job_id = (SELECT MAX(job_id) FROM [$(schema)].[jobs])").await;
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    server.faults().on_call(&fixture.procedure_to_fail("list_errors"), move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        None
    });
    let mut browser = fixture.open();
    assert_eq!(problems(&mut browser).await.len(), 2);
    let mut live = browser.listen("events?part=overview").await;
    for _ in 0..3 {
        live.next().await.unwrap();
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_that_are_late_are_a_problem() {
    let fixture = Fixture::new("late").await;
    for name in ["on time", "late", "unreadable", "paused"] {
        fixture.queue.admin().set_schedule(&Schedule::new(name, "0 30 3 * * *", NewJob::text("x"))).await.unwrap();
    }
    fixture.queue.admin().pause_schedule("paused").await.unwrap();
    let tomorrow = "UPDATE [$(schema)].[schedules] SET next_at = DATEADD(DAY, 1, SYSUTCDATETIME())";
    fixture.sql(tomorrow).await;
    assert!(problems(&mut fixture.open()).await.is_empty());

    // Its last time was an hour ago or earlier.
    let missed = "UPDATE [$(schema)].[schedules] SET next_at = DATEADD(HOUR, -25, SYSUTCDATETIME()) WHERE name IN \
                  (N'late', N'paused')";
    fixture.sql(missed).await;
    assert_eq!(problems(&mut fixture.open()).await, ["work: schedule late is late"]);

    fixture.sql("UPDATE [$(schema)].[schedules] SET error = N'no such zone' WHERE name = N'unreadable'").await;
    let page = fixture.open().page("overview").await;
    assert_eq!(page.count(".problems li"), 2);
    assert!(page.text().contains("schedule unreadable cannot enqueue its jobs"), "{}", page.text());
    assert_eq!(page.texts(".problems .tell"), ["no such zone"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_whose_last_job_is_dead_comes_first() {
    let fixture = Fixture::new("last_job").await;
    for name in ["a", "b"] {
        fixture.queue.admin().set_schedule(&Schedule::new(name, "0 30 3 * * *", NewJob::text(name))).await.unwrap();
    }
    let fire = "EXEC [$(schema)].[fire_schedule] @queue = N'work', @name = N'b', @revision = 1, \
                @fire_at = '2026-01-01T03:30:00', @next_at = '2099-01-01T03:30:00'";
    fixture.sql(fire).await;
    assert_eq!(fixture.open().page("schedules").await.texts("tbody td a .st"), ["ready"]);
    fixture.sql("UPDATE [$(schema)].[jobs] SET state = 4, ended = 1, finished_at = SYSUTCDATETIME()").await;
    let page = fixture.open().page("schedules").await;
    assert_eq!(
        (page.texts("tbody th"), page.texts("tbody td a .st")),
        (vec!["b".into(), "a".into()], vec!["dead".into()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_jobs_without_a_worker_are_a_problem_after_five_minutes() {
    let fixture = Fixture::new("no_worker").await;
    fixture.queue.enqueue_many(&vec![NewJob::text("x"); 3]).await.unwrap();
    let since = async |minutes: u32| {
        fixture
            .sql(&format!("UPDATE [$(schema)].[jobs] SET due_at = DATEADD(MINUTE, -{minutes}, SYSUTCDATETIME())"))
            .await;
        problems(&mut fixture.open()).await
    };
    assert!(since(4).await.is_empty(), "a worker may be restarting");
    assert_eq!(since(6).await, ["work: 3 jobs are ready and no worker runs"]);
    fixture.queue.admin().pause().await.unwrap();
    assert_eq!(since(6).await, ["work: paused, and 3 jobs are ready"]);
    let page = fixture.open().page("queue?queue=work").await;
    assert_eq!(page.texts(".problems h2"), ["Warning: work: paused, and 3 jobs are ready"]);
    assert_eq!(page.count(".problems .btn"), 0, "one is there already");
}

/// A worker whose lease ends so many minutes from now.
async fn worker(fixture: &Fixture, lease_minutes: i32) {
    let insert = format!(
        "INSERT [$(schema)].[workers] (worker_id, queue_id, name, lease_ms, registered_at, lease_until) SELECT \
         '67e55044-10b1-426f-9247-bb680e5fe0c8', queue_id, N'node-1', 3600000, SYSUTCDATETIME(), DATEADD(MINUTE, \
         {lease_minutes}, SYSUTCDATETIME()) FROM [$(schema)].[queues]"
    );
    fixture.sql(&insert).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ready_job_that_waits_for_a_quarter_of_an_hour_is_a_problem_though_workers_run() {
    let fixture = Fixture::new("too_old").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    worker(&fixture, 60).await;
    let since = async |minutes: u32| {
        fixture
            .sql(&format!("UPDATE [$(schema)].[jobs] SET due_at = DATEADD(MINUTE, -{minutes}, SYSUTCDATETIME())"))
            .await;
        problems(&mut fixture.open()).await
    };
    assert_eq!(since(14).await, [""; 0]);
    assert_eq!(since(16).await, ["work: the oldest ready job has waited 16 min"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_holds_jobs_without_a_lease_is_a_problem() {
    let fixture = Fixture::new("no_lease").await;
    fixture.queue.enqueue_many(&vec![NewJob::text("x"); 2]).await.unwrap();
    worker(&fixture, -1).await;
    assert!(problems(&mut fixture.open()).await.is_empty(), "it holds nothing");
    let claim = "UPDATE [$(schema)].[jobs] SET state = 2, attempt = 1, fence = 1, claimed_at = SYSUTCDATETIME(), worker_id \
                 = '67e55044-10b1-426f-9247-bb680e5fe0c8'";
    fixture.sql(claim).await;
    let mut browser = fixture.open();
    assert_eq!(problems(&mut browser).await, ["work: the lease of worker node-1 has expired"]);
    // Where one looks next says it, too.
    fixture
        .sql(
            "INSERT [$(schema)].[workers] (worker_id, queue_id, name, lease_ms, registered_at, lease_until) SELECT \
             NEWID(), queue_id, N'a-live-one', 3600000, SYSUTCDATETIME(), DATEADD(HOUR, 1, SYSUTCDATETIME()) FROM \
             [$(schema)].[queues]",
        )
        .await;
    let mut browser = fixture.open();
    let id = browser.page("jobs?queue=work&state=claimed").await.texts("tbody a").remove(0);
    let next = browser.page(&format!("job?queue=work&id={id}")).await.texts(".next").remove(0);
    assert!(next.starts_with("The lease of its worker has expired."), "{next}");
    assert_eq!(browser.page("workers").await.texts("tbody th a"), ["node-1", "a-live-one"], "trouble first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ready_job_says_that_no_worker_runs() {
    let fixture = Fixture::new("no_worker_for_it").await;
    let id = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let mut browser = fixture.open();
    let next = browser.page(&format!("job?queue=work&id={id}")).await.texts(".next");
    assert_eq!(next, ["No worker of the queue runs."]);
    assert_eq!(browser.page("overview").await.texts("td.cap .bad"), ["no worker"]);
    worker(&fixture, 60).await;
    let mut browser = fixture.open();
    let next = browser.page(&format!("job?queue=work&id={id}")).await.texts(".next");
    assert_eq!(next, ["A worker claims it after the jobs before it."]);
    assert_eq!(browser.page("overview").await.count("td.cap .bad"), 0);
    let queue = browser.page("queue?queue=work").await;
    assert_eq!(queue.values("[aria-labelledby=workers] a[href^='worker?']", "href").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_without_a_hit_says_so() {
    let fixture = Fixture::new("no_hit").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut browser = fixture.open();
    for (text, said) in [
        ("timeout", "No dead job has an error with this text."),
        ("67e55044-10b1-426f-9247-bb680e5fe0c8", "No job has the correlation id 67e55044-10b1-426f-9247-bb680e5fe0c8."),
    ] {
        let answer = browser.get(&format!("find?text={text}")).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        assert!(answer.text().contains(said), "{}", answer.text());
    }
    fixture.kill_all("a timeout").await;
    assert!(fixture.open().get("find?text=timeout").await.location().starts_with("jobs?queue=work&state=dead"));
}

/// Whoever changes a threshold there has to change it here.
#[test]
fn the_thresholds_are_those_of_the_alerts() {
    let alerts = include_str!("../../grafana/alerts.yaml");
    for (alert, thresholds) in [
        ("ReadpastBacklogGrowing", &["[30m:1m]) > 0.1", "> 1000\n", "for: 30m"][..]),
        ("ReadpastOldestJobTooOld", &["> 900"]),
        ("ReadpastJobsDied", &["[15m])) > 0"]),
        ("ReadpastNoWorker", &["for: 5m"]),
    ] {
        let rule = alerts.split("- alert: ").find(|rule| rule.starts_with(alert)).expect(alert);
        for threshold in thresholds {
            assert!(rule.contains(threshold), "{alert}: {threshold} is not in {rule}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_attempts_and_a_growing_backlog_are_warnings() {
    let fixture = Fixture::new("warnings").await;
    // One more in nine seconds.
    let minute = |ago| Minute { ago, ready: 1_500 - ago * 7, done: 70, failed: 30, ..Minute::default() };
    fixture.write_history((0..=70).map(|ago| ("work", minute(ago)))).await;
    let found = problems(&mut fixture.open()).await;
    let failed = "work: 30 % of attempts failed in the last 15 minutes";
    assert_eq!(found, [failed, "work: the backlog has grown for an hour"]);
    fixture.sql("UPDATE [$(schema)].[history] SET failed = 10, ready = 1500").await;
    assert!(problems(&mut fixture.open()).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_small_chart_does_not_fall_at_its_end_and_is_not_sent_each_second() {
    let fixture = Fixture::new("spark").await;
    // The last minute has just begun.
    let minute = |ago| Minute { ago, done: if ago == 0 { 1 } else { 100 }, ..Minute::default() };
    fixture.write_history((0..=25).map(|ago| ("work", minute(ago)))).await;
    let mut browser = fixture.open();
    let page = browser.page("overview").await;
    let chart = page.values(".spark use", "href").remove(0);
    let path = page.values(&format!("#hour {chart} .ok"), "d").remove(0);
    assert!(path.ends_with("M34 0h.84v100h-.84z"), "{path}");
    assert!(page.values(".spark", "aria-label")[0].starts_with("Last 3 hours: "));
    let html = browser.listen("events?part=overview").await.next().await.unwrap();
    assert!(html.contains(&chart) && !html.contains("<path"), "{html}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_all_queues_comes_first() {
    let fixture = Fixture::new("held").await;
    fixture.queue.admin().pause_all(Some("the disk is full")).await.unwrap();
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().held, Some(Held::Schema));
    let mut browser = fixture.open();
    let page = browser.page("overview").await;
    assert!(page.texts(".problems h2")[0].contains("paused with all other queues"), "{}", page.text());
    let by = browser.page("queue?queue=work").await.texts(".paused-by").remove(0);
    assert!(by.starts_with("By ") && by.ends_with(": the disk is full"), "{by}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_paused_a_queue_and_why_is_shown_while_it_is_paused() {
    let fixture = Fixture::new("paused_by").await;
    let mut browser = fixture.open();
    let paused_by = async |browser: &mut Browser| browser.page("queue?queue=work").await.texts(".paused-by");
    for (why, end) in [("the disk is full", ": the disk is full"), ("", "")] {
        browser.post("act", &[("action", "pause"), ("queue", "work"), ("why", why)]).await.location();
        let by = paused_by(&mut browser).await.remove(0);
        assert!(by.starts_with("By ") && by.ends_with(end) && by.contains(": ") != end.is_empty(), "{by}");
        browser.post("act", &[("action", "resume"), ("queue", "work")]).await.location();
        assert_eq!(paused_by(&mut browser).await, [""; 0]);
    }
    fixture.sql("EXEC [$(schema)].[pause] @queue = N'work'").await;
    assert!(paused_by(&mut browser).await[0].starts_with("By sa, "), "a script by hand");
}
