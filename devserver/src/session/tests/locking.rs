//! Two sessions on the same rows.

use std::sync::Arc;

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::tests::harness::{engine, errors, login, ok, rows, until_one_waits};

fn two() -> (Arc<Engine>, Session, Session) {
    let engine = engine();
    let mut a = login(&engine, "sa", "secret");
    let mut b = login(&engine, "sa", "secret");
    ok(
        &mut a,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, state int NOT NULL, n int NOT NULL DEFAULT 0);
                CREATE INDEX t_state ON t (state, id) WHERE state = 0;
                INSERT t (id, state) VALUES (1, 0), (2, 0), (3, 0), (4, 1)",
    );
    ok(&mut b, "SET LOCK_TIMEOUT 0");
    (engine, a, b)
}

/// "All lock hints are propagated to all the tables and views that are accessed by the query plan, including tables and
/// views referenced in a view" (docs/t-sql/queries/hints-transact-sql-table.md).
#[test]
fn the_hints_of_a_target_are_added_to_those_of_what_it_reads() {
    let (_e, mut a, mut b) = two();
    ok(&mut a, "BEGIN TRAN; UPDATE t SET n = 1 WHERE id = 1");
    ok(&mut a, "EXEC (N'CREATE VIEW v AS SELECT id, state, n FROM t WITH (ROWLOCK, READPAST)'); COMMIT");
    ok(&mut a, "BEGIN TRAN; UPDATE t SET n = 1 WHERE id = 1");
    let cte = "WITH x AS (SELECT TOP (1) id, state, n FROM t WITH (ROWLOCK, READPAST) ORDER BY id)";
    for (sql, id) in [
        (format!("{cte} UPDATE x WITH (ROWLOCK) SET n = 5 OUTPUT inserted.id"), 2),
        (format!("{cte} DELETE x WITH (UPDLOCK) OUTPUT deleted.id"), 2),
        (format!("{cte} UPDATE x WITH (ROWLOCK) SET n = 5 OUTPUT inserted.id FROM x"), 3),
        ("UPDATE TOP (1) v WITH (ROWLOCK) SET n = 6 OUTPUT inserted.id".into(), 3),
        ("DELETE TOP (1) v WITH (ROWLOCK) OUTPUT deleted.id".into(), 3),
        ("UPDATE t WITH (ROWLOCK) SET n = 7 OUTPUT inserted.id FROM t WITH (READPAST)".into(), 4),
        ("UPDATE TOP (1) t WITH (READPAST) SET n = 8 OUTPUT inserted.id FROM t WITH (INDEX (1))".into(), 4),
    ] {
        assert_eq!(rows(&mut b, &sql), [format!("ROW(Int({id}))")], "{sql}");
    }
    ok(&mut a, "ROLLBACK");
    // The index that FROM asks for is still there.
    let forced = "UPDATE t WITH (ROWLOCK) SET n = 9 FROM t WITH (INDEX (t_state)) WHERE state = 1";
    assert_eq!(errors(&mut b, forced), [8622]);
    for sql in [
        "WITH x AS (SELECT n FROM t WITH (UPDLOCK)) UPDATE x WITH (XLOCK) SET n = 1",
        "WITH x AS (SELECT n FROM t WITH (ROWLOCK)) UPDATE x WITH (TABLOCK) SET n = 1",
        "UPDATE v WITH (TABLOCK) SET n = 1",
        "UPDATE t WITH (HOLDLOCK) SET n = 1 FROM t WITH (REPEATABLEREAD)",
        "UPDATE t WITH (XLOCK) SET n = 1 FROM t WITH (UPDLOCK)",
    ] {
        assert_eq!(errors(&mut b, sql), [1047], "{sql}");
    }
}

/// What a derived table reads of the target's table is not the target: docs/t-sql/queries/update-transact-sql.md ("any
/// reference to the object in the FROM clause" is to what stands there itself).
#[test]
fn a_target_may_be_read_by_a_derived_table_too() {
    let (_e, mut a, mut b) = two();
    let from = "FROM (SELECT x.id FROM t AS x WITH (ROWLOCK, UPDLOCK) WHERE x.state = 0
        ORDER BY x.id DESC OFFSET 0 ROWS FETCH NEXT 2 ROWS ONLY) AS d WHERE d.id = t.id";
    assert_eq!(
        rows(&mut a, &format!("UPDATE dbo.t SET n = t.n + 1 OUTPUT inserted.id, inserted.n {from}")).len(),
        2,
        "each row once"
    );
    assert_eq!(rows(&mut a, "SELECT id FROM t WHERE n = 1"), ["ROW(Int(2))", "ROW(Int(3))"]);
    let cte = "WITH c AS (SELECT id, COUNT(*) OVER () AS many FROM t) UPDATE t SET n = c.many FROM c WHERE c.id = t.id";
    ok(&mut a, cte);
    assert_eq!(rows(&mut a, "SELECT DISTINCT n FROM t"), ["ROW(Int(4))"]);
    // The derived table comes first: rows that others hold do not stand in the way.
    ok(&mut a, "BEGIN TRAN; UPDATE t SET n = 1 WHERE id = 1");
    let first =
        "DELETE t OUTPUT deleted.id FROM (SELECT TOP (1) id FROM t AS x WITH (UPDLOCK, READPAST) ORDER BY id) AS d
        WHERE d.id = t.id";
    assert_eq!(rows(&mut b, first), ["ROW(Int(2))"]);
}

#[test]
fn an_update_keeps_only_the_rows_it_changes_locked() {
    let (_e, mut a, mut b) = two();
    let joined =
        "BEGIN TRAN; UPDATE t SET n = 1 FROM t INNER LOOP JOIN (VALUES (3)) AS v (id) ON v.id = t.id + 0 WHERE t.n = 0";
    ok(&mut a, joined);
    assert_eq!(
        rows(&mut b, "SELECT id FROM t WITH (READPAST, UPDLOCK)"),
        ["ROW(Int(1))", "ROW(Int(2))", "ROW(Int(4))"]
    );
    ok(&mut a, "COMMIT");
}

#[test]
fn a_cancelled_statement_ends() {
    let (_e, mut a, _b) = two();
    let cancel = a.cancel_handle();
    let waiting = std::thread::spawn(move || errors(&mut a, "WAITFOR DELAY '00:10:00'; SELECT 1"));
    while !waiting.is_finished() {
        cancel.cancel();
        std::thread::yield_now();
    }
    assert_eq!(waiting.join().expect("it ends"), [3617]);
}

#[test]
fn applock_mode_tells_the_own_lock() {
    let (_e, mut a, mut b) = two();
    ok(&mut a, "BEGIN TRAN; EXEC sp_getapplock @Resource = 'Form1', @LockMode = 'Shared', @DbPrincipal = 'public'");
    let mode = "SELECT APPLOCK_MODE('public', 'Form1', 'Transaction')";
    assert_eq!(rows(&mut a, mode), ["ROW(String(\"Shared\"))"]);
    assert_eq!(rows(&mut b, &format!("BEGIN TRAN; {mode}; COMMIT")), ["ROW(String(\"NoLock\"))"]);
    // What the page does not tell is refused.
    assert_eq!(errors(&mut b, mode), [59000]);
    assert_eq!(errors(&mut b, "SELECT APPLOCK_MODE('dbo', 'Form1', 'Session')"), [59000]);
}

#[test]
fn durability_changes_nothing_in_memory() {
    let (_e, mut a, _) = two();
    ok(&mut a, "BEGIN TRAN; UPDATE t SET n = 1 WHERE id = 1; COMMIT TRANSACTION WITH (DELAYED_DURABILITY = ON)");
    assert_eq!(rows(&mut a, "SELECT n FROM t WHERE id = 1"), ["ROW(Int(1))"]);
}

#[test]
fn a_session_in_waitfor_shows_that_it_waits() {
    let engine = engine();
    let mut watcher = login(&engine, "sa", "secret");
    let mut sleeper = login(&engine, "sa", "secret");
    let cancel = sleeper.cancel_handle();
    let sleeping = std::thread::spawn(move || errors(&mut sleeper, "WAITFOR DELAY '00:01:00'"));
    let waiting = "SELECT status, wait_type, blocking_session_id FROM sys.dm_exec_requests WHERE wait_type = 'WAITFOR'";
    let mut seen = rows(&mut watcher, waiting);
    while seen.is_empty() {
        std::thread::yield_now();
        seen = rows(&mut watcher, waiting);
    }
    assert_eq!(seen, ["ROW(String(\"suspended\"), String(\"WAITFOR\"), SmallInt(0))"]);
    assert_eq!(rows(&mut watcher, "SELECT wait_type FROM sys.dm_os_waiting_tasks"), ["ROW(String(\"WAITFOR\"))"]);
    cancel.cancel();
    assert_eq!(sleeping.join().expect("the session"), [3617]);
    assert!(rows(&mut watcher, waiting).is_empty());
}

/// The Sch-M lock of a DROP stands until its transaction ends, and nobody else can look at the table before that.
/// Source: "Transaction locking and row versioning guide", schema locks
/// (docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md): "the Sch-M lock prevents
/// concurrent access to the table".
#[test]
fn whoever_names_a_table_that_is_being_dropped_waits() {
    let (engine, mut a, mut b) = two();
    ok(&mut a, "BEGIN TRAN; DROP TABLE t");
    for statement in
        ["SELECT id FROM t", "SELECT id FROM t WITH (NOLOCK)", "UPDATE t SET n = 1", "INSERT t VALUES (9, 9, 9)"]
    {
        assert_eq!(errors(&mut b, statement), [1222], "{statement}");
    }
    assert_eq!(errors(&mut a, "SELECT id FROM t"), [208]);
    assert_eq!(rows(&mut b, "BEGIN TRY SELECT id FROM t END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH").len(), 1);
    for (end, found) in [("ROLLBACK", 4), ("COMMIT", 0)] {
        let waiting = std::thread::spawn(move || {
            ok(&mut b, "SET LOCK_TIMEOUT -1");
            let tokens = crate::session::tests::harness::run(&mut b, "SELECT id FROM t");
            (b, tokens)
        });
        until_one_waits(&engine);
        ok(&mut a, end);
        let (session, tokens) = waiting.join().expect("it goes on");
        b = session;
        assert_eq!(tokens.iter().filter(|token| token.starts_with("ROW")).count(), found, "{end}: {tokens:?}");
        assert_eq!(tokens.iter().any(|token| token.starts_with("ERROR(208")), found == 0, "{end}: {tokens:?}");
        if found > 0 {
            ok(&mut a, "BEGIN TRAN; DROP TABLE t");
        }
    }
}
