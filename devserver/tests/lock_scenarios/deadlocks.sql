--- scenario two that wait for each other's row
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Deadlocks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0), (2, 0);
--- a
SET DEADLOCK_PRIORITY HIGH; BEGIN TRANSACTION; UPDATE t SET n = 1 WHERE id = 1;
--- b
BEGIN TRANSACTION; UPDATE t SET n = 2 WHERE id = 2;
--- b blocks
UPDATE t SET n = 2 WHERE id = 1;
--- a
UPDATE t SET n = 1 WHERE id = 2;
--- b resumes error 1205
--- b rows 0,0
SELECT @@TRANCOUNT, XACT_STATE();
--- a rows 1,1 / 2,1
COMMIT TRANSACTION; SELECT id, n FROM t;

--- scenario the session with the lower priority is the victim
--- source docs/t-sql/statements/set-deadlock-priority-transact-sql.md, Arguments
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0), (2, 0), (3, 0), (4, 0);
--- a
SET DEADLOCK_PRIORITY -6; BEGIN TRANSACTION; UPDATE t SET n = 1 WHERE id IN (1, 3, 4);
--- b
SET DEADLOCK_PRIORITY LOW; BEGIN TRANSACTION; UPDATE t SET n = 2 WHERE id = 2;
--- a blocks
UPDATE t SET n = 1 WHERE id = 2;
--- b
UPDATE t SET n = 2 WHERE id = 1;
--- a resumes error 1205

--- scenario between equals the one with less to undo is the victim
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Deadlock detection
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 1 WHERE id <> 2;
--- b
BEGIN TRANSACTION; UPDATE t SET n = 2 WHERE id = 2;
--- b blocks
UPDATE t SET n = 2 WHERE id = 1;
--- a
UPDATE t SET n = 1 WHERE id = 2;
--- b resumes error 1205

--- scenario two that have read a row and then want to change it
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Update locks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0);
--- a rows 0
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET DEADLOCK_PRIORITY HIGH; BEGIN TRANSACTION; SELECT n FROM t WHERE id = 1;
--- b rows 0
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN TRANSACTION; SELECT n FROM t WHERE id = 1;
--- a blocks
UPDATE t SET n = n + 1 WHERE id = 1;
--- b error 1205
UPDATE t SET n = n + 1 WHERE id = 1;
--- a resumes
--- a rows 1
COMMIT TRANSACTION; SELECT n FROM t;

--- scenario a victim can catch 1205, and has to roll back
--- source docs/t-sql/functions/xact-state-transact-sql.md, Remarks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0), (2, 0);
--- a
SET DEADLOCK_PRIORITY HIGH; BEGIN TRANSACTION; UPDATE t SET n = 1 WHERE id = 1;
--- b
BEGIN TRANSACTION; UPDATE t SET n = 2 WHERE id = 2;
--- b blocks
BEGIN TRY UPDATE t SET n = 2 WHERE id = 1; END TRY BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE(), @@TRANCOUNT; ROLLBACK TRANSACTION; END CATCH;
--- a
UPDATE t SET n = 1 WHERE id = 2;
--- b resumes rows 1205,-1,1

--- scenario three in a circle
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Deadlock detection
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0), (2, 0), (3, 0);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 1 WHERE id = 1;
--- b
SET DEADLOCK_PRIORITY LOW; BEGIN TRANSACTION; UPDATE t SET n = 2 WHERE id = 2;
--- c
BEGIN TRANSACTION; UPDATE t SET n = 3 WHERE id = 3;
--- a blocks
UPDATE t SET n = 1 WHERE id = 2;
--- b blocks
UPDATE t SET n = 2 WHERE id = 3;
--- c blocks
UPDATE t SET n = 3 WHERE id = 1;
--- b resumes error 1205
--- a resumes
--- a
COMMIT TRANSACTION;
--- c resumes

--- scenario a priority that is none
--- source docs/t-sql/statements/set-deadlock-priority-transact-sql.md, Syntax
--- a
SET DEADLOCK_PRIORITY NORMAL; SET DEADLOCK_PRIORITY 10; SET DEADLOCK_PRIORITY -10; DECLARE @p int = 3; SET DEADLOCK_PRIORITY @p;
