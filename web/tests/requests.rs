//! What every request meets, whoever sends it: the host's name, forged forms, headers, bad fields.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Request, StatusCode};
use readpast::NewJob;
use readpast_web::{Access, Options};
use tower::ServiceExt;

use crate::support::{Browser, Fixture, until};

#[tokio::test(flavor = "multi_thread")]
async fn without_a_log_in_only_this_machine_s_names_are_answered() {
    let fixture = Fixture::new("host").await;
    let browser = fixture.open();
    for host in ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080"] {
        browser.with("host", host).page("overview").await;
    }
    for host in ["evil.example", "evil.example:80", "localhost.evil.example", "10.1.2.3", "127.0.0.1.evil.example", ""]
    {
        for page in ["overview", "events?part=overview", "login", "nothing"] {
            let answer = browser.with("host", host).get(page).await;
            assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST, "{host} {page}");
            assert!(answer.header("set-cookie").is_empty());
        }
    }
    let mut browser = browser.with("host", "evil.example");
    let token = browser.clone().with("host", "localhost").token().await;
    let answer = browser.send_form("act", &[("action", "pause"), ("queue", "work"), ("csrf", &token)]).await;
    assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST);
    assert!(!fixture.queue.admin().stats(None).await.unwrap().paused);
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_forms_change_nothing() {
    let fixture = Fixture::new("forged").await;
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id.to_string();
    let mut browser = fixture.open();
    let token = browser.token().await;
    let others = fixture.open().token().await;
    let another_digit = if token.ends_with('0') { '1' } else { '0' };
    let almost = format!("{}{another_digit}", &token[..token.len() - 1]);
    let forms: [(&str, Vec<(&str, &str)>); 6] = [
        ("act", vec![("action", "pause"), ("queue", "work")]),
        ("act", vec![("action", "cancel"), ("queue", "work"), ("state", "ready"), ("id", &job)]),
        ("act", vec![("action", "purge"), ("queue", "work"), ("state", "ready"), ("scope", "all")]),
        ("stop", vec![("id", "1")]),
        ("login", vec![("secret", "x")]),
        ("logout", vec![]),
    ];
    let cookie = browser.headers["cookie"].clone();
    for (page, fields) in forms {
        for wrong in [None, Some(""), Some("x"), Some(&*others), Some(&*almost)] {
            let mut fields = fields.clone();
            fields.extend(wrong.map(|token| ("csrf", token)));
            let answer = browser.send_form(page, &fields).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{page} {wrong:?}");
        }
        for site in ["cross-site", "same-site", "something new"] {
            let mut fields = fields.clone();
            fields.push(("csrf", &token));
            let answer = browser.with("sec-fetch-site", site).send_form(page, &fields).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{page} from {site}");
        }
        // A token is not a cookie, and an address is not a form.
        let mut without_cookie = Browser::new(browser.page.clone());
        let mut right = fields.clone();
        right.push(("csrf", &token));
        assert_eq!(without_cookie.send_form(page, &right).await.status, StatusCode::FORBIDDEN, "{page}");
        if page == "act" || page == "stop" || page == "logout" {
            let address = format!("{page}?{}", crate::support::form(&right));
            assert_eq!(browser.get(&address).await.status, StatusCode::METHOD_NOT_ALLOWED, "{page}");
            assert_eq!(browser.ask("POST", &address, "").await.status, StatusCode::FORBIDDEN, "{page}");
        }
    }
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.paused, stats.ready), (false, 1));
    assert!(fixture.audits().await.is_empty());
    browser.page("overview").await;
    assert_eq!(browser.headers["cookie"], cookie, "nobody was logged out");
    let mut own = browser.with("sec-fetch-site", "same-origin");
    let answer = own.post("act", &[("action", "pause"), ("queue", "work")]).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "the page's own form");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_does_not_come_is_not_waited_for() {
    let fixture = Fixture::new("slow").await;
    let browser = fixture.open();
    let begin = Instant::now();
    let body = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let request = Request::post("/act").header("host", "localhost").body(body).unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(60), browser.page.oneshot(request)).await;
    assert_eq!(answer.expect("it is answered").unwrap().status(), StatusCode::REQUEST_TIMEOUT);
    assert!(begin.elapsed() >= Duration::from_secs(10), "it had its time: {:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_downloads_at_once_are_sent_and_a_third_is_told_to_wait() {
    let fixture = Fixture::new("downloads").await;
    let payload: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
    let job = fixture.queue.enqueue(&NewJob::bytes(payload.clone())).await.unwrap().job_id;
    let mut browser = fixture.open();
    let address = format!("bytes?queue=work&id={job}&of=payload");
    let request = || Request::get(format!("/{address}")).header("host", "localhost").body(Body::empty()).unwrap();
    let first = browser.page.clone().oneshot(request()).await.unwrap();
    let second = browser.page.clone().oneshot(request()).await.unwrap();
    let answer = browser.get(&address).await;
    assert_eq!((answer.status, answer.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, "5"));
    assert!(answer.text().contains("2 downloads are in progress"), "{}", answer.text());

    assert_eq!(first.headers()["content-length"], "1000000");
    assert_eq!(axum::body::to_bytes(first.into_body(), usize::MAX).await.unwrap(), payload);
    assert_eq!(browser.page(&address).await.body, payload, "there is a place again");
    // One that is broken off leaves its place, too.
    let third = browser.page.clone().oneshot(request()).await.unwrap();
    drop((second, third));
    until("there are places again", async || browser.clone().get(&address).await.body == payload).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_the_security_headers() {
    let fixture = Fixture::new("headers").await;
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let mut browser = fixture.open();
    let page = browser.page("overview").await;
    let assets = [page.values("link", "href"), page.values("script", "src")].concat();
    assert_eq!(assets.len(), 3);
    let mut answers = Vec::new();
    let addresses = ["", "overview", "nothing", "queue?queue=nothing", "jobs", "login", "assets/nothing", "act"];
    let of_job = [format!("job?queue=work&id={job}"), format!("bytes?queue=work&id={job}&of=payload")];
    for address in addresses.into_iter().map(str::to_owned).chain(of_job).chain(assets) {
        answers.push((address.clone(), browser.get(&address).await));
    }
    answers.push(("forged".to_owned(), browser.send_form("act", &[]).await));
    answers.push(("another host".to_owned(), browser.with("host", "evil.example").get("overview").await));
    let options = Options::default().access(Access::Token("correct-horse-battery".to_owned()));
    answers.push(("to the log-in".to_owned(), fixture.browser(options).get("overview").await));
    for (address, answer) in answers {
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; "), "{address}: {policy}");
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("data:"), "{policy}");
        for needed in ["base-uri 'none'", "frame-ancestors 'none'", "form-action 'self'"] {
            assert!(policy.contains(needed), "{policy}");
        }
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{address}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{address}");
        assert_eq!(answer.header("referrer-policy"), "same-origin", "{address}");
        let is_asset = address.starts_with("assets/") && answer.status == StatusCode::OK;
        assert_eq!(answer.header("cache-control") == "no-store", !is_asset, "{address}");
        // What the policy forbids is not there.
        if answer.header("content-type").starts_with("text/html") {
            assert_eq!(answer.count("script:not([src]), style, [style], [onclick], iframe, base"), 0, "{address}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_not_found() {
    let fixture = Fixture::new("not_found").await;
    let mut browser = fixture.open();
    for address in [
        "nothing",
        "a/b/c",
        "assets/nothing.js",
        "queue?queue=nothing",
        "jobs?queue=nothing",
        "job?queue=work&id=12345",
        "job?queue=nothing&id=1",
        "bytes?queue=work&id=12345&of=payload",
        "find?text=12345",
        "operation?id=7",
        "events?part=operation&id=7",
        "confirm?queue=nothing&state=dead&action=requeue&scope=all",
    ] {
        let answer = browser.get(address).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{address}");
        assert_eq!(answer.texts("h1"), ["Not found"], "{address}");
    }
    let answer = browser.post("act", &[("action", "pause"), ("queue", "nothing")]).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_field_is_named_with_its_value_and_what_is_allowed() {
    let fixture = Fixture::new("fields").await;
    let mut browser = fixture.open();
    for (address, name, value, allowed) in [
        ("queue", "queue", "missing", "must be there"),
        ("queue?queue=work&span=year", "span", "year", "hour"),
        ("jobs?queue=work&state=died", "state", "died", "ready"),
        ("jobs?queue=work&batch=x", "batch", "x", "invalid digit"),
        ("jobs?queue=work&since=now", "since", "now", "2026-11-23T10:20"),
        ("jobs?queue=work&until=12%3A00", "until", "12:00", "2026-11-23T10:20"),
        ("jobs?queue=work&correlation_id=1", "correlation_id", "1", "invalid"),
        ("jobs?queue=work&after=x", "after", "x", "link to the next page"),
        ("job?queue=work", "id", "missing", "number"),
        ("job?queue=work&id=x", "id", "x", "invalid digit"),
        ("bytes?queue=work&id=1&of=everything", "of", "everything", "payload or output"),
        ("events?part=all", "part", "all", "overview, workers, job, operation or count"),
        ("audit?before=x", "before", "x", "invalid digit"),
        ("batches?batch=x", "batch", "x", "invalid digit"),
        ("confirm?queue=work&state=dead&action=promote&scope=all", "action", "promote", "dead"),
        ("find", "text", "missing", "must be there"),
    ] {
        if address.starts_with("bytes") {
            fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
        }
        let answer = browser.get(address).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{address}: {}", answer.text());
        let said = answer.texts("main p").remove(0);
        assert!(said.contains(name) && said.contains(value) && said.contains(allowed), "{address}: {said}");
    }
    for (fields, name) in [
        (vec![("queue", "work")], "action"),
        (vec![("queue", "work"), ("action", "explode"), ("state", "dead"), ("scope", "all")], "action"),
        (vec![("queue", "work"), ("action", "requeue"), ("state", "dead")], "jobs"),
        (vec![("queue", "work"), ("action", "requeue"), ("state", "dead"), ("id", "x")], "id"),
        (vec![("queue", "work"), ("action", "set_priority"), ("state", "ready"), ("scope", "all")], "priority"),
        (vec![("queue", "work"), ("action", "set_priority"), ("priority", "40000"), ("scope", "all")], "priority"),
        (vec![("queue", "work"), ("action", "requeue"), ("state", "ready"), ("scope", "all")], "action"),
        (vec![("queue", "work"), ("action", "cancel_batch")], "batch"),
        (vec![("queue", "work"), ("action", "run_schedule")], "schedule"),
    ] {
        let answer = browser.post("act", &fields).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{fields:?}: {}", answer.text());
        assert!(answer.texts("main p")[0].starts_with(name), "{fields:?}: {}", answer.text());
    }
    assert!(fixture.audits().await.is_empty());
    let huge = "x".repeat(300_000);
    let answer = browser.post("act", &[("queue", &huge)]).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}
