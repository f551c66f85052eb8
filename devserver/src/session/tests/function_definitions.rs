//! What definitions of functions may say. Source: "CREATE FUNCTION" (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/create-function-transact-sql.md); the errors are those of
//! docs/relational-databases/errors-events/.

use crate::session::tests::harness::{errors, ok, run, script, session};

const ONE: &str = "CREATE FUNCTION dbo.one (@a int) RETURNS int AS BEGIN RETURN @a + 1 END";

#[test]
fn a_table_that_calls_a_function_is_refused() {
    let (_e, mut s) = session();
    ok(&mut s, ONE);
    for column in ["a int CHECK (dbo.one(1) > 0)", "a int DEFAULT dbo.one(1)", "a int, b AS dbo.one(a)"] {
        assert_eq!(errors(&mut s, &format!("CREATE TABLE t ({column})")), [59000], "{column}");
    }
}

#[test]
fn what_a_function_may_not_be() {
    let (_e, mut s) = session();
    script(&mut s, ONE);
    ok(&mut s, "CREATE SEQUENCE sq; CREATE TABLE #t (a int); CREATE TABLE t (a int)");
    for (definition, number) in [
        ("CREATE FUNCTION dbo.f () RETURNS int AS BEGIN RETURN (NEXT VALUE FOR sq) END", 59000),
        ("CREATE FUNCTION dbo.f () RETURNS int AS BEGIN RETURN (SELECT COUNT(*) FROM #t) END", 2772),
        ("CREATE FUNCTION dbo.f () RETURNS TABLE AS RETURN SELECT a FROM #t", 59000),
        ("CREATE FUNCTION dbo.f (@a int OUTPUT) RETURNS int AS BEGIN RETURN @a END", 181),
        ("CREATE FUNCTION dbo.f (@a timestamp) RETURNS int AS BEGIN RETURN 1 END", 59000),
        ("CREATE FUNCTION dbo.f () RETURNS timestamp AS BEGIN RETURN 0x01 END", 59000),
        ("CREATE FUNCTION #f () RETURNS int AS BEGIN RETURN 1 END", 59000),
        ("CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN RETURN dbo.f(@a - 1) END", 59000),
        ("ALTER FUNCTION dbo.one (@a int) RETURNS int AS BEGIN RETURN dbo.one(@a - 1) END", 59000),
        ("CREATE FUNCTION dbo.f () RETURNS int WITH SCHEMABINDING AS BEGIN RETURN 1 END", 59000),
        ("EXEC dbo.one 1", 59000),
        ("SELECT dbo.one(DEFAULT)", 59000),
        ("CREATE VIEW #v AS SELECT 1 AS a", 4103),
    ] {
        assert_eq!(errors(&mut s, definition), [number], "{definition}");
    }
}

/// 3705 and 2010 (database-engine-events-and-errors-3000-to-3999.md, …-2000-to-2999.md).
#[test]
fn an_object_of_another_kind_is_named_as_such() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE TABLE t (a int)
GO
CREATE VIEW vv AS SELECT 1 AS a
GO
CREATE PROCEDURE p AS RETURN",
    );
    let tokens = run(&mut s, "DROP PROCEDURE vv");
    let wanted = "Cannot use DROP PROCEDURE with 'vv' because 'vv' is a view. Use DROP VIEW.";
    assert!(tokens.iter().any(|token| token.contains(wanted)), "{tokens:#?}");
    for (statement, number) in [
        ("DROP VIEW t", 3705),
        ("DROP TABLE p", 3705),
        ("DROP FUNCTION nothing", 3701),
        ("DROP PROCEDURE IF EXISTS vv", 59000),
        ("ALTER PROCEDURE vv AS RETURN", 2010),
        ("ALTER VIEW t AS SELECT 1 AS a", 2010),
        ("ALTER VIEW p AS SELECT 1 AS a", 2010),
        ("ALTER FUNCTION dbo.p () RETURNS int AS BEGIN RETURN 1 END", 2010),
        ("ALTER PROCEDURE nothing AS RETURN", 208),
    ] {
        assert_eq!(errors(&mut s, statement), [number], "{statement}");
    }
    ok(&mut s, "DROP TABLE IF EXISTS nothing; DROP TABLE t; DROP VIEW vv; DROP PROCEDURE p");
}
