//! Owners of roles, ALTER AUTHORIZATION, and the procedures that change a role's members.

use crate::session::tests::harness::{errors, login, ok, rows, session};

// Sources: "CREATE ROLE", docs/t-sql/statements/create-role-transact-sql.md ("The owner of the role, or any member of
// an owning role can add or remove members"); "ALTER AUTHORIZATION",
// docs/t-sql/statements/alter-authorization-transact-sql.md.
#[test]
fn the_owner_of_a_role_changes_its_members() {
    let (e, mut s) = session();
    ok(
        &mut s,
        "CREATE LOGIN lead WITH PASSWORD = 'p'; CREATE USER lead; CREATE USER worker WITHOUT LOGIN;
        CREATE ROLE leads; ALTER ROLE leads ADD MEMBER lead; CREATE ROLE crew AUTHORIZATION leads; CREATE ROLE other",
    );
    let mut lead = login(&e, "lead", "p");
    ok(&mut lead, "ALTER ROLE crew ADD MEMBER worker");
    assert_eq!(errors(&mut lead, "ALTER ROLE other ADD MEMBER worker"), [15151]);
    assert_eq!(errors(&mut lead, "DROP ROLE other"), [15151]);
    ok(&mut lead, "ALTER ROLE crew DROP MEMBER worker");
    assert_eq!(
        rows(
            &mut s,
            "SELECT USER_NAME(owning_principal_id) FROM sys.database_principals WHERE name IN ('crew', 'other', 'worker') ORDER BY name"
        ),
        ["ROW(String(\"leads\"))", "ROW(String(\"dbo\"))", "ROW(Null)"]
    );
    ok(&mut s, "ALTER ROLE leads DROP MEMBER lead");
    assert_eq!(errors(&mut s, "DROP ROLE leads"), [15421]);
    ok(&mut s, "ALTER AUTHORIZATION ON ROLE::crew TO lead; DROP ROLE leads");
    ok(&mut lead, "DROP ROLE crew");
    assert_eq!(errors(&mut s, "CREATE ROLE more AUTHORIZATION nobody"), [15151]);
    ok(&mut s, "BEGIN TRANSACTION; ALTER AUTHORIZATION ON ROLE::other TO lead; ROLLBACK");
    assert_eq!(errors(&mut lead, "DROP ROLE other"), [15151]);
}

// Source: "ALTER AUTHORIZATION", docs/t-sql/statements/alter-authorization-transact-sql.md ("Cannot change the owner of
// sys, dbo, or information_schema").
#[test]
fn objects_stay_with_the_owner_of_their_schema() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int); CREATE USER u WITHOUT LOGIN");
    ok(&mut s, "CREATE SCHEMA app");
    ok(&mut s, "CREATE TABLE app.t (a int)");
    ok(
        &mut s,
        "ALTER AUTHORIZATION ON SCHEMA::app TO dbo; ALTER AUTHORIZATION ON dbo.t TO SCHEMA OWNER;
        ALTER AUTHORIZATION ON OBJECT::t TO dbo; ALTER AUTHORIZATION ON app.t TO SCHEMA OWNER",
    );
    for refused in [
        "OBJECT::dbo.t TO u",
        "OBJECT::app.t TO dbo",
        "DATABASE::readpast TO sa",
        "ROLE::db_owner TO u",
        "SCHEMA::dbo TO u",
        "SCHEMA::app TO [public]",
        "SCHEMA::app TO guest",
    ] {
        assert_eq!(errors(&mut s, &format!("ALTER AUTHORIZATION ON {refused}")), [59000], "{refused}");
    }
    for missing in ["SCHEMA::nothing TO dbo", "OBJECT::nothing TO dbo", "ROLE::nothing TO dbo", "SCHEMA::app TO nobody"]
    {
        assert_eq!(errors(&mut s, &format!("ALTER AUTHORIZATION ON {missing}")), [15151], "{missing}");
    }
}

// Sources: "sp_addrolemember" and "sp_droprolemember", docs/relational-databases/system-stored-procedures/; 15014 and
// 15410: docs/relational-databases/errors-events/database-engine-events-and-errors-15000-to-15999.md. No page says that
// sp_droprolemember gives 15410 as sp_addrolemember does.
#[test]
fn procedures_change_the_members_of_a_role() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE ROLE r; CREATE USER u WITHOUT LOGIN; EXEC sp_addrolemember 'r', 'u'");
    assert_eq!(rows(&mut s, "SELECT IS_ROLEMEMBER('r', 'u')"), ["ROW(Int(1))"]);
    ok(&mut s, "EXEC sys.sp_droprolemember @membername = N'u', @rolename = N'r'");
    assert_eq!(rows(&mut s, "SELECT IS_ROLEMEMBER('r', 'u')"), ["ROW(Int(0))"]);
    assert_eq!(errors(&mut s, "EXEC sp_addrolemember 'nothing', 'u'"), [15014]);
    assert_eq!(errors(&mut s, "EXEC sp_addrolemember 'r', 'nobody'"), [15410]);
    assert_eq!(errors(&mut s, "EXEC sp_addrolemember 'r'"), [201]);
    assert_eq!(errors(&mut s, "EXEC sp_addrolemember 'r', 'u', 'x'"), [8144]);
}
