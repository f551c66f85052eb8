//! The WITH options of indexes, as the catalog shows them, and what is asked of the locks to change them.
//!
//! Sources: "ALTER INDEX" (MicrosoftDocs/sql-docs, docs/t-sql/statements/alter-index-transact-sql.md), "sys.indexes",
//! "sys.stats", "sys.tables" (docs/relational-databases/system-catalog-views/).

use crate::session::tests::harness::{check, errors, login, ok, rows, run, session};

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
    s.check(
        "ALTER TABLE t REBUILD WITH (IGNORE_DUP_KEY = OFF) => ok
         INSERT t VALUES (1, 'b') => error 2627
         CREATE TABLE heap (a int); ALTER TABLE heap REBUILD => error 59000
         ALTER INDEX usual ON t REBUILD => error 59000
         ALTER INDEX usual ON t DISABLE => error 59000
         ALTER INDEX ALL ON t SET (ALLOW_PAGE_LOCKS = OFF) => error 59000
         ALTER INDEX usual ON t SET (IGNORE_DUP_KEY = ON) => error 59000
         CREATE INDEX usual ON t (k) WITH (DROP_EXISTING = ON) => error 59000
         DROP INDEX usual ON t WITH (MAXDOP = 1) => error 59000
         ALTER INDEX nothing ON t SET (ALLOW_PAGE_LOCKS = OFF) => error 2727
         CREATE TABLE twice (a int); CREATE CLUSTERED INDEX i ON twice (a) => ok
         ALTER TABLE twice REBUILD WITH (IGNORE_DUP_KEY = ON) => error 59000",
    );
}

#[test]
fn what_options_and_statistics_lock() {
    check(
        r#"== setting options waits for readers within the lock timeout
         -- What an install script does to a table that is in use: it ends with a clear error instead of holding up
         -- everybody.
         CREATE TABLE t (id bigint NOT NULL, k varchar(10) NULL,
                 CONSTRAINT t_pk PRIMARY KEY CLUSTERED (id) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF));
             CREATE UNIQUE NONCLUSTERED INDEX t_k ON t (k) WHERE k IS NOT NULL
                 WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);
             CREATE INDEX usual ON t (k) => ok
         BEGIN TRAN; SELECT COUNT(*) FROM t WITH (HOLDLOCK) => ok
         2: SET LOCK_TIMEOUT 20; SELECT @@LOCK_TIMEOUT => 20
         2: ALTER TABLE t SET (LOCK_ESCALATION = DISABLE) => error 1222
         2: ALTER INDEX usual ON t SET (ALLOW_PAGE_LOCKS = OFF) => error 1222
         2: SELECT lock_escalation, lock_escalation_desc FROM sys.tables
             WHERE object_id = OBJECT_ID(N't') => TinyInt(0), 'TABLE'
         COMMIT => ok
         2: ALTER TABLE t SET (LOCK_ESCALATION = DISABLE) => ok
         2: SELECT lock_escalation, lock_escalation_desc FROM sys.tables
             WHERE object_id = OBJECT_ID(N't') => TinyInt(1), 'DISABLE'
         SELECT @@LOCK_TIMEOUT => -1
         == statistics of a column are remembered and hold it
         -- Sources: "CREATE STATISTICS", docs/t-sql/statements/create-statistics-transact-sql.md; "sys.stats" and
         -- "sys.stats_columns", docs/relational-databases/system-catalog-views/; "ALTER TABLE", columns that are "used
         -- in statistics that are generated by the CREATE STATISTICS statement".
         CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int NOT NULL, b int NULL); CREATE INDEX ia ON t (a) => ok
         CREATE STATISTICS sb ON dbo.t (b) WITH NORECOMPUTE => ok
         CREATE INDEX ib ON t (b) => ok
         SELECT s.name, s.user_created, s.no_recompute, c.name FROM sys.stats AS s
             INNER JOIN sys.stats_columns AS k ON k.object_id = s.object_id AND k.stats_id = s.stats_id
             INNER JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
             WHERE s.object_id = OBJECT_ID(N't') AND s.stats_id > 1
             ORDER BY s.stats_id => 'ia', Bit(false), Bit(false), 'a' | 'sb', Bit(true), Bit(true), 'b'
             | 'ib', Bit(false), Bit(false), 'b'
         CREATE STATISTICS SB ON t (a) => error 1927
         CREATE STATISTICS ia ON t (a) => error 1927
         CREATE STATISTICS sx ON t (x) => error 1911
         CREATE STATISTICS sx ON nowhere (x) => error 1088
         DROP INDEX ib ON t => ok
         ALTER TABLE t DROP COLUMN b => error 5074 | error 4922
         CREATE STATISTICS sx ON t (a, b) => error 59000
         CREATE STATISTICS sx ON t (a) WHERE a > 0 => error 59000
         CREATE STATISTICS sx ON t (a) WITH FULLSCAN => error 59000
         CREATE STATISTICS sx ON t (a) WITH NORECOMPUTE, FULLSCAN => error 59000
         BEGIN TRANSACTION; CREATE STATISTICS sa ON t (a); ROLLBACK => ok
         SELECT COUNT(*) FROM sys.stats WHERE name = N'sa' => 0"#,
    );
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
