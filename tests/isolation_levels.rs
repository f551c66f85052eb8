//! Callers that have set an isolation level of their own: READPAST is refused under SERIALIZABLE and SNAPSHOT (650),
//! and procedures bring their own level.
//!
//! Source: "Table hints", READPAST (MicrosoftDocs/sql-docs, docs/t-sql/queries/hints-transact-sql-table.md).

use std::collections::{HashMap, HashSet};

use readpast::admin::QueueOptions;
use uuid::Uuid;

use crate::support::Fixture;
use crate::support::scripts::numbered;

const LEVELS: [&str; 5] = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SNAPSHOT", "SERIALIZABLE"];

/// A life of two jobs, and what workers do beside it. `$(worker)` stands for a worker's id.
const CALLS: [&str; 15] = [
    "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'a', @dedup_key = N'k'",
    "DECLARE @jobs [$(schema)].[enqueue_list]; INSERT @jobs (ordinal, text) VALUES (1, N'b'), (2, N'c');
     EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs",
    "EXEC [$(schema)].[register_worker] @queue = N'work', @worker_id = '$(worker)', @name = N'w', @lease_ms = 60000",
    "EXEC [$(schema)].[claim] @queue = N'work', @worker_id = '$(worker)', @max = 2",
    "EXEC [$(schema)].[heartbeat] @worker_id = '$(worker)'",
    "DECLARE @jobs [$(schema)].[finish_list];
     INSERT @jobs (job_id, fence, outcome) SELECT TOP (1) job_id, fence, 0 FROM [$(schema)].[jobs] WITH (READCOMMITTED) WHERE state = 2;
     EXEC [$(schema)].[finish] @queue = N'work', @worker_id = '$(worker)', @jobs = @jobs",
    "DECLARE @jobs [$(schema)].[job_list];
     INSERT @jobs (job_id, fence) SELECT job_id, fence FROM [$(schema)].[jobs] WITH (READCOMMITTED) WHERE state = 2;
     EXEC [$(schema)].[release] @worker_id = '$(worker)', @jobs = @jobs",
    "EXEC [$(schema)].[promote] @queue = N'work'",
    "EXEC [$(schema)].[reap] @queue = N'work'",
    "EXEC [$(schema)].[sample] @queue = N'work'",
    "EXEC [$(schema)].[expire] @queue = N'work'",
    "EXEC [$(schema)].[unfinished] @queue = N'work'",
    "EXEC [$(schema)].[stats] @queue = N'work'",
    "EXEC [$(schema)].[backlog] @queue = N'work'",
    "EXEC [$(schema)].[unregister_worker] @queue = N'work', @worker_id = '$(worker)'",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_s_isolation_level_changes_nothing() {
    let fixture = Fixture::in_own_database("isolation").await;
    fixture.queue.admin().install().await.unwrap();
    fixture.queue.admin().create(QueueOptions::default()).await.unwrap();
    fixture.sql("ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON").await;
    for level in LEVELS {
        let mut session = fixture.session().await;
        session.sql(&format!("SET TRANSACTION ISOLATION LEVEL {level}")).await;
        let worker = Uuid::new_v4().to_string();
        for call in CALLS {
            let call = call.replace("$(worker)", &worker);
            session.try_sql(&call).await.unwrap_or_else(|error| panic!("{error}\nunder {level}, in {call}"));
        }
        assert_eq!(fixture.job_counts().await.ready, 2, "{level}");
        fixture.sql("DELETE [$(schema)].[jobs]").await;

        let enqueue = "BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'a'; ROLLBACK";
        session.try_sql(enqueue).await.unwrap_or_else(|error| panic!("{error}\nunder {level}"));
        drop(session);
    }
    fixture.remove().await;
}

/// A procedure, or one that it calls, reads with READPAST before READ COMMITTED is set. Those that were `seen` are not
/// looked at again: procedures call each other.
fn skips_under_the_caller_s_level<'a>(
    name: &'a str,
    procedures: &'a HashMap<String, String>,
    seen: &mut HashSet<&'a str>,
) -> bool {
    let body = &procedures[name];
    if !seen.insert(name) || body.contains("SET TRANSACTION ISOLATION LEVEL READ COMMITTED;") {
        return false;
    }
    let mut called = procedures.keys().filter(|other| body.contains(&format!("[$(schema)].[{other}]")));
    body.contains("READPAST,") || called.any(|other| skips_under_the_caller_s_level(other, procedures, seen))
}

#[test]
fn each_procedure_of_a_role_that_skips_locked_rows_sets_the_level() {
    let scripts = numbered();
    let begin = "CREATE OR ALTER PROCEDURE [$(schema)].[";
    let procedures: HashMap<String, String> = scripts
        .iter()
        .filter_map(|(_, script)| script.split_once(begin))
        .filter_map(|(_, rest)| rest.split_once(']'))
        .map(|(name, body)| (name.to_owned(), body.to_owned()))
        .collect();
    let (_, roles) = scripts.iter().find(|(file, _)| file.ends_with("900_roles.sql")).unwrap();
    let granted = roles.lines().filter_map(|line| line.strip_prefix("GRANT EXECUTE ON OBJECT::[$(schema)].["));
    let missing: Vec<&str> = granted
        .filter_map(|line| line.split(']').next())
        .filter(|name| skips_under_the_caller_s_level(name, &procedures, &mut HashSet::new()))
        .collect();
    assert!(procedures.len() > 80 && missing.is_empty(), "{missing:?}");
}

// Each call then leaves a transaction open, which the client commits: "SET IMPLICIT_TRANSACTIONS"
// (docs/t-sql/statements/set-implicit-transactions-transact-sql.md).
#[tokio::test(flavor = "multi_thread")]
async fn a_producer_with_implicit_transactions_commits_what_it_has_enqueued() {
    let fixture = Fixture::new("implicit").await;
    let mut session = fixture.session().await;
    session.sql("SET IMPLICIT_TRANSACTIONS ON").await;
    session.sql(CALLS[0]).await;
    assert_eq!(session.number("SELECT @@TRANCOUNT").await, 1);
    session.sql("COMMIT").await;
    session.sql(CALLS[1]).await;
    session.sql("ROLLBACK").await;
    assert_eq!(fixture.job_counts().await.ready, 1);
    drop(session);
    fixture.remove().await;
}
