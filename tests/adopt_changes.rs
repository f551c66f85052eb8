//! An adoption over time: installed twice, compared with a table that has changed, made ready by hand, given back,
//! removed.

use std::time::Duration;

use readpast::admin::{JobChange, JobState};
use readpast::{Error, Handlers, Worker};
use readpast_devserver::DevServer;

use crate::adopted::{
    FOUR_QUEUE, OUTBOX, SIMPLE_QUEUE, STATUS_QUEUE, STATUS_QUEUE_INDEXES, TABLES_AS_QUEUES, adopted, adopted_with,
    catalog, example,
};
use crate::support::{Fixture, WorkerSession, literal, number, text};

#[tokio::test(flavor = "multi_thread")]
async fn the_same_table_gives_the_same_script_and_installing_twice_is_harmless() {
    let (fixture, adoption) = adopted("adopt_twice", OUTBOX, "outbox.toml").await;
    let mapping = example("outbox.toml");
    let mut session = fixture.session().await;
    session.sql("INSERT Outbox (type, payload) VALUES (N'a', N'1'), (N'a', N'2')").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(1).await;
    let again = readpast_adopt::adopt(&fixture.queue, &mapping).await.unwrap();
    assert_eq!(adoption.script(), again.script());
    let hints = "WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX ([outbox_unprocessed]))";
    assert!(again.script().contains(&format!("FROM [dbo].[Outbox] AS t\n        {hints}")));
    assert!(!again.script().contains("/*{"), "every mark is filled in");
    let done: Vec<_> = claimed.iter().map(|job| job.done()).collect();
    assert_eq!(worker.finish(&done).await, [], "what was claimed before is still this worker's");
    // The script is what is installed: run as a client does, it changes nothing.
    session.script(&again.script()).await.unwrap();
    assert_eq!(readpast_adopt::check(&fixture.queue).await.unwrap().changes, Vec::<String>::new());
    assert_eq!(
        readpast_adopt::mapping(&fixture.queue).await.unwrap().trim(),
        std::fs::read_to_string("examples/adopt/outbox.toml").unwrap().trim()
    );

    // Our own installation must not put its procedures in place of these.
    let version = fixture.queue.admin().install().await.unwrap();
    assert!(version > 0, "nothing to do");
    session.sql("DELETE [$(schema)].[schema_version]").await;
    let refusal = fixture.queue.admin().install().await.unwrap_err();
    assert!(matches!(refusal, Error::Refused { .. }) && refusal.to_string().contains("adopts a table"), "{refusal}");
    readpast_adopt::adopt(&fixture.queue, &mapping).await.unwrap();
    drop((session, worker));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_with_queues_of_its_own_is_not_adopted_into() {
    let fixture = Fixture::in_own_database("adopt_into").await;
    fixture.queue.admin().install().await.unwrap();
    fixture.queue.admin().create(readpast::admin::QueueOptions::default()).await.unwrap();
    let mut session = fixture.session().await;
    session.script(OUTBOX).await.unwrap();
    let refusal = readpast_adopt::adopt(&fixture.queue, &example("outbox.toml")).await.unwrap_err();
    assert!(
        matches!(refusal, readpast_adopt::Error::Readpast(Error::Refused { .. }))
            && refusal.to_string().contains("queues of its own"),
        "{refusal}"
    );
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_table_is_noticed() {
    let (fixture, _) = adopted("adopt_check", SIMPLE_QUEUE, "simple-queue.toml").await;
    assert!(readpast_adopt::check(&fixture.queue).await.unwrap().is_ok());
    let mut session = fixture.session().await;
    session
        .sql(
            "ALTER TABLE SimpleQueue ALTER COLUMN Errors nvarchar(100) NULL; ALTER TABLE SimpleQueue ADD Extra int NULL;
             ALTER TABLE SimpleQueue ADD CONSTRAINT extra_is_one CHECK (Extra = 1)",
        )
        .await;
    let found = readpast_adopt::check(&fixture.queue).await.unwrap();
    assert_eq!(found.refusal, None, "it can be adopted again");
    assert_eq!(found.changes.len(), 3, "{:?}", found.changes);
    assert!(
        found.changes[0].contains("column Errors was nvarchar(max)") && found.changes[0].contains("is nvarchar(100)"),
        "{:?}",
        found.changes
    );
    assert!(found.changes[1].contains("column Extra is new: int null"), "{:?}", found.changes);
    assert!(found.changes[2].contains("the check constraint extra_is_one is new"), "{:?}", found.changes);
    readpast_adopt::adopt(&fixture.queue, &example("simple-queue.toml")).await.unwrap();
    assert!(readpast_adopt::check(&fixture.queue).await.unwrap().is_ok());

    session.sql("DROP INDEX IX_SIMPLEQUEUE_POP ON SimpleQueue").await;
    let found = readpast_adopt::check(&fixture.queue).await.unwrap();
    assert!(
        found.changes[0].contains("index IX_SIMPLEQUEUE_POP") && found.changes[0].contains("is gone"),
        "{:?}",
        found.changes
    );
    assert!(found.refusal.unwrap().contains("CREATE INDEX"));
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_was_not_started_goes_back_as_it_was() {
    let (fixture, _) = adopted("adopt_release", SIMPLE_QUEUE, "simple-queue.toml").await;
    let mut session = fixture.session().await;
    session
        .sql(
            "INSERT SimpleQueue (Id, CreatedAt, Errors, Payload) SELECT NEWID(), SYSUTCDATETIME(), N'before', N'x' \
                 FROM (VALUES (1), (2), (3)) AS v (n)",
        )
        .await;
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(10).await;
    assert_eq!(claimed.len(), 3);
    let taken = "SELECT COUNT(*) FROM SimpleQueue WHERE ProcessingStartedAt IS NOT NULL";
    assert_eq!(session.number(taken).await, 3, "marked for everybody else");
    let lost = worker.release(&claimed).await;
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(session.number(taken).await, 0);
    assert_eq!(session.number("SELECT COUNT(*) FROM SimpleQueue WHERE Errors = N'before'").await, 3);
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[jobs]").await, 0);
    assert_eq!(worker.release(&claimed).await.len(), 3, "given back already");

    // A job that has failed is held until it ends.
    let claimed = worker.claim(1).await;
    worker.finish(&[claimed[0].retry(0, "not yet")]).await;
    let again = worker.claim(1).await;
    assert_eq!(
        (again[0].job_id, again[0].fence, again[0].attempt),
        (claimed[0].job_id, 2, 2),
        "what is held comes first"
    );
    worker.release(&again).await;
    assert_eq!(session.number(taken).await, 1);
    assert_eq!(fixture.job_counts().await.ready, 1);
    drop((session, worker));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_made_ready_by_hand_is_taken_over_under_a_new_fence() {
    let (fixture, _) = adopted("adopt_take_over", SIMPLE_QUEUE, "simple-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT SimpleQueue (Id, CreatedAt, Payload) VALUES (NEWID(), SYSUTCDATETIME(), N'one')").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = worker.claim(10).await.remove(0);
    // Somebody thinks that it takes too long, and changes it.
    session.sql("UPDATE SimpleQueue SET ProcessingStartedAt = NULL, Payload = N'two'").await;
    let second = worker.claim(10).await.remove(0);
    assert_eq!((second.job_id, second.fence, second.attempt), (first.job_id, first.fence + 1, 1));
    assert_eq!(second.payload, "two".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>());
    let lost = worker.finish(&[first.done()]).await;
    assert_eq!(lost.len(), 1, "the run before says nothing any more");
    assert_eq!(session.number("SELECT COUNT(*) FROM SimpleQueue").await, 1);
    worker.finish(&[second.dead("no use")]).await;

    // A dead one as well.
    session.sql("UPDATE SimpleQueue SET ProcessingStartedAt = NULL").await;
    let third = worker.claim(10).await.remove(0);
    assert_eq!((third.job_id, third.fence, third.attempt), (first.job_id, first.fence + 2, 1));
    assert_eq!(worker.finish(&[third.done()]).await, []);
    assert_eq!(session.number("SELECT COUNT(*) FROM SimpleQueue").await, 0);
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[jobs]").await, 0);
    drop((session, worker));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_lost_workers_and_cancelled_ones_are_told_to_their_table() {
    let (fixture, _) = adopted("adopt_lost", SIMPLE_QUEUE, "simple-queue.toml").await;
    let mut session = fixture.session().await;
    session
        .sql(
            "INSERT SimpleQueue (Id, CreatedAt, Payload) SELECT NEWID(), SYSUTCDATETIME(), N'x' FROM (VALUES (1), \
                 (2)) AS v (n)",
        )
        .await;
    let mut first = WorkerSession::register(&fixture).await;
    assert_eq!(first.claim(10).await.len(), 2);
    first.lose(&fixture).await;
    let lost = "SELECT COUNT(*) FROM SimpleQueue WHERE Errors LIKE N'%was lost%' AND ProcessingStartedAt IS NOT NULL";
    assert_eq!(session.number(lost).await, 2, "they are held, and say why");
    assert_eq!(fixture.job_counts().await.ready, 2);

    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim(1).await.remove(0);
    assert_eq!((job.fence, job.attempt), (2, 2));
    fixture.queue.admin().change(&JobChange::cancel("not wanted"), readpast::JobId(job.job_id)).await.unwrap();
    worker.release([&job]).await;
    assert_eq!(
        session.number("SELECT COUNT(*) FROM SimpleQueue WHERE Errors LIKE N'cancelled by %not wanted'").await,
        1
    );
    assert_eq!(fixture.job_counts().await.cancelled, 1);
    drop((session, worker, first));
    fixture.remove().await;
}

/// Ownership chaining: the procedures and the table belong to dbo, so the right to execute is enough.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_needs_no_right_on_the_table() {
    let (fixture, _) = adopted("adopt_roles", SIMPLE_QUEUE, "simple-queue.toml").await;
    let mut session = fixture.session().await;
    session
        .sql(
            "INSERT SimpleQueue (Id, CreatedAt, Payload) SELECT NEWID(), SYSUTCDATETIME(), N'x' FROM (VALUES (1), \
                 (2), (3)) AS v (n)",
        )
        .await;
    let login = fixture.create_login(Some("worker")).await;
    let mut worker = WorkerSession::register_as(&fixture, &login).await;
    assert!(worker.session.try_sql("SELECT Id FROM SimpleQueue").await.is_err());
    let claimed = worker.claim(3).await;
    assert_eq!(claimed.len(), 3);
    worker.finish(&[claimed[0].done(), claimed[1].dead("no")]).await;
    assert_eq!(session.number("SELECT COUNT(*) FROM SimpleQueue WHERE Errors = N'no'").await, 1);
    worker.release([&claimed[2]]).await;
    assert_eq!(session.number("SELECT COUNT(*) FROM SimpleQueue WHERE ProcessingStartedAt IS NULL").await, 1);
    drop((session, worker));
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_show_which_row_they_are() {
    let (fixture, _) = adopted("adopt_shown", OUTBOX, "outbox.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT Outbox (type, payload) VALUES (N'ordered', N'{\"n\":1}')").await;
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().ready, 1);
    let backlog = "EXEC [$(schema)].[backlog] @queue = N'outbox'";
    assert_eq!(session.number(backlog).await, 1, "an autoscaler starts a worker");
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim(1).await.remove(0);
    let shown = fixture.queue.admin().job(readpast::JobId(job.job_id), None).await.unwrap().unwrap();
    assert_eq!((shown.state, shown.kind.as_deref()), (JobState::Claimed, Some("ordered")));
    assert_eq!(serde_json::to_value(&shown.headers).unwrap()["id"], "1");
    drop((session, worker));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_it_leaves_the_table_as_it_was() {
    for (name, tables, mapping, add, rows) in [
        (
            "adopt_removed_simple",
            SIMPLE_QUEUE.to_string(),
            "simple-queue.toml",
            "INSERT SimpleQueue (Id, CreatedAt, Payload) SELECT NEWID(), SYSUTCDATETIME(), CONCAT(N'row ', value) FROM \
             GENERATE_SERIES(1, 20)",
            "SELECT CONCAT(Id, ' ', CreatedAt, ' ', ProcessingStartedAt, ' ', Payload) AS line FROM SimpleQueue ORDER \
             BY Id",
        ),
        (
            "adopt_removed_status",
            format!("{STATUS_QUEUE}GO\n{STATUS_QUEUE_INDEXES}"),
            "status-queue.toml",
            "INSERT [Queue] (Status, Message) SELECT 1, 0x01 FROM GENERATE_SERIES(1, 20)",
            "SELECT CONCAT(Id, ' ', Status) AS line FROM [Queue] ORDER BY Id",
        ),
        (
            "adopt_removed_fifo",
            TABLES_AS_QUEUES.to_string(),
            "fifo-queue.toml",
            "INSERT FifoQueue (Payload) SELECT CAST(value AS varbinary(max)) FROM GENERATE_SERIES(1, 20)",
            "SELECT CONCAT(Id, ' ', CONVERT(varchar(20), Payload, 1)) AS line FROM FifoQueue ORDER BY Id",
        ),
    ] {
        let fixture = Fixture::in_own_database(name).await;
        let mut session = fixture.session().await;
        session.script(&tables).await.unwrap();
        session.sql(add).await;
        let before = catalog(&mut session).await;
        let lines = |rows: Vec<tiberius::Row>| rows.iter().map(|row| text(row, "line").unwrap()).collect::<Vec<_>>();
        let rows_before = lines(session.sql(rows).await);
        let mapping = example(mapping);
        let mut fixture = fixture;
        fixture.config.queue.name = mapping.queue().to_string();
        fixture.queue = fixture.connect().await;
        readpast_adopt::adopt(&fixture.queue, &mapping).await.unwrap();

        let mut worker = WorkerSession::register(&fixture).await;
        let claimed = worker.claim(8).await;
        worker.finish(&[claimed[0].retry(3_600_000, "later")]).await;
        assert_ne!(lines(session.sql(rows).await), rows_before, "{name}: eight rows are held");
        let refusal = readpast_adopt::remove(&fixture.queue).await.unwrap_err();
        assert!(refusal.to_string().contains("running"), "{refusal}");
        let unregister = "EXEC [$(schema)].[unregister_worker] @queue =";
        session.sql(&format!("{unregister} {}, @worker_id = '{}'", literal(mapping.queue()), worker.id)).await;
        readpast_adopt::remove(&fixture.queue).await.unwrap();

        assert_eq!(lines(session.sql(rows).await), rows_before, "{name}");
        assert_eq!(catalog(&mut session).await, before, "{name}");
        assert!(matches!(
            readpast_adopt::check(&fixture.queue).await,
            Err(readpast_adopt::Error::Readpast(Error::NotInstalled { .. }))
        ));
        drop((session, worker));
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_of_our_own_does_not_replace_the_procedures_of_an_adoption() {
    let (fixture, _) = adopted("adopt_guarded", SIMPLE_QUEUE, "simple-queue.toml").await;
    let mut session = fixture.session().await;
    let error = session.script(&readpast::admin::install_script(fixture.schema()).unwrap()).await.unwrap_err();
    assert_eq!(error.code(), Some(58003), "{error}");
    let claim = "SELECT COUNT(*) FROM sys.sql_modules WHERE object_id = OBJECT_ID(N'[$(schema)].[claim]') AND definition LIKE N'%SimpleQueue%'";
    assert_eq!(session.number(claim).await, 1);
    readpast_adopt::adopt(&fixture.queue, &example("simple-queue.toml")).await.unwrap();
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uninstalling_loses_no_row_that_is_held() {
    let (fixture, _) = adopted("adopt_uninstall", TABLES_AS_QUEUES, "fifo-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT FifoQueue (Payload) VALUES (0x01), (0x02)").await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim(1).await.len(), 1);
    worker.lose(&fixture).await;
    let refusal = fixture.queue.admin().uninstall().await.unwrap_err();
    assert!(matches!(refusal, Error::Refused { .. }) && refusal.to_string().contains("--remove"), "{refusal}");
    let script = readpast::admin::uninstall_script(fixture.schema()).unwrap();
    assert_eq!(session.script(&script).await.unwrap_err().code(), Some(58003));
    readpast_adopt::remove(&fixture.queue).await.unwrap();
    assert_eq!(session.numbers("SELECT Id FROM FifoQueue ORDER BY Id").await, [1, 2]);
    assert_eq!(session.number("SELECT COUNT(*) FROM sys.schemas WHERE name = N'$(schema)'").await, 0);
    drop((session, worker));
    fixture.remove().await;
}

/// All of it, or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn removing_changes_nothing_where_a_role_has_a_member() {
    let (fixture, _) = adopted("adopt_member", SIMPLE_QUEUE, "simple-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT SimpleQueue (Id, CreatedAt, Payload) VALUES (NEWID(), SYSUTCDATETIME(), N'x')").await;
    let login = fixture.create_login(Some("worker")).await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim(1).await.len(), 1);
    worker.lose(&fixture).await;
    let refusal = readpast_adopt::remove(&fixture.queue).await.unwrap_err();
    assert!(refusal.to_string().contains("have members"), "{refusal}");
    let taken = "SELECT COUNT(*) FROM SimpleQueue WHERE ProcessingStartedAt IS NOT NULL";
    assert_eq!(session.number(taken).await, 1, "it is held as before");
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[jobs]").await, 1);
    assert!(readpast_adopt::check(&fixture.queue).await.unwrap().is_ok());
    fixture.drop_login(&login).await;
    readpast_adopt::remove(&fixture.queue).await.unwrap();
    assert_eq!(session.number(taken).await, 0);
    drop((session, worker));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adoption_is_removed_from_a_table_that_could_not_be_adopted_any_more() {
    let (fixture, _) = adopted("adopt_not_now", SIMPLE_QUEUE, "simple-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT SimpleQueue (Id, CreatedAt, Payload) VALUES (NEWID(), SYSUTCDATETIME(), N'x')").await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim(1).await.len(), 1);
    worker.lose(&fixture).await;
    session.sql("DROP INDEX IX_SIMPLEQUEUE_POP ON SimpleQueue; EXEC sp_rename N'dbo.SimpleQueue.Payload', N'Body', N'COLUMN'").await;
    assert!(readpast_adopt::check(&fixture.queue).await.unwrap().refusal.is_some());
    readpast_adopt::remove(&fixture.queue).await.unwrap();
    assert_eq!(session.number("SELECT COUNT(*) FROM SimpleQueue WHERE ProcessingStartedAt IS NULL").await, 1);
    drop((session, worker));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adoption_of_a_table_that_is_gone_is_removed_only_if_that_is_said() {
    let (fixture, _) = adopted("adopt_gone", SIMPLE_QUEUE, "simple-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT SimpleQueue (Id, CreatedAt, Payload) VALUES (NEWID(), SYSUTCDATETIME(), N'x')").await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim(1).await.len(), 1);
    worker.lose(&fixture).await;
    session.sql("DROP TABLE SimpleQueue").await;
    let refusal = readpast_adopt::remove(&fixture.queue).await.unwrap_err();
    assert!(
        matches!(refusal, readpast_adopt::Error::Readpast(Error::Refused { .. }))
            && refusal.to_string().contains("--force"),
        "{refusal}"
    );
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[jobs]").await, 1);
    readpast_adopt::abandon(&fixture.queue).await.unwrap();
    assert_eq!(session.number("SELECT COUNT(*) FROM sys.schemas WHERE name = N'$(schema)'").await, 0);
    drop((session, worker));
    fixture.remove().await;
}

/// The worker comes between the look for workers and the removal: what it would take stays in the table.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_beside_the_removal_takes_nothing() {
    let (fixture, _) = adopted("adopt_race", TABLES_AS_QUEUES, "fifo-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT FifoQueue (Payload) SELECT 0x01 FROM GENERATE_SERIES(1, 50)").await;
    let mut worker = WorkerSession::register(&fixture).await;
    // Its lease has run out by the clock, and it does not know.
    session.sql("UPDATE [$(schema)].[workers] SET lease_until = '20200101'").await;
    // The removal waits for this lock when it has the table of the jobs.
    let mut blocker = fixture.session().await;
    blocker.sql("BEGIN TRANSACTION; UPDATE [$(schema)].[workers] SET name = name").await;
    let (removed, claimed) = tokio::join!(readpast_adopt::remove(&fixture.queue), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let (claimed, ()) = tokio::join!(worker.try_claim(10), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            blocker.sql("COMMIT TRANSACTION").await;
        });
        claimed
    });
    removed.unwrap();
    assert!(claimed.is_err(), "{:?}", claimed.map(|jobs| jobs.len()));
    assert_eq!(session.number("SELECT COUNT(*) FROM FifoQueue").await, 50);
    drop((session, blocker, worker));
    fixture.remove().await;
}

/// What `jobs` keeps of a row is another with each of these: of the key, of what is set, of the whole row.
#[tokio::test(flavor = "multi_thread")]
async fn another_mapping_is_installed_only_while_there_are_no_jobs() {
    let tables =
        "CREATE TABLE Tasks (id int NOT NULL PRIMARY KEY, other uniqueidentifier NOT NULL UNIQUE DEFAULT NEWID(),
                                      state int NOT NULL DEFAULT 0, note int NULL, body nvarchar(max) NULL);
                  CREATE INDEX tasks_ready ON Tasks (state, id);";
    let written = |key: &str, claim: &str| {
        format!(
            "table = \"Tasks\"\n{key}payload = \"body\"\norder = \"id\"\nready = \"state = 0\"\n\
             [claim]\n{claim}\n[done]\ndelete = true\n"
        )
    };
    let mapping = |key: &str, claim: &str| readpast_adopt::Mapping::from_toml(&written(key, claim)).unwrap();
    let first = mapping("key = \"id\"\n", "set = { state = 1 }");
    let noted = mapping("key = \"id\"\n", "set = { state = 1, note = 2 }");
    let (fixture, _) = adopted_with("adopt_anew", tables, &first).await;
    let mut session = fixture.session().await;
    let columns = "SELECT CONCAT(c.name, ' ', t.name) AS line FROM sys.columns AS c INNER JOIN sys.types AS t ON t.user_type_id = c.user_type_id
                   WHERE c.object_id = OBJECT_ID(N'[$(schema)].[jobs]') AND c.name LIKE N'their%' ORDER BY c.name";
    let changed = [
        (mapping("key = \"other\"\n", "set = { state = 1 }"), vec!["their_other uniqueidentifier", "their_state int"]),
        (
            mapping("key = \"other\"\n", "set = { state = 1, note = 2 }"),
            vec!["their_note int", "their_other uniqueidentifier", "their_state int"],
        ),
        (
            mapping("", "delete = true"),
            vec![
                "their_body nvarchar",
                "their_id int",
                "their_note int",
                "their_other uniqueidentifier",
                "their_state int",
            ],
        ),
        (noted.clone(), vec!["their_id int", "their_note int", "their_state int"]),
    ];
    for (number, (mapping, kept)) in changed.iter().enumerate() {
        session.sql("INSERT Tasks (id, body) VALUES (1, N'x')").await;
        let mut worker = WorkerSession::register(&fixture).await;
        let job = worker.claim(10).await.remove(0);
        let refusal = readpast_adopt::adopt(&fixture.queue, mapping).await.unwrap_err();
        assert!(
            matches!(refusal, readpast_adopt::Error::Readpast(Error::Refused { .. }))
                && refusal.to_string().contains("has jobs"),
            "{number}: {refusal}"
        );
        assert_eq!(worker.finish(&[job.done()]).await, [], "{number}: what was installed goes on");
        assert_eq!(session.number("SELECT COUNT(*) FROM Tasks").await, 0, "{number}");
        let refusal = readpast_adopt::adopt(&fixture.queue, mapping).await.unwrap_err();
        assert!(refusal.to_string().contains("running"), "{number}: {refusal}");
        worker.lose(&fixture).await;
        readpast_adopt::adopt(&fixture.queue, mapping).await.unwrap_or_else(|error| panic!("{number}: {error}"));
        let found: Vec<String> = session.sql(columns).await.iter().map(|row| text(row, "line").unwrap()).collect();
        assert_eq!(found, *kept, "{number}");
    }

    // A column that has grown, too: a value that fits now would not fit where it is kept.
    session.sql("ALTER TABLE Tasks ALTER COLUMN note bigint NULL; INSERT Tasks (id, body) VALUES (1, N'x')").await;
    let mut worker = WorkerSession::register(&fixture).await;
    worker.claim(1).await;
    let refusal = readpast_adopt::adopt(&fixture.queue, &noted).await.unwrap_err();
    assert!(refusal.to_string().contains("has jobs"), "{refusal}");
    drop((session, worker));
    fixture.remove().await;
}

/// A script that was printed for one table runs beside another of that name, which differs.
#[tokio::test(flavor = "multi_thread")]
async fn a_printed_script_is_refused_where_the_table_is_another() {
    let fixture = Fixture::in_own_database("adopt_printed").await;
    let mut session = fixture.session().await;
    session.script(FOUR_QUEUE).await.unwrap();
    let mut config = fixture.config.clone();
    config.connection.schema = "four".to_string();
    let queue = readpast::Queue::connect(&config).await.unwrap();
    let script = readpast_adopt::plan(&queue, &example("four-queue.toml")).await.unwrap().script();
    drop(queue);
    let schemas = "SELECT COUNT(*) FROM sys.schemas WHERE name = N'four'";
    let index = "CREATE INDEX other ON four_queue (reputation)";
    for (change, undo, says) in [
        (
            "ALTER TABLE four_queue ALTER COLUMN app_server nvarchar(60) NULL",
            "ALTER TABLE four_queue ALTER COLUMN app_server sysname NULL",
            "column app_server",
        ),
        ("ALTER TABLE four_queue ADD extra int NULL", "ALTER TABLE four_queue DROP COLUMN extra", "column extra int"),
        (
            "CREATE TRIGGER four_told ON four_queue AFTER INSERT AS RETURN",
            "DROP TRIGGER four_told",
            "trigger four_told is new",
        ),
        (
            "DROP INDEX fq_uq_r ON four_queue",
            "CREATE UNIQUE INDEX fq_uq_r ON four_queue (reputation)",
            "unique index on the key is not there",
        ),
    ] {
        session.sql(change).await;
        let error = session.script(&script).await.unwrap_err();
        assert_eq!(error.code(), Some(58003), "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert_eq!(session.number(schemas).await, 0, "nothing is done");
        session.sql(undo).await;
    }
    // An index more is no difference, nor another name for the clustered one, which the procedures have by its number.
    session.sql(index).await;
    session.sql("ALTER TABLE four_queue DROP CONSTRAINT big_idea").await;
    session.sql("ALTER TABLE four_queue ADD CONSTRAINT made_anew PRIMARY KEY CLUSTERED (in_process, id)").await;
    session.script(&script).await.unwrap();
    assert_eq!(session.number(schemas).await, 1);
    session.sql("DECLARE @found bit; EXEC four.look @queue_id = 1, @found = @found OUTPUT").await;
    drop(session);
    fixture.remove().await;
}

/// The only copy of a row does not go after a time.
#[tokio::test(flavor = "multi_thread")]
async fn dead_rows_of_a_table_whose_claims_delete_do_not_expire() {
    let (fixture, _) = adopted("adopt_keep_dead", TABLES_AS_QUEUES, "fifo-queue.toml").await;
    let mut session = fixture.session().await;
    let set = "EXEC [$(schema)].[create_queue] @queue = N'FifoQueue', @keep_dead_s =";
    let (number, message) = session.refusal(&format!("{set} 60")).await;
    assert!(number == 58003 && message.contains("only copy"), "{number} {message}");
    session.sql(&format!("{set} 0")).await;
    drop(session);
    fixture.remove().await;

    let (fixture, _) = adopted("adopt_keep_dead_set", SIMPLE_QUEUE, "simple-queue.toml").await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'SimpleQueue', @keep_dead_s = 60").await;
    fixture.remove().await;
}

/// With the article's index, a claim reads what it takes: an entry of the index and its row, for each.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_a_large_table_reads_what_it_takes() {
    a_claim_reads_what_it_takes(100_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute"]
async fn a_claim_of_a_million_rows_reads_what_it_takes() {
    a_claim_reads_what_it_takes(1_000_000).await;
}

async fn a_claim_reads_what_it_takes(rows: usize) {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "adopt_large", readpast::admin::QueueOptions::default()).await;
    let mut session = fixture.session().await;
    session.script(SIMPLE_QUEUE).await.unwrap();
    for begin in (0..rows).step_by(50_000) {
        session
            .sql(&format!(
                "INSERT SimpleQueue (Id, CreatedAt, Payload)
                 SELECT NEWID(), DATEADD(SECOND, {begin} + value, '20260101'), N'x' FROM GENERATE_SERIES(1, 50000)"
            ))
            .await;
    }
    let mut config = fixture.config.clone();
    let mapping = example("simple-queue.toml");
    config.connection.schema = "simple_queue".to_string();
    config.queue.name = mapping.queue().to_string();
    let queue = readpast::Queue::connect(&config).await.unwrap();
    readpast_adopt::adopt(&queue, &mapping).await.unwrap();
    let id = uuid::Uuid::new_v4();
    session
        .sql(&format!(
            "EXEC simple_queue.register_worker @queue = N'SimpleQueue', @worker_id = '{id}', @name = \
                          N'test', @lease_ms = 600000"
        ))
        .await;
    let claim = format!("EXEC simple_queue.claim @queue = {}, @worker_id = '{id}', @max = 500", literal("SimpleQueue"));
    let mut entries = Vec::new();
    for _ in 0..4 {
        let before = server.entries_read();
        let results = session.try_sql(&claim).await.unwrap();
        entries.push(server.entries_read() - before);
        let jobs: Vec<i64> = results.iter().flatten().map(|row| number(row, "job_id")).collect();
        assert_eq!(jobs.len(), 500);
    }
    println!("a claim of 500 out of {rows} reads {entries:?} entries");
    // The first of them also looks for the queue, the worker and so on, as all of them do: a few entries.
    assert!(entries.iter().all(|entries| *entries <= 1_020), "{entries:?}");
    drop(session);
}

/// Retries wait in the adoption, and the worker's drain waits for them.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_for_what_is_held() {
    let (fixture, _) = adopted("adopt_drain", SIMPLE_QUEUE, "simple-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT SimpleQueue (Id, CreatedAt, Payload) VALUES (NEWID(), SYSUTCDATETIME(), N'x')").await;
    let handler = |job: &readpast::Job, _: &readpast::Context| -> Result<(), readpast::BoxError> {
        if job.attempt() < 3 { Err("not yet".into()) } else { Ok(()) }
    };
    let worker = Worker::builder(&fixture.queue, Handlers::any(handler)).start().await.unwrap();
    let summary = tokio::time::timeout(Duration::from_secs(60), worker.drain()).await.unwrap().unwrap();
    assert_eq!((summary.stats.done, summary.stats.retried), (1, 2));
    assert_eq!(session.number("SELECT COUNT(*) FROM SimpleQueue").await, 0);
    drop(session);
    fixture.remove().await;
}
