--- scenario under READ_COMMITTED_SNAPSHOT a reader sees the last committed row and does not wait
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Isolation levels in the Database Engine
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10), (2, 20), (3, 30);
--- setup
ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON;
--- a
BEGIN TRANSACTION; UPDATE t SET n = 99 WHERE id = 1; DELETE t WHERE id = 2; INSERT t VALUES (4, 40);
--- b rows 1,10 / 2,20 / 3,30
SELECT id, n FROM t ORDER BY id;
--- a rows 1,99 / 3,30 / 4,40
SELECT id, n FROM t ORDER BY id;
--- b rows 1,99 / 3,30 / 4,40
SELECT id, n FROM t WITH (NOLOCK) ORDER BY id;
--- b blocks
SELECT id, n FROM t WITH (READCOMMITTEDLOCK) ORDER BY id;
--- a
COMMIT TRANSACTION;
--- b resumes rows 1,99 / 3,30 / 4,40
--- b rows 1,99 / 3,30 / 4,40
SELECT id, n FROM t ORDER BY id;

--- scenario under READ_COMMITTED_SNAPSHOT each statement sees what is committed when it begins
--- source docs/t-sql/statements/set-transaction-isolation-level-transact-sql.md, READ COMMITTED
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10);
--- setup
ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON;
--- a rows 10
BEGIN TRANSACTION; SELECT n FROM t;
--- b
UPDATE t SET n = 11;
--- a rows 11
SELECT n FROM t;

--- scenario under READ_COMMITTED_SNAPSHOT an update waits for the row and works on what is committed then
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Modifying data
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10);
--- setup
ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON;
--- a
BEGIN TRANSACTION; UPDATE t SET n = n + 1 WHERE id = 1;
--- b blocks
UPDATE t SET n = n + 1 WHERE id = 1;
--- a
COMMIT TRANSACTION;
--- b resumes
--- b rows 12
SELECT n FROM t;

--- scenario under READ_COMMITTED_SNAPSHOT READPAST needs READCOMMITTEDLOCK
--- source docs/t-sql/queries/hints-transact-sql-table.md, READPAST
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10), (2, 20);
--- setup
ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON;
--- a
BEGIN TRANSACTION; UPDATE t SET n = 0 WHERE id = 1;
--- b error 650
SELECT id FROM t WITH (READPAST);
--- b error 650
SELECT id FROM t WITH (READPAST, READCOMMITTED);
--- b error 650
SELECT id FROM t WITH (UPDLOCK, READPAST);
--- b rows 2
SELECT id FROM t WITH (READPAST, READCOMMITTEDLOCK);
--- b rows 2
SELECT id FROM t WITH (UPDLOCK, READPAST, READCOMMITTEDLOCK, ROWLOCK);
--- b rows 2
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT id FROM t WITH (READPAST);

--- scenario under READ_COMMITTED_SNAPSHOT UPDLOCK locks and reads the row as it is
--- source docs/t-sql/queries/hints-transact-sql-table.md, UPDLOCK
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10);
--- setup
ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON;
--- a
BEGIN TRANSACTION; UPDATE t SET n = 11 WHERE id = 1;
--- b blocks
SELECT n FROM t WITH (UPDLOCK) WHERE id = 1;
--- a
COMMIT TRANSACTION;
--- b resumes rows 11

--- scenario under READ_COMMITTED_SNAPSHOT REPEATABLE READ and SERIALIZABLE lock as ever
--- source docs/t-sql/statements/set-transaction-isolation-level-transact-sql.md, Arguments
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10);
--- setup
ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON;
--- a
BEGIN TRANSACTION; UPDATE t SET n = 11 WHERE id = 1;
--- b blocks
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT n FROM t WHERE id = 1;
--- a
ROLLBACK TRANSACTION;
--- b resumes rows 10

--- scenario READ_COMMITTED_SNAPSHOT can be switched only by the one connection there is
--- source docs/t-sql/statements/alter-database-transact-sql-set-options.md, READ_COMMITTED_SNAPSHOT
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY);
--- b
SELECT 1;
--- a blocks
ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON;
--- b disconnect
--- a resumes
--- a rows 1
SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = DB_NAME();

--- scenario WITH ROLLBACK IMMEDIATE ends the others and rolls their transactions back
--- source docs/t-sql/statements/alter-database-transact-sql-set-options.md, WITH termination
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY);
--- b
BEGIN TRANSACTION; INSERT t VALUES (1);
--- a
ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE;
--- a rows 0
SELECT COUNT(*) FROM t;
--- b broken
SELECT 1;

--- scenario ALTER DATABASE is not allowed in a transaction
--- source docs/t-sql/statements/alter-database-transact-sql-set-options.md, Remarks
--- a error 226
BEGIN TRANSACTION; ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON;

--- scenario SNAPSHOT has to be allowed
--- source docs/t-sql/statements/set-transaction-isolation-level-transact-sql.md, SNAPSHOT
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY);
--- a error 3952
SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT id FROM t;
--- b
ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON;
--- a rows none
SELECT id FROM t;

--- scenario a SNAPSHOT transaction sees the data of its first access to the end
--- source docs/t-sql/statements/set-transaction-isolation-level-transact-sql.md, SNAPSHOT
--- setup
ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON;
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL, INDEX by_n (n));
INSERT t VALUES (1, 10), (2, 20), (3, 30);
--- a
SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION;
--- b
INSERT t VALUES (4, 40);
--- a rows 1,10 / 2,20 / 3,30 / 4,40
SELECT id, n FROM t ORDER BY id;
--- b
UPDATE t SET n = 99 WHERE id = 1; DELETE t WHERE id = 2; INSERT t VALUES (5, 50); UPDATE t SET id = 6 WHERE id = 3;
--- a rows 1,10 / 2,20 / 3,30 / 4,40
SELECT id, n FROM t ORDER BY id;
--- a rows 2,20 / 1,10
SELECT id, n FROM t WITH (INDEX (by_n)) WHERE n < 30 ORDER BY n DESC;
--- b rows 6,30 / 4,40 / 5,50 / 1,99
SELECT id, n FROM t ORDER BY n;
--- a
COMMIT TRANSACTION;
--- a rows 1,99 / 4,40 / 5,50 / 6,30
SELECT id, n FROM t ORDER BY id;

--- scenario two SNAPSHOT transactions that change one row: the second fails with 3960 and is rolled back
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Modifying data
--- setup
ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON;
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10), (2, 20);
--- a rows 10
SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION; SELECT n FROM t WHERE id = 1;
--- a
UPDATE t SET n = 21 WHERE id = 2;
--- b
UPDATE t SET n = 11 WHERE id = 1;
--- a error 3960
UPDATE t SET n = n + 1 WHERE id = 1;
--- a rows 0
SELECT @@TRANCOUNT;
--- b rows 1,11 / 2,20
SELECT id, n FROM t ORDER BY id;

--- scenario a SNAPSHOT update waits for the other writer, and conflicts only if that one commits
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Modifying data
--- setup
ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON;
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
INSERT t VALUES (1, 10);
--- b
BEGIN TRANSACTION; UPDATE t SET n = 11 WHERE id = 1;
--- a blocks
SET TRANSACTION ISOLATION LEVEL SNAPSHOT; UPDATE t SET n = n + 5 WHERE id = 1;
--- b
ROLLBACK TRANSACTION;
--- a resumes
--- b
BEGIN TRANSACTION; UPDATE t SET n = n + 100 WHERE id = 1;
--- a blocks
UPDATE t SET n = n + 5 WHERE id = 1;
--- b
COMMIT TRANSACTION;
--- a resumes error 3960
--- b rows 115
SELECT n FROM t;

--- scenario a transaction cannot become a SNAPSHOT transaction later
--- source docs/t-sql/statements/set-transaction-isolation-level-transact-sql.md, Remarks
--- setup
ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON;
CREATE TABLE t (id int NOT NULL PRIMARY KEY);
--- a error 3951
BEGIN TRANSACTION; SELECT id FROM t; SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT id FROM t;
--- a rows 0
SELECT @@TRANCOUNT;
--- a rows none
BEGIN TRANSACTION; SELECT id FROM t; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT id FROM t; SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT id FROM t; COMMIT TRANSACTION;

--- scenario a SNAPSHOT transaction does not read a table that was changed meanwhile
--- source docs/relational-databases/errors-events/mssqlserver-3961-database-engine-error.md, Explanation
--- setup
ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON;
CREATE TABLE t (id int NOT NULL PRIMARY KEY); CREATE TABLE u (id int NOT NULL PRIMARY KEY);
--- a rows none
SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION; SELECT id FROM u;
--- b
ALTER TABLE t ADD n int NULL;
--- a error 3961
SELECT id FROM t;

--- scenario ALLOW_SNAPSHOT_ISOLATION waits for the transactions that change data
--- source docs/t-sql/statements/alter-database-transact-sql-set-options.md, ALLOW_SNAPSHOT_ISOLATION
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY);
--- b
BEGIN TRANSACTION; INSERT t VALUES (1);
--- a blocks
ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON;
--- b
COMMIT TRANSACTION;
--- a resumes
--- a rows 1,ON
SELECT snapshot_isolation_state, snapshot_isolation_state_desc FROM sys.databases WHERE name = DB_NAME();

--- scenario locking hints in a SNAPSHOT transaction are refused
--- source docs/connect/ado-net/sql/snapshot-isolation-sql-server.md, Use lock hints with snapshot isolation
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY);
ALTER DATABASE $(database) SET ALLOW_SNAPSHOT_ISOLATION ON;
--- a error 59000
SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT id FROM t WITH (UPDLOCK);
--- a error 650
SELECT id FROM t WITH (READPAST);
