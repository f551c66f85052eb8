//! What SERVERPROPERTY and its like return: "SERVERPROPERTY", "DATABASEPROPERTYEX" and "SESSIONPROPERTY"
//! (MicrosoftDocs/sql-docs, docs/t-sql/functions/) for the base types, "sql_variant"
//! (docs/t-sql/data-types/sql-variant-transact-sql.md) for comparisons, "CAST and CONVERT"
//! (docs/t-sql/functions/cast-and-convert-transact-sql.md) for conversions.

use crate::session::tests::harness::{errors, ok, rows, run, session};

#[test]
fn a_property_is_a_variant_with_the_base_type_of_its_documentation() {
    let (_e, mut s) = session();
    let tokens = run(&mut s, "SELECT SERVERPROPERTY('ProductVersion') AS version");
    assert!(tokens[0].contains("Variant"), "{tokens:?}");
    assert_eq!(tokens[1], "ROW(String(\"16.0.1000.6\"))");
    assert_eq!(
        rows(
            &mut s,
            "SELECT SERVERPROPERTY('EngineEdition'), SERVERPROPERTY('nothing'), SESSIONPROPERTY('ANSI_NULLS')"
        ),
        ["ROW(Int(3), Null, Int(1))"]
    );
    assert_eq!(
        rows(&mut s, "SELECT DATABASEPROPERTYEX(DB_NAME(), 'Status'), DATABASEPROPERTYEX(DB_NAME(), 'IsAutoClose')"),
        ["ROW(String(\"ONLINE\"), Int(0))"]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT d.v FROM (SELECT SERVERPROPERTY('EngineEdition') AS v UNION ALL SELECT N'x') AS d ORDER BY v"
        ),
        ["ROW(String(\"x\"))", "ROW(Int(3))"]
    );
}

#[test]
fn it_converts_only_when_asked_to() {
    let (_e, mut s) = session();
    assert_eq!(
        rows(
            &mut s,
            "SELECT CAST(SERVERPROPERTY('EngineEdition') AS bigint), CONVERT(varchar(4), SERVERPROPERTY('ProductVersion'))"
        ),
        ["ROW(BigInt(3), String(\"16.0\"))"]
    );
    assert_eq!(
        rows(&mut s, "SELECT ISNULL(SERVERPROPERTY('InstanceName'), 'MSSQLSERVER')"),
        ["ROW(String(\"MSSQLSERVER\"))"]
    );
    assert_eq!(errors(&mut s, "DECLARE @v nvarchar(128) = SERVERPROPERTY('ProductVersion')"), [257]);
    ok(&mut s, "CREATE TABLE t (v nvarchar(128), n int)");
    assert_eq!(errors(&mut s, "INSERT t (v) SELECT SERVERPROPERTY('ProductVersion')"), [257]);
    assert_eq!(errors(&mut s, "INSERT t (n) VALUES (SERVERPROPERTY('EngineEdition'))"), [257]);
}

#[test]
fn comparisons_go_by_the_family_of_the_base_type() {
    let (_e, mut s) = session();
    let is_true = |s: &mut _, condition: &str| {
        assert_eq!(rows(s, &format!("SELECT 1 WHERE {condition}")), ["ROW(Int(1))"], "{condition}");
    };
    is_true(&mut s, "SERVERPROPERTY('EngineEdition') = 3");
    is_true(&mut s, "SERVERPROPERTY('EngineEdition') IN (2, 3)");
    is_true(&mut s, "SERVERPROPERTY('IsClustered') = CAST(0 AS bit)");
    is_true(&mut s, "SERVERPROPERTY('ProductLevel') = 'rtm'");
    is_true(&mut s, "DATABASEPROPERTYEX(DB_NAME(), N'Updateability') <> N'READ_ONLY'");
    // A number is greater than any text, and so equals none.
    is_true(&mut s, "SERVERPROPERTY('EngineEdition') <> '3'");
    is_true(&mut s, "SERVERPROPERTY('EngineEdition') > '4'");
}

#[test]
fn a_value_keeps_its_base_type() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (id int NOT NULL PRIMARY KEY, v sql_variant, w sql_variant NOT NULL DEFAULT 7, n int)");
    ok(
        &mut s,
        "INSERT t (id, v) VALUES (1, 5); INSERT t (id, v) VALUES (2, N'five'), (3, NULL);
         INSERT t (id, v) VALUES (4, CAST(46279.1 AS decimal(8, 2)));
         INSERT t (id, v) SELECT 5, CAST(0x0102 AS binary(4));
         INSERT t (id, v) VALUES (6, CAST('2024-02-29' AS date));
         INSERT t (id, v) VALUES (7, CAST('2024-02-29 01:02:03.5' AS datetime2(3)));
         INSERT t (id, v) VALUES (8, CAST(1.5 AS real)); INSERT t (id, v) VALUES (9, CAST('AB' AS char(3)));
         UPDATE t SET n = 1, w = CAST(2 AS bigint) WHERE id = 9",
    );
    let bases = "SELECT SQL_VARIANT_PROPERTY(v, 'BaseType'), SQL_VARIANT_PROPERTY(v, 'Precision'),
                 SQL_VARIANT_PROPERTY(v, 'scale'), SQL_VARIANT_PROPERTY(v, 'MaxLength') FROM t";
    assert_eq!(
        rows(&mut s, &format!("{bases} WHERE id <> 4")),
        [
            "ROW(String(\"int\"), Int(10), Int(0), Int(4))",
            "ROW(String(\"nvarchar\"), Int(0), Int(0), Int(8))",
            "ROW(Null, Null, Null, Null)",
            "ROW(String(\"binary\"), Int(0), Int(0), Int(4))",
            "ROW(String(\"date\"), Int(10), Int(0), Int(3))",
            "ROW(String(\"datetime2\"), Int(23), Int(3), Int(7))",
            "ROW(String(\"real\"), Int(24), Int(0), Int(4))",
            "ROW(String(\"char\"), Int(0), Int(0), Int(3))",
        ]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT SQL_VARIANT_PROPERTY(v, 'Precision'), SQL_VARIANT_PROPERTY(v, 'Scale') FROM t WHERE id = 4"
        ),
        ["ROW(Int(8), Int(2))"]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT SQL_VARIANT_PROPERTY(v, 'Collation'), SQL_VARIANT_PROPERTY(v, 'nothing') FROM t WHERE id IN (1, 2)"
        ),
        ["ROW(Null, Null)", "ROW(String(\"SQL_Latin1_General_CP1_CI_AS\"), Null)"]
    );
    assert_eq!(
        rows(&mut s, "SELECT v, w FROM t WHERE id IN (2, 7, 9)"),
        [
            "ROW(String(\"five\"), Int(7))",
            "ROW(DateTime(738944, 37235000000), Int(7))",
            "ROW(String(\"AB \"), BigInt(2))"
        ]
    );
    ok(&mut s, "SELECT v INTO copy FROM t; ALTER TABLE copy ADD x sql_variant NULL DEFAULT 'd' WITH VALUES");
    assert_eq!(
        rows(&mut s, "SELECT COUNT(*), COUNT(v), COUNT(DISTINCT x) FROM copy WHERE x = 'D'"),
        ["ROW(Int(9), Int(8), Int(1))"]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT t.name, c.max_length FROM sys.columns AS c JOIN sys.types AS t
                      ON t.user_type_id = c.user_type_id WHERE c.name = 'x'"
        ),
        ["ROW(String(\"sql_variant\"), SmallInt(8016))"]
    );
}

#[test]
fn variables_parameters_and_results_can_be_variants() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE PROCEDURE p @in sql_variant, @out sql_variant OUTPUT AS
         SELECT @in AS v, SQL_VARIANT_PROPERTY(@in, 'BaseType'); SET @out = @in",
    );
    assert_eq!(
        rows(
            &mut s,
            "DECLARE @v sql_variant; EXEC p N'x', @v OUTPUT; SELECT CAST(@v AS nvarchar(5)) + N'y';
             SET @v = 5; SELECT CAST(@v AS int) + 1, ISNULL(@v, 'none'), COALESCE(NULL, @v, 1)"
        ),
        ["ROW(String(\"x\"), String(\"nvarchar\"))", "ROW(String(\"xy\"))", "ROW(Int(6), Int(5), Int(5))"]
    );
    ok(&mut s, "CREATE FUNCTION f (@v sql_variant) RETURNS sql_variant AS BEGIN RETURN COALESCE(@v, 0) END");
    assert_eq!(rows(&mut s, "SELECT dbo.f('a'), dbo.f(NULL)"), ["ROW(String(\"a\"), Int(0))"]);
    for (sql, number) in [
        ("DECLARE @v sql_variant = 1; DECLARE @n int = @v", 257),
        ("DECLARE @v sql_variant = CAST('a' AS varchar(max))", 206),
        ("DECLARE @v sql_variant = @@DBTS; SELECT @v", 0),
        ("CREATE TABLE u (r rowversion, v sql_variant); UPDATE u SET v = r", 206),
        ("DECLARE @v sql_variant = 'x'; SELECT CAST(@v AS int)", 245),
        ("DECLARE @v sql_variant(10)", 2716),
    ] {
        let expected: &[i32] = if number == 0 { &[] } else { &[number] };
        assert_eq!(errors(&mut s, sql), expected, "{sql}");
    }
}

/// "the value whose data type family is higher in the hierarchy chart is considered the greater"; within a family the
/// values count.
#[test]
fn order_goes_by_family_then_by_value() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (n int, v sql_variant)");
    for (n, value) in [
        (1, "CAST('00000000-0000-0000-0000-000000000001' AS uniqueidentifier)"),
        (2, "0x01"),
        (3, "CAST('a' AS char(2))"),
        (4, "N'b'"),
        (5, "-1.25"),
        (6, "CAST(0 AS bit)"),
        (7, "CAST(1 AS bigint)"),
        (8, "CAST(1.5 AS decimal(38, 20))"),
        (9, "CAST(2 AS tinyint)"),
        (10, "CAST(-1 AS real)"),
        (11, "CAST(0.5 AS float)"),
        (12, "CAST('2000-01-01' AS date)"),
        (13, "CAST('2000-01-01 02:00 +01:00' AS datetimeoffset)"),
        (14, "CAST('2000-01-01 01:00:01' AS datetime)"),
    ] {
        ok(&mut s, &format!("INSERT t VALUES ({n}, {value})"));
    }
    ok(&mut s, "INSERT t VALUES (0, NULL)");
    let in_order: Vec<String> = (0..15).map(|n| format!("ROW(Int({n}))")).collect();
    assert_eq!(rows(&mut s, "SELECT n FROM t ORDER BY v"), in_order);
    // Hash keys agree with comparisons.
    ok(&mut s, "INSERT t VALUES (20, 1), (21, 1), (22, CAST(1.50 AS decimal(5, 2)))");
    assert_eq!(
        rows(&mut s, "SELECT MIN(n), COUNT(*) FROM t GROUP BY v HAVING COUNT(*) > 1 ORDER BY 1"),
        ["ROW(Int(7), Int(3))", "ROW(Int(8), Int(2))"]
    );
    assert_eq!(
        rows(&mut s, "SELECT a.n FROM t AS a JOIN t AS b ON a.v = b.v WHERE b.n = 8 ORDER BY a.n"),
        ["ROW(Int(8))", "ROW(Int(22))"]
    );
    assert_eq!(rows(&mut s, "SELECT n FROM t WHERE v = CAST('A' AS varchar(5))"), ["ROW(Int(3))"]);
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM t WHERE v > 1 AND v < CAST(0 AS float)"), ["ROW(Int(4))"]);
}

#[test]
fn what_else_a_variant_could_do_is_refused() {
    let (_e, mut s) = session();
    let refused = [
        "SELECT SERVERPROPERTY('EngineEdition') + 1",
        "CREATE TABLE t (v AS SERVERPROPERTY('EngineEdition'))",
        "SELECT LEN(SERVERPROPERTY('Edition'))",
        "SELECT MAX(SERVERPROPERTY('Edition'))",
        "SELECT 1 WHERE SERVERPROPERTY('Edition') LIKE 'x'",
        "DECLARE @v sql_variant = 'x'; RAISERROR ('%s', 16, 1, @v)",
        "DECLARE @v sql_variant = '10:00'; WAITFOR DELAY @v",
        "DECLARE @v sql_variant = CAST('10:00' AS time)",
        "DECLARE @v sql_variant = CAST(CAST('a' AS varchar(max)) AS sql_variant)",
        "DECLARE @v sql_variant = 'a' COLLATE Latin1_General_BIN2",
        "CREATE TABLE t (v sql_variant PRIMARY KEY)",
        "CREATE TABLE t (v sql_variant, INDEX i (v))",
        "SELECT SQL_VARIANT_PROPERTY(1.5 * CAST(1 AS decimal(5, 2)), 'BaseType')",
        "SELECT SQL_VARIANT_PROPERTY(1, 'TotalBytes')",
        "SELECT SERVERPROPERTY('ProcessID')",
    ];
    for sql in refused {
        assert_eq!(errors(&mut s, sql), [crate::error::NOT_SUPPORTED], "{sql}");
    }
}

/// "PAGLOCK: takes page locks …" of a table that is one page ("Table hints",
/// docs/t-sql/queries/hints-transact-sql-table.md); what a sql_variant takes of it is the size of what it holds.
#[test]
fn rows_with_short_variants_share_a_page() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (id int NOT NULL PRIMARY KEY, v sql_variant)");
    ok(&mut s, "INSERT t VALUES (1, 1); INSERT t VALUES (2, 'two'); INSERT t VALUES (3, 3.5)");
    ok(&mut s, "UPDATE t WITH (PAGLOCK) SET v = N'one' WHERE id = 1");
    ok(&mut s, "INSERT t VALUES (4, CAST(REPLICATE('x', 8000) AS varchar(8000)))");
    assert_eq!(errors(&mut s, "UPDATE t WITH (PAGLOCK) SET v = 1 WHERE id = 1"), [59000]);
}
