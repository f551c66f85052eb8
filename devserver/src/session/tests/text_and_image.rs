//! The deprecated types `text`, `ntext` and `image`: "ntext, text, and image"
//! (MicrosoftDocs/sql-docs, docs/t-sql/data-types/ntext-text-and-image-transact-sql.md), and the pages named beside
//! each test.

use crate::session::tests::harness::check;

#[test]
fn what_is_done_with_text_and_image() {
    check(
        r#"== columns of tables and table variables take text
         -- The table variable is that of MassTransit's FetchMessages: OUTPUT INTO converts `nvarchar` to `text`.
         CREATE TABLE t (id int PRIMARY KEY, a text, b ntext NOT NULL DEFAULT N'none', c image); => ok
         INSERT t VALUES (1, 'one', N'eins', 0x01), (2, N'two', 'zwei', NULL); INSERT t (id) VALUES (3) => ok
         SELECT a, b, c FROM t ORDER BY id => 'one', 'eins', Bytes([1]) | 'two', 'zwei', NULL | NULL, 'none', NULL
         UPDATE t SET a = REPLICATE(CAST('x' AS varchar(max)), 10000), c = NULL WHERE id = 1 => ok
         SELECT DATALENGTH(CAST(a AS varchar(max))), CAST(b AS nvarchar(9)) FROM t WHERE c IS NULL
             AND id = 1 => BigInt(10000), 'eins'
         CREATE TABLE source (id int, kind nvarchar(256)); INSERT source VALUES (7, N'kind') => ok
         DECLARE @r TABLE (id int, kind text); UPDATE source SET id = id + 1 OUTPUT inserted.id, inserted.kind INTO @r;
             SELECT * FROM @r => 8, 'kind'
         CREATE TABLE #t (a text); INSERT #t SELECT a FROM t WHERE id = 2; SELECT a, b INTO #copy FROM t => ok
         SELECT a FROM #t => 'two'
         SELECT DATALENGTH(CAST(b AS nvarchar(9))) FROM #copy WHERE a IS NULL => 8
         SELECT COL_LENGTH('t', 'b') => SmallInt(16)
         == nothing else is done with them
         CREATE TABLE t (id int PRIMARY KEY, a text, b ntext NOT NULL DEFAULT N'none', c image); => ok
         SELECT id FROM t WHERE a = 'x' ;; SELECT id FROM t WHERE a IN ('x') ;; SELECT id FROM t WHERE a LIKE 'x' ;;
             SELECT id FROM t ORDER BY a ;; SELECT DISTINCT a FROM t ;; SELECT COUNT(*) FROM t GROUP BY a ;;
             SELECT MAX(a) FROM t ;; SELECT a FROM t UNION ALL SELECT a FROM t ;; SELECT (SELECT a FROM t) ;;
             SELECT a + 'x' FROM t ;; SELECT a COLLATE Latin1_General_BIN2 FROM t ;;
             SELECT CASE WHEN id = 1 THEN a ELSE 'x' END FROM t ;; SELECT LEN(a) FROM t ;;
             SELECT CAST(a AS nvarchar(max)) FROM t ;; SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY id) FROM t ;;
             DELETE t OUTPUT deleted.a ;; CREATE INDEX i ON t (a) ;; CREATE INDEX i ON t (id) INCLUDE (c) ;;
             ALTER TABLE t ALTER COLUMN a varchar(max) ;; CREATE TYPE x FROM text ;;
             EXEC('CREATE PROCEDURE p @a text AS RETURN') ;;
             EXEC('CREATE FUNCTION f (@a image) RETURNS int AS BEGIN RETURN 1 END') ;;
             CREATE TRIGGER g ON t AFTER INSERT AS SELECT id FROM inserted => error 59000
         == the catalog shows them
         -- docs/relational-databases/system-catalog-views/sys-types-transact-sql.md; "16 = Binary/CLR … text, ntext,
         -- image column": sys-columns-transact-sql.md;
         -- docs/relational-databases/system-information-schema-views/columns-transact-sql.md.
         CREATE TABLE t (id int PRIMARY KEY, a text, b ntext NOT NULL DEFAULT N'none', c image); => ok
         SELECT name, system_type_id, max_length FROM sys.types WHERE name IN ('text', 'ntext', 'image')
             ORDER BY 2 => 'image', TinyInt(34), SmallInt(16) | 'text', TinyInt(35), SmallInt(16)
             | 'ntext', TinyInt(99), SmallInt(16)
         SELECT system_type_id, max_length, ISNULL(collation_name, N'none') FROM sys.columns
             WHERE object_id = OBJECT_ID('t') AND column_id > 1
             ORDER BY column_id => TinyInt(35), SmallInt(16), 'SQL_Latin1_General_CP1_CI_AS'
             | TinyInt(99), SmallInt(16), 'SQL_Latin1_General_CP1_CI_AS' | TinyInt(34), SmallInt(16), 'none'
         SELECT DATA_TYPE, CHARACTER_MAXIMUM_LENGTH
             FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 't' AND ORDINAL_POSITION > 1
             ORDER BY ORDINAL_POSITION => 'text', 2147483647 | 'ntext', 1073741823 | 'image', 2147483647
         CREATE TABLE u (a text(5)) => error 59000"#,
    );
}
