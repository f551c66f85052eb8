//! Transactions, savepoints, and what a rollback takes back.

use crate::session::client_session::Session;
use crate::session::tests::harness::{errors, ok, rows, run, session};
use crate::storage::Lifetime;

#[test]
fn transactions_nest_by_counting() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int)");
    assert_eq!(
        rows(
            &mut s,
            "BEGIN TRAN; BEGIN TRAN; INSERT t VALUES (1); COMMIT; SELECT @@TRANCOUNT; ROLLBACK; SELECT COUNT(*) FROM t"
        ),
        ["ROW(Int(1))", "ROW(Int(0))"]
    );
    assert_eq!(errors(&mut s, "COMMIT"), [3902]);
    assert_eq!(errors(&mut s, "ROLLBACK"), [3903]);
    assert_eq!(errors(&mut s, "BEGIN TRAN; ROLLBACK TRAN nobody; ROLLBACK"), [6401]);
}

#[test]
fn a_savepoint_takes_back_what_came_after_it() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int)");
    ok(
        &mut s,
        "BEGIN TRAN; INSERT t VALUES (1); SAVE TRAN here; INSERT t VALUES (2); ROLLBACK TRAN here; INSERT t VALUES (3); COMMIT",
    );
    assert_eq!(rows(&mut s, "SELECT SUM(a) FROM t"), ["ROW(Int(4))"]);
}

#[test]
fn definitions_are_transactional() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "BEGIN TRAN; CREATE TABLE t (a int); EXEC ('CREATE PROCEDURE p AS SELECT 1'); EXEC ('CREATE SCHEMA x'); CREATE TYPE list AS TABLE (a int); CREATE ROLE r",
    );
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM t"), ["ROW(Int(0))"]);
    ok(&mut s, "ROLLBACK");
    assert_eq!(
        rows(
            &mut s,
            "SELECT OBJECT_ID('t'), OBJECT_ID('p'), SCHEMA_ID('x'), TYPE_ID('list'), DATABASE_PRINCIPAL_ID('r')"
        ),
        ["ROW(Null, Null, Null, Null, Null)"]
    );
    assert_eq!(errors(&mut s, "SELECT * FROM t"), [208]);
    assert_eq!(errors(&mut s, "EXEC p"), [2812]);
}

#[test]
fn a_procedure_must_leave_the_count_as_it_was() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE PROCEDURE opens AS BEGIN TRAN");
    assert_eq!(errors(&mut s, "EXEC opens"), [266]);
    assert_eq!(rows(&mut s, "SELECT @@TRANCOUNT"), ["ROW(Int(1))"]);
    ok(&mut s, "ROLLBACK; EXEC ('CREATE PROCEDURE closes AS ROLLBACK')");
    assert_eq!(errors(&mut s, "BEGIN TRAN; EXEC closes"), [266]);
}

#[test]
fn the_client_hears_of_outermost_transactions() {
    let (_e, mut s) = session();
    let tokens = run(&mut s, "BEGIN TRAN; BEGIN TRAN; COMMIT; COMMIT; BEGIN TRAN; ROLLBACK");
    let changes: Vec<&String> = tokens.iter().filter(|token| token.starts_with("ENVCHANGE")).collect();
    assert_eq!(changes, ["ENVCHANGE(8)", "ENVCHANGE(9)", "ENVCHANGE(8)", "ENVCHANGE(10)"]);
}

#[test]
fn insert_exec_is_one_transaction() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int NOT NULL PRIMARY KEY); CREATE TABLE log (a int)");
    ok(&mut s, "CREATE PROCEDURE p AS INSERT log VALUES (1); SELECT 1 UNION ALL SELECT 1");
    assert_eq!(errors(&mut s, "DECLARE @t TABLE (a int PRIMARY KEY); INSERT @t EXEC p"), [2627]);
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM log"), ["ROW(Int(0))"]);
    ok(&mut s, "CREATE PROCEDURE rolls AS ROLLBACK");
    assert_eq!(errors(&mut s, "DECLARE @t TABLE (a int); BEGIN TRAN; INSERT @t EXEC rolls"), [3915]);
    ok(&mut s, "IF @@TRANCOUNT > 0 ROLLBACK");
}

#[test]
fn options_set_in_a_procedure_end_with_it() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE PROCEDURE p AS SET NOCOUNT ON; SET XACT_ABORT ON; SET LOCK_TIMEOUT 5; SELECT @@LOCK_TIMEOUT");
    assert_eq!(
        rows(&mut s, "EXEC p; SELECT @@LOCK_TIMEOUT, @@OPTIONS & 16384"),
        ["ROW(Int(5))", "ROW(Int(-1), Int(0))"]
    );
}

/// "ROLLBACK TRANSACTION" erases all changes since the beginning of the transaction
/// (docs/t-sql/language-elements/rollback-transaction-transact-sql.md), those of #temp tables too.
#[test]
fn a_rollback_gives_temporary_tables_and_their_names_back() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE #t (a int); INSERT #t VALUES (1); BEGIN TRAN; DROP TABLE #t");
    assert_eq!(errors(&mut s, "SELECT a FROM #t"), [208]);
    ok(&mut s, "ROLLBACK");
    assert_eq!(rows(&mut s, "SELECT a FROM #t"), ["ROW(Int(1))"]);
    ok(&mut s, "BEGIN TRAN; SAVE TRAN s; DROP TABLE #t; CREATE TABLE #t (b int); ROLLBACK TRAN s; COMMIT");
    assert_eq!(rows(&mut s, "SELECT a FROM #t"), ["ROW(Int(1))"]);
    ok(&mut s, "BEGIN TRAN; DROP TABLE #t; COMMIT");
    assert_eq!(errors(&mut s, "SELECT a FROM #t"), [208]);
    ok(&mut s, "BEGIN TRAN; CREATE TABLE #t (c int); ROLLBACK; CREATE TABLE #t (d int)");
    assert_eq!(rows(&mut s, "SELECT COUNT(d) FROM #t"), ["ROW(Int(0))"]);
    ok(&mut s, "DROP TABLE #t");
    assert_eq!(errors(&mut s, "SELECT 1 FROM #t"), [208]);
}

/// "A local temporary table created in a stored procedure is dropped automatically when the stored procedure is
/// finished" ("CREATE TABLE", docs/t-sql/statements/create-table-transact-sql.md), and a rollback after that brings
/// none back that nobody could name.
#[test]
fn a_rollback_does_not_bring_back_what_went_with_its_procedure() {
    let (_e, mut s) = session();
    let left = |s: &Session| s.database.storage.latch().tables_that_live(Lifetime::Temporary).len();
    ok(&mut s, "CREATE PROCEDURE p AS CREATE TABLE #t (a int); BEGIN TRANSACTION; INSERT #t VALUES (1)");
    ok(&mut s, "CREATE PROCEDURE q AS CREATE TABLE #t (a int); BEGIN TRANSACTION; DROP TABLE #t");
    ok(&mut s, "CREATE PROCEDURE r AS CREATE TABLE #t (a int); INSERT #t VALUES (1)");
    for procedure in ["p", "q"] {
        assert_eq!(errors(&mut s, &format!("EXEC {procedure}")), [266]);
        ok(&mut s, "ROLLBACK");
        assert_eq!(left(&s), 0, "{procedure}");
    }
    ok(&mut s, "BEGIN TRANSACTION; EXEC r; SAVE TRANSACTION here; EXEC r; ROLLBACK TRANSACTION here; EXEC r; COMMIT");
    assert_eq!(left(&s), 0);
}
