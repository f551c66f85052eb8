//! AFTER triggers. Source: "CREATE TRIGGER" (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/create-trigger-transact-sql.md) and the pages it names.

use crate::session::tests::harness::{errors, ok, rows, script, session};

const TABLES: &str = "CREATE TABLE orders (id int NOT NULL IDENTITY PRIMARY KEY, state varchar(10) NOT NULL, n int NOT NULL DEFAULT 0)
GO
CREATE TABLE queue (id bigint NOT NULL IDENTITY (100, 1) PRIMARY KEY, what varchar(20) NOT NULL, old varchar(10) NULL, new varchar(10) NULL)
GO
CREATE TRIGGER orders_changed ON orders AFTER INSERT, UPDATE, DELETE AS
SET NOCOUNT ON
IF @@ROWCOUNT = 0 AND NOT EXISTS (SELECT 1 FROM inserted) AND NOT EXISTS (SELECT 1 FROM deleted) RETURN
INSERT queue (what, old, new)
SELECT CASE WHEN d.id IS NULL THEN 'insert' WHEN i.id IS NULL THEN 'delete' ELSE 'update' END, d.state, i.state
FROM (SELECT id FROM inserted UNION SELECT id FROM deleted) AS k
LEFT JOIN inserted AS i ON i.id = k.id LEFT JOIN deleted AS d ON d.id = k.id";

#[test]
fn a_trigger_feeds_a_queue() {
    let (_e, mut s) = session();
    script(&mut s, TABLES);
    ok(&mut s, "INSERT orders (state) VALUES ('new'), ('old')");
    ok(&mut s, "UPDATE orders SET state = 'paid' WHERE state = 'new'; DELETE orders WHERE state = 'old'");
    assert_eq!(
        rows(&mut s, "SELECT what, old, new FROM queue ORDER BY id"),
        [
            "ROW(String(\"insert\"), Null, String(\"new\"))",
            "ROW(String(\"insert\"), Null, String(\"old\"))",
            "ROW(String(\"update\"), String(\"new\"), String(\"paid\"))",
            "ROW(String(\"delete\"), String(\"old\"), Null)",
        ]
    );
}

#[test]
fn trigger_and_statement_are_one_transaction() {
    let (_e, mut s) = session();
    script(&mut s, TABLES);
    script(
        &mut s,
        "CREATE TRIGGER no_negative ON orders FOR INSERT AS
         IF EXISTS (SELECT 1 FROM inserted WHERE n < 0)
         BEGIN
             ROLLBACK TRANSACTION
             RAISERROR ('negative', 16, 1)
         END",
    );
    // "The transaction ended in the trigger. The batch has been aborted."
    assert_eq!(
        errors(&mut s, "INSERT orders (state, n) VALUES ('x', -1); INSERT orders (state) VALUES ('y')"),
        [50000, 3609]
    );
    assert_eq!(rows(&mut s, "SELECT COUNT(*), @@TRANCOUNT FROM orders"), ["ROW(Int(0), Int(0))"]);
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM queue"), ["ROW(Int(0))"]);
    assert_eq!(
        errors(&mut s, "BEGIN TRAN; INSERT orders (state) VALUES ('y'); INSERT orders (state, n) VALUES ('x', -1)"),
        [50000, 3609]
    );
    assert_eq!(rows(&mut s, "SELECT COUNT(*), @@TRANCOUNT FROM orders"), ["ROW(Int(0), Int(0))"]);
}

#[test]
fn an_error_in_a_trigger_takes_everything_back() {
    let (_e, mut s) = session();
    script(&mut s, TABLES);
    script(&mut s, "CREATE TRIGGER fails ON orders AFTER UPDATE AS INSERT queue (what) VALUES (NULL)");
    ok(&mut s, "INSERT orders (state) VALUES ('new')");
    assert_eq!(errors(&mut s, "UPDATE orders SET state = 'x'; SELECT 1"), [515]);
    assert_eq!(rows(&mut s, "SELECT state FROM orders"), ["ROW(String(\"new\"))"]);
    // Under TRY the error is caught, and the transaction can only be rolled back (XACT_ABORT is ON in a trigger).
    let caught = "BEGIN TRAN; BEGIN TRY UPDATE orders SET state = 'x' END TRY
                  BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE(), ERROR_PROCEDURE(); ROLLBACK END CATCH";
    assert_eq!(rows(&mut s, caught), ["ROW(Int(515), SmallInt(-1), String(\"dbo.fails\"))"]);
    let caught =
        "BEGIN TRY UPDATE orders SET state = 'x' END TRY BEGIN CATCH SELECT ERROR_NUMBER(), @@TRANCOUNT END CATCH";
    assert_eq!(rows(&mut s, caught), ["ROW(Int(515), Int(0))"]);
    ok(&mut s, "DISABLE TRIGGER fails ON orders; UPDATE orders SET state = 'x'");
    ok(&mut s, "ENABLE TRIGGER ALL ON orders");
    assert_eq!(errors(&mut s, "UPDATE orders SET state = 'y'"), [515]);
    ok(&mut s, "DROP TRIGGER fails; UPDATE orders SET state = 'y'");
}

#[test]
fn what_a_trigger_knows() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE TABLE t (a int NOT NULL PRIMARY KEY, b int NULL); CREATE TABLE log (what varchar(40), n int)
GO
CREATE TRIGGER t_log ON t AFTER INSERT, UPDATE AS
INSERT log VALUES ('rows', @@ROWCOUNT), ('trancount', @@TRANCOUNT), ('nest', @@NESTLEVEL)
-- Not recursive: RECURSIVE_TRIGGERS is OFF.
UPDATE t SET b = b + 1 WHERE a IN (SELECT a FROM inserted)
INSERT log SELECT 'old b', b FROM deleted",
    );
    ok(&mut s, "INSERT t VALUES (1, 1), (2, 2)");
    let log = "SELECT n FROM log WHERE what = ";
    assert_eq!(rows(&mut s, &format!("{log}'rows'")), ["ROW(Int(2))"]);
    assert_eq!(rows(&mut s, &format!("{log}'trancount'")), ["ROW(Int(1))"]);
    assert_eq!(rows(&mut s, &format!("{log}'nest'")), ["ROW(Int(1))"]);
    assert!(rows(&mut s, "SELECT what FROM log WHERE what = 'old b'").is_empty());
    assert_eq!(
        rows(&mut s, "TRUNCATE TABLE log; UPDATE t SET b = 10 WHERE a = 1; SELECT b FROM t"),
        ["ROW(Int(11))", "ROW(Int(3))"]
    );
    assert_eq!(rows(&mut s, "SELECT what, n FROM log WHERE what = 'old b'"), ["ROW(String(\"old b\"), Int(2))"]);
    // It fires for no rows too.
    ok(&mut s, "TRUNCATE TABLE log; UPDATE t SET b = 1 WHERE a = 99");
    assert_eq!(rows(&mut s, &format!("{log}'rows'")), ["ROW(Int(0))"]);
}

#[test]
fn identities_and_counts_of_a_trigger_are_its_own() {
    let (_e, mut s) = session();
    script(&mut s, TABLES);
    let facts = "INSERT orders (state) VALUES ('a'), ('b'); SELECT @@ROWCOUNT, CAST(@@IDENTITY AS int), CAST(SCOPE_IDENTITY() AS int)";
    assert_eq!(rows(&mut s, facts), ["ROW(Int(2), Int(101), Int(2))"]);
}

#[test]
fn output_cannot_go_to_the_client_beside_a_trigger() {
    let (_e, mut s) = session();
    script(&mut s, TABLES);
    assert_eq!(errors(&mut s, "INSERT orders (state) OUTPUT inserted.id VALUES ('a')"), [334]);
    assert_eq!(errors(&mut s, "INSERT queue (what) OUTPUT inserted.what INTO orders (state) VALUES ('a')"), [331]);
    let into = "DECLARE @ids TABLE (id int); INSERT orders (state) OUTPUT inserted.id INTO @ids VALUES ('a'); SELECT id FROM @ids";
    assert_eq!(rows(&mut s, into), ["ROW(Int(1))"]);
    ok(&mut s, "DISABLE TRIGGER orders_changed ON orders");
    assert_eq!(rows(&mut s, "INSERT orders (state) OUTPUT inserted.id VALUES ('a')"), ["ROW(Int(2))"]);
}

#[test]
fn what_cannot_be_a_trigger() {
    let (_e, mut s) = session();
    script(&mut s, TABLES);
    assert_eq!(errors(&mut s, "CREATE TRIGGER x ON nothing AFTER INSERT AS SELECT 1"), [8197]);
    assert_eq!(errors(&mut s, "CREATE TRIGGER orders_changed ON orders AFTER INSERT AS SELECT 1"), [2714]);
    assert_eq!(errors(&mut s, "CREATE TRIGGER x ON orders AFTER INSERT AS SELECT nothing FROM inserted"), [207]);
    assert_eq!(errors(&mut s, "DROP TRIGGER nothing"), [3701]);
    ok(&mut s, "DROP TRIGGER IF EXISTS nothing; DROP TABLE orders; SELECT 1");
    assert_eq!(rows(&mut s, "SELECT OBJECT_ID('orders_changed', 'TR')"), ["ROW(Null)"]);
}

#[test]
fn a_trigger_does_not_change_the_definition_of_its_table() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (a int NOT NULL, b int NULL); CREATE INDEX t_a ON t (a); CREATE TABLE other (a int NULL)",
    );
    for ddl in [
        "DROP TABLE t",
        "ALTER TABLE t ADD c int NULL",
        "ALTER TABLE t DROP COLUMN b",
        "CREATE INDEX t_b ON t (b)",
        "DROP INDEX t_a ON t",
        "ALTER INDEX t_a ON t SET (ALLOW_PAGE_LOCKS = OFF)",
        "EXEC sp_rename 't.b', 'c', 'COLUMN'",
        "EXEC ('DROP TABLE t')",
    ] {
        ok(&mut s, &format!("CREATE TRIGGER t_changed ON t AFTER INSERT AS {ddl}"));
        assert_eq!(errors(&mut s, "INSERT t VALUES (1, 1)"), [59000], "{ddl}");
        assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM t; DROP TRIGGER t_changed"), ["ROW(Int(0))"]);
    }
    ok(&mut s, "CREATE TRIGGER t_changed ON t AFTER INSERT AS ALTER TABLE other ADD b int NULL");
    ok(&mut s, "INSERT t VALUES (1, 1)");
    ok(&mut s, "INSERT other VALUES (1, 1)");
}

// "Primary and foreign key constraints", "Triggers and cascading referential actions": a trigger of a table in the
// chain fires where rows of it are affected. That is not done here, so it is not left out either.
#[test]
fn a_cascade_does_not_pass_over_triggers() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE TABLE parent (id int NOT NULL PRIMARY KEY);
CREATE TABLE child (id int NULL REFERENCES parent ON DELETE CASCADE);
INSERT parent VALUES (1), (2), (3);
INSERT child VALUES (1), (2)
GO
CREATE TRIGGER gone ON child AFTER DELETE AS RETURN
GO
CREATE TRIGGER come ON child AFTER INSERT AS RETURN",
    );
    assert_eq!(errors(&mut s, "DELETE parent WHERE id = 1"), [59000]);
    ok(&mut s, "DELETE parent WHERE id = 3; DISABLE TRIGGER gone ON child; DELETE parent WHERE id = 1");
    assert_eq!(rows(&mut s, "SELECT id FROM child"), ["ROW(Int(2))"]);
}

#[test]
fn a_rollback_takes_back_what_was_done_to_triggers() {
    let (_e, mut s) = session();
    script(&mut s, TABLES);
    ok(&mut s, "BEGIN TRAN; DISABLE TRIGGER orders_changed ON orders; ROLLBACK");
    ok(&mut s, "BEGIN TRAN; EXEC ('CREATE TRIGGER more ON orders AFTER INSERT AS RETURN'); ROLLBACK");
    ok(&mut s, "BEGIN TRAN; DROP TRIGGER orders_changed; ROLLBACK");
    ok(&mut s, "INSERT orders (state) VALUES ('new')");
    assert_eq!(rows(&mut s, "SELECT what FROM queue"), ["ROW(String(\"insert\"))"]);
    assert_eq!(rows(&mut s, "SELECT name FROM sys.triggers"), ["ROW(String(\"orders_changed\"))"]);
}

/// "You cannot directly modify the data in the tables." Source: "Use the inserted and deleted tables"
/// (MicrosoftDocs/sql-docs, docs/relational-databases/triggers/use-the-inserted-and-deleted-tables.md); 286.
#[test]
fn inserted_and_deleted_are_not_changed() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int, b int); CREATE TABLE other (a int)");
    for statement in [
        "UPDATE inserted SET a = 2",
        "UPDATE i SET a = 2 FROM inserted AS i",
        "UPDATE inserted SET a = 2 FROM other",
        "DELETE deleted",
        "DELETE FROM INSERTED WHERE a = 1",
        "INSERT inserted VALUES (1, 2)",
        "WITH c AS (SELECT a FROM inserted) UPDATE c SET a = 2",
        "UPDATE other SET a = 1 OUTPUT inserted.a INTO deleted (a)",
        "MERGE inserted AS t USING other AS o ON o.a = t.a WHEN MATCHED THEN UPDATE SET a = 1;",
    ] {
        assert_eq!(
            errors(&mut s, &format!("CREATE TRIGGER tr ON t AFTER INSERT AS {statement}")),
            [286],
            "{statement}"
        );
    }
    ok(
        &mut s,
        "CREATE TRIGGER tr ON t AFTER INSERT AS UPDATE o SET a = i.a FROM other AS o JOIN inserted AS i ON 1 = 1",
    );
    ok(&mut s, "INSERT other VALUES (0); INSERT t VALUES (5, 6)");
    assert_eq!(rows(&mut s, "SELECT a FROM other"), ["ROW(Int(5))"]);
}
