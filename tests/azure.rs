//! Azure SQL Database, as far as it differs from SQL Server by its documentation: the dev server is told to differ so.

use readpast::admin::{Check, QueueOptions};
use readpast::{Handlers, JobError, NewJob, Worker};
use readpast_devserver::{DevServer, Product};

use crate::support::scripts::all_t_sql;
use crate::support::{Fixture, text};

async fn azure() -> DevServer {
    DevServer::builder().product(Product::AZURE_SQL_DATABASE).start().await.unwrap()
}

// "In Azure SQL Database, DB_ID may not return the same value as the database_id column in sys.databases": "DB_ID"
// (MicrosoftDocs/sql-docs, docs/t-sql/functions/db-id-transact-sql.md).
#[tokio::test(flavor = "multi_thread")]
async fn installing_verifying_and_every_kind_of_work_need_no_id_of_the_database() {
    let server = azure().await;
    let fixture = Fixture::on(&server, "azure", QueueOptions::default()).await;
    let differ = "SELECT COUNT(*) FROM sys.databases WHERE name = DB_NAME() AND database_id <> DB_ID()";
    assert_eq!(fixture.session().await.number(differ).await, 1);

    let queue = fixture.connect().await;
    queue.admin().verify().await.unwrap();
    let findings = queue.admin().findings().await;
    let note = |check| findings.iter().find(|finding| finding.check == check).unwrap().note.clone().unwrap();
    assert_eq!(note(Check::RowVersions), "READ_COMMITTED_SNAPSHOT is on");
    assert_eq!(note(Check::Compatibility), "server version 12.0.2000.8, compatibility level 150");

    let jobs =
        [NewJob::text("a").header("tenant", "acme"), NewJob::text("b").group_key("g"), NewJob::text("c").kind("bad")];
    queue.enqueue_many(&jobs).await.unwrap();
    let handlers =
        Handlers::new().kind("bad", |_, _| Err::<(), _>(JobError::dead("no").into())).otherwise(|_, _| Ok(()));
    let stats = Worker::builder(&queue, handlers).start().await.unwrap().drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead), (2, 1));
    fixture.sql("EXEC [$(schema)].[sample] @queue = N'work'; EXEC [$(schema)].[expire] @queue = N'work'").await;
    fixture.sql("EXEC [$(schema)].[backlog] @queue = N'work'").await;
    queue.admin().pause().await.unwrap();
    queue.admin().resume().await.unwrap();
    assert_eq!(queue.admin().stats(None).await.unwrap().dead, 1);
    assert_eq!(queue.admin().workers(std::time::Duration::MAX).await.unwrap().len(), 1);
    // Who did it: ORIGINAL_LOGIN is NULL there.
    fixture
        .sql("EXEC [$(schema)].[begin_audit] @who = N'x', @action = N'pause', @queue = N'work', @what = N'{}'")
        .await;
    let audited =
        fixture.session().await.row("SELECT TOP (1) login FROM [$(schema)].[audit] ORDER BY audit_id DESC").await;
    assert_eq!(text(&audited, "login").as_deref(), Some("dbo"));

    queue.admin().uninstall().await.unwrap();
    fixture.queue.admin().install().await.unwrap();
    fixture.remove().await;
}

/// What Azure SQL Database refuses, or answers otherwise. Sources: "DB_ID" and "USE" (docs/t-sql/), as above;
/// "Resolving Transact-SQL differences": no names of other databases, no Agent. DB_ID may tell databases of one session
/// apart, but not be compared with a database_id.
const NOT_THERE: [&str; 7] =
    [".DATABASE_ID", "RECOVERY_STATUS", "\nUSE ", "MASTER.", "MSDB", "SYS.SERVER_", "SYS.SYSDATABASES"];

/// From here to the next END, only SQL Server itself runs a script.
const NOT_IN_AZURE: &str = "IF CAST(SERVERPROPERTY(N'EngineEdition') AS int) NOT IN (5, 8)";

#[test]
fn no_script_needs_what_is_not_there() {
    let scripts = all_t_sql();
    assert!(scripts.len() > 100, "{}", scripts.len());
    for (name, text) in scripts {
        let code: String =
            text.lines().map(|line| format!("\n{}", line.split("--").next().unwrap_or_default())).collect();
        let code = match code.split_once(NOT_IN_AZURE) {
            Some((before, after)) => before.to_owned() + after.split_once("END;").unwrap().1,
            None => code,
        };
        for absent in NOT_THERE {
            assert!(!code.to_uppercase().contains(absent), "{name} has {absent}");
        }
    }
}
