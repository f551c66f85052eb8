//! Ghosts that a delete leaves behind: nobody sees them, everybody reads over them.
//!
//! Source: "Ghost cleanup process guide" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/ghost-record-cleanup-process-guide.md).

use std::sync::Arc;

use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::tests::harness::{engine, login};

/// Ten jobs, and an index of those that are ready.
const TABLE: &str = "CREATE TABLE t (id int NOT NULL PRIMARY KEY, k varchar(10) NULL, state int NOT NULL);
    CREATE INDEX ready ON t (id) INCLUDE (k) WHERE state = 0;
    CREATE UNIQUE INDEX keyed ON t (k) WHERE k IS NOT NULL;
    INSERT t SELECT value, CONCAT('k', value), 0 FROM GENERATE_SERIES(1, 10)";

const FIRST: &str = "SELECT TOP (1) id FROM t WITH (INDEX (ready)) WHERE state = 0 ORDER BY id";
const BY_ROW: &str = "SELECT TOP (1) id FROM t WITH (INDEX (1)) ORDER BY id";

fn prepared() -> (Arc<Engine>, Session) {
    let engine = engine();
    engine.faults.keep_ghosts();
    let mut session = login(&engine, "sa", "secret");
    session.check(TABLE);
    (engine, session)
}

/// A statement gives these rows and reads that many entries.
fn reads(engine: &Engine, session: &mut Session, sql: &str, found: &str, entries: u64) {
    let before = engine.entries_read();
    session.check(&format!("{sql} => {found}"));
    assert_eq!(engine.entries_read() - before, entries, "{sql}");
}

#[test]
fn a_scan_reads_over_ghosts_and_a_seek_past_them_does_not() {
    let engines = [engine(), engine()];
    engines[1].faults.keep_ghosts();
    for (engine, over) in engines.into_iter().zip([0, 6]) {
        let mut s = login(&engine, "sa", "secret");
        s.check(TABLE);
        s.check("DELETE t WHERE id <= 6");
        reads(&engine, &mut s, FIRST, "7", over + 1);
        reads(&engine, &mut s, BY_ROW, "7", over + 1);
        let unlocked = "SELECT TOP (1) id FROM t WITH (NOLOCK, INDEX (ready)) WHERE state = 0 ORDER BY id";
        reads(&engine, &mut s, unlocked, "7", over + 1);
        let past = "SELECT TOP (1) id FROM t WITH (INDEX (ready)) WHERE state = 0 AND id >= 7 ORDER BY id";
        reads(&engine, &mut s, past, "7", 1);
        let claim = "WITH c AS (SELECT TOP (2) id, state FROM t WITH (ROWLOCK, UPDLOCK, READPAST, INDEX (ready))
             WHERE state = 0 ORDER BY id) UPDATE c SET state = 2 OUTPUT inserted.id";
        reads(&engine, &mut s, claim, "7 | 8", over + 2);
        s.check(
            "SELECT COUNT(*), MIN(id) FROM t => 4, 7
             SELECT COUNT(*) FROM sys.dm_tran_locks WHERE resource_type <> 'DATABASE' => 0",
        );
    }
}

#[test]
fn an_update_that_moves_an_entry_leaves_a_ghost_where_it_was() {
    let (engine, mut s) = prepared();
    s.check("UPDATE t SET state = 2 WHERE id <= 6");
    reads(&engine, &mut s, FIRST, "7", 7);
    // The rows themselves are where they were.
    reads(&engine, &mut s, BY_ROW, "1", 1);
}

#[test]
fn an_insert_of_the_same_key_takes_the_ghosts_place() {
    let (engine, mut s) = prepared();
    s.check(
        "DELETE t WHERE id <= 3; INSERT t VALUES (2, 'k2', 0) => ok
         INSERT t VALUES (2, 'other', 0) => error 2627
         INSERT t VALUES (20, 'k2', 0) => error 2601",
    );
    reads(&engine, &mut s, FIRST, "2", 2);
    // A unique index has one entry for a key, whichever rows had it.
    for id in 100..120 {
        s.check(&format!("INSERT t VALUES ({id}, 'again', 0); DELETE t WHERE id = {id}"));
    }
    s.check("INSERT t VALUES (200, 'again', 0)");
    reads(&engine, &mut s, "SELECT id FROM t WITH (INDEX (keyed)) WHERE k = 'again'", "200", 1);
    s.check(
        "-- What a rollback takes back leaves the ghost, and no row.
         BEGIN TRAN; INSERT t VALUES (1, 'k1', 0); DELETE t WHERE id = 1; INSERT t VALUES (1, 'x', 0); ROLLBACK => ok
         SELECT COUNT(*) FROM t WHERE id = 1 OR k IN ('k1', 'x') => 0
         INSERT t VALUES (1, 'k1', 0) => ok",
    );
}

/// A key range stays guarded where its keys are ghosts.
#[test]
fn a_range_over_ghosts_stays_guarded() {
    let (engine, mut s) = prepared();
    s.check("DELETE t WHERE id BETWEEN 3 AND 6; SET LOCK_TIMEOUT 0");
    let mut reader = login(&engine, "sa", "secret");
    reader.check("BEGIN TRAN; SELECT id FROM t WITH (HOLDLOCK) WHERE id BETWEEN 3 AND 5");
    s.check(
        "INSERT t VALUES (3, NULL, 0) => error 1222
         INSERT t VALUES (4, NULL, 0) => error 1222
         INSERT t VALUES (5, NULL, 0) => error 1222",
    );
    reader.check("COMMIT");
    s.check("INSERT t VALUES (4, 'k4', 0)");
}

#[test]
fn snapshots_see_what_was_there_before_a_ghosts_place_was_taken() {
    let (engine, mut s) = prepared();
    s.check("DELETE t WHERE id = 1; UPDATE t SET k = 'other' WHERE id = 5");
    let mut reader = login(&engine, "sa", "secret");
    s.check("ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON");
    reader.check("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT COUNT(*) FROM t");
    s.check("INSERT t VALUES (1, 'k1', 0); DELETE t WHERE id = 2; UPDATE t SET k = 'k5' WHERE id = 5");
    reader.check(
        "SELECT MIN(id), COUNT(*) FROM t => 2, 9
         SELECT k FROM t WITH (INDEX (keyed)) WHERE k IN ('k1', 'k2') => 'k2'
         -- Not twice, by the entry of then and by the one that has taken its ghost's place.
         SELECT COUNT(*), MAX(k) FROM t WITH (INDEX (keyed)) WHERE k IS NOT NULL AND id = 5 => 1, 'other'
         COMMIT => ok
         SELECT COUNT(*), MAX(k) FROM t WITH (INDEX (keyed)) WHERE k IS NOT NULL AND id = 5 => 1, 'k5'
         SELECT MIN(id), COUNT(*) FROM t WHERE id <> 2 => 1, 9",
    );
}

#[test]
fn the_rows_of_a_heap_leave_none() {
    let (engine, mut s) = prepared();
    s.check("CREATE TABLE h (a int); INSERT h VALUES (1), (2), (3); DELETE h WHERE a < 3");
    reads(&engine, &mut s, "SELECT a FROM h", "3", 1);
}
