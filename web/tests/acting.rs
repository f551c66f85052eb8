//! What is done on the page: who may, what stands in the audit, and what cannot be noted is not done.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::Mutex;
use readpast::admin::{JobChange, JobFilter, JobState, Schedule};
use readpast::{NewBatch, NewJob};
use readpast_devserver::DevServer;
use readpast_devserver::SqlError;
use readpast_web::{Access, HeaderName, Options, User, hash_password, router, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc::UnboundedReceiver, oneshot};

use crate::server::{dev_server, real_server_url};
use crate::support::{Browser, Fixture, form, until};

/// What somebody may press: buttons but those that search, and log out.
const BUTTONS: &str = "main form[method=post] button, main button[name=action]";

/// The id of no worker.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// Pages that are of no use to those who may only view.
const FOR_ACTING: [&str; 7] = [
    "confirm?queue=work&state=ready&action=purge&scope=all",
    "new_job?queue=work",
    "settings?queue=work",
    "schedule?queue=work",
    "schedule?queue=work&schedule=s",
    "delete_schedule?queue=work&schedule=s",
    "stop_worker?queue=work&id=00000000-0000-0000-0000-000000000000",
];

const ALL_DEAD: [(&str, &str); 3] = [("queue", "work"), ("state", "dead"), ("scope", "all")];

/// Something to press on every page.
async fn fill(fixture: &Fixture) -> (String, String) {
    let job = fixture.queue.enqueue(&NewJob::text("a secret")).await.unwrap().job_id.to_string();
    fixture.queue.admin().set_schedule(&Schedule::new("s", "@daily", NewJob::text("x"))).await.unwrap();
    let batch = fixture.queue.create_batch(&NewBatch::new()).await.unwrap().to_string();
    (job, batch)
}

fn pages(job: &str) -> Vec<String> {
    let job = format!("job?queue=work&id={job}");
    ["overview", "queue?queue=work", "jobs?queue=work", &job, "workers", "schedules", "batches", "audit"]
        .map(str::to_owned)
        .to_vec()
}

/// Shows all pages, and lets nobody act.
async fn only_shows(mut browser: Browser, fixture: &Fixture) {
    let (job, batch) = fill(fixture).await;
    for page in pages(&job) {
        let answer = browser.page(&page).await;
        assert_eq!(answer.texts(BUTTONS), [""; 0], "{page}");
    }
    for page in FOR_ACTING {
        assert_eq!(browser.get(page).await.status, StatusCode::FORBIDDEN, "{page}");
    }
    for fields in [
        vec![("action", "pause"), ("queue", "work")],
        vec![("action", "cancel"), ("queue", "work"), ("state", "ready"), ("id", &job)],
        vec![("action", "cancel"), ("queue", "work"), ("state", "ready"), ("scope", "all")],
        vec![("action", "run_schedule"), ("queue", "work"), ("schedule", "s")],
        vec![("action", "cancel_batch"), ("queue", "work"), ("batch", &batch)],
        vec![("action", "quiet_worker"), ("queue", "work"), ("id", NOBODY)],
    ] {
        let answer = browser.post("act", &fields).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{fields:?}: {}", answer.text());
        assert!(answer.text().contains("You can view but not make changes"), "{}", answer.text());
    }
    for form in ["enqueue", "set_schedule", "set_queue"] {
        let answer = browser.post(form, &[("step", "do"), ("queue", "work")]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{form}: {}", answer.text());
    }
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.paused, stats.ready), (false, 1));
    assert!(fixture.audits().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_act_has_buttons_on_the_pages_of_queues_jobs_schedules_and_batches() {
    let fixture = Fixture::new("buttons").await;
    let (job, _) = fill(&fixture).await;
    let mut browser = fixture.open();
    for page in ["queue?queue=work", "jobs?queue=work", &format!("job?queue=work&id={job}"), "schedules", "batches"] {
        assert_ne!(browser.page(page).await.count(BUTTONS), 0, "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_page_lets_nobody_act() {
    let fixture = Fixture::new("read_only").await;
    let options = Options::default().read_only(true);
    only_shows(fixture.browser(options), &fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_user_may_not_act_and_others_may() {
    let fixture = Fixture::new("read_only_user").await;
    let user = |name| User::new(name, hash_password("a password")).unwrap();
    let options = Options::default().access(Access::Users(vec![user("bob").read_only(true), user("ann")]));
    let mut bob = fixture.browser(options);
    let mut ann = bob.clone();
    bob.log_in("bob", "a password").await.location();
    only_shows(bob, &fixture).await;
    ann.log_in("ann", "a password").await.location();
    ann.post("act", &[("action", "pause"), ("queue", "work")]).await.location();
}

#[tokio::test(flavor = "multi_thread")]
async fn over_a_monitor_s_login_all_pages_are_shown_and_nobody_acts() {
    let fixture = Fixture::new("monitor").await;
    let queue = fixture.queue_as("monitor").await;
    only_shows(Browser::new(router(queue, Options::default())), &fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_s_login_is_enough_to_act() {
    let fixture = Fixture::new("operator").await;
    let queue = fixture.queue_as("operator").await;
    let mut browser = Browser::new(router(queue, Options::default()));
    let (job, _) = fill(&fixture).await;
    for page in pages(&job) {
        browser.page(&page).await;
    }
    browser.post("act", &[("action", "pause"), ("queue", "work")]).await.location();
    assert!(fixture.queue.admin().stats(None).await.unwrap().paused);
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_payloads_and_outputs_are_on_no_page_and_in_no_download() {
    let fixture = Fixture::with("hidden", readpast::admin::QueueOptions::default()).await;
    let job = fixture.queue.enqueue(&NewJob::text("SECRET payload").kind("k").dedup_key("key")).await.unwrap().job_id;
    fixture
        .sql(&format!(
            "UPDATE [$(schema)].[jobs] SET output = CAST('SECRET output' AS varbinary(max)) WHERE job_id = {job}"
        ))
        .await;
    fixture
        .sql(
            "INSERT [$(schema)].[progress] (job_id, queue_id, fence, noted_at, text, [checkpoint]) \
             SELECT job_id, queue_id, fence, SYSUTCDATETIME(), N'half', CAST('SECRET checkpoint' AS varbinary(max)) \
             FROM [$(schema)].[jobs]",
        )
        .await;
    let addresses = ["payload", "output"].map(|of| format!("bytes?queue=work&id={job}&of={of}"));
    let mut browser = fixture.open();
    let all = browser.page(&format!("job?queue=work&id={job}")).await.text();
    assert!(all.contains("SECRET payload") && all.contains("SECRET output"), "{all}");
    assert_eq!(browser.page(&addresses[0]).await.text(), "SECRET payload");

    let options = Options::default().hide_payloads(true);
    let mut browser = fixture.browser(options);
    for page in pages(&job.to_string()).into_iter().chain(["jobs?queue=work&key=key".to_owned()]) {
        let answer = browser.page(&page).await;
        assert!(!answer.text().contains("SECRET"), "{page}: {}", answer.text());
        assert_eq!(answer.count("a[download]"), 0, "{page}");
    }
    for address in addresses {
        let answer = browser.get(&address).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{address}");
        assert!(!answer.text().contains("SECRET"), "{address}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_action_stands_in_the_audit_with_who_what_and_how_many() {
    let fixture = Fixture::new("audit").await;
    let queue = &fixture.queue;
    let mut browser = fixture.open();
    let batch = queue.create_batch(&NewBatch::new()).await.unwrap();
    queue.enqueue(&NewJob::text("x").batch(batch)).await.unwrap();
    queue.admin().set_schedule(&Schedule::new("s", "@daily", NewJob::text("x"))).await.unwrap();
    let late = NewJob::text("late").delay(Duration::from_secs(3_600));
    let late = queue.enqueue(&late).await.unwrap().job_id.to_string();
    let (batch, of_late) = (batch.to_string(), late.clone());
    let mut expect = async |fields: &[(&str, &str)], action: &str, what: &str, jobs: Option<u64>| {
        let mut all = vec![("queue", "work")];
        all.extend(fields);
        let answer = browser.post("act", &all).await;
        let location = answer.location().to_owned();
        if let Some(id) = location.strip_prefix("operation?") {
            let mut live = browser.listen(&format!("events?part=operation&{id}")).await;
            live.until(|html| html.contains("data-over")).await;
        }
        let row = fixture.audits().await.remove(0);
        assert_eq!((&*row.who, &*row.action), ("local visitor", action));
        assert_eq!((row.queue.as_deref(), row.jobs), (Some("work"), jobs), "{row:?}");
        assert!(row.ended_at.is_some() && row.outcome.is_none(), "{row:?}");
        let said = row.what.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(said.contains(what), "{row:?}");
    };
    let why = ("why", "until the relay has moved");
    expect(&[("action", "pause"), why], "pause", r#"{"why":"until the relay has moved"}"#, None).await;
    expect(&[("action", "pause")], "pause", "", None).await;
    expect(&[("action", "resume")], "resume", "", None).await;
    expect(&[("action", "cancel_batch"), ("batch", &batch)], "cancel_batch", &batch, Some(1)).await;
    expect(&[("action", "run_schedule"), ("schedule", "s")], "run_schedule", "s", None).await;
    expect(&[("action", "pause_schedule"), ("schedule", "s")], "pause_schedule", "s", None).await;
    expect(&[("action", "resume_schedule"), ("schedule", "s")], "resume_schedule", "s", None).await;
    expect(&[("action", "promote"), ("state", "scheduled"), ("id", &late)], "promote", &of_late, Some(1)).await;
    let priority = [("action", "set_priority"), ("priority", "-3"), ("state", "ready"), ("id", &*late)];
    expect(&priority, "set_priority", &of_late, Some(1)).await;
    expect(&[("action", "cancel"), ("state", "ready"), ("scope", "all")], "cancel", "ready", Some(2)).await;
    expect(&[("action", "requeue"), ("state", "cancelled"), ("id", &late)], "requeue", &of_late, Some(1)).await;
    expect(&[("action", "purge"), ("state", "cancelled"), ("scope", "all")], "purge", "cancelled", Some(2)).await;
    expect(&[("action", "delete_schedule"), ("schedule", "s")], "delete_schedule", "s", None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_s_page_says_who_acted_on_it() {
    let fixture = Fixture::new("acted_on").await;
    let jobs =
        [NewJob::text("a").delay(Duration::from_secs(3_600)), NewJob::text("b").delay(Duration::from_secs(3_600))];
    let jobs = fixture.queue.enqueue_many(&jobs).await.unwrap();
    let [job, other] = [0, 1].map(|index| jobs[index].job_id.to_string());
    let mut browser = fixture.open();
    for fields in [
        [("action", "promote"), ("state", "scheduled"), ("id", &*job)],
        [("action", "cancel"), ("state", "ready"), ("id", &*job)],
        [("action", "promote"), ("state", "scheduled"), ("id", &*other)],
    ] {
        browser.post("act", &[&fields[..], &[("queue", "work")]].concat()).await.location();
    }
    let page = browser.page(&format!("job?queue=work&id={job}")).await;
    let acts: Vec<String> = page.texts("[aria-labelledby=acts] li");
    assert_eq!(acts.len(), 2, "{acts:?}");
    assert!(acts[0].contains("cancel") && acts[1].contains("made"), "{acts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_fails_stands_in_the_audit_with_its_error() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("failing").await;
    let mut browser = fixture.open();
    let refuse = |_| Some(SqlError::new(50_000, "not today"));
    server.faults().on_call(&fixture.procedure_to_fail("pause"), refuse);
    let answer = browser.post("act", &[("action", "pause"), ("queue", "work")]).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert!(answer.text().contains("not today"), "{}", answer.text());
    let row = fixture.audits().await.remove(0);
    assert_eq!((&*row.action, row.jobs), ("pause", None));
    assert!(row.outcome.unwrap().contains("not today"));

    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    fixture.kill_all("an error").await;
    server.faults().on_call(&fixture.procedure_to_fail("requeue"), refuse);
    let fields = [&ALL_DEAD[..], &[("action", "requeue")]].concat();
    let operation = browser.post("act", &fields).await.location().to_owned();
    let mut live = browser.listen(&operation.replace("operation?", "events?part=operation&")).await;
    let html = live.until(|html| html.contains("error")).await;
    assert!(html.contains("not today"), "{html}");
    let row = fixture.audits().await.remove(0);
    assert_eq!((&*row.action, row.jobs), ("requeue", Some(0)));
    assert!(row.outcome.unwrap().contains("not today"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_noted_is_not_done() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("not_noted").await;
    let (job, batch) = fill(&fixture).await;
    let mut browser = fixture.open();
    let refuse = |_| Some(SqlError::new(50_000, "the disk is full"));
    server.faults().on_call(&fixture.procedure_to_fail("begin_audit"), refuse);
    for fields in [
        vec![("action", "pause"), ("queue", "work")],
        vec![("action", "cancel"), ("queue", "work"), ("state", "ready"), ("id", &job)],
        vec![("action", "cancel"), ("queue", "work"), ("state", "ready"), ("scope", "all")],
        vec![("action", "run_schedule"), ("queue", "work"), ("schedule", "s")],
        vec![("action", "cancel_batch"), ("queue", "work"), ("batch", &batch)],
    ] {
        let answer = browser.post("act", &fields).await;
        assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{fields:?}");
        assert!(answer.text().contains("the disk is full"), "{}", answer.text());
    }
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.paused, stats.ready), (false, 1));
    assert!(fixture.queue.admin().list(&JobFilter::from(JobState::Cancelled), None, 10).await.unwrap().jobs.is_empty());
}

/// The second call of `requeue` says that it is there, and waits until it is let go.
fn hold_second_requeue(server: &DevServer, fixture: &Fixture) -> (UnboundedReceiver<()>, mpsc::Sender<()>) {
    let (reached, is_reached) = tokio::sync::mpsc::unbounded_channel();
    let (go, gone) = mpsc::channel();
    let gone = Mutex::new(gone);
    let wait = move |call| {
        if call == 2 {
            let _ = reached.send(());
            let _ = gone.lock().recv_timeout(Duration::from_secs(60)); // the test fails then
        }
        None
    };
    server.faults().on_call(&fixture.procedure_to_fail("requeue"), wait);
    (is_reached, go)
}

/// An answer over a socket, as it comes.
async fn ask(address: SocketAddr, line: &str, cookie: &str, body: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: {cookie}\r\n");
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_page_waits_until_the_audit_has_the_end_of_what_was_under_way() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("page_ends").await;
    let jobs: Vec<NewJob> = (0..3_000).map(|_| NewJob::text("x")).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    fixture.kill_all("an error").await;
    let (mut is_reached, go) = hold_second_requeue(server, &fixture);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let page = tokio::spawn(serve(listener, fixture.queue.clone(), Options::default(), async move {
        ended.await.unwrap();
    }));

    let at_login = ask(address, "GET /login", "", "").await;
    let between = |begin: &str, end: &str| {
        let from = at_login.split_once(begin).expect(&at_login).1;
        from.split_once(end).expect(from).0.to_owned()
    };
    let (cookie, token) = (between("set-cookie: ", ";"), between("name=\"csrf\" value=\"", "\""));
    let fields = [&ALL_DEAD[..], &[("action", "requeue"), ("csrf", &token)]].concat();
    let begun = ask(address, "POST /act", &cookie, &form(&fields)).await;
    assert!(begun.contains("operation?id="), "{begun}");
    is_reached.recv().await.unwrap();
    end.send(()).unwrap();
    // The page has begun to end when nothing is answered any more.
    until("the page is stopping", async || TcpStream::connect(address).await.is_err()).await;
    assert!(!page.is_finished(), "something is under way");
    go.send(()).unwrap();
    page.await.unwrap().unwrap();
    let row = fixture.audits().await.remove(0);
    let expected = ("requeue", Some(2_000), Some("stopped: the web UI ended"));
    assert_eq!((&*row.action, row.jobs, row.outcome.as_deref()), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_at_once_are_refused_and_not_noted() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("too_many").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut browser = fixture.open();
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    server.faults().on_call(&fixture.procedure_to_fail("cancel"), move |_| {
        let _ = gone.lock().recv_timeout(Duration::from_secs(60)); // the test fails then
        None
    });
    let fields = [("queue", "work"), ("state", "ready"), ("scope", "all"), ("action", "cancel")];
    for _ in 0..20 {
        browser.post("act", &fields).await.location();
    }
    let answer = browser.post("act", &fields).await;
    assert_eq!((answer.status, answer.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, "5"));
    assert!(answer.text().contains("20 operations are running"), "{}", answer.text());
    assert_eq!(fixture.audits().await.len(), 20);
    drop(go);
    until("there is a place again", async || browser.clone().post("act", &fields).await.status == 303).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stopped_stands_in_the_audit_with_what_was_done_until_then() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("stopped").await;
    let jobs: Vec<NewJob> = (0..3_000).map(|_| NewJob::text("x")).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    fixture.kill_all("an error").await;
    let (mut is_reached, go) = hold_second_requeue(server, &fixture);
    let user_header = Some(HeaderName::from_static("x-forwarded-user"));
    let page = fixture.browser(Options::default().access(Access::Trusted { user_header }));
    let (mut browser, mut another) = (page.with("x-forwarded-user", "ann"), page.with("x-forwarded-user", "bob"));
    let fields = [&ALL_DEAD[..], &[("action", "requeue")]].concat();
    let operation = browser.post("act", &fields).await.location().to_owned();
    let id = operation.strip_prefix("operation?id=").unwrap();
    let mut live = browser.listen(&format!("events?part=operation&id={id}")).await;
    live.until(|html| html.contains("<strong>1,000</strong>")).await;
    is_reached.recv().await.unwrap();
    assert_eq!(another.send_form("stop", &[("id", id)]).await.status, StatusCode::FORBIDDEN);
    assert_eq!(another.post("stop", &[("id", id)]).await.location(), operation);
    browser.post("stop", &[("id", id)]).await.location(); // it is stopped already
    go.send(()).unwrap();
    let html = live.until(|html| html.contains("data-over")).await;
    assert!(html.contains("Stopped by <bdi>bob</bdi>;") && html.contains("<strong>2,000</strong>"), "{html}");
    until("the audit has its end", async || fixture.audits().await[0].ended_at.is_some()).await;
    let row = fixture.audits().await.remove(0);
    assert_eq!((&*row.action, row.jobs, row.outcome.as_deref()), ("requeue", Some(2_000), Some("stopped by bob")));
    assert_eq!(row.who, "ann");
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().dead, 1_000);
    // A page that is opened afterwards is told the end, too.
    let mut late = browser.listen(&format!("events?part=operation&id={id}")).await;
    assert!(late.next().await.unwrap().contains("Stopped"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_action_has_the_focus() {
    let fixture = Fixture::new("focus").await;
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    fixture.queue.admin().change(&JobChange::cancel(""), job).await.unwrap();
    let mut browser = fixture.open();
    let mut page = async |action| {
        let address = format!("confirm?queue=work&state=cancelled&scope=all&action={action}");
        let page = browser.page(&address).await;
        (page.count("button[autofocus]"), page.count("a[autofocus]"))
    };
    assert_eq!(page("purge").await, (0, 1));
    assert_eq!(page("requeue").await, (0, 1));
}
