//! Foreign keys.
//!
//! Source: "Primary and foreign key constraints" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/tables/primary-and-foreign-key-constraints.md); messages: docs/relational-databases/
//! errors-events/database-engine-events-and-errors-0-to-999.md (547, 332) and -1000-to-1999.md.

use crate::session::tests::harness::check;

#[test]
fn keys_are_enforced() {
    check(
        r#"CREATE TABLE dbo.queues (id int NOT NULL PRIMARY KEY, name varchar(20) NOT NULL UNIQUE);
             CREATE TABLE dbo.jobs (id int IDENTITY PRIMARY KEY, queue_id int NULL
             CONSTRAINT fk_queue REFERENCES dbo.queues (id),
                 parent_id int NULL, CONSTRAINT fk_parent FOREIGN KEY (parent_id) REFERENCES dbo.jobs (id));
             INSERT dbo.queues VALUES (1, 'a'), (2, 'b'); INSERT dbo.jobs (queue_id) VALUES (1), (NULL) => ok
         == a row needs its partner
         INSERT dbo.jobs (queue_id) VALUES (2), (3)
             => error 547 The INSERT statement conflicted with the FOREIGN KEY constraint "fk_queue".
         UPDATE dbo.jobs SET queue_id = 9 WHERE id = 1
             => error 547 The conflict occurred in database "readpast", table "dbo.queues", column 'id'.
         UPDATE dbo.jobs SET parent_id = 77 WHERE id = 1
             => error 547 conflicted with the FOREIGN KEY SAME TABLE constraint "fk_parent".
         MERGE dbo.jobs AS t USING (VALUES (1, 8)) AS v (id, q) ON v.id = t.id WHEN MATCHED THEN UPDATE
             SET queue_id = v.q; => error 547
         SELECT COUNT(*) FROM dbo.jobs WHERE queue_id = 1 => 1
         == a partner may not go while somebody refers to it
         DELETE dbo.queues WHERE id = 1
             => error 547 The DELETE statement conflicted with the REFERENCE constraint "fk_queue".
         UPDATE dbo.queues SET id = 5 WHERE id = 1
             => error 547 The conflict occurred in database "readpast", table "dbo.jobs", column 'queue_id'.
         UPDATE dbo.queues SET name = 'c' WHERE id = 1; DELETE dbo.queues WHERE id = 2 => ok
         DROP TABLE dbo.queues => error 3726
         DELETE dbo.jobs OUTPUT deleted.id, 'x' INTO dbo.queues => error 59000
         DROP TABLE dbo.jobs; DROP TABLE dbo.queues => ok
         == rows can come and go together
         SET IDENTITY_INSERT dbo.jobs ON;
             INSERT dbo.jobs (id, parent_id) VALUES (11, 10), (10, NULL);
             SET IDENTITY_INSERT dbo.jobs OFF => ok
         DELETE dbo.jobs WHERE id = 10 => error 547
         DELETE dbo.jobs WHERE id IN (10, 11) => ok
         -- The keys change places: each referring row finds a partner again.
         INSERT dbo.jobs (queue_id) VALUES (2); UPDATE dbo.queues SET id = 3 - id => ok
         == what a foreign key cannot be
         CREATE TABLE x (a int REFERENCES nothing (a)) => error 1767 | error 1750
         CREATE TABLE x (a int, FOREIGN KEY (b) REFERENCES dbo.queues (id)) => error 1769 | error 1750
         CREATE TABLE x (a int REFERENCES dbo.queues (nothing)) => error 1770 | error 1750
         CREATE TABLE x (a int REFERENCES dbo.jobs (queue_id)) => error 59000
         CREATE TABLE x (a bigint REFERENCES dbo.queues) => error 59000
         CREATE TABLE x (a int PRIMARY KEY, b int REFERENCES x ON DELETE CASCADE) => error 59000
         ALTER TABLE dbo.queues DROP COLUMN id => error 5074 | error 4922
         CREATE TABLE #x (a int REFERENCES dbo.queues); INSERT #x VALUES (99) => ok
         == keys are added
         CREATE TABLE log (queue varchar(20) NULL); INSERT log VALUES ('a'), ('zzz') => ok
         ALTER TABLE log WITH CHECK ADD CONSTRAINT fk_log FOREIGN KEY (queue) REFERENCES dbo.queues (name) => error 547
         ALTER TABLE log WITH NOCHECK ADD CONSTRAINT fk_log FOREIGN KEY (queue) REFERENCES dbo.queues (name) => ok
         INSERT log VALUES ('yyy') => error 547
         ALTER TABLE log CHECK CONSTRAINT fk_log => ok
         DELETE log WHERE queue <> 'a'; DELETE dbo.queues WHERE id = 2; INSERT log VALUES ('b') => error 547
         ALTER TABLE log DROP CONSTRAINT fk_log; INSERT log VALUES ('b') => ok
         == the check waits for the partner
         -- "Table hints": a READPAST reader can still block on the check of a foreign key, which skips nothing.
         BEGIN TRAN; UPDATE dbo.queues SET name = 'x' WHERE id = 2 => ok
         2: SET LOCK_TIMEOUT 0; INSERT dbo.jobs (queue_id) VALUES (1) => ok
         2: INSERT dbo.jobs (queue_id) VALUES (2) => error 1222
         ROLLBACK; BEGIN TRAN; INSERT dbo.jobs (queue_id) VALUES (1) => ok
         -- Nobody refers to 2, but without an index on queue_id the locked row stands in the way.
         2: DELETE dbo.queues WHERE id = 2 => error 1222
         ROLLBACK; CREATE INDEX ix ON dbo.jobs (queue_id); INSERT dbo.queues VALUES (3, 'c');
             BEGIN TRAN; INSERT dbo.jobs (queue_id) VALUES (3) => ok
         2: DELETE dbo.queues WHERE id = 2 => ok
         2: DELETE dbo.queues WHERE id = 3 => error 1222
         ROLLBACK => ok"#,
    );
}

#[test]
fn cascades() {
    check(
        "CREATE TABLE a (id int NOT NULL PRIMARY KEY);
             CREATE TABLE b (id int NOT NULL PRIMARY KEY, a int NOT NULL REFERENCES a ON DELETE CASCADE ON
             UPDATE CASCADE);
             CREATE TABLE c (id int NOT NULL PRIMARY KEY, b int NOT NULL REFERENCES b ON DELETE CASCADE);
             CREATE TABLE d (id int NOT NULL PRIMARY KEY, c int NULL REFERENCES c);
             CREATE INDEX ix ON c (b);
             INSERT a VALUES (1), (2); INSERT b VALUES (10, 1), (20, 2); INSERT c VALUES (100, 20), (101, 10); INSERT d
             VALUES (1, 100) => ok
         DELETE a WHERE id = 1; IF @@ROWCOUNT <> 1 THROW 50000, 'cascaded rows are not counted', 1 => ok
         SELECT id FROM b => 20
         SELECT id FROM c => 100
         UPDATE a SET id = 3 WHERE id = 2 => error 59000
         INSERT a VALUES (5); UPDATE a SET id = 6 WHERE id = 5 => ok
         -- A referring row further down stays: everything is taken back.
         DELETE a => error 547
         SELECT COUNT(*) FROM b => 1
         CREATE TABLE f (b int REFERENCES b ON DELETE CASCADE, a int REFERENCES a ON DELETE CASCADE) => error 59000",
    );
}
