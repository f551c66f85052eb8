//! INSTEAD OF triggers. Source: "CREATE TRIGGER" and "Use the inserted and deleted Tables" (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/create-trigger-transact-sql.md,
//! docs/relational-databases/triggers/use-the-inserted-and-deleted-tables.md).

use crate::error::NOT_SUPPORTED;
use crate::session::tests::harness::{errors, ok, rows, run, script, session};

const TABLES: &str = "CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int NOT NULL, kept AS a + 1); INSERT t VALUES (1, 5), (2, 6), (3, 7)
GO
CREATE TABLE log (what varchar(10), id int, kept int, n int)
GO
CREATE TRIGGER t_del ON t INSTEAD OF DELETE AS
BEGIN
    INSERT log SELECT 'old', id, kept, @@ROWCOUNT FROM deleted
    DELETE t WHERE id IN (SELECT id FROM deleted) AND id <> 3
END
GO
CREATE TRIGGER t_after ON t AFTER DELETE AS INSERT log (what, id) SELECT 'after', id FROM deleted";

#[test]
fn a_trigger_stands_for_the_delete() {
    let (_e, mut s) = session();
    script(&mut s, TABLES);
    // Its own statement goes to the table.
    let tokens = run(&mut s, "DELETE t FROM t JOIN (VALUES (1), (1), (3)) AS v (id) ON v.id = t.id");
    assert_eq!(tokens.last().map(String::as_str), Some("DONE(count=2)"), "{tokens:?}");
    assert_eq!(
        rows(&mut s, "SELECT * FROM log ORDER BY what DESC, id; SELECT id FROM t"),
        [
            "ROW(String(\"old\"), Int(1), Int(6), Int(2))",
            "ROW(String(\"old\"), Int(3), Int(8), Int(2))",
            "ROW(String(\"after\"), Int(1), Null, Null)",
            "ROW(Int(2))",
            "ROW(Int(3))",
        ]
    );
    assert_eq!(errors(&mut s, "DELETE t OUTPUT deleted.id"), [334]);
    ok(&mut s, "DISABLE TRIGGER t_del ON t; DELETE t; ENABLE TRIGGER t_del ON t");
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM t"), ["ROW(Int(0))"]);
}

/// 2111 and 2114: docs/relational-databases/errors-events/database-engine-events-and-errors-2000-to-2999.md; 140:
/// …-0-to-999.md.
#[test]
fn what_cannot_stand_beside_it() {
    let (_e, mut s) = session();
    script(&mut s, TABLES);
    script(
        &mut s,
        "CREATE TABLE c (id int NOT NULL PRIMARY KEY, t int REFERENCES t (id) ON DELETE CASCADE)
GO
CREATE VIEW v AS SELECT id FROM t",
    );
    let tokens = run(&mut s, "CREATE TRIGGER more ON t INSTEAD OF DELETE AS RETURN");
    let text =
        "Cannot create trigger 'more' on table 't' because an INSTEAD OF DELETE trigger already exists on this object.";
    assert!(tokens[0].contains(text), "{tokens:?}");
    for (sql, number) in [
        ("CREATE TRIGGER x ON c INSTEAD OF DELETE AS RETURN", NOT_SUPPORTED),
        ("CREATE TRIGGER x ON v INSTEAD OF DELETE AS RETURN", NOT_SUPPORTED),
        ("CREATE TRIGGER x ON t INSTEAD OF INSERT AS RETURN", NOT_SUPPORTED),
        ("CREATE TRIGGER x ON t INSTEAD OF UPDATE, DELETE AS RETURN", NOT_SUPPORTED),
        ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES c (id) ON DELETE CASCADE", NOT_SUPPORTED),
        ("CREATE TRIGGER x ON v AFTER INSERT AS RETURN", 8197),
        ("CREATE TRIGGER x ON c AFTER INSERT AS IF UPDATE(nothing) RETURN", 207),
        ("CREATE TRIGGER x ON t AFTER UPDATE AS IF UPDATE(kept) RETURN", 2114),
        ("IF UPDATE(a) PRINT 'no'", 140),
    ] {
        assert_eq!(errors(&mut s, sql), [number], "{sql}");
    }
}
