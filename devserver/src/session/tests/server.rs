//! What the server says of itself, and its databases.

use crate::catalog::connections::Wire;
use crate::catalog::server::Product;
use crate::session::engine::{Engine, EngineOptions};
use crate::session::tests::harness::{errors, login, login_to, ok, rows, session};

// Source: "@@VERSION", docs/t-sql/functions/version-transact-sql-configuration-functions.md.
#[test]
fn the_version_has_the_form_that_clients_take_apart() {
    let (_e, mut s) = session();
    let version = rows(&mut s, "SELECT @@VERSION").remove(0);
    assert!(version.starts_with("ROW(String(\"Microsoft SQL Server 2022 (RTM) - 16.0.1000.6 ("), "{version}");
    assert!(version.contains("readpast dev server"), "{version}");
    let number = "SELECT 1 WHERE CHARINDEX(N' - ' + CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)) + N' (', @@VERSION) > 0";
    assert_eq!(rows(&mut s, number), ["ROW(Int(1))"]);
    assert_eq!(rows(&mut s, "SELECT LEN(@@VERSION) - LEN(REPLACE(@@VERSION, NCHAR(10), ''))"), ["ROW(Int(3))"]);
}

// Sources: "master database", docs/relational-databases/databases/master-database.md; "USE",
// docs/t-sql/language-elements/use-transact-sql.md.
#[test]
fn master_is_a_database_to_be_in() {
    let (e, mut elsewhere) = session();
    let mut s = login_to(&e, "sa", "secret", "master");
    assert_eq!(
        rows(&mut s, "SELECT DB_NAME(), DB_ID(), DB_ID('master')"),
        ["ROW(String(\"master\"), SmallInt(1), SmallInt(1))"]
    );
    ok(&mut s, "CREATE DATABASE other; CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY); INSERT dbo.t VALUES (7)");
    assert_eq!(
        rows(&mut s, "SELECT name, database_id FROM sys.databases ORDER BY database_id"),
        [
            "ROW(String(\"master\"), Int(1))",
            "ROW(String(\"tempdb\"), Int(2))",
            "ROW(String(\"model\"), Int(3))",
            "ROW(String(\"msdb\"), Int(4))",
            "ROW(String(\"readpast\"), Int(5))",
            "ROW(String(\"other\"), Int(6))",
        ]
    );
    let mut other = login_to(&e, "sa", "secret", "other");
    ok(&mut other, "ALTER DATABASE other SET READ_COMMITTED_SNAPSHOT ON; ALTER DATABASE CURRENT SET READ_ONLY");
    drop(other);
    assert_eq!(
        rows(
            &mut s,
            "SELECT is_read_only, is_read_committed_snapshot_on, snapshot_isolation_state FROM master.sys.databases WHERE name = N'other'"
        ),
        ["ROW(Bit(true), Bit(true), TinyInt(0))"]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT CAST(DATABASEPROPERTYEX(N'other', 'Updateability') AS nvarchar(20)),
                 CAST(DATABASEPROPERTYEX(N'nowhere', 'Status') AS nvarchar(20))"
        ),
        ["ROW(String(\"READ_ONLY\"), Null)"]
    );
    ok(&mut s, "DROP DATABASE other");
    assert_eq!(errors(&mut elsewhere, "SELECT id FROM dbo.t"), [208]);
    ok(&mut s, "USE master");
    assert_eq!(errors(&mut s, "ALTER DATABASE CURRENT SET READ_ONLY"), [59000]);
    // A login whose default is not said is in master, as guest.
    ok(&mut s, "CREATE LOGIN reader WITH PASSWORD = 'p'");
    let mut reader = login_to(&e, "reader", "p", "");
    assert_eq!(
        rows(&mut reader, "SELECT DB_NAME(), USER_NAME(), DB_NAME(DB_ID('readpast'))"),
        ["ROW(String(\"master\"), String(\"guest\"), String(\"readpast\"))"]
    );
    assert_eq!(errors(&mut reader, "SELECT id FROM dbo.t"), [229]);
}

// Source: "DROP DATABASE", docs/t-sql/statements/drop-database-transact-sql.md: "System databases can't be dropped";
// 3708: docs/relational-databases/errors-events/database-engine-events-and-errors-3000-to-3999.md.
#[test]
fn system_databases_stay_as_they_are() {
    let (_e, mut s) = session();
    for name in ["master", "tempdb", "model", "msdb"] {
        assert_eq!(errors(&mut s, &format!("DROP DATABASE {name}")), [3708], "{name}");
        assert_eq!(errors(&mut s, &format!("CREATE DATABASE {name}")), [1801], "{name}");
    }
    assert_eq!(errors(&mut s, "BEGIN TRANSACTION; DROP DATABASE readpast"), [226]);
    ok(&mut s, "ROLLBACK");
}

#[test]
fn what_is_in_another_database_is_refused_by_name() {
    let (_e, mut s) = session();
    for sql in [
        "USE master",
        "ALTER DATABASE master SET READ_ONLY",
        "SELECT name FROM master.sys.tables",
        "SELECT TABLE_NAME FROM master.INFORMATION_SCHEMA.TABLES",
        "SELECT OBJECT_ID(N'master.dbo.t')",
        "SELECT name FROM tempdb.sys.procedures",
    ] {
        assert_eq!(errors(&mut s, sql), [59000], "{sql}");
    }
    assert_eq!(rows(&mut s, "SELECT OBJECT_ID(N'nowhere.dbo.t')"), ["ROW(Null)"]);
}

// Source: "sys.sql_logins", docs/relational-databases/system-catalog-views/sys-sql-logins-transact-sql.md.
#[test]
fn the_logins_with_a_password_are_in_sql_logins() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE LOGIN app WITH PASSWORD = 'p'; CREATE LOGIN [D\\w] FROM WINDOWS");
    let logins =
        "SELECT name, type_desc, default_database_name, is_disabled FROM master.sys.sql_logins ORDER BY principal_id";
    assert_eq!(
        rows(&mut s, logins),
        [
            "ROW(String(\"sa\"), String(\"SQL_LOGIN\"), String(\"readpast\"), Bit(false))",
            "ROW(String(\"app\"), String(\"SQL_LOGIN\"), String(\"master\"), Bit(false))",
        ]
    );
    assert_eq!(
        rows(&mut s, "IF NOT EXISTS (SELECT 1 FROM sys.sql_logins WHERE name = 'app') SELECT 1 ELSE SELECT 2"),
        ["ROW(Int(2))"]
    );
}

/// A batch that was compiled in a database is none of another one that gets its name and number.
#[test]
fn a_database_made_anew_knows_no_batches_of_the_old_one() {
    let (e, mut s) = session();
    for (columns, expected) in [("a int", "ROW(Int(1))"), ("b varchar(9)", "ROW(String(\"1\"))")] {
        ok(&mut s, "CREATE DATABASE again");
        let mut again = login_to(&e, "sa", "secret", "again");
        ok(&mut again, &format!("CREATE TABLE t ({columns})"));
        ok(&mut again, "INSERT t VALUES (1)");
        assert_eq!(rows(&mut again, "SELECT * FROM t"), [expected]);
        drop(again);
        ok(&mut s, "DROP DATABASE again");
    }
}

/// Source: "sys.dm_exec_connections" (docs/relational-databases/system-dynamic-management-views/).
#[test]
fn the_connections_are_seen() {
    let (engine, mut s) = session();
    // This session has no connection until it is told of one.
    assert!(rows(&mut s, "SELECT * FROM sys.dm_exec_connections").is_empty());
    let other = login(&engine, "sa", "secret");
    s.note_wire(Wire { tds_version: 0x7400_0004, packet_size: 4096, is_encrypted: true });
    other.note_wire(Wire { tds_version: 0x0800_0000, packet_size: 8000, is_encrypted: false });
    let query = "SELECT c.net_transport, c.protocol_type, c.protocol_version, c.encrypt_option, c.net_packet_size, c.parent_connection_id
        FROM sys.dm_exec_connections AS c JOIN sys.dm_exec_sessions AS s ON s.session_id = c.session_id AND s.login_time = c.connect_time
        ORDER BY CASE c.most_recent_session_id WHEN @@SPID THEN 0 ELSE 1 END";
    assert_eq!(
        rows(&mut s, query),
        [
            "ROW(String(\"TCP\"), String(\"TSQL\"), Int(1946157060), String(\"TRUE\"), Int(4096), Null)",
            "ROW(String(\"TCP\"), String(\"TSQL\"), Int(134217728), String(\"FALSE\"), Int(8000), Null)",
        ]
    );
    drop(other);
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM master.sys.dm_exec_connections"), ["ROW(Int(1))"]);
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
    assert_eq!(
        rows(&mut s, "SELECT name, database_id, is_read_committed_snapshot_on FROM sys.databases ORDER BY database_id"),
        ["ROW(String(\"master\"), Int(1), Bit(false))", "ROW(String(\"readpast\"), Int(105), Bit(true))"]
    );
    assert_eq!(
        rows(&mut s, "SELECT DB_ID(), DB_ID('readpast'), DB_ID('master'), ORIGINAL_LOGIN()"),
        ["ROW(SmallInt(5), SmallInt(5), Null, Null)"]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT CAST(SERVERPROPERTY('EngineEdition') AS int), CAST(SERVERPROPERTY('ProductMajorVersion') AS int)"
        ),
        ["ROW(Int(5), Int(12))"]
    );
    ok(&mut s, "USE readpast");
    assert_eq!(errors(&mut s, "USE master"), [40508]);
    for sql in [
        "SELECT 1 FROM other.dbo.t",
        "SELECT 1 FROM master.sys.databases",
        "SELECT 1 FROM [server].readpast.dbo.t",
        "EXEC other.dbo.p",
        "EXEC msdb.dbo.sp_add_job @job_name = N'nightly'",
        "EXEC master..sp_executesql N'SELECT 1'",
        "CREATE TABLE other.dbo.t (a int)",
    ] {
        assert_eq!(errors(&mut s, sql), [40515], "{sql}");
    }
    assert_eq!(errors(&mut s, "SELECT name FROM tempdb.sys.procedures"), [59000]);
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM readpast.sys.tables"), ["ROW(Int(0))"]);
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
    for sql in ["CREATE LOGIN a WITH PASSWORD = 'p'", "ALTER LOGIN a WITH PASSWORD = 'q'", "DROP LOGIN a"] {
        assert_eq!(errors(&mut s, sql), [5001], "{sql}");
        ok(&mut master, sql);
    }
    for sql in ["CREATE DATABASE other", "DROP DATABASE other"] {
        assert_eq!(errors(&mut s, sql), [5001], "{sql}");
        ok(&mut master, sql);
    }
    for sql in ["CREATE LOGIN [D\\w] FROM WINDOWS", "ALTER DATABASE CURRENT SET RECOVERY SIMPLE", "EXEC sp_configure"] {
        assert_eq!(errors(&mut s, sql), [59000], "{sql}");
    }
}

// Sources: "ALTER DATABASE compatibility level",
// docs/t-sql/statements/alter-database-transact-sql-compatibility-level.md; "OPENJSON", "STRING_SPLIT" and
// "GENERATE_SERIES", docs/t-sql/functions/.
#[test]
fn the_compatibility_level_decides_which_functions_there_are() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE PROCEDURE dbo.p AS SELECT [key] FROM OPENJSON(N'[7]')");
    let level = "SELECT compatibility_level FROM sys.databases WHERE name = DB_NAME()";
    assert_eq!(rows(&mut s, level), ["ROW(TinyInt(160))"]);
    for (level_now, calls) in [(120, [208; 3]), (130, [0, 0, 208]), (160, [0; 3])] {
        ok(&mut s, &format!("ALTER DATABASE readpast SET COMPATIBILITY_LEVEL = {level_now}"));
        assert_eq!(rows(&mut s, level), [format!("ROW(TinyInt({level_now}))")]);
        let sql =
            ["EXEC dbo.p", "SELECT value FROM STRING_SPLIT('a,b', ',')", "SELECT value FROM GENERATE_SERIES(1, 3)"];
        for (sql, error) in sql.into_iter().zip(calls) {
            let expected: &[i32] = if error == 0 { &[] } else { &[error] };
            assert_eq!(errors(&mut s, sql), expected, "{sql} at {level_now}");
        }
    }
    for level in [100, 110] {
        assert_eq!(errors(&mut s, &format!("ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = {level}")), [59000]);
    }
    for level in [90, 125, 170] {
        assert_eq!(errors(&mut s, &format!("ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = {level}")), [15048]);
    }
}

/// Source: "sys.configurations" (docs/relational-databases/system-catalog-views/sys-configurations-transact-sql.md):
/// "Requires membership in the public role".
#[test]
fn the_worker_threads_are_seen() {
    let (_e, mut s) = session();
    let query = "SELECT configuration_id, name, CAST(value AS int), CAST(value_in_use AS int) FROM sys.configurations";
    assert_eq!(rows(&mut s, query), ["ROW(Int(503), String(\"max worker threads\"), Int(0), Int(0))"]);
}
