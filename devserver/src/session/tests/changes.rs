//! INSERT, UPDATE and DELETE, and what OUTPUT says of them.

use crate::error::NOT_SUPPORTED;
use crate::session::client_session::Session;
use crate::session::tests::harness::{errors, ok, rows, run, session};

fn items(s: &mut Session) {
    ok(
        s,
        "CREATE TABLE items (id int NOT NULL IDENTITY(1, 1) PRIMARY KEY, name varchar(10) NOT NULL CONSTRAINT items_name UNIQUE,
             price decimal(9, 2) NOT NULL DEFAULT 1.5, total AS price * 2, CONSTRAINT items_price CHECK (price > 0));
         INSERT items (name) VALUES ('a'), ('b'), ('c')",
    );
}

#[test]
fn defaults_identities_and_computed_columns_are_filled_in() {
    let (_e, mut s) = session();
    items(&mut s);
    let found =
        rows(&mut s, "SELECT id, CAST(price AS varchar(10)), CAST(total AS varchar(10)) FROM items ORDER BY id");
    assert_eq!(found[2], "ROW(Int(3), String(\"1.50\"), String(\"3.00\"))");
    let identity =
        rows(&mut s, "INSERT items (name) VALUES ('d'); SELECT CAST(SCOPE_IDENTITY() AS int), CAST(@@IDENTITY AS int)");
    assert_eq!(identity, ["ROW(Int(4), Int(4))"]);
    assert_eq!(errors(&mut s, "INSERT items (id, name) VALUES (9, 'x')"), [544]);
    ok(
        &mut s,
        "SET IDENTITY_INSERT items ON; INSERT items (id, name) VALUES (9, 'x'); SET IDENTITY_INSERT items OFF; INSERT items (name) VALUES ('y')",
    );
    assert_eq!(rows(&mut s, "SELECT MAX(id) FROM items"), ["ROW(Int(10))"]);
}

#[test]
fn a_failed_statement_leaves_nothing_behind() {
    let (_e, mut s) = session();
    items(&mut s);
    assert_eq!(errors(&mut s, "INSERT items (name) VALUES ('x'), ('y'), ('a')"), [2627]);
    assert_eq!(errors(&mut s, "UPDATE items SET price = id - 2"), [547]);
    assert_eq!(errors(&mut s, "INSERT items (name) VALUES (NULL)"), [515]);
    assert_eq!(errors(&mut s, "INSERT items (name) VALUES ('much too long a name')"), [2628]);
    assert_eq!(
        rows(&mut s, "SELECT COUNT(*), CAST(SUM(price) AS varchar(10)) FROM items"),
        ["ROW(Int(3), String(\"4.50\"))"]
    );
}

#[test]
fn output_shows_the_old_and_the_new_row() {
    let (_e, mut s) = session();
    items(&mut s);
    assert_eq!(
        rows(&mut s, "UPDATE items SET name = name + 'x' OUTPUT deleted.name, inserted.name WHERE id = 2"),
        ["ROW(String(\"b\"), String(\"bx\"))"]
    );
    assert_eq!(
        rows(
            &mut s,
            "DECLARE @o TABLE (id int, what char(3)); DELETE items OUTPUT deleted.id, 'del' INTO @o WHERE id > 1; SELECT * FROM @o ORDER BY id"
        ),
        ["ROW(Int(2), String(\"del\"))", "ROW(Int(3), String(\"del\"))"]
    );
    assert_eq!(
        rows(&mut s, "INSERT items (name) OUTPUT inserted.id, inserted.name VALUES ('p'), ('q')"),
        ["ROW(Int(4), String(\"p\"))", "ROW(Int(5), String(\"q\"))"]
    );
}

#[test]
fn changes_go_through_ctes_and_joins() {
    let (_e, mut s) = session();
    items(&mut s);
    ok(&mut s, "WITH newest AS (SELECT TOP (2) id, price FROM items ORDER BY id DESC) UPDATE newest SET price = 7");
    assert_eq!(rows(&mut s, "SELECT id FROM items WHERE price = 7 ORDER BY id"), ["ROW(Int(2))", "ROW(Int(3))"]);
    ok(
        &mut s,
        "DECLARE @l TABLE (id int PRIMARY KEY, p int); INSERT @l VALUES (1, 10), (3, 30), (9, 90);
                UPDATE i SET price = l.p FROM @l AS l INNER LOOP JOIN items AS i ON i.id = l.id",
    );
    assert_eq!(
        rows(&mut s, "SELECT id FROM items WHERE price IN (10, 30) ORDER BY id"),
        ["ROW(Int(1))", "ROW(Int(3))"]
    );
    ok(
        &mut s,
        "WITH numbered AS (SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS n FROM items) DELETE numbered WHERE n > 1",
    );
    assert_eq!(rows(&mut s, "SELECT id FROM items"), ["ROW(Int(1))"]);
    ok(&mut s, "DELETE FROM items FROM (VALUES (1), (2)) AS v (id) WHERE v.id = items.id");
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM items"), ["ROW(Int(0))"]);
}

#[test]
fn a_row_that_matches_twice_changes_once() {
    let (_e, mut s) = session();
    items(&mut s);
    let count = run(&mut s, "UPDATE i SET price += 1 FROM items i JOIN (VALUES (1), (1)) AS v (id) ON v.id = i.id");
    assert!(count.contains(&"DONE(count=1)".to_string()), "{count:?}");
    assert_eq!(rows(&mut s, "SELECT CAST(price AS varchar(9)) FROM items WHERE id = 1"), ["ROW(String(\"2.50\"))"]);
}

#[test]
fn a_statement_does_not_meet_its_own_changes() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE n (n int NOT NULL PRIMARY KEY); INSERT n VALUES (1), (2), (3)");
    ok(&mut s, "UPDATE n SET n = n + 1");
    ok(&mut s, "INSERT n SELECT n + 10 FROM n");
    assert_eq!(rows(&mut s, "SELECT COUNT(*), MAX(n) FROM n"), ["ROW(Int(6), Int(14))"]);
}

#[test]
fn table_variables_survive_a_rollback() {
    let (_e, mut s) = session();
    let sql = "DECLARE @t TABLE (a int); CREATE TABLE #t (a int); BEGIN TRAN; INSERT @t VALUES (1); INSERT #t VALUES (1); ROLLBACK;
               SELECT (SELECT COUNT(*) FROM @t), (SELECT COUNT(*) FROM #t)";
    assert_eq!(rows(&mut s, sql), ["ROW(Int(1), Int(0))"]);
}

#[test]
fn a_procedure_fills_a_table() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE PROCEDURE two AS SELECT 1, 'a' UNION ALL SELECT 2, 'b'");
    ok(
        &mut s,
        "DECLARE @t TABLE (n int, c char(1)); INSERT @t EXEC two; IF (SELECT SUM(n) FROM @t) <> 3 THROW 50000, 'wrong', 1",
    );
    assert_eq!(errors(&mut s, "DECLARE @t TABLE (n int); INSERT @t EXEC two"), [213]);
}

#[test]
fn a_table_variable_is_as_it_is_under_every_isolation_level() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE DATABASE versions");
    ok(&mut s, "USE versions; CREATE TABLE t (n int NOT NULL)");
    ok(&mut s, "ALTER DATABASE versions SET ALLOW_SNAPSHOT_ISOLATION ON");
    ok(&mut s, "ALTER DATABASE versions SET READ_COMMITTED_SNAPSHOT ON");
    for level in ["READ UNCOMMITTED", "READ COMMITTED", "SNAPSHOT", "SERIALIZABLE"] {
        let found = rows(
            &mut s,
            &format!(
                "SET TRANSACTION ISOLATION LEVEL {level};
                 DECLARE @v TABLE (n int NOT NULL PRIMARY KEY, INDEX by_n UNIQUE (n));
                 BEGIN TRANSACTION;
                 DECLARE @n int = (SELECT COUNT(*) FROM t);
                 INSERT @v VALUES (1), (2), (3);
                 UPDATE @v SET n = n + 1 OUTPUT inserted.n;
                 DELETE @v WHERE n = 2;
                 ROLLBACK;
                 IF EXISTS (SELECT 1 FROM @v WHERE n = 4) SELECT n FROM @v ORDER BY n"
            ),
        );
        assert_eq!(found[3..], ["ROW(Int(3))", "ROW(Int(4))"], "{level}: {found:?}");
    }
}

#[test]
fn output_computes_of_large_values_what_it_is_asked_for() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, payload varbinary(max) NULL); INSERT t VALUES (1, 0x0102), (2, NULL)",
    );
    let change = |wanted: u8| {
        format!(
            "DECLARE @wanted bit = {wanted}; UPDATE t SET id = id
             OUTPUT inserted.id, DATALENGTH(inserted.payload) AS bytes, CASE WHEN @wanted = 1 THEN inserted.payload END AS payload"
        )
    };
    assert_eq!(rows(&mut s, &change(1)), ["ROW(Int(1), BigInt(2), Bytes([1, 2]))", "ROW(Int(2), Null, Null)"]);
    assert_eq!(rows(&mut s, &change(0)), ["ROW(Int(1), BigInt(2), Null)", "ROW(Int(2), Null, Null)"]);
}

/// Source: "UPDATE" and "DELETE", FROM (MicrosoftDocs/sql-docs, docs/t-sql/queries/update-transact-sql.md).
#[test]
fn a_target_may_have_an_alias_in_from() {
    let (_e, mut s) = session();
    items(&mut s);
    ok(
        &mut s,
        "CREATE TABLE other (id int NOT NULL); INSERT other VALUES (1), (3);
         EXEC('CREATE VIEW cheap AS SELECT id, name FROM items WHERE price < 9')",
    );
    let names = |s: &mut Session| rows(s, "SELECT name FROM items ORDER BY id").join(" ");
    ok(&mut s, "UPDATE items SET name = 'x' FROM items AS i WHERE i.id = 1");
    ok(&mut s, "UPDATE dbo.items SET name = 'y' FROM other AS o JOIN items AS i ON i.id = o.id WHERE o.id = 3");
    assert_eq!(names(&mut s), "ROW(String(\"x\")) ROW(String(\"b\")) ROW(String(\"y\"))");
    ok(&mut s, "UPDATE cheap SET name = i.name + 'c' FROM dbo.cheap AS i WHERE i.id = 2");
    ok(&mut s, "DELETE items FROM items AS i JOIN other AS o ON o.id = i.id WHERE o.id = 3");
    assert_eq!(names(&mut s), "ROW(String(\"x\")) ROW(String(\"bc\"))");
    ok(&mut s, "WITH c AS (SELECT id FROM items) DELETE c FROM c AS d WHERE d.id = 1");
    assert_eq!(names(&mut s), "ROW(String(\"bc\"))");
    let variable =
        "DECLARE @t TABLE (a int); INSERT @t VALUES (1), (2); DELETE @t FROM @t AS t WHERE t.a = 1; SELECT a FROM @t";
    assert_eq!(rows(&mut s, variable), ["ROW(Int(2))"]);
    // Without an alias it is the target, with one it is not.
    ok(
        &mut s,
        "INSERT items (name) VALUES ('d'); UPDATE items SET name = 'z' FROM items JOIN items AS i ON i.id > items.id",
    );
    assert_eq!(names(&mut s), "ROW(String(\"z\")) ROW(String(\"d\"))");
    assert_eq!(errors(&mut s, "UPDATE items SET name = 'q' FROM items AS a JOIN items AS b ON a.id = b.id"), [8154]);
    let derived = "UPDATE items SET name = 'q' FROM (SELECT MAX(id) AS id FROM items) AS d WHERE d.id = items.id";
    ok(&mut s, derived);
    assert_eq!(names(&mut s), "ROW(String(\"z\")) ROW(String(\"q\"))");
}

/// A table in FROM is another one than the target if it stands in another schema ("UPDATE", FROM,
/// docs/t-sql/queries/update-transact-sql.md, speaks of the same object only).
#[test]
fn a_target_is_not_taken_for_a_table_of_another_schema() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE SCHEMA other");
    ok(&mut s, "CREATE TABLE t (a int); CREATE TABLE other.t (a int); INSERT t VALUES (1); INSERT other.t VALUES (2)");
    assert_eq!(errors(&mut s, "UPDATE t SET a = 7 FROM other.t"), [NOT_SUPPORTED]);
    assert_eq!(errors(&mut s, "DELETE t FROM other.t"), [NOT_SUPPORTED]);
    ok(
        &mut s,
        "UPDATE t SET a = 3 FROM dbo.t; UPDATE other.t SET a = 4 FROM other.t; UPDATE t SET a += 5 FROM other.t AS t",
    );
    assert_eq!(rows(&mut s, "SELECT a FROM dbo.t; SELECT a FROM other.t"), ["ROW(Int(3))", "ROW(Int(9))"]);
}
