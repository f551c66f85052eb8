//! What definitions of functions may say. Source: "CREATE FUNCTION" (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/create-function-transact-sql.md); the errors are those of
//! docs/relational-databases/errors-events/.

use crate::session::tests::harness::check;

#[test]
fn what_is_no_function_or_of_another_kind() {
    check(
        "== a table that calls a function is refused
         CREATE FUNCTION dbo.one (@a int) RETURNS int AS BEGIN RETURN @a + 1 END => ok
         CREATE TABLE t (a int CHECK (dbo.one(1) > 0)) ;; CREATE TABLE t (a int DEFAULT dbo.one(1)) ;;
             CREATE TABLE t (a int, b AS dbo.one(a)) => error 59000
         == what a function may not be
         CREATE FUNCTION dbo.one (@a int) RETURNS int AS BEGIN RETURN @a + 1 END => ok
         CREATE SEQUENCE sq; CREATE TABLE #t (a int); CREATE TABLE t (a int) => ok
         CREATE FUNCTION dbo.f () RETURNS int AS BEGIN RETURN (NEXT VALUE FOR sq) END => error 59000
         CREATE FUNCTION dbo.f () RETURNS int AS BEGIN RETURN (SELECT COUNT(*) FROM #t) END => error 2772
         CREATE FUNCTION dbo.f () RETURNS TABLE AS RETURN SELECT a FROM #t => error 59000
         CREATE FUNCTION dbo.f (@a int OUTPUT) RETURNS int AS BEGIN RETURN @a END => error 181
         CREATE FUNCTION dbo.f (@a timestamp) RETURNS int AS BEGIN RETURN 1 END ;;
             CREATE FUNCTION dbo.f () RETURNS timestamp AS BEGIN RETURN 0x01 END ;;
             CREATE FUNCTION #f () RETURNS int AS BEGIN RETURN 1 END ;;
             CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN RETURN dbo.f(@a - 1) END ;;
             ALTER FUNCTION dbo.one (@a int) RETURNS int AS BEGIN RETURN dbo.one(@a - 1) END ;;
             CREATE FUNCTION dbo.f () RETURNS int WITH SCHEMABINDING AS BEGIN RETURN 1 END ;; EXEC dbo.one 1 ;;
             SELECT dbo.one(DEFAULT) ;; CREATE VIEW #v AS SELECT 1 AS a => error 59000
         == an object of another kind is refused
         CREATE TABLE t (a int) ;; CREATE VIEW vv AS SELECT 1 AS a ;; CREATE PROCEDURE p AS RETURN => ok
         DROP PROCEDURE vv ;; DROP VIEW t ;; DROP TABLE p => error 59000
         DROP FUNCTION nothing => error 3701
         DROP PROCEDURE IF EXISTS vv ;; ALTER PROCEDURE vv AS RETURN ;; ALTER VIEW t AS SELECT 1 AS a ;;
             ALTER VIEW p AS SELECT 1 AS a ;; ALTER FUNCTION dbo.p () RETURNS int AS BEGIN RETURN 1 END => error 59000
         ALTER PROCEDURE nothing AS RETURN => error 208
         DROP TABLE IF EXISTS nothing; DROP TABLE t; DROP VIEW vv; DROP PROCEDURE p => ok",
    );
}
