//! Functions in FROM: OPENJSON, STRING_SPLIT, GENERATE_SERIES.

use crate::session::tests::harness::check;

#[test]
fn functions_give_rows() {
    check(
        r#"== open json gives keys values and types
         -- Source: "OPENJSON" (MicrosoftDocs/sql-docs, docs/t-sql/functions/openjson-transact-sql.md), its first
         -- examples.
         DECLARE @json nvarchar(4000) = N'{ "StringValue":"John", "IntValue":45, "TrueValue":true, "NullValue":null,
               "ArrayValue":["a","r"], "ObjectValue":{"obj":"ect"} }';
             SELECT * FROM OPENJSON(@json) => 'StringValue', 'John', 1 | 'IntValue', '45', 2 | 'TrueValue', 'true', 3
             | 'NullValue', NULL, 0 | 'ArrayValue', '["a","r"]', 4 | 'ObjectValue', '{"obj":"ect"}', 5
         SELECT COUNT(*) FROM OPENJSON(CAST(NULL AS nvarchar(max))) => 0
         SELECT * FROM OPENJSON('{a:1}') => error 13609
         CREATE TABLE orders (id int PRIMARY KEY, tags nvarchar(max)); INSERT orders
             VALUES (1, '[7, 8]'), (2, NULL) => ok
         SELECT o.id, t.value FROM orders AS o OUTER APPLY OPENJSON(o.tags) AS t ORDER BY o.id, t.value => 1, '7'
             | 1, '8' | 2, NULL
         == string split
         -- Source: "STRING_SPLIT" (MicrosoftDocs/sql-docs, docs/t-sql/functions/string-split-transact-sql.md).
         SELECT value FROM STRING_SPLIT('Lorem ipsum dolor', ' ') => 'Lorem' | 'ipsum' | 'dolor'
         SELECT COUNT(*) FROM (VALUES ('1,2'), (NULL)) AS v (list) CROSS APPLY STRING_SPLIT(v.list, ',') AS p
             WHERE p.value IN (1, 2) => 2
         SELECT * FROM STRING_SPLIT('a', ', ') => error 214
         SELECT * FROM STRING_SPLIT(1, ',') => error 59000
         == generate series
         -- Source: "GENERATE_SERIES" (MicrosoftDocs/sql-docs, docs/t-sql/functions/generate-series-transact-sql.md).
         SELECT SUM(value), COUNT(*) FROM GENERATE_SERIES(1, 10) => 55, 10
         SELECT value FROM GENERATE_SERIES(2, 1) => 2 | 1"#,
    );
}
