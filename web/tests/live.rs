//! Live parts: they come, change and end; one reading is for all; and what is shown while SQL Server is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use readpast::NewJob;
use readpast_devserver::DevServer;
use readpast_devserver::SqlError;
use readpast_web::{Options, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::server::{dev_server, real_server_url};
use crate::support::{Browser, Fixture, until};

/// Counts the calls of what the live parts read.
fn count_readings(server: &DevServer, fixture: &Fixture) -> Arc<AtomicU64> {
    let calls = Arc::new(AtomicU64::new(0));
    for procedure in ["stats", "list_workers", "list_history", "list_schedules", "list_kinds", "list_errors"] {
        let calls = calls.clone();
        server.faults().on_call(&fixture.procedure_to_fail(procedure), move |_| {
            calls.fetch_add(1, Ordering::Relaxed);
            None
        });
    }
    calls
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_comes_and_changes() {
    let fixture = Fixture::new("live").await;
    let mut browser = fixture.open();
    let mut live = browser.listen("events?part=overview").await;
    let first = live.next().await.unwrap();
    assert!(first.contains("work") && !first.contains("paused"), "{first}");
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    live.until(|html| html.contains("state=ready") && html.contains("no worker")).await;
    fixture.queue.admin().pause().await.unwrap();
    live.until(|html| html.contains("paused")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_ends_at_once_though_browsers_listen() {
    let fixture = Fixture::new("end").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let server = tokio::spawn(serve(listener, fixture.queue.clone(), Options::default(), async move {
        ended.await.unwrap();
    }));
    let mut browsers = Vec::new();
    for part in ["overview", "workers", "overview"] {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /events?part={part} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        while !text.contains("data: ") {
            let mut bytes = [0; 4_096];
            let read = socket.read(&mut bytes).await.unwrap();
            assert_ne!(read, 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        browsers.push(socket);
    }
    // And one that has a connection, and asks for nothing.
    browsers.push(TcpStream::connect(address).await.unwrap());
    end.send(()).unwrap();
    let begin = Instant::now();
    server.await.unwrap().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_listeners_cost_what_one_costs_and_none_cost_nothing() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("cost").await;
    let mut browser = fixture.open();
    let calls = count_readings(server, &fixture);
    let mut listeners = Vec::new();
    for number in 0..20 {
        listeners
            .push(browser.listen(if number % 2 == 0 { "events?part=overview" } else { "events?part=workers" }).await);
    }
    let (before, begin) = (calls.load(Ordering::Relaxed), Instant::now());
    for _ in 0..4 {
        for listener in &mut listeners {
            listener.next().await.unwrap();
        }
    }
    // The queues and the workers once a second; the history, the schedules and why jobs died once; whoever listens.
    let seconds = begin.elapsed().as_secs() + 2;
    let made = calls.load(Ordering::Relaxed) - before;
    assert!(made <= 2 * seconds + 3, "{made} calls in {seconds} s");
    drop(listeners);
    // Nobody listens: after a while nobody asks.
    let quiet = async || {
        let before = calls.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(3)).await; // that nothing comes can only be waited for
        calls.load(Ordering::Relaxed) == before
    };
    until("nothing is asked any more", quiet).await;
    let mut again = browser.listen("events?part=overview").await;
    assert!(again.next().await.unwrap().contains("work"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_says_that_sql_server_is_away_and_recovers() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("away").await;
    let mut browser = fixture.open();
    browser.page("overview").await;
    let mut live = browser.listen("events?part=overview").await;
    let stats = fixture.procedure_to_fail("stats");
    server.faults().on_call(&stats, |_| Some(SqlError::new(50_000, "the cables are cut")));
    let html = live.until(|html| html.contains("role=\"alert\"")).await;
    assert!(html.contains("the cables are cut") && html.contains("what you see is"), "{html}");
    assert!(html.contains("queue=work"), "what was known stays: {html}");
    let page = browser.page("overview").await;
    assert!(page.texts("[role=alert]").iter().any(|alert| alert.contains("the cables are cut")), "{}", page.text());
    server.faults().clear(&stats);
    live.until(|html| !html.contains("role=\"alert\"")).await;

    // One who comes while it is away gets a page, too.
    server.faults().on_call(&stats, |_| Some(SqlError::new(50_000, "the cables are cut")));
    let mut newcomer = fixture.open();
    assert!(newcomer.page("overview").await.text().contains("the cables are cut"));
    let answer = newcomer.get("queue?queue=work").await;
    assert_ne!(answer.status, StatusCode::OK);
    assert!(answer.text().contains("the cables are cut"), "{}", answer.text());
    server.faults().clear(&stats);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_come_though_a_reading_hangs() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("hangs").await;
    let mut browser: Browser = fixture.open();
    browser.page("overview").await;
    let (let_go, gate) = std::sync::mpsc::channel::<()>();
    let gate = parking_lot::Mutex::new(gate);
    let stats = fixture.procedure_to_fail("stats");
    server.faults().on_call(&stats, move |_| {
        let _ = gate.lock().recv_timeout(Duration::from_secs(60));
        None
    });
    // Once the last reading is some seconds old, the page says so instead of waiting.
    let says = async || {
        let begin = Instant::now();
        let page = browser.clone().page("overview").await;
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        page.text().contains("no response for")
    };
    until("the page says that it is old", says).await;
    drop(let_go);
    server.faults().clear(&stats);
    until("the page is fresh", async || !browser.clone().page("overview").await.text().contains("no response for"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readings_come_though_pages_and_operations_take_long() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("shares").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut browser = fixture.open();
    let mut live = browser.listen("events?part=overview").await;
    live.until(|html| html.contains("state=ready")).await;
    let (let_go, gate) = std::sync::mpsc::channel::<()>();
    let (gate, held) = (Arc::new(parking_lot::Mutex::new(gate)), Arc::new(AtomicU64::new(0)));
    for procedure in ["cancel", "list_audit"] {
        let (gate, held) = (gate.clone(), held.clone());
        server.faults().on_call(&fixture.procedure_to_fail(procedure), move |_| {
            held.fetch_add(1, Ordering::Relaxed);
            let _ = gate.lock().recv_timeout(Duration::from_secs(60));
            None
        });
    }
    let all = [("queue", "work"), ("state", "ready"), ("scope", "all"), ("action", "cancel")];
    for _ in 0..10 {
        browser.post("act", &all).await.location();
    }
    let ask = |mut browser: Browser| tokio::spawn(async move { browser.page("audit").await });
    let pages: Vec<_> = (0..10).map(|_| ask(browser.clone())).collect();
    until("two operations and three pages take long", async || held.load(Ordering::Relaxed) == 5).await;
    let begin = Instant::now();
    fixture.queue.admin().pause().await.unwrap();
    let html = live.until(|html| html.contains("paused")).await;
    assert!(begin.elapsed() < Duration::from_secs(5) && !html.contains("no response for"), "{:?}", begin.elapsed());
    drop(let_go);
    for page in pages {
        page.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_are_counted_up_to_two_thousand_at_first_and_then_all() {
    let fixture = Fixture::new("many").await;
    let jobs: Vec<NewJob> = (0..3_000).map(|_| NewJob::text("x")).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let mut browser = fixture.open();
    assert!(browser.page("overview").await.text().contains(">2,000+</a>"));
    let mut live = browser.listen("events?part=overview").await;
    live.until(|html| html.contains(">≈ 3,000</a>")).await;
    for page in ["queue?queue=work", "jobs?queue=work&state=ready"] {
        let counts = browser.page(page).await.texts(".count");
        assert!(counts.contains(&"≈ 3,000".to_owned()), "{page}: {counts:?}");
    }
    let confirm = browser.page("confirm?queue=work&state=ready&action=cancel&scope=all").await;
    assert_eq!(confirm.texts(".many strong"), ["≈ 3,000"]);
    let few = fixture.queue.admin().stats(Some(5)).await.unwrap();
    assert_eq!((few.ready, few.dead), (5, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_that_takes_long_is_shown_at_once_and_counts_on() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("counting").await;
    let jobs: Vec<NewJob> = (0..3).map(|_| NewJob::text("x").kind("a")).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("x").kind("b")).await.unwrap();
    // Each state takes longer than the page has.
    let peek = fixture.procedure_to_fail("peek");
    server.faults().on_call(&peek, |_| {
        std::thread::sleep(Duration::from_millis(60));
        None
    });
    let mut browser = fixture.open();
    let confirm = browser.page("confirm?queue=work&kind=a&action=cancel&scope=all").await;
    assert!(confirm.text().contains("At least <strong>0</strong> jobs; still counting"), "{}", confirm.text());
    let part = confirm.values("[data-live]", "data-live").remove(0);
    let mut live = browser.listen(&part).await;
    live.until(|html| html.contains("<strong>3</strong> jobs.") && html.contains("data-over")).await;
    assert_eq!(live.next().await, None, "it ends");
    let few = browser.page("confirm?queue=work&state=ready&kind=b&action=cancel&scope=all").await;
    assert_eq!(few.texts(".many"), ["1 job."]);
    let none = browser.page("confirm?queue=work&state=ready&kind=c&action=cancel&scope=all").await;
    assert!(none.texts("main p").contains(&"There are none.".to_owned()), "{}", none.text());
    server.faults().clear(&peek);
}
