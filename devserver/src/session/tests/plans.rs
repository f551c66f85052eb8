//! Which indexes are used, seen from outside: by what a hint refuses, and by what a scan would have waited for.

use crate::session::tests::harness::{engine, errors, login, ok, rows, session};

const TABLE: &str =
    "CREATE TABLE t (id int NOT NULL PRIMARY KEY, q int NOT NULL, state tinyint NOT NULL, k varchar(10) NULL);
    CREATE INDEX ready ON t (q, id) WHERE state = 0;
    CREATE UNIQUE INDEX keyed ON t (q, k) WHERE k IS NOT NULL AND state < 3;
    INSERT t VALUES (1, 1, 0, 'a'), (2, 1, 1, NULL), (3, 2, 0, 'b')";

#[test]
fn a_filtered_index_serves_literals_only() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    assert_eq!(rows(&mut s, "SELECT id FROM t WITH (INDEX (ready)) WHERE q = 1 AND state = 0"), ["ROW(Int(1))"]);
    assert_eq!(
        errors(&mut s, "DECLARE @s tinyint = 0; SELECT id FROM t WITH (INDEX (ready)) WHERE q = 1 AND state = @s"),
        [8622]
    );
    assert_eq!(errors(&mut s, "SELECT id FROM t WITH (INDEX (ready)) WHERE q = 1"), [8622]);
    assert_eq!(errors(&mut s, "SELECT id FROM t WITH (INDEX (ready)) WHERE q = 1 AND state IN (0, 1)"), [8622]);
    let keyed =
        "DECLARE @k varchar(10) = 'b'; SELECT id FROM t WITH (INDEX (keyed)) WHERE q = 2 AND k = @k AND state < 3";
    assert_eq!(rows(&mut s, keyed), ["ROW(Int(3))"]);
    assert_eq!(
        rows(&mut s, "SELECT id FROM t WITH (INDEX (keyed)) WHERE k IS NOT NULL AND state IN (0, 2) ORDER BY id"),
        ["ROW(Int(1))", "ROW(Int(3))"]
    );
    assert_eq!(errors(&mut s, "SELECT id FROM t WITH (INDEX (none))"), [308]);
}

#[test]
fn forceseek_wants_a_seek() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    assert_eq!(errors(&mut s, "SELECT id FROM t WITH (FORCESEEK) WHERE state = 0 AND k = 'a'"), [8622]);
    assert_eq!(rows(&mut s, "SELECT q FROM t WITH (FORCESEEK) WHERE id = 3"), ["ROW(Int(2))"]);
    assert_eq!(rows(&mut s, "SELECT q FROM t WITH (FORCESEEK (ready (q))) WHERE q = 2 AND state = 0"), ["ROW(Int(2))"]);
    assert_eq!(errors(&mut s, "SELECT q FROM t WITH (FORCESEEK (ready (q, id))) WHERE q = 2 AND state = 0"), [8622]);
    for hints in ["FORCESEEK, FORCESCAN", "FORCESEEK (ready (q)), INDEX (ready)", "FORCESEEK, FORCESEEK"] {
        let sql = format!("SELECT q FROM t WITH ({hints}) WHERE q = 2 AND state = 0");
        assert_eq!(errors(&mut s, &sql), [59000], "{hints}");
    }
}

/// The seek may be by a column of a table that is joined. Source: "Table hints", "FORCESEEK" (MicrosoftDocs/sql-docs,
/// docs/t-sql/queries/hints-transact-sql-table.md), whose example has it on the inner side of a join.
#[test]
fn forceseek_takes_its_seek_from_a_join() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "CREATE TABLE l (id int NOT NULL); INSERT l VALUES (1), (3), (9)");
    let found = ["ROW(Int(1))", "ROW(Int(3))"];
    for from in [
        "t WITH (FORCESEEK) JOIN l ON t.id = l.id",
        "l JOIN t WITH (FORCESEEK) ON t.id = l.id",
        "t WITH (FORCESEEK (1 (id))), l WHERE t.id = l.id",
        "t WITH (FORCESEEK) JOIN (t AS u WITH (FORCESEEK) JOIN l ON u.id = l.id) ON t.id = u.id",
        "(t WITH (FORCESEEK) LEFT JOIN t AS u ON u.id = t.id) JOIN l ON t.id = l.id",
    ] {
        assert_eq!(rows(&mut s, &format!("SELECT l.id FROM {from}")), found, "{from}");
    }
    for sql in [
        "SELECT l.id FROM t WITH (FORCESEEK) JOIN l ON t.id > l.id + t.q",
        "SELECT l.id FROM t WITH (FORCESEEK) JOIN l ON t.id = l.id OPTION (FORCE ORDER)",
    ] {
        assert_eq!(errors(&mut s, sql), [8622], "{sql}");
    }
}

/// A procedure's statements are optimized when it is executed for the first time, not when it is created. Source:
/// "Deferred Name Resolution and Compilation" (SQL Server 2008 Books Online, ms190686).
#[test]
fn hints_of_a_procedure_are_tried_at_its_execution() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "CREATE TABLE seen (id int)");
    ok(&mut s, "CREATE PROCEDURE p AS INSERT seen VALUES (1); SELECT id FROM t WITH (FORCESEEK) WHERE state = 0");
    assert_eq!(errors(&mut s, "EXEC p"), [8622]);
    // It fails before its first statement.
    assert!(rows(&mut s, "SELECT id FROM seen").is_empty());
    assert_eq!(
        rows(&mut s, "BEGIN TRY EXEC p END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"),
        ["ROW(Int(8622))"]
    );
}

#[test]
fn a_seek_does_not_touch_other_rows() {
    let engine = engine();
    let mut a = login(&engine, "sa", "secret");
    let mut b = login(&engine, "sa", "secret");
    ok(&mut a, TABLE);
    ok(&mut a, "BEGIN TRAN; UPDATE t SET state = 2 WHERE id = 3");
    ok(&mut b, "SET LOCK_TIMEOUT 0");
    // By key, by key range, by a list of keys, by joining, and TOP in index order: none of them comes near row 3.
    for sql in [
        "SELECT id FROM t WHERE id = 1",
        "SELECT id FROM t WHERE id < 3",
        "SELECT id FROM t WHERE id IN (1, 2)",
        "SELECT t.id FROM (VALUES (1)) AS v (id) JOIN t ON t.id = v.id",
        "SELECT TOP (1) id FROM t ORDER BY id",
        "SELECT TOP (1) id FROM t WHERE q = 1 AND state = 0 ORDER BY id DESC",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM t WHERE id = 2)",
        "UPDATE t SET k = 'z' WHERE id = 2",
        "DELETE t WHERE id = 2",
        "DECLARE @big bigint = 1; SELECT id FROM t WHERE id = @big",
    ] {
        ok(&mut b, sql);
    }
    assert_eq!(errors(&mut b, "SELECT id FROM t WHERE k = 'a'"), [1222]);
}

#[test]
fn types_that_are_not_the_columns_still_find_its_rows() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    assert_eq!(rows(&mut s, "DECLARE @v bigint = 5000000000; SELECT id FROM t WHERE id = @v"), Vec::<String>::new());
    assert_eq!(rows(&mut s, "DECLARE @v decimal(9, 2) = 2.5; SELECT id FROM t WHERE id > @v"), ["ROW(Int(3))"]);
    assert_eq!(rows(&mut s, "DECLARE @v decimal(9, 2) = 2.5; SELECT id FROM t WHERE id = @v"), Vec::<String>::new());
    assert_eq!(rows(&mut s, "SELECT id FROM t WHERE id = '2'"), ["ROW(Int(2))"]);
    assert_eq!(
        rows(&mut s, "SELECT id FROM t WHERE q = 1 AND k = N'A' AND state < 3 AND k IS NOT NULL"),
        ["ROW(Int(1))"]
    );
}

/// What is not sought cannot be told from the result, but from a locked row that stands in the way of a scan.
#[test]
fn extremes_and_alternatives_are_sought() {
    let engine = engine();
    let connect = || login(&engine, "sa", "secret");
    let (mut a, mut b) = (connect(), connect());
    ok(
        &mut a,
        "CREATE TABLE t (id int PRIMARY KEY, due int NULL, INDEX by_due (due));
         INSERT t VALUES (1, NULL), (2, 20), (3, 30), (4, 40), (5, 50);
         BEGIN TRAN; UPDATE t SET due = 31 WHERE id = 3",
    );
    ok(&mut b, "SET LOCK_TIMEOUT 0");
    for (sql, expected) in [
        ("SELECT MIN(id) FROM t", "ROW(Int(1))"),
        ("SELECT MAX(id) FROM t", "ROW(Int(5))"),
        ("SELECT MIN(due) FROM t", "ROW(Int(20))"),
        ("SELECT MAX(due) FROM t", "ROW(Int(50))"),
        ("SELECT MIN(id) FROM t WHERE id > 3", "ROW(Int(4))"),
        ("SELECT COUNT(*) FROM t WHERE id = 1 OR id = 4 OR id IN (2, 5)", "ROW(Int(4))"),
        ("SELECT MAX(id) FROM t WHERE id < 0", "ROW(Null)"),
    ] {
        assert_eq!(rows(&mut b, sql), [expected], "{sql}");
    }
    assert_eq!(errors(&mut b, "SELECT MAX(id) FROM t WHERE id < 4"), [1222]);
    assert_eq!(rows(&mut b, "SELECT MAX(id) FROM t WITH (READPAST) WHERE id < 4"), ["ROW(Int(2))"]);
}

/// "Table hints are specified in the FROM clause of the DML statement": the list for the target's own WITH has no INDEX
/// and no FORCESEEK ("Table hints", MicrosoftDocs/sql-docs, docs/t-sql/queries/hints-transact-sql-table.md).
#[test]
fn a_joined_target_takes_index_and_forceseek_in_from_only() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "CREATE TYPE list AS TABLE (id int NOT NULL PRIMARY KEY)");
    let joined = |change: &str, condition: &str| {
        format!(
            "DECLARE @l list; INSERT @l VALUES (1), (3), (9);
             {change} FROM @l AS l INNER LOOP JOIN t AS j WITH (ROWLOCK, FORCESEEK, INDEX (1)) ON j.id = l.id {condition}
             OPTION (MAXDOP 1, KEEPFIXED PLAN, FORCE ORDER)"
        )
    };
    assert_eq!(rows(&mut s, &joined("UPDATE j SET k = 'x' OUTPUT inserted.id", "WHERE j.q = 2")), ["ROW(Int(3))"]);
    assert_eq!(rows(&mut s, &joined("DELETE j OUTPUT deleted.id", "WHERE j.q = 1")), ["ROW(Int(1))"]);
    assert_eq!(errors(&mut s, "UPDATE t WITH (ROWLOCK, INDEX (ready)) SET k = 'y' WHERE q = 1 AND state = 0"), [1069]);
    assert_eq!(errors(&mut s, "DELETE t WITH (ROWLOCK, FORCESEEK) WHERE id = 1"), [10724]);
}

#[test]
fn a_target_is_not_sought_by_named_columns() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "CREATE TYPE list AS TABLE (id int NOT NULL PRIMARY KEY)");
    for change in ["UPDATE j SET k = 'x'", "DELETE j"] {
        let joined = |hint: &str| {
            format!(
                "DECLARE @l list; INSERT @l VALUES (1); {change} FROM @l AS l JOIN t AS j WITH ({hint}) ON j.id = l.id"
            )
        };
        ok(&mut s, &joined("ROWLOCK, FORCESEEK (1 (id))"));
    }
    // Nor through a CTE. What is only read may be.
    ok(&mut s, "DELETE t; INSERT t VALUES (1, 1, 0, 'a'), (2, 1, 1, NULL), (3, 2, 0, 'b')");
    let through =
        "WITH c AS (SELECT k FROM t WITH (FORCESEEK (ready (q))) WHERE q = 1 AND state = 0) UPDATE c SET k = 'x'";
    assert_eq!(errors(&mut s, through), [10724]);
    let read =
        "DELETE a FROM t AS a JOIN t AS b WITH (FORCESEEK (ready (q))) ON b.q = 2 AND b.state = 0 WHERE a.id = b.id";
    ok(&mut s, read);
}

/// Source: Microsoft's durabletask-mssql (Scripts/logic.sql), which deletes so in three procedures.
#[test]
fn a_target_in_from_is_sought_by_named_columns() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE ev (hub varchar(9) NOT NULL, id int NOT NULL, n int, CONSTRAINT pk_ev PRIMARY KEY (hub, id));
        INSERT ev VALUES ('a', 1, 0), ('a', 2, 0), ('b', 1, 0)",
    );
    let change = |change: &str, hint: &str| {
        format!(
            "DECLARE @d TABLE (id int NOT NULL); DECLARE @h varchar(9) = 'a'; INSERT @d VALUES (1), (5);
            {change} FROM ev e WITH ({hint}) INNER JOIN @d d ON d.id = e.id AND e.hub = @h"
        )
    };
    let by_key = "FORCESEEK(pk_ev(hub, id))";
    assert_eq!(rows(&mut s, &change("UPDATE e SET n = 5 OUTPUT inserted.hub", by_key)), ["ROW(String(\"a\"))"]);
    assert_eq!(
        rows(&mut s, &change("DELETE e OUTPUT deleted.hub, deleted.id, deleted.n", by_key)),
        ["ROW(String(\"a\"), Int(1), Int(5))"]
    );
    assert_eq!(errors(&mut s, "DELETE e FROM ev e WITH (FORCESEEK(pk_ev(hub))) WHERE id = 1"), [8622]);
    assert_eq!(errors(&mut s, "DELETE ev WITH (FORCESEEK(pk_ev(hub))) WHERE hub = 'a'"), [10724]);
}
