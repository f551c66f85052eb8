//! Owners of roles, and the procedures that change a role's members.

use crate::session::tests::harness::{errors, login, ok, rows, session};

// Sources: "CREATE ROLE", docs/t-sql/statements/create-role-transact-sql.md ("The owner of the role, or any member of
// an owning role can add or remove members").
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
    assert_eq!(errors(&mut s, "CREATE ROLE more AUTHORIZATION nobody"), [15151]);
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
