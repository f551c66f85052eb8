//! The deprecated types `text`, `ntext` and `image`: "ntext, text, and image"
//! (MicrosoftDocs/sql-docs, docs/t-sql/data-types/ntext-text-and-image-transact-sql.md), and the pages named beside
//! each test.

use crate::error::NOT_SUPPORTED;
use crate::session::tests::harness::{errors, ok, rows, run, session};

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
        rows(&mut s, "SELECT DATALENGTH(a), DATALENGTH(b), DATALENGTH(c) FROM t WHERE id = 1"),
        ["ROW(Int(10000), Int(8), Null)"]
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

/// A column's collation counts in LIKE: docs/t-sql/language-elements/like-transact-sql.md.
#[test]
fn what_is_made_of_tables_takes_them_too() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "INSERT t VALUES (1, 'one', N'eins', 0x01); INSERT t (id) VALUES (2)");
    ok(&mut s, "ALTER TABLE t ADD d text COLLATE Latin1_General_BIN2 NOT NULL DEFAULT 'Later'");
    assert_eq!(rows(&mut s, "SELECT id FROM t WHERE d LIKE 'later' OR a LIKE 'ONE'"), ["ROW(Int(1))"]);
    ok(&mut s, "CREATE VIEW v AS SELECT id, a, d FROM t");
    assert_eq!(rows(&mut s, "SELECT a, d FROM v WHERE id = 1"), ["ROW(String(\"one\"), String(\"Later\"))"]);
    ok(&mut s, "CREATE TYPE list AS TABLE (id int, a text)");
    ok(&mut s, "CREATE PROCEDURE fill @list list READONLY AS UPDATE t SET a = l.a FROM t JOIN @list l ON l.id = t.id");
    ok(&mut s, "DECLARE @l list; INSERT @l VALUES (2, 'two'); EXEC fill @l");
    assert_eq!(
        rows(
            &mut s,
            "DECLARE @a varchar(9); DECLARE c CURSOR LOCAL FOR SELECT a FROM t WHERE id = 2; OPEN c; FETCH c INTO @a;
             SELECT @a"
        ),
        ["ROW(String(\"two\"))"]
    );
    ok(
        &mut s,
        "MERGE t USING (SELECT 3, 'three') AS n (id, a) ON n.id = t.id WHEN NOT MATCHED THEN INSERT (id, a) VALUES (n.id, n.a);",
    );
    assert_eq!(
        rows(&mut s, "WITH w AS (SELECT id, a FROM t) SELECT a FROM w WHERE id = 3"),
        ["ROW(String(\"three\"))"]
    );
}

/// 306, 402, 421, 5335 and 8117: docs/relational-databases/errors-events/database-engine-events-and-errors-0-to-999.md
/// and its like have the texts. "IS NULL, IS NOT NULL, and LIKE … are the only other comparison operations valid on
/// text in the WHERE clause": docs/t-sql/functions/patindex-transact-sql.md. "An expression of any type, except image,
/// ntext, or text": docs/t-sql/functions/count-transact-sql.md. "The ntext, text, and image data types can't be used in
/// the select list of subqueries": docs/relational-databases/performance/subqueries.md.
#[test]
fn nothing_compares_or_sorts_them() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "INSERT t VALUES (1, 'one', N'eins', 0x01), (2, NULL, 'zwei', NULL)");
    for (sql, number) in [
        ("SELECT id FROM t ORDER BY a", 306),
        ("SELECT id, a FROM t ORDER BY 2", 306),
        ("SELECT a FROM t UNION ALL SELECT a FROM t ORDER BY a", 306),
        ("SELECT COUNT(*) FROM t GROUP BY b", 306),
        ("SELECT DISTINCT c FROM t", 421),
        ("SELECT a FROM t UNION SELECT 'x'", 5335),
        ("SELECT 'x' EXCEPT SELECT a FROM t", 5335),
        ("SELECT id FROM t WHERE a = 'one'", 402),
        ("SELECT id FROM t WHERE N'one' <> b", 402),
        ("SELECT id FROM t WHERE a = a", 402),
        ("SELECT id FROM t WHERE c IN (0x01)", 402),
        ("SELECT NULLIF(a, 'one') FROM t", 402),
        ("SELECT x.id FROM t x JOIN t y ON x.b = y.b", 402),
        ("SELECT a + 'x' FROM t", 402),
        ("UPDATE t SET a += 'x'", 402),
        ("SELECT a + a FROM t", 8117),
        ("SELECT MAX(a) FROM t", 8117),
        ("SELECT COUNT(c) FROM t", 8117),
        ("SELECT (SELECT a FROM t WHERE id = 1)", 279),
        ("SELECT id FROM t WHERE a = 1", NOT_SUPPORTED),
        ("SELECT id FROM t WHERE a = NULL", NOT_SUPPORTED),
        ("SELECT id FROM t WHERE id IN (SELECT a FROM t)", NOT_SUPPORTED),
        ("SELECT ROW_NUMBER() OVER (ORDER BY a) FROM t", NOT_SUPPORTED),
        ("SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY id) FROM t", NOT_SUPPORTED),
    ] {
        assert_eq!(errors(&mut s, sql), [number], "{sql}");
    }
    assert!(
        run(&mut s, "SELECT id FROM t WHERE a = 'one'")
            .iter()
            .any(|token| token.contains("The data types text and varchar are incompatible in the equal to operator.")),
    );
    assert_eq!(
        rows(&mut s, "SELECT id FROM t WHERE a LIKE 'ON%' AND b LIKE N'e_ns' AND c IS NOT NULL"),
        ["ROW(Int(1))"]
    );
    assert_eq!(rows(&mut s, "SELECT id FROM t WHERE a IS NULL"), ["ROW(Int(2))"]);
    assert_eq!(
        rows(&mut s, "SELECT a FROM t WHERE id = 1 UNION ALL SELECT 'x'"),
        ["ROW(String(\"one\"))", "ROW(String(\"x\"))"]
    );
    assert_eq!(
        rows(&mut s, "SELECT CASE WHEN id = 1 THEN a ELSE 'none' END, COALESCE(a, N'x') FROM t"),
        ["ROW(String(\"one\"), String(\"one\"))", "ROW(String(\"none\"), String(\"x\"))"]
    );
}

/// docs/t-sql/functions/: datalength-transact-sql.md, substring-transact-sql.md ("text: varchar, ntext: nvarchar,
/// image: varbinary"), patindex-transact-sql.md, left-transact-sql.md ("any data type, except text or ntext") and its
/// like.
#[test]
fn few_functions_take_them() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "INSERT t VALUES (1, 'abcde', N'fghij', 0x0102030405), (2, NULL, N'', NULL)");
    let tokens = run(
        &mut s,
        "SELECT SUBSTRING(a, 2, 3) a, SUBSTRING(b, 2, 3) b, SUBSTRING(c, 2, 3) c, PATINDEX('%C%', a) p FROM t WHERE id = 1",
    );
    for ty in ["VarChar(Limit(3))", "NVarChar(Limit(3))", "VarBinary(Limit(3))", "Int"] {
        assert!(tokens[0].contains(ty), "{ty}: {tokens:?}");
    }
    assert_eq!(tokens[1], "ROW(String(\"bcd\"), String(\"ghi\"), Bytes([2, 3, 4]), Int(3))");
    assert_eq!(rows(&mut s, "SELECT ISNULL(a, 'x') FROM t WHERE id = 2"), ["ROW(String(\"x\"))"]);
    for function in
        ["LEN(a)", "UPPER(b)", "LOWER(a)", "LTRIM(a)", "RTRIM(b)", "LEFT(a, 1)", "RIGHT(b, 1)", "REPLACE(a, 'a', 'b')"]
    {
        assert_eq!(errors(&mut s, &format!("SELECT {function} FROM t")), [8116], "{function}");
    }
    assert!(
        run(&mut s, "SELECT LEN(b) FROM t")[0]
            .contains("Argument data type ntext is invalid for argument 1 of len function.")
    );
    for function in [
        "CHARINDEX('a', a)",
        "REVERSE(a)",
        "CONCAT(a, 'x')",
        "SUBSTRING(a, 1, 9000)",
        "PATINDEX('%', c)",
        "a COLLATE Latin1_General_BIN2",
        "OBJECT_ID(a)",
    ] {
        assert_eq!(errors(&mut s, &format!("SELECT {function} FROM t")), [NOT_SUPPORTED], "{function}");
    }
    assert_eq!(errors(&mut s, "SELECT TEXTPTR(a) FROM t"), [NOT_SUPPORTED]);
}

/// The chart in docs/t-sql/functions/cast-and-convert-transact-sql.md; "sql_variant … can't have text, ntext, image":
/// docs/t-sql/data-types/sql-variant-transact-sql.md.
#[test]
fn they_convert_within_their_kind() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "INSERT t VALUES (1, 'abcde', N'fghij', 0x0102030405)");
    assert_eq!(
        rows(
            &mut s,
            "SELECT CAST(a AS varchar(2)), CONVERT(nvarchar(max), a), CAST(b AS varchar(2)), CAST(c AS varbinary(2)),
                 CAST(N'x' AS text), CAST(0x01 AS image) FROM t"
        ),
        ["ROW(String(\"ab\"), String(\"abcde\"), String(\"fg\"), Bytes([1, 2]), String(\"x\"), Bytes([1]))"]
    );
    assert_eq!(rows(&mut s, "DECLARE @v varchar(3); SELECT @v = a FROM t; SELECT @v"), ["ROW(String(\"abc\"))"]);
    for (sql, number) in [
        ("SELECT CAST(a AS int) FROM t", 529),
        ("SELECT CAST(c AS varchar(9)) FROM t", 529),
        ("SELECT CAST(a AS sql_variant) FROM t", 529),
        ("SELECT CAST(1 AS text)", 529),
        ("INSERT t (id, a) VALUES (2, 1)", 206),
        ("INSERT t (id, c) VALUES (2, N'x')", 206),
        ("INSERT t (id, a) VALUES (2, 0x01)", 206),
        ("CREATE TABLE v (x sql_variant); INSERT v SELECT a FROM t", 206),
        ("DECLARE @v nvarchar(9); SELECT @v = a FROM t", NOT_SUPPORTED),
        ("UPDATE t SET a = b", NOT_SUPPORTED),
        ("ALTER TABLE t ALTER COLUMN a varchar(max)", NOT_SUPPORTED),
        ("CREATE TYPE words FROM text", NOT_SUPPORTED),
        ("SELECT TRY_CAST(c AS text) FROM t", 529),
    ] {
        assert_eq!(errors(&mut s, sql), [number], "{sql}");
    }
}

/// 1919 and 1999: docs/relational-databases/errors-events/database-engine-events-and-errors-1000-to-1999.md.
#[test]
fn no_index_has_them() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    assert_eq!(errors(&mut s, "CREATE INDEX i ON t (a)"), [1919]);
    assert_eq!(errors(&mut s, "CREATE INDEX i ON t (id) INCLUDE (c)"), [1999]);
    assert_eq!(errors(&mut s, "CREATE INDEX i ON t (id) WHERE b IS NOT NULL"), [NOT_SUPPORTED]);
    assert_eq!(errors(&mut s, "CREATE TABLE u (a ntext PRIMARY KEY)"), [1919, 1750]);
}

/// 311: docs/relational-databases/errors-events/database-engine-events-and-errors-0-to-999.md; "text, ntext, or image
/// columns in the inserted and deleted tables" are for INSTEAD OF triggers:
/// docs/t-sql/statements/create-trigger-transact-sql.md.
#[test]
fn after_triggers_do_not_see_them() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "CREATE TABLE log (id int, a text)");
    for body in [
        "SELECT * FROM inserted",
        "INSERT log (a) SELECT i.a FROM inserted i",
        "IF EXISTS (SELECT 1 FROM deleted WHERE c IS NULL) PRINT 1",
    ] {
        assert_eq!(errors(&mut s, &format!("CREATE TRIGGER g ON t AFTER INSERT AS {body}")), [311], "{body}");
    }
    ok(
        &mut s,
        "CREATE TRIGGER g ON t AFTER INSERT AS INSERT log SELECT t.id, t.a FROM t JOIN inserted ON t.id = inserted.id",
    );
    ok(&mut s, "INSERT t (id, a) VALUES (1, 'x')");
    assert_eq!(rows(&mut s, "SELECT * FROM log"), ["ROW(Int(1), String(\"x\"))"]);
    ok(&mut s, "CREATE TRIGGER h ON log INSTEAD OF INSERT AS INSERT t (id, a) SELECT id, a FROM inserted WHERE id > 5");
    ok(&mut s, "DISABLE TRIGGER g ON t; INSERT log VALUES (6, 'instead')");
    assert_eq!(rows(&mut s, "SELECT a FROM t WHERE id = 6"), ["ROW(String(\"instead\"))"]);
    assert_eq!(errors(&mut s, "UPDATE t SET c = NULL OUTPUT deleted.a"), [NOT_SUPPORTED]);
}

/// "text, ntext, and image parameters can't be used as OUTPUT parameters":
/// docs/t-sql/statements/create-procedure-transact-sql.md.
#[test]
fn procedures_have_parameters_of_them() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "CREATE PROCEDURE p @id int, @a text, @c image = NULL AS INSERT t (id, a, c) VALUES (@id, @a, @c)");
    ok(&mut s, "EXEC p 1, N'x'; EXEC p 2, 'y', 0x02");
    ok(&mut s, "EXEC sp_executesql N'UPDATE t SET b = @b WHERE id = 1', N'@b ntext', N'z'");
    assert_eq!(
        rows(&mut s, "SELECT a, b, c FROM t"),
        ["ROW(String(\"x\"), String(\"z\"), Null)", "ROW(String(\"y\"), String(\"none\"), Bytes([2]))"]
    );
    for sql in [
        "CREATE PROCEDURE q @a text OUTPUT AS SELECT 1",
        "CREATE PROCEDURE q @a text AS SET @a = 'x'",
        "CREATE PROCEDURE q @a text AS SELECT @a = 'x'",
        "CREATE FUNCTION f (@a text) RETURNS int AS BEGIN RETURN 1 END",
        "CREATE FUNCTION f (@a int) RETURNS text AS BEGIN RETURN NULL END",
    ] {
        assert!(
            run(&mut s, sql).iter().any(|token| token.contains("59000"))
                || run(&mut s, "EXEC q 'x'").iter().any(|token| token.contains("59000")),
            "{sql}"
        );
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
    assert_eq!(errors(&mut s, "CREATE TABLE u (a text(5))"), [2716]);
}

/// docs/t-sql/statements/set-textsize-transact-sql.md.
#[test]
fn textsize_cuts_them() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "INSERT t VALUES (1, 'abcdefgh', N'abcdefgh', 0x0102030405060708)");
    assert_eq!(
        rows(&mut s, "SET TEXTSIZE 5; SELECT a, b, c FROM t"),
        ["ROW(String(\"abcde\"), String(\"ab\"), Bytes([1, 2, 3, 4, 5]))"]
    );
}
