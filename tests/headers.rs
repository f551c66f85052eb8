//! Headers come with the job to its handler, whoever enqueued it, and stay with it; what is none is refused, and
//! nothing else with it is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use readpast::admin::{ClaimOrder, CompletionPolicy, Delivery, JobChange, JobState, QueueOptions, Rate, Schedule};
use readpast::transaction::enqueue_in;
use readpast::{BoxError, Context, Error, Handlers, Job, Needs, NewJob, Output, Worker};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Fixture, Session, WorkerSession, literal, number};

const REFUSED: u32 = 58_003;

const NO_OBJECT: &str = "headers must be a JSON object of up to 1300 characters, which begins with {";
const RESERVED: &str = "headers must not have names that begin with readpast-";

/// The longest that the procedures take: 1,300 UTF-16 units with the name and the punctuation.
fn longest() -> NewJob {
    NewJob::text("longest").header("x", "🦀".repeat(646))
}

/// The headers in the table, in the order of the jobs.
async fn stored(session: &mut Session) -> Vec<Option<String>> {
    let rows = session.sql("SELECT headers FROM [$(schema)].[jobs] ORDER BY job_id").await;
    rows.iter().map(|row| row.get::<&str, _>("headers").map(str::to_owned)).collect()
}

/// What the handler of each job saw: its text and its headers, by text.
async fn handled(fixture: &Fixture) -> Vec<(String, Value)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let of_handler = seen.clone();
    let handlers = Handlers::any(move |job: &Job, _: &Context| -> Result<(), BoxError> {
        let headers = job.headers().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        of_handler.lock().unwrap().push((job.text()?.into_owned(), Value::Object(headers)));
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    worker.drain().await.unwrap();
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_by(|one, other| one.0.cmp(&other.0));
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_come_with_the_job_however_it_was_enqueued() {
    let fixture = Fixture::new("headers").await;
    let job = |name: &str, tenant: &str| NewJob::text(name).header("tenant", tenant);
    fixture.queue.enqueue(&job("a", "one")).await.unwrap();
    let jobs = [NewJob::text("b"), job("c", "\"many\" \\ \u{1}").header("z", ""), NewJob::text("d").dedup_key("d")];
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    fixture.queue.enqueue_many(&[job("e", "keyed").dedup_key("e"), longest()]).await.unwrap();
    let mut client = fixture.client().await;
    enqueue_in(&mut client, fixture.schema(), "work", &[job("f", "alone")]).await.unwrap();
    enqueue_in(&mut client, fixture.schema(), "work", &[NewJob::text("g"), job("h", "first").header("tenant", "last")])
        .await
        .unwrap();
    let expected = [
        ("a", json!({"tenant": "one"})),
        ("b", json!({})),
        ("c", json!({"tenant": "\"many\" \\ \u{1}", "z": ""})),
        ("d", json!({})),
        ("e", json!({"tenant": "keyed"})),
        ("f", json!({"tenant": "alone"})),
        ("g", json!({})),
        ("h", json!({"tenant": "last"})),
        ("longest", json!({"x": "🦀".repeat(646)})),
    ];
    assert_eq!(handled(&fixture).await, expected.map(|(name, headers)| (name.to_owned(), headers)));
    drop(client);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_has_headers_of_its_own_or_none() {
    let fixture = Fixture::new("follow_up_headers").await;
    fixture.queue.enqueue(&NewJob::text("first").header("tenant", "acme")).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let of_handler = seen.clone();
    let handlers = Handlers::any(move |job: &Job, _: &Context| -> Result<Output, BoxError> {
        if job.text()? != "first" {
            of_handler.lock().unwrap().push((job.text()?.into_owned(), job.header("tenant").map(str::to_owned)));
            return Ok(Output::default());
        }
        let tenant = job.header("tenant").ok_or("no tenant")?;
        let with = NewJob::text("with").header("tenant", format!("{tenant}!"));
        Ok(Output::default().enqueue("work", NewJob::text("without")).enqueue("work", with))
    });
    Worker::builder(&fixture.queue, handlers).start().await.unwrap().drain().await.unwrap();
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, [("with".to_owned(), Some("acme!".to_owned())), ("without".to_owned(), None)]);
    fixture.remove().await;
}

/// Each of these has a statement of its own in `claim`, or a procedure.
#[tokio::test(flavor = "multi_thread")]
async fn headers_come_with_the_claim_of_any_queue() {
    let options = QueueOptions::default;
    for (name, options) in [
        ("lifo", options().claim_order(ClaimOrder::Lifo)),
        ("any", options().claim_order(ClaimOrder::Any)),
        ("once", options().delivery(Delivery::AtMostOnce)),
        ("once_lifo", options().delivery(Delivery::AtMostOnce).claim_order(ClaimOrder::Lifo)),
        ("once_any", options().delivery(Delivery::AtMostOnce).claim_order(ClaimOrder::Any)),
        ("running", options().max_running(10)),
        ("rate", options().rate(Rate::new(1_000, Duration::from_secs(60)))),
    ] {
        let fixture = Fixture::with(&format!("headers_{name}"), options).await;
        let jobs = [NewJob::text("a").header("tenant", "acme"), NewJob::text("b")];
        fixture.queue.enqueue_many(&jobs).await.unwrap();
        let expected = [("a".to_owned(), json!({"tenant": "acme"})), ("b".to_owned(), json!({}))];
        assert_eq!(handled(&fixture).await, expected, "{name}");
        fixture.remove().await;
    }
}

/// What suspects get: jobs that were held by workers that were lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_must_run_alone_has_its_headers() {
    let fixture = Fixture::new("headers_alone").await;
    fixture.queue.enqueue(&NewJob::text("a").header("tenant", "acme")).await.unwrap();
    fixture.sql("UPDATE [$(schema)].[jobs] SET alone = 1").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim_alone(1).await;
    assert_eq!(claimed[0].details["headers"], json!({"tenant": "acme"}));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_stay_with_the_job_until_it_is_archived() {
    let options = QueueOptions::default().completion(CompletionPolicy::Archive);
    let fixture = Fixture::with("headers_stay", options).await;
    let id = fixture.queue.enqueue(&NewJob::text("x").header("tenant", "acme")).await.unwrap().job_id;
    let headers = json!({"tenant": "acme"});
    let expected = |state| Some((state, headers.as_object().cloned()));
    let shown = async || fixture.queue.admin().job(id, None).await.unwrap().map(|job| (job.state, job.headers));
    assert_eq!(shown().await, expected(JobState::Ready));

    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    worker.finish(&[job.retry(3_600_000, "later")]).await;
    assert_eq!(shown().await, expected(JobState::Scheduled));
    fixture.queue.admin().change(&JobChange::Promote, id).await.unwrap();
    let job = worker.claim_one().await;
    assert_eq!(job.details["headers"], headers);
    worker.finish(&[job.dead("for good")]).await;
    assert_eq!(shown().await, expected(JobState::Dead));
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 1);
    let job = worker.claim_one().await;
    assert_eq!(job.details["headers"], headers);
    worker.finish(&[job.done()]).await;
    assert_eq!(shown().await, expected(JobState::Archived));
    let json = serde_json::to_value(fixture.queue.admin().job(id, None).await.unwrap()).unwrap();
    assert_eq!(json["headers"], headers);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_schedule_have_its_headers() {
    let fixture = Fixture::new("headers_schedule").await;
    let schedule = |tenant: &str| {
        let job = NewJob::text("x").header("tenant", tenant);
        Schedule::new("nightly", "0 3 * * *", job)
    };
    let headers = async || fixture.queue.admin().schedules().await.unwrap().remove(0).headers;
    assert!(fixture.queue.admin().set_schedule(&schedule("first")).await.unwrap());
    assert_eq!(headers().await, json!({"tenant": "first"}).as_object().cloned());
    assert!(!fixture.queue.admin().set_schedule(&schedule("acme")).await.unwrap());
    assert_eq!(headers().await, json!({"tenant": "acme"}).as_object().cloned());
    let json = serde_json::to_value(&fixture.queue.admin().schedules().await.unwrap()[0]).unwrap();
    assert_eq!(json["headers"], json!({"tenant": "acme"}));

    fixture.queue.admin().run_schedule_now("nightly").await.unwrap();
    let mut session = fixture.session().await;
    let revision = number(&session.row("SELECT revision FROM [$(schema)].[schedules]").await, "revision");
    session
        .sql(&format!(
            "EXEC [$(schema)].[fire_schedule] @queue = N'work', @name = N'nightly', @revision = {revision},
                 @fire_at = '2026-11-23T03:00:00', @next_at = '2026-11-24T03:00:00'"
        ))
        .await;
    assert_eq!(stored(&mut session).await, [r#"{"tenant":"acme"}"#; 2].map(|json| Some(json.to_owned())));
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_in_t_sql_attach_any_values() {
    let fixture = Fixture::new("headers_t_sql").await;
    // A text may begin as readpast's own names do, and names may where they are not the headers'.
    let json = r#"{"tenant": "readpast-shop", "n": 7, "nested": {"readpast-x": [1.5, null]}, "yes": true}"#;
    let mut session = fixture.session().await;
    session
        .sql(&format!(
            "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'a', @headers = {json};
             DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list];
             INSERT @jobs (ordinal, text, dedup_key) VALUES (1, N'b', NULL), (2, N'c', N'c'), (3, N'd', NULL), (4, N'e', NULL);
             INSERT @details (ordinal, headers) VALUES (1, {json}), (2, N'{{\"tenant\":\"c\"}}'), (4, N'{{}}');
             EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @details = @details",
            json = literal(json)
        ))
        .await;
    drop(session);
    let values: Value = serde_json::from_str(json).unwrap();
    let job = Job::for_test(NewJob::text(""));
    assert_eq!(job.headers().count(), 0);
    let expected =
        [("a", values.clone()), ("b", values), ("c", json!({"tenant": "c"})), ("d", json!({})), ("e", json!({}))];
    assert_eq!(handled(&fixture).await, expected.map(|(name, headers)| (name.to_owned(), headers)));
    fixture.remove().await;
}

/// The ways in which T-SQL can be asked to take these headers.
fn t_sql_calls(headers: &str) -> [String; 3] {
    let headers = literal(headers);
    [
        format!("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @headers = {headers}"),
        format!(
            "DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list];
             INSERT @jobs (ordinal, text) VALUES (1, N'good'), (2, N'bad');
             INSERT @details (ordinal, headers) VALUES (1, N'{{\"tenant\":\"acme\"}}'), (2, {headers});
             EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @details = @details"
        ),
        format!(
            "EXEC [$(schema)].[set_schedule] @queue = N'work', @name = N'n', @cron = '0 3 * * *', @text = N'x', @headers = {headers}"
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_object_or_has_reserved_names_is_refused_in_t_sql() {
    let fixture = Fixture::new("headers_refused").await;
    let mut session = fixture.session().await;
    let too_long = format!(r#"{{"x":"{}"}}"#, "y".repeat(1_293));
    assert_eq!(too_long.len(), 1_301);
    for (headers, expected) in [
        ("", NO_OBJECT),
        ("tenant", NO_OBJECT),
        ("{\"tenant\":\"acme\"", NO_OBJECT),
        ("[\"tenant\"]", NO_OBJECT),
        (" {}", NO_OBJECT),
        (&too_long, NO_OBJECT),
        (r#"{"a":1,"readpast-batch":{}}"#, RESERVED),
        (r#"{ "\u0072eadpast-batch" : 1 }"#, RESERVED),
    ] {
        for call in t_sql_calls(headers) {
            assert_eq!(session.refusal(&call).await, (REFUSED, expected.to_owned()), "{call}");
        }
    }
    assert_eq!(stored(&mut session).await, [], "nothing was added");
    assert_eq!(fixture.queue.admin().schedules().await.unwrap(), []);
    // Not cut either.
    let longer = t_sql_calls(&format!("{too_long}  "));
    assert_eq!(session.refusal(&longer[0]).await, (REFUSED, NO_OBJECT.to_owned()));

    let longest = format!(r#"{{"x":"{}"}}"#, "y".repeat(1_292));
    for call in t_sql_calls(&longest) {
        session.sql(&call).await;
    }
    assert_eq!(stored(&mut session).await.len(), 3);
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sql_server_would_refuse_is_refused_before_anything_is_sent() {
    let fixture = Fixture::new("headers_checked").await;
    for (bad, expected) in [
        (
            NewJob::text("").header("readpast-batch", "1"),
            "the header 'readpast-batch' is reserved; names that begin with",
        ),
        (
            longest().header("x", "y".repeat(1_293)),
            "the headers as JSON are 1301 UTF-16 units; they must be at most 1300",
        ),
        (longest().header("x", "🦀".repeat(647)), "the headers as JSON are 1302 UTF-16 units"),
        (longest().header("x", "\u{1}".repeat(216)), "the headers as JSON are 1304 UTF-16 units"),
    ] {
        let error = fixture.queue.enqueue_many(&[NewJob::text("good"), bad.clone()]).await.unwrap_err();
        assert!(matches!(error, Error::InvalidJob { .. }), "{error}");
        assert!(error.to_string().contains(&format!("jobs[1]: {expected}")), "{error}");
        let schedule = Schedule::new("n", "0 3 * * *", bad.clone());
        let error = fixture.queue.admin().set_schedule(&schedule).await.unwrap_err();
        assert!(error.to_string().contains(&format!("its job: {expected}")), "{error}");
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

/// SQL Server takes for JSON what no value in Rust stands for: a producer must not be able to stop all workers, nor to
/// hide a page of jobs.
#[tokio::test(flavor = "multi_thread")]
async fn headers_that_cannot_be_read_hold_up_no_job() {
    let fixture = Fixture::new("headers_unreadable").await;
    let mut session = fixture.session().await;
    for headers in [r#"{"n":1e999}"#, r#"{"half":"\ud800"}"#] {
        for call in t_sql_calls(headers) {
            session.sql(&call).await;
        }
    }
    drop(session);
    let listed = fixture.queue.admin().list(&JobState::Ready.into(), None, 100).await.unwrap().jobs;
    assert_eq!(listed.iter().map(|job| job.headers.is_some()).collect::<Vec<_>>(), [false, true, false].repeat(2));
    assert_eq!(fixture.queue.admin().schedules().await.unwrap()[0].headers, None);
    let (good, bad) = (("good".to_owned(), json!({"tenant": "acme"})), |name: &str| (name.to_owned(), json!({})));
    let expected = [vec![bad("bad"); 2], vec![good; 2], vec![bad("x"); 2]].concat();
    assert_eq!(handled(&fixture).await, expected);
    fixture.remove().await;
}

/// They come as one text of up to 4,000 characters: what does not fit would be cut, and no claim of the job readable.
/// The longest are 3,504 (sql/020_jobs.sql).
#[tokio::test(flavor = "multi_thread")]
async fn the_longest_details_are_not_cut() {
    // In the table headers may be longer than a producer's: by what a batch adds to its follow-up's.
    let headers = json!({"x": "y".repeat(1_492)});
    let (dedup_key, group_key) = ("\"".repeat(256), "\\".repeat(128));
    let tokens = (0..13).fold(Needs::new(), |needs, n| needs.token(format!("{n:064}"), 1_000_000));
    let needs = tokens.token("x".repeat(19), 1);
    let needs_json = serde_json::to_value(&needs).unwrap();
    assert_eq!(needs_json.to_string().len(), 1_000);
    for (name, options) in [
        ("fifo", QueueOptions::default()),
        ("lifo", QueueOptions::default().claim_order(ClaimOrder::Lifo)),
        ("any", QueueOptions::default().claim_order(ClaimOrder::Any)),
        ("limited", QueueOptions::default().max_running(10)),
    ] {
        let fixture = Fixture::with(&format!("headers_longest_{name}"), options).await;
        let job = NewJob::text("").dedup_key(&dedup_key).group_key(&group_key).correlation_id(Uuid::max());
        let job = job.needs(needs.clone()).time_limit(Duration::from_millis(i32::MAX as u64));
        fixture.queue.enqueue(&job).await.unwrap();
        let json = headers.to_string();
        assert_eq!(json.len(), 1_500);
        let longest = format!(
            "UPDATE [$(schema)].[jobs] SET headers = {}, batch_id = 9223372036854775807, checkpointed = 0,
                 enqueued_at = '00010101', start_by = '9999-12-31T23:59:59.999'",
            literal(&json)
        );
        fixture.sql(&longest).await;
        let length = fixture.sql("SELECT LEN(details) AS length FROM [$(schema)].[jobs]").await;
        assert_eq!(number(&length[0], "length"), 3_504, "{name}");
        let details = WorkerSession::register(&fixture).await.claim_one().await.details;
        assert_eq!(details["headers"], headers, "{name}");
        assert_eq!((&details["dedup_key"], &details["group_key"]), (&json!(dedup_key), &json!(group_key)), "{name}");
        assert_eq!((&details["batch_id"], &details["needs"]), (&json!(i64::MAX), &needs_json), "{name}");
        fixture.remove().await;
    }
}

/// Their escapes have six characters each, so that the longest keys would not fit.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_a_control_character_is_refused() {
    let fixture = Fixture::new("headers_control").await;
    let mut session = fixture.session().await;
    let lists = "DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list];";
    let enqueue_batch = "EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @details = @details";
    let set = "EXEC [$(schema)].[set_schedule] @queue = N'work', @cron = '* * * * *', @text = N'x'";
    for (what, call) in [
        ("dedup_key", "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = @key".to_owned()),
        ("group_key", "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @group_key = @key".to_owned()),
        (
            "dedup_key",
            format!(
                "{lists} INSERT @jobs (ordinal, text, dedup_key) VALUES (1, N'x', N'k'), (2, N'x', @key); {enqueue_batch}"
            ),
        ),
        (
            "group_key",
            format!(
                "{lists} INSERT @jobs (ordinal, text) VALUES (1, N'x');
                 INSERT @details (ordinal, group_key) VALUES (1, @key); {enqueue_batch}"
            ),
        ),
        ("the name of a schedule", format!("{set}, @name = @key")),
        ("dedup_key", format!("{set}, @name = N'x', @dedup_key = @key")),
    ] {
        for character in [0, 1, 10, 31] {
            let call = format!("DECLARE @key nvarchar(20) = CONCAT(N'in', NCHAR({character}), N'voice'); {call}");
            let expected = format!("{what} has a control character; it must have none (U+0000 to U+001F)");
            assert_eq!(session.refusal(&call).await, (REFUSED, expected), "{call}");
        }
    }
    // Headers may have any.
    session
        .sql(
            "DECLARE @key nvarchar(20) = CONCAT(N'in', NCHAR(127), NCHAR(65535), N' ', NCHAR(32), N'voice');
             EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = @key, @group_key = @key;
             EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @headers = N'{\"a\":\"\\n\"\n}'",
        )
        .await;
    drop(session);
    fixture.remove().await;
}
