//! Installing, removing, versions, and what `verify` says about a schema that is not as it should be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use readpast::admin::{Check, CheckResult, Finding, QueueOptions, install_script, uninstall_script};
use readpast::{Config, Error, Handlers, NewJob, Queue, Worker};

use readpast_devserver::{DevServer, Product};

use crate::support::blocked::{BlockedWorker, blocked_worker};
use crate::support::scripts::{assert_same, contents, numbered, scripts, unmarked};
use crate::support::{Fixture, JobCounts, Session, WorkerSession};

/// The version that this release installs, and the oldest that works with it.
const VERSION: i32 = 1;

const NEWER_VERSION: u32 = 58010;
const TABLE_IN_USE: u32 = 58012;

/// The lock of the installation is free.
async fn may_install(fixture: &Fixture) -> bool {
    let lock = "DECLARE @granted int;
                EXEC @granted = sys.sp_getapplock @Resource = N'$(schema).install', @LockMode = N'Exclusive',
                     @LockOwner = N'Session', @LockTimeout = 0;
                SELECT @granted;";
    fixture.session().await.number(lock).await == 0
}

/// Notes a version as installed, as a newer release would.
async fn note_version(fixture: &Fixture, version: i32, min_compatible: i32) {
    let note = "INSERT [$(schema)].[schema_version] (version, min_compatible) VALUES";
    fixture.sql(&format!("{note} ({version}, {min_compatible})")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn installing_twice_changes_nothing() {
    let fixture = Fixture::new("twice").await;
    let mut session = fixture.session().await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let before = contents(&fixture, &mut session).await;
    assert_eq!(fixture.queue.admin().install().await.unwrap(), VERSION);
    fixture.run_scripts().await;
    assert_same(&contents(&fixture, &mut session).await, &before, "afterwards");
    assert_eq!(session.numbers("SELECT version FROM [$(schema)].[schema_version]").await, [i64::from(VERSION)]);
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 1, ..JobCounts::default() });
    fixture.queue.admin().verify().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_version_is_there_installing_does_nothing_and_needs_no_right() {
    let fixture = Fixture::new("nothing_to_do").await;
    fixture.sql("CREATE OR ALTER PROCEDURE [$(schema)].[pause] @queue nvarchar(128) AS RETURN 7").await;
    let before = contents(&fixture, &mut fixture.session().await).await;
    for role in ["producer", "worker", "operator", "monitor"] {
        let login = fixture.create_login(Some(role)).await;
        assert_eq!(fixture.connect_as(&login).await.admin().install().await.unwrap(), VERSION, "{role}");
        fixture.drop_login(&login).await;
    }
    assert_same(&contents(&fixture, &mut fixture.session().await).await, &before, "afterwards");
    let login = fixture.create_login(None).await;
    let error = fixture.connect_as(&login).await.admin().install().await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn four_installations_at_once_end_in_one() {
    let fixture = Fixture::not_installed("at_once").await;
    let mut installations = Vec::new();
    for _ in 0..4 {
        let queue = fixture.connect().await;
        installations.push(tokio::spawn(async move { queue.admin().install().await }));
    }
    for installation in installations {
        assert_eq!(installation.await.unwrap().unwrap(), VERSION);
    }
    fixture.queue.admin().create(QueueOptions::default()).await.unwrap();
    fixture.queue.admin().verify().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scripts_by_hand_are_the_same_installation() {
    let by_library = Fixture::new("by_library").await;
    let expected = contents(&by_library, &mut by_library.session().await).await;
    for way in ["scripts", "one"] {
        let by_hand = Fixture::not_installed(way).await;
        let script = if way == "one" { install_script(by_hand.schema()).unwrap() } else { scripts() };
        let mut session = by_hand.session().await;
        session.script(&script).await.unwrap();
        assert_same(&contents(&by_hand, &mut session).await, &expected, way);
        by_hand.queue.admin().create(QueueOptions::default()).await.unwrap();
        by_hand.queue.admin().verify().await.unwrap();
        assert!(may_install(&by_hand).await);
        drop(session);
        by_hand.remove().await;
    }
    by_library.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_that_broke_off_is_completed_by_the_next() {
    let fixture = Fixture::not_installed("broke_off").await;
    let mut session = fixture.session().await;
    let scripts = scripts();
    let half = &scripts[..scripts.find("CREATE OR ALTER PROCEDURE [$(schema)].[peek]").unwrap()];
    session.script(&half[..half.rfind("\nGO").unwrap()]).await.unwrap();
    // Its session ends, and the lock of the installation with it.
    drop(session);
    let error = fixture.queue.admin().verify().await.unwrap_err();
    assert!(matches!(error, Error::NotInstalled { .. }), "{error}");
    fixture.queue.admin().install().await.unwrap();
    fixture.queue.admin().create(QueueOptions::default()).await.unwrap();
    fixture.queue.admin().verify().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uninstalling_leaves_nothing_and_may_be_run_again() {
    let fixture = Fixture::new("uninstalled").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut session = fixture.session().await;
    let uninstall = include_str!("../sql/uninstall.sql");
    for _ in 0..2 {
        session.script(uninstall).await.unwrap();
        let left = "SELECT COUNT(*) FROM sys.schemas WHERE name = N'$(schema)'";
        assert_eq!(session.number(left).await, 0);
        assert_eq!(contents(&fixture, &mut session).await, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uninstalling_deletes_nothing_while_a_role_has_members() {
    let fixture = Fixture::new("members").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut session = fixture.session().await;
    session.sql("CREATE USER [$(schema)_somebody] WITHOUT LOGIN; ALTER ROLE [$(schema)_worker] ADD MEMBER [$(schema)_somebody]").await;
    let uninstall = include_str!("../sql/uninstall.sql");
    let error = session.script(uninstall).await.unwrap_err();
    assert!(error.to_string().contains("DROP MEMBER"), "{error}");
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().ready, 1);
    session.sql("ALTER ROLE [$(schema)_worker] DROP MEMBER [$(schema)_somebody]; DROP USER [$(schema)_somebody]").await;
    session.script(uninstall).await.unwrap();
    assert_eq!(contents(&fixture, &mut session).await, Vec::<String>::new());
}

// A busy table

/// A report that has read a job of tomorrow and has not ended its transaction: nobody can get Sch-M on the table.
async fn long_reader(fixture: &Fixture) -> Session {
    fixture.queue.enqueue(&NewJob::text("tomorrow's").delay(Duration::from_secs(86_400))).await.unwrap();
    let mut reader = fixture.session().await;
    let count = "BEGIN TRANSACTION;
                 SELECT COUNT(*) FROM [$(schema)].[jobs] WITH (REPEATABLEREAD, INDEX (jobs_scheduled)) WHERE queue_id = 1 AND state = 1";
    assert_eq!(reader.number(count).await, 1);
    reader
}

#[tokio::test(flavor = "multi_thread")]
async fn installing_over_a_busy_table_makes_nobody_wait() {
    let fixture = Fixture::new("busy").await;
    let reader = long_reader(&fixture).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let mut producer = fixture.session().await;
    // An installation that waits for a table has these wait behind it, for three seconds.
    for session in [&mut worker.session, &mut producer] {
        session.sql("SET LOCK_TIMEOUT 1000").await;
    }
    let mut by_hand = fixture.session().await;
    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = has_ended.clone();
    let installation = tokio::spawn(async move {
        let result = by_hand.script(&scripts()).await;
        ended.store(true, Ordering::Release);
        result
    });
    loop {
        let is_last_round = has_ended.load(Ordering::Acquire);
        producer.sql("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x'").await;
        let job = worker.claim_one().await;
        assert_eq!(worker.finish(&[job.done()]).await, []);
        if is_last_round {
            break;
        }
    }
    installation.await.unwrap().unwrap();
    drop(reader);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_busy_table_must_be_changed_the_installation_gives_up_soon_and_says_so() {
    let fixture = Fixture::new("must_change").await;
    fixture.sql("ALTER TABLE [$(schema)].[jobs] SET (LOCK_ESCALATION = TABLE)").await;
    fixture.sql("UPDATE [$(schema)].[schema_version] SET version = 0").await;
    let mut reader = long_reader(&fixture).await;

    let both_ways = async {
        let error = fixture.session().await.script(&scripts()).await.unwrap_err();
        assert_eq!(error.code(), Some(TABLE_IN_USE), "{error}");
        let error = fixture.queue.admin().install().await.unwrap_err();
        assert_eq!(error.sql_number(), Some(TABLE_IN_USE as i32), "{error}");
    };
    tokio::time::timeout(Duration::from_secs(20), both_ways).await.expect("it gives up after three seconds");

    reader.sql("ROLLBACK").await;
    assert_eq!(fixture.queue.admin().install().await.unwrap(), VERSION);
    let escalation = "SELECT COUNT(*) FROM sys.tables WHERE object_id = OBJECT_ID(N'[$(schema)].[jobs]') AND lock_escalation_desc = N'DISABLE'";
    assert_eq!(fixture.session().await.number(escalation).await, 1);
    fixture.remove().await;
}

// Versions

#[tokio::test(flavor = "multi_thread")]
async fn older_scripts_do_not_overwrite_newer_procedures() {
    let fixture = Fixture::new("newer").await;
    note_version(&fixture, 7, 1).await;
    let mut session = fixture.session().await;
    session.sql("CREATE OR ALTER PROCEDURE [$(schema)].[pause] @queue nvarchar(128) AS RETURN 7").await;
    let before = contents(&fixture, &mut session).await;

    let error = session.script(&scripts()).await.unwrap_err();
    assert_eq!(error.code(), Some(NEWER_VERSION));
    assert!(error.to_string().contains("version 7") && error.to_string().contains("version 1;"), "{error}");
    assert!(may_install(&fixture).await, "the refusal has given the lock back");
    // This release works with it: nothing to do.
    assert_eq!(fixture.queue.admin().install().await.unwrap(), 7);

    assert_same(&contents(&fixture, &mut session).await, &before, "afterwards");
    fixture.remove().await;
}

/// Whether anything of the installation is in the database: the schema itself, at least.
async fn has_schema(fixture: &Fixture) -> bool {
    fixture.session().await.number("SELECT COUNT(*) FROM sys.schemas WHERE name = N'$(schema)'").await == 1
}

// Source: "OPENJSON", docs/t-sql/functions/openjson-transact-sql.md: below level 130 "SQL Server can't find and run"
// it.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_compatibility_level_is_refused_before_anything_is_made_and_found_afterwards() {
    let fixture = Fixture::in_own_database("level").await;
    let set_level = async |level: u8| {
        fixture.sql(&format!("ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = {level}")).await;
    };
    set_level(120).await;
    let error = fixture.queue.admin().install().await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains(" is 120, and readpast needs 130 or higher"), "{error}");
    let error = fixture.session().await.script(&scripts()).await.unwrap_err();
    assert_eq!(error.code(), Some(58003), "{error}");
    assert!(!has_schema(&fixture).await);

    set_level(130).await;
    fixture.queue.admin().install().await.unwrap();
    fixture.queue.admin().create(QueueOptions::default()).await.unwrap();
    fixture.queue.admin().verify().await.unwrap();
    fixture.sql("EXEC [$(schema)].[sample] @queue = N'work'").await;

    set_level(120).await;
    let findings = fixture.connect().await.admin().findings().await;
    assert_eq!(first_failure(&findings), Some(Check::Compatibility));
    let error = fixture.connect().await.admin().verify().await.unwrap_err();
    assert!(error.to_string().contains(" is 120; set it to 130 or higher"), "{error}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_sql_server_is_refused_before_anything_is_made() {
    for (major_version, is_refused) in [(13, true), (14, false)] {
        let product = Product { major_version, ..Product::default() };
        let server = DevServer::builder().product(product).start().await.unwrap();
        let mut config = Config::default();
        config.connection.url = server.connection_string().into();
        let queue = Queue::connect(&config).await.unwrap();
        match queue.admin().install().await {
            Err(error) => assert!(is_refused && error.to_string().contains("SQL Server 2017 (14) or later"), "{error}"),
            Ok(_) => assert!(!is_refused, "{major_version}"),
        }
        let is_there = matches!(queue.admin().verify().await.unwrap_err(), Error::UnknownQueue { .. });
        assert_eq!(is_there, !is_refused);
    }
}

// "CREATE INDEX", ONLINE = OFF: "prevents all user access to the underlying table for the duration of the operation"
// where it is clustered, and updates where it is not (docs/t-sql/statements/create-index-transact-sql.md).
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_index_is_built_over_many_rows_only_where_the_wait_is_agreed() {
    let fixture = Fixture::new("offline_build").await;
    let fill =
        "INSERT [$(schema)].[jobs] (job_id, queue_id, state, payload_utf16, priority, enqueued_at, due_at, payload)
                SELECT n.n, q.queue_id, 6, 0, 0, SYSUTCDATETIME(), SYSUTCDATETIME(), 0x
                FROM [$(schema)].[queues] AS q
                CROSS JOIN (SELECT TOP (10001) ROW_NUMBER() OVER (ORDER BY (SELECT NULL)) AS n
                            FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11)) AS a (x)
                            CROSS JOIN (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)) AS b (x)
                            CROSS JOIN (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)) AS c (x)
                            CROSS JOIN (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)) AS d (x)) AS n";
    let is_there = "SELECT COUNT(*) FROM sys.indexes WHERE object_id = OBJECT_ID(N'[$(schema)].[jobs]') AND name = N'jobs_waiting'";
    fixture.sql("DROP INDEX jobs_waiting ON [$(schema)].[jobs]").await;
    fixture.sql(fill).await;
    let mut session = fixture.session().await;
    let error = session.script(&scripts()).await.unwrap_err();
    assert_eq!(error.code(), Some(58014), "{error}");
    assert!(error.to_string().contains("index jobs_waiting") && error.to_string().contains("10001 rows"), "{error}");
    assert!(may_install(&fixture).await, "the refusal has given the lock back");
    assert_eq!(session.number(is_there).await, 0);

    // To the scripts of a newer release an index may mean nothing any more: these must not ask for it.
    note_version(&fixture, 7, 1).await;
    assert_eq!(session.script(&scripts()).await.unwrap_err().code(), Some(NEWER_VERSION));
    session.sql("DELETE FROM [$(schema)].[schema_version] WHERE version = 7").await;

    session.sql("CREATE TABLE #readpast_offline_builds (agreed bit NOT NULL)").await;
    session.script(&scripts()).await.unwrap();
    assert_eq!(session.number(is_there).await, 1);
    fixture.remove().await;
}

/// The list in 000_begin.sql.
#[test]
fn every_index_that_a_later_run_would_build_is_looked_for_first() {
    let scripts = numbered();
    let begin = &scripts[0].1;
    let mut count = 0;
    for (name, script) in &scripts[1..] {
        for line in script.lines().map(str::trim).filter(|line| line.starts_with("CREATE ") && line.contains(" INDEX "))
        {
            let index = line.split(" INDEX ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
            assert!(begin.contains(&format!("N'{index}')")), "{name}: {index}");
            count += 1;
        }
    }
    assert_eq!(count, 11);
}

/// Management Studio goes on with the next batch after an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_on_after_an_error_installs_nothing_more() {
    let fixture = Fixture::new("goes_on").await;
    let mut session = fixture.session().await;
    note_version(&fixture, 7, 1).await;
    session.sql("CREATE OR ALTER PROCEDURE [$(schema)].[pause] @queue nvarchar(128) AS RETURN 7").await;
    let before = contents(&fixture, &mut session).await;
    let mut errors = Vec::new();
    for batch in install_script(fixture.schema()).unwrap().split("\nGO\n").filter(|batch| !batch.trim().is_empty()) {
        errors.extend(session.try_sql(batch).await.err().and_then(|error| error.code()));
    }
    assert_eq!(errors, [NEWER_VERSION]);
    assert_same(&contents(&fixture, &mut session).await, &before, "afterwards");

    // An error in the middle: the table cannot be changed.
    session
        .sql("DELETE [$(schema)].[schema_version]; ALTER TABLE [$(schema)].[jobs] SET (LOCK_ESCALATION = TABLE)")
        .await;
    let reader = long_reader(&fixture).await;
    let mut errors = Vec::new();
    for batch in install_script(fixture.schema()).unwrap().split("\nGO\n").filter(|batch| !batch.trim().is_empty()) {
        errors.extend(session.try_sql(batch).await.err().and_then(|error| error.code()));
    }
    assert_eq!(errors, [TABLE_IN_USE]);
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[schema_version]").await, 0, "no version is noted");
    assert_eq!(session.number("SELECT @@LOCK_TIMEOUT").await, -1);
    assert!(may_install(&fixture).await, "the session has given the lock back");
    drop(reader);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_needs_a_newer_release_is_refused_by_every_call() {
    let mut fixture = Fixture::new("incompatible").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    note_version(&fixture, 4, 3).await;
    let too_new = |error: &Error| matches!(error, Error::SchemaTooNew { needed: 3, known: VERSION, .. });
    // Each call on a queue of its own: it is the first that asks.
    let queue: Queue = fixture.connect().await;
    for error in [
        queue.enqueue(&NewJob::text("y")).await.unwrap_err(),
        fixture.connect().await.enqueue_many(&[NewJob::text("y")]).await.unwrap_err(),
        fixture.connect().await.admin().stats(None).await.unwrap_err(),
        fixture.connect().await.admin().pause().await.unwrap_err(),
        fixture.connect().await.admin().create(QueueOptions::default()).await.unwrap_err(),
        fixture.connect().await.admin().install().await.unwrap_err(),
        Worker::builder(&fixture.connect().await, Handlers::any(|_, _| Ok(()))).start().await.err().unwrap(),
    ] {
        assert!(too_new(&error), "{error}");
        assert!(error.to_string().contains("use a newer release"), "{error}");
    }
    // Not with each call.
    fixture.queue.enqueue(&NewJob::text("z")).await.unwrap();
    // A queue that was refused asks again.
    fixture.sql("DELETE [$(schema)].[schema_version] WHERE version = 4").await;
    queue.enqueue(&NewJob::text("y")).await.unwrap();

    // verify names the version before the queue.
    note_version(&fixture, 4, 3).await;
    fixture.config.queue.name = "nowhere".to_string();
    let error = fixture.connect().await.admin().verify().await.unwrap_err();
    assert!(too_new(&error), "{error}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_schema_is_refused_and_a_newer_compatible_one_is_worked_with() {
    let fixture = Fixture::new("compatible").await;
    fixture.sql("UPDATE [$(schema)].[schema_version] SET version = 0").await;
    for error in [
        fixture.connect().await.admin().verify().await.unwrap_err(),
        fixture.connect().await.enqueue(&NewJob::text("x")).await.unwrap_err(),
        Worker::builder(&fixture.connect().await, Handlers::any(|_, _| Ok(()))).start().await.err().unwrap(),
    ] {
        assert!(matches!(error, Error::SchemaTooOld { found: 0, wanted: VERSION, .. }), "{error}");
        assert!(error.to_string().contains("Admin::install"), "{error}");
    }
    note_version(&fixture, 9, VERSION).await;
    let queue = fixture.connect().await;
    queue.admin().verify().await.unwrap();
    queue.enqueue(&NewJob::text("x")).await.unwrap();
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_worker_stops_in_order_when_a_schema_comes_that_it_does_not_work_with() {
    let fixture = Fixture::new("overtaken").await;
    let mut config = fixture.config.worker.clone();
    config.heartbeat_interval = Duration::from_millis(100);
    let BlockedWorker { worker, gate, .. } = blocked_worker(&fixture, &fixture.queue, config).await;
    let monitor = worker.monitor();
    // Newer, but no reason to stop: the heartbeats go on.
    note_version(&fixture, 3, VERSION).await;
    gate.add_permits(3);
    crate::support::until("three jobs are done", || monitor.stats().done == 3).await;

    note_version(&fixture, 4, 3).await;
    let running = tokio::spawn(worker.run());
    crate::support::until("what has not started is given back", || monitor.stats().buffered == 0).await;
    gate.add_permits(10);
    let error = tokio::time::timeout(Duration::from_secs(60), running).await.expect("it stops").unwrap().unwrap_err();
    assert!(matches!(error, Error::SchemaTooNew { needed: 3, known: VERSION, .. }), "{error}");
    assert_eq!(monitor.stats().done, 4, "the job that ran was acknowledged");
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 6, ..JobCounts::default() });
    fixture.remove().await;
}

// The one script for Management Studio and sqlcmd

#[test]
fn the_scripts_are_plain_text_for_every_client() {
    for (name, text) in numbered() {
        // Management Studio and sqlcmd on Windows read a file without a mark at its start in the machine's code page.
        assert!(text.is_ascii() && !text.contains('\r'), "{name} is ASCII, with line feeds");
        assert!(text.ends_with("\nGO\n"), "{name} ends its last batch");
    }
    // What looks like a variable is refused by sqlcmd, and SQLCMD mode is not needed.
    let script = install_script("readpast").unwrap();
    assert!(!script.contains("$(") && !script.lines().any(|line| line.starts_with(':')));
}

#[test]
fn the_one_script_has_every_script_for_any_schema() {
    let script = install_script("jobs").unwrap();
    let bare = |text: &str| text.replace("IF @@ERROR <> 0 SET NOEXEC ON;\nGO\n", "").replace("\n\n", "\n");
    for (name, text) in numbered() {
        assert!(bare(&script).contains(&bare(&unmarked(&text).replace("$(schema)", "jobs"))), "{name}");
    }
    for script in [install_script, uninstall_script] {
        assert!(!script("jobs").unwrap().contains("$(schema)"));
        for name in ["", "a]b", "select", "x; DROP TABLE jobs"] {
            let error = script(name).unwrap_err();
            assert!(matches!(&error, Error::Config { key, .. } if key == "connection.schema"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dba_installs_from_the_library_s_script_is_what_the_library_installs() {
    let (by_script, by_library) = (Fixture::not_installed("script").await, Fixture::new("library").await);
    let mut session = by_script.session().await;
    session.script(&install_script(by_script.schema()).unwrap()).await.unwrap();
    by_script.queue.admin().create(QueueOptions::default()).await.unwrap();
    by_script.queue.admin().verify().await.unwrap();
    // The scripts end as they began: no lock of the installation is left.
    assert!(may_install(&by_script).await);
    let installed = contents(&by_script, &mut session).await;
    assert_same(&installed, &contents(&by_library, &mut by_library.session().await).await, "by the library");
    session.script(&uninstall_script(by_script.schema()).unwrap()).await.unwrap();
    assert!(matches!(by_script.connect().await.admin().verify().await.unwrap_err(), Error::NotInstalled { .. }));
    by_library.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_uninstalls_unless_a_role_has_members() {
    let fixture = Fixture::new("uninstall").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let login = fixture.create_login(Some("operator")).await;
    let error = fixture.queue.admin().uninstall().await.unwrap_err();
    assert!(matches!(&error, Error::Refused { message, .. } if message.contains("have members")), "{error}");
    assert_eq!(fixture.job_counts().await.ready, 1, "nothing was removed");
    fixture.drop_login(&login).await;
    // Who may not see the schema is not told that it is somebody else's, and who sees a part of it removes nothing.
    for role in [None, Some("worker"), Some("operator")] {
        let login = fixture.create_login(role).await;
        let error = fixture.connect_as(&login).await.admin().uninstall().await.unwrap_err();
        assert!(
            matches!(&error, Error::Refused { message, .. } if message.contains("may not see")),
            "{role:?}: {error}"
        );
        fixture.drop_login(&login).await;
    }
    assert_eq!(fixture.job_counts().await.ready, 1, "nothing was removed");
    fixture.queue.admin().uninstall().await.unwrap();
    assert!(matches!(fixture.queue.admin().verify().await.unwrap_err(), Error::NotInstalled { .. }));
    fixture.queue.admin().uninstall().await.unwrap(); // again
    fixture.queue.admin().install().await.unwrap();
    assert!(fixture.queue.admin().create(QueueOptions::default()).await.unwrap());
    fixture.remove().await;
}

// findings and verify

/// Which check has failed, and that those before are well and those behind were not reached.
fn first_failure(findings: &[Finding]) -> Option<Check> {
    let words: Vec<String> = findings.iter().map(|finding| finding.check.to_string()).collect();
    assert_eq!(
        words.join(" "),
        "reachable login database installed permissions version compatibility set_options read_only queue not_held row_versions"
    );
    let failed = findings.iter().position(|finding| !matches!(finding.result, CheckResult::Ok))?;
    assert!(matches!(findings[failed].result, CheckResult::Failed(_)));
    assert!(findings[failed + 1..].iter().all(|finding| matches!(finding.result, CheckResult::NotReached)));
    assert!(findings[failed..].iter().all(|finding| finding.note.is_none()));
    Some(findings[failed].check)
}

fn note(findings: &[Finding], check: Check) -> &str {
    findings.iter().find(|finding| finding.check == check).unwrap().note.as_deref().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_say_which_roles_procedures_the_login_may_run() {
    let fixture = Fixture::new("findings").await;
    let findings = fixture.queue.admin().findings().await;
    assert_eq!(first_failure(&findings), None);
    assert_eq!(note(&findings, Check::Version), "1");
    assert!(note(&findings, Check::Permissions).ends_with(": producer, worker, operator, monitor, autoscaler"));
    assert!(note(&findings, Check::RowVersions).starts_with("READ_COMMITTED_SNAPSHOT is "));
    let json = serde_json::to_value(&findings).unwrap();
    assert_eq!(json[0], serde_json::json!({"check": "reachable", "result": "ok", "error": null, "note": null}));
    for (role, may) in [
        ("producer", ": producer"),
        ("worker", ": worker"),
        ("operator", ": producer, operator, monitor, autoscaler"),
        ("monitor", ": monitor, autoscaler"),
        ("autoscaler", ": autoscaler"),
    ] {
        let login = fixture.create_login(Some(role)).await;
        let findings = fixture.connect_as(&login).await.admin().findings().await;
        assert_eq!(first_failure(&findings), None);
        assert!(note(&findings, Check::Permissions).ends_with(may), "{findings:?}");
        fixture.drop_login(&login).await;
    }
    let login = fixture.create_login(None).await;
    assert_eq!(first_failure(&fixture.connect_as(&login).await.admin().findings().await), Some(Check::Permissions));
    fixture.drop_login(&login).await;
    note_version(&fixture, 9, 9).await;
    let findings = fixture.connect().await.admin().findings().await;
    assert_eq!(first_failure(&findings), Some(Check::Version));
    let json = serde_json::to_value(&findings).unwrap();
    assert!(json[5]["error"].as_str().unwrap().contains("use a newer release of the crate"), "{json}");
    assert_eq!(json[6]["result"], "not_reached");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_tell_how_far_one_gets_without_a_queue() {
    let fixture = Fixture::not_installed("examined").await;
    let failure = async |change: &dyn Fn(&mut Config)| {
        let mut config = fixture.config.clone();
        change(&mut config);
        first_failure(&readpast::admin::Admin::examine(&config).await.unwrap())
    };
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let unreachable = format!("Server=tcp:127.0.0.1,{nobody};User ID=sa;Password=x");
    assert_eq!(failure(&|config| config.connection.url = unreachable.as_str().into()).await, Some(Check::Reachable));
    let stranger = format!("{};User ID=nobody;Password=x", fixture.url());
    assert_eq!(failure(&|config| config.connection.url = stranger.as_str().into()).await, Some(Check::Login));
    let nowhere = format!("{};Database=no_such_database", fixture.url());
    assert_eq!(failure(&|config| config.connection.url = nowhere.as_str().into()).await, Some(Check::Database));
    assert_eq!(failure(&|_| {}).await, Some(Check::Installed));
    fixture.queue.admin().install().await.unwrap();
    assert_eq!(failure(&|_| {}).await, Some(Check::Queue));
    fixture.queue.admin().create(QueueOptions::default()).await.unwrap();
    assert_eq!(failure(&|_| {}).await, None);

    let mut config = fixture.config.clone();
    config.connection.schema = "no good".to_string();
    assert!(matches!(readpast::admin::Admin::examine(&config).await.unwrap_err(), Error::Config { .. }));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_is_content_with_every_role() {
    let fixture = Fixture::new("verify").await;
    fixture.queue.admin().verify().await.unwrap();
    for role in ["worker", "producer", "operator", "monitor", "autoscaler"] {
        let login = fixture.create_login(Some(role)).await;
        fixture.connect_as(&login).await.admin().verify().await.unwrap();
        fixture.drop_login(&login).await;
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_says_that_nothing_is_installed() {
    let fixture = Fixture::not_installed("nothing").await;
    match fixture.queue.admin().verify().await.unwrap_err() {
        Error::NotInstalled { schema, .. } => assert_eq!(schema, fixture.schema()),
        other => panic!("not {other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_says_that_the_login_may_do_nothing() {
    let fixture = Fixture::new("no_role").await;
    let login = fixture.create_login(None).await;
    let error = fixture.connect_as(&login).await.admin().verify().await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { number: 229, .. }), "{error}");
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_says_that_the_queue_does_not_exist() {
    let mut fixture = Fixture::new("no_queue").await;
    fixture.config.queue.name = "nowhere".to_string();
    let error = fixture.connect().await.admin().verify().await.unwrap_err();
    assert!(matches!(error, Error::UnknownQueue { .. }), "{error}");
    assert!(error.to_string().contains("'nowhere'"), "{error}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_says_that_the_database_is_read_only() {
    let fixture = Fixture::in_own_database("read_only").await;
    fixture.queue.admin().install().await.unwrap();
    fixture.sql("ALTER DATABASE CURRENT SET READ_ONLY WITH ROLLBACK IMMEDIATE").await;
    // The queue is unknown too, but first the database must become writable.
    let error = fixture.connect().await.admin().verify().await.unwrap_err();
    assert!(matches!(error, Error::ReadOnlyDatabase { .. }), "{error}");
    fixture.remove().await;
}
