//! What a visitor asks of one worker: to be quiet, to go on, to stop, to run more or fewer jobs, or for debug messages.

use std::time::Duration;

use axum::http::StatusCode;
use readpast::admin::WorkerRow;
use readpast::{BoxError, Config, Context, Handlers, Job, NewJob, Worker};

use crate::support::{Browser, Fixture, until};

async fn start(fixture: &Fixture) -> Worker {
    let mut config = Config::default().worker;
    config.name = "price-1".to_owned();
    config.heartbeat_interval = Duration::from_millis(500);
    config.shutdown_deadline = Duration::from_secs(1);
    // It runs until it is told to stop.
    let handler = |_: &Job, context: &Context| -> Result<(), BoxError> {
        while !context.is_cancelled() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    };
    Worker::builder(&fixture.queue, Handlers::any(handler)).config(&config).start().await.unwrap()
}

async fn row(fixture: &Fixture) -> WorkerRow {
    fixture.queue.admin().workers(Duration::from_secs(60)).await.unwrap().remove(0)
}

async fn ask(browser: &mut Browser, id: &str, fields: &[(&str, &str)]) -> String {
    let mut all = vec![("queue", "work"), ("id", id)];
    all.extend(fields);
    browser.post("act", &all).await.location().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_s_page_shows_what_was_asked_of_it_and_whether_it_knows() {
    let fixture = Fixture::new("asked_worker").await;
    let job = fixture.queue.enqueue(&NewJob::text("x").kind("price")).await.unwrap().job_id.to_string();
    let worker = start(&fixture).await;
    until("it holds the job", async || row(&fixture).await.held == 1).await;
    let id = row(&fixture).await.worker_id.to_string();
    let mut browser = fixture.open();
    let address = format!("worker?queue=work&id={id}");
    let page = browser.page(&address).await;
    assert_eq!(page.texts("h1"), ["Worker price-1"]);
    assert_eq!(page.texts("main form button"), ["Quiet", "Set", "Debug messages for 10 minutes", "Stop…"]);
    assert_eq!(page.texts(".st.paused.pill"), [""; 0]);
    assert_eq!(page.texts("tbody tr th, tbody tr td")[..2], [job.clone(), "price".to_owned()]);
    let of_job = browser.page(&format!("job?queue=work&id={job}")).await;
    assert!(of_job.values("main dd a", "href").contains(&address), "the job leads to its worker");
    let longest = browser.page("workers").await.values("main p.small a", "href");
    assert_eq!(browser.page(&longest[0]).await.texts("tbody th"), [&*job], "which job was claimed longest ago");

    assert_eq!(ask(&mut browser, &id, &[("action", "quiet_worker")]).await, address);
    let page = browser.page(&address).await;
    let said = "Worker price-1 was asked to claim no more jobs. Its next heartbeat delivers it.";
    assert_eq!(page.texts(".notice"), [said]);
    assert_eq!(page.texts(".st.paused.pill")[0], "quiet");
    assert_eq!(page.texts("main form button")[0], "Resume");
    until("it is delivered", async || row(&fixture).await.asked.is_delivered).await;
    let page = browser.page(&address).await;
    assert_eq!(page.texts(".st.paused.pill"), ["quiet"]);
    assert!(page.text().contains("It claims no more jobs, and finishes those that it has."), "{}", page.text());
    ask(&mut browser, &id, &[("action", "resume_worker")]).await;
    assert_eq!(browser.page(&address).await.texts("main form button")[0], "Quiet");

    ask(&mut browser, &id, &[("action", "set_worker_threads"), ("threads", "4")]).await;
    ask(&mut browser, &id, &[("action", "debug_worker")]).await;
    let asked = row(&fixture).await.asked;
    assert_eq!((asked.threads, asked.debug_left > Duration::from_secs(500)), (Some(4), true));
    let page = browser.page(&address).await;
    assert_eq!(page.values("#threads", "value"), ["4"]);
    assert!(page.texts("main p").iter().any(|said| said.starts_with("Requested: 4 threads, debug for 5")));
    ask(&mut browser, &id, &[("action", "debug_worker"), ("debug", "off")]).await;
    ask(&mut browser, &id, &[("action", "set_worker_threads"), ("threads", "0")]).await;
    assert!(row(&fixture).await.asked.is_nothing());

    let noted: Vec<_> = fixture.audits().await.into_iter().rev().map(|row| row.action).collect();
    let all = ["quiet_worker", "resume_worker", "set_worker_threads", "debug_worker", "debug_worker"];
    assert_eq!(noted[..5], all);
    let quiet = fixture.audits().await.pop().unwrap();
    let what = quiet.what.unwrap();
    assert_eq!((&what["worker"], &what["asked"]), (&"price-1".into(), &"claim no more jobs".into()));
    assert!(quiet.ended_at.is_some() && quiet.outcome.is_none());
    worker.shutdown().await.unwrap();
    let page = browser.page(&address).await;
    assert_eq!((page.count("main form[method=post]"), page.text().contains("It has ended.")), (0, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_a_worker_is_asked_for_first_and_its_successor_is_named() {
    let fixture = Fixture::new("stopped_worker").await;
    let worker = start(&fixture).await;
    let id = row(&fixture).await.worker_id.to_string();
    let mut browser = fixture.open();
    let address = format!("worker?queue=work&id={id}");
    let confirm = browser.page(&format!("stop_worker?queue=work&id={id}")).await;
    assert_eq!(confirm.texts("h1"), ["Stop worker price-1?"]);
    assert_eq!((confirm.count("a[autofocus]"), confirm.count("button[autofocus]")), (1, 0));
    assert_eq!(confirm.values("main a[autofocus]", "href"), [&*address]);
    let fields = confirm.values("main form[method=post] input[type=hidden]:not([name=csrf])", "value");
    assert_eq!(fields, ["work", &id]);
    assert_eq!(confirm.values("main form[method=post] button", "value"), ["stop_worker"]);

    ask(&mut browser, &id, &[("action", "stop_worker")]).await;
    worker.run().await.unwrap();
    assert!(row(&fixture).await.lost_at.is_some());
    assert_eq!(fixture.audits().await[0].action, "stop_worker");
    assert_eq!(browser.get(&format!("stop_worker?queue=work&id={id}")).await.status, StatusCode::NOT_FOUND);
    let again = start(&fixture).await;
    let page = browser.page(&address).await;
    assert!(page.texts("main p a").contains(&"A worker of the same name runs now.".to_owned()), "{}", page.text());
    again.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_asked_is_refused_and_not_noted() {
    let fixture = Fixture::new("refused_wish").await;
    let worker = start(&fixture).await;
    let id = row(&fixture).await.worker_id.to_string();
    let mut browser = fixture.open();
    for (id, threads, status) in [
        (&*id, "1025", StatusCode::BAD_REQUEST),
        (&*id, "", StatusCode::BAD_REQUEST),
        (&*id, "many", StatusCode::BAD_REQUEST),
        ("not-an-id", "4", StatusCode::BAD_REQUEST),
        ("00000000-0000-0000-0000-000000000000", "4", StatusCode::NOT_FOUND),
    ] {
        let fields = [("action", "set_worker_threads"), ("queue", "work"), ("id", id), ("threads", threads)];
        assert_eq!(browser.post("act", &fields).await.status, status, "{id} {threads}");
    }
    let fields = [("action", "quiet_worker"), ("queue", "work"), ("id", &*id)];
    assert_eq!(browser.send_form("act", &fields).await.status, StatusCode::FORBIDDEN, "without its token");
    assert!(fixture.audits().await.is_empty());
    assert!(row(&fixture).await.asked.is_nothing());
    worker.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_workers_leads_to_each_and_says_what_was_asked() {
    let fixture = Fixture::new("listed_worker").await;
    let worker = start(&fixture).await;
    let id = row(&fixture).await.worker_id.to_string();
    let mut browser = fixture.open();
    ask(&mut browser, &id, &[("action", "quiet_worker")]).await;
    let mut live = browser.listen("events?part=workers").await;
    let html = live.until(|html| html.contains("<span class=\"st paused pill\">quiet</span>")).await;
    assert!(html.contains(&format!("worker?queue=work&#38;id={id}")), "{html}");
    worker.shutdown().await.unwrap();
}
