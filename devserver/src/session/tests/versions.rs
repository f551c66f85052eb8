//! The versions and editions of SQL Server, as far as they differ.
//!
//! Sources: the "Applies to" of the pages in docs/t-sql/functions/ and docs/relational-databases/; "ALTER DATABASE
//! compatibility level", docs/t-sql/statements/alter-database-transact-sql-compatibility-level.md.

use std::sync::Arc;

use crate::catalog::server::Product;
use crate::session::client_session::Session;
use crate::session::engine::{Engine, EngineOptions};
use crate::session::tests::harness::login;

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
        s.check(&format!(
            "SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(20)) => '{number}'
             SELECT compatibility_level FROM sys.databases WHERE name = DB_NAME() => TinyInt({level})
             SELECT LEFT(@@VERSION, 27), IIF(CHARINDEX(' - {number} (', @@VERSION) > 0, 1, 0)
                 => 'Microsoft SQL Server {year} (', 1
             ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = {} => error 15048
             ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = 120 => ok",
            level + 10
        ));
    }
    assert_eq!(Product::sql_server(2014), None);
    let (_e, mut s) = of(Product::AZURE_SQL_DATABASE);
    s.check("SELECT LEFT(@@VERSION, 40) => 'Microsoft SQL Azure (RTM) - 12.0.2000.8 '");
}

#[test]
fn a_function_is_unknown_before_its_version() {
    let unknown = "'STRING_AGG' is not a recognized built-in function name.";
    for (sql, first, error) in [
        ("SELECT STRING_AGG(name, ',') FROM sys.schemas", 2017, format!("195 {unknown}")),
        ("CREATE TABLE t (a int, INDEX i (a) WITH (OPTIMIZE_FOR_SEQUENTIAL_KEY = ON))", 2019, "59000".to_owned()),
        ("SELECT optimize_for_sequential_key FROM sys.indexes", 2019, "59000".to_owned()),
        ("SELECT value FROM GENERATE_SERIES(1, 3)", 2022, "208".to_owned()),
    ] {
        for year in [2016, 2017, 2019, 2022, 2025] {
            let expected = if year < first { format!("error {error}") } else { "ok".to_owned() };
            sql_server(year).1.check(&format!("{sql} => {expected}"));
        }
    }
}

// Source: "ALTER DATABASE compatibility level", breaking changes protected by compatibility level.
#[test]
fn a_datetime_becomes_finer_from_level_130_on() {
    let (_e, mut s) = sql_server(2022);
    s.check("CREATE TABLE t (a datetime, b datetime2(7)); INSERT t (a) VALUES ('2020-01-01T00:00:00.003')");
    for (level, expected) in [(120, "error 59000"), (130, "ok")] {
        s.check(&format!(
            "ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = {level} => ok
             SELECT CAST(a AS datetime2(7)) FROM t => {expected}
             SELECT CAST(CAST('2020-01-01T00:00:00.003' AS datetime) AS time) => {expected}
             INSERT t (b) SELECT a FROM t WHERE a IS NOT NULL => {expected}
             SELECT 1 FROM t WHERE a = CAST('2020-01-01' AS datetime2) => {expected}
             DECLARE @a datetime = '2020-01-01T00:00:00.003'; DECLARE @b datetimeoffset = @a => {expected}
             SELECT CAST(CAST('2020-01-01T00:00:00.010' AS datetime) AS datetime2), CAST(a AS datetime) FROM t => ok"
        ));
    }
}

/// Syntax that the version has but the dev server lacks is refused by name; it is not a mistake in the statement.
#[test]
fn newer_syntax_is_refused_by_name() {
    for year in [2016, 2017, 2019, 2022, 2025] {
        sql_server(year).1.check(
            "SELECT LTRIM('abc', 'a') => error 59000
             SELECT TRIM('a' FROM 'aba') ;; SELECT TRIM(LEADING 'a' FROM 'aba') ;; SELECT JSON_OBJECT('a':1) ;;
                 SELECT JSON_ARRAY(1, NULL NULL ON NULL) ;;
                 SELECT LAG(name) IGNORE NULLS OVER (ORDER BY name) FROM sys.schemas ;;
                 SELECT 1 WHERE REGEXP_LIKE('a', 'a') ;; SELECT 1 WHERE 1 IS NOT DISTINCT FROM 1 ;; SELECT 'a' || 'b' ;;
                 SELECT CURRENT_DATE => error 59000
             DECLARE @j json = '{}' => error 59000
             CREATE TABLE t (v vector(3)) => error 59000",
        );
    }
    of(Product::AZURE_SQL_DATABASE).1.check("SELECT SUBSTRING('abc', 2) => error 59000");
}

// Source: "ALTER DATABASE SCOPED CONFIGURATION", VERBOSE_TRUNCATION_WARNINGS,
// docs/t-sql/statements/alter-database-scoped-configuration-transact-sql.md.
#[test]
fn truncation_names_the_column_from_level_150_on() {
    sql_server(2022).1.check(
        "CREATE TABLE t (a varchar(2)); ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = 140 => ok
         INSERT t VALUES ('abc') => error 8152
         ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = 150; INSERT t VALUES ('abc') => error 2628",
    );
}

// Sources: "CREATE INDEX", ONLINE, docs/t-sql/statements/; 1712:
// docs/relational-databases/errors-events/database-engine-events-and-errors-1000-to-1999.md; "Editions and supported
// features of SQL Server 2022", docs/sql-server/editions-and-components-of-sql-server-2022.md.
#[test]
fn only_some_editions_build_indexes_online() {
    for (engine_edition, expected) in [(2, "error 1712"), (3, "ok"), (4, "error 1712"), (5, "ok")] {
        of(Product { engine_edition, ..Product::default() }).1.check(&format!(
            "CREATE TABLE t (a int NOT NULL, b int); CREATE INDEX i ON t (b) => ok
             CREATE INDEX j ON t (a) WITH (ONLINE = ON) => {expected}
             ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY (a) WITH (ONLINE = ON) => {expected}
             CREATE INDEX k ON t (a) WITH (ONLINE = OFF) => ok
             ALTER TABLE t ALTER COLUMN b bigint WITH (ONLINE = ON) => error 59000
             CREATE TABLE u (a int PRIMARY KEY WITH (ONLINE = ON)) => error 59000
             CREATE TABLE #t (a int); CREATE INDEX i ON #t (a) WITH (ONLINE = ON) => error 59000"
        ));
    }
}
