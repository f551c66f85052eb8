--- scenario first come, first served: a reader does not overtake a waiting writer
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Lock compatibility
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0);
--- a rows 0
BEGIN TRANSACTION; SELECT n FROM t WITH (REPEATABLEREAD) WHERE id = 1;
--- b blocks
UPDATE t SET n = 5 WHERE id = 1;
--- c blocks
SELECT n FROM t WITH (REPEATABLEREAD) WHERE id = 1;
--- a
COMMIT TRANSACTION;
--- b resumes
--- c resumes rows 5

--- scenario a holder that wants more goes before those who wait
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Update locks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0);
--- a rows 0
BEGIN TRANSACTION; SELECT n FROM t WITH (UPDLOCK) WHERE id = 1;
--- b blocks
UPDATE t SET n = n + 10 WHERE id = 1;
--- a
UPDATE t SET n = n + 1 WHERE id = 1; COMMIT TRANSACTION;
--- b resumes
--- b rows 11
SELECT n FROM t;

--- scenario U waits for readers only when it becomes X
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Update locks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0);
--- a rows 0
BEGIN TRANSACTION; SELECT n FROM t WITH (REPEATABLEREAD) WHERE id = 1;
--- b rows 0
BEGIN TRANSACTION; SELECT n FROM t WITH (UPDLOCK) WHERE id = 1;
--- b blocks
UPDATE t SET n = 1 WHERE id = 1;
--- c rows X,CONVERT
SELECT request_mode, request_status FROM sys.dm_tran_locks WHERE request_status = N'CONVERT';
--- a
COMMIT TRANSACTION;
--- b resumes

--- scenario a savepoint's rollback keeps the locks
--- source docs/t-sql/language-elements/save-transaction-transact-sql.md, Remarks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0);
--- a
BEGIN TRANSACTION; SAVE TRANSACTION s; UPDATE t SET n = 1 WHERE id = 1; ROLLBACK TRANSACTION s;
--- a rows 0,1
SELECT n, @@TRANCOUNT FROM t;
--- b blocks
SELECT n FROM t WHERE id = 1;
--- a
COMMIT TRANSACTION;
--- b resumes rows 0

--- scenario a nested commit releases nothing
--- source docs/t-sql/language-elements/commit-transaction-transact-sql.md, Remarks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0);
--- a rows 1
BEGIN TRANSACTION; BEGIN TRANSACTION; UPDATE t SET n = 1; COMMIT TRANSACTION; SELECT @@TRANCOUNT;
--- b blocks
SELECT n FROM t;
--- a rows 0
ROLLBACK TRANSACTION; SELECT @@TRANCOUNT;
--- b resumes rows 0

--- scenario a lost connection rolls back and frees its locks
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Errors during transaction processing
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 1;
--- b blocks
SELECT n FROM t;
--- a disconnect
--- b resumes rows 0

--- scenario an insert waits for the fate of its duplicate
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Exclusive locks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY);
--- a
BEGIN TRANSACTION; INSERT t VALUES (1);
--- b blocks
INSERT t VALUES (1);
--- a
COMMIT TRANSACTION;
--- b resumes error 2627
--- a
BEGIN TRANSACTION; INSERT t VALUES (2);
--- b blocks
INSERT t VALUES (2);
--- a
ROLLBACK TRANSACTION;
--- b resumes

--- scenario XACT_ABORT rolls the transaction back when a lock request times out
--- source docs/t-sql/statements/set-xact-abort-transact-sql.md, Remarks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0), (2, 0);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 1 WHERE id = 1;
--- b error 1222
SET XACT_ABORT ON; SET LOCK_TIMEOUT 0; BEGIN TRANSACTION; UPDATE t SET n = 2 WHERE id = 2; UPDATE t SET n = 2 WHERE id = 1;
--- b rows 0
SELECT @@TRANCOUNT;
--- a rows 2,0
SELECT id, n FROM t WHERE id = 2;

--- scenario LOCK_TIMEOUT ends the statement and not the transaction
--- source docs/t-sql/statements/set-lock-timeout-transact-sql.md, Remarks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0), (2, 0);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 1 WHERE id = 1;
--- b rows -1
SELECT @@LOCK_TIMEOUT;
--- b rows 0
SET LOCK_TIMEOUT 0; SELECT @@LOCK_TIMEOUT;
--- b
BEGIN TRANSACTION; UPDATE t SET n = 2 WHERE id = 2;
--- b error 1222
UPDATE t SET n = 3;
--- b rows 1,2
SELECT @@TRANCOUNT, n FROM t WHERE id = 2;
--- b error 1222
SET LOCK_TIMEOUT 30; SELECT n FROM t WHERE id = 1;
--- b
COMMIT TRANSACTION;
--- b blocks
SET LOCK_TIMEOUT -1; SELECT n FROM t WHERE id = 1;
--- a
COMMIT TRANSACTION;
--- b resumes rows 1
