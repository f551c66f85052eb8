//! Which indexes are used, seen from outside: by what a hint refuses, and by what a scan would have waited for.

use crate::session::tests::harness::check;

#[test]
fn indexes_are_used_and_forced() {
    check(
        r#"CREATE TABLE t (id int NOT NULL PRIMARY KEY, q int NOT NULL, state tinyint NOT NULL, k varchar(10) NULL);
             CREATE INDEX ready ON t (q, id) WHERE state = 0;
             CREATE UNIQUE INDEX keyed ON t (q, k) WHERE k IS NOT NULL AND state < 3;
             INSERT t VALUES (1, 1, 0, 'a'), (2, 1, 1, NULL), (3, 2, 0, 'b') => ok
         == a filtered index serves literals only
         SELECT id FROM t WITH (INDEX (ready)) WHERE q = 1 AND state = 0 => 1
         DECLARE @s tinyint = 0; SELECT id FROM t WITH (INDEX (ready)) WHERE q = 1 AND state = @s => error 8622
         SELECT id FROM t WITH (INDEX (ready)) WHERE q = 1 => error 8622
         SELECT id FROM t WITH (INDEX (ready)) WHERE q = 1 AND state IN (0, 1) => error 8622
         DECLARE @k varchar(10) = 'b'; SELECT id FROM t WITH (INDEX (keyed)) WHERE q = 2 AND k = @k AND state < 3 => 3
         SELECT id FROM t WITH (INDEX (keyed)) WHERE k IS NOT NULL AND state IN (0, 2) ORDER BY id => 1 | 3
         SELECT id FROM t WITH (INDEX (none)) => error 308
         == forceseek wants a seek
         SELECT id FROM t WITH (FORCESEEK) WHERE state = 0 AND k = 'a' => error 8622
         SELECT q FROM t WITH (FORCESEEK) WHERE id = 3 => 2
         SELECT q FROM t WITH (FORCESEEK (ready (q))) WHERE q = 2 AND state = 0 => 2
         SELECT q FROM t WITH (FORCESEEK (ready (q, id))) WHERE q = 2 AND state = 0 => error 8622
         SELECT q FROM t WITH (FORCESEEK, FORCESCAN) WHERE q = 2 AND state = 0 => error 59000
         SELECT q FROM t WITH (FORCESEEK (ready (q)), INDEX (ready)) WHERE q = 2 AND state = 0 => error 59000
         SELECT q FROM t WITH (FORCESEEK, FORCESEEK) WHERE q = 2 AND state = 0 => error 59000
         == forceseek takes its seek from a join
         -- The seek may be by a column of a table that is joined. Source: "Table hints", "FORCESEEK"
         -- (MicrosoftDocs/sql-docs, docs/t-sql/queries/hints-transact-sql-table.md), whose example has it on the inner
         -- side of a join.
         CREATE TABLE l (id int NOT NULL); INSERT l VALUES (1), (3), (9) => ok
         SELECT l.id FROM t WITH (FORCESEEK) JOIN l ON t.id = l.id => 1 | 3
         SELECT l.id FROM l JOIN t WITH (FORCESEEK) ON t.id = l.id => 1 | 3
         SELECT l.id FROM t WITH (FORCESEEK (1 (id))), l WHERE t.id = l.id => 1 | 3
         SELECT l.id FROM t WITH (FORCESEEK) JOIN (t AS u WITH (FORCESEEK) JOIN l ON u.id = l.id) ON t.id = u.id => 1
             | 3
         SELECT l.id FROM (t WITH (FORCESEEK) LEFT JOIN t AS u ON u.id = t.id) JOIN l ON t.id = l.id => 1 | 3
         SELECT l.id FROM t WITH (FORCESEEK) JOIN l ON t.id > l.id + t.q => error 8622
         SELECT l.id FROM t WITH (FORCESEEK) INNER LOOP JOIN l ON t.id = l.id => error 8622
         == hints of a procedure are tried at its execution
         -- A procedure's statements are optimized when it is executed for the first time, not when it is created.
         -- Source: "Deferred Name Resolution and Compilation" (SQL Server 2008 Books Online, ms190686).
         CREATE TABLE seen (id int) => ok
         CREATE PROCEDURE p AS INSERT seen VALUES (1); SELECT id FROM t WITH (FORCESEEK) WHERE state = 0 => ok
         EXEC p => error 8622
         -- It fails before its first statement.
         SELECT id FROM seen => none
         BEGIN TRY EXEC p END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH => 8622
         == a seek does not touch other rows
         BEGIN TRAN; UPDATE t SET state = 2 WHERE id = 3 => ok
         2: SET LOCK_TIMEOUT 0 => ok
         -- By key, by key range, by a list of keys, by joining, and TOP in index order, also of the outer side of a loop
         -- join: none of them comes near row 3.
         2: SELECT id FROM t WHERE id = 1 ;; SELECT id FROM t WHERE id < 3 ;; SELECT id FROM t WHERE id IN (1, 2) ;;
             SELECT t.id FROM (VALUES (1)) AS v (id) JOIN t ON t.id = v.id ;; SELECT TOP (1) id FROM t ORDER BY id ;;
             SELECT TOP (1) t.id FROM t LEFT LOOP JOIN t AS u ON u.id = t.id ORDER BY t.id ;;
             SELECT TOP (1) id FROM t WHERE q = 1 AND state = 0 ORDER BY id DESC ;;
             SELECT 1 WHERE EXISTS (SELECT 1 FROM t WHERE id = 2) ;; UPDATE t SET k = 'z' WHERE id = 2 ;;
             DELETE t WHERE id = 2 ;; DECLARE @big bigint = 1; SELECT id FROM t WHERE id = @big => ok
         2: SELECT id FROM t WHERE k = 'a' => 1 | error 1222
         == one row of the outer side is in order, but not what is joined with it
         SELECT v.n FROM t LEFT LOOP JOIN (VALUES (1), (2)) AS v (n) ON v.n > 0 WHERE t.id = 1 ORDER BY t.k, v.n DESC
             => 2 | 1
         == types that are not the columns still find its rows
         DECLARE @v bigint = 5000000000; SELECT id FROM t WHERE id = @v => none
         DECLARE @v decimal(9, 2) = 2.5; SELECT id FROM t WHERE id > @v => 3
         DECLARE @v decimal(9, 2) = 2.5; SELECT id FROM t WHERE id = @v => none
         SELECT id FROM t WHERE id = '2' => 2
         SELECT id FROM t WHERE q = 1 AND k = N'A' AND state < 3 AND k IS NOT NULL => 1
         == a joined target takes index and forceseek in from only
         -- "Table hints are specified in the FROM clause of the DML statement": the list for the target's own WITH has
         -- no INDEX and no FORCESEEK ("Table hints", MicrosoftDocs/sql-docs,
         -- docs/t-sql/queries/hints-transact-sql-table.md).
         CREATE TYPE list AS TABLE (id int NOT NULL PRIMARY KEY) => ok
         DECLARE @l list; INSERT @l VALUES (1), (3), (9);
             UPDATE j SET k = 'x' OUTPUT inserted.id FROM @l AS l INNER LOOP JOIN t AS j
             WITH (ROWLOCK, FORCESEEK, INDEX (1)) ON j.id = l.id WHERE j.q = 2
             OPTION (MAXDOP 1, KEEPFIXED PLAN) => 3
         DECLARE @l list; INSERT @l VALUES (1), (3), (9);
             DELETE j OUTPUT deleted.id FROM @l AS l INNER LOOP JOIN t AS j
             WITH (ROWLOCK, FORCESEEK, INDEX (1)) ON j.id = l.id WHERE j.q = 1
             OPTION (MAXDOP 1, KEEPFIXED PLAN) => 1
         UPDATE t WITH (ROWLOCK, INDEX (ready)) SET k = 'y' WHERE q = 1 AND state = 0 => error 1069
         DELETE t WITH (ROWLOCK, FORCESEEK) WHERE id = 1 => error 10724
         == a target is not sought by named columns
         CREATE TYPE list AS TABLE (id int NOT NULL PRIMARY KEY) => ok
         DECLARE @l list; INSERT @l VALUES (1); UPDATE j SET k = 'x' FROM @l AS l JOIN t AS j
             WITH (ROWLOCK, FORCESEEK (1 (id))) ON j.id = l.id => ok
         DECLARE @l list; INSERT @l VALUES (1); DELETE j FROM @l AS l JOIN t AS j
             WITH (ROWLOCK, FORCESEEK (1 (id))) ON j.id = l.id => ok
         -- Nor through a CTE. What is only read may be.
         DELETE t; INSERT t VALUES (1, 1, 0, 'a'), (2, 1, 1, NULL), (3, 2, 0, 'b') => ok
         WITH c AS (SELECT k FROM t WITH (FORCESEEK (ready (q))) WHERE q = 1 AND state = 0) UPDATE c
             SET k = 'x' => error 10724
         DELETE a FROM t AS a JOIN t AS b WITH (FORCESEEK (ready (q))) ON b.q = 2 AND b.state = 0
             WHERE a.id = b.id => ok"#,
    );
}

#[test]
fn what_is_sought() {
    check(
        "== extremes and alternatives are sought
         -- What is not sought cannot be told from the result, but from a locked row that stands in the way of a scan.
         CREATE TABLE t (id int PRIMARY KEY, due int NULL, INDEX by_due (due));
             INSERT t VALUES (1, NULL), (2, 20), (3, 30), (4, 40), (5, 50);
             BEGIN TRAN; UPDATE t SET due = 31 WHERE id = 3 => ok
         2: SET LOCK_TIMEOUT 0 => ok
         2: SELECT MIN(id) FROM t => 1
         2: SELECT MAX(id) FROM t => 5
         2: SELECT MIN(due) FROM t => 20
         2: SELECT MAX(due) FROM t => 50
         2: SELECT MIN(id) FROM t WHERE id > 3 => 4
         2: SELECT COUNT(*) FROM t WHERE id = 1 OR id = 4 OR id IN (2, 5) => 4
         2: SELECT MAX(id) FROM t WHERE id < 0 => NULL
         2: SELECT MAX(id) FROM t WHERE id < 4 => error 1222
         2: SELECT MAX(id) FROM t WITH (READPAST) WHERE id < 4 => 2
         == a target in from is sought by named columns
         -- Source: Microsoft's durabletask-mssql (Scripts/logic.sql), which deletes so in three procedures.
         CREATE TABLE ev (hub varchar(9) NOT NULL, id int NOT NULL, n int, CONSTRAINT pk_ev PRIMARY KEY (hub, id));
             INSERT ev VALUES ('a', 1, 0), ('a', 2, 0), ('b', 1, 0) => ok
         DECLARE @d TABLE (id int NOT NULL); DECLARE @h varchar(9) = 'a'; INSERT @d VALUES (1), (5);
             UPDATE e SET n = 5 OUTPUT inserted.hub FROM ev e WITH (FORCESEEK(pk_ev(hub, id))) INNER
             JOIN @d d ON d.id = e.id AND e.hub = @h => 'a'
         DECLARE @d TABLE (id int NOT NULL); DECLARE @h varchar(9) = 'a'; INSERT @d VALUES (1), (5);
             DELETE e OUTPUT deleted.hub, deleted.id, deleted.n FROM ev e WITH (FORCESEEK(pk_ev(hub, id))) INNER
             JOIN @d d ON d.id = e.id AND e.hub = @h => 'a', 1, 5
         DELETE e FROM ev e WITH (FORCESEEK(pk_ev(hub))) WHERE id = 1 => error 8622
         DELETE ev WITH (FORCESEEK(pk_ev(hub))) WHERE hub = 'a' => error 10724",
    );
}
