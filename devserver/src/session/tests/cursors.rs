//! Cursors. Source: "DECLARE CURSOR", "FETCH", "@@FETCH_STATUS" and "CURSOR_STATUS" (MicrosoftDocs/sql-docs,
//! docs/t-sql/language-elements/declare-cursor-transact-sql.md, fetch-transact-sql.md and docs/t-sql/functions/).

use crate::session::client_session::Session;
use crate::session::tests::harness::{engine, errors, login, ok, rows, session};

fn jobs(s: &mut Session) {
    ok(
        s,
        "CREATE TABLE jobs (id int NOT NULL PRIMARY KEY, state int NOT NULL, n int NOT NULL DEFAULT 0);
         INSERT jobs (id, state) VALUES (1, 0), (2, 0), (3, 1), (4, 0)",
    );
}

#[test]
fn the_usual_loop() {
    let (_e, mut s) = session();
    jobs(&mut s);
    let total = "DECLARE @id int, @sum int = 0, @rounds int = 0
        DECLARE c CURSOR LOCAL FAST_FORWARD FOR SELECT id FROM jobs WHERE state = 0 ORDER BY id
        OPEN c
        FETCH NEXT FROM c INTO @id
        WHILE @@FETCH_STATUS = 0
        BEGIN
            SET @sum += @id; SET @rounds += 1
            CREATE TABLE #seen (id int); INSERT #seen VALUES (@id); DROP TABLE #seen
            FETCH NEXT FROM c INTO @id
        END
        CLOSE c
        DEALLOCATE c
        SELECT @sum, @rounds, @@FETCH_STATUS";
    assert_eq!(rows(&mut s, total), ["ROW(Int(7), Int(3), Int(-1))"]);
    // A join, which only a FAST_FORWARD or STATIC cursor reads.
    let joined = "DECLARE @n int; DECLARE c CURSOR LOCAL STATIC FOR SELECT COUNT(*) FROM jobs a JOIN jobs b ON a.id < b.id; OPEN c; FETCH c INTO @n; SELECT @n, @@CURSOR_ROWS";
    assert_eq!(rows(&mut s, joined), ["ROW(Int(6), Int(1))"]);
    assert_eq!(
        errors(&mut s, "DECLARE c CURSOR LOCAL FOR SELECT TOP (2) a.id FROM jobs a JOIN jobs b ON a.id = b.id; OPEN c"),
        [crate::error::NOT_SUPPORTED]
    );
}

#[test]
fn rows_are_changed_and_deleted_where_the_cursor_stands() {
    let (_e, mut s) = session();
    jobs(&mut s);
    ok(
        &mut s,
        "DECLARE @id int, @state int
         DECLARE c CURSOR LOCAL FORWARD_ONLY FOR SELECT id, state FROM jobs WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY id FOR UPDATE OF n
         BEGIN TRAN
         OPEN c
         WHILE 1 = 1
         BEGIN
             FETCH NEXT FROM c INTO @id, @state
             IF @@FETCH_STATUS <> 0 BREAK
             IF @state = 1 DELETE FROM jobs WHERE CURRENT OF c
             ELSE UPDATE jobs SET n = @id * 10 WHERE CURRENT OF c
             IF @id = 4 UPDATE jobs SET n += 1 WHERE CURRENT OF c
         END
         COMMIT",
    );
    assert_eq!(
        rows(&mut s, "SELECT id, n FROM jobs"),
        ["ROW(Int(1), Int(10))", "ROW(Int(2), Int(20))", "ROW(Int(4), Int(41))"]
    );
    let declare = "DECLARE c CURSOR LOCAL FOR SELECT id FROM jobs FOR UPDATE OF n; OPEN c; ";
    assert_eq!(errors(&mut s, &format!("{declare} UPDATE jobs SET n = 1 WHERE CURRENT OF c")), [16931]);
    assert_eq!(errors(&mut s, &format!("{declare} FETCH c; UPDATE jobs SET state = 1 WHERE CURRENT OF c")), [16932]);
    assert_eq!(
        errors(
            &mut s,
            &format!("{declare} FETCH c; UPDATE jobs SET n = 5 WHERE id = 1; UPDATE jobs SET n = 1 WHERE CURRENT OF c")
        ),
        [16934]
    );
    assert_eq!(
        errors(&mut s, &format!("{declare} FETCH c; DELETE jobs WHERE id = 1; DELETE jobs WHERE CURRENT OF c")),
        [16947]
    );
    ok(&mut s, "CREATE TABLE other (a int)");
    assert_eq!(errors(&mut s, &format!("{declare} FETCH c; DELETE other WHERE CURRENT OF c")), [16933]);
    assert_eq!(
        errors(
            &mut s,
            "DECLARE c CURSOR LOCAL STATIC FOR SELECT id FROM jobs; OPEN c; FETCH c; DELETE jobs WHERE CURRENT OF c"
        ),
        [16929]
    );
}

#[test]
fn a_dynamic_cursor_sees_changes_and_a_static_one_does_not() {
    let (_e, mut s) = session();
    jobs(&mut s);
    let script = |kind: &str| {
        format!(
            "DECLARE c CURSOR LOCAL {kind} FOR SELECT id, n FROM jobs ORDER BY id; OPEN c; FETCH NEXT FROM c
             BEGIN TRAN; DELETE jobs WHERE id = 2; UPDATE jobs SET n = 7 WHERE id = 3; INSERT jobs (id, state) VALUES (5, 0)
             FETCH NEXT FROM c; FETCH NEXT FROM c; FETCH NEXT FROM c; FETCH NEXT FROM c; ROLLBACK"
        )
    };
    let row = |id: i32, n: i32| format!("ROW(Int({id}), Int({n}))");
    assert_eq!(rows(&mut s, &script("DYNAMIC")), [row(1, 0), row(3, 7), row(4, 0), row(5, 0)]);
    assert_eq!(rows(&mut s, &script("STATIC")), [row(1, 0), row(2, 0), row(3, 0), row(4, 0)]);
    // A keyset knows its rows, and their values as they are now: the deleted one is missing (-2), the new one unknown.
    assert_eq!(rows(&mut s, &script("KEYSET")), [row(1, 0), row(3, 7), row(4, 0)]);
    let missing = "DECLARE c CURSOR LOCAL KEYSET FOR SELECT id FROM jobs ORDER BY id; OPEN c; DELETE jobs WHERE id = 1; DECLARE @id int; FETCH c INTO @id; SELECT @@FETCH_STATUS, @@CURSOR_ROWS";
    assert_eq!(rows(&mut s, missing), ["ROW(Int(-2), Int(4))"]);
}

#[test]
fn scrolling() {
    let (_e, mut s) = session();
    jobs(&mut s);
    ok(&mut s, "DECLARE c SCROLL CURSOR FOR SELECT id FROM jobs ORDER BY n, id DESC; OPEN c");
    for (fetch, id) in [
        ("LAST FROM c", 1),
        ("PRIOR FROM c", 2),
        ("ABSOLUTE 2 FROM c", 3),
        ("RELATIVE 1 FROM c", 2),
        ("RELATIVE -2 FROM c", 4),
        ("ABSOLUTE -1 FROM c", 1),
        ("FIRST FROM c", 4),
    ] {
        assert_eq!(rows(&mut s, &format!("FETCH {fetch}")), [format!("ROW(Int({id}))")], "{fetch}");
    }
    assert!(rows(&mut s, "FETCH PRIOR FROM c").is_empty());
    assert_eq!(rows(&mut s, "SELECT @@FETCH_STATUS"), ["ROW(Int(-1))"]);
    assert_eq!(
        errors(&mut s, "DECLARE f CURSOR LOCAL FAST_FORWARD FOR SELECT id FROM jobs; OPEN f; FETCH LAST FROM f"),
        [16911]
    );
    assert_eq!(
        errors(
            &mut s,
            "DECLARE d CURSOR LOCAL SCROLL DYNAMIC FOR SELECT id FROM jobs; OPEN d; FETCH ABSOLUTE 1 FROM d"
        ),
        [16925]
    );
    // A global cursor stays until it is deallocated.
    assert_eq!(
        rows(&mut s, "SELECT CURSOR_STATUS('global', 'c'), CURSOR_STATUS('local', 'c')"),
        ["ROW(SmallInt(1), SmallInt(-3))"]
    );
    ok(&mut s, "CLOSE c");
    assert_eq!(rows(&mut s, "SELECT CURSOR_STATUS('global', 'c')"), ["ROW(SmallInt(-1))"]);
    ok(&mut s, "DEALLOCATE c");
}

#[test]
fn variables_can_hold_cursors() {
    let (_e, mut s) = session();
    jobs(&mut s);
    let script = "DECLARE @c CURSOR, @d CURSOR, @id int, @low int = 3
        SET @c = CURSOR LOCAL FORWARD_ONLY STATIC FOR SELECT id FROM jobs WHERE id >= @low ORDER BY id
        SET @low = 1
        OPEN @c
        FETCH NEXT FROM @c INTO @id
        SET @d = @c
        FETCH NEXT FROM @d INTO @id
        SELECT @id, CURSOR_STATUS('variable', '@d')
        CLOSE @c; DEALLOCATE @c";
    assert_eq!(rows(&mut s, script), ["ROW(Int(4), SmallInt(1))"]);
    assert_eq!(errors(&mut s, "DECLARE @c CURSOR; OPEN @c"), [16950]);
    assert_eq!(errors(&mut s, "DECLARE @c int; SET @c = CURSOR FOR SELECT 1 AS a"), [16948]);
}

#[test]
fn what_cursors_refuse() {
    let (_e, mut s) = session();
    jobs(&mut s);
    let c = "DECLARE c CURSOR LOCAL FOR SELECT id, n FROM jobs; ";
    assert_eq!(errors(&mut s, "OPEN nothing"), [16916]);
    assert_eq!(errors(&mut s, &format!("{c} DECLARE c CURSOR LOCAL FOR SELECT 1 AS a")), [16915]);
    assert_eq!(errors(&mut s, &format!("{c} FETCH c")), [16917]);
    assert_eq!(errors(&mut s, &format!("{c} CLOSE c")), [16917]);
    assert_eq!(errors(&mut s, &format!("{c} OPEN c; OPEN c")), [16905]);
    assert_eq!(errors(&mut s, &format!("{c} OPEN c; DECLARE @a int; FETCH c INTO @a")), [16924]);
    assert_eq!(errors(&mut s, &format!("{c} OPEN c; DECLARE @a int, @d date; FETCH c INTO @a, @d")), [16922]);
    assert_eq!(errors(&mut s, &format!("{c} OPEN c; FETCH c; ALTER TABLE jobs ADD x int NULL; FETCH c")), [16943]);
    assert_eq!(errors(&mut s, "DECLARE c CURSOR LOCAL GLOBAL FOR SELECT 1 AS a"), [1048]);
    assert_eq!(errors(&mut s, "DECLARE c CURSOR FAST_FORWARD FOR SELECT id FROM jobs FOR UPDATE"), [16957]);
    assert_eq!(errors(&mut s, "DECLARE c CURSOR SCROLL_LOCKS FOR SELECT id FROM jobs"), [crate::error::NOT_SUPPORTED]);
}

#[test]
fn a_fetch_locks_like_a_select() {
    let engine = engine();
    let mut a = login(&engine, "sa", "secret");
    let mut b = login(&engine, "sa", "secret");
    jobs(&mut a);
    ok(&mut b, "SET LOCK_TIMEOUT 0; BEGIN TRAN; UPDATE jobs SET n = 1 WHERE id = 1");
    // READPAST skips the row that is locked; the row under the cursor is this session's until its transaction ends.
    ok(
        &mut a,
        "SET LOCK_TIMEOUT 0; BEGIN TRAN; DECLARE c CURSOR FOR SELECT id FROM jobs WITH (UPDLOCK, READPAST) ORDER BY id; OPEN c",
    );
    assert_eq!(rows(&mut a, "FETCH NEXT FROM c"), ["ROW(Int(2))"]);
    assert_eq!(errors(&mut b, "UPDATE jobs SET n = 1 WHERE id = 2"), [1222]);
    ok(&mut b, "UPDATE jobs SET n = 1 WHERE id = 3");
    assert_eq!(rows(&mut a, "FETCH NEXT FROM c"), ["ROW(Int(4))"]);
    ok(&mut a, "COMMIT; DEALLOCATE c");
    assert_eq!(errors(&mut a, "DECLARE c CURSOR FOR SELECT id FROM jobs; OPEN c; FETCH c"), [1222]);
    ok(&mut b, "ROLLBACK");
    assert_eq!(rows(&mut a, "FETCH c"), ["ROW(Int(1))"]);
}

// "SET CURSOR_CLOSE_ON_COMMIT" (docs/t-sql/statements/set-cursor-close-on-commit-transact-sql.md), its example and its
// notes.
#[test]
fn the_end_of_a_transaction_closes_cursors_where_it_was_asked_to() {
    let (_e, mut s) = session();
    ok(&mut s, "DECLARE c CURSOR GLOBAL STATIC FOR SELECT 1 AS n");
    for end in ["COMMIT", "ROLLBACK"] {
        ok(&mut s, &format!("SET CURSOR_CLOSE_ON_COMMIT ON; BEGIN TRAN; OPEN c; {end}"));
        assert_eq!(rows(&mut s, "SELECT CURSOR_STATUS('global', 'c') AS n"), ["ROW(SmallInt(-1))"], "{end}");
        assert_eq!(errors(&mut s, "FETCH NEXT FROM c"), [16917], "{end}");
        ok(&mut s, &format!("SET CURSOR_CLOSE_ON_COMMIT OFF; BEGIN TRAN; OPEN c; {end}; FETCH NEXT FROM c; CLOSE c"));
    }
    ok(
        &mut s,
        "SET CURSOR_CLOSE_ON_COMMIT ON; BEGIN TRAN; SAVE TRAN a; OPEN c; ROLLBACK TRAN a; FETCH NEXT FROM c; COMMIT",
    );
    assert_eq!(errors(&mut s, "CLOSE c"), [16917]);
    // It is about COMMIT TRANSACTION, not about the statements that commit by themselves.
    ok(&mut s, "CREATE TABLE t (id int); OPEN c; INSERT t VALUES (1); FETCH NEXT FROM c");
}

/// Any unique index makes a keyset, and a sort makes a default cursor one. Source: "Using implicit cursor conversions"
/// (SQL Server 2005 Books Online, ms190641), steps 3 and 5.
#[test]
fn a_heap_with_a_unique_index_has_keysets() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE h (id int NOT NULL PRIMARY KEY NONCLUSTERED, n int NOT NULL); INSERT h VALUES (1, 30), (2, 20), (3, 10)",
    );
    // The rows and their order are those of OPEN, their values those of FETCH.
    let script = "OPEN c; FETCH c; UPDATE h SET n = 99 WHERE id = 2; INSERT h VALUES (4, 15); DELETE h WHERE id = 1;
        FETCH c; DECLARE @id int, @n int; FETCH c INTO @id, @n; SELECT @@FETCH_STATUS, @@CURSOR_ROWS; DEALLOCATE c";
    for options in ["CURSOR", "CURSOR LOCAL KEYSET"] {
        let declare = format!("BEGIN TRAN; DECLARE c {options} FOR SELECT id, n FROM h ORDER BY n;");
        let found = rows(&mut s, &format!("{declare} {script}; ROLLBACK"));
        assert_eq!(found, ["ROW(Int(3), Int(10))", "ROW(Int(2), Int(99))", "ROW(Int(-2), Int(3))"], "{options}");
    }
    ok(
        &mut s,
        "DECLARE c CURSOR LOCAL FOR SELECT id FROM h ORDER BY n DESC; OPEN c; FETCH c; UPDATE h SET n = 31 WHERE CURRENT OF c;
         UPDATE h SET n += 1 WHERE CURRENT OF c; FETCH c; DELETE h WHERE CURRENT OF c",
    );
    assert_eq!(rows(&mut s, "SELECT id, n FROM h ORDER BY id"), ["ROW(Int(1), Int(32))", "ROW(Int(3), Int(10))"]);
    // In the order of the heap it is dynamic.
    ok(&mut s, "DECLARE c CURSOR LOCAL FOR SELECT id FROM h; OPEN c; FETCH c; UPDATE h SET n = 1 WHERE CURRENT OF c");
    assert_eq!(rows(&mut s, "SELECT id, n FROM h ORDER BY id"), ["ROW(Int(1), Int(1))", "ROW(Int(3), Int(10))"]);
    // Without a unique index it is static: nothing is changed through it.
    ok(&mut s, "CREATE TABLE plain (n int); INSERT plain VALUES (1)");
    let plain =
        "DECLARE c CURSOR LOCAL FOR SELECT n FROM plain ORDER BY n; OPEN c; FETCH c; DELETE plain WHERE CURRENT OF c";
    assert_eq!(errors(&mut s, plain), [16929]);
}

/// Several tables make a keyset, or a static cursor if one of them has no unique index; a default cursor does so where
/// its order needs a sort. Source: the same.
#[test]
fn cursors_over_several_tables() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE a (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT a VALUES (1, 10), (2, 20), (3, 30);
         CREATE TABLE b (id int NOT NULL, line int NOT NULL, n int NOT NULL, PRIMARY KEY (id, line));
         INSERT b VALUES (1, 1, 7), (1, 2, 6), (2, 1, 5), (3, 1, 4); CREATE TABLE heap (id int NOT NULL); INSERT heap VALUES (1), (2)",
    );
    let script = "OPEN c; FETCH c; UPDATE a SET n = 99 WHERE id = 1; DELETE b WHERE id = 2; INSERT b VALUES (3, 2, 9);
        FETCH c; FETCH c; SELECT @@FETCH_STATUS, @@CURSOR_ROWS; FETCH c; FETCH c; DEALLOCATE c; ROLLBACK";
    let row = |a: i32, b: i32| format!("ROW(Int({a}), Int({b}))");
    let by_key = [row(10, 7), row(99, 6), row(-2, 4), row(30, 4)];
    for options in [
        "KEYSET FOR SELECT a.n, b.n FROM a JOIN b ON b.id = a.id ORDER BY a.id, b.line",
        "FOR SELECT a.n, b.n FROM a JOIN b ON b.id = a.id ORDER BY b.n DESC",
        "SCROLL FOR SELECT a.n, b.n FROM b INNER HASH JOIN a ON b.id = a.id ORDER BY b.n DESC",
    ] {
        let found = rows(&mut s, &format!("BEGIN TRAN; DECLARE c CURSOR LOCAL {options}; {script}"));
        assert_eq!(found, by_key, "{options}");
    }
    let changes = "BEGIN TRAN; OPEN c; UPDATE a SET n = 99; FETCH c; DEALLOCATE c; ROLLBACK";
    let with_heap =
        "DECLARE c CURSOR LOCAL KEYSET FOR SELECT a.n, heap.id FROM a LEFT JOIN heap ON heap.id = a.id ORDER BY a.id;";
    assert_eq!(rows(&mut s, &format!("{with_heap} {changes}")), [row(10, 1)], "static");
    for refused in [
        "FOR SELECT a.n FROM a INNER HASH JOIN b ON b.id = a.id",
        "FOR SELECT a.n FROM a LEFT JOIN b ON b.id = a.id",
        "FOR SELECT TOP (1) a.n FROM a JOIN b ON b.id = a.id",
        "FOR SELECT a.n FROM a JOIN b ON b.id = a.id ORDER BY a.id, b.n",
        "KEYSET FOR SELECT a.n FROM a LEFT JOIN b ON b.id = a.id",
    ] {
        assert_eq!(errors(&mut s, &format!("DECLARE c CURSOR LOCAL {refused}; OPEN c")), [59000], "{refused}");
    }
    let through = "DECLARE c CURSOR LOCAL KEYSET FOR SELECT a.n FROM a JOIN b ON b.id = a.id; OPEN c; FETCH c;
        UPDATE a SET n = 1 WHERE CURRENT OF c";
    assert_eq!(errors(&mut s, through), [59000]);
}

/// "Defines a cursor that reflects all data changes made to the rows in its result set as you scroll around the cursor.
/// The data values, order, and membership of the rows can change on each fetch" (DYNAMIC, which is the default);
/// nothing here needs the work table that would make it a keyset.
#[test]
fn a_dynamic_cursor_goes_through_joins() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE a (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT a VALUES (1, 10), (2, 20), (3, 30), (4, 40);
         CREATE TABLE b (id int NOT NULL, line int NOT NULL, n int NOT NULL, PRIMARY KEY (id, line));
         INSERT b VALUES (1, 1, 0), (1, 2, 0), (1, 3, 0), (2, 1, 0), (3, 1, 0), (4, 1, 0)",
    );
    let row = |a: i32, line: i32, b: i32| format!("ROW(Int({a}), Int({line}), Int({b}))");
    let query = "SELECT a.n, b.line, b.n FROM a INNER LOOP JOIN b ON b.id = a.id";
    for (kind, order) in [("", ""), ("FORWARD_ONLY", ""), ("DYNAMIC", ""), ("", "ORDER BY a.id")] {
        let script = format!(
            "BEGIN TRAN; DECLARE c CURSOR LOCAL {kind} FOR {query} {order}; OPEN c; FETCH c
             UPDATE a SET n = 11 WHERE id = 1; UPDATE b SET n = 5; DELETE b WHERE id = 1 AND line = 2
             FETCH c; SELECT @@FETCH_STATUS, @@CURSOR_ROWS
             DELETE a WHERE id IN (1, 3); INSERT b VALUES (2, 0, 7); INSERT b VALUES (1, 4, 8)
             FETCH c; FETCH c; DELETE b WHERE id = 2
             FETCH c; FETCH c; SELECT @@FETCH_STATUS; DEALLOCATE c; ROLLBACK"
        );
        let found = [
            row(10, 1, 0),
            row(11, 3, 5),
            "ROW(Int(0), Int(-1))".to_string(),
            row(20, 0, 7),
            row(20, 1, 5),
            row(40, 1, 5),
            "ROW(Int(-1))".to_string(),
        ];
        assert_eq!(rows(&mut s, &script), found, "{kind} {order}");
    }
    // Which row comes next where the outer one has come to be joined with others, no page says.
    let moved = "BEGIN TRAN; ALTER TABLE a DROP COLUMN n; ALTER TABLE a ADD n int NOT NULL DEFAULT 2; DECLARE c CURSOR
         LOCAL FOR SELECT a.id, b.id, b.line FROM a INNER LOOP JOIN b ON b.id = a.n; OPEN c; FETCH c
         UPDATE a SET n = 1 WHERE id = 1; FETCH c";
    assert_eq!(errors(&mut s, moved), [59000]);
    ok(&mut s, "ROLLBACK");
    let through = format!("DECLARE c CURSOR LOCAL FOR {query}; OPEN c; FETCH c; DELETE a WHERE CURRENT OF c");
    assert_eq!(errors(&mut s, &through), [59000]);
}

/// What durabletask-mssql declares: tables, and a table variable without any index, in no order.
#[test]
fn a_dynamic_cursor_joins_table_variables() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE instances (hub int NOT NULL, id varchar(10) NOT NULL, parent varchar(10), PRIMARY KEY (hub, id));
         CREATE TABLE history (hub int NOT NULL, id varchar(10) NOT NULL, n int NOT NULL, task int, PRIMARY KEY (hub, id, n));
         INSERT instances VALUES (1, 'p', NULL), (1, 'p:1', 'p'), (1, 'p:2', 'p'), (1, 'p:3', 'p'), (1, 'q', NULL);
         INSERT history VALUES (1, 'p', 1, 0), (1, 'p:1', 1, 1), (1, 'p:1', 2, NULL), (1, 'p:2', 1, 2), (1, 'p:3', 1, 3)",
    );
    let procedure = "CREATE PROCEDURE rewind @parent varchar(10) AS
        DECLARE @failed TABLE (task int NULL); INSERT @failed VALUES (3), (1), (7)
        DECLARE @number int, @id varchar(10), @sum int = 0, @all varchar(100) = ''
        DECLARE numbers CURSOR LOCAL FOR SELECT task FROM @failed WHERE task < 5
        OPEN numbers; FETCH NEXT FROM numbers INTO @number
        WHILE @@FETCH_STATUS = 0 BEGIN SET @sum += @number; FETCH NEXT FROM numbers INTO @number END
        CLOSE numbers; DEALLOCATE numbers
        DECLARE children CURSOR LOCAL FOR SELECT i.id FROM instances i
            JOIN history h ON i.hub = h.hub AND i.id = h.id JOIN @failed f ON f.task = h.task WHERE i.parent = @parent
        OPEN children; FETCH NEXT FROM children INTO @id
        WHILE @@FETCH_STATUS = 0
        BEGIN
            EXEC rewind @id
            CREATE TABLE #other (a int); DROP TABLE #other
            UPDATE history SET n += 10 WHERE id = @id AND task IS NULL
            SET @all += @id + ' '; FETCH NEXT FROM children INTO @id
        END
        CLOSE children; DEALLOCATE children
        IF @all <> '' SELECT @sum, (SELECT STRING_AGG(value, ' ') WITHIN GROUP (ORDER BY value) FROM STRING_SPLIT(RTRIM(@all), ' '))";
    ok(&mut s, procedure);
    assert_eq!(rows(&mut s, "EXEC rewind 'p'"), ["ROW(Int(4), String(\"p:1 p:3\"))"]);
}

/// A FETCH asks for no lock before its place.
#[test]
fn a_dynamic_cursor_over_joins_does_not_look_back() {
    let engine = engine();
    let mut a = login(&engine, "sa", "secret");
    let mut b = login(&engine, "sa", "secret");
    jobs(&mut a);
    ok(&mut a, "CREATE TABLE lines (id int NOT NULL, line int NOT NULL, PRIMARY KEY (id, line))");
    ok(&mut a, "INSERT lines VALUES (1, 1), (1, 2), (2, 1), (3, 1); SET LOCK_TIMEOUT 0");
    ok(&mut a, "DECLARE c CURSOR FOR SELECT j.id, l.line FROM jobs j INNER LOOP JOIN lines l ON l.id = j.id; OPEN c");
    for found in ["ROW(Int(1), Int(1))", "ROW(Int(1), Int(2))", "ROW(Int(2), Int(1))"] {
        assert_eq!(rows(&mut a, "FETCH c"), [found]);
    }
    ok(&mut b, "BEGIN TRAN; UPDATE jobs SET n = 1 WHERE id = 1; DELETE lines WHERE id < 3");
    assert_eq!(rows(&mut a, "FETCH c"), ["ROW(Int(3), Int(1))"]);
    ok(&mut b, "ROLLBACK");
    assert!(rows(&mut a, "FETCH c").is_empty());
}
