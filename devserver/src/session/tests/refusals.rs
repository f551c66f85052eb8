//! What SQL Server refuses, the dev server refuses too, by the same numbers.
//!
//! Source of numbers and wordings: "Database Engine events and errors" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/errors-events/database-engine-events-and-errors.md). The rules stand on the pages of the
//! statements, which are named beside the tests.

use crate::session::tests::harness::check;

/// No queue that is known uses them.
#[test]
fn types_and_functions_are_refused_by_name() {
    check(
        "CREATE TABLE t (a int, d datetime2, j nvarchar(max)) => ok
         DECLARE @m money => error 59000 server: the data type money
         CREATE TABLE u (m smallmoney) => error 59000 server: the data type smallmoney
         SELECT CAST('2007-05-08' AS smalldatetime) => error 59000 server: the data type smalldatetime
         DECLARE @t text => error 59000 server: text in a variable or parameter
         SELECT $1.50 => error 59000 server: a name or a constant that begins with $
         SELECT 1e3 => error 59000 server: a constant of float
         SELECT 1 << 2 => error 59000 server: the operator <<
         SELECT DATEADD(quarter, 1, d) FROM t => error 59000 server: the date part quarter
         SELECT DATEPART(year, d) FROM t => error 59000 server: the function DATEPART
         SELECT DATENAME(month, d) FROM t => error 59000 server: the function DATENAME
         SELECT JSON_MODIFY(j, '$.a', 1) FROM t => error 59000 server: the function JSON_MODIFY
         SELECT JSON_VALUE(j, '$.a') FROM t => error 59000 server: the function JSON_VALUE
         SELECT ROUND(a, 1) FROM t => error 59000 server: the function ROUND
         CREATE TABLE u (i uniqueidentifier DEFAULT NEWSEQUENTIALID()) => error 59000 the function NEWSEQUENTIALID
         ALTER TABLE t ADD p AS a + 1 PERSISTED => error 59000 server: PERSISTED
         SELECT UPPER('a') => error 59000 server: the function UPPER
         DECLARE @a int = 0; SELECT @a = @a + a FROM t ORDER BY a
             => error 59000 server: assignments that read variables in a SELECT with
         INSERT BULK t (a int) => error 59000 server: INSERT BULK
         SET FMTONLY ON => error 59000 server: SET FMTONLY ON",
    );
}

#[test]
fn what_contradicts_itself_or_stands_in_the_wrong_place() {
    check(
        r#"== a number of rows is an integer of no row
         -- docs/t-sql/queries/top-transact-sql.md: "References to columns of the inner table are not allowed";
         -- docs/t-sql/queries/select-order-by-clause-transact-sql.md, OFFSET and FETCH.
         CREATE TABLE t (a int NOT NULL PRIMARY KEY, b int); INSERT t VALUES (1, 1), (2, 2) => ok
         SELECT TOP (a) b FROM t ;; SELECT TOP (1 + a) b FROM t ;; UPDATE TOP (a) t SET b = 1 ;;
             DELETE TOP (b) FROM t ;; SELECT b FROM t ORDER BY a OFFSET a ROWS => error 59000
         SELECT TOP (1.5) b FROM t ;; DECLARE @n float = 1; SELECT TOP (@n) b FROM t => error 1060
         SELECT TOP (-1) b FROM t ;; DECLARE @n int = -1; SELECT TOP (@n) b FROM t => error 127
         SELECT b FROM t ORDER BY a OFFSET 1.5 ROWS => error 10743
         SELECT b FROM t ORDER BY a OFFSET -1 ROWS => error 10742
         SELECT b FROM t ORDER BY a OFFSET 0 ROWS FETCH NEXT 0 ROWS ONLY ;;
             DECLARE @n int = 0; SELECT b FROM t ORDER BY a OFFSET 0 ROWS FETCH NEXT @n ROWS ONLY => error 10744
         SELECT x.a, y.b FROM t AS x CROSS APPLY (SELECT TOP (x.a) b FROM t ORDER BY b) AS y ORDER BY 1, 2
             => 1, 1 | 2, 1 | 2, 2
         == next value for stands where its values can be counted
         -- docs/t-sql/functions/next-value-for-transact-sql.md, limitations and restrictions.
         CREATE SEQUENCE s AS int START WITH 1;
             CREATE TABLE t (a int NOT NULL PRIMARY KEY, n int NOT NULL DEFAULT 1); INSERT t (a) VALUES (1) => ok
         SELECT (SELECT NEXT VALUE FOR s) ;; SELECT x FROM (SELECT NEXT VALUE FOR s AS x) AS d ;;
             WITH c AS (SELECT NEXT VALUE FOR s AS x) SELECT x FROM c ;;
             CREATE VIEW v AS SELECT NEXT VALUE FOR s AS x ;; CREATE TABLE u (a int CHECK (a > NEXT VALUE FOR s)) ;;
             CREATE TABLE u (a int, b AS NEXT VALUE FOR s) => error 59000
         CREATE TABLE d (a int DEFAULT NEXT VALUE FOR s, b int) => ok
         INSERT d (b) SELECT TOP (1) 1 => error 59000
         DROP SEQUENCE s => error 3729
         SELECT a FROM t WHERE a = NEXT VALUE FOR s ;; SELECT a FROM t ORDER BY NEXT VALUE FOR s ;;
             DELETE t WHERE a = NEXT VALUE FOR s ;; SELECT DISTINCT NEXT VALUE FOR s FROM t ;;
             SELECT NEXT VALUE FOR s UNION ALL SELECT 1 ;; SELECT NEXT VALUE FOR s FROM t ORDER BY a ;;
             SELECT COUNT(NEXT VALUE FOR s) FROM t ;; SELECT TOP (1) NEXT VALUE FOR s FROM t ;;
             UPDATE TOP (1) t SET n = NEXT VALUE FOR s ;; SET ROWCOUNT 1 => error 59000
         SET ROWCOUNT 0 => ok
         INSERT t (a, n) SELECT TOP (1) a + 1, NEXT VALUE FOR s FROM t ;;
             SELECT CASE WHEN 1 = 1 THEN NEXT VALUE FOR s END ;; SELECT COALESCE(NEXT VALUE FOR s, 1) ;;
             SELECT ISNULL(NEXT VALUE FOR s, 1) ;;
             MERGE t USING (VALUES (1)) AS v (a) ON t.a = v.a WHEN MATCHED THEN UPDATE SET n = NEXT VALUE FOR s;
             => error 59000
         CREATE SEQUENCE r AS float => error 59000
         CREATE SEQUENCE r AS int INCREMENT BY 0 => error 59000
         CREATE SEQUENCE r AS tinyint START WITH 1000 => error 11708
         CREATE SEQUENCE r AS int MINVALUE 5 CYCLE => error 59000
         -- None of that took a value.
         SELECT NEXT VALUE FOR s => 1
         SELECT NEXT VALUE FOR s OVER (ORDER BY a), a FROM t ORDER BY a ;;
             UPDATE t SET n = NEXT VALUE FOR s; INSERT t (a, n) SELECT a + 10, NEXT VALUE FOR s FROM t => ok
         == a module names its columns and has no side effects
         -- docs/t-sql/statements/create-view-transact-sql.md, create-function-transact-sql.md.
         CREATE TABLE t (a int, b int); CREATE TABLE #t (a int) => ok
         CREATE VIEW v AS SELECT 1 ;; CREATE VIEW v AS SELECT a, b + 1 FROM t => error 4511
         CREATE VIEW v AS SELECT a, b AS A FROM t => error 4506
         CREATE VIEW v (x) AS SELECT a FROM t => error 59000
         CREATE VIEW v AS SELECT a FROM #t => error 4508
         CREATE FUNCTION f() RETURNS uniqueidentifier AS BEGIN RETURN NEWID() END => error 59000
         WITH c AS (SELECT 1 AS a), C AS (SELECT 2 AS a) SELECT a FROM c => error 239
         SELECT a FROM t OPTION (MAXRECURSION 5) => error 59000
         RETURN 1 ;; EXEC (N'RETURN 1') => error 178
         CREATE PROCEDURE p AS RETURN 1 ;; RETURN => ok
         == null has no type
         -- docs/t-sql/language-elements/coalesce-transact-sql.md ("At least one of the null values must be a typed
         -- NULL"), nullif-transact-sql.md; docs/t-sql/queries/update-transact-sql.md.
         CREATE TABLE t (a int, b int) => ok
         SELECT COALESCE(NULL, NULL) ;; SELECT NULLIF(NULL, 1) => error 59000
         SELECT SUM(NULL) ;; SELECT MAX(NULL) => error 59000
         SELECT STRING_AGG(NULL, N',') => error 59000
         UPDATE t SET a = MAX(b) => error 157
         SELECT a FROM t GROUP BY a HAVING b > 1 => error 8121
         SELECT a FROM t GROUP BY a ORDER BY b => error 8127
         SELECT COALESCE(NULL, CAST(NULL AS int)), MAX(CAST(NULL AS int)) => NULL, NULL
         == a definition contradicts itself
         -- docs/t-sql/statements/create-table-transact-sql.md: constraints, computed columns, IDENTITY;
         -- docs/t-sql/statements/create-index-transact-sql.md: filtered indexes;
         -- docs/t-sql/statements/set-identity-insert-transact-sql.md.
         CREATE TABLE t (a int NOT NULL PRIMARY KEY, b int, c AS b * 2); CREATE TABLE i (id int IDENTITY, v int) => ok
         CREATE TABLE x (a int PRIMARY KEY, b int PRIMARY KEY) => error 8110
         CREATE TABLE x (a int IDENTITY DEFAULT 5) ;; ALTER TABLE i ADD DEFAULT 5 FOR id ;;
             CREATE TABLE x (a rowversion DEFAULT 5) ;; CREATE TABLE x (a int CHECK (b > 1), b int) => error 59000
         CREATE TABLE x (a int CHECK (a IN (SELECT 1))) ;; CREATE TABLE x (a int DEFAULT (SELECT 1)) ;;
             CREATE TABLE x (a int, b AS (SELECT 1)) => error 1046
         CREATE TABLE x (a int, b AS a + 1, c AS b + 1) ;; ALTER TABLE t ADD d AS c + 1 ;;
             CREATE INDEX x ON t (b) WHERE c > 1 => error 59000
         SET IDENTITY_INSERT i ON; EXEC (N'INSERT i VALUES (5, 1)') => error 213
         EXEC (N'INSERT i VALUES (1)') ;; INSERT i (v) VALUES (1) => error 545
         CREATE TABLE x (a int CHECK (a > 1), b int, CHECK (a > b), d datetime2(3) CHECK (d > '2000-01-01')) => ok
         == what failed is told after its reason
         -- 5074 and 4922, 1767 and 1750: the reason comes first, and CATCH and @@ERROR know the last message only
         -- (docs/t-sql/language-elements/try-catch-transact-sql.md shows it for 5074 and its like).
         CREATE TABLE t (a int NOT NULL CONSTRAINT pk PRIMARY KEY, b int CONSTRAINT df DEFAULT 1
             CONSTRAINT ck CHECK (b > 0), c AS b + 1, INDEX ix (b)) => ok
         ALTER TABLE t DROP COLUMN b => error 5074 | error 5074 | error 5074 | error 5074 | error 4922
         ALTER TABLE t DROP COLUMN a; SELECT @@ERROR => error 5074 The object 'pk' is dependent on column 'a'.
             | error 4922 | 4922
         ALTER TABLE t ALTER COLUMN b bigint => error 5074 The object 'df'
             | error 5074 The index 'ix' | error 5074 The object 'ck' | error 5074 The column 'c' | error 4922
         CREATE TABLE u (a int REFERENCES nothing (a)) => error 1767 | error 1750
         CREATE TABLE u (a int CONSTRAINT pk PRIMARY KEY) => error 2714 | error 1750
         ALTER TABLE t ADD CONSTRAINT u UNIQUE (nothing) => error 1911 | error 1750
         BEGIN TRY EXEC (N'ALTER TABLE t DROP COLUMN a') END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH => 4922
         == read only needs the database for itself
         -- docs/t-sql/statements/alter-database-transact-sql-set-options.md, "Setting options" and the termination
         -- clause.
         2: SELECT 1 => ok
         SET LOCK_TIMEOUT 0; ALTER DATABASE CURRENT SET READ_ONLY => error 1222
         ALTER DATABASE CURRENT SET READ_ONLY WITH NO_WAIT ;; ALTER DATABASE CURRENT SET RECOVERY FULL ;;
             ALTER DATABASE CURRENT SET MULTI_USER WITH ROLLBACK IMMEDIATE ;;
             ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON WITH ROLLBACK IMMEDIATE ;;
             ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON, RECOVERY SIMPLE => error 59000
         BEGIN TRANSACTION; ALTER DATABASE CURRENT SET READ_ONLY ;; CREATE DATABASE d => error 226
         ROLLBACK => ok
         -- docs/t-sql/statements/create-trigger-transact-sql.md, the statements that a trigger cannot have.
         CREATE TABLE t (a int) ;; CREATE TRIGGER tr ON t AFTER INSERT AS CREATE DATABASE d => ok
         INSERT t VALUES (1) => error 287
         DROP TRIGGER tr ;; CREATE TRIGGER tr ON t AFTER INSERT AS ALTER DATABASE CURRENT SET READ_ONLY => ok
         INSERT t VALUES (1) => error 287
         == the filter of an index names its columns alone
         -- The syntax of <filter_predicate> has column_name alone
         -- (docs/t-sql/statements/create-index-transact-sql.md). SQL Server rejects a schema before it
         -- (drizzle-team/drizzle-orm, issue 5593) and takes the table's name: MassTransit's SQL transport installs with
         -- it (SqlServerDatabaseMigrator.cs).
         CREATE TABLE t (a int, state int) => ok
         CREATE INDEX i ON t (a) WHERE dbo.t.state = 0 ;;
             CREATE INDEX i ON t (a) WHERE dbo.t.state IN (1, 2) => error 102
         CREATE INDEX i ON t (a) WHERE x.state IS NULL => error 59000
         CREATE INDEX i ON t (a) WHERE state = 0; CREATE UNIQUE INDEX j ON t (a) WHERE T.state IS NOT NULL ;;
             INSERT t VALUES (1, NULL), (1, NULL), (1, 2) => ok
         INSERT t VALUES (1, 3) => error 2601"#,
    );
}

/// What no queue needs, and the dev server does not have.
#[test]
fn what_is_not_here_is_refused_by_name() {
    check(
        "CREATE TABLE t (id int NOT NULL CONSTRAINT pk PRIMARY KEY, a int) => ok
         -- Control of flow and of the session.
         GOTO done; done: SELECT 1 ;; RAISERROR ('a', 16, 1) WITH NOWAIT, SETERROR ;; DBCC CHECKIDENT (t) ;;
             SET TEXTSIZE 100 ;; EXEC sp_executesql N'SELECT @a', N'@a int = 5' ;;
             CREATE TABLE #t (a int); INSERT #t EXEC ('SELECT 1') ;; SET STATISTICS IO OFF ;;
             CREATE TABLE ##t (a int) ;; CREATE PROCEDURE #p AS SELECT 1 ;; EXECUTE AS USER = 'x' ;; REVERT ;;
             WAITFOR TIME '12:00' ;; SET CONTEXT_INFO 0x01 ;;
             SELECT CONTEXT_INFO(), TRIGGER_NESTLEVEL(), ROWCOUNT_BIG() ;;
             SELECT IDENT_CURRENT('t'), IDENT_SEED('t'), IDENT_INCR('t') ;;
             SELECT @@MAX_PRECISION => error 59000
         -- All the rest.
         EXEC sp_rename 'pk', 'x' ;; SELECT t.id FROM t FULL JOIN t AS u ON u.id = t.id ;;
             SELECT id FROM t EXCEPT SELECT 1 ;; SELECT id FROM t INTERSECT SELECT 1 ;;
             SELECT TOP 5 PERCENT id FROM t ;; SELECT TOP (5) WITH TIES id FROM t ORDER BY id ;;
             SELECT a FROM OPENJSON('[]') WITH (a int) ;; SELECT * FROM OPENJSON('{}', '$.a') ;;
             SELECT * FROM STRING_SPLIT('a', ',', 1) ;; SELECT * FROM GENERATE_SERIES(1, 9, 2) ;;
             SELECT * FROM sys.fn_helpcollations() ;; SELECT 1 << 2 ;;
             SELECT t.id FROM t INNER HASH JOIN t AS u ON u.id = t.id ;; SELECT id FROM t OPTION (HASH GROUP) ;;
             SELECT STRING_AGG('a', ',') WITHIN GROUP (ORDER BY id) FROM t ;;
             WITH c AS (SELECT id FROM t) INSERT c VALUES (1) ;;
             CREATE FUNCTION f () RETURNS TABLE AS RETURN SELECT 1 AS a ;; EXEC sp_addextendedproperty 'note', 'a' ;;
             SELECT * FROM sys.identity_columns ;; SELECT * FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE ;;
             SELECT * FROM tempdb.sys.tables ;; CREATE SYNONYM s FOR t ;; KILL 60 ;; ALTER SCHEMA guest TRANSFER t ;;
             ALTER AUTHORIZATION ON OBJECT::t TO dbo ;; EXEC sp_rename 't.pk', 'x', 'INDEX' ;;
             SELECT * FROM sys.dm_db_index_operational_stats(DB_ID(), NULL, NULL, NULL) ;;
             CREATE TABLE u (id int REFERENCES t ON DELETE SET NULL) ;;
             CREATE TABLE u (id int SPARSE NOT NULL) ;; CREATE TABLE u (id int SPARSE UNIQUE) ;;
             CREATE TABLE v (id int SPARSE); CREATE CLUSTERED INDEX i ON v (id) ;;
             DECLARE @u TABLE (id int SPARSE) ;; CREATE TABLE u (id int SPARSE DEFAULT 1) ;;
             CREATE TABLE u (id int) WITH (DATA_COMPRESSION = PAGE) ;; CREATE INDEX i ON t (a) WITH PAD_INDEX ;;
             GRANT SELECT ON t TO [public] WITH GRANT OPTION ;; GRANT SELECT ON SCHEMA::dbo TO [public] ;;
             GRANT ALTER ON t TO [public] ;; CREATE ROLE r AUTHORIZATION [db_owner] ;;
             EXEC sp_droprolemember 'r', 'guest' ;; CREATE LOGIN l WITH PASSWORD = 'p', CHECK_POLICY = OFF ;;
             CREATE USER u WITH PASSWORD = 'p' ;; ALTER ROLE db_ddladmin ADD MEMBER guest ;; CREATE TYPE id FROM int ;;
             SELECT OBJECTPROPERTY(OBJECT_ID('t'), 'TableHasIndex') ;;
             SELECT * FROM fn_listextendedproperty(NULL, NULL, NULL, NULL, NULL, NULL, NULL) => error 59000",
    );
}
