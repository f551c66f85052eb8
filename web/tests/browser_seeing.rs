//! What somebody sees who looks at the page: jobs flow, it is honest when the connection is gone, a job can be found.

use std::time::Duration;

use readpast::admin::QueueOptions;
use readpast::{BoxError, Context, Handlers, Job, JobError, NewJob};
use readpast_devserver::SqlError;
use readpast_web::{Access, Options};
use serde_json::json;

use crate::server::dev_server;
use crate::support_browser::{Browser, Settings, Site, browse, browse_at, browse_with, until};

/// Enter, as WebDriver writes it.
const ENTER: &str = "\u{E007}";

fn jobs(count: usize) -> Vec<NewJob> {
    (0..count).map(|number| NewJob::json(&json!({ "number": number })).unwrap()).collect()
}

/// Does nothing, at once.
fn idle() -> Handlers {
    Handlers::any(|_: &Job, _: &Context| -> Result<(), BoxError> { Ok(()) })
}

/// Notes in the page that it has not been loaded anew.
async fn mark(browser: &Browser) {
    browser.run("window.isTheSame = true").await;
}

async fn is_marked(browser: &Browser) -> bool {
    browser.run("return window.isTheSame === true").await == true
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn the_overview_changes_by_itself() {
    let site = Site::start("flow").await;
    browse(&site, async |browser| {
        browser.open("overview").await;
        mark(browser).await;
        browser.sees("td[data-label=Ready]", "0").await;
        site.queue.enqueue_many(&jobs(1_234)).await.unwrap();
        browser.sees("td[data-label=Ready]", "1,234").await;

        let worker = site.work(&site.queue, idle()).await;
        browser.sees("td[data-label=Ready] .zero", "0").await;
        browser.sees("td.cap", "of").await;
        assert!(is_marked(browser).await, "it was loaded anew");
        worker.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_lost_connection_is_said_and_found_again() {
    let mut site = Site::start("lost").await;
    let queue = site.queue.clone();
    let url = site.url("");
    crate::support_browser::browse_at(&url, Settings::default(), async |browser| {
        browser.open("overview").await;
        mark(browser).await;
        browser.sees("td[data-label=Ready]", "0").await;
        browser.sees_no(".lost").await;

        site.stop_serving().await;
        browser.sees(".lost", "The connection to this page was lost; the data is").await;
        // It grows older.
        browser.sees("[data-age]", "s").await;
        let age = browser.text("[data-age]").await;
        crate::support_browser::until("another age", async || browser.text("[data-age]").await != age).await;

        queue.enqueue_many(&jobs(7)).await.unwrap();
        site.serve().await;
        browser.sees_no(".lost").await;
        browser.sees("td[data-label=Ready]", "7").await;
        assert!(is_marked(browser).await, "it was loaded anew");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_job_stays_on_the_page_while_sql_server_is_away() {
    let site = Site::start("job_away").await;
    let id = site.queue.enqueue(&NewJob::text("a letter")).await.unwrap().job_id;
    let peek = format!("{}.peek", site.config.connection.schema);
    let server = dev_server().await;
    browse(&site, async |browser| {
        browser.open(&format!("job?queue=work&id={id}")).await;
        server.faults().on_call(&peek, |_| Some(SqlError::new(50_000, "the cables are cut")));
        browser.sees(".lost", "SQL Server cannot be read; the data is").await;
        browser.sees("#job", "a letter").await;
        server.faults().clear(&peek);
        browser.sees_no(".lost").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn the_log_of_a_running_job_goes_on_at_its_end_until_the_attempt_ends() {
    let site = Site::start("job_log").await;
    let handlers = Handlers::any(|_: &Job, context: &Context| -> Result<(), BoxError> {
        let mut line = 0;
        while !context.is_cancelled() && !context.is_stopping() {
            line += 1;
            context.log(format!("line {line}"));
            std::thread::sleep(Duration::from_millis(5)); // its work
        }
        Err("given up".into())
    });
    let worker = site.work(&site.queue, handlers).await;
    let id = site.queue.enqueue(&NewJob::text("a long one")).await.unwrap().job_id;
    browse(&site, async |browser| {
        browser.open(&format!("job?queue=work&id={id}")).await;
        browser.sees("pre.log", "line 400\n").await;
        mark(browser).await;
        // The page is loaded anew every ten seconds, and not every two.
        let count = "window.loaded = 0; window.since = Date.now(); const load = window.fetch; \
                     window.fetch = (...given) => { window.loaded += 1; return load(...given); }";
        browser.run(count).await;
        browser.sees("pre.log", "line 1000\n").await;
        assert!(is_marked(browser).await);
        assert_eq!(browser.run("return window.loaded <= (Date.now() - window.since) / 10000 + 1").await, true);
        browser.sees_no(".reported").await;
        // An end that was none is forgotten with the next page.
        let end = "window.streams = 0; \
                   window.EventSource = class extends EventSource { constructor(url) { super(url); window.streams += 1; } }; \
                   document.querySelector('[data-live]').innerHTML = '<p data-over></p>'; \
                   document.dispatchEvent(new Event('visibilitychange'))";
        browser.run(end).await;
        until("it listens again", async || browser.run("return window.streams").await == 1).await;
        browser.sees("pre.log", "line 1000\n").await;
        // The end is what is seen.
        let log = "const log = document.querySelector('pre.log');";
        let at_its_end = format!("{log} return log.scrollHeight > log.clientHeight && Math.abs(log.scrollTop) < 2");
        assert_eq!(browser.run(&at_its_end).await, true);
        let last = format!(
            "{log} const text = log.firstChild, end = document.createRange(); end.setStart(text, text.length - 2); \
             end.setEnd(text, text.length - 1); const seen = end.getBoundingClientRect(), box = log.getBoundingClientRect(); \
             return seen.top >= box.top && seen.bottom <= box.bottom"
        );
        assert_eq!(browser.run(&last).await, true);
        browser.open(&format!("job?queue=work&id={id}")).await;
        browser.sees("h1", "claimed").await;
        browser.press("Cancel").await;
        browser.sees("h1", "cancelled").await;
        browser.sees("#logs ~ .try pre", "line").await;
    })
    .await;
    worker.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_page_that_is_refused_is_loaded_anew_when_somebody_looks() {
    let token = "a token that nobody guesses";
    let options = Options::default().access(Access::Token(token.to_owned()));
    let mut site = Site::empty("refused", options).await;
    let url = site.url("");
    browse_at(&url, Settings::default(), async |browser| {
        browser.open("login").await;
        browser.write("input[name=secret]", &format!("{token}{ENTER}")).await;
        browser.sees("h1", "No queues yet").await;
        mark(browser).await;
        let hidden = |hidden: bool| {
            format!("Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }})")
        };
        // In the background before the script has heard of it: so it still listens, and is refused.
        browser.run(&hidden(true)).await;
        site.stop_serving().await;
        site.serve().await; // it knows no session
        tokio::time::sleep(Duration::from_secs(20)).await; // that nothing happens can only be waited for
        assert!(is_marked(browser).await, "nobody looks");
        browser.run("document.dispatchEvent(new Event('visibilitychange'))").await;
        browser.run(&hidden(false)).await;
        browser.run("document.dispatchEvent(new Event('visibilitychange'))").await;
        browser.sees("main", "Log in").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_search_is_in_the_zone_of_the_times_that_are_shown() {
    let site = Site::start("zone").await;
    let enqueued = site.queue.enqueue_many(&jobs(2)).await.unwrap();
    for (job, second) in enqueued.iter().zip([29, 30]) {
        let at = format!("'2026-03-01T10:20:{second}'");
        let job = job.job_id;
        site.sql(&format!("UPDATE [$(schema)].[jobs] SET enqueued_at = {at}, due_at = {at} WHERE job_id = {job}"))
            .await;
    }
    browse(&site, async |browser| {
        browser.locale("en-GB").await;
        browser.time_zone("Asia/Kolkata").await; // UTC+5:30
        browser.open("jobs?queue=work&state=ready&since=2026-03-01T10:20:30Z").await;
        browser.sees("table.jobs time", "01/03/2026, 15:50:30").await;
        assert_eq!(browser.count("table.jobs tbody tr").await, 1);
        let field = "return document.querySelector('input[name=since]').value";
        assert_eq!(browser.run(field).await, "2026-03-01T15:50:30");
        assert!(!browser.text("form.filter").await.contains("UTC"));

        browser.run("document.querySelector('input[name=since]').value = '2026-03-01T15:50:29'").await;
        browser.press("Search").await;
        let address = "return new URL(location).searchParams.get('since')";
        until("the search", async || browser.run(address).await == "2026-03-01T10:20:29Z").await;
        assert_eq!(browser.count("table.jobs tbody tr").await, 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn workers_that_have_ended_are_shown_when_asked_for() {
    let site = Site::start("ended").await;
    site.work(&site.queue, idle()).await.shutdown().await.unwrap();
    let worker = site.work(&site.queue, idle()).await;
    browse(&site, async |browser| {
        browser.open("workers").await;
        browser.sees("tbody tr:not(.gone)", "left").await;
        assert_eq!(browser.count("tbody tr.gone").await, 1);
        assert_eq!(browser.text("tbody tr.gone").await, "");

        browser.click(".show-ended").await;
        browser.sees("tbody tr.gone", "ended").await;
        // What was asked for stays when the part changes.
        let another = site.work(&site.queue, idle()).await;
        until("another worker", async || browser.count("tbody tr:not(.gone)").await == 2).await;
        assert_ne!(browser.text("tbody tr.gone").await, "");
        another.shutdown().await.unwrap();
    })
    .await;
    worker.shutdown().await.unwrap();
}

/// Three dead jobs, each with two attempts and an error of its own.
async fn three_dead(site: &Site) {
    let fail = |job: &Job, _: &Context| -> Result<(), BoxError> {
        Err(JobError::retry_in(std::time::Duration::ZERO, job.header("why").unwrap_or_default().to_owned()).into())
    };
    for (customer, why) in
        [("Ada", "timeout after 30 s"), ("Brian", "no account for Brian"), ("Chen", "disk full on node 7")]
    {
        let order = json!({ "customer": customer, "lines": [1, 2] });
        let job = NewJob::json(&order).unwrap().max_attempts(2).header("why", why);
        site.queue.enqueue(&job).await.unwrap();
    }
    site.work(&site.queue, Handlers::any(fail)).await.drain().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_dead_job_is_found_by_a_word_in_its_error() {
    let site = Site::start("find").await;
    three_dead(&site).await;
    browse(&site, async |browser| {
        browser.open("overview").await;
        browser.write(".find input[type=search]", &format!("account{ENTER}")).await;
        browser.sees("h1", "Dead jobs of work").await;
        assert_eq!(browser.count("table.jobs tbody tr").await, 1);

        browser.click("table.jobs tbody a").await;
        browser.sees("h1", "Job").await;
        browser.sees("pre.failed", "no account for Brian").await;
        assert_eq!(browser.count("details.try").await, 2);
        assert!(browser.text("#job").await.contains("{\n  \"customer\": \"Brian\","), "the payload is laid out");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn from_the_overview_all_queues_are_searched() {
    let site = Site::start("all").await;
    site.create_queue("accounts", QueueOptions::default()).await;
    three_dead(&site).await;
    browse(&site, async |browser| {
        browser.open("overview").await;
        browser.write(".find input[type=search]", &format!("disk full{ENTER}")).await;
        browser.sees("h1", "Dead jobs of work").await;
        assert_eq!(browser.count("table.jobs tbody tr").await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_job_that_begins_to_run_can_be_seen_to() {
    let site = Site::start("begin").await;
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = std::sync::Mutex::new(ended);
    let id = site.queue.enqueue(&NewJob::text("a long one")).await.unwrap().job_id;
    browse(&site, async |browser| {
        browser.open(&format!("job?queue=work&id={id}")).await;
        browser.sees("h1", "ready").await;
        let until_told = move |_: &Job, _: &Context| -> Result<(), BoxError> {
            let _ = ended.lock().unwrap().recv(); // an error: the test has failed
            Ok(())
        };
        let worker = site.work(&site.queue, Handlers::any(until_told)).await;
        browser.sees("h1", "claimed").await;
        drop(end);
        worker.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn many_tabs_do_not_hold_each_other_up() {
    let site = Site::start("tabs").await;
    browse(&site, async |browser| {
        // A browser has six connections to a server.
        for _ in 0..8 {
            browser.open("overview").await;
            browser.sees("td[data-label=Ready]", "0").await;
            browser.new_tab().await;
        }
        browser.open("overview").await;
        site.queue.enqueue_many(&jobs(3)).await.unwrap();
        browser.sees("td[data-label=Ready]", "3").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn everything_is_readable_without_scripts() {
    let site = Site::start("plain").await;
    three_dead(&site).await;
    browse_with(&site, Settings { without_scripts: true }, async |browser| {
        browser.open("overview").await;
        browser.sees("td[data-label=Dead]", "3").await;
        browser.click("td[data-label=Dead] a").await;
        browser.sees("h1", "Dead jobs of work").await;
        browser.click(".times a").await;
        browser.sees("table.jobs time", "UTC").await; // as the server wrote it

        browser.click("table.jobs tbody a").await;
        browser.sees("pre.failed", "disk full on node 7").await;
        browser.press("Requeue").await;
        browser.sees(".notice", "is requeued").await;
        browser.sees("h1", "ready").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_dead_queue_says_why() {
    let site = Site::start("why").await;
    site.create_queue("other", QueueOptions::default()).await;
    three_dead(&site).await;
    browse(&site, async |browser| {
        browser.open("queue?queue=work").await;
        browser.sees("[aria-label='Why jobs died']", "timeout after").await;
        assert_eq!(browser.count("[aria-label='Why jobs died'] tbody tr").await, 3);
    })
    .await;
}
