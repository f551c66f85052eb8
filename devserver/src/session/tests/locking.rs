//! Two sessions on the same rows.

use crate::session::tests::harness::{check, engine, errors, login, rows};

#[test]
fn what_is_locked_and_by_which_hint() {
    check(
        r#"CREATE TABLE t (id int NOT NULL PRIMARY KEY, state int NOT NULL, n int NOT NULL DEFAULT 0);
             CREATE INDEX t_state ON t (state, id) WHERE state = 0;
             INSERT t (id, state) VALUES (1, 0), (2, 0), (3, 0), (4, 1) => ok
         2: SET LOCK_TIMEOUT 0 => ok
         == the hints of a target are added to those of what it reads
         -- "All lock hints are propagated to all the tables and views that are accessed by the query plan, including
         -- tables and views referenced in a view" (docs/t-sql/queries/hints-transact-sql-table.md).
         BEGIN TRAN; UPDATE t SET n = 1 WHERE id = 1 => ok
         EXEC (N'CREATE VIEW v AS SELECT id, state, n FROM t WITH (ROWLOCK, READPAST)'); COMMIT => ok
         BEGIN TRAN; UPDATE t SET n = 1 WHERE id = 1 => ok
         2: WITH x AS (SELECT TOP (1) id, state, n FROM t WITH (ROWLOCK, READPAST) ORDER BY id) UPDATE x WITH (ROWLOCK)
             SET n = 5 OUTPUT inserted.id => 2
         2: WITH x AS (SELECT TOP (1) id, state, n FROM t WITH (ROWLOCK, READPAST) ORDER BY id) DELETE x WITH (UPDLOCK)
             OUTPUT deleted.id => 2
         2: WITH x AS (SELECT TOP (1) id, state, n FROM t WITH (ROWLOCK, READPAST) ORDER BY id) UPDATE x WITH (ROWLOCK)
             SET n = 5 OUTPUT inserted.id FROM x => 3
         2: UPDATE TOP (1) v WITH (ROWLOCK) SET n = 6 OUTPUT inserted.id => 3
         2: DELETE TOP (1) v WITH (ROWLOCK) OUTPUT deleted.id => 3
         2: UPDATE t WITH (ROWLOCK) SET n = 7 OUTPUT inserted.id FROM t WITH (READPAST) => 4
         2: UPDATE TOP (1) t WITH (READPAST) SET n = 8 OUTPUT inserted.id FROM t WITH (INDEX (1)) => 4
         ROLLBACK => ok
         -- The index that FROM asks for is still there.
         2: UPDATE t WITH (ROWLOCK) SET n = 9 FROM t WITH (INDEX (t_state)) WHERE state = 1 => error 8622
         2: WITH x AS (SELECT n FROM t WITH (UPDLOCK)) UPDATE x WITH (XLOCK) SET n = 1 ;;
             WITH x AS (SELECT n FROM t WITH (ROWLOCK)) UPDATE x WITH (TABLOCK) SET n = 1 ;;
             UPDATE v WITH (TABLOCK) SET n = 1 ;; UPDATE t WITH (HOLDLOCK) SET n = 1 FROM t WITH (REPEATABLEREAD) ;;
             UPDATE t WITH (XLOCK) SET n = 1 FROM t WITH (UPDLOCK) => error 1047
         == a target may be read by a derived table too
         -- What a derived table reads of the target's table is not the target:
         -- docs/t-sql/queries/update-transact-sql.md ("any reference to the object in the FROM clause" is to what
         -- stands there itself).
         UPDATE dbo.t SET n = t.n + 1 OUTPUT inserted.id, inserted.n FROM (SELECT x.id FROM t AS x
             WITH (ROWLOCK, UPDLOCK) WHERE x.state = 0
             ORDER BY x.id DESC OFFSET 0 ROWS FETCH NEXT 2 ROWS ONLY) AS d WHERE d.id = t.id => 3, 1 | 2, 1
         SELECT id FROM t WHERE n = 1 => 2 | 3
         WITH c AS (SELECT id, COUNT(*) OVER () AS many FROM t) UPDATE t SET n = c.many FROM c WHERE c.id = t.id => ok
         SELECT DISTINCT n FROM t => 4
         -- The derived table comes first: rows that others hold do not stand in the way.
         BEGIN TRAN; UPDATE t SET n = 1 WHERE id = 1 => ok
         2: DELETE t OUTPUT deleted.id FROM (SELECT TOP (1) id FROM t AS x WITH (UPDLOCK, READPAST) ORDER BY id) AS d
             WHERE d.id = t.id => 2
         == an update keeps only the rows it changes locked
         BEGIN TRAN; UPDATE t SET n = 1 FROM t INNER LOOP JOIN (VALUES (3)) AS v (id) ON v.id = t.id + 0
             WHERE t.n = 0 => ok
         2: SELECT id FROM t WITH (READPAST, UPDLOCK) => 1 | 2 | 4
         COMMIT => ok
         -- "APPLOCK_TEST", its example (docs/t-sql/functions/applock-test-transact-sql.md).
         == applock mode tells the own lock, applock test whether a lock could be had
         BEGIN TRAN; EXEC sp_getapplock @Resource = 'Form1', @LockMode = 'Shared', @DbPrincipal = 'public' => ok
         SELECT APPLOCK_MODE('public', 'Form1', 'Transaction') => 'Shared'
         2: BEGIN TRAN; SELECT APPLOCK_MODE('public', 'Form1', 'Transaction'); COMMIT => 'NoLock'
         2: SELECT APPLOCK_TEST('public', 'Form1', 'Shared', 'Session'),
             APPLOCK_TEST('public', 'Form1', 'Exclusive', 'Session'),
             APPLOCK_TEST('public', 'form1', 'Exclusive', 'Session') => SmallInt(1), SmallInt(0), SmallInt(1)
         -- What the page does not tell is refused.
         2: SELECT APPLOCK_MODE('public', 'Form1', 'Transaction') => error 59000
         2: SELECT APPLOCK_TEST('public', 'Form1', 'Exclusive', 'Transaction') => error 59000
         2: SELECT APPLOCK_MODE('dbo', 'Form1', 'Session') => error 59000
         == whoever names a table that is being dropped waits
         -- The Sch-M lock of a DROP stands until its transaction ends. Source: "Transaction locking and row versioning
         -- guide", schema locks (docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md).
         BEGIN TRAN; DROP TABLE t => ok
         2: SELECT id FROM t WITH (NOLOCK) ;; UPDATE t SET n = 1 ;; INSERT t VALUES (9, 9, 9) => error 1222
         SELECT id FROM t => error 208
         2: BEGIN TRY SELECT id FROM t END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH => 1222
         ROLLBACK => ok"#,
    );
}

#[test]
fn a_session_in_waitfor_shows_that_it_waits() {
    let engine = engine();
    let mut watcher = login(&engine, "sa", "secret");
    let mut sleeper = login(&engine, "sa", "secret");
    let cancel = sleeper.cancel_handle();
    let sleeping = std::thread::spawn(move || errors(&mut sleeper, "WAITFOR DELAY '00:01:00'"));
    let waiting = "SELECT status, wait_type, blocking_session_id FROM sys.dm_exec_requests WHERE wait_type = 'WAITFOR'";
    let mut seen = rows(&mut watcher, waiting);
    while seen.is_empty() {
        std::thread::yield_now();
        seen = rows(&mut watcher, waiting);
    }
    assert_eq!(seen, ["ROW('suspended', 'WAITFOR', SmallInt(0))"]);
    cancel.cancel();
    assert_eq!(sleeping.join().expect("the session"), [3617]);
    assert!(rows(&mut watcher, waiting).is_empty());
}
