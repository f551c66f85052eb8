//! Transactions, savepoints, and what a rollback takes back.

use crate::session::client_session::Session;
use crate::session::tests::harness::{check, errors, ok, session};
use crate::storage::Lifetime;

#[test]
fn transactions_nest_and_roll_back() {
    check(
        r#"== transactions nest by counting
         CREATE TABLE t (a int) => ok
         BEGIN TRAN; BEGIN TRAN; INSERT t VALUES (1); COMMIT; SELECT @@TRANCOUNT; ROLLBACK; SELECT COUNT(*) FROM t => 1
             | 0
         COMMIT => error 3902
         ROLLBACK => error 3903
         BEGIN TRAN; ROLLBACK TRAN nobody; ROLLBACK => error 59000
         == the client hears of outermost transactions
         BEGIN TRAN; BEGIN TRAN; COMMIT; COMMIT; BEGIN TRAN; ROLLBACK => tokens ENVCHANGE(8) | DONE(more) | DONE(more)
             | DONE(more) | ENVCHANGE(9) | DONE(more) | ENVCHANGE(8) | DONE(more) | ENVCHANGE(10) | DONE()
         == statements begin transactions implicitly
         -- "SET IMPLICIT_TRANSACTIONS" (docs/t-sql/statements/set-implicit-transactions-transact-sql.md), also its example.
         CREATE TABLE t (a int) ;; CREATE PROCEDURE p AS INSERT t VALUES (3) => ok
         SET IMPLICIT_TRANSACTIONS ON; SELECT @@TRANCOUNT, @@OPTIONS & 2 => 0, 2
         INSERT t VALUES (1); INSERT t VALUES (2); SELECT @@TRANCOUNT => 1
         COMMIT; SELECT @@TRANCOUNT => 0
         DELETE t; ROLLBACK; SELECT COUNT(*) FROM t => 2
         SELECT @@TRANCOUNT; COMMIT => 1
         BEGIN TRAN; INSERT t VALUES (3); SELECT @@TRANCOUNT; COMMIT; SELECT @@TRANCOUNT; ROLLBACK => 2 | 1
         CREATE TABLE u (a int); SELECT @@TRANCOUNT; ROLLBACK; SELECT OBJECT_ID('u'), @@TRANCOUNT => 1 | NULL, 0
         EXEC p; SELECT @@TRANCOUNT; ROLLBACK => 1
         DECLARE @t TABLE (a int); INSERT @t EXEC ('SELECT 4'); SELECT @@TRANCOUNT; ROLLBACK => 1
         UPDATE t SET a = 5; COMMIT => tokens ENVCHANGE(8) | DONE(count=2, more) | ENVCHANGE(9) | DONE()
         SET IMPLICIT_TRANSACTIONS OFF; DELETE t; SELECT @@TRANCOUNT => 0
         == a savepoint takes back what came after it
         CREATE TABLE t (a int) => ok
         BEGIN TRAN; INSERT t VALUES (1); SAVE TRAN here; INSERT t VALUES (2); ROLLBACK TRAN here; INSERT t VALUES (3);
             COMMIT => ok
         SELECT SUM(a) FROM t => 4
         == definitions are transactional
         BEGIN TRAN; CREATE TABLE t (a int); EXEC ('CREATE PROCEDURE p AS SELECT 1'); EXEC ('CREATE SCHEMA x');
             CREATE TYPE list AS TABLE (a int); CREATE ROLE r => ok
         SELECT COUNT(*) FROM t => 0
         ROLLBACK => ok
         SELECT OBJECT_ID('t'), OBJECT_ID('p'), SCHEMA_ID('x'), TYPE_ID('list'),
             DATABASE_PRINCIPAL_ID('r') => NULL, NULL, NULL, NULL, NULL
         SELECT * FROM t => error 208
         EXEC p => error 2812
         == a procedure must leave the count as it was
         CREATE PROCEDURE opens AS BEGIN TRAN => ok
         EXEC opens => error 266
         SELECT @@TRANCOUNT => 1
         ROLLBACK; EXEC ('CREATE PROCEDURE closes AS ROLLBACK') => ok
         BEGIN TRAN; EXEC closes => error 266
         == insert exec is one transaction
         CREATE TABLE t (a int NOT NULL PRIMARY KEY); CREATE TABLE log (a int) => ok
         CREATE PROCEDURE p AS INSERT log VALUES (1); SELECT 1 UNION ALL SELECT 1 => ok
         DECLARE @t TABLE (a int PRIMARY KEY); INSERT @t EXEC p => error 2627
         SELECT COUNT(*) FROM log => 0
         CREATE PROCEDURE rolls AS ROLLBACK => ok
         DECLARE @t TABLE (a int); BEGIN TRAN; INSERT @t EXEC rolls => error 3915
         IF @@TRANCOUNT > 0 ROLLBACK => ok
         == options set in a procedure end with it
         CREATE PROCEDURE p AS SET NOCOUNT ON; SET XACT_ABORT ON; SET LOCK_TIMEOUT 5; SELECT @@LOCK_TIMEOUT => ok
         EXEC p; SELECT @@LOCK_TIMEOUT, @@OPTIONS & 16384 => 5 | -1, 0
         == a rollback gives temporary tables and their names back
         -- "ROLLBACK TRANSACTION" erases all changes since the beginning of the transaction
         -- (docs/t-sql/language-elements/rollback-transaction-transact-sql.md), those of #temp tables too.
         CREATE TABLE #t (a int); INSERT #t VALUES (1); BEGIN TRAN; DROP TABLE #t => ok
         SELECT a FROM #t => error 208
         ROLLBACK => ok
         SELECT a FROM #t => 1
         BEGIN TRAN; SAVE TRAN s; DROP TABLE #t; CREATE TABLE #t (b int); ROLLBACK TRAN s; COMMIT => ok
         SELECT a FROM #t => 1
         BEGIN TRAN; DROP TABLE #t; COMMIT => ok
         SELECT a FROM #t => error 208
         BEGIN TRAN; CREATE TABLE #t (c int); ROLLBACK; CREATE TABLE #t (d int) => ok
         SELECT COUNT(d) FROM #t => 0
         DROP TABLE #t => ok
         SELECT 1 FROM #t => error 208"#,
    );
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
