//! Computed columns: evaluated when they are read.
//!
//! Source: "Specify Computed Columns in a Table" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/tables/specify-computed-columns-in-a-table.md); "Their values are recalculated every time
//! they are referenced in a query" ("Computed Columns", SQL Server 2008 Books Online, ms191250).

use crate::session::tests::harness::{errors, ok, rows, script, session};

#[test]
fn an_expression_fails_when_it_is_read_and_not_before() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int, b AS 10 / a, c AS CAST('x' + CAST(a AS char(1)) AS int))",
    );
    ok(&mut s, "INSERT t VALUES (1, 2), (2, 0); UPDATE t SET a = a + 0");
    assert_eq!(rows(&mut s, "SELECT id, b FROM t WHERE id = 1"), ["ROW(Int(1), Int(5))"]);
    assert_eq!(rows(&mut s, "SELECT id FROM t ORDER BY id").len(), 2);
    for reader in [
        "SELECT b FROM t",
        "SELECT id FROM t WHERE b = 3",
        "SELECT id FROM t ORDER BY b",
        "SELECT MAX(b) FROM t",
        "UPDATE t SET a = b",
        "UPDATE t SET a = 1 OUTPUT deleted.b",
        "DELETE t OUTPUT deleted.b",
        "SELECT b FROM (SELECT * FROM t) AS d",
        "MERGE t USING (VALUES (2)) AS v (id) ON v.id = t.id WHEN MATCHED AND t.b > 1 THEN UPDATE SET a = 1;",
    ] {
        assert_eq!(errors(&mut s, reader), [8134], "{reader}");
    }
    assert_eq!(errors(&mut s, "SELECT c FROM t"), [245]);
    assert_eq!(errors(&mut s, "INSERT t OUTPUT inserted.b VALUES (3, 0)"), [8134]);
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM t"), ["ROW(Int(2))"]);
}

#[test]
fn they_are_columns_wherever_they_are_named() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int, twice AS a * 2, known AS ISNULL(a, 0))
GO
        INSERT t VALUES (1, 3), (2, 4), (3, NULL)
GO
        CREATE VIEW v AS SELECT id, a, twice AS doubled FROM t",
    );
    let one = |text: &str| [format!("ROW({text})")];
    assert_eq!(rows(&mut s, "SELECT id FROM t WHERE twice = 8"), one("Int(2)"));
    assert_eq!(rows(&mut s, "SELECT TOP (1) id FROM t ORDER BY twice DESC"), one("Int(2)"));
    assert_eq!(rows(&mut s, "SELECT doubled FROM v WHERE doubled > 6 AND id = 2"), one("Int(8)"));
    assert_eq!(rows(&mut s, "SELECT twice, COUNT(*) FROM t GROUP BY twice HAVING twice = 6"), one("Int(6), Int(1)"));
    assert_eq!(rows(&mut s, "SELECT SUM(known) FROM t"), one("Int(7)"));
    assert_eq!(
        rows(&mut s, "UPDATE t SET a = twice OUTPUT deleted.twice, inserted.twice WHERE id = 1"),
        one("Int(6), Int(12)")
    );
    assert_eq!(rows(&mut s, "UPDATE v SET a = doubled OUTPUT inserted.doubled WHERE id = 1"), one("Int(24)"));
    assert_eq!(rows(&mut s, "INSERT t OUTPUT inserted.known VALUES (4, 9)"), one("Int(9)"));
    assert_eq!(rows(&mut s, "DELETE t OUTPUT deleted.twice WHERE id = 4"), one("Int(18)"));
    assert_eq!(
        rows(
            &mut s,
            "MERGE t USING (VALUES (2)) AS v (id) ON v.id = t.id WHEN MATCHED THEN UPDATE SET a = twice OUTPUT inserted.twice, deleted.twice;"
        ),
        one("Int(16), Int(8)")
    );
    assert_eq!(
        rows(&mut s, "DECLARE c CURSOR FOR SELECT twice FROM t WHERE id = 2; OPEN c; FETCH NEXT FROM c; DEALLOCATE c"),
        ["ROW(Int(16))"]
    );
    assert_eq!(rows(&mut s, "SELECT twice INTO copies FROM t WHERE id = 2; SELECT * FROM copies"), one("Int(16)"));
    for change in ["UPDATE t SET twice = 1", "INSERT t (id, twice) VALUES (9, 1)", "UPDATE t SET twice += 1"] {
        assert_eq!(errors(&mut s, change), [271], "{change}");
    }
    assert_eq!(errors(&mut s, "SELECT twice FROM t GROUP BY a"), [8120]);
    assert_eq!(errors(&mut s, "SELECT id FROM t ORDER BY twice, twice"), [169]);
    assert_eq!(
        rows(
            &mut s,
            "SELECT is_persisted, COLUMNPROPERTY(object_id, name, 'IsComputed') FROM sys.computed_columns WHERE name = 'known'"
        ),
        one("Bit(false), Int(1)")
    );
}

/// A side of an outer join without a row has NULL in all its columns ("FROM", docs/t-sql/queries/from-transact-sql.md).
#[test]
fn outer_joins_without_a_partner_have_null_in_them() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int, known AS ISNULL(a, 0)); INSERT t VALUES (1, NULL)");
    let expected = ["ROW(Int(1), Int(0))", "ROW(Int(2), Null)"];
    for join in ["LEFT JOIN t", "LEFT JOIN (SELECT id, known FROM t) AS t"] {
        let sql = format!("SELECT n.id, t.known FROM (VALUES (1), (2)) AS n (id) {join} ON t.id = n.id ORDER BY n.id");
        assert_eq!(rows(&mut s, &sql), expected, "{join}");
    }
    let apply = "SELECT n.id, x.known FROM (VALUES (1), (2)) AS n (id)
        OUTER APPLY (SELECT known FROM t WHERE t.id = n.id) AS x ORDER BY n.id";
    assert_eq!(rows(&mut s, apply), expected);
    assert_eq!(
        rows(&mut s, "SELECT n.id FROM (VALUES (1), (2)) AS n (id) LEFT JOIN t ON t.id = n.id WHERE t.known IS NULL"),
        ["ROW(Int(2))"]
    );
    // So has an expression that reads no column.
    ok(&mut s, "CREATE TABLE k (id int NOT NULL PRIMARY KEY, one AS 1, now AS GETDATE()); INSERT k VALUES (1)");
    let from = "FROM (VALUES (1), (2)) AS n (id) LEFT JOIN k ON k.id = n.id";
    assert_eq!(rows(&mut s, &format!("SELECT n.id {from} WHERE k.one = 1")), ["ROW(Int(1))"]);
    assert_eq!(rows(&mut s, &format!("SELECT n.id {from} WHERE k.one IS NULL")), ["ROW(Int(2))"]);
    assert_eq!(rows(&mut s, &format!("SELECT n.id {from} WHERE k.now IS NULL")), ["ROW(Int(2))"]);
    assert_eq!(rows(&mut s, &format!("SELECT k.one {from} ORDER BY n.id DESC")), ["ROW(Null)", "ROW(Int(1))"]);
    ok(&mut s, "CREATE TABLE target (id int, v int); INSERT target (id) VALUES (1), (2)");
    ok(&mut s, "UPDATE x SET v = k.one FROM target AS x LEFT JOIN k ON k.id = x.id");
    assert_eq!(rows(&mut s, "SELECT v FROM target ORDER BY id"), ["ROW(Int(1))", "ROW(Null)"]);
}

#[test]
fn triggers_and_table_variables_have_them() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int, b AS 10 / a, more AS a + 1)
GO
        CREATE TABLE log (b int, more int)
GO
        CREATE TRIGGER tr ON t AFTER INSERT AS INSERT log SELECT b, more FROM inserted WHERE a <> 0",
    );
    ok(&mut s, "INSERT t (id, a) VALUES (1, 5)");
    assert_eq!(rows(&mut s, "SELECT * FROM log"), ["ROW(Int(2), Int(6))"]);
    assert_eq!(
        rows(&mut s, "DECLARE @v TABLE (a int, b AS 10 / a); INSERT @v VALUES (0), (5); SELECT b FROM @v WHERE a > 0"),
        ["ROW(Int(2))"]
    );
    assert_eq!(errors(&mut s, "DECLARE @v TABLE (a int, b AS 10 / a); INSERT @v VALUES (0); SELECT b FROM @v"), [8134]);
}

/// "Computed columns used as CHECK, FOREIGN KEY, or NOT NULL constraints must be marked PERSISTED" (ms191250); 1764:
/// docs/relational-databases/errors-events/database-engine-events-and-errors-1000-to-1999.md. No page says that 1750
/// follows here too.
#[test]
fn they_are_not_kept_for_indexes_and_constraints() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE p (id int NOT NULL PRIMARY KEY, b AS id * 2)");
    assert_eq!(errors(&mut s, "CREATE TABLE t (a int, b AS a * 2, CONSTRAINT c CHECK (b > 1))"), [1764, 1750]);
    assert_eq!(errors(&mut s, "CREATE TABLE t (a int, b AS a * 2, FOREIGN KEY (b) REFERENCES p (id))"), [1764, 1750]);
    for sql in [
        "CREATE TABLE t (a int, b AS a * 2 PERSISTED)",
        "CREATE TABLE t (a int, b AS a * 2, INDEX i (b))",
        "CREATE TABLE t (a int, b AS ISNULL(a, 0) PRIMARY KEY)",
        "CREATE INDEX i ON p (id) INCLUDE (b)",
        "ALTER TABLE p ADD UNIQUE (b)",
        "DECLARE @v TABLE (a int, b AS a * 2 UNIQUE)",
    ] {
        assert_eq!(errors(&mut s, sql)[0], 59000, "{sql}");
    }
}

/// "An expression that is nullable can be turned into a nonnullable one by specifying ISNULL with the check_expression
/// constant." Source: "CREATE TABLE" (MicrosoftDocs/sql-docs, docs/t-sql/statements/create-table-transact-sql.md).
#[test]
fn isnull_with_a_constant_is_never_null() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int, c AS ISNULL(a * 2, 0), d AS a * 2); ALTER TABLE t ADD f AS ISNULL(a, 3)");
    let nullable =
        "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('t') AND is_nullable = 1 ORDER BY column_id";
    let expected = ["a", "d"].map(|name| format!("ROW(String(\"{name}\"))"));
    assert_eq!(rows(&mut s, nullable), expected);
}
