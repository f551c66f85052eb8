--- scenario READ COMMITTED does not read what is not committed
--- source docs/t-sql/statements/set-transaction-isolation-level-transact-sql.md, READ COMMITTED
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10), (2, 20);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 11 WHERE id = 1;
--- b blocks
SELECT n FROM t WHERE id = 1;
--- c rows 20
SELECT n FROM t WHERE id = 2;
--- a
ROLLBACK TRANSACTION;
--- b resumes rows 10

--- scenario READ UNCOMMITTED reads what is not committed
--- source docs/t-sql/statements/set-transaction-isolation-level-transact-sql.md, READ UNCOMMITTED
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10), (2, 20);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 11 WHERE id = 1; DELETE t WHERE id = 2; INSERT t VALUES (3, 30);
--- b rows 1,11 / 3,30
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; SELECT id, n FROM t ORDER BY id;
--- a
ROLLBACK TRANSACTION;
--- b rows 1,10 / 2,20
SELECT id, n FROM t ORDER BY id;

--- scenario READ UNCOMMITTED still waits to change a row
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Isolation levels in the Database Engine
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 11 WHERE id = 1;
--- b blocks
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; UPDATE t SET n = n + 5 WHERE id = 1;
--- a
COMMIT TRANSACTION;
--- b resumes
--- b rows 16
SELECT n FROM t;

--- scenario READ COMMITTED reads are not repeatable
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Concurrency effects
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10);
--- a rows 10
BEGIN TRANSACTION; SELECT n FROM t WHERE id = 1;
--- b
UPDATE t SET n = 11 WHERE id = 1;
--- a rows 11
SELECT n FROM t WHERE id = 1;

--- scenario REPEATABLE READ keeps what was read, and lets phantoms in
--- source docs/t-sql/statements/set-transaction-isolation-level-transact-sql.md, REPEATABLE READ
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10), (2, 20);
--- a rows 1 / 2
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN TRANSACTION; SELECT id FROM t WHERE id < 10;
--- b
INSERT t VALUES (3, 30);
--- a rows 1 / 2 / 3
SELECT id FROM t WHERE id < 10;
--- b rows 10
SELECT n FROM t WHERE id = 1;
--- b blocks
UPDATE t SET n = 11 WHERE id = 1;
--- a
COMMIT TRANSACTION;
--- b resumes

--- scenario SERIALIZABLE lets no phantom in
--- source docs/t-sql/statements/set-transaction-isolation-level-transact-sql.md, SERIALIZABLE
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (10, 1), (20, 2), (30, 3);
--- a rows 10 / 20
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRANSACTION; SELECT id FROM t WHERE id BETWEEN 5 AND 25;
--- b blocks
INSERT t VALUES (15, 0);
--- a rows 10 / 20
SELECT id FROM t WHERE id BETWEEN 5 AND 25;
--- a
COMMIT TRANSACTION;
--- b resumes

--- scenario a lost update: both read before either writes
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Concurrency effects
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10);
--- a rows 10
BEGIN TRANSACTION; SELECT n FROM t WHERE id = 1;
--- b rows 10
BEGIN TRANSACTION; SELECT n FROM t WHERE id = 1;
--- a
UPDATE t SET n = 10 + 1 WHERE id = 1; COMMIT TRANSACTION;
--- b
UPDATE t SET n = 10 + 5 WHERE id = 1; COMMIT TRANSACTION;
--- b rows 15
SELECT n FROM t;

--- scenario UPDLOCK prevents the lost update
--- source docs/t-sql/queries/hints-transact-sql-table.md, UPDLOCK
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10);
--- a rows 10
BEGIN TRANSACTION; SELECT n FROM t WITH (UPDLOCK) WHERE id = 1;
--- c rows 10
SELECT n FROM t WHERE id = 1;
--- b blocks
BEGIN TRANSACTION; SELECT n FROM t WITH (UPDLOCK) WHERE id = 1;
--- a
UPDATE t SET n = n + 1 WHERE id = 1; COMMIT TRANSACTION;
--- b resumes rows 11

--- scenario an update reads rows with U and keeps only those that qualify
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Modifying data
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10), (2, 20), (3, 30);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 21 WHERE n = 20;
--- b rows 10
SELECT n FROM t WITH (UPDLOCK) WHERE id = 1;
--- b rows 30
SELECT n FROM t WITH (UPDLOCK) WHERE id = 3;
--- b blocks
SELECT n FROM t WITH (UPDLOCK) WHERE id = 2;
--- a
COMMIT TRANSACTION;
--- b resumes rows 21

--- scenario without a fitting index a reader meets every locked row
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Shared locks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, k int NOT NULL, n int NOT NULL);
INSERT t VALUES (1, 1, 10), (2, 2, 20);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 21 WHERE id = 2;
--- b blocks
SELECT n FROM t WHERE k = 1;
--- a
COMMIT TRANSACTION;
--- b resumes rows 10
--- c
CREATE INDEX by_k ON t (k);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 22 WHERE id = 2;
--- b rows 10
SELECT n FROM t WITH (FORCESEEK) WHERE k = 1;

--- scenario a covering index is read beside a locked row
--- source docs/t-sql/queries/hints-transact-sql-table.md, Remarks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, k int NOT NULL, n int NOT NULL, INDEX by_k (k));
INSERT t VALUES (1, 1, 10), (2, 2, 20);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 21 WHERE id = 2;
--- b rows 2
SELECT id FROM t WITH (INDEX (by_k)) WHERE k = 2;
--- b blocks
SELECT n FROM t WITH (INDEX (by_k)) WHERE k = 2;
--- a
COMMIT TRANSACTION;
--- b resumes rows 21

--- scenario NOLOCK reads past every row lock but not past Sch-M
--- source docs/t-sql/queries/hints-transact-sql-table.md, READUNCOMMITTED
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 11;
--- b rows 11
SELECT n FROM t WITH (NOLOCK);
--- a
ROLLBACK TRANSACTION; BEGIN TRANSACTION; ALTER TABLE t ADD x int NULL;
--- b blocks
SELECT n FROM t WITH (NOLOCK);
--- a
COMMIT TRANSACTION;
--- b resumes rows 10

--- scenario the level of a statement is that of its hint
--- source docs/t-sql/queries/hints-transact-sql-table.md, REPEATABLEREAD
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10);
--- a rows 10
BEGIN TRANSACTION; SELECT n FROM t WITH (REPEATABLEREAD) WHERE id = 1;
--- b blocks
UPDATE t SET n = 11 WHERE id = 1;
--- a
COMMIT TRANSACTION;
--- b resumes

--- scenario an isolation level set in a procedure ends with it
--- source docs/t-sql/statements/set-transaction-isolation-level-transact-sql.md, Remarks
--- setup
CREATE PROCEDURE p AS SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
--- a rows 2
EXEC p; SELECT CAST(transaction_isolation_level AS int) FROM sys.dm_exec_sessions WHERE session_id = @@SPID;
