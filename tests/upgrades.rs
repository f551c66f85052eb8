//! A made-up next version of the schema is installed over this release's, under the hands of its workers and producers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use readpast::transaction::enqueue_in;
use readpast::{Handlers, NewJob, Worker};

use crate::support::scripts::{assert_same, contents, numbered};
use crate::support::{Fixture, JobCounts, Session, WorkerSession, until};

/// The version that this release installs.
const VERSION: i32 = 1;
/// The one after it, which [`next_version`] makes up.
const NEXT: i32 = VERSION + 1;

const ENQUEUE: &str = "
    DECLARE @jobs [$(schema)].[enqueue_list];
    INSERT @jobs (ordinal, payload, priority, delay_ms, max_attempts, dedup_key, correlation_id, kind)
    VALUES (1, 0x01, 0, NULL, NULL, NULL, NULL, NULL),
           (2, 0x02, 0, NULL, NULL, N'done', NULL, 'render'),
           (3, 0x03, 0, NULL, 1, N'dead', NULL, NULL),
           (4, 0x04, 0, NULL, NULL, N'claimed', '00000000-0000-0000-0000-000000000004', 'price'),
           (5, 0x05, 5, NULL, 9, N'ready', NULL, 'render'),
           (6, 0x06, -3, 3600000, NULL, N'scheduled', NULL, 'price'),
           (7, 0x07, 7, NULL, NULL, NULL, '00000000-0000-0000-0000-000000000007', NULL);
    EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs;
    EXEC [$(schema)].[enqueue] @queue = N'filed', @text = N'archived', @dedup_key = N'archived';";

/// The rows that nobody touches any more, as they stand in the tables.
async fn rows(session: &mut Session) -> Vec<String> {
    let columns = "job_id, ' ', queue_id, ' ', priority, ' ', attempt, ' ', fence, ' ', enqueued_at, ' ', due_at, ' ', worker_id, ' ',
                   claimed_at, ' ', finished_at, ' ', run_us, ' ', correlation_id, ' ', kind COLLATE DATABASE_DEFAULT, ' ', dedup_key COLLATE DATABASE_DEFAULT, ' ', payload_utf16, ' ',
                   CONVERT(nvarchar(100), payload, 1), ' ', error, ' ', CONVERT(nvarchar(100), output, 1)";
    let sql = format!(
        "SELECT CONCAT(state, ' ', max_attempts, ' ', {columns}) AS line FROM [$(schema)].[jobs] WHERE job_id <= 8
         UNION ALL SELECT CONCAT('archived ', {columns}) FROM [$(schema)].[archive]"
    );
    let mut rows: Vec<String> =
        session.sql(&sql).await.iter().map(|row| row.get::<&str, _>("line").unwrap().to_string()).collect();
    rows.sort();
    rows
}

/// What an old program does again and again until it is told to stop, and how often it did.
struct Loop {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
}

impl Loop {
    fn new() -> Loop {
        Loop { stop: Arc::default(), rounds: Arc::default() }
    }

    fn handle(&self) -> Loop {
        Loop { stop: self.stop.clone(), rounds: self.rounds.clone() }
    }

    /// Notes a round; returns whether to go on.
    fn goes_on(&self) -> bool {
        self.rounds.fetch_add(1, Ordering::AcqRel);
        !self.stop.load(Ordering::Acquire)
    }

    fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Acquire)
    }

    async fn some_more_rounds(&self) {
        let wanted = self.rounds() + 5;
        until("some more rounds", || self.rounds() >= wanted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_is_upgraded_while_old_programs_work() {
    let mut fixture = Fixture::new("upgraded").await;
    let mut session = fixture.session().await;
    session.sql("UPDATE [$(schema)].[queues] SET completion = 'annotate' WHERE name = N'work'").await;
    session.sql("EXEC [$(schema)].[create_queue] @queue = N'filed', @completion = 'archive'").await;
    session.sql(ENQUEUE).await;

    // Jobs in every state.
    let mut old_worker = WorkerSession::register(&fixture).await;
    let jobs = old_worker.claim(4).await;
    let payloads: Vec<&[u8]> = jobs.iter().map(|job| job.payload.as_slice()).collect();
    assert_eq!(payloads, [[1], [2], [3], [4]]);
    let [held, done, dead, also_held] = <[_; 4]>::try_from(jobs).unwrap();
    assert_eq!(old_worker.finish(&[done.done(), dead.dead("for good")]).await, []);
    fixture.config.queue.name = "filed".to_string();
    let mut filing = WorkerSession::register(&fixture).await;
    let job = filing.claim_one().await;
    assert_eq!(filing.finish(&[job.done()]).await, []);
    fixture.config.queue.name = "work".to_string();
    // The ready ones wait behind those of the old producer.
    let before = rows(&mut session).await;
    let counts = JobCounts { ready: 2, scheduled: 1, claimed: 2, done: 1, dead: 1, cancelled: 0, archived: 1 };
    assert_eq!(fixture.job_counts().await, counts);

    // Old programs.
    let (producing, working) = (Loop::new(), Loop::new());
    let (producer, worker) = (producing.handle(), working.handle());
    let mut old_producer = fixture.session().await;
    let producer = tokio::spawn(async move {
        let mut enqueued = 0;
        while producer.goes_on() {
            old_producer.sql("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @priority = -10").await;
            enqueued += 1;
        }
        enqueued
    });
    let worker = tokio::spawn(async move {
        let mut finished = 0;
        while worker.goes_on() {
            let claimed = old_worker.claim(3).await;
            let (urgent, waiting): (Vec<_>, Vec<_>) = claimed.into_iter().partition(|job| job.priority == -10);
            let urgent: Vec<_> = urgent.iter().map(|job| job.done()).collect();
            finished += urgent.len() as i64;
            assert_eq!(old_worker.finish(&urgent).await, []);
            // Those were to be ready at the end.
            if !waiting.is_empty() {
                old_worker.release(&waiting).await;
            }
        }
        (finished, old_worker)
    });
    producing.some_more_rounds().await;
    working.some_more_rounds().await;

    session.script(&next_version()).await.unwrap();
    fixture.queue.admin().verify().await.unwrap();
    let versions = session.numbers("SELECT version FROM [$(schema)].[schema_version] ORDER BY version").await;
    assert_eq!(versions, [VERSION, NEXT].map(i64::from));

    // Both go on, and a new producer and a new worker beside them.
    producing.some_more_rounds().await;
    working.some_more_rounds().await;
    producing.stop.store(true, Ordering::Release);
    let enqueued: i64 = producer.await.unwrap();
    working.stop.store(true, Ordering::Release);
    let (finished, mut old_worker) = worker.await.unwrap();
    let left = fixture.job_counts().await;
    let untouched = rows(&mut session).await;
    // But for the two that the old worker has claimed and released meanwhile, nothing has changed.
    let others =
        |rows: &[String]| -> Vec<String> { rows.iter().filter(|row| !row.starts_with("0 ")).cloned().collect() };
    assert_eq!(others(&untouched), others(&before));
    assert_eq!((left.scheduled, left.claimed, left.dead, left.archived), (1, 2, 1, 1));
    assert_eq!((left.ready, left.done), (2 + enqueued - finished, 1 + finished));
    assert_eq!(old_worker.finish(&[held.done(), also_held.retry(0, "again")]).await, [], "it held them all the time");

    let extra = fixture.queue.enqueue(&NewJob::text("y").dedup_key("ready")).await.unwrap();
    assert!(extra.duplicate, "the keys still hold");
    fixture.queue.enqueue(&NewJob::text("y").kind("render")).await.unwrap();
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let monitor = worker.monitor();
    let wanted = (2 + enqueued - finished + 1 + 1) as u64;
    until("what is ready is done", || monitor.stats().done == wanted).await;
    worker.shutdown().await.unwrap();
    let counts = fixture.job_counts().await;
    assert_eq!((counts.ready, counts.scheduled, counts.claimed, counts.dead), (0, 1, 0, 1));
    drop((session, filing, old_worker));
    fixture.remove().await;
}

/// The roles' permissions come at the end of the scripts, after the procedures.
#[tokio::test(flavor = "multi_thread")]
async fn a_producer_may_enqueue_at_every_moment_of_an_upgrade() {
    let fixture = Fixture::new("producer").await;
    let mut session = fixture.session().await;
    let login = fixture.create_login(Some("producer")).await;
    let mut producer = fixture.session_as(&login).await;
    let mut enqueued = 0;
    for (name, script) in next_scripts() {
        session.script(&script).await.unwrap();
        let jobs = [NewJob::text("x"), NewJob::text("y")].map(|job| job.time_limit(Duration::from_secs(1)));
        let result = enqueue_in(&mut producer.client, fixture.schema(), "work", &jobs).await;
        enqueued += result.unwrap_or_else(|error| panic!("after {name}: {error}")).len() as i64;
    }
    assert_eq!(fixture.job_counts().await.ready, enqueued);
    drop((session, producer));
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

/// What a migration looks like (sql/README.md, "Versions"): a column and an index.
const MIGRATION: &str = "
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[schema_version] WHERE version >= 2)
BEGIN
    IF COL_LENGTH(N'[$(schema)].[jobs]', N'next_thing') IS NULL
        ALTER TABLE [$(schema)].[jobs] ADD next_thing int NULL;
    DECLARE @online nvarchar(12) = CASE WHEN CAST(SERVERPROPERTY(N'EngineEdition') AS int) IN (3, 5, 8) THEN N'ONLINE = ON' ELSE N'ONLINE = OFF' END;
    DECLARE @change nvarchar(max) = N'';
    IF INDEXPROPERTY(OBJECT_ID(N'[$(schema)].[archive]'), N'archive_by_number', 'IndexID') IS NULL
        SET @change = CONCAT(N'CREATE NONCLUSTERED INDEX archive_by_number ON [$(schema)].[archive] (queue_id, finished_at, job_id) WITH (', @online, N')');
    EXEC (@change);
END;
GO
";

/// The scripts of a version that does not exist yet: with a migration, and the version's number.
fn next_scripts() -> Vec<(String, String)> {
    let changed = |(name, text): (String, String)| {
        let text = match name.as_str() {
            "000_begin.sql" => text.replace(&format!("@installed > {VERSION}"), &format!("@installed > {NEXT}")),
            "990_end.sql" => text
                .replace(&format!("version = {VERSION})"), &format!("version = {NEXT})"))
                .replace(&format!("({VERSION}, 1)"), &format!("({NEXT}, {VERSION})")),
            _ => text,
        };
        (name, text)
    };
    let mut scripts: Vec<(String, String)> = numbered().into_iter().map(changed).collect();
    scripts.push(("080_migration_2.sql".to_string(), MIGRATION.to_string()));
    scripts.sort();
    scripts
}

/// The same as one text.
fn next_version() -> String {
    next_scripts().into_iter().map(|(_, text)| text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_runs_once_for_a_fresh_schema_and_once_for_an_old_one() {
    let is_there = "SELECT COUNT(*) FROM sys.indexes WHERE object_id = OBJECT_ID(N'[$(schema)].[archive]') AND name = N'archive_by_number'";
    let mut installed = Vec::new();
    for fixture in [Fixture::new("from_version_1").await, Fixture::not_installed("next_version").await] {
        let mut session = fixture.session().await;
        session.script(&next_version()).await.unwrap();
        assert_eq!(session.number(is_there).await, 1);
        let info = session.row("EXEC [$(schema)].[schema_info]").await;
        assert_eq!(info.get::<i32, _>("version"), Some(NEXT));
        assert_eq!(info.get::<i32, _>("min_compatible"), Some(VERSION));
        // This release goes on with it.
        assert_eq!(fixture.queue.admin().install().await.unwrap(), NEXT);
        installed.push(contents(&fixture, &mut session).await);
        // Installed is installed.
        session.sql("DROP INDEX archive_by_number ON [$(schema)].[archive]").await;
        session.script(&next_version()).await.unwrap();
        assert_eq!(session.number(is_there).await, 0);
        drop(session);
        fixture.remove().await;
    }
    assert_same(&installed[0], &installed[1], "from version 1");
}
