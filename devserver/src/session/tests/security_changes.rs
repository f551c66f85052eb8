//! Transactions that change users, roles, owners, permissions and extended properties.

use std::sync::Arc;
use std::thread;

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::tests::harness::{engine, errors, login, ok, rows, until_one_waits};

/// Two sessions of `sa`, of which the second waits for nothing.
fn two() -> (Arc<Engine>, Session, Session) {
    let engine = engine();
    let (mut a, mut b) = (login(&engine, "sa", "secret"), login(&engine, "sa", "secret"));
    ok(
        &mut a,
        "CREATE TABLE t (id int); CREATE TABLE w (id int); CREATE ROLE r; CREATE ROLE other; CREATE USER u WITHOUT LOGIN",
    );
    ok(&mut a, "CREATE ROLE [#r]");
    ok(&mut a, "CREATE SCHEMA x");
    ok(&mut b, "SET LOCK_TIMEOUT 0");
    (engine, a, b)
}

const CHANGES: &[&str] = &[
    "GRANT SELECT ON t TO u",
    "DENY SELECT ON w TO u",
    "REVOKE SELECT ON t TO u",
    "CREATE USER v WITHOUT LOGIN",
    "DROP USER u",
    "CREATE ROLE s",
    "DROP ROLE r",
    "DROP ROLE [#r]",
    "ALTER ROLE r ADD MEMBER u",
    "EXEC sp_addrolemember 'r', 'u'",
    "ALTER AUTHORIZATION ON SCHEMA::x TO u",
    "CREATE SCHEMA y AUTHORIZATION u",
    "DROP SCHEMA x",
];

/// Everything that the changes change.
const STATE: &str = "SELECT name, owning_principal_id FROM sys.database_principals ORDER BY name;
    SELECT * FROM sys.database_role_members ORDER BY role_principal_id, member_principal_id;
    SELECT class, major_id, permission_name, grantee_principal_id, state FROM sys.database_permissions
        ORDER BY class, major_id, permission_name, grantee_principal_id;
    SELECT name, principal_id FROM sys.schemas ORDER BY name";

// Source: "Transaction locking and row versioning guide",
// docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md: what a transaction changes is
// locked until it ends. There it is rows of system tables; here everything of this kind is one.
#[test]
fn a_change_of_security_waits_for_an_open_one() {
    let (_e, mut a, mut b) = two();
    for change in CHANGES {
        ok(&mut a, "BEGIN TRANSACTION");
        ok(&mut a, change);
        for other in CHANGES {
            assert_eq!(errors(&mut b, other), [1222], "{change}: {other}");
        }
        // Its own session goes on, and nobody who only looks waits.
        ok(&mut a, "GRANT VIEW DEFINITION TO other; ROLLBACK");
        ok(&mut a, "BEGIN TRANSACTION; GRANT VIEW DEFINITION TO other");
        ok(&mut b, STATE);
        ok(
            &mut b,
            "SELECT name FROM sys.tables; SELECT OBJECT_NAME(1), OBJECT_ID('t'), SCHEMA_NAME(1); SELECT id FROM t",
        );
        ok(&mut a, "ROLLBACK");
    }
}

#[test]
fn a_rollback_puts_back_what_was_there() {
    let (_e, mut a, _b) = two();
    ok(
        &mut a,
        "GRANT SELECT ON w TO other; GRANT SELECT ON t TO other; DENY INSERT ON t TO u; ALTER ROLE other ADD MEMBER u",
    );
    let before = rows(&mut a, STATE);
    for change in CHANGES {
        ok(&mut a, "BEGIN TRANSACTION");
        ok(&mut a, change);
        ok(
            &mut a,
            "DENY INSERT ON w TO other; GRANT INSERT, SELECT ON w TO other; REVOKE INSERT ON w TO other; ROLLBACK",
        );
        let mut after = rows(&mut a, STATE);
        after.sort();
        let mut wanted = before.clone();
        wanted.sort();
        assert_eq!(after, wanted, "{change}");
    }
}

// Source: as above.
#[test]
fn a_rollback_leaves_what_others_have_granted() {
    let (engine, mut a, mut b) = two();
    ok(&mut b, "SET LOCK_TIMEOUT -1");
    ok(&mut a, "BEGIN TRANSACTION; GRANT SELECT ON t TO u; ALTER ROLE r ADD MEMBER u");
    let granted = thread::spawn(move || ok(&mut b, "GRANT INSERT ON t TO u; ALTER ROLE other ADD MEMBER u"));
    until_one_waits(&engine);
    ok(&mut a, "ROLLBACK");
    granted.join().expect("the other grants");
    let left = "SELECT permission_name FROM sys.database_permissions
        WHERE grantee_principal_id = DATABASE_PRINCIPAL_ID('u') AND permission_name <> 'CONNECT';
        SELECT USER_NAME(role_principal_id) FROM sys.database_role_members";
    assert_eq!(rows(&mut a, left), ["ROW(String(\"INSERT\"))", "ROW(String(\"other\"))"]);
}

// Source: "DROP USER", docs/t-sql/statements/drop-user-transact-sql.md ("Users that own securables cannot be dropped").
#[test]
fn an_owner_stays_while_what_it_owns_may_come_back() {
    let (_e, mut a, mut b) = two();
    ok(&mut a, "ALTER AUTHORIZATION ON SCHEMA::x TO u");
    ok(&mut a, "BEGIN TRANSACTION; ALTER AUTHORIZATION ON SCHEMA::x TO dbo");
    assert_eq!(errors(&mut b, "DROP USER u"), [1222]);
    ok(&mut a, "ROLLBACK");
    assert_eq!(errors(&mut b, "DROP USER u"), [15138]);
}

// Source: "GRANT", docs/t-sql/statements/grant-transact-sql.md; 4624:
// docs/relational-databases/errors-events/database-engine-events-and-errors-4000-to-4999.md. A statement that fails
// changes nothing.
#[test]
fn a_grant_that_fails_for_one_is_none_for_the_others() {
    let (_e, mut a, mut b) = two();
    let granted = "SELECT permission_name FROM sys.database_permissions WHERE permission_name = 'SELECT'";
    for (sql, error) in [("GRANT SELECT ON t TO u, dbo", 4624), ("GRANT SELECT ON t TO u, nobody", 15151)] {
        assert_eq!(errors(&mut a, sql), [error]);
        assert_eq!(rows(&mut a, granted), [""; 0]);
        ok(&mut a, "BEGIN TRANSACTION");
        assert_eq!(errors(&mut a, sql), [error]);
        // It holds nothing either.
        ok(&mut b, "GRANT INSERT ON t TO u");
        ok(&mut a, "ROLLBACK");
        assert_eq!(rows(&mut a, granted), [""; 0]);
    }
}
