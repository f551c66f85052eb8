//! What definitions of functions may say, and what depends on functions and sequences. Sources
//! (MicrosoftDocs/sql-docs): "CREATE FUNCTION", docs/t-sql/statements/create-function-transact-sql.md; "DROP FUNCTION",
//! docs/t-sql/statements/drop-function-transact-sql.md; the errors are those of
//! docs/relational-databases/errors-events/.

use crate::session::tests::harness::{errors, ok, run, script, session};

const ONE: &str = "CREATE FUNCTION dbo.one (@a int) RETURNS int AS BEGIN RETURN @a + 1 END";

/// "Drop function fails if … there are computed columns, CHECK constraints, or DEFAULT constraints that reference the
/// function."
#[test]
fn what_a_table_calls_stays() {
    let (_e, mut s) = session();
    script(&mut s, &format!("{ONE}\nGO\nCREATE FUNCTION dbo.free (@a int) RETURNS int AS BEGIN RETURN @a END"));
    for (table, object) in [
        ("CREATE TABLE t (a int, b AS dbo.one(a))", "t"),
        ("CREATE TABLE t (a int CONSTRAINT c CHECK ([dbo].[ONE](a) > 0))", "c"),
        ("CREATE TABLE t (a int CONSTRAINT d DEFAULT dbo.one(1))", "d"),
    ] {
        ok(&mut s, table);
        for (statement, verb) in
            [("DROP FUNCTION dbo.one".to_string(), "DROP FUNCTION"), (ONE.replace("CREATE", "ALTER"), "ALTER")]
        {
            let tokens = run(&mut s, &statement);
            let wanted = format!("Cannot {verb} 'dbo.one' because it is being referenced by object '{object}'.");
            assert!(tokens.iter().any(|token| token.contains("3729") && token.contains(&wanted)), "{tokens:#?}");
        }
        ok(&mut s, "DROP TABLE t");
    }
    // A column of the name is no call.
    ok(&mut s, "CREATE TABLE t (free int CHECK (free > 0)); DROP FUNCTION dbo.free");
    ok(&mut s, "DROP FUNCTION dbo.one");
    ok(&mut s, "CREATE SEQUENCE dbo.s1; CREATE SEQUENCE dbo.s2");
    ok(&mut s, "CREATE TABLE u (a int DEFAULT NEXT VALUE FOR dbo.s1, b int DEFAULT (NEXT VALUE FOR [s2]))");
    assert_eq!(errors(&mut s, "DROP SEQUENCE s1"), [3729]);
    assert_eq!(errors(&mut s, "DROP SEQUENCE dbo.s2"), [3729]);
    assert_eq!(errors(&mut s, "EXEC sp_rename 'dbo.s1', 's3'"), [59000]);
    ok(&mut s, "DROP TABLE u; DROP SEQUENCE s1, s2");
}

/// "Use unique constraints and check constraints" (docs/relational-databases/tables/
/// unique-constraints-and-check-constraints.md) has a CHECK that counts the rows, the new one among them.
#[test]
fn a_check_that_reads_tables_is_refused() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE TABLE t (a int, b int)
GO
CREATE FUNCTION dbo.n1 () RETURNS int AS BEGIN RETURN (SELECT COUNT(*) FROM t) END
GO
CREATE FUNCTION dbo.n2 () RETURNS int AS BEGIN DECLARE @n int; SELECT @n = COUNT(*) FROM t; RETURN @n END
GO
CREATE FUNCTION dbo.n3 () RETURNS int AS BEGIN DECLARE @n int = dbo.n2(); RETURN @n END",
    );
    for function in ["n1", "n2", "n3"] {
        assert_eq!(errors(&mut s, &format!("ALTER TABLE t ADD CONSTRAINT c CHECK (dbo.{function}() >= 1)")), [59000]);
        assert_eq!(errors(&mut s, &format!("CREATE TABLE u (a int CHECK (dbo.{function}() >= 1))")), [59000]);
    }
    // A subquery would be 1046; the function is none.
    assert_eq!(errors(&mut s, "CREATE TABLE u (a int, b AS dbo.n1())"), [59000]);
    assert_eq!(errors(&mut s, "CREATE TABLE u (a int DEFAULT dbo.n1())"), [59000]);
}

#[test]
fn what_a_function_may_not_be() {
    let (_e, mut s) = session();
    script(&mut s, ONE);
    ok(&mut s, "CREATE SEQUENCE sq; CREATE TABLE #t (a int); CREATE TABLE t (a int)");
    for (definition, number) in [
        ("CREATE FUNCTION dbo.f () RETURNS int AS BEGIN RETURN (NEXT VALUE FOR sq) END", 11719),
        ("CREATE FUNCTION dbo.f () RETURNS int AS BEGIN RETURN (SELECT COUNT(*) FROM #t) END", 2772),
        ("CREATE FUNCTION dbo.f () RETURNS TABLE AS RETURN SELECT a FROM #t", 2772),
        ("CREATE FUNCTION dbo.f (@a int OUTPUT) RETURNS int AS BEGIN RETURN @a END", 181),
        ("CREATE FUNCTION dbo.f (@a timestamp) RETURNS int AS BEGIN RETURN 1 END", 59000),
        ("CREATE FUNCTION dbo.f () RETURNS timestamp AS BEGIN RETURN 0x01 END", 59000),
        ("CREATE FUNCTION #f () RETURNS int AS BEGIN RETURN 1 END", 59000),
        ("CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN RETURN dbo.f(@a - 1) END", 59000),
        ("ALTER FUNCTION dbo.one (@a int) RETURNS int AS BEGIN RETURN dbo.one(@a - 1) END", 59000),
        ("ALTER FUNCTION dbo.one (@a int) RETURNS TABLE AS RETURN SELECT @a AS a", 2010),
        (
            "CREATE FUNCTION dbo.f () RETURNS int WITH SCHEMABINDING AS BEGIN RETURN (SELECT COUNT(*) FROM dbo.t) END",
            59000,
        ),
        ("CREATE FUNCTION dbo.f () RETURNS TABLE WITH SCHEMABINDING AS RETURN SELECT a FROM dbo.t", 59000),
        ("CREATE FUNCTION dbo.f () RETURNS int WITH SCHEMABINDING AS BEGIN RETURN dbo.one(1) END", 59000),
        ("CREATE VIEW #v AS SELECT 1 AS a", 4103),
    ] {
        assert_eq!(errors(&mut s, definition), [number], "{definition}");
    }
    ok(&mut s, "CREATE FUNCTION dbo.g (@a int) RETURNS int WITH SCHEMABINDING AS BEGIN RETURN @a END");
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
