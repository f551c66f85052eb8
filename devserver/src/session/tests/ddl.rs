//! Tables that change while they have rows. Source: "ALTER TABLE", "CREATE INDEX", "ALTER INDEX" and "DROP INDEX"
//! (MicrosoftDocs/sql-docs, docs/t-sql/statements/).

use crate::session::tests::harness::check;

#[test]
fn tables_and_indexes_change() {
    check(
        r#"== a heap becomes a fifo queue and a heap again
         CREATE TABLE q (id bigint NOT NULL IDENTITY (1, 1), payload varbinary(max), due int NOT NULL);
             INSERT q (payload, due) VALUES (0x01, 3), (0x02, 1), (0x03, 2);
             CREATE INDEX q_payload ON q (id) INCLUDE (due) => ok
         CREATE CLUSTERED INDEX cdx ON q (due) => ok
         SELECT type_desc FROM sys.indexes WHERE object_id = OBJECT_ID('q') AND index_id < 2 => 'CLUSTERED'
         SELECT TOP (1) payload FROM q ORDER BY due => Bytes([2])
         CREATE CLUSTERED INDEX other ON q (id) => error 1902
         CREATE INDEX cdx ON q (id) => error 1913
         INSERT q (payload, due) VALUES (0x04, 9); DROP INDEX q.cdx => ok
         SELECT id FROM q WHERE due = 9 => BigInt(4)
         == a rebuilt table comes back with a rollback
         CREATE TABLE q (id int NOT NULL, n int NOT NULL); INSERT q VALUES (1, 10), (2, 20);
             BEGIN TRAN; DELETE q WHERE id = 1; CREATE UNIQUE CLUSTERED INDEX c ON q (id); INSERT q VALUES (3, 30);
             ROLLBACK => ok
         SELECT id FROM q => 1 | 2
         SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID('q') => NULL
         BEGIN TRAN; CREATE UNIQUE CLUSTERED INDEX c ON q (id); DELETE q WHERE id = 2; COMMIT => ok
         INSERT q VALUES (1, 0) => error 2601
         == keys can be added to filled tables and dropped
         CREATE TABLE t (a int NOT NULL, b int NULL, c int NOT NULL); INSERT t VALUES (1, 1, 7), (2, 1, 7) => ok
         ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY CLUSTERED (b) => error 8111 | error 1750
         ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY CLUSTERED (c) => error 1505 | error 1750
         ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY CLUSTERED (a) WITH (FILLFACTOR = 90) ON [PRIMARY] => ok
         INSERT t VALUES (1, 2, 3) => error 2627
         DROP INDEX pk ON t => error 59000
         ALTER TABLE t DROP CONSTRAINT pk; INSERT t VALUES (1, 2, 3) => ok
         -- A statement of several parts is done whole or not at all.
         ALTER TABLE t ADD d int NULL, CONSTRAINT u UNIQUE (c) => error 1505 | error 1750
         SELECT COL_LENGTH('t', 'd') => NULL
         == checks look at the rows unless told not to
         CREATE TABLE t (a int NOT NULL); INSERT t VALUES (1), (-1) => ok
         ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 0) => error 547
         ALTER TABLE t WITH NOCHECK ADD CONSTRAINT positive CHECK (a > 0) => ok
         INSERT t VALUES (-2) => error 547
         ALTER TABLE t CHECK CONSTRAINT ALL => ok
         INSERT t VALUES (-3) => error 547
         ALTER TABLE t CHECK CONSTRAINT nothing => error 4917
         == columns are added with their values
         CREATE TABLE t (a int NOT NULL); INSERT t VALUES (5), (6) => ok
         ALTER TABLE t ADD b int NOT NULL => error 59000
         ALTER TABLE t ADD b int NOT NULL DEFAULT 7 ;; ALTER TABLE t ADD id int IDENTITY NOT NULL ;;
             ALTER TABLE t ADD v rowversion => error 59000
         ALTER TABLE t ADD c int NULL DEFAULT 8, twice AS a * 2 => ok
         SELECT c, twice FROM t => NULL, 10 | NULL, 12
         INSERT t (a) VALUES (1) => ok
         SELECT c FROM t WHERE a = 1 => 8
         CREATE TABLE u (a int); ALTER TABLE u ADD b int NOT NULL DEFAULT 7, id int IDENTITY (10, 5), v rowversion => ok
         INSERT u (a) VALUES (1), (2) => ok
         SELECT b, id FROM u => 7, 10 | 7, 15
         == columns change their type and go
         CREATE TABLE t (a int NOT NULL PRIMARY KEY, b varchar(10) NULL, c int NULL
             CONSTRAINT dc DEFAULT 1, e nvarchar(5) NULL);
             CREATE INDEX ib ON t (b); INSERT t (a, b, e) VALUES (1, 'x', N'12'), (2, 'yy', NULL) => ok
         ALTER TABLE t ALTER COLUMN b varchar(20) NULL => ok
         ALTER TABLE t ALTER COLUMN b varchar(5) NULL => error 5074 | error 4922
         ALTER TABLE t ALTER COLUMN a bigint NOT NULL => error 5074 | error 4922
         ALTER TABLE t ALTER COLUMN x int => error 4924
         ALTER TABLE t ALTER COLUMN e nvarchar(5) NOT NULL => error 515
         ALTER TABLE t ALTER COLUMN e int => ok
         SELECT e FROM t => 12 | NULL
         ALTER TABLE t DROP COLUMN c => error 5074 | error 4922
         ALTER TABLE t DROP COLUMN b => error 5074 | error 4922
         ALTER TABLE t DROP COLUMN nothing => error 4924
         ALTER TABLE t DROP COLUMN IF EXISTS nothing; ALTER TABLE t DROP CONSTRAINT dc, COLUMN c => ok
         SELECT * FROM t WHERE b = 'yy' => 2, 'yy', NULL
         == a table being rebuilt is nobody elses
         CREATE TABLE t (a int NOT NULL); INSERT t VALUES (1) ;; BEGIN TRAN; CREATE CLUSTERED INDEX c ON t (a) => ok
         2: SET LOCK_TIMEOUT 0; SELECT a FROM t WITH (NOLOCK) => error 1222
         ROLLBACK => ok
         2: SELECT a FROM t => 1
         == a parameter has a type of the procedures schema
         -- Source: Microsoft's durabletask-mssql (Scripts/logic.sql), whose procedures have parameters of its table
         -- types without the schema of both, and are created by users whose default schema is dbo. (For functions
         -- "CREATE FUNCTION", docs/t-sql/statements/create-function-transact-sql.md, names the user's default schema
         -- and dbo only.)
         CREATE SCHEMA dt ;; CREATE SCHEMA own ;; CREATE TYPE dt.ids AS TABLE (id int NOT NULL PRIMARY KEY) ;;
             CREATE PROCEDURE dt.p @i ids READONLY AS SELECT COUNT(*) FROM @i => ok
         DECLARE @i dt.ids; INSERT @i VALUES (7); EXEC dt.p @i => 1
         CREATE PROCEDURE own.p @i ids READONLY AS RETURN => error 2715
         CREATE TYPE own.ids AS TABLE (id bigint); CREATE LOGIN l WITH PASSWORD = 'l';
             CREATE USER l WITH DEFAULT_SCHEMA = own; ALTER ROLE db_owner ADD MEMBER l => ok
         l: CREATE PROCEDURE dbo.q @i ids READONLY AS RETURN => ok
         l: CREATE PROCEDURE dt.q @i ids READONLY AS RETURN => error 59000
         == things get other names
         -- Source: "sp_rename", docs/relational-databases/system-stored-procedures/sp-rename-transact-sql.md.
         CREATE TABLE a (id int NOT NULL CONSTRAINT pk_a PRIMARY KEY, b int NULL
             CONSTRAINT ck CHECK (b > 0), c int NULL) => ok
         INSERT a VALUES (1, 2, 3) ;; EXEC sp_rename 'dbo.a', 'z' ;; EXEC sp_rename 'z.c', 'cc', 'COLUMN' => ok
         SELECT cc FROM z => 3
         SELECT * FROM a => error 208
         EXEC sp_rename 'nothing', 'x' => error 59000
         EXEC sp_rename 'z.nothing', 'x', 'COLUMN' => error 59000
         EXEC sp_rename 'z.cc', 'b', 'COLUMN' => error 59000
         EXEC sp_rename 'z.b', 'bb', 'COLUMN' => error 59000
         BEGIN TRAN; EXEC sp_rename 'z', 'y'; SELECT * FROM y; ROLLBACK; SELECT * FROM z => ok
         SELECT * FROM y => error 208"#,
    );
}
