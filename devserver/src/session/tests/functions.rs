//! User-defined functions, and functions in FROM. Source: "CREATE FUNCTION" (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/create-function-transact-sql.md).

use crate::session::tests::harness::check;

#[test]
fn functions_are_computed() {
    check(
        r#"== scalar functions are computed where they stand
         CREATE TABLE jobs (id int NOT NULL PRIMARY KEY, tries int NOT NULL, queue varchar(10) NOT NULL); INSERT jobs
             VALUES (1, 1, 'a'), (2, 3, 'a'), (3, 9, 'b') => ok
         CREATE FUNCTION dbo.delay_after (@tries int, @base int) RETURNS int AS BEGIN
             RETURN @base * POWER(CAST(2 AS float), @tries - 1) END => ok
         CREATE FUNCTION dbo.depth (@queue varchar(10)) RETURNS int AS BEGIN RETURN (SELECT COUNT(*) FROM dbo.jobs
             WHERE queue = @queue) END => ok
         CREATE FUNCTION twice (@n tinyint) RETURNS int AS BEGIN RETURN @n + dbo.delay_after(1, @n) END => ok
         SELECT id, dbo.delay_after(tries, 10), dbo.depth(queue) FROM jobs => 1, 10, 2 | 2, 40, 2 | 3, 2560, 1
         DECLARE @t int = 3; SELECT dbo.delay_after(@t, 1), dbo.twice('4') => 4, 8
         UPDATE jobs SET tries = dbo.depth('b') WHERE dbo.depth(queue) = 2 => ok
         SELECT tries FROM jobs => 1 | 1 | 9
         SELECT dbo.twice(256) => error 220
         SELECT dbo.nothing(1) => error 4121
         SELECT dbo.twice() ;; SELECT dbo.twice(1, 2) => error 59000
         CREATE FUNCTION f (@a int) RETURNS int AS BEGIN RETURN @b END => error 137
         CREATE FUNCTION f (@a int) RETURNS int AS BEGIN SELECT 1 END => error 455
         DROP FUNCTION twice => ok
         SELECT dbo.twice(1) => error 4121
         == a class of bytes finds what is not printable
         -- How a payload is told to be text: nothing in it but printable ASCII, by a comparison of bytes.
         SELECT CASE WHEN CAST(v AS varchar(max)) COLLATE Latin1_General_100_BIN2 LIKE '%[^ -~]%' THEN 0 ELSE 1 END,
             PATINDEX('%[^ -~]%', CAST(v AS varchar(max)) COLLATE Latin1_General_100_BIN2)
             FROM (VALUES (CAST(0x AS varbinary(max))), (0x41207E), (0x41097E), (0x4141E9), (0x00), (0x7F)) AS x (v)
             => 1, BigInt(0) | 1, BigInt(0) | 0, BigInt(2) | 0, BigInt(3) | 0, BigInt(1) | 0, BigInt(1)
         DECLARE @v varbinary(max) = 0x6800AC20; SELECT CAST(@v AS nvarchar(max)), DATALENGTH(@v) => 'h€', BigInt(4)
         SELECT COUNT(DISTINCT CHECKSUM(NEWID())) FROM GENERATE_SERIES(1, 20) => 20
         == names in a module are those of its schema
         -- Names without schema in a module mean objects of its schema, then of dbo. Source: "Name resolution, default
         -- schema, implicit schema", part III (the blog of SQL Server's programmability team).
         CREATE SCHEMA m => ok
         CREATE TABLE t (a int); INSERT t VALUES (1); CREATE TABLE m.t (b int); INSERT m.t VALUES (2)
             CREATE TABLE other (a int); INSERT other VALUES (3)
             CREATE SEQUENCE m.numbers START WITH 7 => ok
         CREATE VIEW m.v AS SELECT b FROM t UNION ALL SELECT a FROM other ;; CREATE VIEW m.through AS SELECT b FROM v ;;
             CREATE VIEW plain AS SELECT a FROM t ;;
             CREATE FUNCTION m.g () RETURNS int AS BEGIN RETURN (SELECT b FROM t) END ;;
             CREATE PROCEDURE m.p AS SELECT b FROM v; SELECT a FROM plain => ok
         SELECT b FROM m.v => 2 | 3
         SELECT b FROM m.through => 2 | 3
         SELECT a FROM plain => 1
         SELECT m.g(), (SELECT a FROM t) => 2, 1
         -- A view of dbo reads dbo's table, wherever it is asked from.
         EXEC m.p => 2 | 3 | 1
         CREATE VIEW m.w AS SELECT a FROM t => error 207
         == functions of several statements run for each row
         -- Source: "CREATE FUNCTION", scalar functions.
         CREATE TABLE jobs (id int NOT NULL PRIMARY KEY, tries int NOT NULL); INSERT jobs
             VALUES (1, 1), (2, 3), (3, 9) => ok
         CREATE FUNCTION dbo.delay (@tries int, @most int) RETURNS bigint AS
             BEGIN
                 DECLARE @delay bigint = 1, @n int;
                 SET @n = @tries;
                 IF @n > 1
                 BEGIN
                     SET @delay = 4;
                     IF @n > 3 SET @delay = 8;
                 END
                 RETURN @delay;
             END => ok
         CREATE FUNCTION dbo.ahead (@id int) RETURNS varchar(20) AS
             BEGIN
                 DECLARE @count int, @last int;
                 SELECT @count = COUNT(*), @last = MAX(id) FROM dbo.jobs WHERE id < @id;
                 IF @last IS NULL RETURN 'nobody';
                 ELSE IF @count = 1 RETURN CONCAT(@count, ' job');
                 RETURN CONCAT(@count, ' jobs, ', dbo.delay(3, 100));
             END => ok
         SELECT id, dbo.delay(tries, 10), dbo.ahead(id) FROM jobs
             WHERE dbo.delay(tries, 100) < 1000 => 1, BigInt(1), 'nobody' | 2, BigInt(4), '1 job'
             | 3, BigInt(8), '2 jobs, 4'
         UPDATE jobs SET tries = dbo.delay(tries, 10) OUTPUT inserted.tries => ok
         SELECT SUM(tries) FROM jobs => 13
         SELECT COUNT(*) FROM jobs GROUP BY dbo.delay(tries, 4) => error 59000
         -- What it does is not seen outside of it.
         SELECT id FROM jobs WHERE id < 3; DECLARE @a varchar(20) = dbo.ahead(3); SELECT @a => 1 | 2
             | '2 jobs, 4'
         ALTER FUNCTION dbo.delay (@tries int, @most int) RETURNS bigint AS BEGIN SET @tries += 1; RETURN @tries
             END => ok
         SELECT dbo.delay(4, 0), dbo.ahead(3) => BigInt(5), '2 jobs, 4'"#,
    );
}

#[test]
fn functions_and_options() {
    check(
        r#"== what a function must not do
         -- 443 and 444: docs/relational-databases/errors-events/database-engine-events-and-errors-0-to-999.md. No page
         -- says their states.
         CREATE TABLE jobs (id int NOT NULL PRIMARY KEY) => ok
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN PRINT 'a'; RETURN @a END => error 59000
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN BEGIN TRY SET @a = 1 END TRY BEGIN CATCH SET @a = 2
             END CATCH; RETURN @a END => error 59000
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN RAISERROR('a', 16, 1); RETURN @a END => error 59000
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN IF NEWID() IS NULL SET @a = 1; RETURN @a END => error 59000
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN SELECT id FROM jobs; RETURN @a END => error 444
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN SELECT @a = nothing FROM jobs; RETURN @a END => error 207
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN SET @b = 1; RETURN @a END => error 137
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN EXEC p; RETURN @a END => error 59000
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN WHILE @a < 3 SET @a += 1; RETURN @a END => error 59000
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN SET @a = dbo.f(@a); RETURN @a END => error 59000
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN INSERT jobs VALUES (1); RETURN @a END => error 59000
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN DECLARE @t TABLE (id int); RETURN @a END => error 59000
         SELECT dbo.f(1) => error 4121
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN IF @a = 1 RETURN 1 ELSE RETURN 2 END => error 455
         -- A table that is not there yet is looked for when the function runs.
         CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN SELECT @a = COUNT(*) FROM later; RETURN @a END => ok
         SELECT dbo.f(1) => error 208
         CREATE TABLE later (id int); INSERT later VALUES (7) => ok
         SELECT dbo.f(1) => 1
         == what clients set at login
         -- 5703: docs/relational-databases/errors-events/database-engine-events-and-errors-5000-to-5999.md.
         SET LANGUAGE us_english => none
         SET DATEFIRST 7 => ok
         SET DATEFIRST 3 => error 59000
         == open json gives keys values and types
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
         SELECT value FROM GENERATE_SERIES(2, 1) => 2 | 1
         == a table that calls a function is refused
         CREATE FUNCTION dbo.one (@a int) RETURNS int AS BEGIN RETURN @a + 1 END => ok
         CREATE TABLE t (a int CHECK (dbo.one(1) > 0)) ;; CREATE TABLE t (a int DEFAULT dbo.one(1)) ;;
             CREATE TABLE t (a int, b AS dbo.one(a)) => error 59000
         == what a function may not be
         CREATE FUNCTION dbo.one (@a int) RETURNS int AS BEGIN RETURN @a + 1 END => ok
         CREATE SEQUENCE sq; CREATE TABLE #t (a int); CREATE TABLE t (a int) => ok
         CREATE FUNCTION dbo.f () RETURNS int AS BEGIN RETURN (NEXT VALUE FOR sq) END => error 59000
         CREATE FUNCTION dbo.f () RETURNS int AS BEGIN RETURN (SELECT COUNT(*) FROM #t) END => error 2772
         CREATE FUNCTION dbo.f () RETURNS TABLE AS RETURN SELECT a FROM #t => error 59000
         CREATE FUNCTION dbo.f (@a int OUTPUT) RETURNS int AS BEGIN RETURN @a END => error 181
         CREATE FUNCTION dbo.f (@a timestamp) RETURNS int AS BEGIN RETURN 1 END ;;
             CREATE FUNCTION dbo.f () RETURNS timestamp AS BEGIN RETURN 0x01 END ;;
             CREATE FUNCTION #f () RETURNS int AS BEGIN RETURN 1 END ;;
             CREATE FUNCTION dbo.f (@a int) RETURNS int AS BEGIN RETURN dbo.f(@a - 1) END ;;
             ALTER FUNCTION dbo.one (@a int) RETURNS int AS BEGIN RETURN dbo.one(@a - 1) END ;;
             CREATE FUNCTION dbo.f () RETURNS int WITH SCHEMABINDING AS BEGIN RETURN 1 END ;; EXEC dbo.one 1 ;;
             SELECT dbo.one(DEFAULT) ;; CREATE VIEW #v AS SELECT 1 AS a => error 59000
         == an object of another kind is refused
         CREATE TABLE t (a int) ;; CREATE VIEW vv AS SELECT 1 AS a ;; CREATE PROCEDURE p AS RETURN => ok
         DROP PROCEDURE vv ;; DROP VIEW t ;; DROP TABLE p => error 59000
         DROP FUNCTION nothing => error 3701
         DROP PROCEDURE IF EXISTS vv ;; ALTER PROCEDURE vv AS RETURN ;; ALTER VIEW t AS SELECT 1 AS a ;;
             ALTER VIEW p AS SELECT 1 AS a ;; ALTER FUNCTION dbo.p () RETURNS int AS BEGIN RETURN 1 END => error 59000
         ALTER PROCEDURE nothing AS RETURN => error 208
         DROP TABLE IF EXISTS nothing; DROP TABLE t; DROP VIEW vv; DROP PROCEDURE p => ok"#,
    );
}
