//! Those who ask for too much: connections, log-ins, live parts. Each is an attack with its count.

use std::time::Duration;

use axum::http::StatusCode;
use readpast_web::{Access, HeaderName, Options, User, hash_password, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::support::{Browser, Fixture};

const TOKEN: &str = "correct-horse-battery";

#[tokio::test(flavor = "multi_thread")]
async fn eleven_hundred_half_open_requests_do_not_shut_the_page() {
    let fixture = Fixture::new("half_open").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let server = tokio::spawn(serve(listener, fixture.queue.clone(), Options::default(), async move {
        ended.await.unwrap();
    }));
    let mut half_open = Vec::new();
    for _ in 0..1_100 {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let _ = socket.write_all(b"GET /overview HTTP/1.1\r\nHost: localhost\r\nX-").await; // it may be closed already
        half_open.push(socket);
    }
    let mut visitor = TcpStream::connect(address).await.unwrap();
    let request = b"GET /overview HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    visitor.write_all(request).await.unwrap();
    let mut answer = String::new();
    visitor.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Those that were too many are closed, the first ones first, and the others for their silence.
    for mut socket in half_open {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(60), socket.read_to_end(&mut rest)).await;
        let _ = closed.expect("it is closed by the page"); // perhaps by a reset
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
    }
    end.send(()).unwrap();
    server.await.unwrap().unwrap();
}

/// A log-in stands in memory, and what comes before it does not.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_visits_log_nobody_out() {
    let fixture = Fixture::new("visits").await;
    let mut browser = fixture.browser(Options::default().access(Access::Token(TOKEN.to_owned())));
    let mut early = browser.clone();
    early.get("login").await;
    browser.log_in("", TOKEN).await.location();
    for _ in 0..10_400 {
        let mut another = Browser::new(browser.page.clone());
        assert_eq!(another.get("login").await.status, StatusCode::OK);
    }
    browser.page("overview").await;
    // Whoever had the form open can still send it.
    assert_eq!(early.log_in("", TOKEN).await.location(), "overview");
}

/// (A live part that is sent does not end.)
async fn refuses_one_more(browser: &mut Browser) {
    let answer = tokio::time::timeout(Duration::from_secs(60), browser.get("events?part=workers")).await;
    assert_eq!(answer.expect("it is refused").status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_sixteen_live_parts_and_takes_no_other_s() {
    let fixture = Fixture::new("streams").await;
    let users = vec![
        User::new("ann", hash_password("ann's password")).unwrap(),
        User::new("bob", hash_password("bob's password")).unwrap(),
    ];
    let mut ann = fixture.browser(Options::default().access(Access::Users(users)));
    let mut bob = ann.clone();
    ann.log_in("ann", "ann's password").await.location();
    bob.log_in("bob", "bob's password").await.location();
    let mut parts = Vec::new();
    for _ in 0..16 {
        parts.push(ann.listen("events?part=overview").await);
    }
    refuses_one_more(&mut ann).await;
    bob.listen("events?part=overview").await.next().await.unwrap();
    parts.pop();
    parts.push(ann.listen("events?part=workers").await);
    parts.last_mut().unwrap().next().await.unwrap();
}

/// Where nobody can be told from anybody, all of them together have a bound.
#[tokio::test(flavor = "multi_thread")]
async fn all_visitors_together_have_256_live_parts() {
    let fixture = Fixture::new("all_streams").await;
    let mut browser = fixture.open();
    let mut parts = Vec::new();
    for _ in 0..256 {
        parts.push(browser.listen("events?part=overview").await);
    }
    refuses_one_more(&mut browser).await;
    drop(parts);
    browser.listen("events?part=overview").await.next().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn live_parts_are_kept_by_nobody() {
    let fixture = Fixture::new("no_store").await;
    let mut browser = fixture.open();
    for part in ["overview", "workers"] {
        let live = browser.listen(&format!("events?part={part}")).await;
        assert_eq!(live.headers["cache-control"], "no-store", "{part}");
    }
    for page in ["overview", "jobs?queue=work", "audit"] {
        assert_eq!(browser.page(page).await.header("cache-control"), "no-store", "{page}");
    }
}

/// The proxy says who it is, once; what a browser has sent under the same name must not count beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_the_proxy_does_not_say_once_does_nothing() {
    let fixture = Fixture::new("proxy_names").await;
    let user_header = Some(HeaderName::from_static("x-forwarded-user"));
    let browser = fixture.browser(Options::default().access(Access::Trusted { user_header }));
    let mut twice = browser.clone();
    for name in ["admin", "mallory"] {
        twice.headers.append("x-forwarded-user", name.parse().unwrap());
    }
    for page in ["overview", "audit", "events?part=overview"] {
        let answer = twice.get(page).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{page}");
    }
    // Without one he looks: perhaps it is the proxy's own check.
    for mut nobody in [browser.clone(), browser.with("x-forwarded-user", "")] {
        let page = nobody.page("queue?queue=work").await;
        assert_eq!(page.count("button[value=pause]"), 0);
        let answer = nobody.post("act", &[("action", "pause"), ("queue", "work")]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text());
    }
    assert!(!fixture.queue.admin().stats(None).await.unwrap().paused);
    assert!(fixture.audits().await.is_empty());
}
