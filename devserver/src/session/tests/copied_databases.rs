//! [`crate::DevServer::copy_database`]: no statement of SQL Server's does that, but what is in a copy is what a backup
//! restored under another name has.

use super::harness::{errors, login_to, session};
use crate::error::SqlError;

#[test]
fn a_copy_has_all_that_is_in_the_other_and_goes_on_by_itself() {
    let (engine, mut first) = session();
    first.check(
        "CREATE SCHEMA app => ok
         CREATE TABLE app.parents (id int NOT NULL CONSTRAINT pk_parents PRIMARY KEY);
             INSERT app.parents VALUES (7); CREATE SEQUENCE app.numbers AS bigint START WITH 10;
             CREATE TABLE app.t (id bigint IDENTITY(1, 1) CONSTRAINT pk_t PRIMARY KEY, parent int NOT NULL
             CONSTRAINT fk_t REFERENCES app.parents (id), n bigint NOT NULL, twice AS n * 2,
             CONSTRAINT small CHECK (n < 1000));
             CREATE UNIQUE INDEX ux_t ON app.t (n) WHERE n > 0;
             CREATE TYPE app.ids AS TABLE (id bigint NOT NULL PRIMARY KEY) ;;
             CREATE VIEW app.v AS SELECT id, twice FROM app.t ;;
             CREATE PROCEDURE app.add_row @parent int AS INSERT INTO app.t (parent, n) OUTPUT inserted.id, inserted.n,
             inserted.twice VALUES (@parent, NEXT VALUE FOR app.numbers) ;;
             CREATE LOGIN worker WITH PASSWORD = 'secret-1'; CREATE USER worker FOR LOGIN worker;
             GRANT EXECUTE TO worker; EXEC app.add_row 7 => ok",
    );
    engine.copy_database("readpast", "copied").unwrap();
    let mut copied = login_to(&engine, "sa", "secret", "copied");
    copied.check(
        "SELECT DB_NAME() => 'copied'
         SELECT id, parent, n, twice FROM app.t => BigInt(1), 7, BigInt(10), BigInt(20)",
    );
    // Identity values and sequences go on in both, each by itself.
    for session in [&mut copied, &mut first] {
        session.check(
            "EXEC app.add_row 7; EXEC app.add_row 7
            => BigInt(2), BigInt(11), BigInt(22) | BigInt(3), BigInt(12), BigInt(24)",
        );
    }
    copied.check(
        "DELETE FROM app.t WHERE id > 1; SELECT COUNT(*) FROM app.v => 1
         -- Constraints, types and permissions have come along.
         INSERT INTO app.t (parent, n) VALUES (8, 1) ;; INSERT INTO app.t (parent, n) VALUES (7, 1000) => error 547
         INSERT INTO app.t (parent, n) VALUES (7, 10) => error 2601
         DECLARE @ids app.ids; INSERT INTO @ids VALUES (1), (1) => error 2627",
    );
    first.check("SELECT COUNT(*) FROM app.v => 3");
    let mut worker = login_to(&engine, "worker", "secret-1", "copied");
    worker.check("EXEC app.add_row 7 => ok\nSELECT id FROM app.t => error 229");
}

#[test]
fn what_changes_in_one_is_as_it_was_in_the_other() {
    let (engine, mut first) = session();
    first.check(
        "CREATE TABLE dbo.t (a int NOT NULL); INSERT INTO dbo.t VALUES (1) => ok
         CREATE PROCEDURE dbo.p AS SELECT * FROM dbo.t => ok",
    );
    engine.copy_database("readpast", "copied").unwrap();
    let mut copied = login_to(&engine, "sa", "secret", "copied");
    // Both have their plans, and then as many changes as each other.
    for session in [&mut first, &mut copied] {
        session.check("EXEC dbo.p => 1");
    }
    first.check("ALTER TABLE dbo.t ADD b int; EXEC ('UPDATE dbo.t SET b = 2')");
    copied.check("ALTER TABLE dbo.t ADD c int; EXEC ('UPDATE dbo.t SET c = 3')");
    for _ in 0..2 {
        first.check("EXEC dbo.p => 1, 2");
        copied.check("EXEC dbo.p => 1, 3");
    }
    copied.check("DROP PROCEDURE dbo.p; DROP TABLE dbo.t; EXEC dbo.p => error 2812");
    first.check("EXEC dbo.p => 1, 2");

    // A third one is as the first, too.
    drop(copied);
    first.check("DROP DATABASE copied");
    engine.copy_database("readpast", "third").unwrap();
    login_to(&engine, "sa", "secret", "third").check("ALTER TABLE dbo.t DROP COLUMN a");
}

#[test]
fn options_come_along_and_temporary_objects_do_not() {
    let (engine, mut first) = session();
    first.check("ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON; CREATE TABLE #own (a int)");
    engine.copy_database("readpast", "copied").unwrap();
    let mut copied = login_to(&engine, "sa", "secret", "copied");
    copied.check(
        "SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = DB_NAME() => Bit(true)
         SELECT * FROM #own => error 208
         CREATE TABLE dbo.t (a int); INSERT INTO dbo.t VALUES (1); BEGIN TRANSACTION; UPDATE dbo.t SET a = 2 => ok",
    );
    // Readers see the state before an open transaction instead of waiting for it.
    login_to(&engine, "sa", "secret", "copied").check("SELECT a FROM dbo.t => 1");
}

#[test]
fn a_database_in_use_is_not_copied() {
    let (engine, mut first) = session();
    first.check("CREATE TABLE dbo.t (a int)");
    for change in [
        "INSERT INTO dbo.t VALUES (1)",
        "CREATE TABLE dbo.u (a int)",
        "CREATE SCHEMA x",
        "CREATE ROLE r",
        "CREATE USER u WITHOUT LOGIN",
        "GRANT SELECT TO [public]",
    ] {
        first.check("BEGIN TRANSACTION");
        first.check(change);
        assert_eq!(engine.copy_database("readpast", "copied").unwrap_err().number, 3702, "{change}");
        first.check("ROLLBACK");
    }
    for (name, error) in [(String::new(), 1038), ("n".repeat(129), 103)] {
        assert_eq!(engine.copy_database("readpast", &name).unwrap_err().number, error, "{name}");
    }
    engine.copy_database("readpast", &"n".repeat(128)).unwrap();
    assert_eq!(engine.copy_database("nowhere", "copied").unwrap_err().number, 911);
    assert_eq!(engine.copy_database("readpast", "Master").unwrap_err().number, 1801);
    engine.copy_database("readpast", "copied").unwrap();
    assert_eq!(engine.copy_database("readpast", "copied").unwrap_err().number, 1801);
}

#[test]
fn a_fault_of_one_database_is_none_of_its_copy() {
    let (engine, mut first) = session();
    first.check("CREATE PROCEDURE dbo.p AS SELECT 1");
    engine.copy_database("readpast", "Copied").unwrap();
    let mut copied = login_to(&engine, "sa", "secret", "copied");
    let error = |number| move |_| Some(SqlError::new(number, "as asked for"));
    engine.faults.on_call("copied.DBO.p", error(1205));
    assert_eq!((errors(&mut copied, "EXEC p"), errors(&mut first, "EXEC p").len()), (vec![1205], 0));
    // Of two names the longer one counts.
    engine.faults.on_call("dbo.p", error(1222));
    assert_eq!((errors(&mut copied, "EXEC p"), errors(&mut first, "EXEC p")), (vec![1205], vec![1222]));
    engine.faults.clear("copied.dbo.p");
    assert_eq!((errors(&mut copied, "EXEC p"), errors(&mut first, "EXEC p")), (vec![1222], vec![1222]));
}

#[test]
fn a_dropped_database_ends_the_sessions_in_it() {
    let (engine, mut first) = session();
    first.check("CREATE TABLE dbo.t (a int)");
    engine.copy_database("readpast", "copied").unwrap();
    let mut copied = login_to(&engine, "sa", "secret", "copied");
    copied.check("BEGIN TRANSACTION; INSERT INTO dbo.t VALUES (1)");
    assert_eq!(errors(&mut first, "DROP DATABASE copied"), [3702]);
    engine.end_database("copied").unwrap();
    assert_eq!(errors(&mut copied, "SELECT 1").len(), 1);
    assert_eq!(engine.end_database("copied").unwrap_err().number, 3701);
    assert_eq!(engine.end_database("tempdb").unwrap_err().number, 3708);
    // The name is free, and the new database is the other's copy again.
    engine.copy_database("readpast", "copied").unwrap();
    login_to(&engine, "sa", "secret", "copied").check("SELECT COUNT(*) FROM dbo.t => 0");
}
