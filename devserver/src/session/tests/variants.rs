//! What SERVERPROPERTY and its like return: "SERVERPROPERTY", "DATABASEPROPERTYEX" and "SESSIONPROPERTY"
//! (MicrosoftDocs/sql-docs, docs/t-sql/functions/) for the base types, "sql_variant"
//! (docs/t-sql/data-types/sql-variant-transact-sql.md) for comparisons, "CAST and CONVERT"
//! (docs/t-sql/functions/cast-and-convert-transact-sql.md) for conversions.

use crate::session::tests::harness::check;

#[test]
fn variants_and_what_they_can_do() {
    check(
        "== a property is a variant with the base type of its documentation
         SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(20)) => '16.0.1000.6'
         SELECT CAST(SERVERPROPERTY('EngineEdition') AS nvarchar(20)) => '3'
         SELECT CAST(SESSIONPROPERTY('ANSI_NULLS') AS nvarchar(20)) => '1'
         SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), 'Status') AS nvarchar(20)) => 'ONLINE'
         SELECT CAST(d.v AS nvarchar(9)) FROM
             (SELECT SERVERPROPERTY('EngineEdition') AS v UNION ALL SELECT N'x') AS d ORDER BY v => 'x' | '3'
         == it converts only when asked to
         SELECT CAST(SERVERPROPERTY('EngineEdition') AS bigint), CONVERT(varchar(4), SERVERPROPERTY('ProductVersion'))
             => BigInt(3), '16.0'
         SELECT CAST(ISNULL(SESSIONPROPERTY('nothing'), 'MSSQLSERVER') AS varchar(20)) => 'MSSQLSERVER'
         DECLARE @v nvarchar(128) = SERVERPROPERTY('ProductVersion') => error 257
         CREATE TABLE t (v nvarchar(128), n int) => ok
         INSERT t (v) SELECT SERVERPROPERTY('ProductVersion') => error 257
         INSERT t (n) VALUES (SERVERPROPERTY('EngineEdition')) => error 257
         == comparisons go by the family of the base type
         SELECT 1 WHERE SERVERPROPERTY('EngineEdition') = 3 => 1
         SELECT 1 WHERE SERVERPROPERTY('EngineEdition') IN (2, 3) => 1
         SELECT 1 WHERE SERVERPROPERTY('IsFullTextInstalled') = CAST(0 AS bit) => 1
         SELECT 1 WHERE SERVERPROPERTY('ProductLevel') = 'rtm' => 1
         SELECT 1 WHERE DATABASEPROPERTYEX(DB_NAME(), N'Updateability') <> N'READ_ONLY' => 1
         -- A number is greater than any text, and so equals none.
         SELECT 1 WHERE SERVERPROPERTY('EngineEdition') <> '3' => 1
         SELECT 1 WHERE SERVERPROPERTY('EngineEdition') > '4' => 1
         == what else a variant could do is refused
         SELECT SERVERPROPERTY('EngineEdition') + 1 ;; CREATE TABLE t (v AS SERVERPROPERTY('EngineEdition')) ;;
             SELECT LEN(SERVERPROPERTY('Edition')) ;; SELECT MAX(SERVERPROPERTY('Edition')) ;;
             SELECT 1 WHERE SERVERPROPERTY('Edition') LIKE 'x' ;; CREATE TABLE t (v sql_variant, INDEX i (v)) ;;
             DECLARE @v sql_variant = 1.5 ;; DECLARE @v sql_variant = 'x'; RAISERROR ('%s', 16, 1, @v) ;;
             DECLARE @v sql_variant = 'a' COLLATE Latin1_General_BIN2 ;;
             SELECT 1 WHERE SERVERPROPERTY('EngineEdition') > 1.5 ;; SELECT SQL_VARIANT_PROPERTY(1, 'BaseType') ;;
             SELECT SERVERPROPERTY('ProcessID') => error 59000
         SELECT DATABASEPROPERTYEX('master', 'Version') => error 59000",
    );
}

/// As durabletask-mssql keeps its global settings.
#[test]
fn a_value_keeps_its_base_type() {
    check(
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, v sql_variant, w sql_variant NOT NULL DEFAULT 7) => ok
         CREATE PROCEDURE p @id int, @v sql_variant AS UPDATE t SET v = @v WHERE id = @id
             IF @@ROWCOUNT = 0 INSERT t (id, v) VALUES (@id, @v) => ok
         EXEC p 1, 5; EXEC p 2, N'five'; EXEC p 3, NULL; EXEC p 1, 'one'; EXEC p 4, 6 => ok
         DECLARE @v sql_variant = (SELECT v FROM t WHERE id = 4); IF @v = 6 SELECT CAST(@v AS int) + 1 => 7
         -- NULL, text, numbers.
         SELECT id FROM t ORDER BY v => 3 | 2 | 1 | 4
         SELECT MIN(id), COUNT(*) FROM t GROUP BY w HAVING COUNT(*) > 1 => 1, 4
         DECLARE @v sql_variant = 1; DECLARE @n int = @v => error 257
         DECLARE @v sql_variant = 'x'; SELECT CAST(@v AS int) => error 245",
    );
}
