//! INSTEAD OF triggers. Source: "CREATE TRIGGER" and "Use the inserted and deleted Tables" (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/create-trigger-transact-sql.md,
//! docs/relational-databases/triggers/use-the-inserted-and-deleted-tables.md).

use crate::session::tests::harness::check;

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
