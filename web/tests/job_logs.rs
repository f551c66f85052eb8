//! What a job said, on its page.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use readpast::admin::{CompletionPolicy, QueueOptions};
use readpast::{BoxError, Context, Handlers, Job, JobError, JobId, NewJob, Worker};
use readpast_devserver::SqlError;
use readpast_web::Options;

use crate::server::{dev_server, real_server_url};
use crate::support::{Answer, Browser, Fixture, until};

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_each_attempt_is_shown_as_text_and_hidden_with_the_payloads() {
    let fixture = Fixture::with("job_log", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    let handlers = Handlers::any(|job: &Job, context: &Context| -> Result<(), BoxError> {
        context.log(format!("<b>attempt {}</b>", job.attempt()));
        if job.attempt() == 1 {
            Err(JobError::retry_in(Duration::ZERO, "failed").into())
        } else {
            Err(JobError::dead("dead").into())
        }
    });
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    until("it is dead", async || worker.stats().dead == 1).await;
    worker.shutdown().await.unwrap();
    let address = format!("job?queue=work&id={job}");
    let page = fixture.open().page(&address).await;
    assert_eq!(page.texts("[aria-labelledby=logs] b"), ["Attempt 2", "Attempt 1"]);
    assert_eq!(page.texts("[aria-labelledby=logs] pre"), ["<b>attempt 2</b>\n", "<b>attempt 1</b>\n"]);
    let page = fixture.browser(Options::default().hide_payloads(true)).page(&address).await;
    assert_eq!(page.count("[aria-labelledby=logs]"), 0);
}

/// A job that runs, has logged a line with markup, and is retried later once it is told to end.
async fn running_job(fixture: &Fixture) -> (JobId, Worker, Arc<AtomicBool>) {
    let may_end = Arc::new(AtomicBool::new(false));
    let ends = may_end.clone();
    let handlers = Handlers::any(move |_: &Job, context: &Context| -> Result<(), BoxError> {
        context.progress(0.25, "page <1> of 4");
        context.log("<b>first</b>\rline");
        while !ends.load(Ordering::Acquire) && !context.is_stopping() {
            std::thread::sleep(Duration::from_millis(5)); // its work
        }
        Err(JobError::retry_in(Duration::from_secs(600), "failed").into())
    });
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    until("it is logged", async || !fixture.queue.admin().logs(job, 1).await.unwrap().is_empty()).await;
    (job, worker, may_end)
}

fn live_part(page: &Answer) -> String {
    page.values("[data-live]", "data-live").remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_running_job_is_live_until_the_attempt_ends() {
    let fixture = Fixture::new("live_log").await;
    let (job, worker, may_end) = running_job(&fixture).await;
    let mut browser = fixture.open();
    let address = format!("job?queue=work&id={job}");
    let page = browser.page(&address).await;
    assert_eq!(page.texts("pre.log"), ["<b>first</b>\nline\n"]);
    assert!(page.texts(".reported")[0].contains("25% page <1> of 4 reported"), "{:?}", page.texts(".reported"));
    let part = live_part(&page);
    let mut live = browser.listen(&part).await;
    assert_eq!(live.headers["cache-control"], "no-store");
    let first = live.next().await.unwrap();
    assert!(first.contains("&#60;b&#62;first&#60;/b&#62;") && first.contains("page &#60;1&#62; of 4"), "{first}");
    assert!(!first.contains("data-over"), "{first}");
    may_end.store(true, Ordering::Release);
    live.until(|html| html.contains("data-over")).await;
    assert_eq!(live.next().await, None, "it ends");
    // What asks for it again is told so at once, and so is what asks for an attempt or a job that never was.
    for part in [part, format!("events?part=job&queue=work&id={job}&fence=99"), live_of(JobId(9_999))] {
        assert!(browser.listen(&part).await.next().await.unwrap().contains("data-over"), "{part}");
    }
    let page = browser.page(&address).await;
    assert_eq!((page.count("[data-live]"), page.count("pre.log")), (0, 0));
    worker.shutdown().await.unwrap();
}

fn live_of(job: JobId) -> String {
    format!("events?part=job&queue=work&id={job}&fence=1")
}

#[tokio::test(flavor = "multi_thread")]
async fn where_payloads_are_hidden_no_log_is_live() {
    let fixture = Fixture::new("hidden_log").await;
    let (job, worker, _) = running_job(&fixture).await;
    let mut browser = fixture.browser(Options::default().hide_payloads(true));
    let page = browser.page(&format!("job?queue=work&id={job}")).await;
    assert_eq!((page.count("[data-live]"), page.count("pre.log"), page.count(".reported")), (0, 0, 1));
    assert_eq!(browser.get(&live_of(job)).await.status, StatusCode::FORBIDDEN);
    for part in ["events?part=job&queue=work", "events?part=job&queue=work&id=1", "events?part=job&queue=work&id=x"] {
        assert_eq!(fixture.open().get(part).await.status, StatusCode::BAD_REQUEST, "{part}");
    }
    worker.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_browsers_read_a_log_once_a_second_and_none_does_not() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("log_cost").await;
    let (job, worker, _) = running_job(&fixture).await;
    let part = live_part(&fixture.open().page(&format!("job?queue=work&id={job}")).await);
    let calls = Arc::new(AtomicU64::new(0));
    let (counted, procedure) = (calls.clone(), fixture.procedure_to_fail("job_logs"));
    server.faults().on_call(&procedure, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        None
    });
    let (mut browser, begin) = (fixture.open(), Instant::now());
    let mut listeners = Vec::new();
    for _ in 0..20 {
        listeners.push(browser.listen(&part).await);
        // Whoever goes away and comes back causes no reading of its own.
        drop(listeners.pop());
        listeners.push(browser.listen(&part).await);
    }
    for listener in &mut listeners {
        listener.next().await.unwrap();
    }
    until("it is read a few times", async || calls.load(Ordering::Relaxed) >= 3).await;
    let (made, seconds) = (calls.load(Ordering::Relaxed), begin.elapsed().as_secs());
    assert!(made <= seconds + 1, "{made} calls in {seconds} s");
    // An error ends it, and browsers that ask again cause no more readings.
    let counted = calls.clone();
    server.faults().on_call(&procedure, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Some(SqlError::new(50_000, "the cables are cut"))
    });
    for listener in &mut listeners {
        assert_eq!(listener.next().await, None);
    }
    let (before, begin) = (calls.load(Ordering::Relaxed), Instant::now());
    for _ in 0..3 {
        let (mut one, mut other) = (browser.listen(&part).await, browser.listen(&part).await);
        assert_eq!((one.next().await, other.next().await), (None, None));
    }
    assert!(begin.elapsed() >= Duration::from_secs(2), "{:?}", begin.elapsed());
    assert!(calls.load(Ordering::Relaxed) <= before + 3);
    drop(listeners);
    tokio::time::sleep(Duration::from_secs(2)).await; // a second for the reader to end
    let before = calls.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(3)).await; // that nothing comes can only be waited for
    assert_eq!(calls.load(Ordering::Relaxed), before);
    server.faults().clear(&procedure);
    worker.shutdown().await.unwrap();
}

/// Counts the calls of a procedure. Those beyond the number that may pass wait, a minute at the most.
struct Calls {
    made: Arc<AtomicU64>,
    may_pass: Arc<AtomicU64>,
}

impl Calls {
    async fn of(fixture: &Fixture, procedure: &str) -> Calls {
        let calls = Calls { made: Arc::default(), may_pass: Arc::new(AtomicU64::new(u64::MAX)) };
        let (made, may_pass) = (calls.made.clone(), calls.may_pass.clone());
        dev_server().await.faults().on_call(&fixture.procedure_to_fail(procedure), move |_| {
            let number = made.fetch_add(1, Ordering::Relaxed) + 1;
            let begin = Instant::now();
            while number > may_pass.load(Ordering::Acquire) && begin.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(5));
            }
            None
        });
        calls
    }

    fn let_pass(&self, calls: u64) {
        self.may_pass.store(calls, Ordering::Release);
    }

    fn let_all_pass(&self) {
        self.let_pass(u64::MAX);
    }

    fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    async fn until(&self, made: u64) {
        until("it is called", async || self.made() >= made).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_that_have_gone_away_cost_no_readings() {
    if real_server_url().is_some() {
        return;
    }
    let fixture = Fixture::new("gone_browsers").await;
    let calls = Calls::of(&fixture, "job_logs").await;
    calls.let_pass(0);
    let mut browser = fixture.open();
    let mut first = browser.listen(&live_of(JobId(1))).await;
    calls.until(1).await;
    for id in 2..300 {
        drop(browser.listen(&live_of(JobId(id))).await);
    }
    // Whoever comes back to one of them is told, too.
    let mut last = browser.listen(&live_of(JobId(299))).await;
    calls.let_all_pass();
    for live in [&mut first, &mut last] {
        assert!(live.next().await.unwrap().contains("data-over"));
    }
    assert!(calls.made() < 10, "{} calls", calls.made());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_locked_for_a_moment_has_not_ended() {
    if real_server_url().is_some() {
        return;
    }
    let fixture = Fixture::new("locked_job").await;
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let claim = "UPDATE [$(schema)].[jobs] SET state = 2, fence = 1, attempt = 1, worker_id = NEWID(), claimed_at = \
                 SYSUTCDATETIME()";
    fixture.sql(claim).await;
    let locked = fixture.begin("BEGIN TRANSACTION; UPDATE [$(schema)].[jobs] SET priority = 1").await;
    let calls = Calls::of(&fixture, "peek").await;
    calls.let_pass(1);
    let mut live = fixture.open().listen(&live_of(job)).await;
    calls.until(2).await;
    drop(locked);
    until("it is unlocked", async || fixture.queue.admin().stats(None).await.unwrap().claimed == 1).await;
    calls.let_all_pass();
    let html = live.next().await.unwrap();
    assert!(!html.contains("data-over"), "{html}");
    let _locked = fixture.begin("BEGIN TRANSACTION; UPDATE [$(schema)].[jobs] SET priority = 1").await;
    live.until(|html| html.contains("data-over")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_stays_while_it_is_being_written() {
    if real_server_url().is_some() {
        return;
    }
    let fixture = Fixture::new("locked_log").await;
    let (job, worker, _) = running_job(&fixture).await;
    let mut live = fixture.open().listen(&live_of(job)).await;
    live.until(|html| html.contains("first") && html.contains("of 4")).await;
    let calls = Calls::of(&fixture, "job_logs").await;
    let write = "BEGIN TRANSACTION; UPDATE [$(schema)].[progress] SET text = N'page 2 of 4'";
    let mut writer = fixture.begin(write).await;
    calls.until(calls.made() + 3).await;
    writer.simple_query("COMMIT").await.unwrap().into_results().await.unwrap();
    let html = live.next().await.unwrap();
    assert!(html.contains("first") && html.contains("page 2 of 4"), "{html}");
    worker.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_reading_that_takes_long_is_waited_for() {
    if real_server_url().is_some() {
        return;
    }
    let fixture = Fixture::new("slow_log").await;
    let calls = Calls::of(&fixture, "job_logs").await;
    calls.let_pass(0);
    let mut live = fixture.open().listen(&live_of(JobId(1))).await;
    assert_eq!(live.event().await.as_deref(), Some(""), "nothing was read for some seconds");
    calls.let_all_pass();
    assert!(live.next().await.unwrap().contains("data-over"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_log_goes_on_after_pages_that_take_long() {
    if real_server_url().is_some() {
        return;
    }
    let fixture = Fixture::new("slow_pages").await;
    let (job, worker, _) = running_job(&fixture).await;
    let calls = Calls::of(&fixture, "list_audit").await;
    calls.let_pass(0);
    let browser = fixture.open();
    let ask = |mut browser: Browser| tokio::spawn(async move { browser.page("audit").await });
    let pages: Vec<_> = (0..3).map(|_| ask(browser.clone())).collect();
    calls.until(3).await;
    let mut live = browser.clone().listen(&live_of(job)).await;
    let let_go = async {
        tokio::time::sleep(Duration::from_secs(11)).await; // longer than a page waits for its turn
        calls.let_all_pass();
    };
    let (html, ()) = tokio::join!(live.next(), let_go);
    assert!(html.unwrap().contains("first"));
    for page in pages {
        page.await.unwrap();
    }
    worker.shutdown().await.unwrap();
}
