//! sys.dm_db_index_operational_stats and sys.dm_db_index_physical_stats.
//!
//! Source: MicrosoftDocs/sql-docs, docs/relational-databases/system-dynamic-management-views/
//! sys-dm-db-index-operational-stats-transact-sql.md and sys-dm-db-index-physical-stats-transact-sql.md.

use crate::session::client_session::Session;
use crate::session::tests::harness::{engine, errors, login, ok, rows, session};

const TABLE: &str = "CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NULL, k int NULL);
    CREATE INDEX by_n ON t (n) INCLUDE (k);
    INSERT t SELECT value, value, 0 FROM GENERATE_SERIES(1, 10)";

/// The named counts of the rows and of `by_n`.
fn counts(s: &mut Session, columns: &str) -> [Vec<i64>; 2] {
    let sql = format!(
        "SELECT {columns} FROM sys.dm_db_index_operational_stats(DB_ID(), OBJECT_ID(N't'), NULL, NULL) ORDER BY index_id"
    );
    let found = rows(s, &sql);
    let numbers = |row: &String| -> Vec<i64> {
        let digits = row.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty() && *part != "64");
        digits.map(|digits| digits.parse().expect("a number")).collect()
    };
    [numbers(&found[0]), numbers(&found[1])]
}

#[test]
fn changes_of_rows_and_of_entries_are_told_apart() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    let columns = "leaf_insert_count, leaf_delete_count, leaf_update_count, leaf_ghost_count";
    assert_eq!(counts(&mut s, columns), [vec![10, 0, 0, 0], vec![10, 0, 0, 0]]);
    // A key moves: a ghost and an entry. An included column: the entry changes where it is.
    ok(&mut s, "UPDATE t SET n = n + 100 WHERE id <= 2");
    assert_eq!(counts(&mut s, columns), [vec![10, 0, 2, 0], vec![12, 0, 0, 2]]);
    ok(&mut s, "UPDATE t SET k = 1 WHERE id = 3");
    assert_eq!(counts(&mut s, columns), [vec![10, 0, 3, 0], vec![12, 0, 1, 2]]);
    ok(&mut s, "DELETE t WHERE id >= 9");
    assert_eq!(counts(&mut s, columns), [vec![10, 0, 3, 2], vec![12, 0, 1, 4]]);
    // A rollback takes no count back.
    ok(&mut s, "BEGIN TRAN; DELETE t WHERE id = 1; ROLLBACK");
    assert_eq!(counts(&mut s, columns), [vec![10, 0, 3, 3], vec![12, 0, 1, 5]]);
}

#[test]
fn the_rows_of_a_heap_are_deleted_without_ghosts() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (n int, INDEX by_n (n)); INSERT t VALUES (1), (2); DELETE t WHERE n = 1");
    assert_eq!(
        counts(&mut s, "index_id, leaf_insert_count, leaf_delete_count, leaf_ghost_count"),
        [vec![0, 2, 1, 0], vec![2, 2, 0, 1]]
    );
}

#[test]
fn scans_and_lookups_are_counted_where_they_begin() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    let columns = "range_scan_count, singleton_lookup_count";
    let [rows_before, entries_before] = counts(&mut s, columns);
    ok(&mut s, "SELECT k FROM t WHERE id = 5");
    ok(&mut s, "SELECT k FROM t WHERE id > 5");
    // The index covers the first, and leads to three rows for the second.
    ok(&mut s, "SELECT k FROM t WITH (INDEX (by_n)) WHERE n = 5");
    ok(&mut s, "ALTER TABLE t ADD more int NULL");
    ok(&mut s, "SELECT more FROM t WITH (INDEX (by_n)) WHERE n <= 3");
    let [rows_after, entries_after] = counts(&mut s, columns);
    assert_eq!([rows_after[0] - rows_before[0], rows_after[1] - rows_before[1]], [1, 4]);
    assert_eq!([entries_after[0] - entries_before[0], entries_after[1] - entries_before[1]], [2, 0]);
}

#[test]
fn locks_and_waits_for_them_are_counted() {
    let engine = engine();
    let mut a = login(&engine, "sa", "secret");
    let mut b = login(&engine, "sa", "secret");
    ok(&mut a, TABLE);
    let columns = "row_lock_count, row_lock_wait_count, page_lock_count";
    let before = counts(&mut a, columns);
    ok(&mut a, "SELECT k FROM t WITH (NOLOCK)");
    ok(&mut a, "SELECT k FROM t WITH (TABLOCK)");
    assert_eq!(counts(&mut a, columns), before);
    ok(&mut a, "SELECT k FROM t WITH (INDEX (1)) WHERE id <= 4");
    assert_eq!(counts(&mut a, columns)[0][0], before[0][0] + 4);
    ok(&mut a, "BEGIN TRAN; UPDATE t SET k = 7 WHERE id = 1");
    assert_eq!(errors(&mut b, "SET LOCK_TIMEOUT 30; SELECT k FROM t WHERE id = 1"), [1222]);
    let [of_rows, of_entries] = counts(&mut a, "row_lock_wait_count, row_lock_wait_in_ms, page_lock_count");
    assert_eq!((of_rows[0], of_rows[1] >= 30, of_rows[2]), (before[0][1] + 1, true, 0));
    assert_eq!(of_entries[..2], [0, 0]);
}

#[test]
fn escalations_are_counted() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NULL, INDEX by_n (n))");
    ok(&mut s, "INSERT t (id) SELECT value FROM GENERATE_SERIES(1, 4000)");
    let columns = "index_lock_promotion_attempt_count, index_lock_promotion_count";
    assert_eq!(counts(&mut s, columns)[0], [0, 0]);
    ok(&mut s, "INSERT t (id) SELECT value FROM GENERATE_SERIES(4001, 10000)");
    assert_eq!(counts(&mut s, columns)[0], [1, 1]);
}

#[test]
fn it_shows_what_one_may_see_and_knows() {
    let engine = engine();
    let mut s = login(&engine, "sa", "secret");
    ok(&mut s, TABLE);
    ok(&mut s, "CREATE LOGIN u WITH PASSWORD = 'p'; CREATE USER u FOR LOGIN u");
    let mut user = login(&engine, "u", "p");
    let all = "SELECT database_id, index_id FROM sys.dm_db_index_operational_stats(DB_ID(), NULL, NULL, NULL) AS s ORDER BY s.index_id";
    assert_eq!(errors(&mut user, all), [262]);
    ok(&mut s, "GRANT VIEW DATABASE STATE TO u");
    assert_eq!(rows(&mut user, all), ["ROW(SmallInt(5), Int(1))", "ROW(SmallInt(5), Int(2))"]);
    let one = "SELECT i.name FROM sys.indexes AS i
        JOIN sys.dm_db_index_operational_stats(DB_ID(), OBJECT_ID(N't'), 2, NULL) AS s
        ON s.object_id = i.object_id AND s.index_id = i.index_id";
    assert_eq!(rows(&mut s, one), ["ROW(String(\"by_n\"))"]);
    let unknown = "SELECT page_latch_wait_count FROM sys.dm_db_index_operational_stats(DB_ID(), NULL, NULL, NULL)";
    assert_eq!(errors(&mut s, unknown), [59000]);
    assert_eq!(errors(&mut s, "SELECT 1 AS x FROM sys.dm_db_index_operational_stats(1, NULL, NULL, NULL)"), [59000]);
    assert_eq!(errors(&mut s, "SELECT 1 AS x FROM sys.dm_db_index_operational_stats(DB_ID())"), [313]);
    let applied = "SELECT 1 AS x FROM sys.tables AS t CROSS APPLY sys.dm_db_index_operational_stats(DB_ID(), t.object_id, NULL, NULL) AS s";
    assert_eq!(errors(&mut s, applied), [4104]);
}

#[test]
fn records_and_ghosts_of_an_index_are_seen() {
    let engine = engine();
    let mut s = login(&engine, "sa", "secret");
    ok(&mut s, TABLE);
    ok(&mut s, "CREATE TABLE heap (n int)");
    engine.faults.keep_ghosts(true);
    ok(&mut s, "DELETE t WHERE id <= 3; UPDATE t SET n = n + 100 WHERE id = 10");
    let all = |mode: &str| {
        format!(
            "SELECT index_id, index_type_desc, alloc_unit_type_desc, index_level, record_count, ghost_record_count
             FROM sys.dm_db_index_physical_stats(DB_ID(), OBJECT_ID(N't'), NULL, NULL, {mode}) ORDER BY index_id"
        )
    };
    assert_eq!(
        rows(&mut s, &all("'sampled'")),
        [
            r#"ROW(Int(1), String("CLUSTERED INDEX"), String("IN_ROW_DATA"), TinyInt(0), BigInt(7), BigInt(3))"#,
            r#"ROW(Int(2), String("NONCLUSTERED INDEX"), String("IN_ROW_DATA"), TinyInt(0), BigInt(7), BigInt(4))"#,
        ]
    );
    engine.faults.keep_ghosts(false);
    let ghosts = "SELECT SUM(ghost_record_count) AS n
        FROM sys.dm_db_index_physical_stats(DB_ID(), OBJECT_ID(N't'), NULL, NULL, 'SAMPLED')";
    assert_eq!(rows(&mut s, ghosts), ["ROW(BigInt(0))"]);
    // Records are not counted in the mode LIMITED, which is the default.
    assert_eq!(
        rows(&mut s, &all("NULL"))[0],
        r#"ROW(Int(1), String("CLUSTERED INDEX"), String("IN_ROW_DATA"), TinyInt(0), Null, Null)"#
    );
    let heap = "SELECT index_id, index_type_desc AS d FROM sys.dm_db_index_physical_stats(DB_ID(), OBJECT_ID(N'heap'), 0, NULL, NULL)";
    assert_eq!(rows(&mut s, heap), [r#"ROW(Int(0), String("HEAP"))"#]);
    // Levels above the leaves, pages, and what stands off a row: nobody knows here.
    assert_eq!(errors(&mut s, &all("'DETAILED'")), [59000]);
    let pages =
        "SELECT page_count FROM sys.dm_db_index_physical_stats(DB_ID(), OBJECT_ID(N't'), NULL, NULL, 'SAMPLED')";
    assert_eq!(errors(&mut s, pages), [59000]);
    ok(&mut s, "CREATE TABLE large (id int PRIMARY KEY, n int, text varchar(max), INDEX by_n (n))");
    let large = |index: u8| {
        format!(
            "SELECT record_count FROM sys.dm_db_index_physical_stats(DB_ID(), OBJECT_ID(N'large'), {index}, NULL, 'SAMPLED')"
        )
    };
    assert_eq!(errors(&mut s, &large(1)), [59000]);
    assert_eq!(rows(&mut s, &large(2)), ["ROW(BigInt(0))"]);
    let one_less = "SELECT 1 AS x FROM sys.dm_db_index_physical_stats(DB_ID(), NULL, NULL, NULL)";
    assert_eq!(errors(&mut s, one_less), [313]);
}

#[test]
fn counting_records_waits_for_a_table_that_is_locked() {
    let engine = engine();
    let mut a = login(&engine, "sa", "secret");
    let mut b = login(&engine, "sa", "secret");
    ok(&mut a, TABLE);
    ok(&mut a, "BEGIN TRAN; SELECT id FROM t WITH (TABLOCKX, HOLDLOCK)");
    let counted = "SET LOCK_TIMEOUT 30; SELECT record_count
        FROM sys.dm_db_index_physical_stats(DB_ID(), OBJECT_ID(N't'), 1, NULL, 'SAMPLED')";
    assert_eq!(errors(&mut b, counted), [1222]);
    ok(&mut a, "COMMIT");
    assert_eq!(rows(&mut b, counted), ["ROW(BigInt(10))"]);
}
