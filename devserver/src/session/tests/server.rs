//! What the server says of itself, and its databases.

use crate::catalog::connections::Wire;
use crate::catalog::server::Product;
use crate::session::engine::{Engine, EngineOptions};
use crate::session::tests::harness::{check, errors, login, login_to, ok, session};

// Source: "@@VERSION", docs/t-sql/functions/version-transact-sql-configuration-functions.md.
#[test]
fn the_version_has_the_form_that_clients_take_apart() {
    check(
        "SELECT LEFT(@@VERSION, 50) => 'Microsoft SQL Server 2022 (RTM) - 16.0.1000.6 (X64'
         SELECT LEN(@@VERSION) - LEN(REPLACE(@@VERSION, NCHAR(10), '')) => 3
         SELECT 1 WHERE CHARINDEX(N' - ' + CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)) + N' (', @@VERSION)
             > 0 AND CHARINDEX('readpast dev server', @@VERSION) > 0 => 1",
    );
}

// Sources: "master database", docs/relational-databases/databases/master-database.md; "USE",
// docs/t-sql/language-elements/use-transact-sql.md.
#[test]
fn master_is_a_database_to_be_in() {
    let (e, mut elsewhere) = session();
    let mut s = login_to(&e, "sa", "secret", "master");
    s.check(
        "SELECT DB_NAME(), DB_ID(), DB_ID('master') => 'master', SmallInt(1), SmallInt(1)
         CREATE DATABASE other; CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY); INSERT dbo.t VALUES (7) => ok
         SELECT name, database_id FROM sys.databases ORDER BY database_id => 'master', 1 | 'tempdb', 2 | 'model', 3
             | 'msdb', 4 | 'readpast', 5 | 'other', 6",
    );
    let mut other = login_to(&e, "sa", "secret", "other");
    ok(&mut other, "ALTER DATABASE other SET READ_COMMITTED_SNAPSHOT ON; ALTER DATABASE CURRENT SET READ_ONLY");
    drop(other);
    s.check(
        "SELECT is_read_only, is_read_committed_snapshot_on, snapshot_isolation_state FROM master.sys.databases
             WHERE name = N'other' => Bit(true), Bit(true), TinyInt(0)
         SELECT CAST(DATABASEPROPERTYEX(N'other', 'Updateability') AS nvarchar(20)),
             CAST(DATABASEPROPERTYEX(N'nowhere', 'Status') AS nvarchar(20)) => 'READ_ONLY', NULL
         DROP DATABASE other => ok",
    );
    assert_eq!(errors(&mut elsewhere, "SELECT id FROM dbo.t"), [208]);
    ok(&mut s, "USE master");
    assert_eq!(errors(&mut s, "ALTER DATABASE CURRENT SET READ_ONLY"), [59000]);
    // A login whose default is not said is in master, as guest.
    ok(&mut s, "CREATE LOGIN reader WITH PASSWORD = 'p'");
    let mut reader = login_to(&e, "reader", "p", "");
    reader.check(
        "SELECT DB_NAME(), USER_NAME(), DB_NAME(DB_ID('readpast')) => 'master', 'guest', 'readpast'
         SELECT id FROM dbo.t => error 229",
    );
}

// Source: "DROP DATABASE", docs/t-sql/statements/drop-database-transact-sql.md: "System databases can't be dropped";
// 3708: docs/relational-databases/errors-events/database-engine-events-and-errors-3000-to-3999.md.
#[test]
fn system_databases_stay_as_they_are() {
    let (_e, mut s) = session();
    for name in ["master", "tempdb", "model", "msdb"] {
        s.check(&format!("DROP DATABASE {name} => error 3708\n CREATE DATABASE {name} => error 1801"));
    }
    s.check("BEGIN TRANSACTION; DROP DATABASE readpast => error 226");
}

#[test]
fn what_is_in_another_database_is_refused_by_name() {
    check(
        r#"== what is in another database is refused by name
         USE master ;; ALTER DATABASE master SET READ_ONLY ;; SELECT name FROM master.sys.tables ;;
             SELECT TABLE_NAME FROM master.INFORMATION_SCHEMA.TABLES ;; SELECT OBJECT_ID(N'master.dbo.t') ;;
             SELECT name FROM tempdb.sys.objects => error 59000
         SELECT OBJECT_ID(N'nowhere.dbo.t') => NULL
         == the logins with a password are in sql logins
         -- Source: "sys.sql_logins", docs/relational-databases/system-catalog-views/sys-sql-logins-transact-sql.md.
         CREATE LOGIN app WITH PASSWORD = 'p'; CREATE LOGIN [D\w] FROM WINDOWS => ok
         SELECT name, type_desc, is_disabled FROM master.sys.sql_logins
             ORDER BY principal_id => 'sa', 'SQL_LOGIN', Bit(false)
             | 'app', 'SQL_LOGIN', Bit(false)
         IF NOT EXISTS (SELECT 1 FROM sys.sql_logins WHERE name = 'app') SELECT 1 ELSE SELECT 2 => 2"#,
    );
}

/// A batch that was compiled in a database is none of another one that gets its name and number.
#[test]
fn a_database_made_anew_knows_no_batches_of_the_old_one() {
    let (e, mut s) = session();
    for (columns, expected) in [("a int", "1"), ("b varchar(9)", "'1'")] {
        ok(&mut s, "CREATE DATABASE again");
        login_to(&e, "sa", "secret", "again")
            .check(&format!("CREATE TABLE t ({columns}) ;; INSERT t VALUES (1) => ok\nSELECT * FROM t => {expected}"));
        ok(&mut s, "DROP DATABASE again");
    }
}

/// Source: "sys.dm_exec_connections" (docs/relational-databases/system-dynamic-management-views/).
#[test]
fn the_connections_are_seen() {
    let (engine, mut s) = session();
    // This session has no connection until it is told of one.
    s.check("SELECT * FROM sys.dm_exec_connections => none");
    let other = login(&engine, "sa", "secret");
    s.note_wire(Wire { packet_size: 4096, is_encrypted: true });
    other.note_wire(Wire { packet_size: 8000, is_encrypted: false });
    s.check(
        "SELECT net_transport, encrypt_option, net_packet_size FROM sys.dm_exec_connections ORDER BY session_id
             => 'TCP', 'TRUE', 4096 | 'TCP', 'FALSE', 8000",
    );
    drop(other);
    s.check("SELECT COUNT(*) FROM master.sys.dm_exec_connections => 1");
}

// Sources: "DB_ID" and "ORIGINAL_LOGIN", docs/t-sql/functions/; "sys.databases",
// docs/relational-databases/system-catalog-views/sys-databases-transact-sql.md; "USE",
// docs/t-sql/language-elements/use-transact-sql.md; "SERVERPROPERTY",
// docs/t-sql/functions/serverproperty-transact-sql.md.
#[test]
fn azure_sql_database_knows_one_database_and_calls_it_by_another_id() {
    let options = EngineOptions { product: Product::AZURE_SQL_DATABASE, ..EngineOptions::default() };
    let e = Engine::new(options);
    let mut s = login(&e, "sa", "");
    s.check(
        "SELECT name, database_id, is_read_committed_snapshot_on FROM sys.databases
             ORDER BY database_id => 'master', 1, Bit(false) | 'readpast', 105, Bit(true)
         SELECT DB_ID(), DB_ID('readpast'), DB_ID('master'), ORIGINAL_LOGIN() => SmallInt(5), SmallInt(5), NULL, NULL
         SELECT CAST(SERVERPROPERTY('EngineEdition') AS int), CAST(SERVERPROPERTY('ProductMajorVersion') AS int)
             => 5, 12
         USE readpast => ok
         USE master => error 40508
         SELECT 1 FROM other.dbo.t ;; SELECT 1 FROM master.sys.databases ;; SELECT 1 FROM [server].readpast.dbo.t ;;
             EXEC other.dbo.p ;; EXEC msdb.dbo.sp_add_job @job_name = N'nightly' ;;
             EXEC master..sp_executesql N'SELECT 1' ;; CREATE TABLE other.dbo.t (a int) => error 40515
         SELECT name FROM tempdb.sys.objects => error 59000
         SELECT COUNT(*) FROM readpast.sys.tables => 0",
    );
}

// Sources: "T-SQL differences between SQL Server and Azure SQL Database",
// azure-sql/database/transact-sql-tsql-differences-sql-server.md; "CREATE LOGIN" and "CREATE DATABASE",
// docs/t-sql/statements/.
#[test]
fn azure_sql_database_keeps_databases_apart() {
    let options = EngineOptions { product: Product::AZURE_SQL_DATABASE, ..EngineOptions::default() };
    let e = Engine::new(options);
    let mut s = login(&e, "sa", "");
    let mut master = login_to(&e, "sa", "", "master");
    for sql in [
        "CREATE LOGIN a WITH PASSWORD = 'p'",
        "ALTER LOGIN a WITH PASSWORD = 'q'",
        "DROP LOGIN a",
        "CREATE DATABASE other",
        "DROP DATABASE other",
    ] {
        s.check(&format!("{sql} => error 5001"));
        master.check(sql);
    }
    s.check(
        "CREATE LOGIN [D\\w] FROM WINDOWS => error 59000
         ALTER DATABASE CURRENT SET RECOVERY SIMPLE => error 59000
         EXEC sp_configure => error 59000",
    );
}

// Sources: "ALTER DATABASE compatibility level",
// docs/t-sql/statements/alter-database-transact-sql-compatibility-level.md; "OPENJSON", "STRING_SPLIT" and
// "GENERATE_SERIES", docs/t-sql/functions/.
#[test]
fn the_compatibility_level_decides_which_functions_there_are() {
    check(
        "CREATE PROCEDURE dbo.p AS SELECT [key] FROM OPENJSON(N'[7]') => ok
         SELECT compatibility_level FROM sys.databases WHERE name = DB_NAME() => TinyInt(160)
         ALTER DATABASE readpast SET COMPATIBILITY_LEVEL = 120 => ok
         EXEC dbo.p ;; SELECT value FROM STRING_SPLIT('a,b', ',') => error 208
         ALTER DATABASE readpast SET COMPATIBILITY_LEVEL = 130 => ok
         SELECT compatibility_level FROM sys.databases WHERE name = DB_NAME() => TinyInt(130)
         EXEC dbo.p => '0'
         SELECT value FROM STRING_SPLIT('a,b', ',') => 'a' | 'b'
         SELECT value FROM GENERATE_SERIES(1, 3) => error 208
         ALTER DATABASE readpast SET COMPATIBILITY_LEVEL = 160; SELECT value FROM GENERATE_SERIES(1, 2) => 1 | 2
         ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = 100 => error 59000
         ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = 90 => error 15048
         ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = 125 => error 15048
         ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = 170 => error 15048",
    );
}

/// Source: "sys.configurations" (docs/relational-databases/system-catalog-views/sys-configurations-transact-sql.md):
/// "Requires membership in the public role".
#[test]
fn the_worker_threads_are_seen() {
    check(
        "SELECT configuration_id, name, CAST(value AS int), CAST(value_in_use AS int) FROM sys.configurations
             => 503, 'max worker threads', 0, 0",
    );
}

/// Sources: "SESSION_CONTEXT", "sp_set_session_context": a key without a value is NULL, names are case-sensitive as in
/// the examples, and "sp_reset_connection" clears them; "sys.database_recovery_status": each database has its own.
#[test]
fn a_session_remembers_what_it_is_told_and_databases_have_ids() {
    check(
        "SELECT CAST(SESSION_CONTEXT(N'a') AS int) => NULL
         EXEC sys.sp_set_session_context @key = N'a', @value = 7 => ok
         SELECT CAST(SESSION_CONTEXT(N'a') AS int), CAST(SESSION_CONTEXT(N'b') AS int) => 7, NULL
         EXEC sp_set_session_context N'a', N'text'; SELECT CAST(SESSION_CONTEXT(N'a') AS nvarchar(10)) => 'text'
         EXEC sp_set_session_context @key = N'a', @valu = 1 => error 8145
         EXEC sp_reset_connection; SELECT CAST(SESSION_CONTEXT(N'a') AS int) => NULL
         SELECT COUNT(DISTINCT database_guid), COUNT(DISTINCT recovery_fork_guid) FROM sys.database_recovery_status
             WHERE database_id IN (DB_ID(), DB_ID('master')) => 2, 2
         SELECT COUNT(*) FROM sys.databases WHERE create_date > '2020-01-01' AND group_database_id IS NULL
             AND name = DB_NAME() => 1",
    );
}
