//! Installing, upgrading, removing, and what `verify` says about a schema that is not as it should be.

use readpast::{Error, NewJob, Queue, QueueOptions};

use crate::support::{Fixture, JobCounts, Login, Session, WorkerSession};

const PERMISSION_DENIED: u32 = 229;

/// Every object of the schema, and its roles.
async fn objects(session: &mut Session) -> Vec<String> {
    let sql = "SELECT o.name FROM sys.objects AS o WHERE o.schema_id = SCHEMA_ID(N'$(schema)') AND o.type IN ('U', 'P')
               UNION ALL SELECT t.name FROM sys.types AS t WHERE t.schema_id = SCHEMA_ID(N'$(schema)')
               UNION ALL SELECT p.name FROM sys.database_principals AS p WHERE p.name IN (N'$(schema)_worker', N'$(schema)_producer')";
    let mut names: Vec<String> =
        session.sql(sql).await.iter().map(|row| row.get::<&str, _>(0).unwrap().to_string()).collect();
    names.sort();
    names
}

/// The scripts as a DBA runs them: all that begin with a digit, in the order of their names.
fn scripts() -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sql");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut scripts: Vec<_> = paths
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(|first: char| first.is_ascii_digit()))
        .collect();
    scripts.sort();
    scripts.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn installing_twice_changes_nothing() {
    let fixture = Fixture::new("twice").await;
    let mut session = fixture.session().await;
    fixture.queue.enqueue(NewJob::text("x")).await.unwrap();
    let before = objects(&mut session).await;
    assert_eq!(fixture.queue.install().await.unwrap(), 1);
    assert_eq!(objects(&mut session).await, before);
    assert_eq!(session.numbers("SELECT version FROM [$(schema)].[schema_version]").await, [1]);
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 1, ..JobCounts::default() });
    fixture.queue.verify().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn four_installations_at_once_end_in_one() {
    let fixture = Fixture::not_installed("at_once").await;
    let mut installations = Vec::new();
    for _ in 0..4 {
        let queue = fixture.connect().await;
        installations.push(tokio::spawn(async move { queue.install().await }));
    }
    for installation in installations {
        assert_eq!(installation.await.unwrap().unwrap(), 1);
    }
    fixture.queue.create(QueueOptions::default()).await.unwrap();
    fixture.queue.verify().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scripts_by_hand_are_the_same_installation() {
    let by_library = Fixture::new("by_library").await;
    let expected = objects(&mut by_library.session().await).await;
    let by_hand = Fixture::not_installed("by_hand").await;
    let mut session = by_hand.session().await;
    session.script(&scripts()).await.unwrap();
    let installed = objects(&mut session).await;
    let unnamed = |fixture: &Fixture, names: &[String]| -> Vec<String> {
        names.iter().map(|name| name.replace(fixture.schema(), "schema")).collect()
    };
    assert_eq!(unnamed(&by_hand, &installed), unnamed(&by_library, &expected));
    by_hand.queue.create(QueueOptions::default()).await.unwrap();
    by_hand.queue.verify().await.unwrap();
    drop(session);
    by_hand.remove().await;
    by_library.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_refused_before_anything_is_touched() {
    let fixture = Fixture::new("newer").await;
    let mut session = fixture.session().await;
    session.sql("INSERT [$(schema)].[schema_version] (version) VALUES (2); DROP PROCEDURE [$(schema)].[peek];").await;
    let before = objects(&mut session).await;

    let error = fixture.queue.install().await.unwrap_err();
    assert!(matches!(error, Error::SchemaTooNew { found: 2, wanted: 1 }), "{error}");
    let error = fixture.queue.verify().await.unwrap_err();
    assert!(matches!(error, Error::SchemaTooNew { found: 2, wanted: 1 }), "{error}");
    let error = session.script(&scripts()).await.unwrap_err();
    assert_eq!(error.code(), Some(58010));

    assert_eq!(objects(&mut session).await, before);
    // The refusal has given the lock of the installation back.
    let lock = "DECLARE @granted int;
                EXEC @granted = sys.sp_getapplock @Resource = N'readpast.install.$(schema)', @LockMode = N'Exclusive',
                     @LockOwner = N'Session', @LockTimeout = 0;
                SELECT @granted;";
    assert_eq!(fixture.session().await.number(lock).await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_schema_is_upgraded_and_keeps_its_jobs() {
    let fixture = Fixture::new("older").await;
    fixture.queue.enqueue(NewJob::text("x")).await.unwrap();
    let mut session = fixture.session().await;
    let complete = objects(&mut session).await;
    session.sql("UPDATE [$(schema)].[schema_version] SET version = 0; DROP PROCEDURE [$(schema)].[recover];").await;
    let error = fixture.queue.verify().await.unwrap_err();
    assert!(matches!(error, Error::SchemaTooOld { found: 0, wanted: 1 }), "{error}");

    assert_eq!(fixture.queue.install().await.unwrap(), 1);

    fixture.queue.verify().await.unwrap();
    assert_eq!(objects(&mut session).await, complete);
    assert_eq!(session.numbers("SELECT version FROM [$(schema)].[schema_version] ORDER BY version").await, [0, 1]);
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 1, ..JobCounts::default() });
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_that_broke_off_is_completed_by_the_next() {
    let fixture = Fixture::not_installed("broke_off").await;
    let mut session = fixture.session().await;
    let scripts = scripts();
    let half = &scripts[..scripts.find("-- Looks at jobs in one state").unwrap()];
    session.script(half).await.unwrap();
    // Its session ends, and the lock of the installation with it.
    drop(session);
    let error = fixture.queue.verify().await.unwrap_err();
    assert!(matches!(error, Error::NotInstalled { .. }), "{error}");
    fixture.queue.install().await.unwrap();
    fixture.queue.create(QueueOptions::default()).await.unwrap();
    fixture.queue.verify().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uninstalling_leaves_nothing_and_may_be_run_again() {
    let fixture = Fixture::new("uninstalled").await;
    fixture.queue.enqueue(NewJob::text("x")).await.unwrap();
    let mut session = fixture.session().await;
    let uninstall = include_str!("../sql/uninstall.sql");
    for _ in 0..2 {
        session.script(uninstall).await.unwrap();
        let left = "SELECT COUNT(*) FROM sys.schemas WHERE name = N'$(schema)'";
        assert_eq!(session.number(left).await, 0);
        assert_eq!(objects(&mut session).await, Vec::<String>::new());
    }
}

// verify

#[tokio::test(flavor = "multi_thread")]
async fn verify_is_content_with_a_worker_and_a_producer() {
    let fixture = Fixture::new("verify").await;
    fixture.queue.verify().await.unwrap();
    for role in ["worker", "producer"] {
        let login = fixture.create_login(Some(role)).await;
        fixture.connect_as(&login).await.verify().await.unwrap();
        fixture.drop_login(&login).await;
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_says_that_nothing_is_installed() {
    let fixture = Fixture::not_installed("nothing").await;
    match fixture.queue.verify().await.unwrap_err() {
        Error::NotInstalled { schema, .. } => assert_eq!(schema, fixture.schema()),
        other => panic!("not {other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_says_that_the_login_may_do_nothing() {
    let fixture = Fixture::new("no_role").await;
    let login = fixture.create_login(None).await;
    let error = fixture.connect_as(&login).await.verify().await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { number: 229, .. }), "{error}");
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_says_that_the_queue_does_not_exist() {
    let mut fixture = Fixture::new("no_queue").await;
    fixture.config.queue.name = "nowhere".to_string();
    let error = fixture.connect().await.verify().await.unwrap_err();
    assert!(matches!(error, Error::UnknownQueue { .. }), "{error}");
    assert!(error.to_string().contains("'nowhere'"), "{error}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_says_that_the_database_is_read_only() {
    let fixture = Fixture::in_own_database("read_only").await;
    fixture.queue.install().await.unwrap();
    fixture.sql("ALTER DATABASE CURRENT SET READ_ONLY WITH ROLLBACK IMMEDIATE").await;
    // The queue is unknown too, but first the database must become writable.
    let error = fixture.connect().await.verify().await.unwrap_err();
    assert!(matches!(error, Error::ReadOnlyDatabase { .. }), "{error}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_names_the_version_before_the_queue() {
    let mut fixture = Fixture::new("version_first").await;
    fixture.sql("INSERT [$(schema)].[schema_version] (version) VALUES (3)").await;
    fixture.config.queue.name = "nowhere".to_string();
    let error = fixture.connect().await.verify().await.unwrap_err();
    assert!(matches!(error, Error::SchemaTooNew { found: 3, wanted: 1 }), "{error}");
    fixture.remove().await;
}

// The roles

async fn denied(session: &mut Session, sql: &str) {
    assert_eq!(session.refusal(sql).await.0, PERMISSION_DENIED, "{sql}");
}

async fn touches_no_table(fixture: &Fixture, login: &Login) {
    let mut session = fixture.session_as(login).await;
    for table in ["jobs", "queues", "workers", "archive", "schema_version"] {
        denied(&mut session, &format!("SELECT * FROM [$(schema)].[{table}]")).await;
    }
    denied(&mut session, "UPDATE [$(schema)].[jobs] SET priority = 0").await;
    denied(&mut session, "DELETE FROM [$(schema)].[jobs]").await;
    denied(&mut session, "INSERT [$(schema)].[schema_version] (version) VALUES (1)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_may_run_every_procedure_and_touch_no_table() {
    let fixture = Fixture::new("worker_role").await;
    let login = fixture.create_login(Some("worker")).await;
    let queue: Queue = fixture.connect_as(&login).await;
    queue.enqueue_many([NewJob::text("x"), NewJob::text("y")]).await.unwrap();
    let mut worker = WorkerSession::register_as(&fixture, &login).await;
    let job = worker.claim_one().await;
    assert_eq!(worker.finish(&[job.done()]).await, []);
    assert_eq!(queue.stats().await.unwrap().ready, 1);
    queue.pause().await.unwrap();
    queue.resume().await.unwrap();
    touches_no_table(&fixture, &login).await;
    let error = queue.install().await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error}");
    drop((queue, worker));
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_may_enqueue_and_nothing_else() {
    let fixture = Fixture::new("producer_role").await;
    let login = fixture.create_login(Some("producer")).await;
    let queue = fixture.connect_as(&login).await;
    queue.enqueue(NewJob::text("x")).await.unwrap();
    queue.enqueue_many([NewJob::text("y").dedup_key("k"), NewJob::text("z").dedup_key("k")]).await.unwrap();
    for error in [
        queue.stats().await.unwrap_err(),
        queue.pause().await.unwrap_err(),
        queue.requeue(None).await.unwrap_err(),
        queue.create(QueueOptions::default()).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::PermissionDenied { number: 229, .. }), "{error}");
    }
    let mut session = fixture.session_as(&login).await;
    denied(&mut session, "EXEC [$(schema)].[claim] @queue = N'work', @worker_id = NULL, @max = 1").await;
    touches_no_table(&fixture, &login).await;
    drop((queue, session));
    fixture.drop_login(&login).await;
    fixture.remove().await;
}
