--- scenario READPAST skips the row that is locked
--- source docs/t-sql/queries/hints-transact-sql-table.md, READPAST
--- setup
CREATE TABLE T1 (c int NOT NULL); INSERT T1 VALUES (1), (2), (3), (4), (5);
--- a
BEGIN TRANSACTION; UPDATE T1 SET c = 8 WHERE c = 3;
--- b rows 1 / 2 / 4 / 5
SELECT * FROM T1 (READPAST);
--- a
COMMIT TRANSACTION;
--- b rows 1 / 2 / 4 / 5 / 8
SELECT * FROM T1 (READPAST) ORDER BY c;

--- scenario READPAST with UPDLOCK skips U locks too, a plain READPAST reads beside them
--- source docs/t-sql/queries/hints-transact-sql-table.md, READPAST
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0), (2, 0), (3, 0);
--- a rows 1
BEGIN TRANSACTION; SELECT TOP (1) id FROM t WITH (ROWLOCK, UPDLOCK, READPAST) ORDER BY id;
--- b rows 2
BEGIN TRANSACTION; SELECT TOP (1) id FROM t WITH (ROWLOCK, UPDLOCK, READPAST) ORDER BY id;
--- c rows 3
SELECT id FROM t WITH (ROWLOCK, UPDLOCK, READPAST);
--- c rows 1 / 2 / 3
SELECT id FROM t WITH (READPAST);

--- scenario two queue readers delete different rows
--- source docs/t-sql/queries/hints-transact-sql-table.md, READPAST
--- setup
CREATE TABLE q (id int NOT NULL PRIMARY KEY, payload varchar(10) NOT NULL); INSERT q VALUES (1, 'a'), (2, 'b'), (3, 'c');
--- a rows 1
BEGIN TRANSACTION; WITH c AS (SELECT TOP (1) id FROM q WITH (ROWLOCK, READPAST) ORDER BY id) DELETE c OUTPUT deleted.id;
--- b rows 2
BEGIN TRANSACTION; WITH c AS (SELECT TOP (1) id FROM q WITH (ROWLOCK, READPAST) ORDER BY id) DELETE c OUTPUT deleted.id;
--- a
ROLLBACK TRANSACTION;
--- b rows 1
WITH c AS (SELECT TOP (1) id FROM q WITH (ROWLOCK, READPAST) ORDER BY id) DELETE c OUTPUT deleted.id;

--- scenario READPAST waits for a table lock
--- source docs/t-sql/queries/hints-transact-sql-table.md, READPAST
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY); INSERT t VALUES (1);
--- a rows 1
BEGIN TRANSACTION; SELECT id FROM t WITH (TABLOCKX);
--- b blocks
SELECT id FROM t WITH (READPAST);
--- a
COMMIT TRANSACTION;
--- b resumes rows 1

--- scenario READPAST needs READ COMMITTED or REPEATABLE READ
--- source docs/t-sql/queries/hints-transact-sql-table.md, READPAST
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY); INSERT t VALUES (1);
--- a error 650
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT id FROM t WITH (READPAST);
--- a error 650
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; SELECT id FROM t WITH (READPAST);
--- a error 650
SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT id FROM t WITH (READPAST, HOLDLOCK);
--- a error 650
SELECT id FROM t WITH (READPAST, UPDLOCK, SERIALIZABLE);
--- a rows 1
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT id FROM t WITH (READPAST);

--- scenario READPAST skips uncommitted inserts and deletes
--- source docs/t-sql/queries/hints-transact-sql-table.md, READPAST
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY); INSERT t VALUES (1), (2);
--- a
BEGIN TRANSACTION; INSERT t VALUES (3); DELETE t WHERE id = 1;
--- b rows 2
SELECT id FROM t WITH (READPAST);
--- a
ROLLBACK TRANSACTION;
--- b rows 1 / 2
SELECT id FROM t WITH (READPAST);

--- scenario an update with READPAST changes the rows that are free
--- source docs/t-sql/queries/hints-transact-sql-table.md, READPAST
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0), (2, 0), (3, 0);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 5 WHERE id = 2;
--- b rows 1 / 3
UPDATE t WITH (READPAST) SET n = 1 OUTPUT inserted.id;
--- a
COMMIT TRANSACTION;
--- b rows 1,1 / 2,5 / 3,1
SELECT id, n FROM t;

--- scenario a change with READPAST may block on a secondary index
--- source docs/t-sql/queries/hints-transact-sql-table.md, READPAST
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, k int NOT NULL UNIQUE); INSERT t VALUES (1, 10), (2, 20);
--- a
BEGIN TRANSACTION; INSERT t VALUES (3, 30);
--- b blocks
UPDATE t WITH (READPAST) SET k = 30 WHERE id = 1;
--- a
ROLLBACK TRANSACTION;
--- b resumes
