--- scenario a range scan guards its range up to the next key
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Range scan query
--- setup
CREATE TABLE mytable (name varchar(20) NOT NULL PRIMARY KEY);
INSERT mytable VALUES ('Adam'), ('Ben'), ('Bing'), ('Bob'), ('Carlos'), ('Dale'), ('David');
--- a rows Adam / Ben / Bing / Bob
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRANSACTION; SELECT name FROM mytable WHERE name BETWEEN 'A' AND 'C';
--- a rows RangeS-S,5
SELECT request_mode, COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_type = N'KEY' GROUP BY request_mode;
--- b
SET LOCK_TIMEOUT 0;
--- b error 1222
INSERT mytable VALUES ('Abigail');
--- b error 1222
INSERT mytable VALUES ('Bart');
--- b error 1222
INSERT mytable VALUES ('Cal');
--- b error 1222
DELETE mytable WHERE name = 'Bob';
--- b
INSERT mytable VALUES ('Zoe');
--- b rows Bob
SELECT name FROM mytable WHERE name = 'Bob';

--- scenario the fetch of a row that is not there guards the gap
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Singleton fetch of nonexistent data
--- setup
CREATE TABLE mytable (name varchar(20) NOT NULL PRIMARY KEY);
INSERT mytable VALUES ('Adam'), ('Ben'), ('Bing'), ('Bob');
--- a rows none
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRANSACTION; SELECT name FROM mytable WHERE name = 'Bill';
--- a rows RangeS-S
SELECT request_mode FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_type = N'KEY';
--- b
SET LOCK_TIMEOUT 0; INSERT mytable VALUES ('Bela');
--- b error 1222
INSERT mytable VALUES ('Bill');
--- b error 1222
INSERT mytable VALUES ('Bin');

--- scenario the fetch of a row that is there locks the row alone
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Key-range locking
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY); INSERT t VALUES (10), (20);
--- a rows 20
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRANSACTION; SELECT id FROM t WHERE id = 20;
--- b
INSERT t VALUES (15); INSERT t VALUES (25);
--- b blocks
DELETE t WHERE id = 20;
--- a
COMMIT TRANSACTION;
--- b resumes

--- scenario a delete locks its key and no range
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Delete operation
--- setup
CREATE TABLE mytable (name varchar(20) NOT NULL PRIMARY KEY);
INSERT mytable VALUES ('Ben'), ('Bing'), ('Bob'), ('Carlos');
--- a
BEGIN TRANSACTION; DELETE mytable WHERE name = 'Bob';
--- b
INSERT mytable VALUES ('Boa'); INSERT mytable VALUES ('Bobby'); DELETE mytable WHERE name = 'Bing';
--- b blocks
INSERT mytable VALUES ('Bob');
--- a
COMMIT TRANSACTION;
--- b resumes

--- scenario an insert locks its key and no range
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Insert operation
--- setup
CREATE TABLE mytable (name varchar(20) NOT NULL PRIMARY KEY);
INSERT mytable VALUES ('Dale'), ('David');
--- a
BEGIN TRANSACTION; INSERT mytable VALUES ('Dan');
--- b
INSERT mytable VALUES ('Damon'); INSERT mytable VALUES ('Dana');
--- b blocks
SELECT name FROM mytable WHERE name = 'Dan';
--- a
ROLLBACK TRANSACTION;
--- b resumes rows none

--- scenario a waiting insert is seen as RangeI-N
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Key-range lock modes
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY); INSERT t VALUES (10), (20);
--- a rows none
BEGIN TRANSACTION; SELECT id FROM t WITH (HOLDLOCK) WHERE id = 15;
--- b blocks
INSERT t VALUES (12);
--- c rows RangeI-N,WAIT
SELECT request_mode, request_status FROM sys.dm_tran_locks WHERE request_status = N'WAIT';
--- c rows LCK_M_RIn_NL
SELECT wait_type FROM sys.dm_exec_requests WHERE blocking_session_id <> 0;
--- a
COMMIT TRANSACTION;
--- b resumes

--- scenario behind the last key the gap reaches to infinity
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Key-range locking
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY); INSERT t VALUES (10), (20);
--- a rows 20
BEGIN TRANSACTION; SELECT id FROM t WITH (HOLDLOCK) WHERE id > 10;
--- a rows (ffffffffffff)
SELECT resource_description FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_description LIKE N'%ffffffffffff%';
--- b
SET LOCK_TIMEOUT 0; INSERT t VALUES (5);
--- b error 1222
INSERT t VALUES (1000000);

--- scenario SERIALIZABLE on the whole table keeps every insert out
--- source docs/t-sql/statements/set-transaction-isolation-level-transact-sql.md, SERIALIZABLE
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT t VALUES (10, 1), (20, 2);
--- a rows 2
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRANSACTION; SELECT COUNT(*) FROM t;
--- b blocks
INSERT t VALUES (1, 1);
--- a rows 2
SELECT COUNT(*) FROM t;
--- a
COMMIT TRANSACTION;
--- b resumes

--- scenario SERIALIZABLE on a table without any index locks the table
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Key-range locking
--- setup
CREATE TABLE t (id int NOT NULL); INSERT t VALUES (10), (20);
--- a rows 10
BEGIN TRANSACTION; SELECT id FROM t WITH (HOLDLOCK) WHERE id = 10;
--- b rows 10 / 20
SELECT id FROM t;
--- b blocks
INSERT t VALUES (99);
--- a
COMMIT TRANSACTION;
--- b resumes

--- scenario an equality on an index that is not unique guards the equal keys
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Range scan query
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, k int NOT NULL, INDEX by_k (k)); INSERT t VALUES (1, 10), (2, 20), (3, 30);
--- a rows 2
BEGIN TRANSACTION; SELECT id FROM t WITH (HOLDLOCK, INDEX (by_k)) WHERE k = 20;
--- b
SET LOCK_TIMEOUT 0; INSERT t VALUES (4, 40);
--- b error 1222
INSERT t VALUES (5, 20);
--- b error 1222
UPDATE t SET k = 20 WHERE id = 1;

--- scenario the second of two upserts waits with its look
--- source docs/t-sql/queries/hints-transact-sql-table.md, UPDLOCK
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
--- a rows none
BEGIN TRANSACTION; SELECT n FROM t WITH (UPDLOCK, HOLDLOCK) WHERE id = 7;
--- b blocks
BEGIN TRANSACTION; SELECT n FROM t WITH (UPDLOCK, HOLDLOCK) WHERE id = 7;
--- a
INSERT t VALUES (7, 1); COMMIT TRANSACTION;
--- b resumes rows 1

--- scenario two SERIALIZABLE looks and then two inserts are a deadlock
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Key-range lock modes
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL);
--- a rows none
SET DEADLOCK_PRIORITY HIGH; BEGIN TRANSACTION; SELECT n FROM t WITH (HOLDLOCK) WHERE id = 7;
--- b rows none
BEGIN TRANSACTION; SELECT n FROM t WITH (HOLDLOCK) WHERE id = 7;
--- a blocks
INSERT t VALUES (7, 1);
--- b error 1205
INSERT t VALUES (7, 2);
--- a resumes
--- a rows 1
COMMIT TRANSACTION; SELECT n FROM t;

--- scenario a range stays guarded when the insert that ended it is taken back
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Key-range locking; docs/t-sql/language-elements/save-transaction-transact-sql.md, Remarks (locks are kept)
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL INDEX n_index); INSERT t VALUES (10, 10), (20, 20);
--- a rows none
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRANSACTION; SAVE TRANSACTION s; INSERT t VALUES (15, 15);
SELECT id FROM t WHERE id BETWEEN 11 AND 14;
SELECT n FROM t WHERE n BETWEEN 11 AND 14;
--- a rows none
ROLLBACK TRANSACTION s; SELECT id FROM t WHERE id BETWEEN 11 AND 15;
--- b
SET LOCK_TIMEOUT 0;
--- b error 1222
INSERT t VALUES (12, 99);
--- b error 1222
INSERT t VALUES (99, 12);
--- a rows 15,15
INSERT t VALUES (15, 15); SELECT id, n FROM t WHERE id = 15;
--- a rows 10 / 20
ROLLBACK TRANSACTION s; SELECT id FROM t; COMMIT TRANSACTION;
--- b rows 10 / 12 / 20 / 99
INSERT t VALUES (12, 99), (99, 12); SELECT id FROM t;

--- scenario a range stays guarded when the statement fails whose insert ended it
--- source docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, Key-range locking
--- setup
CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL CHECK (n > 0)); INSERT t VALUES (10, 10), (20, 20);
--- a rows none
BEGIN TRANSACTION; SELECT id FROM t WITH (HOLDLOCK) WHERE id BETWEEN 16 AND 19;
--- a error 547
INSERT t VALUES (17, 1), (18, -1);
--- a rows none
SELECT id FROM t WITH (HOLDLOCK) WHERE id BETWEEN 16 AND 19;
--- b
SET LOCK_TIMEOUT 0;
--- b error 1222
INSERT t VALUES (16, 1);
--- b error 1222
INSERT t VALUES (19, 1);
--- a
COMMIT TRANSACTION;
--- b rows 10 / 16 / 20
INSERT t VALUES (16, 1); SELECT id FROM t;
