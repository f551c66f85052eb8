//! Computed columns: evaluated when they are read.
//!
//! Source: "Specify Computed Columns in a Table" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/tables/specify-computed-columns-in-a-table.md); "Their values are recalculated every time
//! they are referenced in a query" ("Computed Columns", SQL Server 2008 Books Online, ms191250).

use crate::session::tests::harness::check;

#[test]
fn they_are_computed_when_read() {
    check(
        r#"== an expression fails when it is read and not before
         CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int, b AS 10 / a, c AS CAST('x' + CAST(a AS char(1)) AS
             int)) => ok
         INSERT t VALUES (1, 2), (2, 0); UPDATE t SET a = a + 0 => ok
         SELECT id, b FROM t WHERE id = 1 => 1, 5
         SELECT id FROM t ORDER BY id => 1 | 2
         SELECT b FROM t => 5 | error 8134
         SELECT id FROM t WHERE b = 3 ;; SELECT id FROM t ORDER BY b ;; SELECT MAX(b) FROM t ;;
             UPDATE t SET a = b => error 8134
         UPDATE t SET a = 1 OUTPUT deleted.b => 5 | error 8134
         DELETE t OUTPUT deleted.b => 5 | error 8134
         SELECT b FROM (SELECT * FROM t) AS d => 5 | error 8134
         MERGE t USING (VALUES (2)) AS v (id) ON v.id = t.id WHEN MATCHED AND t.b > 1 THEN UPDATE
             SET a = 1; => error 8134
         SELECT c FROM t => error 245
         INSERT t OUTPUT inserted.b VALUES (3, 0) => error 8134
         SELECT COUNT(*) FROM t => 2
         == they are columns wherever they are named
         CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int, twice AS a * 2, known AS ISNULL(a, 0)) ;;
             INSERT t VALUES (1, 3), (2, 4), (3, NULL) ;; CREATE VIEW v AS SELECT id, a, twice AS doubled FROM t => ok
         SELECT id FROM t WHERE twice = 8 => 2
         SELECT TOP (1) id FROM t ORDER BY twice DESC => 2
         SELECT doubled FROM v WHERE doubled > 6 AND id = 2 => 8
         SELECT twice, COUNT(*) FROM t GROUP BY twice HAVING twice = 6 => 6, 1
         SELECT SUM(known) FROM t => 7
         UPDATE t SET a = twice OUTPUT deleted.twice, inserted.twice WHERE id = 1 => 6, 12
         UPDATE v SET a = doubled OUTPUT inserted.doubled WHERE id = 1 => 24
         INSERT t OUTPUT inserted.known VALUES (4, 9) => 9
         DELETE t OUTPUT deleted.twice WHERE id = 4 => 18
         MERGE t USING (VALUES (2)) AS v (id) ON v.id = t.id WHEN MATCHED THEN UPDATE SET a = twice
             OUTPUT inserted.twice, deleted.twice; => 16, 8
         DECLARE c CURSOR FOR SELECT twice FROM t WHERE id = 2; OPEN c; FETCH NEXT FROM c; DEALLOCATE c => 16
         SELECT twice INTO #copies FROM t WHERE id = 2; SELECT * FROM #copies => 16
         UPDATE t SET twice = 1 ;; INSERT t (id, twice) VALUES (9, 1) ;; UPDATE t SET twice += 1 => error 59000
         SELECT twice FROM t GROUP BY a => error 8120
         SELECT id FROM t ORDER BY twice, twice => error 59000
         SELECT is_persisted, COLUMNPROPERTY(object_id, name, 'IsComputed') FROM sys.computed_columns
             WHERE name = 'known' => Bit(false), 1
         == outer joins without a partner have null in them
         -- A side of an outer join without a row has NULL in all its columns ("FROM",
         -- docs/t-sql/queries/from-transact-sql.md).
         CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int, known AS ISNULL(a, 0)); INSERT t VALUES (1, NULL) => ok
         SELECT n.id, t.known FROM (VALUES (1), (2)) AS n (id) LEFT JOIN t ON t.id = n.id ORDER BY n.id => 1, 0
             | 2, NULL
         SELECT n.id, t.known FROM (VALUES (1), (2)) AS n (id) LEFT JOIN (SELECT id, known FROM t) AS t ON t.id = n.id
             ORDER BY n.id => 1, 0 | 2, NULL
         SELECT n.id, x.known FROM (VALUES (1), (2)) AS n (id)
             OUTER APPLY (SELECT known FROM t WHERE t.id = n.id) AS x ORDER BY n.id => 1, 0 | 2, NULL
         SELECT n.id FROM (VALUES (1), (2)) AS n (id) LEFT JOIN t ON t.id = n.id WHERE t.known IS NULL => 2
         -- So has an expression that reads no column.
         CREATE TABLE k (id int NOT NULL PRIMARY KEY, one AS 1, now AS GETDATE()); INSERT k VALUES (1) => ok
         SELECT n.id FROM (VALUES (1), (2)) AS n (id) LEFT JOIN k ON k.id = n.id WHERE k.one = 1 => 1
         SELECT n.id FROM (VALUES (1), (2)) AS n (id) LEFT JOIN k ON k.id = n.id WHERE k.one IS NULL => 2
         SELECT n.id FROM (VALUES (1), (2)) AS n (id) LEFT JOIN k ON k.id = n.id WHERE k.now IS NULL => 2
         SELECT k.one FROM (VALUES (1), (2)) AS n (id) LEFT JOIN k ON k.id = n.id ORDER BY n.id DESC => NULL | 1
         CREATE TABLE target (id int, v int); INSERT target (id) VALUES (1), (2) => ok
         UPDATE x SET v = k.one FROM target AS x LEFT JOIN k ON k.id = x.id => ok
         SELECT v FROM target ORDER BY id => 1 | NULL
         == triggers and table variables have them
         CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int, b AS 10 / a, more AS a + 1) => ok
         CREATE TABLE log (b int, more int) => ok
         CREATE TRIGGER tr ON t AFTER INSERT AS INSERT log SELECT b, more FROM inserted WHERE a <> 0 => ok
         INSERT t (id, a) VALUES (1, 5) => ok
         SELECT * FROM log => 2, 6
         DECLARE @v TABLE (a int, b AS 10 / a); INSERT @v VALUES (0), (5); SELECT b FROM @v WHERE a > 0 => 2
         DECLARE @v TABLE (a int, b AS 10 / a); INSERT @v VALUES (0); SELECT b FROM @v => error 8134
         == they are not kept for indexes and constraints
         -- "Computed columns used as CHECK, FOREIGN KEY, or NOT NULL constraints must be marked PERSISTED" (ms191250);
         -- 1764: docs/relational-databases/errors-events/database-engine-events-and-errors-1000-to-1999.md. No page
         -- says that 1750 follows here too.
         CREATE TABLE p (id int NOT NULL PRIMARY KEY, b AS id * 2) => ok
         CREATE TABLE t (a int, b AS a * 2, CONSTRAINT c CHECK (b > 1)) ;;
             CREATE TABLE t (a int, b AS a * 2, FOREIGN KEY (b) REFERENCES p (id)) ;;
             CREATE TABLE t (a int, b AS a * 2 PERSISTED) ;; CREATE TABLE t (a int, b AS a * 2, INDEX i (b)) ;;
             CREATE TABLE t (a int, b AS ISNULL(a, 0) PRIMARY KEY) ;; CREATE INDEX i ON p (id) INCLUDE (b) ;;
             ALTER TABLE p ADD UNIQUE (b) => error 59000
         DECLARE @v TABLE (a int, b AS a * 2 UNIQUE) => error 59000"#,
    );
}

/// "An expression that is nullable can be turned into a nonnullable one by specifying ISNULL with the check_expression
/// constant." Source: "CREATE TABLE" (MicrosoftDocs/sql-docs, docs/t-sql/statements/create-table-transact-sql.md).
#[test]
fn isnull_with_a_constant_is_never_null() {
    check(
        "CREATE TABLE t (a int, c AS ISNULL(a * 2, 0), d AS a * 2); ALTER TABLE t ADD f AS ISNULL(a, 3) => ok
         SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('t') AND is_nullable = 1 ORDER BY column_id
             => 'a' | 'd'",
    );
}
