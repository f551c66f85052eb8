//! Cursors. Source: "DECLARE CURSOR", "FETCH" and "@@FETCH_STATUS" (MicrosoftDocs/sql-docs,
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
fn rows_are_changed_and_deleted_where_the_cursor_stands() {
    let (_e, mut s) = session();
    jobs(&mut s);
    ok(
        &mut s,
        "DECLARE @id int, @state int
         DECLARE c CURSOR LOCAL FORWARD_ONLY FOR SELECT id, state FROM jobs WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY id
         BEGIN TRAN
         OPEN c
         WHILE 1 = 1
         BEGIN
             FETCH NEXT FROM c INTO @id, @state
             IF @@FETCH_STATUS <> 0 BREAK
             CREATE TABLE #seen (id int); INSERT #seen VALUES (@id); DROP TABLE #seen
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
    let declare = "DECLARE c CURSOR LOCAL FOR SELECT id FROM jobs; OPEN c; ";
    assert_eq!(errors(&mut s, &format!("{declare} UPDATE jobs SET n = 1 WHERE CURRENT OF c")), [16931]);
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
    assert_eq!(errors(&mut s, &format!("{declare} FETCH c; DELETE other WHERE CURRENT OF c")), [59000]);
    for query in ["SELECT id INTO #c FROM jobs", "SELECT @n = id FROM jobs"] {
        assert_eq!(errors(&mut s, &format!("DECLARE @n int; DECLARE c CURSOR FOR {query}")), [59000], "{query}");
    }
}

#[test]
fn a_cursor_sees_what_changes_behind_it() {
    let (_e, mut s) = session();
    jobs(&mut s);
    let script = "DECLARE c CURSOR DYNAMIC FOR SELECT id, n FROM jobs ORDER BY id; OPEN c; FETCH NEXT FROM c
        BEGIN TRAN; DELETE jobs WHERE id = 2; UPDATE jobs SET n = 7 WHERE id = 3; INSERT jobs (id, state) VALUES (5, 0)
        FETCH NEXT FROM c; FETCH NEXT FROM c; FETCH NEXT FROM c; FETCH NEXT FROM c; ROLLBACK";
    let row = |id: i32, n: i32| format!("ROW(Int({id}), Int({n}))");
    assert_eq!(rows(&mut s, script), [row(1, 0), row(3, 7), row(4, 0), row(5, 0)]);
    // A global cursor stays until it is deallocated.
    assert!(rows(&mut s, "FETCH NEXT FROM c; SELECT 1 WHERE @@FETCH_STATUS = 0; CLOSE c; DEALLOCATE c").is_empty());
    assert_eq!(errors(&mut s, "OPEN c"), [16916]);
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
    for refused in [
        "DECLARE c CURSOR FAST_FORWARD FOR SELECT id FROM jobs",
        "DECLARE c CURSOR LOCAL STATIC FOR SELECT id FROM jobs",
        "DECLARE c SCROLL CURSOR FOR SELECT id FROM jobs",
        "DECLARE c CURSOR FOR SELECT id FROM jobs FOR UPDATE OF n",
        "DECLARE c CURSOR FOR SELECT id FROM jobs ORDER BY n; OPEN c",
        "DECLARE c CURSOR LOCAL FOR SELECT DISTINCT n FROM jobs; OPEN c",
        "DECLARE c CURSOR LOCAL FOR SELECT COUNT(*) FROM jobs; OPEN c",
        "DECLARE c CURSOR LOCAL FOR SELECT TOP (1) id FROM jobs; OPEN c",
        "DECLARE c CURSOR LOCAL FOR SELECT a.id FROM jobs a LEFT JOIN jobs b ON b.id = a.n; OPEN c",
        "DECLARE c CURSOR LOCAL FOR SELECT a.id FROM jobs a INNER HASH JOIN jobs b ON b.id = a.n; OPEN c",
        "DECLARE @c CURSOR",
        "FETCH LAST FROM c",
        "FETCH ABSOLUTE 1 FROM c",
        "OPEN GLOBAL c",
        "SELECT CURSOR_STATUS('local', 'c')",
        "SET CURSOR_CLOSE_ON_COMMIT ON; DECLARE d CURSOR LOCAL FOR SELECT id FROM jobs; OPEN d",
    ] {
        assert_eq!(errors(&mut s, refused), [59000], "{refused}");
    }
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
    for (kind, order) in [("", ""), ("FORWARD_ONLY DYNAMIC", ""), ("", "ORDER BY a.id")] {
        let script = format!(
            "BEGIN TRAN; DECLARE c CURSOR LOCAL {kind} FOR {query} {order}; OPEN c; FETCH c
             UPDATE a SET n = 11 WHERE id = 1; UPDATE b SET n = 5; DELETE b WHERE id = 1 AND line = 2
             FETCH c; SELECT @@FETCH_STATUS
             DELETE a WHERE id IN (1, 3); INSERT b VALUES (2, 0, 7); INSERT b VALUES (1, 4, 8)
             FETCH c; FETCH c; DELETE b WHERE id = 2
             FETCH c; FETCH c; SELECT @@FETCH_STATUS; DEALLOCATE c; ROLLBACK"
        );
        let found = [
            row(10, 1, 0),
            row(11, 3, 5),
            "ROW(Int(0))".to_string(),
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
        IF @all <> '' SELECT @sum, value FROM STRING_SPLIT(RTRIM(@all), ' ') ORDER BY value";
    ok(&mut s, procedure);
    assert_eq!(rows(&mut s, "EXEC rewind 'p'"), ["ROW(Int(4), String(\"p:1\"))", "ROW(Int(4), String(\"p:3\"))"]);
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
