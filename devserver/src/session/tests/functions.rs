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
CREATE FUNCTION dbo.delay_after (@tries int, @base int) RETURNS int WITH SCHEMABINDING AS BEGIN RETURN @base * POWER(2, @tries - 1) END
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

#[test]
fn inline_functions_are_queries_with_parameters() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE TABLE jobs (id int NOT NULL PRIMARY KEY, queue varchar(10) NOT NULL); INSERT jobs VALUES (1, 'a'), (2, 'a'), (3, 'b')
GO
CREATE FUNCTION dbo.jobs_of (@queue varchar(10), @most int) RETURNS TABLE AS
RETURN (WITH j AS (SELECT id, queue FROM dbo.jobs WHERE queue = @queue) SELECT TOP (@most) id, queue AS q FROM j ORDER BY id)",
    );
    assert_eq!(rows(&mut s, "SELECT * FROM dbo.jobs_of('a', 1)"), ["ROW(Int(1), String(\"a\"))"]);
    assert_eq!(
        rows(
            &mut s,
            "SELECT v.q, f.id FROM (VALUES ('b'), ('a')) v (q) CROSS APPLY dbo.jobs_of(v.q, 10) f ORDER BY f.id"
        ),
        ["ROW(String(\"a\"), Int(1))", "ROW(String(\"a\"), Int(2))", "ROW(String(\"b\"), Int(3))"]
    );
    // A variable of the caller's is not the function's, and a column beside it is not seen without APPLY.
    assert_eq!(errors(&mut s, "SELECT * FROM jobs j JOIN dbo.jobs_of(j.queue, 1) f ON f.id = j.id"), [4104]);
    assert_eq!(errors(&mut s, "SELECT * FROM dbo.nothing(1)"), [208]);
    script(
        &mut s,
        "ALTER FUNCTION dbo.jobs_of (@queue varchar(10)) RETURNS TABLE AS RETURN SELECT id FROM jobs WHERE queue <> @queue",
    );
    assert_eq!(rows(&mut s, "SELECT id FROM dbo.jobs_of('a')"), ["ROW(Int(3))"]);
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

/// Names without schema in a module mean objects of its schema, then of dbo. Types in the head of a function are looked
/// for in the default schema of who creates it. Source: "Name resolution, default schema, implicit schema", part III
/// (the blog of SQL Server's programmability team), and "CREATE FUNCTION", its parameters (MicrosoftDocs/sql-docs,
/// docs/t-sql/statements/create-function-transact-sql.md).
#[test]
fn names_in_a_module_are_those_of_its_schema() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE SCHEMA m
GO
CREATE TABLE t (a int); INSERT t VALUES (1); CREATE TABLE m.t (b int); INSERT m.t VALUES (2)
CREATE TABLE other (a int); INSERT other VALUES (3)
CREATE TYPE m.number FROM int; CREATE SEQUENCE m.numbers START WITH 7
GO
CREATE VIEW m.v AS SELECT b FROM t UNION ALL SELECT a FROM other
GO
CREATE VIEW m.through AS SELECT b FROM v
GO
CREATE VIEW plain AS SELECT a FROM t
GO
CREATE FUNCTION m.f () RETURNS TABLE AS RETURN (SELECT b FROM t)
GO
CREATE FUNCTION m.g () RETURNS int AS BEGIN RETURN (SELECT b FROM t) END
GO
CREATE PROCEDURE m.p AS SELECT b FROM v; SELECT a FROM plain",
    );
    for sql in ["SELECT b FROM m.v", "SELECT b FROM m.through"] {
        assert_eq!(rows(&mut s, sql), ["ROW(Int(2))", "ROW(Int(3))"], "{sql}");
    }
    assert_eq!(rows(&mut s, "SELECT a FROM plain"), ["ROW(Int(1))"]);
    assert_eq!(rows(&mut s, "SELECT b FROM m.f()"), ["ROW(Int(2))"]);
    assert_eq!(rows(&mut s, "SELECT m.g(), (SELECT a FROM t)"), ["ROW(Int(2), Int(1))"]);
    // A view of dbo reads dbo's table, wherever it is asked from.
    assert_eq!(rows(&mut s, "EXEC m.p"), ["ROW(Int(2))", "ROW(Int(3))", "ROW(Int(1))"]);
    assert_eq!(errors(&mut s, "CREATE VIEW m.w AS SELECT a FROM t"), [207]);
    assert_eq!(errors(&mut s, "CREATE FUNCTION m.h (@a number) RETURNS int AS BEGIN RETURN @a END"), [2715]);
    ok(&mut s, "CREATE FUNCTION m.h (@a m.number) RETURNS int AS BEGIN RETURN @a END");
}

/// What SQL Server knows is known here or refused by its name, and only what it does not know is 195. Source: the pages
/// of docs/t-sql/functions/ (MicrosoftDocs/sql-docs).
#[test]
fn a_function_of_sql_server_is_known_or_refused_by_name() {
    let (_e, mut s) = session();
    for name in [
        "ATN2",
        "BASE64_ENCODE",
        "CERT_ID",
        "CHOOSE",
        "COLLATIONPROPERTY",
        "CURRENT_TIMEZONE",
        "DATETIMEFROMPARTS",
        "DIFFERENCE",
        "EOMONTH",
        "EVENTDATA",
        "FILE_ID",
        "GREATEST",
        "HOST_ID",
        "JSON_MODIFY",
        "JSON_OBJECTAGG",
        "NODE_ID_FROM_PARTS",
        "PARSENAME",
        "PRODUCT",
        "PWDCOMPARE",
        "REGEXP_COUNT",
        "REVERSE",
        "ROUND",
        "SESSION_CONTEXT",
        "SIN",
        "SOUNDEX",
        "TEXTPTR",
        "TRANSLATE",
        "VARP",
        "VECTOR_DISTANCE",
    ] {
        let tokens = run(&mut s, &format!("SELECT {name}(1, 2)"));
        let refusal = format!("not supported by the readpast dev server: the function {name}");
        assert!(tokens.iter().any(|token| token.contains(&refusal)), "{name}: {tokens:?}");
    }
    for name in ["ABS", "DATALENGTH", "FORMATMESSAGE", "ISJSON", "QUOTENAME", "XACT_STATE"] {
        assert!(!errors(&mut s, &format!("SELECT {name}('a', 2, 3, 4, 5, 6, 7, 8, 9)")).contains(&195), "{name}");
    }
    for name in ["IFNULL", "NVL", "NOW", "LENGTH", "SUBSTR", "ATAN2", "CHR"] {
        assert_eq!(errors(&mut s, &format!("SELECT {name}(1, 2)")), [195], "{name}");
    }
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
    WHILE 1 = 1
    BEGIN
        IF @n <= 1 BREAK;
        SET @n -= 1;
        IF @delay * 2 > @most CONTINUE;
        SET @delay = @delay * 2;
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
GO
CREATE FUNCTION dbo.factorial (@n int) RETURNS int AS
BEGIN
    IF @n <= 1 RETURN 1;
    RETURN @n * dbo.factorial(@n - 1);
END",
    );
    assert_eq!(
        rows(&mut s, "SELECT id, dbo.delay(tries, 10), dbo.ahead(id) FROM jobs WHERE dbo.delay(tries, 100) < 1000"),
        [
            "ROW(Int(1), BigInt(1), String(\"nobody\"))",
            "ROW(Int(2), BigInt(4), String(\"1 job\"))",
            "ROW(Int(3), BigInt(8), String(\"2 jobs, 4\"))"
        ]
    );
    assert_eq!(rows(&mut s, "DECLARE @n int = 5; SET @n = dbo.factorial(@n); SELECT @n"), ["ROW(Int(120))"]);
    assert_eq!(errors(&mut s, "SELECT dbo.factorial(40)"), [217]);
    ok(&mut s, "UPDATE jobs SET tries = dbo.delay(tries, 10) OUTPUT inserted.tries");
    assert_eq!(rows(&mut s, "SELECT SUM(tries) FROM jobs"), ["ROW(Int(13))"]);
    assert_eq!(
        rows(&mut s, "SELECT dbo.delay(tries, 4), COUNT(*) FROM jobs GROUP BY dbo.delay(tries, 4) ORDER BY 1"),
        ["ROW(BigInt(1), Int(1))", "ROW(BigInt(4), Int(2))"]
    );
    // What it does is not seen outside of it.
    assert_eq!(
        rows(&mut s, "SELECT id FROM jobs WHERE id < 3; DECLARE @a varchar(20) = dbo.ahead(3); SELECT @a, @@NESTLEVEL"),
        ["ROW(Int(1))", "ROW(Int(2))", "ROW(String(\"2 jobs, 4\"), Int(0))"]
    );
    assert_eq!(errors(&mut s, "SELECT dbo.factorial(dbo.factorial(20))"), [8115]);
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

/// A function that calls itself from as deep as a text can go does so 32 times, on the stack of a session.
#[test]
fn a_deep_call_in_a_deep_expression_does_not_overflow_the_stack() {
    let work = || {
        let (_e, mut s) = session();
        let sum = format!("{}dbo.deep(@n + 1){}", "1 + (".repeat(50), ")".repeat(50));
        ok(
            &mut s,
            &format!("CREATE FUNCTION dbo.deep (@n int) RETURNS int AS BEGIN IF @n = 99 RETURN 0; RETURN {sum} END"),
        );
        assert_eq!(errors(&mut s, "SELECT dbo.deep(1)"), [217]);
        let queries = format!("{}dbo.deep(@n + 1){}", "(SELECT ".repeat(28), ")".repeat(28));
        ok(
            &mut s,
            &format!("ALTER FUNCTION dbo.deep (@n int) RETURNS int AS BEGIN IF @n = 99 RETURN 0; RETURN {queries} END"),
        );
        assert_eq!(errors(&mut s, "SELECT dbo.deep(1)"), [217]);
    };
    let thread = std::thread::Builder::new().stack_size(16 << 20).spawn(work).expect("a thread");
    thread.join().expect("nothing fails");
}

/// Source: "CREATE FUNCTION" (docs/t-sql/statements/create-function-transact-sql.md), whose uses of functions are
/// columns of tables and CHECK constraints too.
#[test]
fn tables_call_functions_of_several_statements() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE FUNCTION dbo.half (@n int) RETURNS int AS BEGIN IF @n < 0 RETURN NULL; RETURN @n / 2 END
GO
CREATE FUNCTION dbo.twice (@n int) RETURNS int AS BEGIN DECLARE @m int = @n; RETURN @m + @n END
GO
CREATE TABLE t (a int, b AS dbo.half(a) + dbo.twice(a), c int DEFAULT dbo.twice(4), CHECK (dbo.half(a) < 100))",
    );
    ok(&mut s, "INSERT t (a) VALUES (10), (20)");
    assert_eq!(errors(&mut s, "INSERT t (a) VALUES (500)"), [547]);
    assert_eq!(
        rows(&mut s, "SELECT b, c FROM t WHERE b = dbo.half(a) + dbo.twice(a) ORDER BY dbo.half(a)"),
        ["ROW(Int(25), Int(8))", "ROW(Int(50), Int(8))"]
    );
    ok(&mut s, "ALTER TABLE t ADD d int NOT NULL DEFAULT dbo.half(6)");
    assert_eq!(rows(&mut s, "SELECT DISTINCT d FROM t"), ["ROW(Int(3))"]);
    assert_eq!(errors(&mut s, "ALTER TABLE t ADD CHECK (dbo.twice(a) < 30)"), [547]);
    assert_eq!(
        rows(&mut s, "DECLARE c CURSOR FOR SELECT dbo.twice(a) FROM t WHERE a = 20; OPEN c; FETCH c; DEALLOCATE c"),
        ["ROW(Int(40))"]
    );
}

/// A parameter has a type, even where NULL is passed: it is no constant NULL.
#[test]
fn isnull_takes_a_parameter() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE FUNCTION dbo.f (@v int) RETURNS int AS BEGIN RETURN ISNULL(@v, 7) END");
    ok(&mut s, "CREATE FUNCTION dbo.g (@v varchar(5)) RETURNS TABLE AS RETURN SELECT ISNULL(@v, 'none') AS v");
    assert_eq!(
        rows(&mut s, "SELECT dbo.f(NULL), dbo.f(1); SELECT v FROM dbo.g(NULL); SELECT v FROM dbo.g('a')"),
        ["ROW(Int(7), Int(1))", "ROW(String(\"none\"))", "ROW(String(\"a\"))"]
    );
}

/// Source: "CREATE FUNCTION", docs/t-sql/statements/create-function-transact-sql.md (a parameter's default, and that
/// EXECUTE needs no DEFAULT).
#[test]
fn defaults_of_parameters_are_asked_for() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE FUNCTION dbo.g (@a int, @b varchar(9) = 'b') RETURNS varchar(20) AS BEGIN RETURN CONCAT(@a, @b) END
GO
CREATE FUNCTION dbo.h (@a int = 5) RETURNS bigint AS BEGIN DECLARE @x bigint = @a; SET @x += 1; RETURN @x END
GO
CREATE FUNCTION dbo.f (@a int = 5, @b int) RETURNS TABLE AS RETURN (SELECT @a + @b AS c)",
    );
    assert_eq!(
        rows(&mut s, "SELECT dbo.g(1, DEFAULT), dbo.h(default), (SELECT c FROM dbo.f(DEFAULT, 2))"),
        ["ROW(String(\"1b\"), BigInt(6), Int(7))"]
    );
    assert_eq!(rows(&mut s, "SELECT x.c FROM (VALUES (1)) v (n) CROSS APPLY dbo.f(DEFAULT, v.n) x"), ["ROW(Int(6))"]);
    for (sql, number) in [
        ("SELECT dbo.g(1)", 313),
        ("SELECT dbo.h()", 313),
        ("SELECT * FROM dbo.f(1)", 313),
        ("SELECT dbo.g(DEFAULT, 'x')", 59000),
        ("SELECT LEN(DEFAULT)", 156),
        ("SELECT * FROM STRING_SPLIT(DEFAULT, ',')", 59000),
    ] {
        assert_eq!(errors(&mut s, sql), [number], "{sql}");
    }
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
