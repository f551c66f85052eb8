//! INSERT, UPDATE, DELETE and SELECT INTO, and what OUTPUT says of them.

use crate::session::tests::harness::{check, session};

#[test]
fn a_target_is_changed_directly_and_through_others() {
    check(
        r#"CREATE TABLE items (id int NOT NULL IDENTITY(1, 1) PRIMARY KEY, name varchar(10) NOT NULL
             CONSTRAINT items_name UNIQUE,
                 price int NOT NULL DEFAULT 15, total AS price * 2,
                 CONSTRAINT items_price CHECK (price > 0));
             INSERT items (name) VALUES ('a'), ('b'), ('c') => ok
         == defaults identities and computed columns are filled in
         SELECT id, price, total FROM items WHERE id = 3 => 3, 15, 30
         INSERT items (name) VALUES ('d'); SELECT CAST(SCOPE_IDENTITY() AS int), CAST(@@IDENTITY AS int) => 4, 4
         INSERT items (id, name) VALUES (9, 'x') => error 544
         SET IDENTITY_INSERT items ON; INSERT items (id, name) VALUES (9, 'x'); SET IDENTITY_INSERT items OFF;
             INSERT items (name) VALUES ('y'); SELECT MAX(id) FROM items => 10
         == a row that matches twice changes once
         UPDATE i SET price += 1 FROM items i JOIN (VALUES (1), (1)) AS v (id) ON v.id = i.id => tokens DONE(count=1)
         SELECT price FROM items WHERE id = 1 => 16
         == a failed statement leaves nothing behind
         INSERT items (name) VALUES ('x'), ('y'), ('a') => error 2627
         UPDATE items SET price = id - 2 => error 547
         INSERT items (name) VALUES (NULL) => error 515
         INSERT items (name) VALUES ('much too long a name') => error 2628
         SELECT COUNT(*), SUM(price) FROM items => 3, 45
         == output shows the old and the new row
         UPDATE items SET name = name + 'x' OUTPUT deleted.name, inserted.name WHERE id = 2 => 'b', 'bx'
         DECLARE @o TABLE (id int, what char(3)); DELETE items OUTPUT deleted.id, 'del' INTO @o WHERE id > 1; SELECT *
             FROM @o ORDER BY id => 2, 'del' | 3, 'del'
         INSERT items (name) OUTPUT inserted.id, inserted.name VALUES ('p'), ('q') => 4, 'p' | 5, 'q'
         == changes go through ctes and joins
         WITH newest AS (SELECT TOP (2) id, price FROM items ORDER BY id DESC) UPDATE newest SET price = 7 => ok
         SELECT id FROM items WHERE price = 7 ORDER BY id => 2 | 3
         DECLARE @l TABLE (id int PRIMARY KEY, p int); INSERT @l VALUES (1, 10), (3, 30), (9, 90);
             UPDATE i SET price = l.p FROM @l AS l INNER LOOP JOIN items AS i ON i.id = l.id => ok
         SELECT id FROM items WHERE price IN (10, 30) ORDER BY id => 1 | 3
         WITH numbered AS (SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS n FROM items) DELETE numbered WHERE n > 1 => ok
         SELECT id FROM items => 1
         DELETE FROM items FROM (VALUES (1), (2)) AS v (id) WHERE v.id = items.id => ok
         SELECT COUNT(*) FROM items => 0
         == a target may have an alias in from
         -- Source: "UPDATE" and "DELETE", FROM (MicrosoftDocs/sql-docs, docs/t-sql/queries/update-transact-sql.md).
         CREATE TABLE other (id int NOT NULL); INSERT other VALUES (1), (3);
             EXEC('CREATE VIEW cheap AS SELECT id, name FROM items WHERE price < 90') => ok
         UPDATE items SET name = 'x' FROM items AS i WHERE i.id = 1 => ok
         UPDATE dbo.items SET name = 'y' FROM other AS o JOIN items AS i ON i.id = o.id WHERE o.id = 3 => ok
         SELECT name FROM items ORDER BY id => 'x' | 'b' | 'y'
         UPDATE cheap SET name = i.name + 'c' FROM dbo.cheap AS i WHERE i.id = 2 => ok
         DELETE items FROM items AS i JOIN other AS o ON o.id = i.id WHERE o.id = 3 => ok
         SELECT name FROM items ORDER BY id => 'x' | 'bc'
         WITH c AS (SELECT id FROM items) DELETE c FROM c AS d WHERE d.id = 1 => ok
         SELECT name FROM items ORDER BY id => 'bc'
         DECLARE @t TABLE (a int); INSERT @t VALUES (1), (2); DELETE @t FROM @t AS t WHERE t.a = 1; SELECT a
             FROM @t => 2
         -- Without an alias it is the target, with one it is not.
         INSERT items (name) VALUES ('d'); UPDATE items SET name = 'z' FROM items
             JOIN items AS i ON i.id > items.id => ok
         SELECT name FROM items ORDER BY id => 'z' | 'd'
         UPDATE items SET name = 'q' FROM items AS a JOIN items AS b ON a.id = b.id => error 8154
         UPDATE items SET name = 'q' FROM (SELECT MAX(id) AS id FROM items) AS d WHERE d.id = items.id => ok
         SELECT name FROM items ORDER BY id => 'z' | 'q'"#,
    );
}

#[test]
fn what_a_change_reads_and_keeps() {
    check(
        r#"== a statement does not meet its own changes
         CREATE TABLE n (n int NOT NULL PRIMARY KEY); INSERT n VALUES (1), (2), (3) ;; UPDATE n SET n = n + 1 ;;
             INSERT n SELECT n + 10 FROM n => ok
         SELECT COUNT(*), MAX(n) FROM n => 6, 14
         == table variables survive a rollback
         DECLARE @t TABLE (a int); CREATE TABLE #t (a int); BEGIN TRAN; INSERT @t VALUES (1); INSERT #t VALUES (1);
             ROLLBACK;
             SELECT (SELECT COUNT(*) FROM @t), (SELECT COUNT(*) FROM #t) => 1, 0
         == a procedure fills a table
         CREATE PROCEDURE two AS SELECT 1, 'a' UNION ALL SELECT 2, 'b' => ok
         DECLARE @t TABLE (n int, c char(1)); INSERT @t EXEC two; IF (SELECT SUM(n)
             FROM @t) <> 3 THROW 50000, 'wrong', 1 => ok
         DECLARE @t TABLE (n int); INSERT @t EXEC two => error 213
         == output computes of large values what it is asked for
         CREATE TABLE t (id int NOT NULL PRIMARY KEY, payload varbinary(max) NULL); INSERT t
             VALUES (1, 0x0102), (2, NULL) => ok
         DECLARE @wanted bit = 1; UPDATE t SET id = id
             OUTPUT inserted.id, DATALENGTH(inserted.payload) AS bytes, CASE WHEN @wanted = 1 THEN inserted.payload
             END AS payload => 1, BigInt(2), Bytes([1, 2]) | 2, NULL, NULL
         DECLARE @wanted bit = 0; UPDATE t SET id = id
             OUTPUT inserted.id, DATALENGTH(inserted.payload) AS bytes, CASE WHEN @wanted = 1 THEN inserted.payload
             END AS payload => 1, BigInt(2), NULL | 2, NULL, NULL
         == a target is not taken for a table of another schema
         -- A table in FROM is another one than the target if it stands in another schema ("UPDATE", FROM,
         -- docs/t-sql/queries/update-transact-sql.md, speaks of the same object only).
         CREATE SCHEMA other => ok
         CREATE TABLE t (a int); CREATE TABLE other.t (a int); INSERT t VALUES (1); INSERT other.t VALUES (2) => ok
         UPDATE t SET a = 7 FROM other.t ;; DELETE t FROM other.t => error 59000
         UPDATE t SET a = 3 FROM dbo.t; UPDATE other.t SET a = 4 FROM other.t; UPDATE t SET a += 5
             FROM other.t AS t => ok
         SELECT a FROM dbo.t; SELECT a FROM other.t => 3 | 9"#,
    );
}

#[test]
fn a_table_variable_is_as_it_is_under_every_isolation_level() {
    let (_e, mut s) = session();
    s.check(
        "CREATE TABLE t (n int NOT NULL) => ok
         ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON => ok
         ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON => ok",
    );
    for level in ["READ UNCOMMITTED", "READ COMMITTED", "SNAPSHOT", "SERIALIZABLE"] {
        s.check(&format!(
            "SET TRANSACTION ISOLATION LEVEL {level};
                 DECLARE @v TABLE (n int NOT NULL PRIMARY KEY, INDEX by_n UNIQUE (n));
                 BEGIN TRANSACTION;
                 DECLARE @n int = (SELECT COUNT(*) FROM t);
                 INSERT @v VALUES (1), (2), (3);
                 UPDATE @v SET n = n + 1 OUTPUT inserted.n;
                 DELETE @v WHERE n = 2;
                 ROLLBACK;
                 IF EXISTS (SELECT 1 FROM @v WHERE n = 4) SELECT n FROM @v ORDER BY n => 2 | 3 | 4 | 3 | 4"
        ));
    }
}

/// Source: "INTO Clause" (MicrosoftDocs/sql-docs, docs/t-sql/queries/select-into-clause-transact-sql.md).
#[test]
fn the_new_table_is_made_of_the_query() {
    check(
        "CREATE TABLE jobs (id int IDENTITY(10, 10) PRIMARY KEY, state tinyint NOT NULL, note varchar(20) NULL, v
             rowversion);
             INSERT jobs (state, note) VALUES (0, 'a'), (1, 'b'), (0, NULL) => ok
         == a temporary table takes names types and the identity
         SELECT id, note, state + 1 AS next INTO #ready FROM jobs WHERE state = 0;
             SELECT @@ROWCOUNT;
             INSERT #ready (note, next) VALUES ('new', 7);
             SELECT id, note, next FROM #ready ORDER BY id => 2 | 10, 'a', 1 | 30, NULL, 1 | 40, 'new', 7
         SELECT 1 AS a INTO #ready => error 2714
         == a join or a union gives no identity
         SELECT a.id INTO #joined FROM jobs AS a JOIN jobs AS b ON b.id = a.id; INSERT #joined (id) VALUES (1) => ok
         SELECT id INTO #both FROM jobs UNION ALL SELECT id FROM jobs; INSERT #both VALUES (1) => ok
         SELECT (SELECT COUNT(*) FROM #joined), (SELECT COUNT(*) FROM #both) => 4, 7
         == an empty copy and what is refused
         SELECT TOP (0) * INTO #archive FROM jobs; INSERT #archive (state) VALUES (3) => ok
         SELECT id, state FROM #archive => 10, TinyInt(3)
         SELECT 1 INTO #nameless ;; SELECT 1 AS a, 2 AS A INTO #twice => error 59000
         SELECT * INTO #nowhere FROM missing => error 208
         SELECT * INTO archive FROM jobs => error 59000
         == the empty table stays when the rows cannot be read
         SELECT id / (id - 20) AS n INTO #broken FROM jobs => error 8134
         SELECT COUNT(*) FROM #broken => 0",
    );
}
