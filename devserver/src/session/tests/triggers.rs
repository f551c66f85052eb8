//! Triggers. Source: "CREATE TRIGGER" (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/create-trigger-transact-sql.md) and the pages it names.

use crate::session::tests::harness::{check, session};

#[test]
fn triggers_on_one_table() {
    check(
        r#"CREATE TABLE orders (id int NOT NULL IDENTITY PRIMARY KEY, state varchar(10) NOT NULL, n int NOT NULL DEFAULT
             0) => ok
         CREATE TABLE queue (id bigint NOT NULL IDENTITY (100, 1) PRIMARY KEY, what varchar(20) NOT NULL, old
             varchar(10) NULL, new varchar(10) NULL) => ok
         CREATE TRIGGER orders_changed ON orders AFTER INSERT, UPDATE, DELETE AS
             SET NOCOUNT ON
             IF @@ROWCOUNT = 0 AND NOT EXISTS (SELECT 1 FROM inserted) AND NOT EXISTS (SELECT 1 FROM deleted) RETURN
             INSERT queue (what, old, new)
             SELECT CASE WHEN d.id IS NULL THEN 'insert' WHEN i.id IS NULL THEN 'delete' ELSE 'update'
             END, d.state, i.state
             FROM (SELECT id FROM inserted UNION SELECT id FROM deleted) AS k
             LEFT JOIN inserted AS i ON i.id = k.id LEFT JOIN deleted AS d ON d.id = k.id => ok
         == a trigger feeds a queue
         INSERT orders (state) VALUES ('new'), ('old') => ok
         UPDATE orders SET state = 'paid' WHERE state = 'new'; DELETE orders WHERE state = 'old' => ok
         SELECT what, old, new FROM queue ORDER BY id => 'insert', NULL, 'new' | 'insert', NULL, 'old'
             | 'update', 'new', 'paid' | 'delete', 'old', NULL
         == trigger and statement are one transaction
         CREATE TRIGGER no_negative ON orders FOR INSERT AS
             IF EXISTS (SELECT 1 FROM inserted WHERE n < 0)
             BEGIN
                 ROLLBACK TRANSACTION
                 RAISERROR ('negative', 16, 1)
             END => ok
         -- "The transaction ended in the trigger. The batch has been aborted."
         INSERT orders (state, n) VALUES ('x', -1); INSERT orders (state) VALUES ('y') => error 50000 | error 3609
         SELECT COUNT(*), @@TRANCOUNT FROM orders => 0, 0
         SELECT COUNT(*) FROM queue => 0
         BEGIN TRAN; INSERT orders (state) VALUES ('y'); INSERT orders (state, n) VALUES ('x', -1) => error 50000
             | error 3609
         SELECT COUNT(*), @@TRANCOUNT FROM orders => 0, 0
         == an error in a trigger takes everything back
         CREATE TRIGGER fails ON orders AFTER UPDATE AS INSERT queue (what) VALUES (NULL) => ok
         INSERT orders (state) VALUES ('new') => ok
         UPDATE orders SET state = 'x'; SELECT 1 => error 515
         SELECT state FROM orders => 'new'
         -- Under TRY the error is caught, and the transaction can only be rolled back (XACT_ABORT is ON in a trigger).
         BEGIN TRAN; BEGIN TRY UPDATE orders SET state = 'x' END TRY
             BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE(), ERROR_PROCEDURE(); ROLLBACK
             END CATCH => 515, SmallInt(-1), 'dbo.fails'
         BEGIN TRY UPDATE orders SET state = 'x' END TRY BEGIN CATCH SELECT ERROR_NUMBER(), @@TRANCOUNT
             END CATCH => 515, 0
         DISABLE TRIGGER fails ON orders; UPDATE orders SET state = 'x' ;; ENABLE TRIGGER ALL ON orders => ok
         UPDATE orders SET state = 'y' => error 515
         DROP TRIGGER fails; UPDATE orders SET state = 'y' => ok
         == identities and counts of a trigger are its own
         INSERT orders (state) VALUES ('a'), ('b'); SELECT @@ROWCOUNT, CAST(@@IDENTITY AS int), CAST(SCOPE_IDENTITY() AS
             int) => 2, 101, 2
         == output cannot go to the client beside a trigger
         INSERT orders (state) OUTPUT inserted.id VALUES ('a') => error 334
         INSERT queue (what) OUTPUT inserted.what INTO orders (state) VALUES ('a') => error 59000
         DECLARE @ids TABLE (id int); INSERT orders (state) OUTPUT inserted.id INTO @ids VALUES ('a'); SELECT id
             FROM @ids => 1
         DISABLE TRIGGER orders_changed ON orders => ok
         INSERT orders (state) OUTPUT inserted.id VALUES ('a') => 2
         == what cannot be a trigger
         CREATE TRIGGER x ON nothing AFTER INSERT AS SELECT 1 => error 8197
         CREATE TRIGGER orders_changed ON orders AFTER INSERT AS SELECT 1 => error 2714
         CREATE TRIGGER x ON orders AFTER INSERT AS SELECT nothing FROM inserted => error 207
         DROP TRIGGER nothing => error 3701
         DROP TRIGGER IF EXISTS nothing; DROP TABLE orders; SELECT 1 => ok
         SELECT OBJECT_ID('orders_changed', 'TR') => NULL
         == a rollback takes back what was done to triggers
         BEGIN TRAN; DISABLE TRIGGER orders_changed ON orders; ROLLBACK ;;
             BEGIN TRAN; EXEC ('CREATE TRIGGER more ON orders AFTER INSERT AS RETURN'); ROLLBACK ;;
             BEGIN TRAN; DROP TRIGGER orders_changed; ROLLBACK ;; INSERT orders (state) VALUES ('new') => ok
         SELECT what FROM queue => 'insert'
         SELECT name FROM sys.triggers => 'orders_changed'"#,
    );
}

#[test]
fn what_a_trigger_may_and_knows() {
    check(
        r#"== what a trigger knows
         CREATE TABLE t (a int NOT NULL PRIMARY KEY, b int NULL); CREATE TABLE log (what varchar(40), n int) => ok
         CREATE TRIGGER t_log ON t AFTER INSERT, UPDATE AS
             INSERT log VALUES ('rows', @@ROWCOUNT), ('trancount', @@TRANCOUNT)
             -- Not recursive: RECURSIVE_TRIGGERS is OFF.
             UPDATE t SET b = b + 1 WHERE a IN (SELECT a FROM inserted)
             INSERT log SELECT 'old b', b FROM deleted => ok
         INSERT t VALUES (1, 1), (2, 2) => ok
         SELECT n FROM log WHERE what = 'rows' => 2
         SELECT n FROM log WHERE what = 'trancount' => 1
         SELECT what FROM log WHERE what = 'old b' => none
         DELETE log; UPDATE t SET b = 10 WHERE a = 1; SELECT b FROM t => 11 | 3
         SELECT what, n FROM log WHERE what = 'old b' => 'old b', 2
         -- It fires for no rows too.
         DELETE log; UPDATE t SET b = 1 WHERE a = 99 => ok
         SELECT n FROM log WHERE what = 'rows' => 0
         == a cascade does not pass over triggers
         -- "Primary and foreign key constraints", "Triggers and cascading referential actions": a trigger of a table in
         -- the chain fires where rows of it are affected. That is not done here, so it is not left out either.
         CREATE TABLE parent (id int NOT NULL PRIMARY KEY);
             CREATE TABLE child (id int NULL REFERENCES parent ON DELETE CASCADE);
             INSERT parent VALUES (1), (2), (3);
             INSERT child VALUES (1), (2) => ok
         CREATE TRIGGER gone ON child AFTER DELETE AS RETURN => ok
         CREATE TRIGGER come ON child AFTER INSERT AS RETURN => ok
         DELETE parent WHERE id = 1 => error 59000
         DELETE parent WHERE id = 3; DISABLE TRIGGER gone ON child; DELETE parent WHERE id = 1 => ok
         SELECT id FROM child => 2
         == inserted and deleted are not changed
         -- "You cannot directly modify the data in the tables." Source: "Use the inserted and deleted tables"
         -- (MicrosoftDocs/sql-docs, docs/relational-databases/triggers/use-the-inserted-and-deleted-tables.md); 286.
         CREATE TABLE t (a int, b int); CREATE TABLE other (a int) => ok
         CREATE TRIGGER tr ON t AFTER INSERT AS UPDATE inserted SET a = 2 => error 286
         CREATE TRIGGER tr ON t AFTER INSERT AS UPDATE i SET a = 2 FROM inserted AS i => error 286
         CREATE TRIGGER tr ON t AFTER INSERT AS UPDATE inserted SET a = 2 FROM other => error 286
         CREATE TRIGGER tr ON t AFTER INSERT AS DELETE deleted => error 286
         CREATE TRIGGER tr ON t AFTER INSERT AS DELETE FROM INSERTED WHERE a = 1 => error 286
         CREATE TRIGGER tr ON t AFTER INSERT AS INSERT inserted VALUES (1, 2) => error 286
         CREATE TRIGGER tr ON t AFTER INSERT AS WITH c AS (SELECT a FROM inserted) UPDATE c SET a = 2 => error 286
         CREATE TRIGGER tr ON t AFTER INSERT AS UPDATE other SET a = 1 OUTPUT inserted.a INTO deleted (a) => error 286
         CREATE TRIGGER tr ON t AFTER INSERT AS MERGE inserted AS t USING other AS o ON o.a = t.a WHEN MATCHED THEN
             UPDATE SET a = 1; => error 286
         CREATE TRIGGER tr ON t AFTER INSERT AS UPDATE o SET a = i.a FROM other AS o JOIN inserted AS i ON 1 = 1 => ok
         INSERT other VALUES (0); INSERT t VALUES (5, 6) => ok
         SELECT a FROM other => 5"#,
    );
}

#[test]
fn a_trigger_does_not_change_the_definition_of_its_table() {
    let (_e, mut s) = session();
    s.check("CREATE TABLE t (a int NOT NULL, b int NULL); CREATE INDEX t_a ON t (a); CREATE TABLE other (a int NULL)");
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
        s.check(&format!(
            "CREATE TRIGGER t_changed ON t AFTER INSERT AS {ddl} => ok
             INSERT t VALUES (1, 1) => error 59000
             SELECT COUNT(*) FROM t; DROP TRIGGER t_changed => 0"
        ));
    }
    s.check(
        "CREATE TRIGGER t_changed ON t AFTER INSERT AS ALTER TABLE other ADD b int NULL => ok
         INSERT t VALUES (1, 1) => ok
         INSERT other VALUES (1, 1) => ok",
    );
}

/// Source: "Use the inserted and deleted Tables"
/// (docs/relational-databases/triggers/use-the-inserted-and-deleted-tables.md).
#[test]
fn a_trigger_stands_for_the_delete() {
    check(
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int NOT NULL, kept AS a + 1);
             INSERT t VALUES (1, 5), (2, 6), (3, 7);
             CREATE TABLE log (what varchar(10), id int, kept int, n int) => ok
         CREATE TRIGGER t_del ON t INSTEAD OF DELETE AS
             BEGIN
                 INSERT log SELECT 'old', id, kept, @@ROWCOUNT FROM deleted
                 DELETE t WHERE id IN (SELECT id FROM deleted) AND id <> 3
             END => ok
         CREATE TRIGGER t_after ON t AFTER DELETE AS INSERT log (what, id) SELECT 'after', id FROM deleted => ok
         == its own statement goes to the table
         DELETE t FROM t JOIN (VALUES (1), (1), (3)) AS v (id) ON v.id = t.id
             => tokens DONEINPROC(count=2, more) | DONEINPROC(count=1, more) | DONEINPROC(count=1, more)
             | DONEPROC(more)
             | DONE(count=2)
         SELECT * FROM log ORDER BY what DESC, id; SELECT id FROM t => 'old', 1, 6, 2 | 'old', 3, 8, 2
             | 'after', 1, NULL, NULL | 2 | 3
         DELETE t OUTPUT deleted.id => error 334
         DISABLE TRIGGER t_del ON t; DELETE t; ENABLE TRIGGER t_del ON t => ok
         SELECT COUNT(*) FROM t => 0
         == what cannot stand beside it
         CREATE TABLE c (id int NOT NULL PRIMARY KEY, t int REFERENCES t (id) ON DELETE CASCADE) => ok
         CREATE VIEW v AS SELECT id FROM t => ok
         CREATE TRIGGER more ON t INSTEAD OF DELETE AS RETURN => error 59000
         CREATE TRIGGER x ON c INSTEAD OF DELETE AS RETURN ;; CREATE TRIGGER x ON v INSTEAD OF DELETE AS RETURN ;;
             CREATE TRIGGER x ON t INSTEAD OF INSERT AS RETURN ;;
             CREATE TRIGGER x ON t INSTEAD OF UPDATE, DELETE AS RETURN ;;
             ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES c (id) ON DELETE CASCADE => error 59000
         CREATE TRIGGER x ON v AFTER INSERT AS RETURN => error 8197
         CREATE TRIGGER x ON t AFTER UPDATE AS IF UPDATE(a) RETURN => error 59000
         ALTER TRIGGER t_del ON t AFTER DELETE AS RETURN => error 59000",
    );
}
