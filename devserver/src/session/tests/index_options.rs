//! The WITH options of indexes, as the catalog shows them, and what is asked of the locks to change them.
//!
//! Sources: "ALTER INDEX" (MicrosoftDocs/sql-docs, docs/t-sql/statements/alter-index-transact-sql.md), "sys.indexes",
//! "sys.stats", "sys.tables" (docs/relational-databases/system-catalog-views/).

use crate::session::tests::harness::{engine, errors, login, ok, rows, run, session};

const TABLE: &str = "CREATE TABLE t (id bigint NOT NULL, k varchar(10) NULL,
        CONSTRAINT t_pk PRIMARY KEY CLUSTERED (id) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF));
    CREATE UNIQUE NONCLUSTERED INDEX t_k ON t (k) WHERE k IS NOT NULL
        WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);
    CREATE INDEX usual ON t (k)";

const OPTIONS: &str =
    "SELECT i.name, i.allow_row_locks, i.allow_page_locks, i.optimize_for_sequential_key, s.no_recompute
    FROM sys.indexes AS i JOIN sys.stats AS s ON s.object_id = i.object_id AND s.stats_id = i.index_id
    WHERE i.object_id = OBJECT_ID(N't') ORDER BY i.index_id";

fn row(name: &str, page_locks: bool, sequential: bool, no_recompute: bool) -> String {
    format!("ROW(String(\"{name}\"), Bit(true), Bit({page_locks}), Bit({sequential}), Bit({no_recompute}))")
}

#[test]
fn the_catalog_shows_them() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    let [pk, k, usual] =
        [row("t_pk", false, false, true), row("t_k", false, false, true), row("usual", true, false, false)];
    assert_eq!(rows(&mut s, OPTIONS), [pk.clone(), k.clone(), usual]);
    // Options that are not named stay as they are, but for what sys.indexes does not hold.
    ok(&mut s, "ALTER INDEX usual ON t SET (ALLOW_PAGE_LOCKS = OFF, OPTIMIZE_FOR_SEQUENTIAL_KEY = ON)");
    ok(&mut s, "ALTER INDEX usual ON t SET (STATISTICS_NORECOMPUTE = ON)");
    assert_eq!(rows(&mut s, OPTIONS), [pk, k, row("usual", false, true, true)]);
}

/// "If the table has a clustered index, the REBUILD option rebuilds the clustered index. … All options apply to a table
/// with a clustered index" (docs/t-sql/statements/alter-table-transact-sql.md).
#[test]
fn rebuilding_a_table_sets_the_options_of_its_clustered_index() {
    let (_e, mut s) = session();
    ok(&mut s, TABLE);
    ok(&mut s, "ALTER TABLE t REBUILD WITH (IGNORE_DUP_KEY = ON, ALLOW_PAGE_LOCKS = ON)");
    let others = [row("t_k", false, false, true), row("usual", true, false, false)];
    assert_eq!(rows(&mut s, OPTIONS), [vec![row("t_pk", true, false, false)], others.to_vec()].concat());
    ok(&mut s, "INSERT t VALUES (1, 'a')");
    let answer = run(&mut s, "INSERT t VALUES (1, 'b'); SELECT @@ROWCOUNT, k FROM t");
    assert!(answer.iter().any(|token| token.starts_with("INFO(3604")), "{answer:?}");
    assert!(answer.contains(&"ROW(Int(0), String(\"a\"))".to_string()), "{answer:?}");
    ok(&mut s, "ALTER TABLE t REBUILD WITH (IGNORE_DUP_KEY = OFF)");
    assert_eq!(errors(&mut s, "INSERT t VALUES (1, 'b')"), [2627]);
    for refused in [
        "CREATE TABLE heap (a int); ALTER TABLE heap REBUILD",
        "ALTER INDEX usual ON t REBUILD",
        "ALTER INDEX usual ON t DISABLE",
        "ALTER INDEX ALL ON t SET (ALLOW_PAGE_LOCKS = OFF)",
        "ALTER INDEX usual ON t SET (IGNORE_DUP_KEY = ON)",
        "CREATE INDEX usual ON t (k) WITH (DROP_EXISTING = ON)",
        "DROP INDEX usual ON t WITH (MAXDOP = 1)",
    ] {
        assert_eq!(errors(&mut s, refused), [59000], "{refused}");
    }
    assert_eq!(errors(&mut s, "ALTER INDEX nothing ON t SET (ALLOW_PAGE_LOCKS = OFF)"), [2727]);
    ok(&mut s, "CREATE TABLE twice (a int); CREATE CLUSTERED INDEX i ON twice (a)");
    assert_eq!(errors(&mut s, "ALTER TABLE twice REBUILD WITH (IGNORE_DUP_KEY = ON)"), [1916]);
}

/// What an install script does to a table that is in use: it ends with a clear error instead of holding up everybody.
#[test]
fn setting_options_waits_for_readers_within_the_lock_timeout() {
    let engine = engine();
    let mut reader = login(&engine, "sa", "secret");
    let mut installer = login(&engine, "sa", "secret");
    ok(&mut reader, TABLE);
    ok(&mut reader, "BEGIN TRAN; SELECT COUNT(*) FROM t WITH (HOLDLOCK)");
    assert_eq!(rows(&mut installer, "SET LOCK_TIMEOUT 20; SELECT @@LOCK_TIMEOUT"), ["ROW(Int(20))"]);
    let escalation = "SELECT lock_escalation, lock_escalation_desc FROM sys.tables WHERE object_id = OBJECT_ID(N't')";
    assert_eq!(errors(&mut installer, "ALTER TABLE t SET (LOCK_ESCALATION = DISABLE)"), [1222]);
    assert_eq!(errors(&mut installer, "ALTER INDEX usual ON t SET (ALLOW_PAGE_LOCKS = OFF)"), [1222]);
    assert_eq!(rows(&mut installer, escalation), ["ROW(TinyInt(0), String(\"TABLE\"))"]);
    ok(&mut reader, "COMMIT");
    ok(&mut installer, "ALTER TABLE t SET (LOCK_ESCALATION = DISABLE)");
    assert_eq!(rows(&mut installer, escalation), ["ROW(TinyInt(1), String(\"DISABLE\"))"]);
    assert_eq!(rows(&mut reader, "SELECT @@LOCK_TIMEOUT"), ["ROW(Int(-1))"]);
}

/// What another session changes while an index waits for its lock stays ("CREATE INDEX" takes Sch-M:
/// docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md, "Schema locks").
#[test]
fn an_index_that_waits_meets_the_table_as_it_is_then() {
    let (engine, mut s) = session();
    for change in
        ["CREATE CLUSTERED INDEX i ON t (a)", "ALTER INDEX n ON t SET (ALLOW_PAGE_LOCKS = OFF)", "DROP INDEX c ON t"]
    {
        let mut other = login(&engine, "sa", "secret");
        ok(&mut s, "CREATE TABLE t (a int, b int); CREATE INDEX n ON t (b); INSERT t VALUES (1, 1)");
        if change.starts_with("DROP") {
            ok(&mut s, "CREATE CLUSTERED INDEX c ON t (a)");
        }
        ok(&mut s, "BEGIN TRANSACTION; INSERT t VALUES (2, 2)");
        let waiting = std::thread::spawn(move || ok(&mut other, change));
        ok(&mut s, "WAITFOR DELAY '00:00:00.100'; ALTER TABLE t ADD CONSTRAINT small CHECK (b < 10); COMMIT");
        waiting.join().expect("it ends");
        assert_eq!(errors(&mut s, "INSERT t VALUES (3, 30)"), [547], "{change}");
        ok(&mut s, "DROP TABLE t");
    }
}

// Sources: "CREATE STATISTICS", docs/t-sql/statements/create-statistics-transact-sql.md; "sys.stats" and
// "sys.stats_columns", docs/relational-databases/system-catalog-views/; "ALTER TABLE", columns that are "used in
// statistics that are generated by the CREATE STATISTICS statement".
#[test]
fn statistics_of_a_column_are_remembered_and_hold_it() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int NOT NULL, b int NULL); CREATE INDEX ia ON t (a)");
    ok(&mut s, "CREATE STATISTICS sb ON dbo.t (b) WITH NORECOMPUTE");
    ok(&mut s, "CREATE INDEX ib ON t (b)");
    let all = "SELECT s.name, s.user_created, s.no_recompute, c.name FROM sys.stats AS s
               INNER JOIN sys.stats_columns AS k ON k.object_id = s.object_id AND k.stats_id = s.stats_id
               INNER JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
               WHERE s.object_id = OBJECT_ID(N't') AND s.stats_id > 1 ORDER BY s.stats_id";
    assert_eq!(
        rows(&mut s, all),
        [
            "ROW(String(\"ia\"), Bit(false), Bit(false), String(\"a\"))",
            "ROW(String(\"sb\"), Bit(true), Bit(true), String(\"b\"))",
            "ROW(String(\"ib\"), Bit(false), Bit(false), String(\"b\"))",
        ]
    );
    assert_eq!(errors(&mut s, "CREATE STATISTICS SB ON t (a)"), [1927]);
    assert_eq!(errors(&mut s, "CREATE STATISTICS ia ON t (a)"), [1927]);
    assert_eq!(errors(&mut s, "CREATE STATISTICS sx ON t (x)"), [1911]);
    assert_eq!(errors(&mut s, "CREATE STATISTICS sx ON nowhere (x)"), [1088]);
    ok(&mut s, "DROP INDEX ib ON t");
    assert_eq!(errors(&mut s, "ALTER TABLE t DROP COLUMN b"), [5074, 4922]);
    for refused in ["(a, b)", "(a) WHERE a > 0", "(a) WITH FULLSCAN", "(a) WITH NORECOMPUTE, FULLSCAN"] {
        assert_eq!(errors(&mut s, &format!("CREATE STATISTICS sx ON t {refused}")), [59000], "{refused}");
    }
    ok(&mut s, "BEGIN TRANSACTION; CREATE STATISTICS sa ON t (a); ROLLBACK");
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM sys.stats WHERE name = N'sa'"), ["ROW(Int(0))"]);
}
