//! Input from outside, good and bad: settings, connection strings, names, payloads, and what a server answers. Never a
//! panic; what is refused is named, with the rule.

use std::time::Duration;

use proptest::prelude::*;
use readpast::admin::{JobState, QueueOptions};
use readpast::{Config, Error, Handlers, NewJob, Queue, Worker};

use crate::support::counted::{counting_worker, drained};
use crate::support::{Fixture, literal, numbers, tampered};

/// The server is not asked in these tests.
const URL: &str = "Server=db;User ID=u;Password=p";

fn with_url(url: &str) -> Config {
    let mut config = Config::default();
    config.connection.url = url.into();
    config
}

/// A key of the worker's section and how to set it.
type Number = (&'static str, fn(&mut Config, u64));

const NUMBERS: [Number; 15] = [
    ("worker.threads", |c, n| c.worker.threads = n as usize),
    ("worker.batch_size", |c, n| c.worker.batch_size = n as usize),
    ("worker.buffer", |c, n| c.worker.buffer = n as usize),
    ("worker.max_in_flight", |c, n| c.worker.max_in_flight = n as usize),
    ("worker.max_in_flight_bytes", |c, n| c.worker.max_in_flight_bytes = n),
    ("worker.look_ahead", |c, n| c.worker.look_ahead = n as usize),
    ("worker.poll_min_ms", |c, n| c.worker.poll_min = Duration::from_millis(n)),
    ("worker.poll_max_ms", |c, n| c.worker.poll_max = Duration::from_millis(n)),
    ("worker.reap_interval_ms", |c, n| c.worker.reap_interval = Duration::from_millis(n)),
    ("worker.lease_ms", |c, n| c.worker.lease = Duration::from_millis(n)),
    ("worker.heartbeat_interval_ms", |c, n| c.worker.heartbeat_interval = Duration::from_millis(n)),
    ("worker.finish_batch_size", |c, n| c.worker.finish_batch_size = n as usize),
    ("worker.job_time_limit_ms", |c, n| c.worker.job_time_limit = Duration::from_millis(n)),
    ("connection.connect_timeout_ms", |c, n| c.connection.connect_timeout = Duration::from_millis(n)),
    ("connection.command_timeout_ms", |c, n| c.connection.command_timeout = Duration::from_millis(n)),
];

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..2_000_u64, 1_000..100_000_u64, any::<u64>(), Just(u64::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_configuration_or_a_clear_error(text in "(?s).{0,200}") {
        if let Err(error) = Config::from_toml(&text) {
            prop_assert!(matches!(error, Error::ConfigSyntax { .. }), "{:?}", error);
            prop_assert!(error.to_string().starts_with("the configuration is not valid: "));
        }
    }

    #[test]
    fn any_value_of_any_key_is_taken_or_named(
        section in "connection|queue|worker|worker\\.retry|metrics|[a-z]{0,6}",
        key in "url|schema|name|threads|lease_ms|take_over|base_ms|listen|[a-z_]{1,8}",
        value in "-?[0-9]{1,30}|true|'[^'\n]{0,20}'|\\[1\\]|1979-05-27|-?[0-9]\\.[0-9]|\\{ a = 1 \\}"
    ) {
        if let Err(error) = Config::from_toml(&format!("[{section}]\n{key} = {value}\n")) {
            prop_assert!(matches!(error, Error::ConfigSyntax { .. }), "{:?}", error);
        }
    }

    #[test]
    fn numbers_are_accepted_or_refused_by_the_key_that_was_set(changes in prop::collection::vec((0..NUMBERS.len(), any_number()), 1..4)) {
        let mut config = with_url(URL);
        for (place, number) in &changes {
            NUMBERS[*place].1(&mut config, *number);
        }
        match config.validate() {
            Ok(()) => {
                // What the arithmetic of the time limits rests on.
                prop_assert!(config.worker.heartbeat_interval * 2 < config.worker.lease);
                prop_assert!(config.connection.connect_timeout <= config.worker.lease);
                prop_assert!(config.connection.command_timeout <= config.worker.lease);
            }
            Err(error) => {
                let text = error.to_string();
                let is_named = changes.iter().any(|(place, _)| text.contains(NUMBERS[*place].0));
                prop_assert!(is_named && text.contains("; it must be "), "{}", text);
            }
        }
    }

    #[test]
    fn any_text_is_a_connection_string_or_a_clear_error(text in "(?s).{0,100}") {
        let error = with_url(&text).validate().err();
        if let Some(error) = error {
            prop_assert!(matches!(error, Error::ConnectionString { .. } | Error::Config { .. }), "{:?}", error);
        }
    }

    #[test]
    fn a_connection_string_of_known_keys_with_any_values_never_shows_its_password(
        keys in prop::collection::vec(
            "Server|Data Source|Database|User ID|UID|Encrypt|Connect Timeout|Command Timeout|Packet Size|TrustServerCertificate|Pooling|App|x y",
            0..6,
        ),
        value in "[^;]{0,12}|'[^']{0,8}'|\"|[0-9]{1,6}|true",
        quote in "'|\"|",
    ) {
        const SECRET: &str = "0p3n-s3same";
        let pairs: Vec<String> = keys.iter().map(|key| format!("{key}={value}")).collect();
        for url in [
            format!("{};Password={quote}{SECRET}{quote}", pairs.join(";")),
            format!("PWD={quote}{SECRET};{}", pairs.join(";")),
            format!("{SECRET};{}", pairs.join(";")),
        ] {
            let config = with_url(&url);
            let shown = format!("{config:?} {:?} {}", config.validate(), config.connection.url);
            prop_assert!(!shown.contains(SECRET), "{}", shown);
        }
    }

    #[test]
    fn a_schema_is_a_plain_name_or_refused_with_the_rule(schema in "[A-Za-z0-9_.\\[\\]'\"$ é-]{0,12}|[a-z]{95,110}") {
        let mut config = with_url(URL);
        config.connection.schema = schema.clone();
        let is_plain = schema.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match config.validate() {
            Ok(()) => prop_assert!(is_plain && !schema.is_empty() && schema.len() <= 100),
            Err(error) => prop_assert!(
                error.to_string().contains("1 to 100 of A-Z, a-z, 0-9 and _, not beginning with a digit, and not a reserved word"),
                "{}", error
            ),
        }
    }
}

/// Names that would be an injection, were they ever part of a statement.
fn hostile_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "it's",
        "''",
        "a]b",
        "[a]",
        "\"quoted\"",
        "a.b.c",
        "two words",
        "x'; DROP TABLE jobs; --",
        "🦀",
        "é",
        "%_[a]",
        "$(schema)",
        "@queue",
        "tab\tin it",
        "new\nline",
        "nul\0in it",
        "\u{202e}right to left",
    ]
    .map(String::from)
    .to_vec();
    names.push("n".repeat(128));
    names.push("🦀".repeat(64));
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_and_workers_with_hostile_names_work_like_others() {
    let mut fixture = Fixture::new("names").await;
    for name in hostile_names() {
        fixture.config.queue.name = name.clone();
        fixture.config.worker.name = name.clone();
        let queue = fixture.connect().await;
        assert!(queue.admin().create(QueueOptions::default()).await.unwrap(), "{name:?} is new");
        let key = name.replace(|character| character < ' ', ""); // keys have no control characters
        queue.enqueue(&NewJob::text("x").dedup_key(&key)).await.unwrap();
        assert!(queue.enqueue(&NewJob::text("x").dedup_key(&key)).await.unwrap().duplicate);
        queue.enqueue_many(&numbers(2)).await.unwrap();
        assert_eq!(queue.admin().stats(None).await.unwrap().queue, name);
        let (worker, runs) = counting_worker(&queue, &fixture.config.worker).await;
        assert_eq!(drained(worker).await.stats.done, 3, "{name:?}");
        assert_eq!(runs.lock().len(), 3);
    }
    let queues = fixture.sql("SELECT name FROM [$(schema)].[queues] WHERE name <> N'work' ORDER BY queue_id").await;
    let stored: Vec<String> = queues.iter().map(|row| row.get::<&str, _>("name").unwrap().to_string()).collect();
    assert_eq!(stored, hostile_names());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_cannot_be_kept_apart_or_are_too_long_are_refused_with_the_rule() {
    for name in ["", " ", "mail ", " mail", &"n".repeat(129), &"🦀".repeat(65)] {
        let mut config = with_url(URL);
        config.queue.name = name.to_string();
        let error = Queue::connect(&config).await.unwrap_err().to_string();
        assert!(
            error.contains("queue.name is") && error.contains("1 to 128 characters (UTF-16), with no leading"),
            "{error}"
        );
    }
    let mut config = with_url(URL);
    config.worker.name = "n".repeat(129);
    assert!(config.validate().unwrap_err().to_string().contains("at most 128 characters"));
}

/// Answers of procedures that somebody has changed, or of a release that is none of ours.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_procedures_answer_is_understood_or_an_error_that_names_the_column() {
    let columns = [
        "1",
        "CAST(NULL AS int)",
        "-1",
        "2147483647",
        "CAST(1 AS bigint)",
        "CAST(-9223372036854775808 AS bigint)",
        "N'fifo'",
        "''",
        "N'🦀'",
        "0x",
        "0xFF",
        "CAST(1 AS bit)",
        "CAST(1.5 AS float)",
        "CAST(1.5 AS decimal(5, 2))",
        "SYSUTCDATETIME()",
        "CAST('0001-01-01' AS datetime2(0))",
        "CAST('9999-12-31 23:59:59.9999999' AS datetime2(7))",
        "NEWID()",
        "CAST(1 AS tinyint)",
        "CAST('2000-01-01' AS date)",
        "CAST(N'x' AS nvarchar(max))",
    ];
    let fixture = Fixture::new("answers").await;
    let mut session = fixture.session().await;
    let peek = "@queue nvarchar(128), @state varchar(9), @max int = 100, @texts bit = 1, @kind varchar(64) = NULL, \
                @correlation_id uniqueidentifier = NULL, @error nvarchar(4000) = NULL, @dedup_key nvarchar(257) = NULL, \
                @group_key nvarchar(129) = NULL, @batch_id bigint = NULL, @older_than_ms bigint = NULL, @max_bytes int = NULL, \
                @since datetime2(3) = NULL, @until datetime2(3) = NULL, @worker_id uniqueidentifier = NULL, @newest_first bit = 0, @next bigint = NULL OUTPUT, \
                @next_time datetime2(3) = NULL OUTPUT, @next_priority smallint = NULL OUTPUT, @next_alone bit = NULL OUTPUT, \
                @next_group nvarchar(128) = NULL OUTPUT";
    let stats = "@queue nvarchar(128) = NULL";
    let mut random = fastrand::Rng::with_seed(4);
    for round in 0..150 {
        let row: Vec<&str> = (0..random.usize(1..18)).map(|_| columns[random.usize(..columns.len())]).collect();
        let unnamed: Vec<String> = row.iter().enumerate().map(|(n, value)| format!("{value} AS c{n}")).collect();
        let select = format!("SELECT {}", unnamed.join(", "));
        for (procedure, parameters) in [("peek", peek), ("stats", stats)] {
            let sql = format!("CREATE OR ALTER PROCEDURE [$(schema)].[{procedure}] {parameters} AS {select}");
            session.sql(&sql).await;
        }
        let peeked = fixture.queue.admin().list(&JobState::Done.into(), None, 1).await.map(|_| ());
        let counted = fixture.queue.admin().stats(None).await.map(|_| ());
        for answer in [peeked, counted] {
            let error = answer.expect_err("random columns are not what was asked for");
            assert!(matches!(error, Error::Protocol { .. }), "round {round}: {error:?}\n{select}");
            assert!(error.to_string().contains("column "), "{error}");
        }
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_answers_something_else_stops_the_worker_and_drops_nothing() {
    let claim = "@queue nvarchar(128), @worker_id uniqueidentifier, @max int, @alone bit = 0, \
                 @max_payload_bytes bigint = NULL, @passes bit = 0, @at_once int = 1, @run int = 1, \
                 @lowered bigint = NULL OUTPUT, @highest bigint = NULL OUTPUT, @expired int = NULL OUTPUT";
    let claim_all = "UPDATE [$(schema)].[jobs] SET state = 2, fence = fence + 1, attempt = attempt + 1, worker_id = @worker_id \
                     WHERE state = 0";
    let good = "OUTPUT inserted.job_id, inserted.fence, inserted.attempt, 5, inserted.priority, CAST(1 AS bigint), CAST(1 AS bigint), \
                inserted.kind, inserted.payload_utf16, inserted.payload, CAST(NULL AS nvarchar(4000))";
    for (jobs, output, says) in [
        (1, "OUTPUT inserted.job_id", "column fence of claim: it is missing"),
        (1, "OUTPUT inserted.payload, inserted.job_id", "column job_id of claim"),
        (1_001, good, "claim returned 1001 jobs instead of"),
    ] {
        let fixture = Fixture::new("claims").await;
        fixture.queue.enqueue_many(&numbers(jobs)).await.unwrap();
        let body = claim_all.replace(" WHERE", &format!(" {output} WHERE"));
        fixture.sql(&format!("CREATE OR ALTER PROCEDURE [$(schema)].[claim] {claim} AS {body}")).await;
        let mut config = fixture.config.worker.clone();
        config.shutdown_deadline = Duration::from_secs(1);
        let (worker, runs) = counting_worker(&fixture.queue, &config).await;
        let ended = tokio::time::timeout(std::time::Duration::from_secs(60), worker.run()).await.expect("it stops");
        let error = ended.expect_err("it cannot go on").to_string();
        assert!(error.contains(says), "{error}");
        assert!(runs.lock().is_empty());

        fixture.run_scripts().await;
        let mut config = fixture.config.worker.clone();
        config.reap_interval = Duration::from_millis(100);
        let (worker, runs) = counting_worker(&fixture.queue, &config).await;
        drained(worker).await;
        assert_eq!(runs.lock().len(), jobs as usize, "unregistering has left them to the reaper");
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_of_any_bytes_is_one_job_that_ends() {
    let fixture = Fixture::new("any_payload").await;
    let mut random = fastrand::Rng::with_seed(7);
    let jobs = (0..200).map(|_| {
        let length = random.usize(..40);
        NewJob::bytes(std::iter::repeat_with(|| random.u8(..)).take(length).collect::<Vec<u8>>())
    });
    fixture.queue.enqueue_many(&jobs.collect::<Vec<_>>()).await.unwrap();
    // Text from T-SQL arrives as UTF-16.
    let mut session = fixture.session().await;
    for text in [literal("{\"a\": 1}"), literal(""), literal("🦀")] {
        let enqueue =
            format!("DECLARE @text nvarchar(max) = {text}; EXEC [$(schema)].[enqueue] @queue = N'work', @text = @text");
        session.sql(&enqueue).await;
    }
    let handlers = Handlers::any(|job, _| {
        let _ = job.text();
        let _: serde_json::Value = job.json()?;
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let stats = drained(worker).await.stats;
    assert_eq!(stats.done + stats.dead, 203);
    assert_eq!((stats.retried, stats.lost), (0, 0));
    assert!(stats.done >= 1 && stats.dead > 100, "{stats:?}");
    fixture.remove().await;
}

/// As the fuzz targets `readpast_answers` and `readpast_payload`, from a fixed seed.
#[test]
fn whatever_a_server_answers_and_whatever_a_payload_is_nothing_panics_hangs_or_is_lost() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..25 {
        let changes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
        tampered::answers(&changes);
        tampered::payload(&changes);
    }
}
