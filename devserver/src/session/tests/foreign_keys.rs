//! Foreign keys.
//!
//! Source: "Primary and foreign key constraints" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/tables/primary-and-foreign-key-constraints.md); messages: docs/relational-databases/
//! errors-events/database-engine-events-and-errors-0-to-999.md (547, 332) and -1000-to-1999.md.

use crate::session::client_session::Session;
use crate::session::tests::harness::{engine, errors, login, ok, rows, run, session};

fn queues(s: &mut Session) {
    ok(
        s,
        "CREATE TABLE dbo.queues (id int NOT NULL PRIMARY KEY, name varchar(20) NOT NULL UNIQUE);
         CREATE TABLE dbo.jobs (id int IDENTITY PRIMARY KEY, queue_id int NULL CONSTRAINT fk_queue REFERENCES dbo.queues (id),
             parent_id int NULL, CONSTRAINT fk_parent FOREIGN KEY (parent_id) REFERENCES dbo.jobs (id));
         INSERT dbo.queues VALUES (1, 'a'), (2, 'b'); INSERT dbo.jobs (queue_id) VALUES (1), (NULL)",
    );
}

fn message(s: &mut Session, sql: &str) -> String {
    run(s, sql).into_iter().find(|token| token.starts_with("ERROR(547")).unwrap_or_default()
}

#[test]
fn a_row_needs_its_partner() {
    let (_e, mut s) = session();
    queues(&mut s);
    let text = message(&mut s, "INSERT dbo.jobs (queue_id) VALUES (2), (3)");
    assert!(
        text.contains(
            "The INSERT statement conflicted with the FOREIGN KEY constraint \"fk_queue\". The conflict occurred in \
             database \"readpast\", table \"dbo.queues\", column 'id'."
        ),
        "{text}"
    );
    assert_eq!(errors(&mut s, "UPDATE dbo.jobs SET queue_id = 9 WHERE id = 1"), [547]);
    let text = message(&mut s, "UPDATE dbo.jobs SET parent_id = 77 WHERE id = 1");
    assert!(
        text.contains("FOREIGN KEY SAME TABLE constraint \\\"fk_parent\\\"")
            || text.contains("FOREIGN KEY SAME TABLE constraint \"fk_parent\""),
        "{text}"
    );
    assert_eq!(
        errors(
            &mut s,
            "MERGE dbo.jobs AS t USING (VALUES (1, 8)) AS v (id, q) ON v.id = t.id WHEN MATCHED THEN UPDATE SET queue_id = v.q;"
        ),
        [547]
    );
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM dbo.jobs WHERE queue_id = 1"), ["ROW(Int(1))"]);
}

#[test]
fn a_partner_may_not_go_while_somebody_refers_to_it() {
    let (_e, mut s) = session();
    queues(&mut s);
    let text = message(&mut s, "DELETE dbo.queues WHERE id = 1");
    assert!(
        text.contains(
            "The DELETE statement conflicted with the REFERENCE constraint \"fk_queue\". The conflict occurred in \
             database \"readpast\", table \"dbo.jobs\", column 'queue_id'."
        ),
        "{text}"
    );
    assert_eq!(errors(&mut s, "UPDATE dbo.queues SET id = 5 WHERE id = 1"), [547]);
    ok(&mut s, "UPDATE dbo.queues SET name = 'c' WHERE id = 1; DELETE dbo.queues WHERE id = 2");
    assert_eq!(errors(&mut s, "TRUNCATE TABLE dbo.queues"), [4712]);
    assert_eq!(errors(&mut s, "DROP TABLE dbo.queues"), [3726]);
    assert_eq!(errors(&mut s, "DELETE dbo.jobs OUTPUT deleted.id, 'x' INTO dbo.queues"), [332]);
    ok(&mut s, "DROP TABLE dbo.jobs; DROP TABLE dbo.queues");
}

#[test]
fn rows_can_come_and_go_together() {
    let (_e, mut s) = session();
    queues(&mut s);
    ok(
        &mut s,
        "SET IDENTITY_INSERT dbo.jobs ON;
         INSERT dbo.jobs (id, parent_id) VALUES (11, 10), (10, NULL);
         SET IDENTITY_INSERT dbo.jobs OFF",
    );
    assert_eq!(errors(&mut s, "DELETE dbo.jobs WHERE id = 10"), [547]);
    ok(&mut s, "DELETE dbo.jobs WHERE id IN (10, 11)");
    // The keys change places: each referring row finds a partner again.
    ok(&mut s, "INSERT dbo.jobs (queue_id) VALUES (2); UPDATE dbo.queues SET id = 3 - id");
}

#[test]
fn cascades() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE a (id int NOT NULL PRIMARY KEY);
         CREATE TABLE b (id int NOT NULL PRIMARY KEY, a int NOT NULL REFERENCES a ON DELETE CASCADE ON UPDATE CASCADE);
         CREATE TABLE c (id int NOT NULL PRIMARY KEY, b int NOT NULL REFERENCES b ON DELETE CASCADE);
         CREATE TABLE d (id int NOT NULL PRIMARY KEY, c int NULL REFERENCES c);
         CREATE INDEX ix ON c (b);
         INSERT a VALUES (1), (2); INSERT b VALUES (10, 1), (20, 2); INSERT c VALUES (100, 20), (101, 10); INSERT d VALUES (1, 100)",
    );
    ok(&mut s, "DELETE a WHERE id = 1; IF @@ROWCOUNT <> 1 THROW 50000, 'cascaded rows are not counted', 1");
    assert_eq!(rows(&mut s, "SELECT id FROM b"), ["ROW(Int(20))"]);
    assert_eq!(rows(&mut s, "SELECT id FROM c"), ["ROW(Int(100))"]);
    assert_eq!(errors(&mut s, "UPDATE a SET id = 3 WHERE id = 2"), [59000]);
    ok(&mut s, "INSERT a VALUES (5); UPDATE a SET id = 6 WHERE id = 5");
    // A referring row further down stays: everything is taken back.
    assert_eq!(errors(&mut s, "DELETE a"), [547]);
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM b"), ["ROW(Int(1))"]);
    assert_eq!(
        errors(&mut s, "CREATE TABLE f (b int REFERENCES b ON DELETE CASCADE, a int REFERENCES a ON DELETE CASCADE)"),
        [1785, 1750]
    );
}

#[test]
fn what_a_foreign_key_cannot_be() {
    let (_e, mut s) = session();
    queues(&mut s);
    assert_eq!(errors(&mut s, "CREATE TABLE x (a int REFERENCES nothing (a))"), [1767, 1750]);
    assert_eq!(errors(&mut s, "CREATE TABLE x (a int, FOREIGN KEY (b) REFERENCES dbo.queues (id))"), [1769, 1750]);
    assert_eq!(errors(&mut s, "CREATE TABLE x (a int REFERENCES dbo.queues (nothing))"), [1770, 1750]);
    assert_eq!(errors(&mut s, "CREATE TABLE x (a int REFERENCES dbo.jobs (queue_id))"), [1776, 1750]);
    assert_eq!(errors(&mut s, "CREATE TABLE x (a bigint REFERENCES dbo.queues)"), [1778, 1750]);
    assert_eq!(
        errors(&mut s, "CREATE TABLE x (a int PRIMARY KEY, b int REFERENCES x ON DELETE CASCADE)"),
        [1785, 1750]
    );
    assert_eq!(errors(&mut s, "ALTER TABLE dbo.queues DROP COLUMN id"), [5074, 4922]);
    ok(&mut s, "CREATE TABLE #x (a int REFERENCES dbo.queues); INSERT #x VALUES (99)");
}

#[test]
fn keys_are_added_and_switched_off() {
    let (_e, mut s) = session();
    queues(&mut s);
    ok(&mut s, "CREATE TABLE log (queue varchar(20) NULL); INSERT log VALUES ('a'), ('zzz')");
    let add = "ALTER TABLE log WITH CHECK ADD CONSTRAINT fk_log FOREIGN KEY (queue) REFERENCES dbo.queues (name)";
    assert_eq!(errors(&mut s, add), [547]);
    ok(&mut s, &add.replace("WITH CHECK", "WITH NOCHECK"));
    assert_eq!(errors(&mut s, "INSERT log VALUES ('yyy')"), [547]);
    ok(&mut s, "ALTER TABLE log NOCHECK CONSTRAINT fk_log; INSERT log VALUES ('yyy')");
    assert_eq!(errors(&mut s, "ALTER TABLE log WITH CHECK CHECK CONSTRAINT fk_log"), [547]);
    ok(&mut s, "DELETE log WHERE queue <> 'a'; ALTER TABLE log WITH CHECK CHECK CONSTRAINT fk_log");
    assert_eq!(errors(&mut s, "DELETE dbo.queues WHERE id = 2; INSERT log VALUES ('b')"), [547]);
    ok(&mut s, "ALTER TABLE log DROP CONSTRAINT fk_log; INSERT log VALUES ('b')");
}

// "Table hints": a READPAST reader can still block on the check of a foreign key, which skips nothing.
#[test]
fn the_check_waits_for_the_partner() {
    let engine = engine();
    let (mut a, mut b) = (login(&engine, "sa", "secret"), login(&engine, "sa", "secret"));
    queues(&mut a);
    ok(&mut a, "BEGIN TRAN; UPDATE dbo.queues SET name = 'x' WHERE id = 2");
    ok(&mut b, "SET LOCK_TIMEOUT 0; INSERT dbo.jobs (queue_id) VALUES (1)");
    assert_eq!(errors(&mut b, "INSERT dbo.jobs (queue_id) VALUES (2)"), [1222]);
    ok(&mut a, "ROLLBACK; BEGIN TRAN; INSERT dbo.jobs (queue_id) VALUES (1)");
    // Nobody refers to 2, but without an index on queue_id the locked row stands in the way.
    assert_eq!(errors(&mut b, "DELETE dbo.queues WHERE id = 2"), [1222]);
    ok(
        &mut a,
        "ROLLBACK; CREATE INDEX ix ON dbo.jobs (queue_id); INSERT dbo.queues VALUES (3, 'c');
             BEGIN TRAN; INSERT dbo.jobs (queue_id) VALUES (3)",
    );
    ok(&mut b, "DELETE dbo.queues WHERE id = 2");
    assert_eq!(errors(&mut b, "DELETE dbo.queues WHERE id = 3"), [1222]);
    ok(&mut a, "ROLLBACK");
}
