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
fn what_else_a_variant_could_do_is_refused() {
    let (_e, mut s) = session();
    let refused = [
        "SELECT SERVERPROPERTY('EngineEdition') + 1",
        "CREATE TABLE t (v AS SERVERPROPERTY('EngineEdition'))",
        "SELECT LEN(SERVERPROPERTY('Edition'))",
        "SELECT MAX(SERVERPROPERTY('Edition'))",
        "SELECT 1 WHERE SERVERPROPERTY('Edition') LIKE 'x'",
        "DECLARE @v sql_variant",
        "CREATE TABLE t (v sql_variant)",
        "SELECT SERVERPROPERTY('Edition') AS v INTO t",
        "SELECT 1 WHERE SERVERPROPERTY('EngineEdition') > 1.5",
        "SELECT SQL_VARIANT_PROPERTY(1, 'BaseType')",
        "SELECT SERVERPROPERTY('ProcessID')",
    ];
    for sql in refused {
        assert_eq!(errors(&mut s, sql), [crate::error::NOT_SUPPORTED], "{sql}");
    }
}
