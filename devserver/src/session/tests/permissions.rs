//! Who may do what.

use std::sync::Arc;

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::tests::harness::{check, engine, errors, login, ok};

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
fn who_may_do_what() {
    check(
        r#"CREATE SCHEMA app => ok
         CREATE TABLE app.t (a int); INSERT app.t VALUES (1) ;; CREATE TYPE app.list AS TABLE (a int) ;;
             CREATE PROCEDURE app.read_all AS SELECT a FROM app.t ;;
             CREATE PROCEDURE app.read_dynamic AS EXEC ('SELECT a FROM app.t') => ok
         CREATE LOGIN u WITH PASSWORD = 'u'; CREATE USER u FOR LOGIN u; CREATE ROLE runner;
             ALTER ROLE runner ADD MEMBER u => ok
         GRANT EXECUTE ON OBJECT::app.read_all TO runner; GRANT EXECUTE ON app.read_dynamic TO runner => ok
         == a procedure opens what its owner owns
         u: EXEC app.read_all => 1
         u: SELECT a FROM app.t ;; EXEC app.read_dynamic => error 229
         == deny beats grant
         GRANT SELECT TO u => ok
         u: SELECT a FROM app.t => 1
         u: DELETE app.t => error 229
         DENY SELECT ON app.t TO runner => ok
         u: SELECT a FROM app.t => error 229
         REVOKE SELECT ON app.t TO runner; ALTER ROLE db_owner ADD MEMBER u => ok
         u: DELETE app.t => ok
         == creating needs permission
         u: CREATE TABLE x (a int) ;; CREATE SCHEMA x ;; CREATE SEQUENCE app.q AS int => error 262
         u: DROP USER u ;; ALTER ROLE runner DROP MEMBER u => error 15151
         u: DROP TABLE app.t => error 3701
         u: GRANT SELECT ON app.t TO u => error 15151
         u: CREATE TABLE #mine (a int); INSERT #mine VALUES (1) => ok
         == a table type needs execute
         u: DECLARE @l app.list => error 229
         GRANT EXECUTE ON TYPE::app.list TO u => ok
         u: DECLARE @l app.list; INSERT @l VALUES (1) => ok
         == a read only database takes no changes
         ALTER DATABASE CURRENT SET READ_ONLY => ok
         INSERT app.t VALUES (2) ;; CREATE TABLE x (a int) => error 3906
         DECLARE @t TABLE (a int); INSERT @t VALUES (1) => ok
         ALTER DATABASE CURRENT SET READ_WRITE WITH ROLLBACK IMMEDIATE; INSERT app.t VALUES (2) => ok
         == only what one may use can be seen
         u: SELECT OBJECT_ID('app.t'), TYPE_ID('app.list'), HAS_PERMS_BY_NAME('app.read_all', 'OBJECT', 'EXECUTE'),
             IS_MEMBER('runner'), USER_NAME() => NULL, NULL, 1, 1, 'u'
         == a parameter needs execute on its type
         -- Source: "CREATE PROCEDURE", docs/t-sql/statements/create-procedure-transact-sql.md.
         CREATE TYPE dbo.list AS TABLE (a int); GRANT CREATE PROCEDURE TO u => ok
         ALTER AUTHORIZATION ON SCHEMA::app TO u => ok
         u: CREATE PROCEDURE app.p @l dbo.list READONLY AS RETURN => error 229
         GRANT EXECUTE ON TYPE::dbo.list TO u => ok
         u: CREATE PROCEDURE app.p @l dbo.list READONLY AS RETURN => ok"#,
    );
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

#[test]
fn permissions_and_members() {
    check(
        r#"== permissions have their short names
         -- Source: "sys.database_permissions" (docs/relational-databases/system-catalog-views/
         -- sys-database-permissions-transact-sql.md).
         CREATE ROLE r; GRANT CREATE TABLE TO r; GRANT REFERENCES TO r; DENY SELECT TO r => ok
         SELECT type, permission_name FROM sys.database_permissions
             WHERE grantee_principal_id = DATABASE_PRINCIPAL_ID('r') AND type IN ('CRTB', 'RF', 'SL')
             ORDER BY type => 'CRTB', 'CREATE TABLE' | 'RF  ', 'REFERENCES' | 'SL  ', 'SELECT'
         == a procedure adds a member to a role
         -- Sources: "sp_addrolemember", docs/relational-databases/system-stored-procedures/; 15014 and 15410:
         -- docs/relational-databases/errors-events/database-engine-events-and-errors-15000-to-15999.md.
         CREATE ROLE r; CREATE USER u WITHOUT LOGIN; EXEC sp_addrolemember 'r', 'u' => ok
         SELECT IS_ROLEMEMBER('r', 'u') => 1
         EXEC sp_addrolemember 'nothing', 'u' => error 15014
         EXEC sp_addrolemember 'r', 'nobody' => error 15410
         EXEC sp_addrolemember 'r' => error 201
         EXEC sp_addrolemember 'r', 'u', 'x' => error 8144"#,
    );
}
