//! What SQL Server refuses, the dev server refuses too, by the same numbers.
//!
//! Source of numbers and wordings: "Database Engine events and errors" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/errors-events/database-engine-events-and-errors.md). The rules stand on the pages of the
//! statements, which are named beside the tests.

use crate::error::NOT_SUPPORTED;
use crate::session::client_session::Session;
use crate::session::tests::harness::{errors, ok, rows, run, session};

fn refused(session: &mut Session, cases: &[(&str, &[i32])]) {
    for (sql, numbers) in cases {
        assert_eq!(errors(session, sql), *numbers, "{sql}");
    }
}

/// No queue that is known uses them.
#[test]
fn types_and_functions_are_refused_by_name() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int, d datetime2, j nvarchar(max))");
    for (sql, name) in [
        ("DECLARE @m money", "the data type money"),
        ("CREATE TABLE u (m smallmoney)", "the data type smallmoney"),
        ("SELECT CAST('2007-05-08' AS smalldatetime)", "the data type smalldatetime"),
        ("DECLARE @t text", "text in a variable or parameter"),
        ("SELECT $1.50", "a name or a constant that begins with $"),
        ("SELECT 1e3", "a constant of float"),
        ("SELECT 1 << 2", "the operator <<"),
        ("SELECT DATEADD(quarter, 1, d) FROM t", "the date part quarter"),
        ("SELECT DATEPART(year, d) FROM t", "the function DATEPART"),
        ("SELECT DATENAME(month, d) FROM t", "the function DATENAME"),
        ("SELECT JSON_MODIFY(j, '$.a', 1) FROM t", "the function JSON_MODIFY"),
        ("SELECT JSON_VALUE(j, '$.a') FROM t", "the function JSON_VALUE"),
        ("SELECT UPPER('a')", "the function UPPER"),
        ("SELECT ROUND(a, 1) FROM t", "the function ROUND"),
        ("CREATE TABLE u (i uniqueidentifier DEFAULT NEWSEQUENTIALID())", "the function NEWSEQUENTIALID"),
        ("ALTER TABLE t ADD p AS a + 1 PERSISTED", "PERSISTED"),
        (
            "DECLARE @a int = 0; SELECT @a = @a + a FROM t ORDER BY a",
            "assignments that read variables in a SELECT with",
        ),
        ("INSERT BULK t (a int)", "INSERT BULK"),
        ("SET FMTONLY ON", "SET FMTONLY ON"),
    ] {
        let tokens = run(&mut s, sql).concat();
        assert!(tokens.contains(&format!("not supported by the readpast dev server: {name}")), "{sql}: {tokens}");
    }
}

/// docs/t-sql/queries/top-transact-sql.md: "References to columns of the inner table are not allowed";
/// docs/t-sql/queries/select-order-by-clause-transact-sql.md, OFFSET and FETCH.
#[test]
fn a_number_of_rows_is_an_integer_of_no_row() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int NOT NULL PRIMARY KEY, b int); INSERT t VALUES (1, 1), (2, 2)");
    refused(
        &mut s,
        &[
            ("SELECT TOP (a) b FROM t", &[NOT_SUPPORTED]),
            ("SELECT TOP (1 + a) b FROM t", &[NOT_SUPPORTED]),
            ("UPDATE TOP (a) t SET b = 1", &[NOT_SUPPORTED]),
            ("DELETE TOP (b) FROM t", &[NOT_SUPPORTED]),
            ("SELECT b FROM t ORDER BY a OFFSET a ROWS", &[NOT_SUPPORTED]),
            ("SELECT TOP (1.5) b FROM t", &[1060]),
            ("DECLARE @n float = 1; SELECT TOP (@n) b FROM t", &[1060]),
            ("SELECT TOP (-1) b FROM t", &[127]),
            ("DECLARE @n int = -1; SELECT TOP (@n) b FROM t", &[127]),
            ("SELECT b FROM t ORDER BY a OFFSET 1.5 ROWS", &[10743]),
            ("SELECT b FROM t ORDER BY a OFFSET -1 ROWS", &[10742]),
            ("SELECT b FROM t ORDER BY a OFFSET 0 ROWS FETCH NEXT 0 ROWS ONLY", &[10744]),
            ("DECLARE @n int = 0; SELECT b FROM t ORDER BY a OFFSET 0 ROWS FETCH NEXT @n ROWS ONLY", &[10744]),
        ],
    );
    let outer = "SELECT x.a, y.b FROM t AS x CROSS APPLY (SELECT TOP (x.a) b FROM t ORDER BY b) AS y ORDER BY 1, 2";
    assert_eq!(rows(&mut s, outer).len(), 3);
}

/// docs/t-sql/functions/next-value-for-transact-sql.md, limitations and restrictions.
#[test]
fn next_value_for_stands_where_its_values_can_be_counted() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE SEQUENCE s AS int START WITH 1");
    ok(&mut s, "CREATE TABLE t (a int NOT NULL PRIMARY KEY, n int NOT NULL DEFAULT 1); INSERT t (a) VALUES (1)");
    refused(
        &mut s,
        &[
            ("SELECT (SELECT NEXT VALUE FOR s)", &[NOT_SUPPORTED]),
            ("SELECT x FROM (SELECT NEXT VALUE FOR s AS x) AS d", &[NOT_SUPPORTED]),
            ("WITH c AS (SELECT NEXT VALUE FOR s AS x) SELECT x FROM c", &[NOT_SUPPORTED]),
            ("CREATE VIEW v AS SELECT NEXT VALUE FOR s AS x", &[NOT_SUPPORTED]),
            ("CREATE TABLE u (a int CHECK (a > NEXT VALUE FOR s))", &[NOT_SUPPORTED]),
            ("CREATE TABLE u (a int, b AS NEXT VALUE FOR s)", &[NOT_SUPPORTED]),
            ("CREATE TABLE d (a int DEFAULT NEXT VALUE FOR s, b int)", &[]),
            ("INSERT d (b) SELECT TOP (1) 1", &[NOT_SUPPORTED]),
            ("DROP SEQUENCE s", &[3729]),
            ("SELECT a FROM t WHERE a = NEXT VALUE FOR s", &[NOT_SUPPORTED]),
            ("SELECT a FROM t ORDER BY NEXT VALUE FOR s", &[NOT_SUPPORTED]),
            ("DELETE t WHERE a = NEXT VALUE FOR s", &[NOT_SUPPORTED]),
            ("SELECT DISTINCT NEXT VALUE FOR s FROM t", &[NOT_SUPPORTED]),
            ("SELECT NEXT VALUE FOR s UNION ALL SELECT 1", &[NOT_SUPPORTED]),
            ("SELECT NEXT VALUE FOR s FROM t ORDER BY a", &[NOT_SUPPORTED]),
            ("SELECT COUNT(NEXT VALUE FOR s) FROM t", &[NOT_SUPPORTED]),
            ("SELECT TOP (1) NEXT VALUE FOR s FROM t", &[NOT_SUPPORTED]),
            ("UPDATE TOP (1) t SET n = NEXT VALUE FOR s", &[NOT_SUPPORTED]),
            ("SET ROWCOUNT 1", &[NOT_SUPPORTED]),
            ("SET ROWCOUNT 0", &[]),
            ("INSERT t (a, n) SELECT TOP (1) a + 1, NEXT VALUE FOR s FROM t", &[NOT_SUPPORTED]),
            ("SELECT CASE WHEN 1 = 1 THEN NEXT VALUE FOR s END", &[NOT_SUPPORTED]),
            ("SELECT COALESCE(NEXT VALUE FOR s, 1)", &[NOT_SUPPORTED]),
            ("SELECT ISNULL(NEXT VALUE FOR s, 1)", &[NOT_SUPPORTED]),
            (
                "MERGE t USING (VALUES (1)) AS v (a) ON t.a = v.a WHEN MATCHED THEN UPDATE SET n = NEXT VALUE FOR s;",
                &[NOT_SUPPORTED],
            ),
            ("CREATE SEQUENCE r AS float", &[11702]),
            ("CREATE SEQUENCE r AS int INCREMENT BY 0", &[11700]),
            ("CREATE SEQUENCE r AS tinyint START WITH 1000", &[11708]),
            ("CREATE SEQUENCE r AS int MINVALUE 5 CYCLE", &[NOT_SUPPORTED]),
        ],
    );
    // None of that took a value.
    assert_eq!(rows(&mut s, "SELECT NEXT VALUE FOR s"), ["ROW(Int(1))"]);
    ok(&mut s, "SELECT NEXT VALUE FOR s OVER (ORDER BY a), a FROM t ORDER BY a");
    ok(&mut s, "UPDATE t SET n = NEXT VALUE FOR s; INSERT t (a, n) SELECT a + 10, NEXT VALUE FOR s FROM t");
}

/// docs/t-sql/statements/create-view-transact-sql.md, docs/t-sql/statements/create-function-transact-sql.md.
#[test]
fn a_module_names_its_columns_and_has_no_side_effects() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int, b int); CREATE TABLE #t (a int)");
    refused(
        &mut s,
        &[
            ("CREATE VIEW v AS SELECT 1", &[4511]),
            ("CREATE VIEW v AS SELECT a, b + 1 FROM t", &[4511]),
            ("CREATE VIEW v AS SELECT a, b AS A FROM t", &[4506]),
            ("CREATE VIEW v (x) AS SELECT a FROM t", &[NOT_SUPPORTED]),
            ("CREATE VIEW v AS SELECT a FROM #t", &[4508]),
            ("CREATE FUNCTION f() RETURNS uniqueidentifier AS BEGIN RETURN NEWID() END", &[NOT_SUPPORTED]),
            ("WITH c AS (SELECT 1 AS a), C AS (SELECT 2 AS a) SELECT a FROM c", &[239]),
            ("SELECT a FROM t OPTION (MAXRECURSION 5)", &[NOT_SUPPORTED]),
            ("RETURN 1", &[178]),
            ("EXEC (N'RETURN 1')", &[178]),
        ],
    );
    ok(&mut s, "CREATE PROCEDURE p AS RETURN 1");
    ok(&mut s, "RETURN");
}

/// docs/t-sql/language-elements/coalesce-transact-sql.md ("At least one of the null values must be a typed NULL"),
/// nullif-transact-sql.md; docs/t-sql/queries/update-transact-sql.md.
#[test]
fn null_has_no_type() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int, b int)");
    refused(
        &mut s,
        &[
            ("SELECT COALESCE(NULL, NULL)", &[NOT_SUPPORTED]),
            ("SELECT NULLIF(NULL, 1)", &[NOT_SUPPORTED]),
            ("SELECT SUM(NULL)", &[8117]),
            ("SELECT MAX(NULL)", &[8117]),
            ("SELECT STRING_AGG(NULL, N',')", &[8116]),
            ("UPDATE t SET a = MAX(b)", &[157]),
            ("SELECT a FROM t GROUP BY a HAVING b > 1", &[8121]),
            ("SELECT a FROM t GROUP BY a ORDER BY b", &[8127]),
        ],
    );
    assert_eq!(rows(&mut s, "SELECT COALESCE(NULL, CAST(NULL AS int)), MAX(CAST(NULL AS int))"), ["ROW(Null, Null)"]);
}

/// docs/t-sql/statements/create-table-transact-sql.md: constraints, computed columns, IDENTITY;
/// docs/t-sql/statements/create-index-transact-sql.md: filtered indexes;
/// docs/t-sql/statements/set-identity-insert-transact-sql.md.
#[test]
fn a_definition_that_contradicts_itself() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (a int NOT NULL PRIMARY KEY, b int, c AS b * 2); CREATE TABLE i (id int IDENTITY, v int)",
    );
    refused(
        &mut s,
        &[
            ("CREATE TABLE x (a int PRIMARY KEY, b int PRIMARY KEY)", &[8110]),
            ("CREATE TABLE x (a int IDENTITY DEFAULT 5)", &[NOT_SUPPORTED]),
            ("ALTER TABLE i ADD DEFAULT 5 FOR id", &[NOT_SUPPORTED]),
            ("CREATE TABLE x (a rowversion DEFAULT 5)", &[NOT_SUPPORTED]),
            ("CREATE TABLE x (a int CHECK (b > 1), b int)", &[NOT_SUPPORTED]),
            ("CREATE TABLE x (a int CHECK (a IN (SELECT 1)))", &[1046]),
            ("CREATE TABLE x (a int DEFAULT (SELECT 1))", &[1046]),
            ("CREATE TABLE x (a int, b AS (SELECT 1))", &[1046]),
            ("CREATE TABLE x (a int, b AS a + 1, c AS b + 1)", &[NOT_SUPPORTED]),
            ("ALTER TABLE t ADD d AS c + 1", &[NOT_SUPPORTED]),
            ("CREATE INDEX x ON t (b) WHERE c > 1", &[NOT_SUPPORTED]),
            ("SET IDENTITY_INSERT i ON; EXEC (N'INSERT i VALUES (5, 1)')", &[8101]),
            ("EXEC (N'INSERT i VALUES (1)')", &[545]),
            ("INSERT i (v) VALUES (1)", &[545]),
        ],
    );
    ok(&mut s, "CREATE TABLE x (a int CHECK (a > 1), b int, CHECK (a > b), d datetime2(3) CHECK (d > '2000-01-01'))");
}

/// 5074 and 4922, 1767 and 1750: the reason comes first, and CATCH and @@ERROR know the last message only
/// (docs/t-sql/language-elements/try-catch-transact-sql.md shows it for 5074 and its like).
#[test]
fn what_failed_is_told_after_its_reason() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (a int NOT NULL CONSTRAINT pk PRIMARY KEY, b int CONSTRAINT df DEFAULT 1 CONSTRAINT ck CHECK (b > 0),
                         c AS b + 1, INDEX ix (b))",
    );
    assert_eq!(errors(&mut s, "ALTER TABLE t DROP COLUMN b"), [5074, 5074, 5074, 5074, 4922]);
    let tokens = run(&mut s, "ALTER TABLE t DROP COLUMN a").concat();
    assert!(tokens.contains("The object 'pk' is dependent on column 'a'."), "{tokens}");
    let tokens = run(&mut s, "ALTER TABLE t ALTER COLUMN b bigint").concat();
    for dependent in ["object 'df'", "index 'ix'", "object 'ck'", "column 'c'"] {
        assert!(tokens.contains(&format!("The {dependent} is dependent on column 'b'.")), "{dependent}: {tokens}");
    }
    assert_eq!(errors(&mut s, "CREATE TABLE u (a int REFERENCES nothing (a))"), [1767, 1750]);
    assert_eq!(errors(&mut s, "CREATE TABLE u (a int CONSTRAINT pk PRIMARY KEY)"), [2714, 1750]);
    assert_eq!(errors(&mut s, "ALTER TABLE t ADD CONSTRAINT u UNIQUE (nothing)"), [1911, 1750]);
    let caught = "BEGIN TRY EXEC (N'ALTER TABLE t DROP COLUMN a') END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH";
    assert_eq!(rows(&mut s, caught), ["ROW(Int(4922))"]);
    let number = run(&mut s, "ALTER TABLE t DROP COLUMN a; SELECT @@ERROR").concat();
    assert!(number.contains("ROW(Int(4922))"), "{number}");
}

/// docs/t-sql/statements/alter-database-transact-sql-set-options.md, "Setting options" and the termination clause.
#[test]
fn read_only_needs_the_database_for_itself() {
    let (e, mut s) = session();
    let other = crate::session::tests::harness::login(&e, "sa", "secret");
    assert_eq!(errors(&mut s, "SET LOCK_TIMEOUT 0; ALTER DATABASE CURRENT SET READ_ONLY"), [1222]);
    drop(other);
    ok(&mut s, "ALTER DATABASE CURRENT SET READ_ONLY");
    assert_eq!(errors(&mut s, "CREATE TABLE t (a int)"), [3906]);
    ok(&mut s, "ALTER DATABASE CURRENT SET READ_WRITE WITH ROLLBACK IMMEDIATE");
    for unclear in [
        "READ_ONLY WITH NO_WAIT",
        "RECOVERY FULL",
        "MULTI_USER WITH ROLLBACK IMMEDIATE",
        "ALLOW_SNAPSHOT_ISOLATION ON WITH ROLLBACK IMMEDIATE",
        "READ_COMMITTED_SNAPSHOT ON, RECOVERY SIMPLE",
    ] {
        assert_eq!(errors(&mut s, &format!("ALTER DATABASE CURRENT SET {unclear}")), [NOT_SUPPORTED], "{unclear}");
    }
    refused(
        &mut s,
        &[
            ("BEGIN TRANSACTION; ALTER DATABASE CURRENT SET READ_ONLY", &[226]),
            ("CREATE DATABASE d", &[226]),
            ("ROLLBACK", &[]),
        ],
    );
    // docs/t-sql/statements/create-trigger-transact-sql.md, the statements that a trigger cannot have.
    ok(&mut s, "CREATE TABLE t (a int)");
    ok(&mut s, "CREATE TRIGGER tr ON t AFTER INSERT AS CREATE DATABASE d");
    assert_eq!(errors(&mut s, "INSERT t VALUES (1)"), [287]);
    ok(&mut s, "DROP TRIGGER tr");
    ok(&mut s, "CREATE TRIGGER tr ON t AFTER INSERT AS ALTER DATABASE CURRENT SET READ_ONLY");
    assert_eq!(errors(&mut s, "INSERT t VALUES (1)"), [287]);
}

/// The syntax of `<filter_predicate>` has `column_name` alone (docs/t-sql/statements/create-index-transact-sql.md). SQL
/// Server rejects a schema before it (drizzle-team/drizzle-orm, issue 5593) and takes the table's name: MassTransit's
/// SQL transport installs with it (SqlServerDatabaseMigrator.cs).
#[test]
fn the_filter_of_an_index_names_its_columns_alone() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int, state int)");
    for (filter, number) in
        [("dbo.t.state = 0", 102), ("dbo.t.state IN (1, 2)", 102), ("x.state IS NULL", NOT_SUPPORTED)]
    {
        assert_eq!(errors(&mut s, &format!("CREATE INDEX i ON t (a) WHERE {filter}")), [number], "{filter}");
    }
    ok(&mut s, "CREATE INDEX i ON t (a) WHERE state = 0; CREATE UNIQUE INDEX j ON t (a) WHERE T.state IS NOT NULL");
    ok(&mut s, "INSERT t VALUES (1, NULL), (1, NULL), (1, 2)");
    assert_eq!(errors(&mut s, "INSERT t VALUES (1, 3)"), [2601]);
}

/// Control of flow and of the session that no queue has been seen with.
#[test]
fn statements_that_no_queue_needs_are_refused_by_name() {
    let (_e, mut s) = session();
    for sql in [
        "GOTO done; done: SELECT 1",
        "RAISERROR ('a', 16, 1) WITH NOWAIT, SETERROR",
        "DBCC CHECKIDENT (t)",
        "SET TEXTSIZE 100",
        "EXEC sp_executesql N'SELECT @a', N'@a int = 5'",
        "CREATE TABLE #t (a int); INSERT #t EXEC ('SELECT 1')",
        "SET STATISTICS IO OFF",
        "CREATE TABLE ##t (a int)",
        "CREATE PROCEDURE #p AS SELECT 1",
        "EXECUTE AS USER = 'x'",
        "REVERT",
        "WAITFOR TIME '12:00'",
        "SET CONTEXT_INFO 0x01",
        "SELECT CONTEXT_INFO(), TRIGGER_NESTLEVEL(), ROWCOUNT_BIG()",
        "SELECT IDENT_CURRENT('t'), IDENT_SEED('t'), IDENT_INCR('t')",
        "SELECT APPLOCK_TEST('public', 'a', 'Shared', 'Session')",
        "SELECT @@DBTS",
        "SELECT @@MAX_PRECISION",
    ] {
        assert_eq!(errors(&mut s, sql), [NOT_SUPPORTED], "{sql}");
    }
}

/// What no queue needs, and the dev server does not have.
#[test]
fn what_is_not_here_is_refused_by_name() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (id int NOT NULL CONSTRAINT pk PRIMARY KEY, a int)");
    for sql in [
        "EXEC sp_rename 'pk', 'x'",
        "SELECT t.id FROM t FULL JOIN t AS u ON u.id = t.id",
        "SELECT id FROM t EXCEPT SELECT 1",
        "SELECT id FROM t INTERSECT SELECT 1",
        "SELECT TOP 5 PERCENT id FROM t",
        "SELECT TOP (5) WITH TIES id FROM t ORDER BY id",
        "SELECT a FROM OPENJSON('[]') WITH (a int)",
        "SELECT * FROM OPENJSON('{}', '$.a')",
        "SELECT * FROM STRING_SPLIT('a', ',', 1)",
        "SELECT * FROM GENERATE_SERIES(1, 9, 2)",
        "SELECT * FROM sys.fn_helpcollations()",
        "SELECT 1 << 2",
        "SELECT t.id FROM t INNER HASH JOIN t AS u ON u.id = t.id",
        "SELECT id FROM t OPTION (HASH GROUP)",
        "SELECT STRING_AGG('a', ',') WITHIN GROUP (ORDER BY id) FROM t",
        "WITH c AS (SELECT id FROM t) INSERT c VALUES (1)",
        "CREATE FUNCTION f () RETURNS TABLE AS RETURN SELECT 1 AS a",
        "EXEC sp_addextendedproperty 'note', 'a'",
        "SELECT * FROM sys.identity_columns",
        "SELECT * FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE",
        "SELECT * FROM tempdb.sys.tables",
        "CREATE SYNONYM s FOR t",
        "KILL 60",
        "ALTER SCHEMA guest TRANSFER t",
        "ALTER AUTHORIZATION ON OBJECT::t TO dbo",
        "EXEC sp_rename 't.pk', 'x', 'INDEX'",
        "SELECT * FROM sys.dm_db_index_operational_stats(DB_ID(), NULL, NULL, NULL)",
        "CREATE TABLE u (id int REFERENCES t ON DELETE SET NULL)",
        "CREATE TABLE u (id int) WITH (DATA_COMPRESSION = PAGE)",
        "CREATE INDEX i ON t (a) WITH PAD_INDEX",
        "GRANT SELECT ON t TO [public] WITH GRANT OPTION",
        "GRANT SELECT ON SCHEMA::dbo TO [public]",
        "GRANT ALTER ON t TO [public]",
        "CREATE ROLE r AUTHORIZATION [db_owner]",
        "EXEC sp_droprolemember 'r', 'guest'",
        "CREATE LOGIN l WITH PASSWORD = 'p', CHECK_POLICY = OFF",
        "CREATE USER u WITH PASSWORD = 'p'",
        "ALTER ROLE db_ddladmin ADD MEMBER guest",
        "CREATE TYPE id FROM int",
        "SELECT OBJECTPROPERTY(OBJECT_ID('t'), 'TableHasIndex')",
        "SELECT * FROM fn_listextendedproperty(NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    ] {
        assert_eq!(errors(&mut s, sql), [NOT_SUPPORTED], "{sql}");
    }
}
