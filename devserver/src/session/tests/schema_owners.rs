//! Schemas that belong to others than dbo, and ownership chains.

use crate::session::tests::harness::check;

#[test]
fn owners_of_schemas_and_chains() {
    check(
        r#"CREATE LOGIN worker WITH PASSWORD = 'worker'; CREATE USER worker; CREATE LOGIN outsider
             WITH PASSWORD = 'outsider';
             CREATE USER outsider; CREATE ROLE crew; ALTER ROLE crew ADD MEMBER worker => ok
         == the owner of a schema may do everything in it
         -- Sources: "Tutorial: Ownership Chains and Context Switching",
         -- docs/relational-databases/tutorial-ownership-chains-and-context-switching.md ("This allows that account to
         -- use all Data Manipulation Language (DML) statement access … on the objects it contains"); "CREATE SCHEMA",
         -- docs/t-sql/statements/create-schema-transact-sql.md ("Objects created within a schema are owned by the owner
         -- of the schema").
         CREATE SCHEMA app ;; CREATE TABLE app.t (a int) ;; GRANT CREATE TABLE TO crew => ok
         worker: SELECT a FROM app.t => error 229
         ALTER AUTHORIZATION ON SCHEMA::app TO crew => ok
         SELECT USER_NAME(principal_id) FROM sys.schemas WHERE name = 'app' => 'crew'
         worker: INSERT app.t VALUES (1); UPDATE app.t SET a = 2; DELETE app.t => ok
         worker: CREATE TABLE app.more (a int); ALTER TABLE app.more ADD b int; CREATE SEQUENCE app.q => ok
         worker: GRANT SELECT ON app.more TO outsider => ok
         worker: CREATE TABLE dbo.more (a int) => error 2760
         outsider: SELECT a FROM app.more => none
         outsider: SELECT a FROM app.t => error 229
         outsider: ALTER AUTHORIZATION ON SCHEMA::app TO outsider => error 15151
         worker: ALTER AUTHORIZATION ON SCHEMA::app TO outsider => error 15151
         worker: DROP TABLE app.t, app.more; DROP SEQUENCE app.q ;; DROP SCHEMA app => ok
         == a schema is created for an owner
         -- Source: "CREATE SCHEMA", docs/t-sql/statements/create-schema-transact-sql.md: "To specify another user as
         -- the owner of the schema being created, the caller must have IMPERSONATE permission on that user. If a
         -- database role is specified as the owner, the caller must have one of the following: membership in the role
         -- or ALTER permission on the role."
         CREATE SCHEMA a AUTHORIZATION crew ;; CREATE SCHEMA b AUTHORIZATION outsider ;;
             GRANT CREATE SCHEMA TO [public] => ok
         worker: CREATE SCHEMA c ;; CREATE SCHEMA d AUTHORIZATION crew => ok
         SELECT USER_NAME(principal_id) FROM sys.schemas WHERE name IN ('a', 'b', 'c', 'd') ORDER BY name
             => 'crew' | 'outsider' | 'worker' | 'crew'
         outsider: CREATE SCHEMA e AUTHORIZATION crew => error 15151
         worker: CREATE SCHEMA e AUTHORIZATION outsider ;; DROP SCHEMA b => error 15151
         == a new owner finds no permissions
         -- Source: "ALTER AUTHORIZATION", docs/t-sql/statements/alter-authorization-transact-sql.md: "all permissions
         -- on the target will be dropped", of a schema those "on schema-contained objects that do not have explicit
         -- owners" too.
         CREATE SCHEMA app ;; CREATE TABLE app.t (a int); CREATE TYPE app.list AS TABLE (a int) => ok
         GRANT SELECT, INSERT ON app.t TO outsider; GRANT EXECUTE ON TYPE::app.list TO outsider;
             GRANT VIEW DEFINITION TO outsider => ok
         ALTER AUTHORIZATION ON SCHEMA::app TO dbo => ok
         outsider: SELECT a FROM app.t; DECLARE @l app.list => ok
         BEGIN TRANSACTION; ALTER AUTHORIZATION ON SCHEMA::app TO crew; ROLLBACK => ok
         outsider: SELECT a FROM app.t; INSERT app.t VALUES (1) => ok
         ALTER AUTHORIZATION ON SCHEMA::app TO crew => ok
         outsider: SELECT a FROM app.t ;; INSERT app.t VALUES (1) ;; DECLARE @l app.list => error 229
         SELECT permission_name FROM sys.database_permissions
             WHERE grantee_principal_id = DATABASE_PRINCIPAL_ID('outsider')
             AND permission_name <> 'CONNECT' => 'VIEW DEFINITION'
         worker: INSERT app.t VALUES (2) => ok
         == who owns a schema is not dropped
         -- Sources: "DROP USER", docs/t-sql/statements/drop-user-transact-sql.md ("Users that own securables cannot be
         -- dropped from the database"); 15138:
         -- docs/relational-databases/errors-events/database-engine-events-and-errors-15000-to-15999.md.
         CREATE USER u WITHOUT LOGIN; CREATE ROLE r ;; CREATE SCHEMA a AUTHORIZATION u ;;
             CREATE SCHEMA b AUTHORIZATION r => ok
         DROP USER u ;; DROP ROLE r => error 15138
         ALTER AUTHORIZATION ON SCHEMA::a TO dbo; DROP USER u; DROP SCHEMA b; DROP ROLE r => ok
         == an owner is not denied anything
         -- Sources: "DENY", docs/t-sql/statements/deny-transact-sql.md ("DENY does not apply to object owners"); 4624:
         -- docs/relational-databases/errors-events/database-engine-events-and-errors-4000-to-4999.md. No page says
         -- whether the members of a role that owns something are its owners there.
         CREATE SCHEMA mine AUTHORIZATION worker ;; CREATE SCHEMA ours AUTHORIZATION crew ;;
             CREATE TABLE mine.t (a int); CREATE TABLE ours.t (a int); CREATE TABLE dbo.t (a int) => ok
         GRANT SELECT ON mine.t TO worker ;; DENY SELECT ON mine.t TO worker ;; GRANT SELECT ON ours.t TO crew ;;
             DENY SELECT ON ours.t TO crew ;; GRANT SELECT ON dbo.t TO dbo ;; DENY SELECT ON dbo.t TO dbo => error 4624
         worker: GRANT SELECT ON ours.t TO worker => error 4624
         DENY SELECT ON mine.t TO [public]; DENY SELECT ON ours.t TO [public] => ok
         worker: SELECT a FROM mine.t => ok
         worker: SELECT a FROM ours.t => error 59000
         worker: INSERT ours.t VALUES (1) => ok
         outsider: SELECT a FROM mine.t => error 229
         == a chain breaks where the owner changes
         -- Source: "Authorization and Permissions in SQL Server" (dotnet/docs,
         -- docs/framework/data/adonet/sql/authorization-and-permissions-in-sql-server.md): "If the stored procedure and
         -- the table have the same owner, the user doesn't need to be granted any permissions on the table and can even
         -- be denied permissions. However, if the stored procedure and the table have different owners, SQL Server must
         -- check the user's permissions on the table".
         CREATE SCHEMA a ;; CREATE SCHEMA b => ok
         CREATE TABLE a.t (n int); INSERT a.t VALUES (1); CREATE TABLE b.t (n int);
             CREATE TYPE b.list AS TABLE (n int) => ok
         CREATE PROCEDURE a.own AS SELECT n FROM a.t ;; CREATE PROCEDURE a.other AS INSERT b.t SELECT n FROM a.t ;;
             CREATE PROCEDURE a.call_own AS EXEC a.own ;; CREATE PROCEDURE b.call_other AS EXEC a.own ;;
             CREATE PROCEDURE a.read_other AS DECLARE c CURSOR LOCAL FOR SELECT n FROM b.t; OPEN c ;;
             CREATE PROCEDURE a.declare_list AS DECLARE @l b.list; SELECT 1 ;;
             CREATE TRIGGER b.fired ON b.t AFTER DELETE AS INSERT a.t VALUES (2) => ok
         GRANT EXECUTE ON a.own TO outsider; GRANT EXECUTE ON a.other TO outsider;
             GRANT EXECUTE ON a.call_own TO outsider; GRANT EXECUTE ON b.call_other TO outsider;
             GRANT EXECUTE ON a.read_other TO outsider; GRANT EXECUTE ON a.declare_list TO outsider;
             GRANT SELECT, DELETE ON b.t TO outsider; DENY SELECT ON a.t TO outsider => ok
         -- All belongs to dbo.
         outsider: EXEC a.own ;; EXEC a.other ;; EXEC a.call_own ;; EXEC b.call_other ;; EXEC a.read_other ;;
             EXEC a.declare_list ;; DELETE b.t => ok
         -- Plans that were made for one owner are not kept for two.
         ALTER AUTHORIZATION ON SCHEMA::b TO crew; GRANT EXECUTE ON b.call_other TO outsider;
             GRANT SELECT, DELETE ON b.t TO outsider; REVOKE EXECUTE ON a.own TO outsider => ok
         outsider: EXEC a.call_own => ok
         outsider: EXEC a.other ;; EXEC b.call_other ;; EXEC a.declare_list ;; DELETE b.t => error 229
         outsider: EXEC a.read_other => ok
         REVOKE SELECT ON b.t TO outsider => ok
         outsider: EXEC a.read_other => error 229
         -- The caller is asked, and a member of the other owner may.
         GRANT EXECUTE ON a.other TO worker => ok
         worker: EXEC a.other => ok
         GRANT INSERT ON b.t TO outsider => ok
         outsider: EXEC a.other => ok
         ALTER AUTHORIZATION ON SCHEMA::b TO dbo => ok
         outsider: EXEC a.read_other; EXEC a.declare_list => ok
         == views and functions are links of a chain
         -- Sources: as above; "Ownership Chains"
         -- (learn.microsoft.com/previous-versions/sql/sql-server-2008-r2/ms188676) has the example of views over views,
         -- each link compared with the one before it.
         CREATE SCHEMA a ;; CREATE SCHEMA b AUTHORIZATION crew ;;
             CREATE TABLE a.t (n int); INSERT a.t VALUES (1); CREATE TABLE b.t (n int); INSERT b.t VALUES (2) ;;
             CREATE VIEW a.own AS SELECT n FROM a.t ;; CREATE VIEW a.mixed AS SELECT n FROM b.t ;;
             CREATE VIEW b.back AS SELECT n FROM a.own ;;
             CREATE FUNCTION a.one () RETURNS int AS BEGIN RETURN (SELECT TOP (1) n FROM b.t) END => ok
         CREATE FUNCTION a.several (@ask int) RETURNS int AS BEGIN
             DECLARE @n int = 0; IF @ask = 1 SELECT @n = n FROM b.t; RETURN @n END => ok
         CREATE PROCEDURE b.through AS SELECT n FROM a.mixed => ok
         GRANT SELECT ON a.own TO outsider; GRANT SELECT ON a.mixed TO outsider; GRANT EXECUTE ON a.one TO outsider;
             GRANT EXECUTE ON a.several TO outsider; GRANT SELECT ON b.back TO outsider;
             GRANT EXECUTE ON b.through TO outsider => ok
         outsider: SELECT n FROM a.own UNION ALL SELECT n FROM b.back => 1 | 1
         -- What is not reached asks for nothing.
         outsider: SELECT a.several(0) => 0
         outsider: SELECT n FROM a.mixed ;; SELECT a.one() ;; SELECT a.several(1) ;; EXEC b.through => error 229
         GRANT SELECT ON b.t TO outsider => ok
         outsider: SELECT n FROM a.mixed ;; SELECT a.one() ;; SELECT a.several(1) ;; EXEC b.through => ok
         DENY SELECT ON a.own TO outsider => ok
         outsider: SELECT n FROM b.back => error 229
         == a change that does not read its view reads what is in that
         -- Sources: "UPDATE", docs/t-sql/queries/update-transact-sql.md ("SELECT permissions are also required for the
         -- table being updated if the UPDATE statement contains a WHERE clause"); "DELETE",
         -- docs/t-sql/statements/delete-transact-sql.md. Only the target need not be read: what the view over it reads
         -- of another owner's is asked for.
         CREATE SCHEMA app AUTHORIZATION crew ;; CREATE TABLE dbo.t (a int, b int); INSERT dbo.t VALUES (1, 1) ;;
             CREATE TABLE app.secret (a int); INSERT app.secret VALUES (1); CREATE TABLE app.t (a int, b int) ;;
             CREATE VIEW dbo.few AS SELECT a, b FROM dbo.t WHERE a IN (SELECT a FROM app.secret) ;;
             CREATE VIEW dbo.joined AS SELECT t.a, t.b FROM dbo.t JOIN app.secret s ON s.a = t.a ;;
             CREATE VIEW dbo.whole AS SELECT a, b FROM app.t ;;
             CREATE PROCEDURE dbo.change_few AS UPDATE dbo.few SET b = 9 ;;
             CREATE PROCEDURE dbo.delete_few AS DELETE dbo.few ;;
             CREATE PROCEDURE dbo.change_joined AS UPDATE dbo.joined SET b = 9 => ok
         GRANT EXECUTE TO outsider; GRANT UPDATE, DELETE ON dbo.whole TO outsider;
             GRANT SELECT, UPDATE, DELETE ON app.t TO outsider => ok
         outsider: EXEC dbo.change_few ;; EXEC dbo.change_joined ;; EXEC dbo.delete_few => error 229
         GRANT SELECT ON app.secret TO outsider => ok
         outsider: EXEC dbo.change_few ;; EXEC dbo.change_joined ;; EXEC dbo.delete_few => ok
         -- The view itself is only changed here: SELECT on it is not asked for.
         outsider: UPDATE dbo.whole SET b = 9; DELETE dbo.whole => ok
         outsider: DELETE dbo.whole WHERE a = 1 => error 229
         == a change through a view needs the permission on the view
         -- Sources: as above; "CREATE VIEW", docs/t-sql/statements/create-view-transact-sql.md (updatable views).
         CREATE SCHEMA a ;; CREATE SCHEMA b AUTHORIZATION crew ;;
             CREATE TABLE a.t (n int); INSERT a.t VALUES (1); CREATE TABLE b.t (n int); INSERT b.t VALUES (2) ;;
             CREATE VIEW a.own AS SELECT n FROM a.t ;; CREATE VIEW a.mixed AS SELECT n FROM b.t => ok
         GRANT UPDATE, DELETE ON a.own TO outsider; GRANT UPDATE, DELETE ON a.mixed TO outsider;
             GRANT SELECT ON b.t TO outsider => ok
         outsider: UPDATE a.own SET n = 4; DELETE a.own => ok
         outsider: UPDATE a.t SET n = 4 ;; UPDATE a.mixed SET n = 4 ;; DELETE a.mixed => error 229
         GRANT UPDATE, DELETE ON b.t TO outsider => ok
         outsider: UPDATE a.mixed SET n = 4; DELETE a.mixed => ok
         REVOKE UPDATE ON a.mixed TO outsider => ok
         outsider: UPDATE a.mixed SET n = 4 => error 229
         == an owner creates what the database lets it
         -- Source: "CREATE FUNCTION", docs/t-sql/statements/create-function-transact-sql.md (permissions): the
         -- permission to create in the database, and ALTER on the schema.
         CREATE SCHEMA mine AUTHORIZATION worker => ok
         worker: CREATE FUNCTION mine.f (@n int) RETURNS int AS BEGIN RETURN @n END ;;
             CREATE PROCEDURE mine.p AS RETURN ;; CREATE TYPE mine.id AS TABLE (n int) ;;
             CREATE VIEW mine.v AS SELECT 1 AS one ;; CREATE TABLE mine.t (n int) => error 262
         GRANT CREATE FUNCTION, CREATE PROCEDURE, CREATE TYPE, CREATE VIEW, CREATE TABLE TO worker => ok
         worker: CREATE FUNCTION mine.f (@n int) RETURNS int AS BEGIN RETURN @n END ;;
             CREATE PROCEDURE mine.p AS RETURN ;; CREATE VIEW mine.v AS SELECT 1 AS one ;;
             CREATE TABLE mine.t (n int); CREATE TYPE mine.id AS TABLE (n int); CREATE SEQUENCE mine.q => ok
         worker: CREATE FUNCTION dbo.f (@n int) RETURNS int AS BEGIN RETURN @n END ;;
             CREATE PROCEDURE dbo.p AS RETURN ;; CREATE TYPE dbo.id AS TABLE (n int) ;;
             CREATE VIEW dbo.v AS SELECT 1 AS one => error 2760
         worker: SELECT mine.f(1); EXEC mine.p => 1
         == what else an owner may
         -- Sources: "SET IDENTITY_INSERT", docs/t-sql/statements/set-identity-insert-transact-sql.md ("User must own
         -- the table or have ALTER permission on the table"); "DBCC CHECKIDENT",
         -- docs/t-sql/database-console-commands/dbcc-checkident-transact-sql.md ("Caller must own the schema that
         -- contains the table"); "DROP TYPE", docs/t-sql/statements/drop-type-transact-sql.md; "Permissions",
         -- docs/relational-databases/security/permissions-database-engine.md (REFERENCES).
         CREATE SCHEMA mine AUTHORIZATION worker ;; GRANT CREATE TABLE, CREATE TYPE TO [public] ;;
             GRANT CREATE SCHEMA TO outsider; CREATE TYPE mine.id AS TABLE (n int) => ok
         worker: CREATE TABLE mine.t (id int IDENTITY PRIMARY KEY) => ok
         worker: SET IDENTITY_INSERT mine.t ON; INSERT mine.t (id) VALUES (5); SET IDENTITY_INSERT mine.t OFF => ok
         worker: DBCC CHECKIDENT ('mine.t', RESEED, 7) => ok
         worker: CREATE TABLE mine.u (id int REFERENCES mine.t); DROP TYPE mine.id => ok
         outsider: CREATE SCHEMA theirs => ok
         outsider: SET IDENTITY_INSERT mine.t ON => error 1088
         outsider: DBCC CHECKIDENT ('mine.t', RESEED, 7) => error 59000
         outsider: CREATE TABLE theirs.u (id int REFERENCES mine.t) => error 59000
         worker: GRANT REFERENCES ON mine.t TO outsider => ok
         outsider: CREATE TABLE theirs.u (id int REFERENCES mine.t) => ok"#,
    );
}
