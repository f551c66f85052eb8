//! User-defined functions. Source: "CREATE FUNCTION" (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/create-function-transact-sql.md).

use crate::session::tests::harness::{errors, ok, rows, run, script, session};

#[test]
fn scalar_functions_are_computed_where_they_stand() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE TABLE jobs (id int NOT NULL PRIMARY KEY, tries int NOT NULL, queue varchar(10) NOT NULL); INSERT jobs VALUES (1, 1, 'a'), (2, 3, 'a'), (3, 9, 'b')
GO
CREATE FUNCTION dbo.delay_after (@tries int, @base int) RETURNS int AS BEGIN RETURN @base * POWER(CAST(2 AS float), @tries - 1) END
GO
CREATE FUNCTION dbo.depth (@queue varchar(10)) RETURNS int AS BEGIN RETURN (SELECT COUNT(*) FROM dbo.jobs WHERE queue = @queue) END
GO
CREATE FUNCTION twice (@n tinyint) RETURNS int AS BEGIN RETURN @n + dbo.delay_after(1, @n) END",
    );
    assert_eq!(
        rows(&mut s, "SELECT id, dbo.delay_after(tries, 10), dbo.depth(queue) FROM jobs"),
        ["ROW(Int(1), Int(10), Int(2))", "ROW(Int(2), Int(40), Int(2))", "ROW(Int(3), Int(2560), Int(1))"]
    );
    assert_eq!(
        rows(&mut s, "DECLARE @t int = 3; SELECT dbo.delay_after(@t, 1), dbo.twice('4')"),
        ["ROW(Int(4), Int(8))"]
    );
    ok(&mut s, "UPDATE jobs SET tries = dbo.depth('b') WHERE dbo.depth(queue) = 2");
    assert_eq!(rows(&mut s, "SELECT tries FROM jobs"), ["ROW(Int(1))", "ROW(Int(1))", "ROW(Int(9))"]);
    assert_eq!(errors(&mut s, "SELECT dbo.twice(256)"), [220]);
    assert_eq!(errors(&mut s, "SELECT dbo.nothing(1)"), [4121]);
    assert_eq!(errors(&mut s, "SELECT dbo.twice()"), [313]);
    assert_eq!(errors(&mut s, "SELECT dbo.twice(1, 2)"), [8144]);
    assert_eq!(errors(&mut s, "CREATE FUNCTION f (@a int) RETURNS int AS BEGIN RETURN @b END"), [137]);
    assert_eq!(errors(&mut s, "CREATE FUNCTION f (@a int) RETURNS int AS BEGIN SELECT 1 END"), [455]);
    ok(&mut s, "DROP FUNCTION twice");
    assert_eq!(errors(&mut s, "SELECT dbo.twice(1)"), [4121]);
}

/// How a payload is told to be text: nothing in it but printable ASCII, by a comparison of bytes.
#[test]
fn a_class_of_bytes_finds_what_is_not_printable() {
    let (_e, mut s) = session();
    let is_text =
        "SELECT CASE WHEN CAST(@v AS varchar(max)) COLLATE Latin1_General_100_BIN2 LIKE '%[^ -~]%' THEN 0 ELSE 1 END,
         PATINDEX('%[^ -~]%', CAST(@v AS varchar(max)) COLLATE Latin1_General_100_BIN2)";
    for (bytes, expected) in [
        ("0x", "ROW(Int(1), BigInt(0))"),
        ("0x41207E", "ROW(Int(1), BigInt(0))"),
        ("0x41097E", "ROW(Int(0), BigInt(2))"),
        ("0x4141E9", "ROW(Int(0), BigInt(3))"),
        ("0x00", "ROW(Int(0), BigInt(1))"),
        ("0x7F", "ROW(Int(0), BigInt(1))"),
    ] {
        let sql = format!("DECLARE @v varbinary(max) = {bytes}; {is_text}");
        assert_eq!(rows(&mut s, &sql), [expected], "{bytes}");
    }
    assert_eq!(
        rows(&mut s, "DECLARE @v varbinary(max) = 0x6800AC20; SELECT CAST(@v AS nvarchar(max)), DATALENGTH(@v)"),
        ["ROW(String(\"h€\"), BigInt(4))"]
    );
    assert_eq!(rows(&mut s, "SELECT COUNT(DISTINCT CHECKSUM(NEWID())) FROM GENERATE_SERIES(1, 20)"), ["ROW(Int(20))"]);
}

/// Names without schema in a module mean objects of its schema, then of dbo. Source: "Name resolution, default schema,
/// implicit schema", part III (the blog of SQL Server's programmability team).
#[test]
fn names_in_a_module_are_those_of_its_schema() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE SCHEMA m
GO
CREATE TABLE t (a int); INSERT t VALUES (1); CREATE TABLE m.t (b int); INSERT m.t VALUES (2)
CREATE TABLE other (a int); INSERT other VALUES (3)
CREATE SEQUENCE m.numbers START WITH 7
GO
CREATE VIEW m.v AS SELECT b FROM t UNION ALL SELECT a FROM other
GO
CREATE VIEW m.through AS SELECT b FROM v
GO
CREATE VIEW plain AS SELECT a FROM t
GO
CREATE FUNCTION m.g () RETURNS int AS BEGIN RETURN (SELECT b FROM t) END
GO
CREATE PROCEDURE m.p AS SELECT b FROM v; SELECT a FROM plain",
    );
    for sql in ["SELECT b FROM m.v", "SELECT b FROM m.through"] {
        assert_eq!(rows(&mut s, sql), ["ROW(Int(2))", "ROW(Int(3))"], "{sql}");
    }
    assert_eq!(rows(&mut s, "SELECT a FROM plain"), ["ROW(Int(1))"]);
    assert_eq!(rows(&mut s, "SELECT m.g(), (SELECT a FROM t)"), ["ROW(Int(2), Int(1))"]);
    // A view of dbo reads dbo's table, wherever it is asked from.
    assert_eq!(rows(&mut s, "EXEC m.p"), ["ROW(Int(2))", "ROW(Int(3))", "ROW(Int(1))"]);
    assert_eq!(errors(&mut s, "CREATE VIEW m.w AS SELECT a FROM t"), [207]);
}

/// Source: "CREATE FUNCTION", scalar functions.
#[test]
fn functions_of_several_statements_run_for_each_row() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE TABLE jobs (id int NOT NULL PRIMARY KEY, tries int NOT NULL); INSERT jobs VALUES (1, 1), (2, 3), (3, 9)
GO
CREATE FUNCTION dbo.delay (@tries int, @most int) RETURNS bigint AS
BEGIN
    DECLARE @delay bigint = 1, @n int;
    SET @n = @tries;
    IF @n > 1
    BEGIN
        SET @delay = 4;
        IF @n > 3 SET @delay = 8;
    END
    RETURN @delay;
END
GO
CREATE FUNCTION dbo.ahead (@id int) RETURNS varchar(20) AS
BEGIN
    DECLARE @count int, @last int;
    SELECT @count = COUNT(*), @last = MAX(id) FROM dbo.jobs WHERE id < @id;
    IF @last IS NULL RETURN 'nobody';
    ELSE IF @count = 1 RETURN CONCAT(@count, ' job');
    RETURN CONCAT(@count, ' jobs, ', dbo.delay(3, 100));
END
",
    );
    assert_eq!(
        rows(&mut s, "SELECT id, dbo.delay(tries, 10), dbo.ahead(id) FROM jobs WHERE dbo.delay(tries, 100) < 1000"),
        [
            "ROW(Int(1), BigInt(1), String(\"nobody\"))",
            "ROW(Int(2), BigInt(4), String(\"1 job\"))",
            "ROW(Int(3), BigInt(8), String(\"2 jobs, 4\"))"
        ]
    );
    ok(&mut s, "UPDATE jobs SET tries = dbo.delay(tries, 10) OUTPUT inserted.tries");
    assert_eq!(rows(&mut s, "SELECT SUM(tries) FROM jobs"), ["ROW(Int(13))"]);
    assert_eq!(errors(&mut s, "SELECT COUNT(*) FROM jobs GROUP BY dbo.delay(tries, 4)"), [59000]);
    // What it does is not seen outside of it.
    assert_eq!(
        rows(&mut s, "SELECT id FROM jobs WHERE id < 3; DECLARE @a varchar(20) = dbo.ahead(3); SELECT @a, @@NESTLEVEL"),
        ["ROW(Int(1))", "ROW(Int(2))", "ROW(String(\"2 jobs, 4\"), Int(0))"]
    );
    script(
        &mut s,
        "ALTER FUNCTION dbo.delay (@tries int, @most int) RETURNS bigint AS BEGIN SET @tries += 1; RETURN @tries END",
    );
    assert_eq!(rows(&mut s, "SELECT dbo.delay(4, 0), dbo.ahead(3)"), ["ROW(BigInt(5), String(\"2 jobs, 4\"))"]);
}

/// 443 and 444: docs/relational-databases/errors-events/database-engine-events-and-errors-0-to-999.md. No page says
/// their states.
#[test]
fn what_a_function_must_not_do() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE jobs (id int NOT NULL PRIMARY KEY)");
    for (body, number) in [
        ("PRINT 'a'", 443),
        ("BEGIN TRY SET @a = 1 END TRY BEGIN CATCH SET @a = 2 END CATCH", 443),
        ("RAISERROR('a', 16, 1)", 443),
        ("IF NEWID() IS NULL SET @a = 1", 443),
        ("SELECT id FROM jobs", 444),
        ("SELECT @a = nothing FROM jobs", 207),
        ("SET @b = 1", 137),
        ("EXEC p", 59000),
        ("WHILE @a < 3 SET @a += 1", 59000),
        ("SET @a = dbo.f(@a)", 59000),
        ("INSERT jobs VALUES (1)", 59000),
        ("DECLARE @t TABLE (id int)", 59000),
    ] {
        let sql = format!("CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN {body}; RETURN @a END");
        assert_eq!(errors(&mut s, &sql), [number], "{body}");
    }
    assert_eq!(errors(&mut s, "SELECT dbo.f(1)"), [4121]);
    assert_eq!(
        errors(&mut s, "CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN IF @a = 1 RETURN 1 ELSE RETURN 2 END"),
        [455]
    );
    // A table that is not there yet is looked for when the function runs.
    ok(&mut s, "CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN SELECT @a = COUNT(*) FROM later; RETURN @a END");
    assert_eq!(errors(&mut s, "SELECT dbo.f(1)"), [208]);
    ok(&mut s, "CREATE TABLE later (id int); INSERT later VALUES (7)");
    assert_eq!(rows(&mut s, "SELECT dbo.f(1)"), ["ROW(Int(1))"]);
}

/// Source: "SET DATEFIRST" and "@@DATEFIRST" (docs/t-sql/statements/set-datefirst-transact-sql.md,
/// docs/t-sql/functions/datefirst-transact-sql.md); DATEDIFF goes by Sunday always.
#[test]
fn the_first_day_of_the_week_can_be_set() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE PROCEDURE p AS SET DATEFIRST 3; SELECT @@DATEFIRST");
    assert_eq!(
        rows(&mut s, "DECLARE @d int = 2; SET DATEFIRST @d; EXEC p; SELECT @@DATEFIRST"),
        ["ROW(TinyInt(3))", "ROW(TinyInt(2))"]
    );
    // 5703: docs/relational-databases/errors-events/database-engine-events-and-errors-5000-to-5999.md.
    let answer = run(&mut s, "SET LANGUAGE us_english");
    assert!(answer.iter().any(|token| token.contains("Changed language setting to us_english.")), "{answer:?}");
    // As tedious' own tests against SQL Server have it (test/integration/connection-test.ts, "should test date first
    // custom"): the language that is set already leaves the first day of the week alone.
    assert_eq!(rows(&mut s, "SET DATEFIRST 3; SET LANGUAGE us_english; SELECT @@DATEFIRST"), ["ROW(TinyInt(3))"]);
    assert_eq!(errors(&mut s, "SET DATEFIRST 8"), [2742]);
}
