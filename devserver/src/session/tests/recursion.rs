//! Recursive CTEs, and set operations whose columns have to be converted.
//!
//! Source: "WITH common_table_expression" (MicrosoftDocs/sql-docs,
//! docs/t-sql/queries/with-common-table-expression-transact-sql.md).

use crate::session::tests::harness::check;

#[test]
fn numbers_and_trees() {
    check(
        "== numbers and trees
         WITH n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT SUM(i), COUNT(*) FROM n => 15, 5
         CREATE TABLE staff (id int PRIMARY KEY, boss int NULL, name varchar(10));
             INSERT staff VALUES (1, NULL, 'a'), (2, 1, 'b'), (3, 1, 'c'), (4, 3, 'd'), (5, 4, 'e') => ok
         WITH reports AS (
                 SELECT id, name, 0 AS level FROM staff WHERE boss IS NULL
                 UNION ALL
                 SELECT s.id, s.name, r.level + 1 FROM staff AS s INNER JOIN reports AS r ON s.boss = r.id)
             SELECT name, level FROM reports ORDER BY level, name => 'a', 0 | 'b', 1 | 'c', 1 | 'd', 2 | 'e', 3
         WITH under AS (SELECT id FROM staff WHERE id = 3 UNION ALL SELECT s.id FROM under AS u
             JOIN staff AS s ON s.boss = u.id)
             DELETE staff WHERE id IN (SELECT id FROM under) => ok
         SELECT COUNT(*) FROM staff => 2
         == the recursion ends at its limit
         WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 101) SELECT COUNT(*) FROM n => 101
         WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 102) SELECT COUNT(*) FROM n => error 530
         SELECT TOP (5) i INTO #five FROM (SELECT 1 AS i) AS x => ok
         WITH n AS (SELECT 1 AS i UNION ALL SELECT i FROM n) SELECT COUNT(*) FROM (SELECT TOP (7) i FROM n) AS x => 7
         == what a recursive cte must not have
         WITH n AS (SELECT 1 AS i UNION ALL SELECT DISTINCT i + 1 FROM n WHERE i < 3) SELECT i FROM n => error 59000
         WITH n AS (SELECT 1 AS i UNION ALL SELECT TOP (1) i + 1 FROM n WHERE i < 3) SELECT i FROM n => error 59000
         WITH n AS (SELECT 1 AS i UNION ALL SELECT MAX(i) FROM n GROUP BY i) SELECT i FROM n => error 59000
         WITH n AS (SELECT 1 AS i UNION ALL SELECT v.x FROM (VALUES (1)) AS v (x) LEFT JOIN n ON n.i = v.x) SELECT i
             FROM n => error 59000
         WITH n AS (SELECT 1 AS i UNION ALL SELECT CAST(i AS bigint) FROM n WHERE i < 3) SELECT i FROM n => error 59000
         WITH n AS (SELECT 1 AS i UNION ALL SELECT i, i FROM n) SELECT i FROM n => error 59000
         WITH n AS (SELECT i FROM n) SELECT i FROM n => error 59000
         WITH n AS (SELECT i FROM n UNION ALL SELECT 1) SELECT i FROM n => error 59000
         == set operations convert what was compared before
         SELECT DISTINCT n FROM (VALUES (1), (1), (2)) AS v (n) UNION ALL SELECT CAST(3 AS bigint) => BigInt(1)
             | BigInt(2) | BigInt(3)
         (SELECT 1 AS n UNION SELECT 1) UNION ALL SELECT CAST(7 AS smallint) UNION ALL SELECT 2.5
             ORDER BY 1 => Decimal(Decimal { mantissa: 10, precision: 11, scale: 1 })
             | Decimal(Decimal { mantissa: 25, precision: 11, scale: 1 })
             | Decimal(Decimal { mantissa: 70, precision: 11, scale: 1 })",
    );
}
