//! Schemas that belong to others than dbo, and ownership chains.

use std::sync::Arc;

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::tests::harness::{engine, errors, login, ok, rows};

/// A database with a user `worker`, who is a member of the role `crew`, and a user `guest_worker`, who is not.
fn two_users() -> (Arc<Engine>, Session, Session, Session) {
    let engine = engine();
    let mut owner = login(&engine, "sa", "secret");
    ok(
        &mut owner,
        "CREATE LOGIN worker WITH PASSWORD = 'p'; CREATE USER worker; CREATE LOGIN outsider WITH PASSWORD = 'p';
        CREATE USER outsider; CREATE ROLE crew; ALTER ROLE crew ADD MEMBER worker",
    );
    let (worker, outsider) = (login(&engine, "worker", "p"), login(&engine, "outsider", "p"));
    (engine, owner, worker, outsider)
}

fn batches(session: &mut Session, batches: &[&str]) {
    for sql in batches {
        ok(session, sql);
    }
}

fn owner_of(session: &mut Session, schema: &str) -> String {
    let found = rows(session, &format!("SELECT USER_NAME(principal_id) FROM sys.schemas WHERE name = '{schema}'"));
    found.concat()
}

// Sources: "Tutorial: Ownership Chains and Context Switching",
// docs/relational-databases/tutorial-ownership-chains-and-context-switching.md ("This allows that account to use all
// Data Manipulation Language (DML) statement access … on the objects it contains"); "CREATE SCHEMA",
// docs/t-sql/statements/create-schema-transact-sql.md ("Objects created within a schema are owned by the owner of the
// schema").
#[test]
fn the_owner_of_a_schema_may_do_everything_in_it() {
    let (_e, mut s, mut worker, mut outsider) = two_users();
    batches(&mut s, &["CREATE SCHEMA app", "CREATE TABLE app.t (a int)", "GRANT CREATE TABLE TO crew"]);
    assert_eq!(errors(&mut worker, "SELECT a FROM app.t"), [229]);
    ok(&mut s, "ALTER AUTHORIZATION ON SCHEMA::app TO crew");
    assert_eq!(owner_of(&mut s, "app"), "ROW(String(\"crew\"))");
    batches(
        &mut worker,
        &[
            "INSERT app.t VALUES (1); UPDATE app.t SET a = 2; DELETE app.t",
            "CREATE TABLE app.more (a int); ALTER TABLE app.more ADD b int; CREATE SEQUENCE app.q",
            "GRANT SELECT ON app.more TO outsider",
        ],
    );
    assert_eq!(errors(&mut worker, "CREATE TABLE dbo.more (a int)"), [2760]);
    assert_eq!(rows(&mut outsider, "SELECT a FROM app.more"), [""; 0]);
    assert_eq!(errors(&mut outsider, "SELECT a FROM app.t"), [229]);
    assert_eq!(errors(&mut outsider, "ALTER AUTHORIZATION ON SCHEMA::app TO outsider"), [15151]);
    assert_eq!(errors(&mut worker, "ALTER AUTHORIZATION ON SCHEMA::app TO outsider"), [15151]);
    batches(&mut worker, &["DROP TABLE app.t, app.more; DROP SEQUENCE app.q", "DROP SCHEMA app"]);
}

// Source: "CREATE SCHEMA", docs/t-sql/statements/create-schema-transact-sql.md: "To specify another user as the owner
// of the schema being created, the caller must have IMPERSONATE permission on that user. If a database role is
// specified as the owner, the caller must have one of the following: membership in the role or ALTER permission on the
// role."
#[test]
fn a_schema_is_created_for_an_owner() {
    let (_e, mut s, mut worker, mut outsider) = two_users();
    batches(&mut s, &["CREATE SCHEMA a AUTHORIZATION crew", "CREATE SCHEMA b AUTHORIZATION outsider"]);
    ok(&mut s, "GRANT CREATE SCHEMA TO [public]");
    batches(&mut worker, &["CREATE SCHEMA c", "CREATE SCHEMA d AUTHORIZATION crew"]);
    for (schema, owner) in [("a", "crew"), ("b", "outsider"), ("c", "worker"), ("d", "crew")] {
        assert_eq!(owner_of(&mut s, schema), format!("ROW(String(\"{owner}\"))"));
    }
    assert_eq!(errors(&mut outsider, "CREATE SCHEMA e AUTHORIZATION crew"), [15151]);
    assert_eq!(errors(&mut worker, "CREATE SCHEMA e AUTHORIZATION outsider"), [15151]);
    assert_eq!(errors(&mut worker, "DROP SCHEMA b"), [15151]);
}

// Source: "ALTER AUTHORIZATION", docs/t-sql/statements/alter-authorization-transact-sql.md: "all permissions on the
// target will be dropped", of a schema those "on schema-contained objects that do not have explicit owners" too.
#[test]
fn a_new_owner_finds_no_permissions() {
    let (_e, mut s, mut worker, mut outsider) = two_users();
    batches(&mut s, &["CREATE SCHEMA app", "CREATE TABLE app.t (a int); CREATE TYPE app.list AS TABLE (a int)"]);
    let grants = "GRANT SELECT, INSERT ON app.t TO outsider; GRANT EXECUTE ON TYPE::app.list TO outsider;
        GRANT VIEW DEFINITION TO outsider";
    ok(&mut s, grants);
    ok(&mut s, "ALTER AUTHORIZATION ON SCHEMA::app TO dbo");
    ok(&mut outsider, "SELECT a FROM app.t; DECLARE @l app.list");
    ok(&mut s, "BEGIN TRANSACTION; ALTER AUTHORIZATION ON SCHEMA::app TO crew; ROLLBACK");
    ok(&mut outsider, "SELECT a FROM app.t; INSERT app.t VALUES (1)");
    ok(&mut s, "ALTER AUTHORIZATION ON SCHEMA::app TO crew");
    for denied in ["SELECT a FROM app.t", "INSERT app.t VALUES (1)", "DECLARE @l app.list"] {
        assert_eq!(errors(&mut outsider, denied), [229], "{denied}");
    }
    let left = "SELECT permission_name FROM sys.database_permissions
        WHERE grantee_principal_id = DATABASE_PRINCIPAL_ID('outsider') AND permission_name <> 'CONNECT'";
    assert_eq!(rows(&mut s, left), ["ROW(String(\"VIEW DEFINITION\"))"]);
    ok(&mut worker, "INSERT app.t VALUES (2)");
}

// Sources: "DROP USER", docs/t-sql/statements/drop-user-transact-sql.md ("Users that own securables cannot be dropped
// from the database"); 15138:
// docs/relational-databases/errors-events/database-engine-events-and-errors-15000-to-15999.md.
#[test]
fn who_owns_a_schema_is_not_dropped() {
    let (_e, mut s, _worker, _outsider) = two_users();
    ok(&mut s, "CREATE USER u WITHOUT LOGIN; CREATE ROLE r");
    batches(&mut s, &["CREATE SCHEMA a AUTHORIZATION u", "CREATE SCHEMA b AUTHORIZATION r"]);
    assert_eq!(errors(&mut s, "DROP USER u"), [15138]);
    assert_eq!(errors(&mut s, "DROP ROLE r"), [15138]);
    ok(&mut s, "ALTER AUTHORIZATION ON SCHEMA::a TO dbo; DROP USER u; DROP SCHEMA b; DROP ROLE r");
}

// Sources: "DENY", docs/t-sql/statements/deny-transact-sql.md ("DENY does not apply to object owners"); 4624:
// docs/relational-databases/errors-events/database-engine-events-and-errors-4000-to-4999.md. No page says whether the
// members of a role that owns something are its owners there.
#[test]
fn an_owner_is_not_denied_anything() {
    let (_e, mut s, mut worker, mut outsider) = two_users();
    batches(&mut s, &["CREATE SCHEMA mine AUTHORIZATION worker", "CREATE SCHEMA ours AUTHORIZATION crew"]);
    ok(&mut s, "CREATE TABLE mine.t (a int); CREATE TABLE ours.t (a int); CREATE TABLE dbo.t (a int)");
    for owner in ["ON mine.t TO worker", "ON ours.t TO crew", "ON dbo.t TO dbo"] {
        assert_eq!(errors(&mut s, &format!("GRANT SELECT {owner}")), [4624], "{owner}");
        assert_eq!(errors(&mut s, &format!("DENY SELECT {owner}")), [4624], "{owner}");
    }
    assert_eq!(errors(&mut worker, "GRANT SELECT ON ours.t TO worker"), [4624]);
    ok(&mut s, "DENY SELECT ON mine.t TO [public]; DENY SELECT ON ours.t TO [public]");
    ok(&mut worker, "SELECT a FROM mine.t");
    assert_eq!(errors(&mut worker, "SELECT a FROM ours.t"), [59000]);
    ok(&mut worker, "INSERT ours.t VALUES (1)");
    assert_eq!(errors(&mut outsider, "SELECT a FROM mine.t"), [229]);
}

// Source: "Authorization and Permissions in SQL Server" (dotnet/docs,
// docs/framework/data/adonet/sql/authorization-and-permissions-in-sql-server.md): "If the stored procedure and the
// table have the same owner, the user doesn't need to be granted any permissions on the table and can even be denied
// permissions. However, if the stored procedure and the table have different owners, SQL Server must check the user's
// permissions on the table".
#[test]
fn a_chain_breaks_where_the_owner_changes() {
    let (_e, mut s, mut worker, mut outsider) = two_users();
    batches(
        &mut s,
        &[
            "CREATE SCHEMA a",
            "CREATE SCHEMA b",
            "CREATE TABLE a.t (n int); INSERT a.t VALUES (1); CREATE TABLE b.t (n int); CREATE TYPE b.list AS TABLE (n int)",
            "CREATE PROCEDURE a.own AS SELECT n FROM a.t",
            "CREATE PROCEDURE a.other AS INSERT b.t SELECT n FROM a.t",
            "CREATE PROCEDURE a.call_own AS EXEC a.own",
            "CREATE PROCEDURE b.call_other AS EXEC a.own",
            "CREATE PROCEDURE a.read_other AS DECLARE c CURSOR LOCAL FOR SELECT n FROM b.t; OPEN c",
            "CREATE PROCEDURE a.declare_list AS DECLARE @l b.list; SELECT 1",
            "CREATE TRIGGER b.fired ON b.t AFTER DELETE AS INSERT a.t VALUES (2)",
        ],
    );
    let grants = "GRANT EXECUTE ON a.own TO outsider; GRANT EXECUTE ON a.other TO outsider;
        GRANT EXECUTE ON a.call_own TO outsider; GRANT EXECUTE ON b.call_other TO outsider;
        GRANT EXECUTE ON a.read_other TO outsider; GRANT EXECUTE ON a.declare_list TO outsider;
        GRANT SELECT, DELETE ON b.t TO outsider; DENY SELECT ON a.t TO outsider";
    ok(&mut s, grants);
    let all = ["a.own", "a.other", "a.call_own", "b.call_other", "a.read_other", "a.declare_list"];
    // All belongs to dbo.
    for procedure in all {
        ok(&mut outsider, &format!("EXEC {procedure}"));
    }
    ok(&mut outsider, "DELETE b.t");
    // Plans that were made for one owner are not kept for two.
    ok(&mut s, &format!("ALTER AUTHORIZATION ON SCHEMA::b TO crew; {grants}"));
    ok(&mut s, "REVOKE EXECUTE ON a.own TO outsider");
    ok(&mut outsider, "EXEC a.call_own");
    for broken in ["EXEC a.other", "EXEC b.call_other", "EXEC a.declare_list", "DELETE b.t"] {
        assert_eq!(errors(&mut outsider, broken), [229], "{broken}");
    }
    ok(&mut outsider, "EXEC a.read_other");
    ok(&mut s, "REVOKE SELECT ON b.t TO outsider");
    assert_eq!(errors(&mut outsider, "EXEC a.read_other"), [229]);
    // The caller is asked, and a member of the other owner may.
    ok(&mut s, "GRANT EXECUTE ON a.other TO worker");
    ok(&mut worker, "EXEC a.other");
    ok(&mut s, "GRANT INSERT ON b.t TO outsider");
    ok(&mut outsider, "EXEC a.other");
    ok(&mut s, "ALTER AUTHORIZATION ON SCHEMA::b TO dbo");
    ok(&mut outsider, "EXEC a.read_other; EXEC a.declare_list");
}

// Sources: as above; "Ownership Chains" (learn.microsoft.com/previous-versions/sql/sql-server-2008-r2/ms188676) has the
// example of views over views, each link compared with the one before it.
#[test]
fn views_and_functions_are_links_of_a_chain() {
    let (_e, mut s, _worker, mut outsider) = two_users();
    batches(
        &mut s,
        &[
            "CREATE SCHEMA a",
            "CREATE SCHEMA b AUTHORIZATION crew",
            "CREATE TABLE a.t (n int); INSERT a.t VALUES (1); CREATE TABLE b.t (n int); INSERT b.t VALUES (2)",
            "CREATE VIEW a.own AS SELECT n FROM a.t",
            "CREATE VIEW a.mixed AS SELECT n FROM b.t",
            "CREATE VIEW b.back AS SELECT n FROM a.own",
            "CREATE FUNCTION a.one () RETURNS int AS BEGIN RETURN (SELECT TOP (1) n FROM b.t) END",
            "CREATE FUNCTION a.several (@ask int) RETURNS int AS BEGIN
                DECLARE @n int = 0; IF @ask = 1 SELECT @n = n FROM b.t; RETURN @n END",
            "CREATE PROCEDURE b.through AS SELECT n FROM a.mixed",
            "GRANT SELECT ON a.own TO outsider; GRANT SELECT ON a.mixed TO outsider; GRANT EXECUTE ON a.one TO outsider;
            GRANT EXECUTE ON a.several TO outsider; GRANT SELECT ON b.back TO outsider; GRANT EXECUTE ON b.through TO outsider",
        ],
    );
    let broken = [
        "SELECT n FROM a.mixed",
        "SELECT a.one()",
        "SELECT a.several(1)",
        // The procedure's owner is the table's, but the view between them has another.
        "EXEC b.through",
    ];
    assert_eq!(rows(&mut outsider, "SELECT n FROM a.own UNION ALL SELECT n FROM b.back"), ["ROW(Int(1))"; 2]);
    // What is not reached asks for nothing.
    assert_eq!(rows(&mut outsider, "SELECT a.several(0)"), ["ROW(Int(0))"]);
    for sql in broken {
        assert_eq!(errors(&mut outsider, sql), [229], "{sql}");
    }
    ok(&mut s, "GRANT SELECT ON b.t TO outsider");
    for sql in broken {
        ok(&mut outsider, sql);
    }
    ok(&mut s, "DENY SELECT ON a.own TO outsider");
    assert_eq!(errors(&mut outsider, "SELECT n FROM b.back"), [229]);
}

// Sources: as above; "CREATE VIEW", docs/t-sql/statements/create-view-transact-sql.md (updatable views).
#[test]
fn a_change_through_a_view_needs_the_permission_on_the_view() {
    let (_e, mut s, _worker, mut outsider) = two_users();
    batches(
        &mut s,
        &[
            "CREATE SCHEMA a",
            "CREATE SCHEMA b AUTHORIZATION crew",
            "CREATE TABLE a.t (n int); INSERT a.t VALUES (1); CREATE TABLE b.t (n int); INSERT b.t VALUES (2)",
            "CREATE VIEW a.own AS SELECT n FROM a.t",
            "CREATE VIEW a.mixed AS SELECT n FROM b.t",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON a.own TO outsider;
            GRANT SELECT, INSERT, UPDATE, DELETE ON a.mixed TO outsider; GRANT SELECT ON b.t TO outsider",
        ],
    );
    let changes = |view: &str| [format!("UPDATE {view} SET n = 4"), format!("DELETE {view}")];
    for sql in changes("a.own") {
        ok(&mut outsider, &sql);
    }
    for sql in changes("a.mixed").iter().chain(&changes("a.t")) {
        assert_eq!(errors(&mut outsider, sql), [229], "{sql}");
    }
    ok(&mut s, "GRANT INSERT, UPDATE, DELETE ON b.t TO outsider");
    for sql in changes("a.mixed") {
        ok(&mut outsider, &sql);
    }
    ok(&mut s, "REVOKE UPDATE ON a.mixed TO outsider");
    assert_eq!(errors(&mut outsider, "UPDATE a.mixed SET n = 4"), [229]);
}

// Sources: "UPDATE", docs/t-sql/queries/update-transact-sql.md ("SELECT permissions are also required for the table
// being updated if the UPDATE statement contains a WHERE clause"); "DELETE",
// docs/t-sql/statements/delete-transact-sql.md. Only the target need not be read: what the view over it reads of
// another owner's is asked for.
#[test]
fn a_change_that_does_not_read_its_view_reads_what_is_in_that() {
    let (_e, mut s, _worker, mut outsider) = two_users();
    batches(
        &mut s,
        &[
            "CREATE SCHEMA app AUTHORIZATION crew",
            "CREATE TABLE dbo.t (a int, b int); INSERT dbo.t VALUES (1, 1)",
            "CREATE TABLE app.secret (a int); INSERT app.secret VALUES (1); CREATE TABLE app.t (a int, b int)",
            "CREATE VIEW dbo.few AS SELECT a, b FROM dbo.t WHERE a IN (SELECT a FROM app.secret)",
            "CREATE VIEW dbo.joined AS SELECT t.a, t.b FROM dbo.t JOIN app.secret s ON s.a = t.a",
            "CREATE VIEW dbo.whole AS SELECT a, b FROM app.t",
            "CREATE PROCEDURE dbo.change_few AS UPDATE dbo.few SET b = 9",
            "CREATE PROCEDURE dbo.delete_few AS DELETE dbo.few",
            "CREATE PROCEDURE dbo.change_joined AS UPDATE dbo.joined SET b = 9",
            "GRANT EXECUTE TO outsider; GRANT UPDATE, DELETE ON dbo.whole TO outsider;
            GRANT SELECT, UPDATE, DELETE ON app.t TO outsider",
        ],
    );
    let through = ["EXEC dbo.change_few", "EXEC dbo.change_joined", "EXEC dbo.delete_few"];
    for procedure in through {
        assert_eq!(errors(&mut outsider, procedure), [229], "{procedure}");
    }
    ok(&mut s, "GRANT SELECT ON app.secret TO outsider");
    for procedure in through {
        ok(&mut outsider, procedure);
    }
    // The view itself is only changed here: SELECT on it is not asked for.
    ok(&mut outsider, "UPDATE dbo.whole SET b = 9; DELETE dbo.whole");
    assert_eq!(errors(&mut outsider, "DELETE dbo.whole WHERE a = 1"), [229]);
}

// Source: "NEXT VALUE FOR", docs/t-sql/functions/next-value-for-transact-sql.md: "If the sequence object has the same
// Source: "CREATE FUNCTION", docs/t-sql/statements/create-function-transact-sql.md (permissions): the permission to create in the database, and ALTER on the schema.
#[test]
fn an_owner_creates_what_the_database_lets_it() {
    let (_e, mut s, mut worker, _outsider) = two_users();
    ok(&mut s, "CREATE SCHEMA mine AUTHORIZATION worker");
    let made = [
        ("FUNCTION", "mine.f (@n int) RETURNS int AS BEGIN RETURN @n END"),
        ("PROCEDURE", "mine.p AS RETURN"),
        ("TYPE", "mine.id AS TABLE (n int)"),
        ("VIEW", "mine.v AS SELECT 1 AS one"),
        ("TABLE", "mine.t (n int)"),
    ];
    for (kind, definition) in made {
        let create = format!("CREATE {kind} {definition}");
        assert_eq!(errors(&mut worker, &create), [262], "{create}");
        ok(&mut s, &format!("GRANT CREATE {kind} TO worker"));
        ok(&mut worker, &create);
        assert_eq!(errors(&mut worker, &create.replace("mine.", "dbo.")), [2760], "{create}");
    }
    ok(&mut worker, "CREATE SEQUENCE mine.q; SELECT mine.f(1); EXEC mine.p");
}

// Sources: "SET IDENTITY_INSERT", docs/t-sql/statements/set-identity-insert-transact-sql.md ("User must own the table
// or have ALTER permission on the table"); "DBCC CHECKIDENT",
// docs/t-sql/database-console-commands/dbcc-checkident-transact-sql.md ("Caller must own the schema that contains the
// table"); "DROP TYPE", docs/t-sql/statements/drop-type-transact-sql.md; "Permissions",
// docs/relational-databases/security/permissions-database-engine.md (REFERENCES).
#[test]
fn what_else_an_owner_may() {
    let (_e, mut s, mut worker, mut outsider) = two_users();
    batches(&mut s, &["CREATE SCHEMA mine AUTHORIZATION worker", "GRANT CREATE TABLE, CREATE TYPE TO [public]"]);
    ok(&mut s, "GRANT CREATE SCHEMA TO outsider; CREATE TYPE mine.id AS TABLE (n int)");
    ok(&mut worker, "CREATE TABLE mine.t (id int IDENTITY PRIMARY KEY)");
    batches(
        &mut worker,
        &[
            "SET IDENTITY_INSERT mine.t ON; INSERT mine.t (id) VALUES (5); SET IDENTITY_INSERT mine.t OFF",
            "DBCC CHECKIDENT ('mine.t', RESEED, 7)",
            "CREATE TABLE mine.u (id int REFERENCES mine.t); DROP TYPE mine.id",
        ],
    );
    ok(&mut outsider, "CREATE SCHEMA theirs");
    let with_key = "CREATE TABLE theirs.u (id int REFERENCES mine.t)";
    assert_eq!(errors(&mut outsider, "SET IDENTITY_INSERT mine.t ON"), [1088]);
    assert_eq!(errors(&mut outsider, "DBCC CHECKIDENT ('mine.t', RESEED, 7)"), [59000]);
    assert_eq!(errors(&mut outsider, with_key), [59000]);
    ok(&mut worker, "GRANT REFERENCES ON mine.t TO outsider");
    ok(&mut outsider, with_key);
}
