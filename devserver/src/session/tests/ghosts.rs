//! Ghosts that a delete leaves behind: nobody sees them, everybody reads over them.
//!
//! Source: "Ghost cleanup process guide" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/ghost-record-cleanup-process-guide.md).

use std::sync::Arc;

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::tests::harness::{engine, errors, login, ok, rows};

/// Ten jobs, and an index of those that are ready.
const TABLE: &str = "CREATE TABLE t (id int NOT NULL PRIMARY KEY, k varchar(10) NULL, state int NOT NULL);
    CREATE INDEX ready ON t (id) INCLUDE (k) WHERE state = 0;
    CREATE UNIQUE INDEX keyed ON t (k) WHERE k IS NOT NULL;
    INSERT t SELECT value, CONCAT('k', value), 0 FROM GENERATE_SERIES(1, 10)";

const FIRST: &str = "SELECT TOP (1) id FROM t WITH (INDEX (ready)) WHERE state = 0 ORDER BY id";

fn prepared(keep: bool) -> (Arc<Engine>, Session) {
    let engine = engine();
    engine.faults.keep_ghosts(keep);
    let mut session = login(&engine, "sa", "secret");
    ok(&mut session, TABLE);
    (engine, session)
}

/// What a statement gives, and how many entries it reads.
fn read(engine: &Engine, session: &mut Session, sql: &str) -> (Vec<String>, u64) {
    let before = engine.entries_read();
    let found = rows(session, sql);
    (found, engine.entries_read() - before)
}

#[test]
fn a_scan_reads_over_ghosts_and_a_seek_past_them_does_not() {
    for (keep, over) in [(false, 0), (true, 6)] {
        let (engine, mut s) = prepared(keep);
        ok(&mut s, "DELETE t WHERE id <= 6");
        assert_eq!(read(&engine, &mut s, FIRST), (vec!["ROW(Int(7))".to_string()], over + 1));
        let by_row = "SELECT TOP (1) id FROM t WITH (INDEX (1)) ORDER BY id";
        assert_eq!(read(&engine, &mut s, by_row), (vec!["ROW(Int(7))".to_string()], over + 1));
        let unlocked = "SELECT TOP (1) id FROM t WITH (NOLOCK, INDEX (ready)) WHERE state = 0 ORDER BY id";
        assert_eq!(read(&engine, &mut s, unlocked), (vec!["ROW(Int(7))".to_string()], over + 1));
        let past = "SELECT TOP (1) id FROM t WITH (INDEX (ready)) WHERE state = 0 AND id >= 7 ORDER BY id";
        assert_eq!(read(&engine, &mut s, past), (vec!["ROW(Int(7))".to_string()], 1));
        let claim = "WITH c AS (SELECT TOP (2) id, state FROM t WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (ready))
             WHERE state = 0 ORDER BY id) UPDATE c SET state = 2 OUTPUT inserted.id";
        let claimed = vec!["ROW(Int(7))".to_string(), "ROW(Int(8))".to_string()];
        assert_eq!(read(&engine, &mut s, claim), (claimed, over + 2));
        assert_eq!(rows(&mut s, "SELECT COUNT(*), MIN(id) FROM t"), ["ROW(Int(4), Int(7))"]);
        assert_eq!(
            rows(&mut s, "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE resource_type <> 'DATABASE'"),
            ["ROW(Int(0))"]
        );
    }
}

#[test]
fn an_update_that_moves_an_entry_leaves_a_ghost_where_it_was() {
    let (engine, mut s) = prepared(true);
    ok(&mut s, "UPDATE t SET state = 2 WHERE id <= 6");
    assert_eq!(read(&engine, &mut s, FIRST), (vec!["ROW(Int(7))".to_string()], 7));
    // The rows themselves are where they were.
    let by_row = "SELECT TOP (1) id FROM t WITH (INDEX (1)) ORDER BY id";
    assert_eq!(read(&engine, &mut s, by_row), (vec!["ROW(Int(1))".to_string()], 1));
}

#[test]
fn an_insert_of_the_same_key_takes_the_ghosts_place() {
    let (engine, mut s) = prepared(true);
    ok(&mut s, "DELETE t WHERE id <= 3");
    ok(&mut s, "INSERT t VALUES (2, 'k2', 0)");
    assert_eq!(errors(&mut s, "INSERT t VALUES (2, 'other', 0)"), [2627]);
    assert_eq!(errors(&mut s, "INSERT t VALUES (20, 'k2', 0)"), [2601]);
    assert_eq!(read(&engine, &mut s, FIRST), (vec!["ROW(Int(2))".to_string()], 2));
    // A unique index has one entry for a key, whichever rows had it.
    for id in 100..120 {
        ok(&mut s, &format!("INSERT t VALUES ({id}, 'again', 0); DELETE t WHERE id = {id}"));
    }
    ok(&mut s, "INSERT t VALUES (200, 'again', 0)");
    let keyed = "SELECT id FROM t WITH (INDEX (keyed)) WHERE k = 'again'";
    assert_eq!(read(&engine, &mut s, keyed), (vec!["ROW(Int(200))".to_string()], 1));
    // What a rollback takes back leaves the ghost, and no row.
    ok(
        &mut s,
        "BEGIN TRAN; INSERT t VALUES (1, 'k1', 0); DELETE t WHERE id = 1; INSERT t VALUES (1, 'x', 0); ROLLBACK",
    );
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM t WHERE id = 1 OR k IN ('k1', 'x')"), ["ROW(Int(0))"]);
    ok(&mut s, "INSERT t VALUES (1, 'k1', 0)");
}

#[test]
fn switching_it_off_cleans_up() {
    let (engine, mut s) = prepared(true);
    ok(&mut s, "DELETE t WHERE id <= 6");
    let mut other = login(&engine, "sa", "secret");
    // A delete that is still open, and an insert in a ghost's place that will be taken back.
    ok(&mut other, "BEGIN TRAN; DELETE t WHERE id = 9; INSERT t VALUES (4, 'k4', 0)");
    engine.faults.keep_ghosts(false);
    assert_eq!(errors(&mut s, "SET LOCK_TIMEOUT 0; SELECT id FROM t WHERE id = 9"), [1222]);
    ok(&mut other, "ROLLBACK");
    assert_eq!(read(&engine, &mut s, FIRST), (vec!["ROW(Int(7))".to_string()], 1));
    assert_eq!(read(&engine, &mut s, "SELECT COUNT(*) FROM t WITH (INDEX (1))"), (vec!["ROW(Int(4))".to_string()], 4));
    ok(&mut s, "DELETE t WHERE id = 7");
    assert_eq!(read(&engine, &mut s, FIRST), (vec!["ROW(Int(8))".to_string()], 1));
}

/// A key range stays guarded, whether its keys are ghosts, and whether the ghosts are to go.
#[test]
fn a_range_over_ghosts_stays_guarded() {
    let (engine, mut s) = prepared(true);
    ok(&mut s, "DELETE t WHERE id BETWEEN 3 AND 6");
    let mut reader = login(&engine, "sa", "secret");
    ok(&mut reader, "BEGIN TRAN; SELECT id FROM t WITH (HOLDLOCK) WHERE id BETWEEN 3 AND 5");
    let blocked = |s: &mut Session| {
        for id in [3, 4, 5] {
            assert_eq!(errors(s, &format!("SET LOCK_TIMEOUT 0; INSERT t VALUES ({id}, NULL, 0)")), [1222], "{id}");
        }
    };
    blocked(&mut s);
    engine.faults.keep_ghosts(false);
    blocked(&mut s);
    ok(&mut reader, "COMMIT");
    let all = "SELECT COUNT(*) FROM t WITH (INDEX (1))";
    assert_eq!(read(&engine, &mut s, all), (vec!["ROW(Int(6))".to_string()], 6));
    ok(&mut s, "INSERT t VALUES (4, 'k4', 0)");
}

#[test]
fn snapshots_see_what_was_there_before_a_ghosts_place_was_taken() {
    let (engine, mut s) = prepared(true);
    ok(&mut s, "DELETE t WHERE id = 1; UPDATE t SET k = 'other' WHERE id = 5");
    let mut reader = login(&engine, "sa", "secret");
    ok(&mut s, "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON");
    ok(&mut reader, "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT COUNT(*) FROM t");
    ok(&mut s, "INSERT t VALUES (1, 'k1', 0); DELETE t WHERE id = 2; UPDATE t SET k = 'k5' WHERE id = 5");
    assert_eq!(rows(&mut reader, "SELECT MIN(id), COUNT(*) FROM t"), ["ROW(Int(2), Int(9))"]);
    assert_eq!(
        rows(&mut reader, "SELECT k FROM t WITH (INDEX (keyed)) WHERE k IN ('k1', 'k2')"),
        ["ROW(String(\"k2\"))"]
    );
    // Not twice, by the entry of then and by the one that has taken its ghost's place.
    let moved = "SELECT COUNT(*), MAX(k) FROM t WITH (INDEX (keyed)) WHERE k IS NOT NULL AND id = 5";
    assert_eq!(rows(&mut reader, moved), ["ROW(Int(1), String(\"other\"))"]);
    ok(&mut reader, "COMMIT");
    assert_eq!(rows(&mut reader, moved), ["ROW(Int(1), String(\"k5\"))"]);
    assert_eq!(rows(&mut reader, "SELECT MIN(id), COUNT(*) FROM t WHERE id <> 2"), ["ROW(Int(1), Int(9))"]);
}

#[test]
fn the_rows_of_a_heap_leave_none() {
    let engine = engine();
    engine.faults.keep_ghosts(true);
    let mut s = login(&engine, "sa", "secret");
    ok(&mut s, "CREATE TABLE h (a int); INSERT h VALUES (1), (2), (3); DELETE h WHERE a < 3");
    assert_eq!(read(&engine, &mut s, "SELECT a FROM h"), (vec!["ROW(Int(3))".to_string()], 1));
}
