//! What makes a page quick to read at night: errors in one line and in full, times in words, a way on from every failure.

use std::time::Duration;

use axum::http::StatusCode;
use readpast::{BoxError, Context, Handlers, Job, JobError, JobId, NewJob, Worker};
use readpast_devserver::SqlError;
use readpast_web::Options;

use crate::server::{dev_server, real_server_url};
use crate::support::Fixture;

const TRACEBACK: &str = "exit code 1: Traceback (most recent call last):\n  File \"price.py\", line 42, in main\n    \
                         rate = fetch(\"CHF\")\nrates.NoRate: no rate for CHF";

/// A dead job with an attempt for each of these errors.
async fn dead_job(fixture: &Fixture, errors: &'static [&'static str]) -> JobId {
    let job = NewJob::text("x").max_attempts(errors.len() as u32);
    let job = fixture.queue.enqueue(&job).await.unwrap().job_id;
    let fail = move |job: &Job, _: &Context| -> Result<(), BoxError> {
        Err(JobError::retry_in(Duration::ZERO, errors[job.attempt() as usize - 1]).into())
    };
    Worker::builder(&fixture.queue, Handlers::any(fail)).start().await.unwrap().drain().await.unwrap();
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_its_telling_line_and_its_attempt_has_all_lines() {
    let fixture = Fixture::new("telling").await;
    let job = dead_job(&fixture, &["no route", TRACEBACK, TRACEBACK]).await;
    let mut browser = fixture.open();
    let page = browser.page(&format!("job?queue=work&id={job}")).await;
    let line = "exit code 1 rates.NoRate: no rate for CHF";
    assert_eq!(page.texts(".verdict .tell"), [line]);
    assert_eq!(page.texts(".verdict .tell b"), ["NoRate"]);
    assert_eq!(page.texts(".try .er"), [line, "the same error as attempt 3", "no route"]);
    assert_eq!(page.texts("pre.trace"), [TRACEBACK, "no route"], "as they were written, each once");
    assert_eq!(page.count(".try[open]"), 1);
    // Its life: it waited and ran three times.
    assert_eq!(page.count("svg.line rect.retry, svg.line rect.dead"), 3);
    assert!(page.values("svg.line", "aria-label")[0].contains("attempt 3 failed"));
    let similar = page.values(".verdict a", "href").remove(0);
    assert!(similar.ends_with("error=rates.NoRate%3A+no+rate+for+CHF"), "{similar}");
    assert_eq!(browser.page(&similar).await.texts("td.what .tell"), [line]);
    let queue = browser.page("queue?queue=work").await;
    assert_eq!(queue.texts(".reasons .tell"), [line]);
    let requeue = queue.values(".reasons td:last-child a", "href").remove(0);
    assert_eq!(browser.page(&requeue).await.texts(".many"), ["1 job."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn times_are_words_and_exact_where_the_address_asks() {
    let fixture = Fixture::new("times").await;
    fixture.kill_all("an error").await; // a worker has been here
    let job = fixture.queue.enqueue(&NewJob::text("x").delay(Duration::from_secs(3_630))).await.unwrap().job_id;
    let mut browser = fixture.open();
    let workers = browser.page("workers?times=exact").await;
    assert_eq!(workers.texts("tbody time"), workers.values("tbody time", "title"));
    assert_ne!(browser.page("workers").await.texts("tbody time"), workers.texts("tbody time"));
    for page in [format!("job?queue=work&id={job}"), "jobs?queue=work&state=scheduled".to_owned()] {
        let answer = browser.page(&page).await;
        let times = answer.texts("time");
        assert_eq!(times.last().unwrap(), "in 1 h", "{page}");
        assert!(answer.values("time", "title").iter().all(|title| title.ends_with(" UTC")));
        let exact = answer.values(".times a", "href").remove(0);
        let answer = browser.page(&exact).await;
        assert_eq!(answer.texts("time"), answer.values("time", "title"), "{exact}");
        assert_eq!(answer.values(".times a", "href"), [page]);
        // The script corrects a wrong clock by this one.
        assert!(answer.values("body", "data-now")[0].parse::<u64>().unwrap() > 1_700_000_000_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_page_has_the_frame_and_a_way_on() {
    let fixture = Fixture::new("failures").await;
    let mut browser = fixture.open();
    for (address, status) in [
        ("nothing", StatusCode::NOT_FOUND),
        ("job?queue=work&id=4711", StatusCode::NOT_FOUND),
        ("jobs?queue=work&state=died", StatusCode::BAD_REQUEST),
    ] {
        let answer = browser.get(address).await;
        assert_eq!(answer.status, status, "{address}");
        assert_eq!(answer.count("nav[aria-label=Pages] a"), 5, "{address}");
        assert_eq!(answer.values("form.find", "action"), ["find"], "{address}");
        assert_eq!(answer.texts("main a"), ["Overview"], "{address}");
    }
    let refused = fixture.browser(Options::default().read_only(true)).post("act", &[("action", "pause")]).await;
    assert_eq!((refused.status, refused.texts("main a")), (StatusCode::FORBIDDEN, vec!["Overview".to_owned()]));

    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let audit = fixture.procedure_to_fail("list_audit");
    server.faults().on_call(&audit, |_| Some(SqlError::new(50_000, "the cables are cut")));
    let answer = browser.get("audit").await;
    server.faults().clear(&audit);
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert!(answer.texts("main p")[0].contains("the cables are cut"));
    assert_eq!(answer.count("nav[aria-label=Pages] a"), 5);
    assert_eq!(answer.texts("main a"), ["Try again", "Overview"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_many_jobs_is_typed_before_they_are_deleted() {
    let fixture = Fixture::new("typed").await;
    let mut browser = fixture.open();
    let mut patterns = async |action: &str| {
        let page = browser.page(&format!("confirm?queue=work&state=ready&action={action}")).await;
        page.values("input[name=typed][required]", "pattern")
    };
    fixture.queue.enqueue_many(&vec![NewJob::text("x"); 100]).await.unwrap();
    assert!(patterns("purge").await.is_empty());
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    assert_eq!(patterns("purge").await, ["101"]);
    assert!(patterns("cancel").await.is_empty(), "they can be requeued");
    fixture.queue.enqueue_many(&vec![NewJob::text("x"); 2_000]).await.unwrap();
    assert_eq!(patterns("purge").await.len(), 1, "2,000 or more, by what is known");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_can_be_widened_one_condition_at_a_time() {
    let fixture = Fixture::new("chips").await;
    let mut browser = fixture.open();
    let page = browser.page("jobs?queue=work&state=dead&kind=mail&error=no+route").await;
    assert_eq!(page.texts(".chip bdi"), ["kind: mail", "error: no route"]);
    let wider = page.values(".chip a", "href");
    assert_eq!(browser.page(&wider[0]).await.texts(".chip bdi"), ["error: no route"]);
    assert!(page.text().contains("No dead job of this queue matches."));
}
