//! WAITFOR and what assignments and declarations answer.

use crate::session::tests::harness::check;

#[test]
fn statements_without_results() {
    check(
        r#"== waitfor takes nothing but a time
         -- Source: docs/t-sql/language-elements/waitfor-transact-sql.md.
         WAITFOR DELAY '25:00' => error 148
         == an assignment counts the rows it has read
         -- Source: "@@ROWCOUNT" (docs/t-sql/functions/rowcount-transact-sql.md); that the count also stands in the DONE
         -- token was seen by clients' authors (github.com/denisenkom/pytds/pull/46,
         -- github.com/microsoft/mssql-rs/pull/372).
         CREATE TABLE t (a int); INSERT t VALUES (1), (2), (3) => ok
         DECLARE @v int; SELECT @v = 1; SELECT @@ROWCOUNT => 1
         DECLARE @v int; SET @v = 1 => tokens DONE(count=1)
         DECLARE @v int; SELECT @v = a FROM t => tokens DONE(count=3)
         DECLARE @v int; SELECT TOP (2) @v = a FROM t ORDER BY a; SELECT @@ROWCOUNT => 2
         DECLARE @v int; SELECT @v = a FROM t WHERE a > 5 => tokens DONE(count=0)
         DECLARE @v int; SELECT @v = MAX(a) FROM t WHERE a > 5 => tokens DONE(count=1)
         DECLARE @v int; SET NOCOUNT ON; SELECT @v = a FROM t; SET @v = 1 => tokens DONE(more) | DONE(more) | DONE()
         == a declaration is no statement with an end of its own
         -- "A DONE token is returned for each SQL statement in the SQL batch except variable declarations" ("DONE",
         -- learn.microsoft.com/openspecs/windows_protocols/ms-tds/3c06f110-98bd-4d5b-b836-b1ba66452cb7).
         DECLARE @a int; DECLARE @v int = 1; SELECT @v AS v => tokens COLMETADATA(v Int) | ROW(1) | DONE(count=1)"#,
    );
}
