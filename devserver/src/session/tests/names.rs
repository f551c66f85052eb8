//! What other sessions see of a transaction that changes what names mean: nothing, until it ends.
//!
//! Source: "Transaction locking and row versioning guide", schema locks (MicrosoftDocs/sql-docs,
//! docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md): Sch-M "prevents concurrent
//! access … This means the Sch-M lock blocks all outside operations until the lock is released".

use std::sync::Arc;
use std::thread;

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::tests::harness::{errors, login, ok, session, until_one_waits};

/// The second waits for nothing.
fn two() -> (Arc<Engine>, Session, Session) {
    let (engine, mut a) = session();
    let mut b = login(&engine, "sa", "secret");
    b.check("SET LOCK_TIMEOUT 0");
    a.check(
        "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT t VALUES (1, 1) => ok
         CREATE PROCEDURE p AS SELECT 'old' ;; CREATE VIEW v AS SELECT id FROM t ;;
             CREATE FUNCTION f() RETURNS int AS BEGIN RETURN 1 END ;; CREATE TRIGGER tr ON t AFTER DELETE AS RETURN ;;
             CREATE SEQUENCE q AS int START WITH 1; CREATE TYPE y AS TABLE (a int) => ok
         CREATE SCHEMA x => ok",
    );
    (engine, a, b)
}

/// Each statement of another session waits until the transaction ends.
fn blocks(change: &str, statements: &[&str]) {
    let (_e, mut a, mut b) = two();
    // Plans from before do not last.
    for statement in statements.iter().filter(|statement| statement.starts_with("SELECT")) {
        errors(&mut b, statement);
    }
    errors(&mut b, "EXEC p");
    ok(&mut a, "BEGIN TRAN");
    ok(&mut a, change);
    for statement in statements {
        let found = errors(&mut b, statement);
        assert_eq!(found, [1222], "{change}: {statement}");
    }
    ok(&mut a, "ROLLBACK");
    for statement in statements {
        let found = errors(&mut b, statement);
        assert!(!found.contains(&1222), "{change}: {statement}");
    }
}

#[test]
fn what_names_a_table_that_another_session_drops_or_renames_waits() {
    let statements = [
        "SELECT id FROM t",
        "SELECT id FROM v",
        "SELECT OBJECT_ID('t')",
        "SELECT OBJECT_ID(N'dbo.t', N'U')",
        "SELECT OBJECT_ID('tr')",
        "SELECT COL_LENGTH('t', 'id')",
        "SELECT OBJECT_NAME(1)",
        "SELECT name FROM sys.tables",
        "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES",
        "DELETE t",
        "CREATE INDEX i ON t (n)",
        "ALTER TABLE t ADD c int",
        "EXEC sp_rename 't', 'other'",
        "EXEC sp_rename 't.n', 'm', 'COLUMN'",
        "CREATE VIEW w AS SELECT id FROM t",
        "CREATE TABLE child (id int REFERENCES t)",
        "CREATE TRIGGER u ON t AFTER INSERT AS RETURN",
        "CREATE TABLE t (a int)",
        "CREATE VIEW t AS SELECT 1 AS a",
        "DROP TABLE IF EXISTS t",
    ];
    blocks("DROP TRIGGER tr; DROP TABLE t", &statements);
    let statements: Vec<&str> = statements.into_iter().filter(|statement| !statement.contains("'tr'")).collect();
    blocks("EXEC sp_rename 't', 'tz'", &statements);
    blocks("EXEC sp_rename 't', 'tz'", &["SELECT OBJECT_ID('tz')", "CREATE TABLE tz (a int)", "SELECT * FROM tz"]);
}

#[test]
fn what_names_a_module_that_another_session_changes_waits() {
    let of_the_procedure = ["EXEC p", "DROP PROCEDURE p", "SELECT OBJECT_ID('p')", "SELECT name FROM sys.objects"];
    for change in
        ["DROP PROCEDURE p", "ALTER PROCEDURE p AS SELECT 'new'", "CREATE OR ALTER PROCEDURE p AS SELECT 'new'"]
    {
        blocks(change, &of_the_procedure);
        blocks(change, &["CREATE PROCEDURE p AS RETURN", "CREATE OR ALTER PROCEDURE p AS RETURN"]);
    }
    blocks("DROP VIEW v", &["SELECT id FROM v", "CREATE VIEW v AS SELECT 1 AS one"]);
    blocks("ALTER VIEW v AS SELECT n FROM t", &["SELECT * FROM v", "DROP VIEW v"]);
    blocks("DROP FUNCTION f", &["SELECT dbo.f()", "DROP FUNCTION f"]);
    blocks("DROP SEQUENCE q", &["SELECT NEXT VALUE FOR q", "DROP SEQUENCE q"]);
    blocks("CREATE TRIGGER u ON t AFTER INSERT AS RETURN", &["INSERT t VALUES (2, 2)", "DROP TRIGGER u"]);
    blocks("DROP TRIGGER tr", &["DELETE t", "DROP TRIGGER tr"]);
    blocks("DISABLE TRIGGER tr ON t", &["DELETE t"]);
}

#[test]
fn what_names_something_that_another_session_creates_waits() {
    blocks(
        "CREATE TABLE n (a int CONSTRAINT k CHECK (a > 1))",
        &[
            "CREATE TABLE m (a int CONSTRAINT k CHECK (a > 1))",
            "SELECT OBJECT_ID('n')",
            "CREATE TABLE n (b int)",
            "SELECT a FROM n",
            "DROP TABLE n",
        ],
    );
    blocks("CREATE PROCEDURE z AS SELECT 1", &["EXEC z", "CREATE PROCEDURE z AS RETURN", "SELECT OBJECT_ID('z')"]);
    blocks(
        "CREATE TYPE w AS TABLE (a int)",
        &["DECLARE @a w", "SELECT TYPE_ID('w')", "CREATE TYPE w AS TABLE (b int)"],
    );
    blocks("DROP TYPE y", &["DECLARE @a y", "DROP TYPE y"]);
    blocks("CREATE SCHEMA k", &["SELECT SCHEMA_ID('k')", "CREATE SCHEMA k", "CREATE TABLE k.t (a int)"]);
    blocks("CREATE TABLE x.n (a int)", &["DROP SCHEMA x"]);
}

/// What the transaction itself has bound is not handed to others.
#[test]
fn the_plans_of_the_transaction_are_its_own() {
    let (_e, mut a, mut b) = two();
    a.check(
        "BEGIN TRAN => ok
         ALTER VIEW v AS SELECT n + 10 AS id FROM t => ok
         SELECT id FROM v => 11
         ALTER PROCEDURE p AS SELECT 'new' => ok
         EXEC p => 'new'",
    );
    b.check("SELECT id FROM v => error 1222\nEXEC p => error 1222");
    a.check("ROLLBACK");
    for session in [&mut a, &mut b] {
        session.check("SELECT id FROM v => 1\nEXEC p => 'old'");
    }
}

/// Names of others are free, and so are those of a statement that failed or found nothing.
#[test]
fn other_names_are_free() {
    let (_e, mut a, mut b) = two();
    a.check(
        "BEGIN TRAN; DROP TABLE IF EXISTS nothing ;; ALTER PROCEDURE p AS SELECT 'new' => ok
         CREATE VIEW f AS SELECT 1 AS a => error 2714",
    );
    b.check(
        "SELECT id FROM v => ok
         SELECT OBJECT_ID('nothing') ;; CREATE TABLE nothing (a int) ;; SELECT dbo.f() ;;
             SELECT name FROM sys.databases => ok
         SELECT SCHEMA_NAME(), SCHEMA_NAME(1), (SELECT COUNT(*) FROM sys.schemas), (SELECT COUNT(*)
             FROM sys.types) => ok
         SELECT name FROM sys.objects WITH (NOLOCK) => ok
         SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; SELECT name FROM sys.objects => ok",
    );
}

#[test]
fn whoever_waits_goes_on_with_what_was_committed_or_came_back() {
    for (end, found) in [("COMMIT", "EXEC p => 'new'"), ("ROLLBACK", "EXEC p => 'old'")] {
        let (engine, mut a, mut b) = two();
        a.check("BEGIN TRAN; DROP PROCEDURE p ;; CREATE PROCEDURE p AS SELECT 'new'");
        ok(&mut b, "SET LOCK_TIMEOUT -1");
        let waiting = thread::spawn(move || b.check(found));
        until_one_waits(&engine);
        assert!(!waiting.is_finished());
        ok(&mut a, end);
        waiting.join().expect("the session");
    }
}

/// Somebody who waits for the end of a transaction to change its table does not keep it from the table.
#[test]
fn a_transaction_goes_on_with_a_table_that_others_wait_to_change() {
    let changes = [
        "DROP TABLE t",
        "ALTER TABLE t ADD c int",
        "EXEC sp_rename 't', 'tz'",
        "DROP TRIGGER tr",
        "DISABLE TRIGGER tr ON t",
    ];
    for change in changes {
        let (engine, mut a, mut b) = two();
        ok(&mut b, "SET LOCK_TIMEOUT -1");
        ok(&mut a, "BEGIN TRAN; INSERT t VALUES (2, 2)");
        let waiting = thread::spawn(move || errors(&mut b, change));
        until_one_waits(&engine);
        ok(&mut a, "UPDATE t SET n = 3; SELECT COUNT(*) FROM v WHERE OBJECT_ID('t') > 0; COMMIT");
        assert!(waiting.join().expect("the session").is_empty(), "{change}");
    }
}

/// Two that wait for each other's names: one of them is the victim.
#[test]
fn names_can_be_part_of_a_deadlock() {
    let (engine, mut a, mut b) = two();
    ok(&mut b, "SET LOCK_TIMEOUT -1");
    ok(&mut a, "BEGIN TRAN; DROP PROCEDURE p");
    ok(&mut b, "BEGIN TRAN; DROP VIEW v");
    let waiting = thread::spawn(move || errors(&mut b, "EXEC p"));
    until_one_waits(&engine);
    let mut found = errors(&mut a, "SELECT id FROM v; ROLLBACK");
    found.extend(waiting.join().expect("the session"));
    assert!(found.contains(&1205), "{found:?}");
}
