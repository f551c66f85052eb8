//! What is refused before anything runs, and with which number.

use crate::session::tests::harness::{errors, ok, rows, session};

#[test]
fn a_wrong_name_anywhere_keeps_the_batch_from_running() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int)");
    assert_eq!(errors(&mut s, "INSERT t VALUES (1); SELECT nothing FROM t"), [207]);
    assert_eq!(errors(&mut s, "INSERT t VALUES (1); SELECT @nothing"), [137]);
    assert_eq!(errors(&mut s, "INSERT t VALUES (1); SELECT nothing(1)"), [59000]);
    assert_eq!(errors(&mut s, "INSERT t VALUES (1); SELECT x.a FROM t"), [4104]);
    assert_eq!(errors(&mut s, "INSERT t VALUES (1); SELECT a FROM t, t AS u"), [209]);
    assert_eq!(errors(&mut s, "INSERT t VALUES (1); DECLARE @a int, @a int"), [134]);
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM t"), ["ROW(Int(0))"]);
}

#[test]
fn a_missing_table_is_noticed_when_its_statement_is_reached() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int)");
    assert_eq!(errors(&mut s, "INSERT t VALUES (1); SELECT * FROM missing; INSERT t VALUES (2)"), [208]);
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM t"), ["ROW(Int(1))"]);
    assert_eq!(
        rows(&mut s, "CREATE TABLE later (a int); INSERT later VALUES (7); SELECT a FROM later"),
        ["ROW(Int(7))"]
    );
    ok(&mut s, "CREATE PROCEDURE p AS SELECT a FROM much_later");
    assert_eq!(errors(&mut s, "EXEC p"), [208]);
}

#[test]
fn arguments_must_fit_the_parameters() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE PROCEDURE p @a int, @b int = 2, @c int = 3 OUTPUT AS SET @c = @a + @b; RETURN 4");
    assert_eq!(errors(&mut s, "EXEC nobody"), [2812]);
    // A procedure of SQL Server's own is there, only not here; sp_ alone makes no procedure one of those.
    for missing in ["sp_help", "sys.sp_spaceused", "SP_WHO2", "dbo.sp_helpindex", "xp_cmdshell 'dir'"] {
        assert_eq!(errors(&mut s, &format!("EXEC {missing}")), [59000], "{missing}");
    }
    assert_eq!(errors(&mut s, "EXEC sp_nobody; EXEC jobs.sp_help"), [2812, 2812]);
    assert_eq!(errors(&mut s, "EXEC p"), [201]);
    assert_eq!(errors(&mut s, "EXEC p 1, 2, 3, 4"), [8144]);
    assert_eq!(errors(&mut s, "EXEC p @x = 1"), [8145]);
    assert_eq!(errors(&mut s, "DECLARE @v int; EXEC p 1, @v OUTPUT"), [8162]);
    assert_eq!(errors(&mut s, "EXEC p 'x'"), [8114]);
    let sql = "DECLARE @v int, @r int; EXEC @r = p @a = 40, @c = @v OUTPUT; SELECT @v, @r";
    assert_eq!(rows(&mut s, sql), ["ROW(Int(42), Int(4))"]);
    assert_eq!(rows(&mut s, "DECLARE @v int; EXEC p 1, DEFAULT, @v OUTPUT; SELECT @v"), ["ROW(Int(3))"]);
}

#[test]
fn aggregates_have_their_place() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int, b int)");
    assert_eq!(errors(&mut s, "SELECT a FROM t WHERE COUNT(*) > 1"), [147]);
    assert_eq!(errors(&mut s, "SELECT a, COUNT(*) FROM t"), [8120]);
    assert_eq!(errors(&mut s, "SELECT SUM(COUNT(*)) FROM t"), [130]);
    assert_eq!(errors(&mut s, "SELECT a FROM t WHERE ROW_NUMBER() OVER (ORDER BY a) = 1"), [4108]);
    assert_eq!(errors(&mut s, "SELECT * FROM (SELECT a FROM t ORDER BY a) d"), [1033]);
}

#[test]
fn names_are_unique_where_sql_server_wants_them_to_be() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int NOT NULL CONSTRAINT t_pk PRIMARY KEY)");
    assert_eq!(errors(&mut s, "CREATE TABLE u (a int NOT NULL CONSTRAINT t_pk PRIMARY KEY)"), [2714, 1750]);
    assert_eq!(errors(&mut s, "CREATE TABLE T (a int)"), [2714]);
    assert_eq!(errors(&mut s, "SELECT 1 FROM t AS x, t AS x"), [1011]);
    assert_eq!(errors(&mut s, "SELECT 1 FROM t, t"), [1013]);
    assert_eq!(errors(&mut s, "SELECT 1; CREATE SCHEMA x"), [111]);
    assert_eq!(errors(&mut s, "DELETE t WITH (INDEX (t_pk))"), [1069]);
    assert_eq!(errors(&mut s, "SELECT SUM((SELECT 1)) FROM t"), [130]);
    assert_eq!(errors(&mut s, "SELECT 1 FROM t GROUP BY (SELECT a)"), [144]);
    assert_eq!(errors(&mut s, "EXEC sp_getapplock @Resourc = N'x'"), [8145]);
}

#[test]
fn what_is_not_known_is_refused() {
    let (_e, mut s) = session();
    let refused = [
        "SET QUOTED_IDENTIFIER OFF",
        "SET IMPLICIT_TRANSACTIONS ON",
        "SELECT * FROM sys.dm_os_wait_stats",
        "ALTER DATABASE CURRENT SET SINGLE_USER",
    ];
    for sql in refused {
        assert_eq!(errors(&mut s, sql), [crate::error::NOT_SUPPORTED], "{sql}");
    }
}

#[test]
fn a_changed_table_is_seen_by_old_plans() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int); INSERT t VALUES (1)");
    ok(&mut s, "CREATE PROCEDURE p AS SELECT * FROM t");
    assert_eq!(rows(&mut s, "EXEC p"), ["ROW(Int(1))"]);
    ok(&mut s, "ALTER TABLE t ADD b int NOT NULL DEFAULT 5");
    assert_eq!(rows(&mut s, "EXEC p"), ["ROW(Int(1), Int(5))"]);
    ok(&mut s, "DROP TABLE t; CREATE TABLE t (c char(1))");
    ok(&mut s, "INSERT t VALUES ('x')");
    assert_eq!(rows(&mut s, "EXEC p"), ["ROW(String(\"x\"))"]);
}

/// A comparison with NULL is unknown. Source: "SET ANSI_NULLS" (MicrosoftDocs/sql-docs,
/// docs/t-sql/statements/set-ansi-nulls-transact-sql.md).
#[test]
fn a_constant_null_has_the_type_of_what_it_is_compared_with() {
    let (_e, mut s) = session();
    for condition in [
        "'abc' = NULL",
        "NULL = 'abc'",
        "'abc' <> NULL",
        "NEWID() = NULL",
        "'abc' BETWEEN NULL AND 'x'",
        "NULL IN ('abc')",
        "'abc' IN (NULL)",
        "NULL IN (SELECT 'abc')",
        "NULL = NULL",
    ] {
        let sql = format!("SELECT CASE WHEN {condition} THEN 1 WHEN NOT ({condition}) THEN 2 ELSE 3 END");
        assert_eq!(rows(&mut s, &sql), ["ROW(Int(3))"], "{condition}");
    }
    assert_eq!(rows(&mut s, "SELECT CASE 'abc' WHEN NULL THEN 1 ELSE 2 END"), ["ROW(Int(2))"]);
    assert_eq!(rows(&mut s, "SELECT NULLIF('abc', NULL)"), ["ROW(String(\"abc\"))"]);
    // A NULL of a type keeps it.
    assert_eq!(errors(&mut s, "DECLARE @n int; SELECT 1 WHERE 'abc' = @n"), [245]);
}

/// A column of a view is reached as one of a table is. Source: "SELECT clause", `column_name` and
/// `{ table_name | view_name | table_alias }` (MicrosoftDocs/sql-docs,
/// docs/t-sql/queries/select-clause-transact-sql.md).
#[test]
fn columns_of_views_have_three_parts_too() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (c int); INSERT t VALUES (1); EXEC('CREATE VIEW v AS SELECT c FROM t');
         EXEC('CREATE VIEW grouped AS SELECT c, COUNT(*) AS n FROM t GROUP BY c'); EXEC('CREATE SCHEMA m');
         EXEC('CREATE VIEW m.v AS SELECT c + 1 AS c FROM t')",
    );
    assert_eq!(rows(&mut s, "SELECT dbo.v.c FROM dbo.v WHERE dbo.v.c = 1"), ["ROW(Int(1))"]);
    assert_eq!(rows(&mut s, "SELECT dbo.grouped.n FROM grouped"), ["ROW(Int(1))"]);
    assert_eq!(rows(&mut s, "SELECT dbo.v.c, m.v.c FROM dbo.v JOIN m.v ON m.v.c > dbo.v.c"), ["ROW(Int(1), Int(2))"]);
    assert_eq!(errors(&mut s, "SELECT m.v.c FROM dbo.v"), [4104]);
    assert_eq!(errors(&mut s, "SELECT dbo.v.c FROM dbo.v AS x"), [4104]);
    assert_eq!(errors(&mut s, "SELECT dbo.v.c FROM dbo.v JOIN dbo.v ON 1 = 1"), [1013]);
    ok(&mut s, "UPDATE dbo.v SET c = 5 FROM dbo.v WHERE dbo.v.c = 1");
    assert_eq!(rows(&mut s, "SELECT c FROM t"), ["ROW(Int(5))"]);
}
