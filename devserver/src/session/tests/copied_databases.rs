//! [`crate::DevServer::copy_database`]: no statement of SQL Server's does that, but what is in a copy is what a backup
//! restored under another name has.

use super::harness::{engine, errors, login, login_to, rows, run};
use crate::error::SqlError;

const SCHEMA: &[&str] = &[
    "CREATE SCHEMA app",
    "CREATE TABLE app.parents (id int NOT NULL CONSTRAINT pk_parents PRIMARY KEY)",
    "CREATE SEQUENCE app.numbers AS bigint START WITH 10",
    "CREATE TABLE app.t (id bigint IDENTITY(1, 1) CONSTRAINT pk_t PRIMARY KEY, parent int NOT NULL CONSTRAINT fk_t \
     REFERENCES app.parents (id), n bigint NOT NULL, twice AS n * 2, \
     CONSTRAINT small CHECK (n < 1000))",
    "CREATE UNIQUE INDEX ux_t ON app.t (n) WHERE n > 0",
    "CREATE TYPE app.ids AS TABLE (id bigint NOT NULL PRIMARY KEY)",
    "CREATE VIEW app.v AS SELECT id, twice FROM app.t",
    "CREATE PROCEDURE app.add_row @parent int AS INSERT INTO app.t (parent, n) OUTPUT inserted.id, inserted.n, \
     inserted.twice VALUES (@parent, NEXT VALUE FOR app.numbers)",
    "CREATE LOGIN worker WITH PASSWORD = 'secret-1'",
    "CREATE USER worker FOR LOGIN worker",
    "GRANT EXECUTE TO worker",
    "INSERT INTO app.parents (id) VALUES (7)",
    "EXEC app.add_row 7",
];

#[test]
fn a_copy_has_all_that_is_in_the_other_and_goes_on_by_itself() {
    let engine = engine();
    let mut first = login(&engine, "sa", "secret");
    for statement in SCHEMA {
        assert!(errors(&mut first, statement).is_empty(), "{statement}");
    }
    engine.copy_database("readpast", "copied").unwrap();
    let mut copied = login_to(&engine, "sa", "secret", "copied");
    assert_eq!(rows(&mut copied, "SELECT DB_NAME()"), ["ROW(String(\"copied\"))"]);
    let all = "SELECT id, parent, n, twice FROM app.t";
    assert_eq!(rows(&mut copied, all), ["ROW(BigInt(1), Int(7), BigInt(10), BigInt(20))"]);

    // Identity values and sequences go on in both, each by itself.
    for session in [&mut copied, &mut first] {
        let added = rows(session, "EXEC app.add_row 7; EXEC app.add_row 7");
        assert_eq!(added, ["ROW(BigInt(2), BigInt(11), BigInt(22))", "ROW(BigInt(3), BigInt(12), BigInt(24))"]);
    }
    assert_eq!(rows(&mut copied, "DELETE FROM app.t WHERE id > 1; SELECT COUNT(*) FROM app.v"), ["ROW(Int(1))"]);
    assert_eq!(rows(&mut first, "SELECT COUNT(*) FROM app.v"), ["ROW(Int(3))"]);

    // Constraints, types and permissions have come along.
    for (statement, error) in [
        ("INSERT INTO app.t (parent, n) VALUES (8, 1)", 547),
        ("INSERT INTO app.t (parent, n) VALUES (7, 1000)", 547),
        ("INSERT INTO app.t (parent, n) VALUES (7, 10)", 2601),
        ("DECLARE @ids app.ids; INSERT INTO @ids VALUES (1), (1)", 2627),
    ] {
        assert_eq!(errors(&mut copied, statement).first(), Some(&error), "{statement}");
    }
    let mut worker = login_to(&engine, "worker", "secret-1", "copied");
    assert_eq!(rows(&mut worker, "EXEC app.add_row 7").len(), 1);
    assert_eq!(errors(&mut worker, all), [229]);
}

#[test]
fn what_changes_in_one_is_as_it_was_in_the_other() {
    let engine = engine();
    let mut first = login(&engine, "sa", "secret");
    run(&mut first, "CREATE TABLE dbo.t (a int NOT NULL)");
    run(&mut first, "CREATE PROCEDURE dbo.p AS SELECT * FROM dbo.t");
    run(&mut first, "INSERT INTO dbo.t VALUES (1)");
    engine.copy_database("readpast", "copied").unwrap();
    let mut copied = login_to(&engine, "sa", "secret", "copied");
    // Both have their plans, and then as many changes as each other.
    for session in [&mut first, &mut copied] {
        assert_eq!(rows(session, "EXEC dbo.p"), ["ROW(Int(1))"]);
    }
    run(&mut first, "ALTER TABLE dbo.t ADD b int; EXEC ('UPDATE dbo.t SET b = 2')");
    run(&mut copied, "ALTER TABLE dbo.t ADD c int; EXEC ('UPDATE dbo.t SET c = 3')");
    for _ in 0..2 {
        assert_eq!(rows(&mut first, "EXEC dbo.p"), ["ROW(Int(1), Int(2))"]);
        assert_eq!(rows(&mut copied, "EXEC dbo.p"), ["ROW(Int(1), Int(3))"]);
    }
    run(&mut copied, "DROP PROCEDURE dbo.p");
    run(&mut copied, "DROP TABLE dbo.t");
    assert_eq!(errors(&mut copied, "EXEC dbo.p"), [2812]);
    assert_eq!(rows(&mut first, "EXEC dbo.p"), ["ROW(Int(1), Int(2))"]);

    // A third one is as the first, too.
    drop(copied);
    run(&mut first, "DROP DATABASE copied");
    engine.copy_database("readpast", "third").unwrap();
    let mut third = login_to(&engine, "sa", "secret", "third");
    run(&mut third, "ALTER TABLE dbo.t DROP COLUMN a");
}

#[test]
fn options_come_along_and_temporary_objects_do_not() {
    let engine = engine();
    let mut first = login(&engine, "sa", "secret");
    run(&mut first, "ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON");
    run(&mut first, "CREATE TABLE #own (a int)");
    engine.copy_database("readpast", "copied").unwrap();
    let mut copied = login_to(&engine, "sa", "secret", "copied");
    let snapshot = "SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = DB_NAME()";
    assert_eq!(rows(&mut copied, snapshot), ["ROW(Bit(true))"]);
    assert_eq!(errors(&mut copied, "SELECT * FROM #own"), [208]);

    // Readers see the state before an open transaction instead of waiting for it.
    run(&mut copied, "CREATE TABLE dbo.t (a int)");
    run(&mut copied, "INSERT INTO dbo.t VALUES (1)");
    run(&mut copied, "BEGIN TRANSACTION; UPDATE dbo.t SET a = 2");
    let mut other = login_to(&engine, "sa", "secret", "copied");
    assert_eq!(rows(&mut other, "SELECT a FROM dbo.t"), ["ROW(Int(1))"]);
}

#[test]
fn a_database_in_use_is_not_copied() {
    let engine = engine();
    let mut first = login(&engine, "sa", "secret");
    run(&mut first, "CREATE TABLE dbo.t (a int)");
    for change in [
        "INSERT INTO dbo.t VALUES (1)",
        "CREATE TABLE dbo.u (a int)",
        "CREATE SCHEMA x",
        "CREATE ROLE r",
        "CREATE USER u WITHOUT LOGIN",
        "GRANT SELECT TO [public]",
    ] {
        run(&mut first, "BEGIN TRANSACTION");
        run(&mut first, change);
        assert_eq!(engine.copy_database("readpast", "copied").unwrap_err().number, 3702, "{change}");
        run(&mut first, "ROLLBACK");
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
    let engine = engine();
    let mut first = login(&engine, "sa", "secret");
    run(&mut first, "CREATE PROCEDURE dbo.p AS SELECT 1");
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
    let engine = engine();
    let mut first = login(&engine, "sa", "secret");
    run(&mut first, "CREATE TABLE dbo.t (a int)");
    engine.copy_database("readpast", "copied").unwrap();
    let mut copied = login_to(&engine, "sa", "secret", "copied");
    run(&mut copied, "BEGIN TRANSACTION; INSERT INTO dbo.t VALUES (1)");
    assert_eq!(errors(&mut first, "DROP DATABASE copied"), [3702]);
    engine.end_database("copied").unwrap();
    assert_eq!(errors(&mut copied, "SELECT 1").len(), 1);
    assert_eq!(engine.end_database("copied").unwrap_err().number, 3701);
    assert_eq!(engine.end_database("tempdb").unwrap_err().number, 3708);
    // The name is free, and the new database is the other's copy again.
    engine.copy_database("readpast", "copied").unwrap();
    let mut again = login_to(&engine, "sa", "secret", "copied");
    assert_eq!(rows(&mut again, "SELECT COUNT(*) FROM dbo.t"), ["ROW(Int(0))"]);
}
