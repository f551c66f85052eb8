//! Who may do what.

use crate::session::tests::harness::check;

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
         u: CREATE PROCEDURE app.p @l dbo.list READONLY AS RETURN => ok
         == a change that reads needs select
         -- "SELECT permissions are also required if the statement contains a WHERE clause" ("DELETE",
         -- docs/t-sql/statements/delete-transact-sql.md), "or if expression in the SET clause uses a column in the
         -- table" ("UPDATE", docs/t-sql/queries/update-transact-sql.md), and "on any columns retrieved" ("OUTPUT
         -- Clause", docs/t-sql/queries/output-clause-transact-sql.md).
         CREATE VIEW app.v AS SELECT a FROM app.t ;;
             GRANT INSERT, UPDATE, DELETE ON app.t TO u; GRANT UPDATE, DELETE ON app.v TO u => ok
         u: INSERT app.t VALUES (1) ;; UPDATE app.t SET a = 2 ;; UPDATE TOP (1) app.t SET a = 2 ;; DELETE app.t ;;
             UPDATE app.v SET a = 2 ;; UPDATE TOP (1) app.v SET a = 2 ;; DELETE app.v => ok
         u: INSERT app.t OUTPUT inserted.a VALUES (1) ;; UPDATE app.t SET a = a + 1 ;; UPDATE app.t SET a += 1 ;;
             UPDATE app.t SET a = (SELECT COUNT(*) FROM (VALUES (1)) v (n) WHERE n = a) ;;
             UPDATE app.t SET a = 2 WHERE a = 1 ;; UPDATE app.t SET a = 2 OUTPUT deleted.a ;;
             DELETE app.t WHERE a = 1 ;; DELETE app.t OUTPUT deleted.a ;; WITH c AS (SELECT a FROM app.t) DELETE c ;;
             UPDATE app.v SET a = a + 1 ;; UPDATE app.v SET a += 1 ;;
             UPDATE app.v SET a = (SELECT COUNT(*) FROM (VALUES (1)) v (n) WHERE n = a) ;;
             UPDATE app.v SET a = 2 WHERE a = 1 ;; UPDATE app.v SET a = 2 OUTPUT deleted.a ;;
             DELETE app.v WHERE a = 1 ;; DELETE app.v OUTPUT deleted.a ;;
             WITH c AS (SELECT a FROM app.v) DELETE c => error 229
         GRANT SELECT ON app.t TO u => ok
         u: INSERT app.t OUTPUT inserted.a VALUES (1) ;; UPDATE app.t SET a = a + 1 ;; UPDATE app.t SET a += 1 ;;
             UPDATE app.t SET a = (SELECT COUNT(*) FROM (VALUES (1)) v (n) WHERE n = a) ;;
             UPDATE app.t SET a = 2 WHERE a = 1 ;; UPDATE app.t SET a = 2 OUTPUT deleted.a ;;
             DELETE app.t WHERE a = 1 ;; DELETE app.t OUTPUT deleted.a ;; WITH c AS (SELECT a FROM app.t) DELETE c => ok
         == fixed roles have their permissions
         -- Source: "Permissions of Fixed Database Roles"
         -- (learn.microsoft.com/previous-versions/sql/sql-server-2008-r2/ms189612).
         ALTER ROLE db_datareader ADD MEMBER u; EXEC sp_addrolemember 'db_datawriter', 'u' => ok
         u: SELECT a FROM app.t; INSERT app.t (a) VALUES (2) => ok
         u: CREATE VIEW app.made AS SELECT a FROM app.t => error 262
         ALTER ROLE db_owner ADD MEMBER u => ok
         u: CREATE VIEW app.made AS SELECT a FROM app.t => ok
         ALTER ROLE db_securityadmin ADD MEMBER u ;; EXEC sp_addrolemember 'db_securityadmin', 'u' ;;
             ALTER ROLE db_accessadmin ADD MEMBER u ;; EXEC sp_addrolemember 'db_accessadmin', 'u' ;;
             ALTER ROLE db_ddladmin ADD MEMBER u ;; EXEC sp_addrolemember 'db_ddladmin', 'u' ;;
             ALTER ROLE db_denydatareader ADD MEMBER u ;; EXEC sp_addrolemember 'db_denydatareader', 'u' ;;
             ALTER ROLE db_denydatawriter ADD MEMBER u ;;
             EXEC sp_addrolemember 'db_denydatawriter', 'u' => error 59000"#,
    );
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
