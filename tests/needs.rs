//! Needs come with the job to its handler, whoever enqueued it, and stay with it. What no worker could understand is
//! refused, by the library and by the procedures alike.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use readpast::admin::{ClaimOrder, CompletionPolicy, Delivery, JobChange, JobState, QueueOptions, Rate, Schedule};
use readpast::config::{MemorySize, WorkerConfig};
use readpast::transaction::enqueue_in;
use readpast::{BoxError, Context, Error, Handlers, Job, Needs, NewBatch, NewJob, Output, Worker};
use serde_json::json;

use crate::support::{Fixture, Session, WorkerSession, changed, literal, number, text};

const REFUSED: u32 = 58_003;

const NO_OBJECT: &str = "it must be a JSON object of up to 1000 characters, which begins with {";

fn needs() -> Needs {
    Needs::new().memory(3 << 30).threads(4).token("gpu", 1)
}

/// A worker that has what `needs` says.
fn with_resources() -> WorkerConfig {
    changed(WorkerConfig::default(), |worker| {
        worker.threads = 4;
        worker.resources.memory = MemorySize::Bytes(3 << 30);
        worker.resources.tokens = [("gpu".to_owned(), 1)].into();
    })
}

/// What the handler of each job saw: its text and its needs, by text.
async fn handled(fixture: &Fixture) -> Vec<(String, Option<Needs>)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let of_handler = seen.clone();
    let handlers = Handlers::any(move |job: &Job, _: &Context| -> Result<(), BoxError> {
        of_handler.lock().unwrap().push((job.text()?.into_owned(), job.needs().cloned()));
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&with_resources()).start().await.unwrap();
    worker.drain().await.unwrap();
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_by(|one, other| one.0.cmp(&other.0));
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn needs_come_with_the_job_however_it_was_enqueued() {
    let fixture = Fixture::new("needs").await;
    let job = |name: &str| NewJob::text(name).needs(needs());
    let plain = NewJob::text;
    fixture.queue.enqueue(&job("a")).await.unwrap();
    fixture.queue.enqueue(&plain("b")).await.unwrap();
    fixture.queue.enqueue_many(&[plain("c"), job("d").header("tenant", "acme"), plain("e")]).await.unwrap();
    fixture.queue.enqueue_many(&[job("f").dedup_key("f"), plain("g").dedup_key("g")]).await.unwrap();
    let mut client = fixture.client().await;
    enqueue_in(&mut client, fixture.schema(), "work", &[job("h")]).await.unwrap();
    enqueue_in(&mut client, fixture.schema(), "work", &[plain("i"), job("j")]).await.unwrap();
    drop(client);
    fixture
        .sql(
            r#"DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list],
                   @needs varchar(1000) = '{ "threads": 4, "\u0067pu": 1, "memory": 3221225472 }';
               EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'k', @needs = @needs;
               INSERT @jobs (ordinal, text, dedup_key) VALUES (1, N'l', NULL), (2, N'm', N'm'), (3, N'n', NULL);
               INSERT @details (ordinal, needs) VALUES (1, @needs), (2, @needs), (3, N'{}');
               EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @details = @details"#,
        )
        .await;
    let with = ["a", "d", "f", "h", "j", "k", "l", "m"];
    let expected = ('a'..='n').map(|name| {
        let name = name.to_string();
        let needs = match name.as_str() {
            "n" => Some(Needs::new()),
            _ => with.contains(&name.as_str()).then(needs),
        };
        (name, needs)
    });
    assert_eq!(handled(&fixture).await, expected.collect::<Vec<_>>());
    fixture.remove().await;
}

/// A claim reads no details of a plain job.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_job_with_needs_is_not_plain() {
    let fixture = Fixture::new("needs_plain").await;
    fixture.queue.enqueue(&NewJob::text("plain")).await.unwrap();
    fixture.queue.enqueue_many(&[NewJob::text("plain"), NewJob::text("plain")]).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("needs").needs(needs())).await.unwrap();
    fixture.queue.enqueue_many(&[NewJob::text("needs").needs(needs()), NewJob::text("needs")]).await.unwrap();
    let rows = fixture.sql("SELECT CAST(payload AS varchar(9)) AS name, plain FROM [$(schema)].[jobs]").await;
    assert_eq!(rows.len(), 6);
    for row in rows {
        let is_plain = row.get::<bool, _>("plain");
        assert_eq!(is_plain, (text(&row, "name").unwrap() == "plain").then_some(true));
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follow_ups_have_needs_of_their_own() {
    let fixture = Fixture::new("needs_follow_up").await;
    let then = NewJob::text("after the batch").needs(needs());
    let batch = fixture.queue.create_batch(&NewBatch::new().then(then)).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("first").batch(batch)).await.unwrap();
    fixture.queue.seal_batch(batch).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let of_handler = seen.clone();
    let handlers = Handlers::any(move |job: &Job, _: &Context| -> Result<Output, BoxError> {
        of_handler.lock().unwrap().push((job.text()?.into_owned(), job.needs().cloned()));
        if job.text()? != "first" {
            return Ok(Output::default());
        }
        let with = NewJob::text("with").needs(Needs::new().memory(1));
        Ok(Output::default().enqueue("work", NewJob::text("without")).enqueue("work", with))
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&with_resources()).start().await.unwrap();
    worker.drain().await.unwrap();
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [
        ("after the batch", Some(needs())),
        ("first", None),
        ("with", Some(Needs::new().memory(1))),
        ("without", None),
    ];
    assert_eq!(seen, expected.map(|(name, needs)| (name.to_owned(), needs)));
    fixture.remove().await;
}

/// Each of these has a statement of its own in `claim`, or a procedure.
#[tokio::test(flavor = "multi_thread")]
async fn needs_come_with_the_claim_of_any_queue() {
    let options = QueueOptions::default;
    for (name, options) in [
        ("lifo", options().claim_order(ClaimOrder::Lifo)),
        ("any", options().claim_order(ClaimOrder::Any)),
        ("once", options().delivery(Delivery::AtMostOnce)),
        ("running", options().max_running(10)),
        ("rate", options().rate(Rate::new(1_000, Duration::from_secs(60)))),
    ] {
        let fixture = Fixture::with(&format!("needs_{name}"), options).await;
        fixture.queue.enqueue_many(&[NewJob::text("a").needs(needs()), NewJob::text("b")]).await.unwrap();
        assert_eq!(handled(&fixture).await, [("a".to_owned(), Some(needs())), ("b".to_owned(), None)], "{name}");
        fixture.remove().await;
    }
    let fixture = Fixture::new("needs_runs").await;
    let job = |name: &str| NewJob::text(name).group_key("g");
    fixture.queue.enqueue_many(&[job("a").needs(needs()), job("b")]).await.unwrap();
    let claimed = WorkerSession::register(&fixture).await.claim_runs(10, 10, 10).await;
    let details: Vec<_> = claimed.iter().map(|job| &job.details["needs"]).collect();
    assert_eq!(details, [&serde_json::to_value(needs()).unwrap(), &json!(null)]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn needs_stay_with_the_job_until_it_is_archived() {
    let options = QueueOptions::default().completion(CompletionPolicy::Archive);
    let fixture = Fixture::with("needs_stay", options).await;
    let id = fixture.queue.enqueue(&NewJob::text("x").needs(needs())).await.unwrap().job_id;
    let json = serde_json::to_value(needs()).unwrap();
    let shown = async || fixture.queue.admin().job(id, None).await.unwrap().map(|job| (job.state, job.needs));
    assert_eq!(shown().await, Some((JobState::Ready, Some(needs()))));
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    assert_eq!(job.details["needs"], json);
    worker.finish(&[job.retry(0, "again")]).await;
    let job = worker.claim_one().await;
    assert_eq!(job.details["needs"], json);
    worker.finish(&[job.dead("for good")]).await;
    assert_eq!(shown().await, Some((JobState::Dead, Some(needs()))));
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 1);
    let job = worker.claim_one().await;
    assert_eq!(job.details["needs"], json);
    worker.finish(&[job.done()]).await;
    assert_eq!(shown().await, Some((JobState::Archived, Some(needs()))));
    let listed = fixture.queue.admin().list(&JobState::Archived.into(), None, 10).await.unwrap().jobs;
    assert_eq!(serde_json::to_value(&listed[0]).unwrap()["needs"], json);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_schedule_have_its_needs() {
    let fixture = Fixture::new("needs_schedule").await;
    let admin = fixture.queue.admin();
    let schedule = |job: NewJob| Schedule::new("nightly", "0 3 * * *", job);
    assert!(admin.set_schedule(&schedule(NewJob::text("x"))).await.unwrap());
    assert_eq!(admin.schedules().await.unwrap()[0].needs, None);
    assert!(!admin.set_schedule(&schedule(NewJob::text("x").needs(needs()))).await.unwrap());
    let row = &admin.schedules().await.unwrap()[0];
    assert_eq!(row.needs, Some(needs()));
    assert_eq!(serde_json::to_value(row).unwrap()["needs"], serde_json::to_value(needs()).unwrap());
    admin.run_schedule_now("nightly").await.unwrap();
    let mut session = fixture.session().await;
    let revision = number(&session.row("SELECT revision FROM [$(schema)].[schedules]").await, "revision");
    session
        .sql(&format!(
            "EXEC [$(schema)].[fire_schedule] @queue = N'work', @name = N'nightly', @revision = {revision},
                 @fire_at = '2026-11-23T03:00:00', @next_at = '2026-11-24T03:00:00'"
        ))
        .await;
    let stored = session.sql("SELECT needs FROM [$(schema)].[jobs]").await;
    let stored: Vec<_> = stored.iter().map(|row| text(row, "needs")).collect();
    assert_eq!(stored, vec![Some(serde_json::to_string(&needs()).unwrap()); 2]);
    drop(session);
    fixture.remove().await;
}

/// The ways in which T-SQL can be asked to take these needs.
fn t_sql_calls(needs: &str) -> [String; 4] {
    let needs = literal(needs);
    [
        format!("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @needs = {needs}"),
        format!(
            "DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list];
             INSERT @jobs (ordinal, text) VALUES (1, N'x'), (2, N'x'), (3, N'x');
             INSERT @details (ordinal, needs) VALUES (1, N'{{\"gpu\":1}}'), (2, NULL), (3, {needs});
             EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @details = @details"
        ),
        format!(
            "EXEC [$(schema)].[set_schedule] @queue = N'work', @name = N'n', @cron = '0 3 * * *', @text = N'x', @needs = {needs}"
        ),
        format!(
            "DECLARE @id bigint;
             EXEC [$(schema)].[create_batch] @queue = N'work', @text = N'x', @needs = {needs}, @batch_id = @id OUTPUT"
        ),
    ]
}

async fn jobs(session: &mut Session) -> i64 {
    session.number("SELECT COUNT(*) FROM [$(schema)].[jobs]").await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_object_of_integers_is_refused_in_t_sql() {
    let fixture = Fixture::new("needs_refused").await;
    let mut session = fixture.session().await;
    let long_name = format!(r#"{{"{}":1}}"#, "x".repeat(65));
    let name = "it must be 1 to 64 printable ASCII characters, no spaces";
    let tokens = "it must be an integer from 1 to 1000000 (tokens)";
    let long = format!("{{{}\"a\":1}}", " ".repeat(994));
    assert_eq!(long.len(), 1_001);
    for (needs, expected) in [
        ("", format!("needs is ''; {NO_OBJECT}")),
        ("gpu", format!("needs is 'gpu'; {NO_OBJECT}")),
        (r#"{"gpu":1"#, format!(r#"needs is '{{"gpu":1'; {NO_OBJECT}"#)),
        ("[1]", format!("needs is '[1]'; {NO_OBJECT}")),
        (" {}", format!("needs is ' {{}}'; {NO_OBJECT}")),
        (&long, format!("needs is '{}'; {NO_OBJECT}", &long[..1_000])),
        (r#"{"a b":1}"#, format!("a name in needs is 'a b'; {name}")),
        (r#"{"a":1,"":1}"#, format!("a name in needs is ''; {name}")),
        (r#"{"größe":1}"#, format!("a name in needs is 'größe'; {name}")),
        (r#"{"gr\u00f6":1}"#, format!("a name in needs is 'grö'; {name}")),
        (&long_name, format!("a name in needs is '{}'; {name}", "x".repeat(65))),
        (
            r#"{"gpu":1,"memory":5,"\u0067pu":1}"#,
            "the need of 'gpu' is given twice; each name must occur once".to_owned(),
        ),
        (
            r#"{"memory":0}"#,
            "the need of 'memory' is 0; it must be an integer from 1 to 1125899906842624 (bytes)".to_owned(),
        ),
        (
            r#"{"memory":1125899906842625}"#,
            "the need of 'memory' is 1125899906842625; it must be an integer from 1 to 1125899906842624 (bytes)"
                .to_owned(),
        ),
        (
            r#"{"threads":1025}"#,
            "the need of 'threads' is 1025; it must be an integer from 1 to 1024 (threads)".to_owned(),
        ),
        (r#"{"gpu":1000001}"#, format!("the need of 'gpu' is 1000001; {tokens}")),
        (r#"{"Memory":0}"#, format!("the need of 'Memory' is 0; {tokens}")),
        (r#"{"gpu":-1}"#, format!("the need of 'gpu' is -1; {tokens}")),
        (r#"{"gpu":1.5}"#, format!("the need of 'gpu' is '1.5'; {tokens}")),
        (r#"{"gpu":1.0}"#, format!("the need of 'gpu' is '1.0'; {tokens}")),
        (r#"{"gpu":1e3}"#, format!("the need of 'gpu' is '1e3'; {tokens}")),
        (r#"{"gpu":"3"}"#, format!(r#"the need of 'gpu' is '"3"'; {tokens}"#)),
        (r#"{"gpu":null}"#, format!("the need of 'gpu' is NULL; {tokens}")),
        (r#"{"gpu":true}"#, format!("the need of 'gpu' is 'true'; {tokens}")),
        (r#"{"gpu":[1]}"#, format!("the need of 'gpu' is '[1]'; {tokens}")),
        (r#"{"gpu":{"a":1}}"#, format!(r#"the need of 'gpu' is '{{"a":1}}'; {tokens}"#)),
        (r#"{"gpu":9223372036854775807}"#, format!("the need of 'gpu' is 9223372036854775807; {tokens}")),
    ] {
        for call in t_sql_calls(needs) {
            assert_eq!(session.refusal(&call).await, (REFUSED, expected.clone()), "{call}");
        }
    }
    assert_eq!(jobs(&mut session).await, 0, "nothing was added");
    assert_eq!(fixture.queue.admin().schedules().await.unwrap(), []);

    let most = r#"{"memory":1125899906842624,"threads":1024,"license.abaqus":1000000}"#;
    let longest = format!("{{{}\"a\":1}}", " ".repeat(993));
    for needs in [most, &longest, "{}", "{\n\"gpu\" :\t1 }"] {
        for call in t_sql_calls(needs) {
            session.sql(&call).await;
        }
    }
    assert_eq!(jobs(&mut session).await, 4 * 4);
    drop(session);
    // All of it can be read.
    let page = fixture.queue.admin().list(&JobState::Ready.into(), None, 100).await.unwrap();
    assert_eq!(page.jobs.len(), 4 * 4);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sql_server_would_refuse_is_refused_before_anything_is_sent() {
    let fixture = Fixture::new("needs_checked").await;
    for (needs, expected) in [
        (Needs::new().memory(0), "the need of 'memory' is 0; it must be 1 to 1125899906842624 bytes"),
        (Needs::new().threads(0), "the need of 'threads' is 0; it must be 1 to 1024 threads"),
        (Needs::new().token("threads", 1), "and neither memory nor threads"),
    ] {
        let bad = NewJob::text("").needs(needs);
        let error = fixture.queue.enqueue_many(&[NewJob::text("good"), bad.clone()]).await.unwrap_err();
        assert!(matches!(error, Error::InvalidJob { .. }), "{error}");
        assert!(error.to_string().contains("jobs[1]: ") && error.to_string().contains(expected), "{error}");
        let schedule = Schedule::new("n", "0 3 * * *", bad.clone());
        let error = fixture.queue.admin().set_schedule(&schedule).await.unwrap_err().to_string();
        assert!(error.contains("its job: ") && error.contains(expected), "{error}");
        let error = fixture.queue.create_batch(&NewBatch::new().then(bad.clone())).await.unwrap_err().to_string();
        assert!(error.contains("its follow-up: ") && error.contains(expected), "{error}");
        // A follow-up's are the handler's mistake.
        let handlers = Handlers::any(move |_: &Job, _: &Context| -> Result<Output, BoxError> {
            Ok(Output::default().enqueue("work", bad.clone()))
        });
        let outcome = handlers.run_for_test(Context::for_test(Job::for_test(NewJob::text(""))));
        assert!(matches!(&outcome, readpast::Outcome::Dead { error } if error.contains(expected)), "{outcome:?}");
    }
    assert_eq!(fixture.job_counts().await.ready, 0);
    fixture.remove().await;
}

/// Only somebody who writes into the table can bring such needs there. They hide no page of jobs.
#[tokio::test(flavor = "multi_thread")]
async fn needs_that_cannot_be_read_hide_no_jobs() {
    let fixture = Fixture::new("needs_unreadable").await;
    fixture.queue.enqueue_many(&[NewJob::text("a").needs(needs()), NewJob::text("b").needs(needs())]).await.unwrap();
    fixture.sql("UPDATE TOP (1) [$(schema)].[jobs] SET needs = '{\"gpu\":1.5}'").await;
    let listed = fixture.queue.admin().list(&JobState::Ready.into(), None, 100).await.unwrap().jobs;
    assert_eq!(listed.iter().filter(|job| job.needs.is_some()).count(), 1);
    fixture.remove().await;
}
