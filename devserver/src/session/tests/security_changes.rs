//! Transactions that change users, roles, owners, permissions and extended properties.

use std::sync::Arc;
use std::thread;

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::tests::harness::{login, rows, session, until_one_waits};

/// Two sessions of `sa`, of which the second waits for nothing.
fn two() -> (Arc<Engine>, Session, Session) {
    let (engine, mut a) = session();
    let mut b = login(&engine, "sa", "secret");
    a.check(
        "CREATE TABLE t (id int); CREATE TABLE w (id int); CREATE ROLE r; CREATE ROLE other;
             CREATE USER u WITHOUT LOGIN; CREATE ROLE [#r] => ok
         CREATE SCHEMA x => ok",
    );
    b.check("SET LOCK_TIMEOUT 0");
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
        a.check(&format!("BEGIN TRANSACTION => ok\n{change} => ok"));
        for other in CHANGES {
            b.check(&format!("{other} => error 1222"));
        }
        // Its own session goes on, and nobody who only looks waits.
        a.check("GRANT VIEW DEFINITION TO other; ROLLBACK; BEGIN TRANSACTION; GRANT VIEW DEFINITION TO other");
        b.check(STATE);
        b.check("SELECT name FROM sys.tables; SELECT OBJECT_NAME(1), OBJECT_ID('t'), SCHEMA_NAME(1); SELECT id FROM t");
        a.check("ROLLBACK");
    }
}

#[test]
fn a_rollback_puts_back_what_was_there() {
    let (_e, mut a, _b) = two();
    a.check(
        "GRANT SELECT ON w TO other; GRANT SELECT ON t TO other; DENY INSERT ON t TO u; ALTER ROLE other ADD MEMBER u",
    );
    let state = |a: &mut Session| {
        let mut state = rows(a, STATE);
        state.sort();
        state
    };
    let before = state(&mut a);
    for change in CHANGES {
        a.check(&format!(
            "BEGIN TRANSACTION => ok
             {change} => ok
             DENY INSERT ON w TO other; GRANT INSERT, SELECT ON w TO other; REVOKE INSERT ON w TO other; ROLLBACK => ok"
        ));
        assert_eq!(state(&mut a), before, "{change}");
    }
}

// Source: as above.
#[test]
fn a_rollback_leaves_what_others_have_granted() {
    let (engine, mut a, mut b) = two();
    b.check("SET LOCK_TIMEOUT -1");
    a.check("BEGIN TRANSACTION; GRANT SELECT ON t TO u; ALTER ROLE r ADD MEMBER u");
    let granted = thread::spawn(move || b.check("GRANT INSERT ON t TO u; ALTER ROLE other ADD MEMBER u"));
    until_one_waits(&engine);
    a.check("ROLLBACK");
    granted.join().expect("the other grants");
    a.check(
        "SELECT permission_name FROM sys.database_permissions
             WHERE grantee_principal_id = DATABASE_PRINCIPAL_ID('u') AND permission_name <> 'CONNECT' => 'INSERT'
         SELECT USER_NAME(role_principal_id) FROM sys.database_role_members => 'other'",
    );
}

// Source: "DROP USER", docs/t-sql/statements/drop-user-transact-sql.md ("Users that own securables cannot be dropped").
#[test]
fn an_owner_stays_while_what_it_owns_may_come_back() {
    let (_e, mut a, mut b) = two();
    a.check("ALTER AUTHORIZATION ON SCHEMA::x TO u; BEGIN TRANSACTION; ALTER AUTHORIZATION ON SCHEMA::x TO dbo");
    b.check("DROP USER u => error 1222");
    a.check("ROLLBACK");
    b.check("DROP USER u => error 15138");
}

// Source: "GRANT", docs/t-sql/statements/grant-transact-sql.md; 4624:
// docs/relational-databases/errors-events/database-engine-events-and-errors-4000-to-4999.md. A statement that fails
// changes nothing.
#[test]
fn a_grant_that_fails_for_one_is_none_for_the_others() {
    let (_e, mut a, mut b) = two();
    for failing in ["GRANT SELECT ON t TO u, dbo => error 4624", "GRANT SELECT ON t TO u, nobody => error 15151"] {
        a.check(&format!("{failing}\nBEGIN TRANSACTION => ok\n{failing}"));
        // It holds nothing either.
        b.check("GRANT INSERT ON t TO u");
        a.check("ROLLBACK; SELECT 1 FROM sys.database_permissions WHERE permission_name = 'SELECT' => none");
    }
}
