//! What queries give.

use crate::session::tests::harness::check;

#[test]
fn queries_over_one_table() {
    check(
        "CREATE TABLE people (id int NOT NULL PRIMARY KEY, name nvarchar(20) NULL, town varchar(10) NULL, age int NULL);
             INSERT people VALUES (1, N'Ann', 'Bonn', 30), (2, N'Bob', 'Bonn', 20), (3, N'Cid', 'Rome', 40), (4, NULL,
             NULL, NULL) => ok
         == conditions with null are unknown
         SELECT id FROM people WHERE age > 25 => 1 | 3
         SELECT id FROM people WHERE NOT age > 25 => 2
         SELECT id FROM people WHERE age IS NULL => 4
         SELECT id FROM people WHERE age IN (20, NULL) => 2
         SELECT id FROM people WHERE age NOT IN (20, NULL) => none
         SELECT id FROM people WHERE id NOT IN (SELECT age FROM people) => none
         SELECT id FROM people WHERE name LIKE N'%b' => 2
         SELECT id FROM people WHERE age BETWEEN 30 AND 40 => 1 | 3
         == groups and aggregates
         SELECT town, COUNT(*), COUNT(age), SUM(age), MIN(age), MAX(age) FROM people GROUP BY town
             ORDER BY town => NULL, 1, 0, NULL, NULL, NULL | 'Bonn', 2, 2, 50, 20, 30 | 'Rome', 1, 1, 40, 40, 40
         SELECT COUNT(*) FROM people WHERE id > 100 => 0
         SELECT MAX(id) FROM people WHERE id > 100 => NULL
         SELECT COUNT(*) FROM people WHERE id > 100 GROUP BY town => none
         SELECT COUNT(*) FROM people GROUP BY town HAVING COUNT(*) > 1 => 2
         SELECT COUNT(DISTINCT town) FROM people => 2
         SELECT age / 10 * 2 + COUNT(*) FROM people WHERE id = 1 GROUP BY age / 10 => 7
         SELECT STRING_AGG(name, ', ') FROM people => 'Ann, Bob, Cid'
         == joins of all kinds
         CREATE TABLE towns (town varchar(10) NOT NULL, land int); INSERT towns VALUES ('bonn', 1), ('Oslo', 2) => ok
         SELECT p.id, t.land FROM people p JOIN towns t ON t.town = p.town ORDER BY p.id => 1, 1 | 2, 1
         SELECT p.id, t.land FROM people p LEFT JOIN towns t ON t.town = p.town ORDER BY p.id => 1, 1 | 2, 1 | 3, NULL
             | 4, NULL
         SELECT p.id FROM people p LEFT JOIN towns t ON t.town = p.town WHERE t.town IS NULL ORDER BY p.id => 3 | 4
         SELECT p.id, t.land FROM people p RIGHT JOIN towns t ON t.town = p.town ORDER BY t.land, p.id => 1, 1 | 2, 1
             | NULL, 2
         SELECT COUNT(*) FROM people CROSS JOIN towns => 8
         SELECT p.id FROM people p INNER LOOP JOIN towns t ON t.town = p.town ORDER BY p.id => 1 | 2
         SELECT p.id, a.n FROM people p OUTER APPLY (SELECT COUNT(*) AS n FROM towns t WHERE t.town = p.town) a
             ORDER BY p.id => 1, 1 | 2, 1 | 3, 0 | 4, 0
         SELECT p.id, a.land FROM people p OUTER APPLY (SELECT t.land FROM towns t WHERE t.town = p.town) a
             ORDER BY p.id => 1, 1 | 2, 1 | 3, NULL | 4, NULL
         SELECT p.id, d.one FROM people p LEFT JOIN (SELECT town, 1 AS one FROM towns) d ON d.town = p.town
             ORDER BY p.id => 1, 1 | 2, 1 | 3, NULL | 4, NULL
         == order top and offset
         SELECT TOP (2) id FROM people ORDER BY age DESC => 3 | 1
         SELECT id FROM people ORDER BY id DESC => 4 | 3 | 2 | 1
         SELECT id AS x FROM people ORDER BY x OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY => 2 | 3
         SELECT id FROM people ORDER BY town, 1 DESC => 4 | 2 | 1 | 3
         DECLARE @n int = 0; SELECT TOP (@n) id FROM people => none
         SELECT DISTINCT LEN(town) FROM people ORDER BY LEN(town) => NULL | 4
         == set operations
         SELECT id FROM people WHERE id < 3 UNION ALL SELECT 2 ORDER BY 1 => 1 | 2 | 2
         SELECT id FROM people WHERE id < 3 UNION SELECT 2 ORDER BY id => 1 | 2
         SELECT p.id FROM people AS p UNION SELECT 2 ORDER BY p.id => error 59000
         SELECT 1 UNION ALL SELECT NULL => 1 | NULL
         SELECT NULL UNION ALL SELECT 'x' => NULL | 'x'
         == windows number rows within partitions
         SELECT id, ROW_NUMBER() OVER (PARTITION BY town ORDER BY age DESC) AS n FROM people ORDER BY id => 1, BigInt(1)
             | 2, BigInt(2) | 3, BigInt(1) | 4, BigInt(1)
         WITH n AS (SELECT id, ROW_NUMBER() OVER (ORDER BY id DESC) AS n FROM people) SELECT id FROM n WHERE n <= 2
             ORDER BY n => 4 | 3
         SELECT ROW_NUMBER() OVER (ORDER BY town, id), COUNT(*) OVER () FROM people ORDER BY id => BigInt(2), 4
             | BigInt(3), 4 | BigInt(4), 4 | BigInt(1), 4
         == subqueries see the row around them
         SELECT id, (SELECT COUNT(*) FROM people AS o WHERE o.town = p.town) FROM people AS p ORDER BY id => 1, 2 | 2, 2
             | 3, 1 | 4, 0
         SELECT id FROM people AS p WHERE EXISTS (SELECT 1 FROM people AS o WHERE o.town = p.town AND o.id <> p.id) => 1
             | 2
         SELECT id FROM people WHERE age = (SELECT MAX(age) FROM people) => 3
         SELECT id FROM people WHERE id IN (SELECT id FROM people WHERE age < 35) => 1 | 2
         SELECT v.n FROM (VALUES (1), (2)) AS v (n) WHERE v.n > 1 => 2
         SELECT CASE WHEN EXISTS (SELECT 1 FROM people) THEN 1 ELSE 0 END => 1
         == variables take values in order
         DECLARE @a int, @b int; SELECT @a = 1, @b = @a + 1; SELECT @a, @b => 1, 2
         DECLARE @all nvarchar(100) = N''; SELECT @all += name FROM people WHERE name IS NOT NULL;
             SELECT @all => 'AnnBobCid'
         DECLARE @a int = 5; SELECT @a = id FROM people WHERE id = 99; SELECT @a => 5
         DECLARE @i int = 0; WHILE @i < 5 BEGIN SET @i += 1; IF @i = 3 BREAK; END; SELECT @i => 3
         == views are part of the query that uses them
         CREATE VIEW adults AS SELECT id, name, age FROM people WHERE age >= 30 => ok
         SELECT id FROM adults WHERE age < 40 => 1
         SELECT COUNT(*) FROM adults => 2
         == the number of rows is known to the next statement
         SELECT id FROM people WHERE id < 3; SELECT @@ROWCOUNT => 1 | 2 | 2
         UPDATE people SET age = 1; SELECT @@ROWCOUNT => 4
         DECLARE @a int; SET @a = 2; SELECT @@ROWCOUNT => 1
         -- IF is a statement too.
         DELETE people WHERE id = 4; IF @@ROWCOUNT = 1 SELECT @@ROWCOUNT => 0",
    );
}

/// `SELECT *` has the columns of the time when the view was made ("sp_refreshview",
/// docs/relational-databases/system-stored-procedures/sp-refreshview-transact-sql.md).
#[test]
fn what_selects_all_columns_does_not_follow_its_table() {
    check(
        "CREATE TABLE b (x int, y int); INSERT b VALUES (1, 2) ;; CREATE VIEW v AS SELECT * FROM b ;;
             CREATE VIEW x_only AS SELECT x FROM b ;; ALTER TABLE b ADD z int => ok
         SELECT * FROM v => error 59000
         ALTER TABLE b DROP COLUMN z ;; SELECT * FROM v ;; EXEC sp_rename 'b.y', 'w', 'COLUMN' => ok
         SELECT * FROM v => error 59000
         ALTER TABLE b DROP COLUMN w => ok
         SELECT * FROM v => error 59000
         SELECT * FROM x_only => 1
         ALTER VIEW v AS SELECT * FROM b => ok
         SELECT * FROM v => 1",
    );
}

#[test]
fn orders_and_results_without_rows() {
    check(
        r#"== the separator of string agg is one text
         -- The separator of STRING_AGG "is an expression of type nvarchar or varchar … It can be literal or variable".
         -- Source: "STRING_AGG" (MicrosoftDocs/sql-docs, docs/t-sql/functions/string-agg-transact-sql.md).
         CREATE TABLE t (a varchar(5), b varchar(5)); INSERT t VALUES ('x', 'y'), ('x', 'z') => ok
         SELECT STRING_AGG(a, ',') FROM t => 'x,x'
         SELECT STRING_AGG(a, N',') FROM t => 'x,x'
         SELECT STRING_AGG(a, ','+'') FROM t => 'x,x'
         DECLARE @s varchar(2) = '; '; SELECT STRING_AGG(a, @s) FROM t => 'x; x'
         SELECT STRING_AGG(a, b) FROM t ;; SELECT STRING_AGG(a, 1) FROM t ;;
             SELECT STRING_AGG(a, CAST(',' AS varchar(max))) FROM t ;;
             SELECT STRING_AGG(a, ',' COLLATE Latin1_General_BIN2) FROM t => error 59000
         == constants are no order
         -- 408, 5308 and 5309 (docs/relational-databases/errors-events/database-engine-events-and-errors-0-to-999.md
         -- and …-5000-to-5999.md).
         CREATE TABLE t (a int); INSERT t VALUES (2), (1) => ok
         SELECT a FROM t ORDER BY a, 1 + 0
             => error 59000
         SELECT a FROM t ORDER BY 'a' + 'b' ;; SELECT a FROM t ORDER BY NULL ;; SELECT a FROM t ORDER BY -1 ;;
             SELECT ROW_NUMBER() OVER (ORDER BY 1) FROM t ;; SELECT ROW_NUMBER() OVER (ORDER BY NULL) FROM t ;;
             SELECT ROW_NUMBER() OVER (ORDER BY 'x') FROM t => error 59000
         SELECT a FROM (SELECT a, 1 AS one FROM t) AS d ORDER BY d.one + 0, a => 1 | 2
         DECLARE @v int = 1; SELECT a FROM t ORDER BY @v + 1, a => 1 | 2
         SELECT a FROM t ORDER BY (SELECT NULL), a => 1 | 2
         SELECT ROW_NUMBER() OVER (ORDER BY (SELECT NULL)) FROM t => ok
         SELECT ROW_NUMBER() OVER (ORDER BY d.one) FROM (SELECT a, 1 AS one FROM t) AS d => ok
         == numbers and trees
         -- Source: "WITH common_table_expression" (MicrosoftDocs/sql-docs,
         -- docs/t-sql/queries/with-common-table-expression-transact-sql.md).
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
             | Decimal(Decimal { mantissa: 70, precision: 11, scale: 1 })"#,
    );
}

// Source: [MS-TDS] 2.2.7, "ORDER": by which columns the rows are ordered, behind COLMETADATA.
#[test]
fn the_client_is_told_by_which_columns_a_result_is_ordered() {
    check(
        "CREATE TABLE t (a int NOT NULL PRIMARY KEY, b int, c int) => ok
         SELECT a, b, c FROM t ORDER BY c, a DESC
             => tokens COLMETADATA(a Int, b Int, c Int) | ORDER(3, 1) | DONE(count=0)
         -- In order by its index: nothing is sorted.
         SELECT b, a FROM t ORDER BY a => tokens COLMETADATA(b Int, a Int) | ORDER(2) | DONE(count=0)
         SELECT a AS x, b + 1 FROM t ORDER BY 2, x => tokens COLMETADATA(x Int,  Int) | ORDER(2, 1) | DONE(count=0)
         SELECT a FROM t UNION ALL SELECT b FROM t ORDER BY a => tokens COLMETADATA(a Int) | ORDER(1) | DONE(count=0)
         SELECT b, COUNT(*) AS n FROM t GROUP BY b ORDER BY n
             => tokens COLMETADATA(b Int, n Int) | ORDER(2) | DONE(count=0)
         SELECT a FROM t ;; SELECT d.a FROM (SELECT TOP (1) a FROM t ORDER BY a) AS d ;;
             DELETE t OUTPUT deleted.a WHERE a = 9 => tokens COLMETADATA(a Int) | DONE(count=0)",
    );
}

/// Source: "SELECT - OVER Clause" (docs/t-sql/queries/select-over-clause-transact-sql.md), and the functions' pages.
#[test]
fn windows_over_sales() {
    check(
        r#"CREATE TABLE sales (who char(1) NOT NULL, day int NOT NULL, n int NOT NULL);
             INSERT sales VALUES ('a', 1, 10), ('a', 2, 20), ('a', 2, 30), ('a', 4, 40), ('b', 1, 5), ('b', 3, 7) => ok
         == running totals take peers along
         SELECT SUM(n) OVER (PARTITION BY who ORDER BY day) FROM sales ORDER BY who, day, n
             => 10 | 60 | 60 | 100 | 5 | 12
         SELECT SUM(n) OVER (PARTITION BY who) FROM sales ORDER BY who => 100 | 100 | 100 | 100 | 12 | 12
         SELECT FIRST_VALUE(n) OVER (PARTITION BY who ORDER BY day DESC) FROM sales ORDER BY who
             => 40 | 40 | 40 | 40 | 7 | 7
         SELECT DISTINCT SUM(n) OVER () FROM sales => 112
         == what over refuses
         SELECT FIRST_VALUE(n) OVER (PARTITION BY who) FROM sales => error 4112
         SELECT ROW_NUMBER() OVER (ORDER BY n ROWS UNBOUNDED PRECEDING) FROM sales ;;
             SELECT LAG(n) OVER (ORDER BY n) FROM sales ;; SELECT SUM(COUNT(*)) OVER () FROM sales ;;
             SELECT COUNT(DISTINCT n) OVER () FROM sales => error 59000
         SELECT ROW_NUMBER() FROM sales => error 10753
         SELECT 1 FROM sales WHERE ROW_NUMBER() OVER (ORDER BY n) = 1 => error 4108
         == a sequence gives one value to a row
         -- "NEXT VALUE FOR" (docs/t-sql/functions/next-value-for-transact-sql.md): one value for each row, however
         -- often it is named.
         CREATE SEQUENCE numbers AS int START WITH 1 => ok
         SELECT NEXT VALUE FOR numbers, NEXT VALUE FOR numbers + 100 FROM (VALUES (1), (2)) AS v (x) => 1, 101 | 2, 102
         SELECT n, NEXT VALUE FOR numbers OVER (ORDER BY n DESC) FROM sales WHERE who = 'b' ORDER BY n => 5, 4 | 7, 3"#,
    );
}
