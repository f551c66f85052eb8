//! The WITH options of indexes, as the catalog shows them, and what is asked of the locks to change them.
//!
//! Sources: "ALTER INDEX" (MicrosoftDocs/sql-docs, docs/t-sql/statements/alter-index-transact-sql.md), "sys.indexes",
//! "sys.stats", "sys.tables" (docs/relational-databases/system-catalog-views/).

use crate::session::tests::harness::{check, errors, login, ok, session};

#[test]
fn the_catalog_shows_them() {
    check(
        r#"CREATE TABLE t (id bigint NOT NULL, k varchar(10) NULL,
             CONSTRAINT t_pk PRIMARY KEY CLUSTERED (id) WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF));
             CREATE UNIQUE NONCLUSTERED INDEX t_k ON t (k) WHERE k IS NOT NULL
             WITH (STATISTICS_NORECOMPUTE = ON, ALLOW_PAGE_LOCKS = OFF);
             CREATE INDEX usual ON t (k) => ok
         CREATE VIEW options AS
             SELECT i.index_id, i.name, i.allow_page_locks, i.optimize_for_sequential_key, s.no_recompute
             FROM sys.indexes AS i JOIN sys.stats AS s ON s.object_id = i.object_id AND s.stats_id = i.index_id
             WHERE i.object_id = OBJECT_ID(N't') AND i.allow_row_locks = 1 => ok
         == options that are not named stay as they are
         SELECT name, allow_page_locks, optimize_for_sequential_key, no_recompute FROM options ORDER BY index_id
             => 't_pk', Bit(false), Bit(false), Bit(true) | 't_k', Bit(false), Bit(false), Bit(true)
             | 'usual', Bit(true), Bit(false), Bit(false)
         -- But for what sys.indexes does not hold.
         ALTER INDEX usual ON t SET (ALLOW_PAGE_LOCKS = OFF, OPTIMIZE_FOR_SEQUENTIAL_KEY = ON) => ok
         ALTER INDEX usual ON t SET (STATISTICS_NORECOMPUTE = ON) => ok
         SELECT allow_page_locks, optimize_for_sequential_key, no_recompute FROM options WHERE name = 'usual'
             => Bit(false), Bit(true), Bit(true)
         == rebuilding a table sets the options of its clustered index
         -- "If the table has a clustered index, the REBUILD option rebuilds the clustered index. … All options apply to
         -- a table with a clustered index" (docs/t-sql/statements/alter-table-transact-sql.md).
         ALTER TABLE t REBUILD WITH (IGNORE_DUP_KEY = ON, ALLOW_PAGE_LOCKS = ON) => ok
         SELECT name, allow_page_locks, optimize_for_sequential_key, no_recompute FROM options ORDER BY index_id
             => 't_pk', Bit(true), Bit(false), Bit(false) | 't_k', Bit(false), Bit(false), Bit(true)
             | 'usual', Bit(true), Bit(false), Bit(false)
         INSERT t VALUES (1, 'a'); INSERT t VALUES (1, 'b')
             => tokens DONE(count=1, more) | INFO(3604, Duplicate key was ignored.) | DONE(count=0)
         SELECT k FROM t => 'a'
         ALTER TABLE t REBUILD WITH (IGNORE_DUP_KEY = OFF) => ok
         INSERT t VALUES (1, 'b') => error 2627
         CREATE TABLE heap (a int); ALTER TABLE heap REBUILD ;; ALTER INDEX usual ON t REBUILD ;;
             ALTER INDEX usual ON t DISABLE ;; ALTER INDEX ALL ON t SET (ALLOW_PAGE_LOCKS = OFF) ;;
             ALTER INDEX usual ON t SET (IGNORE_DUP_KEY = ON) ;;
             CREATE INDEX usual ON t (k) WITH (DROP_EXISTING = ON) ;;
             DROP INDEX usual ON t WITH (MAXDOP = 1) => error 59000
         ALTER INDEX nothing ON t SET (ALLOW_PAGE_LOCKS = OFF) => error 2727
         CREATE TABLE twice (a int); CREATE CLUSTERED INDEX i ON twice (a) => ok
         ALTER TABLE twice REBUILD WITH (IGNORE_DUP_KEY = ON) => error 59000"#,
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
         CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int NOT NULL, b int NULL); CREATE INDEX ia ON t (a) ;;
             CREATE STATISTICS sb ON dbo.t (b) WITH NORECOMPUTE ;; CREATE INDEX ib ON t (b) => ok
         SELECT s.name, s.user_created, s.no_recompute, c.name FROM sys.stats AS s
             INNER JOIN sys.stats_columns AS k ON k.object_id = s.object_id AND k.stats_id = s.stats_id
             INNER JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
             WHERE s.object_id = OBJECT_ID(N't') AND s.stats_id > 1
             ORDER BY s.stats_id => 'ia', Bit(false), Bit(false), 'a' | 'sb', Bit(true), Bit(true), 'b'
             | 'ib', Bit(false), Bit(false), 'b'
         CREATE STATISTICS SB ON t (a) ;; CREATE STATISTICS ia ON t (a) => error 59000
         CREATE STATISTICS sx ON t (x) => error 1911
         CREATE STATISTICS sx ON nowhere (x) => error 1088
         DROP INDEX ib ON t => ok
         ALTER TABLE t DROP COLUMN b => error 5074 | error 4922
         CREATE STATISTICS sx ON t (a, b) ;; CREATE STATISTICS sx ON t (a) WHERE a > 0 ;;
             CREATE STATISTICS sx ON t (a) WITH FULLSCAN ;;
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
