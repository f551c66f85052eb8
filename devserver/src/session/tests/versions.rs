//! The versions and editions of SQL Server, as far as they differ.
//!
//! Sources: the "Applies to" of the pages in docs/t-sql/functions/ and docs/relational-databases/; "ALTER DATABASE
//! compatibility level", docs/t-sql/statements/alter-database-transact-sql-compatibility-level.md.

use std::sync::Arc;

use crate::catalog::server::Product;
use crate::session::client_session::Session;
use crate::session::engine::{Engine, EngineOptions};
use crate::session::tests::harness::{errors, login, ok, rows, run};

fn of(product: Product) -> (Arc<Engine>, Session) {
    let engine = Engine::new(EngineOptions { product, ..EngineOptions::default() });
    let session = login(&engine, "sa", "");
    (engine, session)
}

fn sql_server(year: u16) -> (Arc<Engine>, Session) {
    of(Product::sql_server(year).expect("a year of SQL Server"))
}

#[test]
fn a_version_says_what_it_is() {
    for (year, number, level) in [
        (2016, "13.0.6300.2", 130),
        (2017, "14.0.1000.169", 140),
        (2019, "15.0.2000.5", 150),
        (2022, "16.0.1000.6", 160),
        (2025, "17.0.1000.7", 170),
    ] {
        let (_e, mut s) = sql_server(year);
        assert_eq!(
            rows(
                &mut s,
                "SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(20)), compatibility_level FROM sys.databases
                 WHERE name = DB_NAME()"
            ),
            [format!("ROW(String(\"{number}\"), TinyInt({level}))")]
        );
        let version = rows(&mut s, "SELECT @@VERSION").remove(0);
        assert!(version.starts_with(&format!("ROW(String(\"Microsoft SQL Server {year} (")), "{version}");
        assert!(version.contains(&format!(" - {number} (")), "{version}");
        assert_eq!(
            errors(&mut s, &format!("ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = {}", level + 10)),
            [15048]
        );
        ok(&mut s, "ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = 120");
    }
    assert_eq!(Product::sql_server(2014), None);
    let (_e, mut s) = of(Product::AZURE_SQL_DATABASE);
    let version = rows(&mut s, "SELECT @@VERSION").remove(0);
    assert!(version.starts_with("ROW(String(\"Microsoft SQL Azure (RTM) - 12.0.2000.8 "), "{version}");
}

#[test]
fn a_function_is_unknown_before_its_version() {
    for (sql, first, error) in [
        ("SELECT STRING_AGG(name, ',') FROM sys.schemas", 2017, 195),
        ("CREATE TABLE t (a int, INDEX i (a) WITH (OPTIMIZE_FOR_SEQUENTIAL_KEY = ON))", 2019, 59000),
        ("SELECT optimize_for_sequential_key FROM sys.indexes", 2019, 59000),
        ("SELECT value FROM GENERATE_SERIES(1, 3)", 2022, 208),
        ("SELECT value FROM STRING_SPLIT('a,b', ',')", 2016, 0),
    ] {
        for year in [2016, 2017, 2019, 2022, 2025] {
            let (_e, mut s) = sql_server(year);
            let expected: &[i32] = if year < first { &[error] } else { &[] };
            assert_eq!(errors(&mut s, sql), expected, "{sql} in {year}");
        }
    }
    let (_e, mut s) = sql_server(2016);
    let message = run(&mut s, "SELECT STRING_AGG(name, ',') FROM sys.schemas").remove(0);
    assert!(message.starts_with("ERROR(195, 'STRING_AGG' is not a recognized built-in function name."), "{message}");
}

// Source: "ALTER DATABASE compatibility level", breaking changes protected by compatibility level.
#[test]
fn a_datetime_becomes_finer_from_level_130_on() {
    let (_e, mut s) = sql_server(2022);
    ok(&mut s, "CREATE TABLE t (a datetime, b datetime2(7)); INSERT t (a) VALUES ('2020-01-01T00:00:00.003')");
    for (level, expected) in [(120, &[59000][..]), (130, &[])] {
        ok(&mut s, &format!("ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = {level}"));
        for sql in [
            "SELECT CAST(a AS datetime2(7)) FROM t",
            "SELECT CAST(CAST('2020-01-01T00:00:00.003' AS datetime) AS time)",
            "INSERT t (b) SELECT a FROM t WHERE a IS NOT NULL",
            "SELECT 1 FROM t WHERE a = CAST('2020-01-01' AS datetime2)",
            "DECLARE @a datetime = '2020-01-01T00:00:00.003'; DECLARE @b datetimeoffset = @a",
        ] {
            assert_eq!(errors(&mut s, sql), expected, "{sql} at {level}");
        }
        ok(&mut s, "SELECT CAST(CAST('2020-01-01T00:00:00.010' AS datetime) AS datetime2), CAST(a AS datetime) FROM t");
    }
}

/// Syntax that the version has but the dev server lacks is refused by name; it is not a mistake in the statement.
#[test]
fn newer_syntax_is_refused_by_name() {
    for (sql, first, before) in [
        ("SELECT LTRIM('abc', 'a')", 2016, 0),
        ("SELECT TRIM('a' FROM 'aba')", 2016, 0),
        ("SELECT TRIM(LEADING 'a' FROM 'aba')", 2016, 0),
        ("SELECT JSON_OBJECT('a':1)", 2016, 0),
        ("SELECT JSON_ARRAY(1, NULL NULL ON NULL)", 2016, 0),
        ("SELECT LAG(name) IGNORE NULLS OVER (ORDER BY name) FROM sys.schemas", 2016, 0),
        ("SELECT 1 WHERE REGEXP_LIKE('a', 'a')", 2016, 0),
        ("SELECT 1 WHERE 1 IS NOT DISTINCT FROM 1", 2016, 0),
        ("SELECT 'a' || 'b'", 2016, 0),
        ("SELECT CURRENT_DATE", 2016, 0),
        ("DECLARE @j json = '{}'", 2016, 0),
        ("CREATE TABLE t (v vector(3))", 2016, 0),
    ] {
        for year in [2016, 2017, 2019, 2022, 2025] {
            let (_e, mut s) = sql_server(year);
            assert_eq!(errors(&mut s, sql), [if year < first { before } else { 59000 }], "{sql} in {year}");
        }
    }
    let (_e, mut s) = of(Product::AZURE_SQL_DATABASE);
    assert_eq!(errors(&mut s, "SELECT SUBSTRING('abc', 2)"), [59000]);
}

// Source: "ALTER DATABASE SCOPED CONFIGURATION", VERBOSE_TRUNCATION_WARNINGS,
// docs/t-sql/statements/alter-database-scoped-configuration-transact-sql.md.
#[test]
fn truncation_names_the_column_from_level_150_on() {
    let (_e, mut s) = sql_server(2022);
    ok(&mut s, "CREATE TABLE t (a varchar(2)); CREATE TYPE tt AS TABLE (a varchar(2))");
    for (level, error) in [(140, 8152), (150, 2628)] {
        ok(&mut s, &format!("ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = {level}"));
        assert_eq!(errors(&mut s, "INSERT t VALUES ('abc')"), [error]);
    }
}

// Sources: "CREATE INDEX", ONLINE, docs/t-sql/statements/; 1712:
// docs/relational-databases/errors-events/database-engine-events-and-errors-1000-to-1999.md; "Editions and supported
// features of SQL Server 2022", docs/sql-server/editions-and-components-of-sql-server-2022.md.
#[test]
fn only_some_editions_build_indexes_online() {
    for (engine_edition, builds_online) in [(2, false), (3, true), (4, false), (5, true)] {
        let (_e, mut s) = of(Product { engine_edition, ..Product::default() });
        ok(&mut s, "CREATE TABLE t (a int NOT NULL, b int); CREATE INDEX i ON t (b)");
        let expected: &[i32] = if builds_online { &[] } else { &[1712] };
        for sql in [
            "CREATE INDEX j ON t (a) WITH (ONLINE = ON)",
            "ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY (a) WITH (ONLINE = ON)",
        ] {
            assert_eq!(errors(&mut s, sql), expected, "{sql} in edition {engine_edition}");
        }
        ok(&mut s, "CREATE INDEX k ON t (a) WITH (ONLINE = OFF)");
        for sql in [
            "ALTER TABLE t ALTER COLUMN b bigint WITH (ONLINE = ON)",
            "CREATE TABLE u (a int PRIMARY KEY WITH (ONLINE = ON))",
            "CREATE TABLE #t (a int); CREATE INDEX i ON #t (a) WITH (ONLINE = ON)",
        ] {
            assert_eq!(errors(&mut s, sql), [59000], "{sql} in edition {engine_edition}");
        }
    }
}
