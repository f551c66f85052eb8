//! Transactions, savepoints, and what a rollback takes back.

use crate::session::client_session::Session;
use crate::session::tests::harness::{errors, login, ok, rows, run, session, until_one_waits};
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
    assert_eq!(errors(&mut s, "INSERT t EXEC p"), [2627]);
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM log"), ["ROW(Int(0))"]);
    ok(&mut s, "CREATE PROCEDURE rolls AS ROLLBACK");
    assert_eq!(errors(&mut s, "BEGIN TRAN; INSERT t EXEC rolls"), [3915]);
    ok(&mut s, "IF @@TRANCOUNT > 0 ROLLBACK");
}

/// 556: docs/relational-databases/errors-events/database-engine-events-and-errors-0-to-999.md.
#[test]
fn insert_exec_fails_if_the_procedure_changes_its_target() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int)");
    for change in [
        "ALTER TABLE t ADD b int",
        "ALTER TABLE t ALTER COLUMN a bigint",
        "ALTER TABLE t ADD CHECK (a > 0)",
        "CREATE INDEX i ON t (a)",
    ] {
        ok(&mut s, &format!("CREATE PROCEDURE p AS {change}; SELECT 1"));
        assert_eq!(errors(&mut s, "INSERT t (a) EXEC p"), [556], "{change}");
        assert_eq!(rows(&mut s, "SELECT COUNT(*), COUNT(COL_LENGTH('t', 'b')) FROM t"), ["ROW(Int(0), Int(0))"]);
        ok(&mut s, "DROP PROCEDURE p");
    }
    ok(&mut s, "CREATE PROCEDURE p AS CREATE TABLE other (a int); TRUNCATE TABLE t; SELECT 1");
    ok(&mut s, "INSERT t EXEC p");
    ok(&mut s, "CREATE TABLE #t (a int); EXEC('CREATE PROCEDURE q AS ALTER TABLE #t ADD b int; SELECT 1')");
    assert_eq!(errors(&mut s, "INSERT #t (a) EXEC q"), [556]);
}

/// "Schema stability (Sch-S) locks when compiling and executing queries"
/// (docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md).
#[test]
fn nobody_else_changes_the_target_of_insert_exec_meanwhile() {
    let (engine, mut s) = session();
    let mut other = login(&engine, "sa", "secret");
    ok(&mut s, "CREATE TABLE t (a int); CREATE TABLE gate (a int); INSERT gate VALUES (1)");
    ok(&mut s, "CREATE PROCEDURE p AS SELECT a FROM gate");
    ok(&mut other, "SET LOCK_TIMEOUT 0; BEGIN TRAN; UPDATE gate SET a = 2");
    let inserting = std::thread::spawn(move || rows(&mut s, "INSERT t EXEC p; SELECT a FROM t"));
    until_one_waits(&engine);
    assert_eq!(errors(&mut other, "ALTER TABLE t ADD b int"), [1222]);
    ok(&mut other, "INSERT t VALUES (3); COMMIT");
    assert_eq!(inserting.join().expect("the session"), ["ROW(Int(3))", "ROW(Int(2))"]);
    ok(&mut other, "ALTER TABLE t ADD b int");
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
