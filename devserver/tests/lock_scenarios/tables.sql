--- scenario a statement with thousands of locks gets the table
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Lock escalation
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t SELECT value, 0 FROM GENERATE_SERIES(1, 6300);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 1 WHERE id <= 6290;
--- a rows OBJECT,X
SELECT resource_type, request_mode FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_type <> N'DATABASE';
--- b blocks
SELECT TOP (1) id FROM t WITH (READPAST, UPDLOCK) WHERE id = 6300;
--- a
COMMIT TRANSACTION;
--- b resumes rows 6300

--- scenario LOCK_ESCALATION = DISABLE keeps row locks
--- source docs/t-sql/statements/alter-table-transact-sql.md, LOCK_ESCALATION
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t SELECT value, 0 FROM GENERATE_SERIES(1, 6300);
--- setup
ALTER TABLE t SET (LOCK_ESCALATION = DISABLE);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 1 WHERE id <= 6290;
--- b rows 6291
SELECT TOP (1) id FROM t WITH (READPAST, UPDLOCK) ORDER BY id;

--- scenario escalation does not wait for others
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Lock escalation
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t SELECT value, 0 FROM GENERATE_SERIES(1, 6300);
--- b
BEGIN TRANSACTION; UPDATE t SET n = 2 WHERE id = 6300;
--- a
BEGIN TRANSACTION; UPDATE t SET n = 1 WHERE id <= 6290;
--- c rows 6291
SELECT TOP (1) id FROM t WITH (READPAST, UPDLOCK) ORDER BY id;

--- scenario DDL waits for readers and writers
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Schema locks
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY); INSERT t VALUES (1);
--- a
BEGIN TRANSACTION; INSERT t VALUES (2);
--- b blocks
ALTER TABLE t ADD n int NULL;
--- c blocks
SELECT id FROM t WITH (NOLOCK);
--- a
COMMIT TRANSACTION;
--- b resumes
--- c resumes rows 1 / 2

--- scenario a statement that waited for a change of its table is compiled again
--- source docs/relational-databases/query-processing-architecture-guide.md, Recompile execution plans
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY); INSERT t VALUES (1);
--- a
BEGIN TRANSACTION; INSERT t VALUES (2);
--- b blocks
ALTER TABLE t ADD n int NULL;
--- c blocks
INSERT t (id) VALUES (3);
--- a
COMMIT TRANSACTION;
--- b resumes
--- c resumes
--- a rows 3
SELECT id FROM t WHERE n IS NULL AND id > 2;

--- scenario a statement that waited while its index was dropped is compiled again
--- source docs/relational-databases/query-processing-architecture-guide.md, Recompile execution plans
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL, INDEX by_n (n)); INSERT t VALUES (1, 10), (2, 20);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 11 WHERE id = 1;
--- b blocks
DROP INDEX by_n ON t;
--- c blocks
SELECT id FROM t WHERE n = 20;
--- d blocks
IF EXISTS (SELECT 1 FROM t WHERE n = 20) SELECT 1;
--- a
COMMIT TRANSACTION;
--- b resumes
--- c resumes rows 2
--- d resumes rows 1

--- scenario locks of one session as the views show them
--- source docs/relational-databases/system-dynamic-management-views/sys-dm-tran-locks-transact-sql.md, Examples
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 0);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 1 WHERE id = 1;
--- a rows DATABASE,S,GRANT,SHARED_TRANSACTION_WORKSPACE / KEY,X,GRANT,TRANSACTION / OBJECT,IX,GRANT,TRANSACTION
SELECT resource_type, request_mode, request_status, request_owner_type FROM sys.dm_tran_locks WHERE request_session_id = @@SPID ORDER BY resource_type;
--- a rows t
SELECT OBJECT_NAME(p.object_id) FROM sys.dm_tran_locks AS l INNER JOIN sys.partitions AS p ON p.hobt_id = l.resource_associated_entity_id WHERE l.resource_type = N'KEY';
--- b blocks
SELECT n FROM t WHERE id = 1;
--- c rows suspended,LCK_M_S
SELECT status, wait_type FROM sys.dm_exec_requests WHERE blocking_session_id <> 0;
--- c rows 1
SELECT COUNT(*) FROM sys.dm_exec_requests AS r INNER JOIN sys.dm_tran_locks AS l ON l.request_session_id = r.blocking_session_id WHERE l.request_mode = N'X';
--- c rows sleeping,1
SELECT s.status, s.open_transaction_count FROM sys.dm_exec_sessions AS s INNER JOIN sys.dm_exec_requests AS r ON r.blocking_session_id = s.session_id;
--- a
COMMIT TRANSACTION;
--- b resumes rows 1

--- scenario rows of a heap are RIDs
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Lock granularity and hierarchies
--- setup
CREATE TABLE t (n int NOT NULL); INSERT t VALUES (1), (2);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 10 WHERE n = 1;
--- a rows RID,X
SELECT resource_type, request_mode FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_type IN (N'RID', N'KEY');
--- b rows 2
SELECT n FROM t WITH (READPAST);

--- scenario a new nonclustered index waits for writers, and lets others read
--- source docs/t-sql/statements/create-index-transact-sql.md, ONLINE = OFF
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 10), (2, 20);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 11 WHERE id = 1;
--- b blocks
BEGIN TRANSACTION; CREATE INDEX by_n ON t (n);
--- a
COMMIT TRANSACTION;
--- b resumes
--- a rows 1,11 / 2,20
SELECT id, n FROM t WHERE n > 0 ORDER BY id;
--- a blocks
INSERT t VALUES (3, 30);
--- b rows OBJECT,S
SELECT resource_type, request_mode FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_type = N'OBJECT';
--- b
COMMIT TRANSACTION;
--- a resumes
--- a rows 1 / 2 / 3
SELECT id FROM t WITH (INDEX (by_n)) ORDER BY n;

--- scenario a new nonclustered index does not wait for readers
--- source docs/t-sql/statements/create-index-transact-sql.md, ONLINE = OFF
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 10), (2, 20);
--- a rows 1
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN TRANSACTION; SELECT id FROM t WHERE id = 1;
--- b
CREATE INDEX by_n ON t (n);
--- c blocks
CREATE CLUSTERED INDEX by_id ON t (id);
--- a
COMMIT TRANSACTION;
--- c resumes error 1902

--- scenario a clustered index keeps everybody out
--- source docs/t-sql/statements/create-index-transact-sql.md, ONLINE = OFF
--- setup
CREATE TABLE t (id int NOT NULL, n int NOT NULL); INSERT t VALUES (1, 10); CREATE INDEX by_n ON t (n);
--- a
BEGIN TRANSACTION; CREATE CLUSTERED INDEX by_id ON t (id);
--- b blocks
SELECT id FROM t WITH (NOLOCK);
--- a
COMMIT TRANSACTION;
--- b resumes rows 1

--- scenario an index built online waits for the transactions that change its table
--- source docs/relational-databases/indexes/how-online-index-operations-work.md, Source Structure Activities
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 10), (2, 20);
--- a
BEGIN TRANSACTION; UPDATE t SET n = 11 WHERE id = 1;
--- b blocks
CREATE INDEX by_n ON t (n) WITH (ONLINE = ON);
--- a
COMMIT TRANSACTION;
--- b resumes
--- a rows 1
SELECT COUNT(*) FROM sys.indexes WHERE name = N'by_n';

--- scenario a foreign key is not checked through an index that is not committed
--- source docs/relational-databases/indexes/how-online-index-operations-work.md, Target
--- setup
CREATE TABLE parent (id int NOT NULL PRIMARY KEY);
CREATE TABLE child (id int NOT NULL PRIMARY KEY, parent int NOT NULL REFERENCES parent (id));
INSERT parent VALUES (1), (2);
--- a
BEGIN TRANSACTION; INSERT child VALUES (1, 1); CREATE INDEX by_parent ON child (parent);
--- b blocks
DELETE parent WHERE id = 1;
--- a
ROLLBACK TRANSACTION;
--- b resumes
--- a rows 1
SELECT COUNT(*) FROM parent;

--- scenario others do not see an index that is not committed
--- source docs/relational-databases/indexes/how-online-index-operations-work.md, Target
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (1, 10), (2, 20);
--- a
BEGIN TRANSACTION; INSERT t VALUES (3, 30); CREATE INDEX by_n ON t (n);
--- a rows 3
SELECT id FROM t WITH (INDEX (by_n)) WHERE n = 30;
--- b error 308
SELECT id FROM t WITH (INDEX (by_n)) WHERE n = 20;
--- b rows 2
SELECT id FROM t WITH (READPAST) WHERE n > 10;
--- b blocks
UPDATE t SET n = 21 WHERE id = 2;
--- c blocks
SELECT name FROM sys.indexes WHERE name = N'by_n';
--- d blocks
CREATE INDEX by_n ON t (n);
--- a
ROLLBACK TRANSACTION;
--- b resumes
--- c resumes rows none
--- d resumes
