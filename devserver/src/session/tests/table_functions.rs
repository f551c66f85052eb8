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
    assert_eq!(
        rows(
            &mut s,
            r#"SELECT [key], value FROM OPENJSON(N'{"path":{"to":{"sub-object":["en-GB", "en-UK"]}}}', '$.path.to."sub-object"')"#
        ),
        ["ROW(String(\"0\"), String(\"en-GB\"))", "ROW(String(\"1\"), String(\"en-UK\"))"]
    );
}

#[test]
fn open_json_with_columns() {
    let (_e, mut s) = session();
    assert_eq!(
        rows(
            &mut s,
            r#"DECLARE @json nvarchar(max) = N'[
                 {"Order":{"Number":"SO43659","Date":"2011-05-31T00:00:00"},"AccountNumber":"AW29825","Item":{"Quantity":1}},
                 {"Order":{"Number":"SO43661","Date":"2011-06-01T00:00:00"},"AccountNumber":"AW73565"}]';
               SELECT Number, CONVERT(char(10), Date, 23), Customer, Quantity, [Order], missing FROM OPENJSON(@json) WITH (
                 Number varchar(200) '$.Order.Number', Date datetime '$.Order.Date', Customer varchar(200) '$.AccountNumber',
                 Quantity int '$.Item.Quantity', [Order] nvarchar(max) AS JSON, missing bit)"#
        ),
        [
            "ROW(String(\"SO43659\"), String(\"2011-05-31\"), String(\"AW29825\"), Int(1), \
             String(\"{\\\"Number\\\":\\\"SO43659\\\",\\\"Date\\\":\\\"2011-05-31T00:00:00\\\"}\"), Null)",
            "ROW(String(\"SO43661\"), String(\"2011-06-01\"), String(\"AW73565\"), Null, \
             String(\"{\\\"Number\\\":\\\"SO43661\\\",\\\"Date\\\":\\\"2011-06-01T00:00:00\\\"}\"), Null)"
        ]
    );
    assert_eq!(rows(&mut s, "SELECT id + 1 FROM OPENJSON('[1, 2]') WITH (id int '$')"), ["ROW(Int(2))", "ROW(Int(3))"]);
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM OPENJSON(CAST(NULL AS nvarchar(max)))"), ["ROW(Int(0))"]);
}

#[test]
fn open_json_lax_and_strict() {
    let (_e, mut s) = session();
    assert_eq!(rows(&mut s, r#"SELECT * FROM OPENJSON('{"a":1}', '$.b')"#), [] as [&str; 0]);
    assert_eq!(rows(&mut s, r#"SELECT * FROM OPENJSON('{"a":1}', '$.a')"#), [] as [&str; 0]);
    assert_eq!(errors(&mut s, r#"SELECT * FROM OPENJSON('{"a":1}', 'strict $.b')"#), [13608]);
    assert_eq!(errors(&mut s, r#"SELECT * FROM OPENJSON('{"a":1}', 'strict $.a')"#), [13611]);
    assert_eq!(rows(&mut s, r#"SELECT a FROM OPENJSON('{"a":[1]}') WITH (a int)"#), ["ROW(Null)"]);
    assert_eq!(errors(&mut s, r#"SELECT a FROM OPENJSON('{"a":[1]}') WITH (a int 'strict $.a')"#), [13623]);
    assert_eq!(errors(&mut s, r#"SELECT b FROM OPENJSON('{"a":1}') WITH (b int 'strict $.b')"#), [13608]);
    assert_eq!(errors(&mut s, "SELECT * FROM OPENJSON('{a:1}')"), [13609]);
    assert_eq!(errors(&mut s, "SELECT * FROM OPENJSON('{}') WITH (a varchar(10) AS JSON)"), [13618]);
    assert_eq!(errors(&mut s, "SELECT * FROM OPENJSON('{}') WITH (a int 'a')"), [13607]);
    assert_eq!(errors(&mut s, r#"SELECT a FROM OPENJSON('{"a":"x"}') WITH (a int)"#), [245]);
}

#[test]
fn json_of_a_column_is_opened_for_each_row() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        r#"CREATE TABLE orders (id int PRIMARY KEY, body nvarchar(max));
           INSERT orders VALUES (1, N'{"lines":[{"sku":"a","tags":["x","y"]},{"sku":"b","tags":[]}]}'), (2, NULL)"#,
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT o.id, l.sku, t.value FROM orders AS o
             CROSS APPLY OPENJSON(o.body, '$.lines') WITH (sku varchar(10), tags nvarchar(max) AS JSON) AS l
             OUTER APPLY OPENJSON(l.tags) AS t ORDER BY o.id, l.sku, t.value"
        ),
        [
            "ROW(Int(1), String(\"a\"), String(\"x\"))",
            "ROW(Int(1), String(\"a\"), String(\"y\"))",
            "ROW(Int(1), String(\"b\"), Null)"
        ]
    );
    ok(&mut s, "DELETE o FROM orders AS o JOIN OPENJSON('[2, 3]') WITH (id int '$') AS j ON j.id = o.id");
    assert_eq!(rows(&mut s, "SELECT id FROM orders"), ["ROW(Int(1))"]);
    assert_eq!(rows(&mut s, "SELECT JSON_QUERY(body, '$.lines[1].tags') FROM orders"), ["ROW(String(\"[]\"))"]);
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
        rows(&mut s, "SELECT * FROM STRING_SPLIT(N'b,,a', N',', 1) AS p ORDER BY p.ordinal DESC"),
        ["ROW(String(\"a\"), BigInt(3))", "ROW(String(\"\"), BigInt(2))", "ROW(String(\"b\"), BigInt(1))"]
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
    assert_eq!(errors(&mut s, "DECLARE @o bit = 1; SELECT * FROM STRING_SPLIT('a', ',', @o)"), [8748]);
}

// Source: "GENERATE_SERIES" (MicrosoftDocs/sql-docs, docs/t-sql/functions/generate-series-transact-sql.md).
#[test]
fn generate_series() {
    let (_e, mut s) = session();
    assert_eq!(rows(&mut s, "SELECT SUM(value), COUNT(*) FROM GENERATE_SERIES(1, 10)"), ["ROW(Int(55), Int(10))"]);
    assert_eq!(rows(&mut s, "SELECT value FROM GENERATE_SERIES(1, 50, 25)"), ["ROW(Int(1))", "ROW(Int(26))"]);
    assert_eq!(rows(&mut s, "SELECT value FROM GENERATE_SERIES(2, 1)"), ["ROW(Int(2))", "ROW(Int(1))"]);
    assert_eq!(errors(&mut s, "SELECT value FROM GENERATE_SERIES(1, 2, 0)"), [4199]);
}
