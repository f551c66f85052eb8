//! What SERVERPROPERTY and its like return: "SERVERPROPERTY", "DATABASEPROPERTYEX" and "SESSIONPROPERTY"
//! (MicrosoftDocs/sql-docs, docs/t-sql/functions/) for the base types, "sql_variant"
//! (docs/t-sql/data-types/sql-variant-transact-sql.md) for comparisons, "CAST and CONVERT"
//! (docs/t-sql/functions/cast-and-convert-transact-sql.md) for conversions.

use crate::session::tests::harness::{errors, ok, rows, session};

#[test]
fn a_property_is_a_variant_with_the_base_type_of_its_documentation() {
    let (_e, mut s) = session();
    for (property, base) in [
        ("SERVERPROPERTY('ProductVersion')", "16.0.1000.6"),
        ("SERVERPROPERTY('EngineEdition')", "3"),
        ("SESSIONPROPERTY('ANSI_NULLS')", "1"),
        ("DATABASEPROPERTYEX(DB_NAME(), 'Status')", "ONLINE"),
    ] {
        let found = rows(&mut s, &format!("SELECT CAST({property} AS nvarchar(20))"));
        assert_eq!(found, [format!("ROW(String(\"{base}\"))")], "{property}");
    }
    assert_eq!(
        rows(
            &mut s,
            "SELECT CAST(d.v AS nvarchar(9)) FROM
                 (SELECT SERVERPROPERTY('EngineEdition') AS v UNION ALL SELECT N'x') AS d ORDER BY v"
        ),
        ["ROW(String(\"x\"))", "ROW(String(\"3\"))"]
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
        rows(&mut s, "SELECT CAST(ISNULL(SESSIONPROPERTY('nothing'), 'MSSQLSERVER') AS varchar(20))"),
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
    is_true(&mut s, "SERVERPROPERTY('IsFullTextInstalled') = CAST(0 AS bit)");
    is_true(&mut s, "SERVERPROPERTY('ProductLevel') = 'rtm'");
    is_true(&mut s, "DATABASEPROPERTYEX(DB_NAME(), N'Updateability') <> N'READ_ONLY'");
    // A number is greater than any text, and so equals none.
    is_true(&mut s, "SERVERPROPERTY('EngineEdition') <> '3'");
    is_true(&mut s, "SERVERPROPERTY('EngineEdition') > '4'");
}

/// As durabletask-mssql keeps its global settings.
#[test]
fn a_value_keeps_its_base_type() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (id int NOT NULL PRIMARY KEY, v sql_variant, w sql_variant NOT NULL DEFAULT 7)");
    ok(
        &mut s,
        "CREATE PROCEDURE p @id int, @v sql_variant AS UPDATE t SET v = @v WHERE id = @id
         IF @@ROWCOUNT = 0 INSERT t (id, v) VALUES (@id, @v)",
    );
    ok(&mut s, "EXEC p 1, 5; EXEC p 2, N'five'; EXEC p 3, NULL; EXEC p 1, 'one'; EXEC p 4, 6");
    assert_eq!(
        rows(&mut s, "DECLARE @v sql_variant = (SELECT v FROM t WHERE id = 4); IF @v = 6 SELECT CAST(@v AS int) + 1"),
        ["ROW(Int(7))"]
    );
    // NULL, text, numbers.
    let in_order = [3, 2, 1, 4].map(|id| format!("ROW(Int({id}))"));
    assert_eq!(rows(&mut s, "SELECT id FROM t ORDER BY v"), in_order);
    assert_eq!(rows(&mut s, "SELECT MIN(id), COUNT(*) FROM t GROUP BY w HAVING COUNT(*) > 1"), ["ROW(Int(1), Int(4))"]);
    assert_eq!(errors(&mut s, "DECLARE @v sql_variant = 1; DECLARE @n int = @v"), [257]);
    assert_eq!(errors(&mut s, "DECLARE @v sql_variant = 'x'; SELECT CAST(@v AS int)"), [245]);
}

#[test]
fn what_else_a_variant_could_do_is_refused() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE u (v sql_variant)");
    let refused = [
        "SELECT SERVERPROPERTY('EngineEdition') + 1",
        "SELECT SERVERPROPERTY('EngineEdition')",
        "DELETE u OUTPUT deleted.v",
        "CREATE TABLE t (v AS SERVERPROPERTY('EngineEdition'))",
        "SELECT LEN(SERVERPROPERTY('Edition'))",
        "SELECT MAX(SERVERPROPERTY('Edition'))",
        "SELECT 1 WHERE SERVERPROPERTY('Edition') LIKE 'x'",
        "CREATE TABLE t (v sql_variant, INDEX i (v))",
        "DECLARE @v sql_variant = 1.5",
        "DECLARE @v sql_variant = 'x'; RAISERROR ('%s', 16, 1, @v)",
        "DECLARE @v sql_variant = 'a' COLLATE Latin1_General_BIN2",
        "SELECT 1 WHERE SERVERPROPERTY('EngineEdition') > 1.5",
        "SELECT SQL_VARIANT_PROPERTY(1, 'BaseType')",
        "SELECT SERVERPROPERTY('ProcessID')",
        "SELECT DATABASEPROPERTYEX('master', 'Version')",
    ];
    for sql in refused {
        assert_eq!(errors(&mut s, sql), [crate::error::NOT_SUPPORTED], "{sql}");
    }
}
