//! Who may do what.

use std::sync::Arc;

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::tests::harness::{engine, errors, login, ok, rows, session};

/// A database with a table, a procedure over it, and a user who may run the procedure only.
fn guarded() -> (Arc<Engine>, Session, Session) {
    let engine = engine();
    let mut owner = login(&engine, "sa", "secret");
    for sql in [
        "CREATE SCHEMA app",
        "CREATE TABLE app.t (a int); INSERT app.t VALUES (1)",
        "CREATE TYPE app.list AS TABLE (a int)",
        "CREATE PROCEDURE app.read_all AS SELECT a FROM app.t",
        "CREATE PROCEDURE app.read_dynamic AS EXEC ('SELECT a FROM app.t')",
        "CREATE LOGIN u WITH PASSWORD = 'p'; CREATE USER u FOR LOGIN u; CREATE ROLE runner; ALTER ROLE runner ADD MEMBER u",
        "GRANT EXECUTE ON OBJECT::app.read_all TO runner; GRANT EXECUTE ON app.read_dynamic TO runner",
    ] {
        ok(&mut owner, sql);
    }
    let user = login(&engine, "u", "p");
    (engine, owner, user)
}

#[test]
fn a_procedure_opens_what_its_owner_owns() {
    let (_e, _owner, mut user) = guarded();
    assert_eq!(rows(&mut user, "EXEC app.read_all"), ["ROW(Int(1))"]);
    assert_eq!(errors(&mut user, "SELECT a FROM app.t"), [229]);
    assert_eq!(errors(&mut user, "EXEC app.read_dynamic"), [229]);
}

#[test]
fn deny_beats_grant() {
    let (_e, mut owner, mut user) = guarded();
    ok(&mut owner, "GRANT SELECT TO u");
    assert_eq!(rows(&mut user, "SELECT a FROM app.t"), ["ROW(Int(1))"]);
    assert_eq!(errors(&mut user, "DELETE app.t"), [229]);
    ok(&mut owner, "DENY SELECT ON app.t TO runner");
    assert_eq!(errors(&mut user, "SELECT a FROM app.t"), [229]);
    ok(&mut owner, "REVOKE SELECT ON app.t TO runner; ALTER ROLE db_owner ADD MEMBER u");
    ok(&mut user, "DELETE app.t");
}

#[test]
fn creating_needs_permission() {
    let (_e, _owner, mut user) = guarded();
    assert_eq!(errors(&mut user, "CREATE TABLE x (a int)"), [262]);
    assert_eq!(errors(&mut user, "CREATE SCHEMA x"), [262]);
    assert_eq!(errors(&mut user, "CREATE SEQUENCE app.q AS int"), [262]);
    assert_eq!(errors(&mut user, "DROP USER u"), [15151]);
    assert_eq!(errors(&mut user, "ALTER ROLE runner DROP MEMBER u"), [15151]);
    assert_eq!(errors(&mut user, "DROP TABLE app.t"), [3701]);
    assert_eq!(errors(&mut user, "GRANT SELECT ON app.t TO u"), [15151]);
    ok(&mut user, "CREATE TABLE #mine (a int); INSERT #mine VALUES (1)");
}

#[test]
fn a_table_type_needs_execute() {
    let (_e, mut owner, mut user) = guarded();
    assert_eq!(errors(&mut user, "DECLARE @l app.list"), [229]);
    ok(&mut owner, "GRANT EXECUTE ON TYPE::app.list TO u");
    ok(&mut user, "DECLARE @l app.list; INSERT @l VALUES (1)");
}

#[test]
fn only_what_one_may_use_can_be_seen() {
    let (_e, _owner, mut user) = guarded();
    assert_eq!(
        rows(
            &mut user,
            "SELECT OBJECT_ID('app.t'), TYPE_ID('app.list'), HAS_PERMS_BY_NAME('app.read_all', 'OBJECT', 'EXECUTE'), IS_MEMBER('runner'), USER_NAME()"
        ),
        ["ROW(Null, Null, Int(1), Int(1), String(\"u\"))"]
    );
}

#[test]
fn a_read_only_database_takes_no_changes() {
    let (_e, mut owner, user) = guarded();
    drop(user);
    ok(&mut owner, "ALTER DATABASE CURRENT SET READ_ONLY");
    assert_eq!(errors(&mut owner, "INSERT app.t VALUES (2)"), [3906]);
    assert_eq!(errors(&mut owner, "CREATE TABLE x (a int)"), [3906]);
    ok(&mut owner, "DECLARE @t TABLE (a int); INSERT @t VALUES (1)");
    ok(&mut owner, "ALTER DATABASE CURRENT SET READ_WRITE; INSERT app.t VALUES (2)");
}

/// "SELECT permissions are also required if the statement contains a WHERE clause" ("DELETE",
/// docs/t-sql/statements/delete-transact-sql.md), "or if expression in the SET clause uses a column in the table"
/// ("UPDATE", docs/t-sql/queries/update-transact-sql.md), and "on any columns retrieved" ("OUTPUT Clause",
/// docs/t-sql/queries/output-clause-transact-sql.md).
#[test]
fn a_change_that_reads_needs_select() {
    let (_e, mut owner, mut user) = guarded();
    ok(&mut owner, "CREATE VIEW app.v AS SELECT a FROM app.t");
    ok(&mut owner, "GRANT INSERT, UPDATE, DELETE ON app.t TO u; GRANT INSERT, UPDATE, DELETE ON app.v TO u");
    let blind = ["INSERT {} VALUES (1)", "UPDATE {} SET a = 2", "UPDATE TOP (1) {} SET a = 2", "DELETE {}"];
    let reading = [
        "INSERT {} OUTPUT inserted.a VALUES (1)",
        "UPDATE {} SET a = a + 1",
        "UPDATE {} SET a += 1",
        "UPDATE {} SET a = (SELECT COUNT(*) FROM (VALUES (1)) v (n) WHERE n = a)",
        "UPDATE {} SET a = 2 WHERE a = 1",
        "UPDATE {} SET a = 2 OUTPUT deleted.a",
        "DELETE {} WHERE a = 1",
        "DELETE {} OUTPUT deleted.a",
        "WITH c AS (SELECT a FROM {}) DELETE c",
    ];
    for target in ["app.t", "app.v"] {
        let is_possible = |sql: &&&str| target == "app.t" || !sql.starts_with("INSERT");
        for sql in blind.iter().filter(is_possible) {
            ok(&mut user, &sql.replace("{}", target));
        }
        for sql in reading.iter().filter(is_possible) {
            assert_eq!(errors(&mut user, &sql.replace("{}", target)), [229], "{sql} {target}");
        }
    }
    ok(&mut owner, "GRANT SELECT ON app.t TO u");
    for sql in reading {
        ok(&mut user, &sql.replace("{}", "app.t"));
    }
}

/// Source: "CREATE PROCEDURE", docs/t-sql/statements/create-procedure-transact-sql.md.
#[test]
fn a_parameter_needs_execute_on_its_type() {
    let (_e, mut owner, mut user) = guarded();
    ok(&mut owner, "CREATE TYPE dbo.list AS TABLE (a int); GRANT CREATE PROCEDURE TO u");
    ok(&mut owner, "ALTER AUTHORIZATION ON SCHEMA::app TO u");
    let definition = "CREATE PROCEDURE app.p @l dbo.list READONLY AS RETURN";
    assert_eq!(errors(&mut user, definition), [229]);
    ok(&mut owner, "GRANT EXECUTE ON TYPE::dbo.list TO u");
    ok(&mut user, definition);
}

/// Source: "Permissions of Fixed Database Roles"
/// (learn.microsoft.com/previous-versions/sql/sql-server-2008-r2/ms189612).
#[test]
fn fixed_roles_have_their_permissions() {
    let (_e, mut owner, mut user) = guarded();
    assert_eq!(errors(&mut user, "SELECT a FROM app.t"), [229]);
    ok(&mut owner, "ALTER ROLE db_datareader ADD MEMBER u; EXEC sp_addrolemember 'db_datawriter', 'u'");
    ok(&mut user, "SELECT a FROM app.t; INSERT app.t (a) VALUES (2)");
    assert_eq!(errors(&mut user, "CREATE VIEW app.made AS SELECT a FROM app.t"), [262]);
    ok(&mut owner, "ALTER ROLE db_owner ADD MEMBER u");
    ok(&mut user, "CREATE VIEW app.made AS SELECT a FROM app.t");
    for refused in ["db_securityadmin", "db_accessadmin", "db_ddladmin", "db_denydatareader", "db_denydatawriter"] {
        assert_eq!(errors(&mut owner, &format!("ALTER ROLE {refused} ADD MEMBER u")), [59000], "{refused}");
        assert_eq!(errors(&mut owner, &format!("EXEC sp_addrolemember '{refused}', 'u'")), [59000], "{refused}");
    }
}

/// Source: "sys.database_permissions" (docs/relational-databases/system-catalog-views/
/// sys-database-permissions-transact-sql.md).
#[test]
fn permissions_have_their_short_names() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE ROLE r; GRANT CREATE TABLE TO r; GRANT REFERENCES TO r; DENY SELECT TO r");
    let types = "SELECT type, permission_name FROM sys.database_permissions
        WHERE grantee_principal_id = DATABASE_PRINCIPAL_ID('r') AND type IN ('CRTB', 'RF', 'SL') ORDER BY type";
    assert_eq!(
        rows(&mut s, types),
        [
            "ROW(String(\"CRTB\"), String(\"CREATE TABLE\"))",
            "ROW(String(\"RF  \"), String(\"REFERENCES\"))",
            "ROW(String(\"SL  \"), String(\"SELECT\"))",
        ]
    );
}

// Sources: "sp_addrolemember", docs/relational-databases/system-stored-procedures/; 15014 and
// 15410: docs/relational-databases/errors-events/database-engine-events-and-errors-15000-to-15999.md.
#[test]
fn a_procedure_adds_a_member_to_a_role() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE ROLE r; CREATE USER u WITHOUT LOGIN; EXEC sp_addrolemember 'r', 'u'");
    assert_eq!(rows(&mut s, "SELECT IS_ROLEMEMBER('r', 'u')"), ["ROW(Int(1))"]);
    assert_eq!(errors(&mut s, "EXEC sp_addrolemember 'nothing', 'u'"), [15014]);
    assert_eq!(errors(&mut s, "EXEC sp_addrolemember 'r', 'nobody'"), [15410]);
    assert_eq!(errors(&mut s, "EXEC sp_addrolemember 'r'"), [201]);
    assert_eq!(errors(&mut s, "EXEC sp_addrolemember 'r', 'u', 'x'"), [8144]);
}
