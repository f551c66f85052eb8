//! Cursors. Source: "DECLARE CURSOR", "FETCH" and "@@FETCH_STATUS" (MicrosoftDocs/sql-docs,
//! docs/t-sql/language-elements/declare-cursor-transact-sql.md, fetch-transact-sql.md and docs/t-sql/functions/).

use crate::session::tests::harness::check;

#[test]
fn cursors_over_one_table() {
    check(
        "CREATE TABLE jobs (id int NOT NULL PRIMARY KEY, state int NOT NULL, n int NOT NULL DEFAULT 0);
             INSERT jobs (id, state) VALUES (1, 0), (2, 0), (3, 1), (4, 0) => ok
         == rows are changed and deleted where the cursor stands
         DECLARE @id int, @state int
             DECLARE c CURSOR LOCAL FORWARD_ONLY FOR SELECT id, state FROM jobs WITH (UPDLOCK, READPAST, ROWLOCK)
             ORDER BY id
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
             COMMIT => ok
         SELECT id, n FROM jobs => 1, 10 | 2, 20 | 4, 41
         DECLARE c CURSOR LOCAL FOR SELECT id FROM jobs; OPEN c; UPDATE jobs SET n = 1 WHERE CURRENT OF c => error 16931
         DECLARE c CURSOR LOCAL FOR SELECT id FROM jobs; OPEN c; FETCH c; UPDATE jobs SET n = 5 WHERE id = 1;
             UPDATE jobs SET n = 1 WHERE CURRENT OF c => 1 | error 59000
         DECLARE c CURSOR LOCAL FOR SELECT id FROM jobs; OPEN c; FETCH c; DELETE jobs WHERE id = 1; DELETE jobs
             WHERE CURRENT OF c => 1 | error 16947
         CREATE TABLE other (a int) => ok
         DECLARE c CURSOR LOCAL FOR SELECT id FROM jobs; OPEN c; FETCH c; DELETE other WHERE CURRENT OF c => 2
             | error 59000
         DECLARE @n int; DECLARE c CURSOR FOR SELECT id INTO #c FROM jobs => error 59000
         DECLARE @n int; DECLARE c CURSOR FOR SELECT @n = id FROM jobs => error 59000
         == a cursor sees what changes behind it
         DECLARE c CURSOR DYNAMIC FOR SELECT id, n FROM jobs ORDER BY id; OPEN c; FETCH NEXT FROM c
             BEGIN TRAN; DELETE jobs WHERE id = 2; UPDATE jobs SET n = 7 WHERE id = 3; INSERT jobs (id, state)
             VALUES (5, 0)
             FETCH NEXT FROM c; FETCH NEXT FROM c; FETCH NEXT FROM c; FETCH NEXT FROM c; ROLLBACK => 1, 0 | 3, 7 | 4, 0
             | 5, 0
         -- A global cursor stays until it is deallocated.
         FETCH NEXT FROM c; SELECT 1 WHERE @@FETCH_STATUS = 0; CLOSE c; DEALLOCATE c => none
         OPEN c => error 16916
         == what cursors refuse
         OPEN nothing => error 16916
         DECLARE c CURSOR LOCAL FOR SELECT id, n FROM jobs; DECLARE c CURSOR LOCAL FOR SELECT 1 AS a => error 16915
         DECLARE c CURSOR LOCAL FOR SELECT id, n FROM jobs; FETCH c => error 16917
         DECLARE c CURSOR LOCAL FOR SELECT id, n FROM jobs; CLOSE c => error 16917
         DECLARE c CURSOR LOCAL FOR SELECT id, n FROM jobs; OPEN c; OPEN c => error 16905
         DECLARE c CURSOR LOCAL FOR SELECT id, n FROM jobs; OPEN c; DECLARE @a int; FETCH c INTO @a => error 59000
         DECLARE c CURSOR LOCAL FOR SELECT id, n FROM jobs; OPEN c; DECLARE @a int, @d date;
             FETCH c INTO @a, @d => error 206
         DECLARE c CURSOR LOCAL FOR SELECT id, n FROM jobs; OPEN c; FETCH c; ALTER TABLE jobs ADD x int NULL;
             FETCH c => 1, 0 | error 59000
         DECLARE c CURSOR FAST_FORWARD FOR SELECT id FROM jobs ;;
             DECLARE c CURSOR LOCAL STATIC FOR SELECT id FROM jobs ;; DECLARE c SCROLL CURSOR FOR SELECT id FROM jobs ;;
             DECLARE c CURSOR FOR SELECT id FROM jobs FOR UPDATE OF n ;;
             DECLARE c CURSOR FOR SELECT id FROM jobs ORDER BY n; OPEN c ;;
             DECLARE c CURSOR LOCAL FOR SELECT DISTINCT n FROM jobs; OPEN c ;;
             DECLARE c CURSOR LOCAL FOR SELECT COUNT(*) FROM jobs; OPEN c ;;
             DECLARE c CURSOR LOCAL FOR SELECT TOP (1) id FROM jobs; OPEN c ;;
             DECLARE c CURSOR LOCAL FOR SELECT a.id FROM jobs a LEFT JOIN jobs b ON b.id = a.n; OPEN c ;;
             DECLARE c CURSOR LOCAL FOR SELECT a.id FROM jobs a INNER HASH JOIN jobs b ON b.id = a.n; OPEN c ;;
             DECLARE @c CURSOR ;; FETCH LAST FROM c ;; FETCH ABSOLUTE 1 FROM c ;; OPEN GLOBAL c ;;
             SELECT CURSOR_STATUS('local', 'c') ;;
             SET CURSOR_CLOSE_ON_COMMIT ON; DECLARE d CURSOR LOCAL FOR SELECT id FROM jobs; OPEN d => error 59000
         == a fetch locks like a select
         2: SET LOCK_TIMEOUT 0; BEGIN TRAN; UPDATE jobs SET n = 1 WHERE id = 1 => ok
         -- READPAST skips the row that is locked; the row under the cursor is this session's until its transaction
         -- ends.
         SET LOCK_TIMEOUT 0; BEGIN TRAN; DECLARE c CURSOR FOR SELECT id FROM jobs WITH (UPDLOCK, READPAST) ORDER BY id;
             OPEN c => ok
         FETCH NEXT FROM c => 2
         2: UPDATE jobs SET n = 1 WHERE id = 2 => error 1222
         2: UPDATE jobs SET n = 1 WHERE id = 3 => ok
         FETCH NEXT FROM c => 4
         COMMIT; DEALLOCATE c => ok
         DECLARE c CURSOR FOR SELECT id FROM jobs; OPEN c; FETCH c => error 1222
         2: ROLLBACK => ok
         FETCH c => 1
         == a dynamic cursor over joins does not look back
         -- A FETCH asks for no lock before its place.
         CREATE TABLE lines (id int NOT NULL, line int NOT NULL, PRIMARY KEY (id, line)) => ok
         INSERT lines VALUES (1, 1), (1, 2), (2, 1), (3, 1); SET LOCK_TIMEOUT 0 => ok
         DECLARE c CURSOR FOR SELECT j.id, l.line FROM jobs j INNER LOOP JOIN lines l ON l.id = j.id; OPEN c => ok
         FETCH c => 1, 1
         FETCH c => 1, 2
         FETCH c => 2, 1
         2: BEGIN TRAN; UPDATE jobs SET n = 1 WHERE id = 1; DELETE lines WHERE id < 3 => ok
         FETCH c => 3, 1
         2: ROLLBACK => ok
         FETCH c => none",
    );
}

#[test]
fn cursors_over_joins() {
    check(
        r#"== a dynamic cursor goes through joins
         -- "Defines a cursor that reflects all data changes made to the rows in its result set as you scroll around the
         -- cursor. The data values, order, and membership of the rows can change on each fetch" (DYNAMIC, which is the
         -- default); nothing here needs the work table that would make it a keyset.
         CREATE TABLE a (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT a
             VALUES (1, 10), (2, 20), (3, 30), (4, 40);
             CREATE TABLE b (id int NOT NULL, line int NOT NULL, n int NOT NULL, PRIMARY KEY (id, line));
             INSERT b VALUES (1, 1, 0), (1, 2, 0), (1, 3, 0), (2, 1, 0), (3, 1, 0), (4, 1, 0) => ok
         BEGIN TRAN; DECLARE c CURSOR LOCAL FORWARD_ONLY DYNAMIC FOR SELECT a.n, b.line, b.n FROM a INNER LOOP
             JOIN b ON b.id = a.id; OPEN c; FETCH c
             UPDATE a SET n = 11 WHERE id = 1; UPDATE b SET n = 5; DELETE b WHERE id = 1 AND line = 2
             FETCH c; SELECT @@FETCH_STATUS
             DELETE a WHERE id IN (1, 3); INSERT b VALUES (2, 0, 7); INSERT b VALUES (1, 4, 8)
             FETCH c; FETCH c; DELETE b WHERE id = 2
             FETCH c; FETCH c; SELECT @@FETCH_STATUS; DEALLOCATE c; ROLLBACK => 10, 1, 0 | 11, 3, 5 | 0 | 20, 0, 7
             | 20, 1, 5 | 40, 1, 5 | -1
         BEGIN TRAN; DECLARE c CURSOR LOCAL FOR SELECT a.n, b.line, b.n FROM a INNER LOOP JOIN b ON b.id = a.id
             ORDER BY a.id; OPEN c; FETCH c
             UPDATE a SET n = 11 WHERE id = 1; UPDATE b SET n = 5; DELETE b WHERE id = 1 AND line = 2
             FETCH c; SELECT @@FETCH_STATUS
             DELETE a WHERE id IN (1, 3); INSERT b VALUES (2, 0, 7); INSERT b VALUES (1, 4, 8)
             FETCH c; FETCH c; DELETE b WHERE id = 2
             FETCH c; FETCH c; SELECT @@FETCH_STATUS; DEALLOCATE c; ROLLBACK => 10, 1, 0 | 11, 3, 5 | 0 | 20, 0, 7
             | 20, 1, 5 | 40, 1, 5 | -1
         -- Which row comes next where the outer one has come to be joined with others, no page says.
         BEGIN TRAN; ALTER TABLE a DROP COLUMN n; ALTER TABLE a ADD n int; UPDATE a SET n = 2; DECLARE c CURSOR
             LOCAL FOR SELECT a.id, b.id, b.line FROM a INNER LOOP JOIN b ON b.id = a.n; OPEN c; FETCH c
             UPDATE a SET n = 1 WHERE id = 1; FETCH c => 1, 2, 1 | error 59000
         ROLLBACK => ok
         DECLARE c CURSOR LOCAL FOR SELECT a.n, b.line, b.n FROM a INNER LOOP JOIN b ON b.id = a.id; OPEN c; FETCH c;
             DELETE a WHERE CURRENT OF c => 10, 1, 0 | error 59000
         == a dynamic cursor joins table variables
         -- What durabletask-mssql declares: tables, and a table variable without any index, in no order.
         CREATE TABLE instances (hub int NOT NULL, id varchar(10) NOT NULL, parent varchar(10), PRIMARY KEY (hub, id));
             CREATE TABLE history (hub int NOT NULL, id varchar(10) NOT NULL, n int NOT NULL, task int, PRIMARY KEY
             (hub, id, n));
             INSERT instances VALUES (1, 'p', NULL), (1, 'p:1', 'p'), (1, 'p:2', 'p'), (1, 'p:3', 'p'), (1, 'q', NULL);
             INSERT history VALUES (1, 'p', 1, 0), (1, 'p:1', 1, 1), (1, 'p:1', 2, NULL), (1, 'p:2', 1, 2), (1, 'p:3',
             1, 3) => ok
         CREATE PROCEDURE rewind @parent varchar(10) AS
             DECLARE @failed TABLE (task int NULL); INSERT @failed VALUES (3), (1), (7)
             DECLARE @number int, @id varchar(10), @sum int = 0, @all varchar(100) = ''
             DECLARE numbers CURSOR LOCAL FOR SELECT task FROM @failed WHERE task < 5
             OPEN numbers; FETCH NEXT FROM numbers INTO @number
             WHILE @@FETCH_STATUS = 0 BEGIN SET @sum += @number; FETCH NEXT FROM numbers INTO @number END
             CLOSE numbers; DEALLOCATE numbers
             DECLARE children CURSOR LOCAL FOR SELECT i.id FROM instances i
                 JOIN history h ON i.hub = h.hub AND i.id = h.id JOIN @failed f ON f.task = h.task
                 WHERE i.parent = @parent
             OPEN children; FETCH NEXT FROM children INTO @id
             WHILE @@FETCH_STATUS = 0
             BEGIN
                 EXEC rewind @id
                 CREATE TABLE #other (a int); DROP TABLE #other
                 UPDATE history SET n += 10 WHERE id = @id AND task IS NULL
                 SET @all += @id + ' '; FETCH NEXT FROM children INTO @id
             END
             CLOSE children; DEALLOCATE children
             IF @all <> '' SELECT @sum, value FROM STRING_SPLIT(RTRIM(@all), ' ') ORDER BY value => ok
         EXEC rewind 'p' => 4, 'p:1' | 4, 'p:3'"#,
    );
}
