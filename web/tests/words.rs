//! What the page says is so: how long jobs stay, why there is no page, what an action does.

use std::time::Duration;

use axum::http::StatusCode;
use readpast::admin::{CompletionPolicy, JobState, Keep, QueueOptions};
use readpast::{Config, Handlers, Job, JobId, NewJob, Queue, Worker};
use readpast_devserver::SqlError;
use readpast_web::{Options, router};

use crate::server::{dev_server, real_server_url};
use crate::support::{Browser, Fixture};

const DAY: Duration = Duration::from_secs(86_400);

/// What a job's page says of what happens next, and the names of its times.
async fn of_job(fixture: &Fixture, job: JobId) -> (String, Vec<String>) {
    let page = fixture.open().page(&format!("job?queue=work&id={job}")).await;
    (page.texts(".next").remove(0), page.texts(".facts dt"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_has_ended_says_how_long_its_queue_keeps_it() {
    for (keep, said, has_time) in [
        (Keep::For(90 * DAY), "requeued or deleted, at the latest by a worker 90d after its end.", true),
        (Keep::Forever, "It stays until it is requeued or deleted.", false),
    ] {
        let fixture = Fixture::with("kept_dead", QueueOptions::default().keep_dead(keep)).await;
        let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
        fixture.kill_all("an error").await;
        let (next, times) = of_job(&fixture, job).await;
        assert!(next.ends_with(said), "{next}");
        assert_eq!(times.contains(&"Kept until".to_owned()), has_time, "{times:?}");
        // Its last attempt has set a time for one more, which does not come.
        assert!(!times.contains(&"Ready".to_owned()), "{times:?}");
        let waiting = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
        let (_, times) = of_job(&fixture, waiting).await;
        assert!(!times.contains(&"Kept until".to_owned()), "{times:?}");
        assert!(times.contains(&"Ready".to_owned()), "{times:?}");
    }
    for (completion, said) in [
        (CompletionPolicy::Annotate, "It stays until it is deleted, at the latest by a worker 1d 12h after its end."),
        (
            CompletionPolicy::Archive,
            "in the archive until it is deleted, at the latest by a worker 1d 12h after its end.",
        ),
    ] {
        let options = QueueOptions::default().completion(completion).keep_done(Keep::For(DAY + DAY / 2));
        let fixture = Fixture::with("kept_done", options).await;
        let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
        let handler = |_: &Job, _: &readpast::Context| Ok(());
        Worker::builder(&fixture.queue, Handlers::any(handler)).start().await.unwrap().drain().await.unwrap();
        let (next, times) = of_job(&fixture, job).await;
        assert!(next.ends_with(said), "{next}");
        assert!(times.contains(&"Kept until".to_owned()), "{times:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_without_a_right_is_told_which_role_has_it() {
    let fixture = Fixture::new("no_right").await;
    let mut browser = Browser::new(router(fixture.queue_as("producer").await, Options::default()));
    let (denied, unknown) = ("The web UI's login lacks a permission", "Cannot read the queues");
    for (page, status, title) in [
        ("audit", StatusCode::FORBIDDEN, denied),
        ("schedules", StatusCode::BAD_GATEWAY, unknown),
        ("queue?queue=work", StatusCode::BAD_GATEWAY, unknown),
        ("find?text=timeout", StatusCode::BAD_GATEWAY, unknown),
        ("batches", StatusCode::BAD_GATEWAY, unknown),
    ] {
        let answer = browser.get(page).await;
        assert_eq!(answer.status, status, "{page}");
        assert_eq!(answer.texts("h1"), [title], "{page}");
        let said = answer.texts("main p").remove(0);
        assert!(said.contains(&format!("{}_monitor", fixture.schema)), "{page}: {said}");
    }
    for (page, begin) in [("overview", "Cannot read the queues: "), ("workers", "Cannot read the workers: ")] {
        let said = browser.page(page).await.texts("main [role=alert]").remove(0);
        assert!(said.starts_with(begin) && said.contains("_monitor"), "{page}: {said}");
        assert!(!said.contains("what you see"), "nothing is seen: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_sql_server_is_not_taken_for_no_answer() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("errors").await;
    let mut config = Config::default();
    config.connection.url = fixture.url.as_str().into();
    config.connection.schema = fixture.schema.clone();
    config.connection.command_timeout = Duration::from_secs(1);
    config.queue.name = "work".to_owned();
    let mut browser = Browser::new(router(Queue::connect(&config).await.unwrap(), Options::default()));
    browser.page("audit").await;
    let procedure = fixture.procedure_to_fail("list_audit");
    server.faults().on_call(&procedure, |_| Some(SqlError::new(50_000, "the disk is full")));
    let answer = browser.get("audit").await;
    assert_eq!((answer.status, answer.texts("h1").remove(0).as_str()), (StatusCode::BAD_GATEWAY, "SQL Server error"));
    assert!(answer.text().contains("the disk is full"), "{}", answer.text());

    let (let_go, gate) = std::sync::mpsc::channel::<()>();
    let gate = parking_lot::Mutex::new(gate);
    server.faults().on_call(&procedure, move |_| {
        let _ = gate.lock().recv_timeout(Duration::from_secs(60));
        None
    });
    let answer = browser.get("audit").await;
    drop(let_go);
    server.faults().clear(&procedure);
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(answer.texts("h1"), ["SQL Server did not respond in time"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_is_hidden_is_not_called_an_action() {
    let fixture = Fixture::new("hidden_text").await;
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let options = Options::default().hide_payloads(true);
    let answer = fixture.browser(options).get(&format!("bytes?queue=work&id={job}&of=payload")).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert_eq!(answer.texts("main p")[0], "The web UI hides payloads and outputs.");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_before_many_jobs_are_changed_fits_the_action() {
    let fixture = Fixture::new("hints").await;
    let scheduled: Vec<NewJob> = (0..2).map(|_| NewJob::text("x").delay(DAY)).collect();
    fixture.queue.enqueue_many(&["a", "b"].map(NewJob::text)).await.unwrap();
    fixture.kill_all("an error").await;
    fixture.queue.enqueue_many(&scheduled).await.unwrap();
    let mut browser = fixture.open();
    for (state, action, left_alone) in [
        (JobState::Dead, "requeue", "Jobs that finish later"),
        (JobState::Dead, "purge", "Jobs that finish or are enqueued later"),
        (JobState::Scheduled, "cancel", "Jobs that are enqueued later"),
        (JobState::Scheduled, "set_priority", "Jobs that are enqueued later"),
        (JobState::Scheduled, "promote", "Jobs that are enqueued later"),
    ] {
        let page = browser.page(&format!("confirm?queue=work&state={state}&action={action}&scope=all")).await;
        let said = page.texts(".hint").remove(0);
        assert!(said.contains(left_alone), "{action}: {said}");
    }
    let one = fixture.queue.admin().list(&JobState::Dead.into(), None, 1).await.unwrap().jobs[0].job_id;
    let page = browser.page(&format!("confirm?queue=work&state=dead&action=purge&id={one}")).await;
    assert_eq!(page.texts(".many"), ["1 job."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_for_others_names_them_and_they_name_it() {
    let fixture = Fixture::new("edges").await;
    let parent = fixture.queue.enqueue(&NewJob::text("x").kind("thumbnail")).await.unwrap().job_id;
    let child = fixture.queue.enqueue(&NewJob::text("x").kind("montage").after([parent])).await.unwrap().job_id;
    let (next, _) = of_job(&fixture, child).await;
    assert!(next.ends_with("It becomes ready when the jobs that it waits for are done."), "{next}");
    for (job, heading, row) in [
        (child, "Waits for", [parent.to_string(), "thumbnail ready yes hold".to_owned()]),
        (parent, "Jobs that wait for it", [child.to_string(), "montage waiting yes hold".to_owned()]),
    ] {
        let page = fixture.open().page(&format!("job?queue=work&id={job}")).await;
        assert!(page.texts("h2").contains(&heading.to_owned()));
        let cells = page.texts("table a, table td");
        assert_eq!([cells[0].clone(), cells[1..].join(" ")], row);
        assert_eq!(page.texts("svg.graph text.kind"), [format!("thumbnail {parent}"), format!("montage {child}")]);
        assert_eq!(page.texts("svg.graph text:not(.kind)"), ["ready", "waiting"]);
    }
    // A large graph is folded, and what comes from outside is text in it.
    let pages: Vec<NewJob> =
        (0..60).map(|n| NewJob::text("x").kind(if n % 2 == 0 { "<b>" } else { "page" }).after([child])).collect();
    fixture.queue.enqueue_many(&pages).await.unwrap();
    let page = fixture.open().page(&format!("job?queue=work&id={parent}")).await;
    assert_eq!(
        page.texts("svg.graph text.kind"),
        [format!("thumbnail {parent}"), format!("montage {child}"), "<b> × 30".to_owned(), "page × 30".to_owned()]
    );
    assert_eq!(page.texts("svg.graph text:not(.kind)")[2..], ["30 waiting", "30 waiting"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fair_queue_s_page_has_its_groups_with_their_weights() {
    let fixture = Fixture::with("fair_groups", QueueOptions::default().fair(true)).await;
    let jobs = ["acme", "<b>", "acme"].map(|group| NewJob::text("x").group_key(group));
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    fixture.queue.admin().set_group_weight("acme", 3).await.unwrap();
    let page = fixture.open().page("queue?queue=work").await;
    assert_eq!(page.texts("[aria-label=Groups] td, [aria-label=Groups] tbody th"), ["<b>", "1", "1", "acme", "3", "2"]);
    let jobs = page.values("[aria-label=Groups] a", "href");
    assert_eq!(fixture.open().page(&jobs[1]).await.count("tbody tr"), 2, "its jobs");
    let more: Vec<NewJob> = (0..49).map(|group| NewJob::text("x").group_key(group.to_string())).collect();
    fixture.queue.enqueue_many(&more[1..]).await.unwrap();
    let page = fixture.open().page("queue?queue=work").await;
    assert_eq!((page.count("[aria-label=Groups] tbody tr"), page.text().contains("Only the first")), (50, false));
    fixture.queue.enqueue_many(&more[..1]).await.unwrap();
    let page = fixture.open().page("queue?queue=work").await;
    assert_eq!((page.count("[aria-label=Groups] tbody tr"), page.text().contains("Only the first 50")), (50, true));
    fixture.queue.admin().create(QueueOptions::default().fair(false)).await.unwrap();
    assert_eq!(fixture.open().page("queue?queue=work").await.count("[aria-label=Groups]"), 0);
}
