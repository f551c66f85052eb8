//! What somebody does on the page: requeue thousands, stop halfway, pause and resume, cancel what runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use readpast::{BoxError, Context, Handlers, Job, NewJob};
use tokio::sync::mpsc;

use crate::server::dev_server;
use crate::support_browser::{Browser, Site, browse, until};

/// Enough for ten calls.
const MANY: usize = 10_000;

/// Many dead jobs whose error has "refused" in it, and ten with another.
async fn dead_jobs(site: &Site) {
    let job = |text: &str| NewJob::text(text).max_attempts(1);
    site.queue.enqueue_many(&vec![job("connection refused"); MANY]).await.unwrap();
    site.queue.enqueue_many(&vec![job("no account"); 10]).await.unwrap();
    let fail = |job: &Job, _: &Context| -> Result<(), BoxError> { Err(job.text()?.into_owned().into()) };
    site.work(&site.queue, Handlers::any(fail)).await.drain().await.unwrap();
}

/// From the overview to the form that says how many it will be.
async fn ask_to_requeue_those_refused(browser: &Browser) {
    browser.open("overview").await;
    browser.click("td[data-label=Dead] a").await;
    browser.sees("h1", "Dead jobs of work").await;
    browser.write("input[name=error]", "refused").await;
    browser.press("Search").await;
    browser.sees("h1", "Dead jobs of work").await;
    browser.press("Requeue…").await;
    browser.sees(".many", "10,000 jobs").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn thousands_of_jobs_that_match_are_requeued_and_run() {
    let site = Site::start("requeue").await;
    dead_jobs(&site).await;
    browse(&site, async |browser| {
        ask_to_requeue_those_refused(browser).await;
        browser.press("Requeue").await;
        browser.sees("[data-over]", "Done.").await;
        browser.sees("[data-live]", "10,000 requeued").await;
        browser.sees_no("[data-while-on] button").await;

        browser.click("nav a[href=overview]").await;
        browser.sees("td[data-label=Ready]", "10,000").await;
        browser.sees("td[data-label=Dead]", "10").await;
        let repaired = Handlers::any(|_: &Job, _: &Context| -> Result<(), BoxError> { Ok(()) });
        let worker = site.work(&site.queue, repaired).await;
        browser.sees("td[data-label=Ready] .zero", "0").await;
        browser.sees("td[data-label=Dead]", "10").await;
        worker.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn what_is_done_to_thousands_can_be_stopped_halfway() {
    let site = Site::start("stop").await;
    dead_jobs(&site).await;
    // The fifth call of ten says that it is there, and waits until the button has been pressed.
    let (reached, mut is_reached) = mpsc::unbounded_channel();
    let (pressed, is_pressed) = std::sync::mpsc::channel::<()>();
    let is_pressed = std::sync::Mutex::new(is_pressed);
    let procedure = format!("{}.requeue", site.config.connection.schema);
    dev_server().await.faults().on_call(&procedure, move |call| {
        if call == 5 {
            let _ = reached.send(());
            let _ = is_pressed.lock().unwrap().recv(); // an error: the test has failed
        }
        None
    });
    browse(&site, async |browser| {
        ask_to_requeue_those_refused(browser).await;
        browser.press("Requeue").await;
        browser.sees("[data-live]", "4,000 requeued").await;
        is_reached.recv().await.unwrap();
        browser.run("window.isBeforeTheStop = true").await;
        browser.press("Stop").await;
        let is_after = "return window.isBeforeTheStop === undefined";
        until("the page after the stop", async || browser.run(is_after).await == true).await;
        pressed.send(()).unwrap();
        browser.sees("[data-over]", "Stopped by local visitor; completed work is kept.").await;
        browser.sees("[data-live]", "5,000 requeued").await;

        browser.click("nav a[href=overview]").await;
        browser.sees("td[data-label=Ready]", "5,000").await;
        browser.sees("td[data-label=Dead]", "5,010").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn what_has_ended_before_somebody_looks_is_over() {
    let site = Site::start("over").await;
    site.queue.enqueue_many(&vec![NewJob::text("x"); 3]).await.unwrap();
    browse(&site, async |browser| {
        browser.open("jobs?queue=work&state=ready").await;
        browser.click("[data-all]").await;
        browser.press("Cancel").await;
        browser.sees(".many", "3 jobs").await;
        browser.press("Cancel").await;
        browser.sees("[data-over]", "Done.").await;

        browser.open("operation?id=1").await;
        browser.sees("[data-over]", "Done.").await;
        assert_eq!(browser.count("[data-while-on] button").await, 0, "there is nothing to stop");
        // A page that was made before the end, and listens after it.
        let heard = "const done = arguments[0]; const events = new EventSource('events?part=operation&id=1'); \
                     events.onmessage = (event) => { events.close(); done(event.data); }";
        assert!(browser.run_async(heard).await.as_str().unwrap().contains("Done."));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_tick_changes_which_jobs_the_buttons_are_for() {
    let site = Site::start("tick").await;
    site.queue.enqueue_many(&vec![NewJob::text("x"); 4]).await.unwrap();
    browse(&site, async |browser| {
        browser.open("jobs?queue=work&state=ready").await;
        browser.sees(".bulk", "All 4").await;
        assert!(!browser.text(".bulk").await.contains("ticked"));
        browser.click("tr:nth-child(1) input[name=id]").await;
        browser.sees(".bulk", "1 ticked").await;
        assert!(!browser.text(".bulk").await.contains("All 4"));
        // With Shift, all rows between are ticked.
        let click =
            "document.querySelectorAll('input[name=id]')[2].dispatchEvent(new MouseEvent('click', { shiftKey: true }))";
        browser.run(click).await;
        browser.sees(".bulk", "3 ticked").await;
        browser.click("[data-all]").await;
        browser.sees(".bulk", "4 ticked").await;
        browser.click("[data-all]").await;
        browser.sees(".bulk", "All 4").await;

        browser.press("Cancel…").await;
        browser.sees(".many", "4 jobs").await;
        browser.press("Cancel").await;
        browser.sees("[data-over]", "Done.").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn more_than_a_hundred_jobs_are_deleted_when_their_number_is_typed() {
    let site = Site::start("typed").await;
    site.queue.enqueue_many(&vec![NewJob::text("x"); 101]).await.unwrap();
    browse(&site, async |browser| {
        browser.open("jobs?queue=work&state=ready").await;
        browser.click(".bulk .none[value=purge]").await;
        browser.sees(".many", "101 jobs").await;
        let focused = "return document.activeElement.textContent";
        assert_eq!(browser.run(focused).await, "Back");
        for typed in ["", "1"] {
            browser.write("input[name=typed]", typed).await;
            browser.press("Delete").await;
            browser.sees("h1", "Delete ready jobs of work?").await;
        }
        browser.write("input[name=typed]", "01").await;
        browser.press("Delete").await;
        browser.sees("[data-over]", "Done.").await;
        browser.sees("[data-live]", "101 deleted").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_queue_is_paused_and_resumed() {
    let site = Site::start("pause").await;
    let (ran, mut runs) = mpsc::unbounded_channel();
    let handlers = Handlers::any(move |job: &Job, _: &Context| -> Result<(), BoxError> { Ok(ran.send(job.id())?) });
    let worker = site.work(&site.queue, handlers).await;
    browse(&site, async |browser| {
        browser.open("queue?queue=work").await;
        browser.press("Pause").await;
        browser.sees(".notice", "Queue work is paused.").await;
        browser.sees("h1 .paused", "paused").await;
        site.queue.enqueue(&NewJob::text("later")).await.unwrap();
        browser.click("nav a[href=overview]").await;
        browser.sees("tbody th .paused", "paused").await;
        browser.sees("td[data-label=Ready]", "1").await;

        browser.click("tbody th a").await;
        browser.press("Resume").await;
        browser.sees(".notice", "Queue work is resumed.").await;
        runs.recv().await.expect("the job runs");
        browser.sees_no("h1 .paused").await;
    })
    .await;
    worker.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs chromium and chromedriver"]
async fn a_running_job_is_cancelled() {
    let site = Site::start("cancel").await;
    let saw_it = Arc::new(AtomicBool::new(false));
    let saw = saw_it.clone();
    let handlers = Handlers::any(move |_: &Job, context: &Context| -> Result<(), BoxError> {
        context.progress(0.25, "page 1 of 4");
        while !context.is_cancelled() && !context.is_stopping() {
            std::thread::sleep(Duration::from_millis(5)); // its work
        }
        saw.store(context.is_cancelled(), Ordering::Release);
        Err("given up".into())
    });
    let worker = site.work(&site.queue, handlers).await;
    let id = site.queue.enqueue(&NewJob::text("a long one")).await.unwrap().job_id;
    browse(&site, async |browser| {
        browser.open(&format!("job?queue=work&id={id}")).await;
        browser.sees("h1", "claimed").await;
        browser.sees("#job", "page 1 of 4").await;
        browser.press("Cancel").await;
        browser.sees(".notice", "is cancelled").await;
        browser.sees("h1", "cancelled").await;
        assert!(saw_it.load(Ordering::Acquire), "its handler was told");
    })
    .await;
    worker.shutdown().await.unwrap();
}
