//! A job that somebody makes on the page, empty or like another one.

use std::time::Duration;

use axum::http::StatusCode;
use readpast::admin::{JobState, QueueOptions};
use readpast::crates::uuid::Uuid;
use readpast::{Handlers, JobId, NewJob, Worker};
use readpast_devserver::SqlError;
use readpast_web::{Access, Options};

use crate::server::{dev_server, real_server_url};
use crate::support::{Answer, Browser, Fixture};

/// All that can be typed, with something in each.
const ALL: [(&str, &str); 10] = [
    ("kind", "price"),
    ("payload", "{\n  \"invoice\": 1\n}\n"),
    ("key", "inv-1"),
    ("group", "acme"),
    ("priority", "-5"),
    ("due", "1h 30m"),
    ("start_within", "2h"),
    ("attempts", "3"),
    ("time_limit", "30s"),
    ("headers", "tenant: acme\n trace : a:b \n\n"),
];

async fn only_job(fixture: &Fixture) -> readpast::admin::JobRow {
    let mut jobs = fixture.queue.admin().list(&readpast::admin::JobFilter::all(), None, 10).await.unwrap().jobs;
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    jobs.remove(0)
}

fn warnings(page: &Answer) -> String {
    page.texts(".warning").join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_made_in_two_steps_with_all_that_was_typed() {
    let fixture = Fixture::new("new_job").await;
    let mut browser = fixture.open();
    let first = browser.page("new_job?queue=work").await;
    let second = browser.press(&first, "enqueue", "check", &ALL).await;
    assert_eq!(second.status, StatusCode::OK, "{}", second.text());
    let will_be = second.texts("main li");
    assert_eq!(will_be[0], "It will be in work, scheduled: it becomes ready after 1h 30m.");
    assert_eq!(will_be[1], "If an unfinished job has the key inv-1 by then, nothing is added.");
    assert_eq!(second.texts("main pre"), ["{\n  \"invoice\": 1\n}"]);
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().unfinished(), 0, "nothing is done yet");
    assert!(fixture.audits().await.is_empty());

    // Back again, nothing is lost.
    let back = browser.press(&second, "enqueue", "back", &[]).await;
    for (name, value) in back.form("enqueue", "check") {
        if let Some((_, typed)) = ALL.iter().find(|(other, _)| *other == name) {
            assert_eq!(value.replace("\r\n", "\n"), *typed, "{name}");
        }
    }
    let second = browser.press(&back, "enqueue", "check", &[]).await;
    let done = browser.press(&second, "enqueue", "do", &[]).await;
    let job = only_job(&fixture).await;
    assert_eq!(done.location(), format!("job?queue=work&id={}", job.job_id));
    assert_eq!(browser.page(done.location()).await.texts(".notice"), [format!("Enqueued as job {}.", job.job_id)]);
    assert_eq!(job.payload, ALL[1].1.as_bytes());
    assert_eq!((job.kind.as_deref(), job.dedup_key.as_deref()), (Some("price"), Some("inv-1")));
    assert_eq!((job.group_key.as_deref(), job.priority), (Some("acme"), -5));
    assert_eq!((job.state, job.time_limit), (JobState::Scheduled, Some(Duration::from_secs(30))));
    assert!(job.due_at > job.enqueued_at + Duration::from_secs(5_390), "{job:?}");
    assert_eq!(job.start_by, Some(job.due_at + Duration::from_secs(7_200)));
    let headers = job.headers.unwrap();
    assert_eq!((&headers["tenant"], &headers["trace"]), (&"acme".into(), &"a:b".into()));

    let audit = fixture.audits().await.remove(0);
    assert_eq!((&*audit.who, &*audit.action, audit.jobs), ("local visitor", "enqueue", Some(1)));
    let what = audit.what.unwrap();
    assert_eq!((&what["kind"], &what["due"], what.get("like")), (&"price".into(), &"1h 30m".into(), None));
    assert!(!what.to_string().contains("invoice"), "the payload may be personal data: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_stands_under_its_field_and_nothing_typed_is_lost() {
    let fixture = Fixture::new("wrong_job").await;
    let mut browser = fixture.open();
    let first = browser.page("new_job?queue=work").await;
    let long = "ü".repeat(40_000);
    for (name, value, said) in [
        ("kind", "a b", "kind is 'a b'; it must be 1 to 64 printable ASCII characters, no spaces"),
        ("key", " x", "dedup_key is ' x'; it must have no leading or trailing spaces"),
        ("group", "\t", "group_key has the control character U+0009"),
        ("priority", "40000", "it is '40000'; it must be -32768 to 32767"),
        ("due", "tomorrow", "write a delay as 90s, 5m or 1h 30m, or a time as 2026-11-23T10:20 (UTC)"),
        ("due", "4000d", "delay is 345600000 s; it must be at most"),
        ("start_within", "0s", "start_within is 0ns; it must be 1 ms to ten years"),
        ("attempts", "0", "max_attempts is 0; it must be 1 to"),
        ("time_limit", "30d", "time_limit is 2592000s; it must be 1 ms to"),
        ("time_limit", "soon", "write it as 90s, 5m, 1h 30m or 7d"),
        ("headers", "tenant", "'tenant' has no name; write it as name: value"),
        ("headers", "readpast-x: 1", "the header 'readpast-x' is reserved"),
        ("payload", &long, "it is 80,000 bytes; it must be at most 65,536"),
    ] {
        let typed: Vec<_> =
            ALL.iter().map(|(other, text)| (*other, if *other == name { value } else { text })).collect();
        for step in ["check", "do"] {
            let again = browser.press(&first, "enqueue", step, &typed).await;
            assert_eq!(again.status, StatusCode::BAD_REQUEST, "{name} {value}");
            let under = again.texts(&format!("#{name}-wrong")).remove(0);
            assert!(under.starts_with(said), "{name} {value}: {under}");
            assert_eq!(again.values("[aria-invalid=true]", "name"), [name]);
            assert_eq!(again.values("[autofocus]", "name"), [name]);
            let described = again.values(&format!("#{name}"), "aria-describedby").remove(0);
            assert!(described.split(' ').all(|id| again.count(&format!("#{id}")) == 1), "{described}");
            assert_eq!(again.count("details:not([open])"), 0, "all that was typed is seen");
            for (other, value) in again.form("enqueue", step) {
                if let Some((_, typed)) = typed.iter().find(|(name, _)| *name == other) {
                    assert_eq!(value.replace("\r\n", "\n"), *typed, "{other}");
                }
            }
        }
    }
    assert!(fixture.audits().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_step_warns_of_what_keeps_the_job_from_running() {
    let options = QueueOptions::default().max_depth(1);
    let fixture = Fixture::with("warned_job", options).await;
    fixture.queue.admin().pause().await.unwrap();
    let old = fixture.queue.enqueue(&NewJob::text("x").kind("price").dedup_key("k")).await.unwrap().job_id;
    let mut browser = fixture.open();
    let first = browser.page("new_job?queue=work").await;
    assert_eq!(first.values("datalist option", "value"), ["price"]);
    let typed = [("kind", "prize"), ("key", "k"), ("payload", "{\"a\": 1,}"), ("due", "2020-01-01")];
    let second = browser.press(&first, "enqueue", "check", &typed).await;
    let said = warnings(&second);
    for warning in [
        "The queue is paused",
        "No worker of this queue runs",
        "The queue is full: it takes 1 unfinished job.",
        "This time is past",
        "No job of this kind waits here",
        "The payload looks like JSON, but is not: key must be a string at line 1 column 9.",
    ] {
        assert!(said.contains(warning), "{warning}: {said}");
    }
    let found = format!("Unfinished job {old} has the key k: nothing is added while it is unfinished.");
    assert_eq!(second.texts("main li"), ["It will be in work, ready at once; 1 job is ready already.", &found]);
    let done = browser.press(&second, "enqueue", "do", &[]).await;
    assert_eq!(done.location(), format!("job?queue=work&id={old}"));
    let notice = browser.page(done.location()).await.texts(".notice").remove(0);
    assert_eq!(notice, format!("Nothing was added: unfinished job {old} has the same key."));
    assert_eq!(fixture.audits().await[0].jobs, Some(0));

    // The queue is full: it says so, and all that was typed stays.
    let full = browser.press(&second, "enqueue", "do", &[("key", "")]).await;
    assert_eq!(full.status, StatusCode::BAD_REQUEST);
    assert!(full.texts("main .error")[0].contains("max_depth"), "{}", full.text());
    assert_eq!(full.values("#kind", "value"), ["prize"]);
    assert!(fixture.audits().await[0].outcome.as_ref().unwrap().contains("max_depth"));

    let handler = |_: &readpast::Job, _: &readpast::Context| Ok(());
    fixture.queue.admin().resume().await.unwrap();
    let worker = Worker::builder(&fixture.queue, Handlers::any(handler)).start().await.unwrap();
    let typed = [("kind", "price"), ("key", ""), ("payload", "{}"), ("due", "")];
    crate::support::until("it is done", async || fixture.queue.admin().stats(None).await.unwrap().ready == 0).await;
    let first = browser.page("new_job?queue=work").await;
    let second = browser.press(&first, "enqueue", "check", &typed).await;
    assert!(!warnings(&second).contains("worker") && !warnings(&second).contains("paused"), "{}", warnings(&second));
    worker.shutdown().await.unwrap();
}

/// A dead job with what can be carried over.
async fn dead_job(fixture: &Fixture) -> JobId {
    let job = NewJob::text("SECRET <b>\n\nline").kind("price").dedup_key("k").group_key("g").priority(7);
    let job = job.header("tenant", "acme").time_limit(Duration::from_secs(90)).correlation_id(Uuid::nil());
    let id = fixture.queue.enqueue(&job).await.unwrap().job_id;
    fixture.kill_all("an error").await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_run_again_changed() {
    let fixture = Fixture::new("changed_job").await;
    let id = dead_job(&fixture).await;
    let mut browser = fixture.open();
    let job = browser.page(&format!("job?queue=work&id={id}")).await;
    let link = format!("new_job?queue=work&like={id}");
    assert_eq!(job.values("main a[href^=new_job]", "href"), [&*link]);
    let first = browser.page(&link).await;
    let fields = first.form("enqueue", "check");
    for (name, value) in [
        ("queue", "work"),
        ("kind", "price"),
        ("payload", "SECRET <b>\r\n\r\nline"),
        ("key", "k"),
        ("group", "g"),
        ("priority", "7"),
        ("time_limit", "1m 30s"),
        ("headers", "tenant: acme"),
        ("attempts", ""),
    ] {
        assert!(fields.contains(&(name.to_owned(), value.to_owned())), "{name}: {fields:?}");
    }
    let second = browser.press(&first, "enqueue", "check", &[("kind", "prize"), ("payload", "mended")]).await;
    let done = browser.press(&second, "enqueue", "do", &[]).await;
    let new = done.location().rsplit_once('=').unwrap().1.parse().map(JobId).unwrap();
    let row = fixture.queue.admin().job(new, None).await.unwrap().unwrap();
    assert_eq!((row.kind.as_deref(), &*row.payload, row.priority), (Some("prize"), &b"mended"[..], 7));
    assert_eq!(fixture.queue.admin().job(id, None).await.unwrap().unwrap().state, JobState::Dead, "it stays");
    assert_eq!(fixture.audits().await[0].what.as_ref().unwrap()["like"], id.to_string());
    let gone = browser.get("new_job?queue=work&like=999999").await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_is_hidden_or_no_text_is_copied_unseen() {
    let fixture = Fixture::new("copied_job").await;
    let id = dead_job(&fixture).await;
    let bytes = fixture.queue.enqueue(&NewJob::bytes(*b"\0\xff\r\n")).await.unwrap().job_id;
    let long = fixture.queue.enqueue(&NewJob::text("ü".repeat(40_000))).await.unwrap().job_id;
    for (id, options) in
        [(id, Options::default().hide_payloads(true)), (bytes, Options::default()), (long, Options::default())]
    {
        let mut browser = fixture.browser(options);
        let first = browser.page(&format!("new_job?queue=work&like={id}")).await;
        assert!(!first.text().contains("SECRET"), "{}", first.text());
        assert_eq!(first.texts("textarea[name=payload]"), [""]);
        let second = browser.press(&first, "enqueue", "check", &[("key", "")]).await;
        assert!(!second.text().contains("SECRET"), "{}", second.text());
        assert!(second.texts("main li")[1].starts_with(&format!("Its payload is that of job {id}: ")));
        let done = browser.press(&second, "enqueue", "do", &[]).await;
        let new = done.location().rsplit_once('=').unwrap().1.parse().map(JobId).unwrap();
        let rows = [id, new].map(async |id| fixture.queue.admin().job(id, None).await.unwrap().unwrap());
        let [old, new] = rows;
        assert_eq!(new.await.payload, old.await.payload);

        let both = browser.press(&first, "enqueue", "check", &[("payload", "another")]).await;
        assert!(both.texts("#payload-wrong")[0].starts_with("there are two payloads"));
        let gone = browser.press(&first, "enqueue", "do", &[("copy", "999999")]).await;
        assert_eq!(gone.texts("#copy-wrong"), ["job 999999 is gone, and its payload with it"]);
        assert_eq!(fixture.audits().await[0].what.as_ref().unwrap()["copy"], id.to_string());
    }
    // Another handler might show it, for example in an error.
    let mut browser = fixture.browser(Options::default().hide_payloads(true));
    let first = browser.page(&format!("new_job?queue=work&like={id}")).await;
    let refused = browser.press(&first, "enqueue", "do", &[("key", ""), ("kind", "other")]).await;
    assert!(refused.texts("#kind-wrong")[0].contains("only within its queue and for its kind"), "{}", refused.text());
}

/// The fields of the first page, with a kind, for a form with a file.
async fn fields_beside_a_file(browser: &mut Browser) -> Vec<(String, String)> {
    let first = browser.page("new_job?queue=work").await;
    assert_eq!(first.values("form[action=enqueue]", "enctype"), ["multipart/form-data"]);
    let mut fields = first.form("enqueue", "check");
    fields.retain(|(name, _)| name != "file" && name != "kind");
    fields.push(("kind".to_owned(), "price".to_owned()));
    fields
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_the_payload_byte_for_byte() {
    let fixture = Fixture::new("file_job").await;
    let mut browser = fixture.open();
    let fields = fields_beside_a_file(&mut browser).await;
    let all: Vec<u8> = (0..=255).chain(*b"\r\n--AaB03\r\n--\r\n\n").collect();
    let most = vec![0xff; 65_536];
    for bytes in [&all[..], &most, b"{\"a\": 1,}\r\n", b""] {
        let second = browser.send_file("enqueue", &fields, Some(bytes)).await;
        assert_eq!(second.status, StatusCode::OK, "{}", second.text());
        assert_eq!(warnings(&second).contains("looks like JSON, but is not"), bytes.starts_with(b"{"));
        // Back, wrong and corrected: it is kept.
        let first = browser.press(&second, "enqueue", "back", &[]).await;
        assert_eq!(first.count("input[name=kept][checked]"), 1);
        let wrong = browser.press(&first, "enqueue", "check", &[("due", "whenever")]).await;
        assert_eq!(wrong.values("[aria-invalid=true]", "name"), ["due"]);
        let second = browser.press(&wrong, "enqueue", "check", &[("due", "")]).await;
        let done = browser.press(&second, "enqueue", "do", &[]).await;
        let new = done.location().rsplit_once('=').unwrap().1.parse().map(JobId).unwrap();
        let row = fixture.queue.admin().job(new, None).await.unwrap().unwrap();
        assert_eq!((row.kind.as_deref(), &*row.payload), (Some("price"), bytes));
        assert!(!fixture.audits().await[0].what.as_ref().unwrap().to_string().contains("0x"));
    }
    let none = browser.send_file("enqueue", &fields, None).await;
    assert_eq!(none.texts("main h2 + p"), ["Empty."], "{}", none.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_beside_another_payload_or_too_large_is_refused() {
    let fixture = Fixture::new("files").await;
    let mut browser = fixture.open();
    let fields = fields_beside_a_file(&mut browser).await;
    let and = |name: &str, value: &str| {
        let mut fields = fields.clone();
        fields.retain(|(other, _)| other != name);
        fields.push((name.to_owned(), value.to_owned()));
        fields
    };
    let id = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id.to_string();
    let large = vec![b'x'; 65_537];
    for (fields, file, said) in [
        (and("payload", "text"), &b"file"[..], "there are two payloads; keep one of them"),
        (and("copy", &id), b"file", "there are two payloads; keep one of them"),
        (
            and("kept", "0x00"),
            b"file",
            "there are two files; to replace the one above, untick it and choose the other again",
        ),
        (fields.clone(), &large, "it is 65,537 bytes; it must be at most 65,536"),
    ] {
        let again = browser.send_file("enqueue", &fields, Some(file)).await;
        assert_eq!(again.status, StatusCode::BAD_REQUEST, "{said}");
        assert_eq!(again.texts("#file-wrong"), [said]);
        assert_eq!(again.values("#file[aria-invalid=true][autofocus]", "name"), ["file"]);
        assert_eq!(again.values("#kind", "value"), ["price"], "the rest is kept");
    }
    let again = browser.send_file("enqueue", &and("kept", "zz"), None).await;
    assert_eq!(again.texts("#file-wrong"), ["the form did not send this as a file"]);
    let huge = browser.send_file("enqueue", &fields, Some(&vec![0; 700_000])).await;
    assert_eq!(huge.status, StatusCode::BAD_REQUEST);
    assert!(huge.text().contains("it must be at most 640 KiB"), "{}", huge.text());
    assert!(fixture.audits().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_with_a_file_is_as_guarded_as_others() {
    let fixture = Fixture::new("guarded_file").await;
    let mut browser = fixture.open();
    let mut fields = fields_beside_a_file(&mut browser).await;
    for (_, step) in fields.iter_mut().filter(|(name, _)| name == "step") {
        *step = "do".to_owned();
    }
    let others = fixture.open().token().await;
    for token in ["", "x", &others] {
        let mut forged = fields.clone();
        forged.retain(|(name, _)| name != "csrf");
        forged.push(("csrf".to_owned(), token.to_owned()));
        assert_eq!(browser.send_file("enqueue", &forged, Some(b"x")).await.status, StatusCode::FORBIDDEN, "{token}");
    }
    let mut from_elsewhere = browser.with("sec-fetch-site", "cross-site");
    assert_eq!(from_elsewhere.send_file("enqueue", &fields, Some(b"x")).await.status, StatusCode::FORBIDDEN);
    for form in ["multipart/form-data", "multipart/form-data; boundary=another"] {
        let mut broken = browser.with("content-type", form);
        assert_eq!(broken.ask("POST", "enqueue", "--AaB03x\r\n").await.status, StatusCode::BAD_REQUEST, "{form}");
    }
    // As many fields as there can be, and no more.
    let many: String = (0..21_000).map(|_| "--b\r\nX:\r\n\r\n\r\n").chain(["--b--\r\n"]).collect();
    let answer = browser.with("content-type", "multipart/form-data; boundary=b").ask("POST", "enqueue", &many).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    // Whoever has not logged in, or may only look, cannot send much.
    let mut stranger = fixture.browser(Options::default().access(Access::Token("correct-horse-battery".to_owned())));
    let mut viewer = fixture.browser(Options::default().read_only(true));
    for browser in [&mut stranger, &mut viewer] {
        let fields = [("csrf".to_owned(), browser.token().await)];
        let large = browser.send_file("login", &fields, Some(&[0; 9_000])).await;
        assert!(large.text().contains("it must be at most 8 KiB"), "{}", large.text());
    }
    assert!(fixture.audits().await.is_empty());
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().unfinished(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_enqueued_is_kept_on_the_page() {
    if real_server_url().is_some() {
        return;
    }
    let server = dev_server().await;
    let fixture = Fixture::new("failed_job").await;
    let mut browser = fixture.open();
    let first = browser.page("new_job?queue=work").await;
    let second = browser.press(&first, "enqueue", "check", &[("payload", "<precious>")]).await;
    assert_eq!(browser.send_form("enqueue", &[("step", "do"), ("queue", "work")]).await.status, StatusCode::FORBIDDEN);
    for procedure in ["enqueue", "begin_audit"] {
        let refuse = |_| Some(SqlError::new(50_000, "not today"));
        server.faults().on_call(&fixture.procedure_to_fail(procedure), refuse);
        let again = browser.press(&second, "enqueue", "do", &[]).await;
        assert_eq!(again.status, StatusCode::BAD_REQUEST, "{procedure}");
        assert!(again.texts("main .error")[0].contains("not today"), "{procedure}: {}", again.text());
        assert_eq!(again.texts("textarea[name=payload]"), ["<precious>"]);
        server.faults().clear(&fixture.procedure_to_fail(procedure));
    }
    assert_eq!(fixture.audits().await.len(), 1, "what cannot be noted is not done");
    assert!(fixture.audits().await[0].outcome.as_ref().unwrap().contains("not today"));
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().unfinished(), 0);
}
