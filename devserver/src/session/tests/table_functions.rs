//! Functions in FROM: OPENJSON, STRING_SPLIT, GENERATE_SERIES.

use crate::session::tests::harness::{errors, ok, rows, session};

// Source: "OPENJSON" (MicrosoftDocs/sql-docs, docs/t-sql/functions/openjson-transact-sql.md), its first examples.
#[test]
fn open_json_gives_keys_values_and_types() {
    let (_e, mut s) = session();
    assert_eq!(
        rows(
            &mut s,
            r#"DECLARE @json nvarchar(4000) = N'{ "StringValue":"John", "IntValue":45, "TrueValue":true, "NullValue":null,
                 "ArrayValue":["a","r"], "ObjectValue":{"obj":"ect"} }';
               SELECT * FROM OPENJSON(@json)"#
        ),
        [
            "ROW(String(\"StringValue\"), String(\"John\"), Int(1))",
            "ROW(String(\"IntValue\"), String(\"45\"), Int(2))",
            "ROW(String(\"TrueValue\"), String(\"true\"), Int(3))",
            "ROW(String(\"NullValue\"), Null, Int(0))",
            "ROW(String(\"ArrayValue\"), String(\"[\\\"a\\\",\\\"r\\\"]\"), Int(4))",
            "ROW(String(\"ObjectValue\"), String(\"{\\\"obj\\\":\\\"ect\\\"}\"), Int(5))"
        ]
    );
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM OPENJSON(CAST(NULL AS nvarchar(max)))"), ["ROW(Int(0))"]);
    assert_eq!(errors(&mut s, "SELECT * FROM OPENJSON('{a:1}')"), [13609]);
    ok(
        &mut s,
        "CREATE TABLE orders (id int PRIMARY KEY, tags nvarchar(max)); INSERT orders VALUES (1, '[7, 8]'), (2, NULL)",
    );
    assert_eq!(
        rows(&mut s, "SELECT o.id, t.value FROM orders AS o OUTER APPLY OPENJSON(o.tags) AS t ORDER BY o.id, t.value"),
        ["ROW(Int(1), String(\"7\"))", "ROW(Int(1), String(\"8\"))", "ROW(Int(2), Null)"]
    );
}

// Source: "STRING_SPLIT" (MicrosoftDocs/sql-docs, docs/t-sql/functions/string-split-transact-sql.md).
#[test]
fn string_split() {
    let (_e, mut s) = session();
    assert_eq!(
        rows(&mut s, "SELECT value FROM STRING_SPLIT('Lorem ipsum dolor', ' ')"),
        ["ROW(String(\"Lorem\"))", "ROW(String(\"ipsum\"))", "ROW(String(\"dolor\"))"]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT COUNT(*) FROM (VALUES ('1,2'), (NULL)) AS v (list) CROSS APPLY STRING_SPLIT(v.list, ',') AS p WHERE p.value IN (1, 2)"
        ),
        ["ROW(Int(2))"]
    );
    assert_eq!(errors(&mut s, "SELECT * FROM STRING_SPLIT('a', ', ')"), [214]);
    assert_eq!(errors(&mut s, "SELECT * FROM STRING_SPLIT(1, ',')"), [8116]);
}

// Source: "GENERATE_SERIES" (MicrosoftDocs/sql-docs, docs/t-sql/functions/generate-series-transact-sql.md).
#[test]
fn generate_series() {
    let (_e, mut s) = session();
    assert_eq!(rows(&mut s, "SELECT SUM(value), COUNT(*) FROM GENERATE_SERIES(1, 10)"), ["ROW(Int(55), Int(10))"]);
    assert_eq!(rows(&mut s, "SELECT value FROM GENERATE_SERIES(2, 1)"), ["ROW(Int(2))", "ROW(Int(1))"]);
}
