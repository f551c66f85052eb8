//! The deprecated types `text`, `ntext` and `image`: "ntext, text, and image"
//! (MicrosoftDocs/sql-docs, docs/t-sql/data-types/ntext-text-and-image-transact-sql.md), and the pages named beside
//! each test.

use crate::error::NOT_SUPPORTED;
use crate::session::tests::harness::{errors, ok, rows, session};

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, a text, b ntext NOT NULL DEFAULT N'none', c image);";

/// The table variable is that of MassTransit's FetchMessages: OUTPUT INTO converts `nvarchar` to `text`.
#[test]
fn columns_of_tables_and_table_variables_take_text() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "INSERT t VALUES (1, 'one', N'eins', 0x01), (2, N'two', 'zwei', NULL); INSERT t (id) VALUES (3)");
    assert_eq!(
        rows(&mut s, "SELECT a, b, c FROM t ORDER BY id"),
        [
            "ROW(String(\"one\"), String(\"eins\"), Bytes([1]))",
            "ROW(String(\"two\"), String(\"zwei\"), Null)",
            "ROW(Null, String(\"none\"), Null)"
        ]
    );
    ok(&mut s, "UPDATE t SET a = REPLICATE(CAST('x' AS varchar(max)), 10000), c = NULL WHERE id = 1");
    assert_eq!(
        rows(
            &mut s,
            "SELECT DATALENGTH(CAST(a AS varchar(max))), CAST(b AS nvarchar(9)) FROM t WHERE c IS NULL AND id = 1"
        ),
        ["ROW(BigInt(10000), String(\"eins\"))"]
    );
    ok(&mut s, "CREATE TABLE source (id int, kind nvarchar(256)); INSERT source VALUES (7, N'kind')");
    assert_eq!(
        rows(
            &mut s,
            "DECLARE @r TABLE (id int, kind text); UPDATE source SET id = id + 1 OUTPUT inserted.id, inserted.kind INTO @r;
             SELECT * FROM @r"
        ),
        ["ROW(Int(8), String(\"kind\"))"]
    );
    ok(&mut s, "CREATE TABLE #t (a text); INSERT #t SELECT a FROM t WHERE id = 2; SELECT a, b INTO copy FROM t");
    assert_eq!(rows(&mut s, "SELECT a FROM #t"), ["ROW(String(\"two\"))"]);
    assert_eq!(rows(&mut s, "SELECT COL_LENGTH('copy', 'b')"), ["ROW(SmallInt(16))"]);
}

#[test]
fn nothing_else_is_done_with_them() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    for sql in [
        "SELECT id FROM t WHERE a = 'x'",
        "SELECT id FROM t WHERE a IN ('x')",
        "SELECT id FROM t WHERE a LIKE 'x'",
        "SELECT id FROM t ORDER BY a",
        "SELECT DISTINCT a FROM t",
        "SELECT COUNT(*) FROM t GROUP BY a",
        "SELECT MAX(a) FROM t",
        "SELECT a FROM t UNION ALL SELECT a FROM t",
        "SELECT (SELECT a FROM t)",
        "SELECT a + 'x' FROM t",
        "SELECT a COLLATE Latin1_General_BIN2 FROM t",
        "SELECT CASE WHEN id = 1 THEN a ELSE 'x' END FROM t",
        "SELECT LEN(a) FROM t",
        "SELECT CAST(a AS nvarchar(max)) FROM t",
        "SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY id) FROM t",
        "DELETE t OUTPUT deleted.a",
        "CREATE INDEX i ON t (a)",
        "CREATE INDEX i ON t (id) INCLUDE (c)",
        "ALTER TABLE t ALTER COLUMN a varchar(max)",
        "CREATE TYPE x FROM text",
        "EXEC('CREATE PROCEDURE p @a text AS RETURN')",
        "EXEC('CREATE FUNCTION f (@a image) RETURNS int AS BEGIN RETURN 1 END')",
        "CREATE TRIGGER g ON t AFTER INSERT AS SELECT id FROM inserted",
    ] {
        assert_eq!(errors(&mut s, sql), [NOT_SUPPORTED], "{sql}");
    }
}

/// docs/relational-databases/system-catalog-views/sys-types-transact-sql.md; "16 = Binary/CLR … text, ntext, image
/// column": sys-columns-transact-sql.md;
/// docs/relational-databases/system-information-schema-views/columns-transact-sql.md.
#[test]
fn the_catalog_shows_them() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    assert_eq!(
        rows(
            &mut s,
            "SELECT name, system_type_id, max_length FROM sys.types WHERE name IN ('text', 'ntext', 'image') ORDER BY 2"
        ),
        [
            "ROW(String(\"image\"), TinyInt(34), SmallInt(16))",
            "ROW(String(\"text\"), TinyInt(35), SmallInt(16))",
            "ROW(String(\"ntext\"), TinyInt(99), SmallInt(16))"
        ]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT system_type_id, max_length, ISNULL(collation_name, N'none') FROM sys.columns
             WHERE object_id = OBJECT_ID('t') AND column_id > 1 ORDER BY column_id"
        ),
        [
            "ROW(TinyInt(35), SmallInt(16), String(\"SQL_Latin1_General_CP1_CI_AS\"))",
            "ROW(TinyInt(99), SmallInt(16), String(\"SQL_Latin1_General_CP1_CI_AS\"))",
            "ROW(TinyInt(34), SmallInt(16), String(\"none\"))"
        ]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT DATA_TYPE, CHARACTER_MAXIMUM_LENGTH
             FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 't' AND ORDINAL_POSITION > 1 ORDER BY ORDINAL_POSITION"
        ),
        [
            "ROW(String(\"text\"), Int(2147483647))",
            "ROW(String(\"ntext\"), Int(1073741823))",
            "ROW(String(\"image\"), Int(2147483647))"
        ]
    );
    assert_eq!(errors(&mut s, "CREATE TABLE u (a text(5))"), [59000]);
}
