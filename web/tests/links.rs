//! Wherever the page is mounted, every link, form and redirect stays there and leads somewhere.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use readpast::admin::Schedule;
use readpast::{NewBatch, NewJob};
use readpast_web::{Access, Options, router};
use tower::ServiceExt;

use crate::support::{Answer, Browser, Fixture};

/// Where a browser goes from `base` by a link to a place of the same site.
fn resolve(base: &str, link: &str) -> String {
    let (path, query) = link.split_once('?').map_or((link, None), |(path, query)| (path, Some(query)));
    let base = base.split('?').next().unwrap();
    let mut parts: Vec<&str> = match path {
        path if path.starts_with('/') => Vec::new(),
        _ => base.split('/').collect(),
    };
    if !path.starts_with('/') {
        parts.pop();
    }
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    }
}

/// A page behind a path: what the browser sees begins with `seen`, what the router gets with `got`.
struct Mounted {
    page: Router,
    seen: &'static str,
    got: &'static str,
}

impl Mounted {
    /// An address as the router gets it; fails where it is outside of the page.
    fn as_got(&self, address: &str) -> String {
        let rest = address.strip_prefix(self.seen).unwrap_or_else(|| panic!("{address} is outside of {}", self.seen));
        format!("{}{rest}", self.got)
    }

    async fn get(&self, address: &str) -> Answer {
        let request = Request::get(self.as_got(address)).header(header::HOST, "localhost").body(Body::empty());
        let answer = self.page.clone().oneshot(request.unwrap()).await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        // Live parts do not end.
        let is_live = headers.get(header::CONTENT_TYPE).is_some_and(|form| form == "text/event-stream");
        let body = if is_live { Body::empty() } else { answer.into_body() };
        Answer { status, headers, body: axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec() }
    }

    /// Follows what can be followed from an address, up to `most` addresses, the nearest first; how many were found.
    /// Fails where one of them is outside of the page.
    async fn crawl(&self, first: &str, most: usize) -> usize {
        let (mut seen, mut open) = (BTreeSet::from([first.to_owned()]), VecDeque::from([first.to_owned()]));
        for _ in 0..most {
            let Some(address) = open.pop_front() else { break };
            let mut answer = self.get(&address).await;
            let mut links = Vec::new();
            if answer.status.is_redirection() {
                links.push(answer.location().to_owned());
            } else {
                assert_eq!(answer.status, StatusCode::OK, "{address}");
                if !answer.header("content-type").starts_with("text/html") {
                    answer.body.clear();
                }
                for (selector, attribute) in
                    [("a[href]", "href"), ("link[href]", "href"), ("script[src]", "src"), ("[data-live]", "data-live")]
                {
                    links.extend(answer.values(selector, attribute));
                }
                for form in answer.values("form[method=post]", "action") {
                    let target = resolve(&address, &form);
                    assert_eq!(self.get(&target).await.status, StatusCode::METHOD_NOT_ALLOWED, "{address}: {target}");
                }
            }
            for link in links {
                let target = resolve(&address, link.split('#').next().unwrap());
                self.as_got(&target); // inside, followed or not
                // Pages with exact times have the same links as those without.
                let is_another = !link.starts_with('#') && !link.contains("times=exact");
                if is_another && seen.insert(target.clone()) {
                    open.push_back(target);
                }
            }
            assert!(seen.len() < 2_000, "there is no end to it: {address}");
        }
        seen.len()
    }
}

async fn fill(fixture: &Fixture) {
    let queue = &fixture.queue;
    let batch = queue.create_batch(&NewBatch::new().name("album")).await.unwrap();
    for number in 0..60 {
        let job = NewJob::text("x").kind("resize").group_key(format!("group {}", number % 50)).batch(batch);
        let job = if number < 3 { job.dedup_key(format!("key {number}")) } else { job };
        queue.enqueue(&job).await.unwrap();
    }
    fixture.kill_all("an error").await;
    queue.enqueue(&NewJob::text("x")).await.unwrap();
    queue.enqueue(&NewJob::text("x").delay(Duration::from_secs(60))).await.unwrap();
    queue.admin().set_schedule(&Schedule::new("s", "@daily", NewJob::text("x"))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_path_with_and_without_a_slash_at_its_end_every_link_stays_inside() {
    let fixture = Fixture::new("nested").await;
    fill(&fixture).await;
    let inner = || router(fixture.queue.clone(), Options::default());
    for (page, address) in [
        (Router::new().nest("/tools/queues", inner()), "/tools/queues"),
        (Router::new().nest("/tools/queues/", inner()), "/tools/queues/"),
        (Router::new().nest_service("/tools/queues", inner()), "/tools/queues"),
        (Router::new().nest_service("/tools/queues", inner()), "/tools/queues/"),
    ] {
        let mounted = Mounted { page, seen: "/tools/queues", got: "/tools/queues" };
        // The ways of mounting differ in the router alone; the next test looks at all pages.
        assert!(mounted.crawl(address, 25).await > 80, "{address}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_that_strips_the_path_every_link_stays_inside() {
    let fixture = Fixture::new("stripped").await;
    fill(&fixture).await;
    let page = router(fixture.queue.clone(), Options::default());
    let mounted = Mounted { page, seen: "/ops/queues", got: "" };
    assert!(mounted.crawl("/ops/queues/", usize::MAX).await > 80);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_root_the_nearest_pages_are_found() {
    let fixture = Fixture::new("root").await;
    fill(&fixture).await;
    let page = router(fixture.queue.clone(), Options::default());
    // The test before looks at all pages, under a path: there a link that leaves it would be found.
    assert!(Mounted { page, seen: "", got: "" }.crawl("/", 25).await > 80);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_in_is_found_from_every_address_under_a_path() {
    let fixture = Fixture::new("nested_log_in").await;
    let options = Options::default().access(Access::Token("correct-horse-battery".to_owned()));
    let page = Router::new().nest_service("/tools/queues", router(fixture.queue.clone(), options));
    let mounted = Mounted { page, seen: "/tools/queues", got: "/tools/queues" };
    for address in ["/tools/queues", "/tools/queues/", "/tools/queues/overview", "/tools/queues/a/b/c?d=e"] {
        let target = resolve(address, mounted.get(address).await.location());
        assert!(target.starts_with("/tools/queues/login?then="), "{address}: {target}");
        assert_eq!(mounted.get(&target).await.status, StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_not_there_leads_back_from_any_depth() {
    let fixture = Fixture::new("nested_failure").await;
    let page = Router::new().nest("/tools/queues", router(fixture.queue.clone(), Options::default()));
    let mounted = Mounted { page, seen: "/tools/queues", got: "/tools/queues" };
    for address in ["/tools/queues/nothing", "/tools/queues/a/b/c", "/tools/queues/assets/nothing.css"] {
        let answer = mounted.get(address).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{address}");
        let links = [answer.values("a", "href"), answer.values("link", "href")].concat();
        for link in links.into_iter().filter(|link| !link.starts_with('#')) {
            assert_eq!(mounted.get(&resolve(address, &link)).await.status, StatusCode::OK, "{address}: {link}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_under_a_path_leads_to_a_page_under_it() {
    let fixture = Fixture::new("nested_act").await;
    let page = Router::new().nest("/tools/queues", router(fixture.queue.clone(), Options::default()));
    let mut browser = Browser { base: "/tools/queues/", ..Browser::new(page) };
    let location = browser.post("act", &[("action", "pause"), ("queue", "work")]).await.location().to_owned();
    assert_eq!(location, "queue?queue=work");
    assert_eq!(browser.page(&location).await.texts("main .notice"), ["Queue work is paused."]);
    assert!(browser.page(&location).await.texts("main .notice").is_empty(), "it is said once");
}
