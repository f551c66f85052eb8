--- scenario hints that contradict each other
--- source docs/t-sql/queries/hints-transact-sql-table.md, Remarks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY);
--- a error 1047
SELECT id FROM t WITH (NOLOCK, HOLDLOCK);
--- a error 1047
SELECT id FROM t WITH (NOLOCK, UPDLOCK);
--- a error 1047
SELECT id FROM t WITH (READUNCOMMITTED, XLOCK);
--- a error 1047
SELECT id FROM t WITH (NOLOCK, TABLOCK);
--- a error 1047
SELECT id FROM t WITH (ROWLOCK, TABLOCK);
--- a error 59000
SELECT id FROM t WITH (PAGLOCK);
--- a error 59000
SELECT id FROM t WITH (NOWAIT);
--- a error 1047
SELECT id FROM t WITH (REPEATABLEREAD, NOLOCK);
--- a error 1047
SELECT id FROM t WITH (READCOMMITTED, SERIALIZABLE);

--- scenario NOLOCK is not for the target of a change
--- source docs/t-sql/queries/hints-transact-sql-table.md, READUNCOMMITTED
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 1);
--- a error 1065
UPDATE t WITH (NOLOCK) SET n = 2;
--- a error 1065
DELETE t WITH (READUNCOMMITTED);
--- a error 1065
INSERT t WITH (NOLOCK) VALUES (2, 2);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 5;
--- b blocks
UPDATE x SET n = n + 1 FROM t AS x WITH (NOLOCK);
--- a
COMMIT TRANSACTION;
--- b resumes
--- b rows 6
SELECT n FROM t;

--- scenario READCOMMITTEDLOCK is not for the target of an insert
--- source docs/t-sql/queries/hints-transact-sql-table.md, READCOMMITTEDLOCK
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY);
--- a error 4140
INSERT t WITH (READCOMMITTEDLOCK) VALUES (1);

--- scenario index hints are not for targets
--- source docs/t-sql/queries/hints-transact-sql-table.md, Remarks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
--- a error 1069
UPDATE t WITH (INDEX (1)) SET n = 1;

--- scenario an index hint that cannot be followed
--- source docs/t-sql/queries/hints-transact-sql-table.md, FORCESEEK
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, k int NOT NULL, n int NOT NULL, INDEX by_k (k), INDEX few (n) WHERE k = 1);
INSERT t VALUES (1, 10, 100);
--- a error 8622
SELECT n FROM t WITH (FORCESEEK) WHERE n = 100;
--- a error 8622
SELECT n FROM t WITH (INDEX (few)) WHERE n = 100;
--- a error 308
SELECT n FROM t WITH (INDEX (absent));
--- a rows 100
SELECT n FROM t WITH (FORCESEEK (by_k (k))) WHERE k = 10;
--- a rows 100
SELECT n FROM t WITH (FORCESEEK, INDEX (by_k)) WHERE k = 10;
--- a rows 100
SELECT n FROM t WITH (INDEX (by_k)) WHERE k = 10;
--- a rows 100
SELECT n FROM t WITH (INDEX (0)) WHERE k = 10;

--- scenario TABLOCK is a shared lock until the statement ends
--- source docs/t-sql/queries/hints-transact-sql-table.md, TABLOCK
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 1);
--- a rows 1
BEGIN TRANSACTION; SELECT n FROM t WITH (TABLOCK);
--- b
UPDATE t SET n = 2;
--- a rows 2
SELECT n FROM t WITH (TABLOCK, HOLDLOCK);
--- b rows 2
SELECT n FROM t;
--- b blocks
UPDATE t SET n = 3;
--- a
COMMIT TRANSACTION;
--- b resumes

--- scenario TABLOCK waits for a writer of any row
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Intent locks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 1), (2, 2);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 0 WHERE id = 1;
--- b blocks
SELECT n FROM t WITH (TABLOCK) WHERE id = 2;
--- a
COMMIT TRANSACTION;
--- b resumes rows 2

--- scenario TABLOCK with UPDLOCK is an exclusive table lock
--- source docs/t-sql/queries/hints-transact-sql-table.md, UPDLOCK
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY); INSERT t VALUES (1);
--- a rows 1
BEGIN TRANSACTION; SELECT id FROM t WITH (UPDLOCK, TABLOCK);
--- a rows X
SELECT request_mode FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_type = N'OBJECT';
--- b blocks
SELECT id FROM t;
--- a
COMMIT TRANSACTION;
--- b resumes rows 1

--- scenario TABLOCKX keeps readers out until the transaction ends
--- source docs/t-sql/queries/hints-transact-sql-table.md, TABLOCKX
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY); INSERT t VALUES (1);
--- a rows 1
BEGIN TRANSACTION; SELECT id FROM t WITH (TABLOCKX);
--- b rows 1
SELECT id FROM t WITH (NOLOCK);
--- b blocks
SELECT id FROM t;
--- a
COMMIT TRANSACTION;
--- b resumes rows 1

--- scenario XLOCK on a row keeps other lockers out until the transaction ends
--- source docs/t-sql/queries/hints-transact-sql-table.md, XLOCK
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY); INSERT t VALUES (1), (2);
--- a rows 1
BEGIN TRANSACTION; SELECT id FROM t WITH (ROWLOCK, XLOCK) WHERE id = 1;
--- b rows 2
SELECT id FROM t WITH (UPDLOCK) WHERE id = 2;
--- b blocks
SELECT id FROM t WITH (UPDLOCK) WHERE id = 1;
--- a
COMMIT TRANSACTION;
--- b resumes rows 1

--- scenario the READCOMMITTED hint is ignored beside UPDLOCK
--- source docs/t-sql/queries/hints-transact-sql-table.md, UPDLOCK
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY); INSERT t VALUES (10), (20);
--- a rows none
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRANSACTION; SELECT id FROM t WITH (UPDLOCK, READCOMMITTED) WHERE id = 15;
--- b blocks
INSERT t VALUES (15);
--- a
COMMIT TRANSACTION;
--- b resumes

--- scenario hints on a view are those of its tables
--- source docs/t-sql/queries/hints-transact-sql-table.md, Remarks (lock hints are propagated to the tables a view refers to)
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0), (2, 0), (3, 0);
--- setup
CREATE VIEW v AS SELECT id, n FROM t WHERE n = 0;
--- setup
CREATE VIEW outer_view AS SELECT id FROM v;
--- a rows 1
BEGIN TRANSACTION; SELECT TOP (1) id FROM outer_view WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY id;
--- b rows 2
BEGIN TRANSACTION; SELECT TOP (1) id FROM outer_view WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY id;
--- c rows 1 / 2 / 3
SELECT id FROM v WITH (NOLOCK);
--- c error 1047
SELECT id FROM v WITH (NOLOCK, UPDLOCK);
--- c blocks
SELECT COUNT(*) FROM v WITH (TABLOCKX);
--- a
COMMIT TRANSACTION;
--- b
COMMIT TRANSACTION;
--- c resumes rows 3
