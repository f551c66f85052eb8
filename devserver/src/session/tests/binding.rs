//! What is refused before anything runs, and with which number.

use crate::session::tests::harness::check;

#[test]
fn names_arguments_and_types_are_bound() {
    check(
        r#"== a wrong name anywhere keeps the batch from running
         CREATE TABLE t (a int) => ok
         INSERT t VALUES (1); SELECT nothing FROM t => error 207
         INSERT t VALUES (1); SELECT @nothing => error 137
         INSERT t VALUES (1); SELECT nothing(1) => error 59000
         INSERT t VALUES (1); SELECT x.a FROM t => error 4104
         INSERT t VALUES (1); SELECT a FROM t, t AS u => error 209
         INSERT t VALUES (1); DECLARE @a int, @a int => error 134
         SELECT COUNT(*) FROM t => 0
         == a missing table is noticed when its statement is reached
         CREATE TABLE t (a int) => ok
         INSERT t VALUES (1); SELECT * FROM missing; INSERT t VALUES (2) => error 208
         SELECT COUNT(*) FROM t => 1
         CREATE TABLE later (a int); INSERT later VALUES (7); SELECT a FROM later => 7
         CREATE PROCEDURE p AS SELECT a FROM much_later => ok
         EXEC p => error 208
         == arguments must fit the parameters
         CREATE PROCEDURE p @a int, @b int = 2, @c int = 3 OUTPUT AS SET @c = @a + @b; RETURN 4 => ok
         EXEC nobody => error 2812
         -- It may be a procedure of SQL Server's own.
         EXEC sp_help ;; EXEC sys.sp_spaceused ;; EXEC SP_WHO2 ;; EXEC dbo.sp_helpindex ;;
             EXEC xp_cmdshell 'dir' => error 59000
         EXEC jobs.sp_help => error 2812
         EXEC p => error 201
         EXEC p 1, 2, 3, 4 => error 8144
         EXEC p @x = 1 => error 8145
         DECLARE @v int; EXEC p 1, @v OUTPUT => error 8162
         EXEC p 'x' => error 8114
         DECLARE @v int, @r int; EXEC @r = p @a = 40, @c = @v OUTPUT; SELECT @v, @r => 42, 4
         DECLARE @v int; EXEC p 1, DEFAULT, @v OUTPUT; SELECT @v => 3
         == aggregates have their place
         CREATE TABLE t (a int, b int) => ok
         SELECT a FROM t WHERE COUNT(*) > 1 => error 147
         SELECT a, COUNT(*) FROM t => error 8120
         SELECT SUM(COUNT(*)) FROM t => error 130
         SELECT a FROM t WHERE ROW_NUMBER() OVER (ORDER BY a) = 1 => error 4108
         SELECT * FROM (SELECT a FROM t ORDER BY a) d => error 1033
         == names are unique where sql server wants them to be
         CREATE TABLE t (a int NOT NULL CONSTRAINT t_pk PRIMARY KEY) => ok
         CREATE TABLE u (a int NOT NULL CONSTRAINT t_pk PRIMARY KEY) => error 2714 | error 1750
         CREATE TABLE T (a int) => error 2714
         SELECT 1 FROM t AS x, t AS x => error 59000
         SELECT 1 FROM t, t => error 59000
         SELECT 1; CREATE SCHEMA x => error 111
         DELETE t WITH (INDEX (t_pk)) => error 1069
         SELECT SUM((SELECT 1)) FROM t => error 130
         SELECT 1 FROM t GROUP BY (SELECT a) => error 59000
         EXEC sp_getapplock @Resourc = N'x' => error 8145
         == what is not known is refused
         SET QUOTED_IDENTIFIER OFF ;; SELECT * FROM sys.dm_os_wait_stats ;;
             ALTER DATABASE CURRENT SET SINGLE_USER => error 59000
         == a changed table is seen by old plans
         CREATE TABLE t (a int); INSERT t VALUES (1) ;; CREATE PROCEDURE p AS SELECT * FROM t => ok
         EXEC p => 1
         ALTER TABLE t ADD b int; EXEC ('UPDATE t SET b = 5') => ok
         EXEC p => 1, 5
         DROP TABLE t; CREATE TABLE t (c char(1)) ;; INSERT t VALUES ('x') => ok
         EXEC p => 'x'
         == a constant null has the type of what it is compared with
         -- A comparison with NULL is unknown. Source: "SET ANSI_NULLS" (MicrosoftDocs/sql-docs,
         -- docs/t-sql/statements/set-ansi-nulls-transact-sql.md).
         SELECT CASE WHEN 'abc' = NULL THEN 1 WHEN NOT ('abc' = NULL) THEN 2 ELSE 3 END => 3
         SELECT CASE WHEN NULL = 'abc' THEN 1 WHEN NOT (NULL = 'abc') THEN 2 ELSE 3 END => 3
         SELECT CASE WHEN 'abc' <> NULL THEN 1 WHEN NOT ('abc' <> NULL) THEN 2 ELSE 3 END => 3
         SELECT CASE WHEN NEWID() = NULL THEN 1 WHEN NOT (NEWID() = NULL) THEN 2 ELSE 3 END => 3
         SELECT CASE WHEN 'abc' BETWEEN NULL AND 'x' THEN 1 WHEN NOT ('abc' BETWEEN NULL AND 'x') THEN 2 ELSE 3 END => 3
         SELECT CASE WHEN NULL IN ('abc') THEN 1 WHEN NOT (NULL IN ('abc')) THEN 2 ELSE 3 END => 3
         SELECT CASE WHEN 'abc' IN (NULL) THEN 1 WHEN NOT ('abc' IN (NULL)) THEN 2 ELSE 3 END => 3
         SELECT CASE WHEN NULL IN (SELECT 'abc') THEN 1 WHEN NOT (NULL IN (SELECT 'abc')) THEN 2 ELSE 3 END => 3
         SELECT CASE WHEN NULL = NULL THEN 1 WHEN NOT (NULL = NULL) THEN 2 ELSE 3 END => 3
         SELECT CASE 'abc' WHEN NULL THEN 1 ELSE 2 END => 2
         SELECT NULLIF('abc', NULL) => 'abc'
         -- A NULL of a type keeps it.
         DECLARE @n int; SELECT 1 WHERE 'abc' = @n => error 245
         == columns of views have three parts too
         -- A column of a view is reached as one of a table is. Source: "SELECT clause", `column_name` and `{ table_name
         -- | view_name | table_alias }` (MicrosoftDocs/sql-docs, docs/t-sql/queries/select-clause-transact-sql.md).
         CREATE TABLE t (c int); INSERT t VALUES (1); EXEC('CREATE VIEW v AS SELECT c FROM t');
             EXEC('CREATE VIEW grouped AS SELECT c, COUNT(*) AS n FROM t GROUP BY c'); EXEC('CREATE SCHEMA m');
             EXEC('CREATE VIEW m.v AS SELECT c + 1 AS c FROM t') => ok
         SELECT dbo.v.c FROM dbo.v WHERE dbo.v.c = 1 => 1
         SELECT dbo.grouped.n FROM grouped => 1
         SELECT dbo.v.c, m.v.c FROM dbo.v JOIN m.v ON m.v.c > dbo.v.c => 1, 2
         SELECT m.v.c FROM dbo.v ;; SELECT dbo.v.c FROM dbo.v AS x => error 4104
         SELECT dbo.v.c FROM dbo.v JOIN dbo.v ON 1 = 1 => error 59000
         UPDATE dbo.v SET c = 5 FROM dbo.v WHERE dbo.v.c = 1 => ok
         SELECT c FROM t => 5"#,
    );
}
