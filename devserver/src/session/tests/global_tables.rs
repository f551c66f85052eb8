//! `##temp` tables.
//!
//! Source: "CREATE TABLE", temporary tables (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/create-table-transact-sql.md).

use std::sync::mpsc;
use std::time::Duration;

use crate::session::tests::harness::{engine, errors, login, ok, rows, run, session};

#[test]
fn every_session_uses_it_until_its_maker_ends() {
    let engine = engine();
    let mut maker = login(&engine, "sa", "secret");
    let mut other = login(&engine, "sa", "secret");
    ok(
        &mut maker,
        "CREATE TABLE ##jobs (id int IDENTITY CONSTRAINT pk_jobs PRIMARY KEY, state tinyint NOT NULL DEFAULT 0 CHECK (state < 3));
         INSERT ##jobs DEFAULT VALUES",
    );
    ok(&mut other, "CREATE INDEX by_state ON ##jobs (state); INSERT tempdb..##jobs (state) VALUES (2)");
    assert_eq!(errors(&mut other, "INSERT ##jobs (state) VALUES (3)"), [547]);
    assert_eq!(errors(&mut other, "CREATE TABLE ##jobs (id int)"), [2714]);
    assert_eq!(errors(&mut other, "SELECT 1 AS id INTO ##Jobs"), [2714]);
    assert_eq!(errors(&mut other, "CREATE TABLE ##others (id int CONSTRAINT pk_jobs PRIMARY KEY)"), [2714, 1750]);
    assert_eq!(
        rows(&mut maker, "SELECT id, state FROM ##jobs WITH (INDEX (by_state)) ORDER BY state"),
        ["ROW(Int(1), TinyInt(0))", "ROW(Int(2), TinyInt(2))"]
    );
    ok(&mut other, "IF OBJECT_ID('tempdb..##jobs') IS NULL THROW 50000, 'where is it', 1");
    // It stands in tempdb.
    assert_eq!(
        rows(&mut other, "SELECT OBJECT_ID('##jobs'); SELECT COUNT(*) FROM sys.tables"),
        ["ROW(Null)", "ROW(Int(0))"]
    );
    ok(&mut other, "TRUNCATE TABLE ##jobs");
    drop(maker);
    assert_eq!(errors(&mut other, "SELECT * FROM ##jobs"), [208]);
    ok(&mut other, "IF OBJECT_ID('tempdb..##jobs') IS NOT NULL THROW 50000, 'it is there', 1");
    ok(&mut other, "IF OBJECT_ID('tempdb..#jobs', 'U') IS NOT NULL THROW 50000, 'it is there', 1");
    ok(&mut other, "SELECT 1 AS id INTO ##jobs; DROP TABLE ##jobs; DROP TABLE IF EXISTS ##jobs");
    assert_eq!(errors(&mut other, "DROP TABLE ##jobs"), [3701]);
}

#[test]
fn it_outlives_the_procedure_that_makes_it() {
    let (engine, mut s) = session();
    ok(&mut s, "CREATE PROCEDURE make AS SELECT 7 AS id INTO ##made");
    ok(&mut s, "EXEC make");
    assert_eq!(rows(&mut login(&engine, "sa", "secret"), "SELECT id FROM ##made"), ["ROW(Int(7))"]);
    ok(&mut s, "DROP TABLE ##made; EXEC make");
    // A connection that goes back to its pool is as good as ended.
    s.reset(false);
    assert_eq!(errors(&mut s, "SELECT id FROM ##made"), [208]);
}

#[test]
fn its_rows_are_locked_and_rolled_back() {
    let engine = engine();
    let mut one = login(&engine, "sa", "secret");
    let mut other = login(&engine, "sa", "secret");
    // tempdb knows neither kind of row versions, whatever the current database does.
    ok(&mut one, "ALTER DATABASE readpast SET ALLOW_SNAPSHOT_ISOLATION ON");
    ok(&mut one, "CREATE TABLE ##jobs (id int PRIMARY KEY, state int); INSERT ##jobs VALUES (1, 0), (2, 0)");
    ok(&mut one, "BEGIN TRANSACTION; UPDATE ##jobs SET state = 1 WHERE id = 1");
    ok(&mut other, "SET LOCK_TIMEOUT 0");
    assert_eq!(errors(&mut other, "SELECT * FROM ##jobs"), [1222]);
    assert_eq!(rows(&mut other, "SELECT id FROM ##jobs WITH (READPAST)"), ["ROW(Int(2))"]);
    assert_eq!(
        rows(
            &mut other,
            "SELECT DISTINCT resource_database_id FROM sys.dm_tran_locks WHERE resource_type IN ('KEY', 'OBJECT')"
        ),
        ["ROW(Int(2))"]
    );
    assert_eq!(errors(&mut other, "DROP TABLE ##jobs"), [1222]);
    ok(&mut one, "ROLLBACK");
    assert_eq!(rows(&mut other, "SELECT SUM(state) FROM ##jobs"), ["ROW(Int(0))"]);
    assert_eq!(errors(&mut other, "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT * FROM ##jobs"), [3952]);
    assert_eq!(errors(&mut other, "INSERT ##jobs VALUES (3, 0)"), [3952]);
    assert_eq!(errors(&mut other, "DELETE ##jobs"), [3952]);
}

#[test]
fn a_rollback_takes_its_making_and_its_end_back() {
    let engine = engine();
    let mut one = login(&engine, "sa", "secret");
    let mut other = login(&engine, "sa", "secret");
    ok(&mut other, "SET LOCK_TIMEOUT 0");
    ok(&mut one, "BEGIN TRANSACTION; CREATE TABLE ##t (id int)");
    assert_eq!(errors(&mut other, "SELECT * FROM ##t"), [1222]);
    ok(&mut one, "ROLLBACK");
    assert_eq!(errors(&mut one, "SELECT * FROM ##t"), [208]);
    ok(&mut one, "CREATE TABLE ##t (id int); INSERT ##t VALUES (1)");
    ok(&mut one, "BEGIN TRANSACTION; DROP TABLE ##t; ROLLBACK");
    assert_eq!(rows(&mut other, "SELECT id FROM ##t"), ["ROW(Int(1))"]);
    drop(one);
    assert_eq!(errors(&mut other, "SELECT * FROM ##t"), [208]);
}

#[test]
fn its_end_waits_for_whoever_has_locked_it() {
    let engine = engine();
    let mut maker = login(&engine, "sa", "secret");
    let mut other = login(&engine, "sa", "secret");
    ok(&mut maker, "CREATE TABLE ##t (id int)");
    ok(&mut other, "BEGIN TRANSACTION; INSERT ##t VALUES (1)");
    let (ended, end) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        drop(maker);
        ended.send(()).expect("the test waits for it");
    });
    assert!(end.recv_timeout(Duration::from_millis(50)).is_err());
    assert_eq!(rows(&mut other, "SELECT id FROM ##t"), ["ROW(Int(1))"]);
    ok(&mut other, "COMMIT");
    end.recv_timeout(Duration::from_secs(10)).expect("nothing is in the way any more");
    thread.join().expect("it does not panic");
    assert_eq!(errors(&mut other, "SELECT id FROM ##t"), [208]);
}

#[test]
fn what_is_refused() {
    let engine = engine();
    let mut one = login(&engine, "sa", "secret");
    let mut other = login(&engine, "sa", "secret");
    ok(&mut one, "CREATE DATABASE elsewhere; CREATE TABLE ##t (id int)");
    ok(&mut other, "USE elsewhere");
    for sql in [
        "SELECT * FROM ##t",
        "CREATE TABLE ##t (id int)",
        "SELECT 1 AS a INTO ##t",
        "IF OBJECT_ID('tempdb..##t') IS NULL PRINT 'no'",
    ] {
        let tokens = run(&mut other, sql);
        assert!(tokens.iter().any(|token| token.contains("a session in another database has made")), "{tokens:?}");
    }
    assert_eq!(errors(&mut one, "USE elsewhere"), [59000]);
    assert_eq!(errors(&mut one, "EXEC sp_rename '##t', 'u'"), [59000]);
    ok(&mut one, "DROP TABLE ##t; USE elsewhere");
    ok(&mut other, "CREATE TABLE ##t (id int)");
    assert_eq!(errors(&mut one, "CREATE VIEW v AS SELECT id FROM ##t"), [4508]);
}
