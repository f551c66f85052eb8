//! Tables that change while they have rows. Source: "ALTER TABLE", "CREATE INDEX", "ALTER INDEX" and "DROP INDEX"
//! (MicrosoftDocs/sql-docs, docs/t-sql/statements/).

use crate::session::client_session::Session;
use crate::session::tests::harness::{engine, errors, login, ok, rows, session};
use crate::storage::check_consistency;

/// Every index of every table holds exactly its rows.
fn check_all(session: &Session) {
    let latch = session.database.storage.latch();
    for schema in latch.tables() {
        let table = latch.table(schema.id).expect("it was listed");
        check_consistency(table).unwrap_or_else(|problem| panic!("{problem}"));
    }
}

#[test]
fn a_heap_becomes_a_fifo_queue_and_a_heap_again() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE q (id bigint NOT NULL IDENTITY (1, 1), payload varbinary(max), due int NOT NULL);
         INSERT q (payload, due) VALUES (0x01, 3), (0x02, 1), (0x03, 2);
         CREATE INDEX q_payload ON q (id) INCLUDE (due)",
    );
    ok(&mut s, "CREATE CLUSTERED INDEX cdx ON q (due)");
    check_all(&s);
    assert_eq!(
        rows(&mut s, "SELECT type_desc FROM sys.indexes WHERE object_id = OBJECT_ID('q') AND index_id < 2"),
        ["ROW(String(\"CLUSTERED\"))"]
    );
    assert_eq!(rows(&mut s, "SELECT TOP (1) payload FROM q ORDER BY due"), ["ROW(Bytes([2]))"]);
    assert_eq!(errors(&mut s, "CREATE CLUSTERED INDEX other ON q (id)"), [1902]);
    assert_eq!(errors(&mut s, "CREATE INDEX cdx ON q (id)"), [1913]);
    ok(&mut s, "INSERT q (payload, due) VALUES (0x04, 9); DROP INDEX q.cdx");
    check_all(&s);
    assert_eq!(rows(&mut s, "SELECT id FROM q WHERE due = 9"), ["ROW(BigInt(4))"]);
}

#[test]
fn a_rebuilt_table_comes_back_with_a_rollback() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE q (id int NOT NULL, n int NOT NULL); INSERT q VALUES (1, 10), (2, 20);
         BEGIN TRAN; DELETE q WHERE id = 1; CREATE UNIQUE CLUSTERED INDEX c ON q (id); INSERT q VALUES (3, 30); ROLLBACK",
    );
    check_all(&s);
    assert_eq!(rows(&mut s, "SELECT id FROM q"), ["ROW(Int(1))", "ROW(Int(2))"]);
    assert_eq!(rows(&mut s, "SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID('q')"), ["ROW(Null)"]);
    ok(&mut s, "BEGIN TRAN; CREATE UNIQUE CLUSTERED INDEX c ON q (id); DELETE q WHERE id = 2; COMMIT");
    check_all(&s);
    assert_eq!(errors(&mut s, "INSERT q VALUES (1, 0)"), [2601]);
}

#[test]
fn keys_can_be_added_to_filled_tables_and_dropped() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int NOT NULL, b int NULL, c int NOT NULL); INSERT t VALUES (1, 1, 7), (2, 1, 7)");
    assert_eq!(errors(&mut s, "ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY CLUSTERED (b)"), [8111, 1750]);
    assert_eq!(errors(&mut s, "ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY CLUSTERED (c)"), [1505, 1750]);
    ok(&mut s, "ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY CLUSTERED (a) WITH (FILLFACTOR = 90) ON [PRIMARY]");
    assert_eq!(errors(&mut s, "INSERT t VALUES (1, 2, 3)"), [2627]);
    assert_eq!(errors(&mut s, "DROP INDEX pk ON t"), [3723]);
    ok(&mut s, "ALTER TABLE t DROP CONSTRAINT pk; INSERT t VALUES (1, 2, 3)");
    check_all(&s);
    // A statement of several parts is done whole or not at all.
    assert_eq!(errors(&mut s, "ALTER TABLE t ADD d int NULL, CONSTRAINT u UNIQUE (c)"), [1505, 1750]);
    assert_eq!(rows(&mut s, "SELECT COL_LENGTH('t', 'd')"), ["ROW(Null)"]);
}

#[test]
fn checks_look_at_the_rows_unless_told_not_to() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int NOT NULL); INSERT t VALUES (1), (-1)");
    assert_eq!(errors(&mut s, "ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 0)"), [547]);
    ok(&mut s, "ALTER TABLE t WITH NOCHECK ADD CONSTRAINT positive CHECK (a > 0)");
    assert_eq!(errors(&mut s, "INSERT t VALUES (-2)"), [547,]);
    ok(&mut s, "ALTER TABLE t CHECK CONSTRAINT ALL");
    assert_eq!(errors(&mut s, "INSERT t VALUES (-3)"), [547]);
    assert_eq!(errors(&mut s, "ALTER TABLE t CHECK CONSTRAINT nothing"), [4917]);
}

#[test]
fn columns_are_added_with_their_values() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int NOT NULL); INSERT t VALUES (5), (6)");
    assert_eq!(errors(&mut s, "ALTER TABLE t ADD b int NOT NULL"), [4901]);
    for filled in ["b int NOT NULL DEFAULT 7", "id int IDENTITY NOT NULL", "v rowversion"] {
        assert_eq!(errors(&mut s, &format!("ALTER TABLE t ADD {filled}")), [59000], "{filled}");
    }
    ok(&mut s, "ALTER TABLE t ADD c int NULL DEFAULT 8, twice AS a * 2");
    check_all(&s);
    assert_eq!(rows(&mut s, "SELECT c, twice FROM t"), ["ROW(Null, Int(10))", "ROW(Null, Int(12))"]);
    ok(&mut s, "INSERT t (a) VALUES (1)");
    assert_eq!(rows(&mut s, "SELECT c FROM t WHERE a = 1"), ["ROW(Int(8))"]);
    ok(
        &mut s,
        "CREATE TABLE u (a int); ALTER TABLE u ADD b int NOT NULL DEFAULT 7, id int IDENTITY (10, 5), v rowversion",
    );
    ok(&mut s, "INSERT u (a) VALUES (1), (2)");
    check_all(&s);
    assert_eq!(rows(&mut s, "SELECT b, id FROM u"), ["ROW(Int(7), Int(10))", "ROW(Int(7), Int(15))"]);
}

#[test]
fn columns_change_their_type_and_go() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (a int NOT NULL PRIMARY KEY, b varchar(10) NULL, c int NULL CONSTRAINT dc DEFAULT 1, e nvarchar(5) NULL);
         CREATE INDEX ib ON t (b); INSERT t (a, b, e) VALUES (1, 'x', N'12'), (2, 'yy', NULL)",
    );
    ok(&mut s, "ALTER TABLE t ALTER COLUMN b varchar(20) NULL");
    assert_eq!(errors(&mut s, "ALTER TABLE t ALTER COLUMN b varchar(5) NULL"), [5074, 4922]);
    assert_eq!(errors(&mut s, "ALTER TABLE t ALTER COLUMN a bigint NOT NULL"), [5074, 4922]);
    assert_eq!(errors(&mut s, "ALTER TABLE t ALTER COLUMN x int"), [4924]);
    assert_eq!(errors(&mut s, "ALTER TABLE t ALTER COLUMN e nvarchar(5) NOT NULL"), [515]);
    ok(&mut s, "ALTER TABLE t ALTER COLUMN e int");
    assert_eq!(rows(&mut s, "SELECT e FROM t"), ["ROW(Int(12))", "ROW(Null)"]);
    assert_eq!(errors(&mut s, "ALTER TABLE t DROP COLUMN c"), [5074, 4922]);
    assert_eq!(errors(&mut s, "ALTER TABLE t DROP COLUMN b"), [5074, 4922]);
    assert_eq!(errors(&mut s, "ALTER TABLE t DROP COLUMN nothing"), [4924]);
    ok(&mut s, "ALTER TABLE t DROP COLUMN IF EXISTS nothing; ALTER TABLE t DROP CONSTRAINT dc, COLUMN c");
    check_all(&s);
    assert_eq!(rows(&mut s, "SELECT * FROM t WHERE b = 'yy'"), ["ROW(Int(2), String(\"yy\"), Null)"]);
}

#[test]
fn a_table_being_rebuilt_is_nobody_elses() {
    let engine = engine();
    let mut a = login(&engine, "sa", "secret");
    let mut b = login(&engine, "sa", "secret");
    ok(&mut a, "CREATE TABLE t (a int NOT NULL); INSERT t VALUES (1)");
    ok(&mut a, "BEGIN TRAN; CREATE CLUSTERED INDEX c ON t (a)");
    assert_eq!(errors(&mut b, "SET LOCK_TIMEOUT 0; SELECT a FROM t WITH (NOLOCK)"), [1222]);
    ok(&mut a, "ROLLBACK");
    assert_eq!(rows(&mut b, "SELECT a FROM t"), ["ROW(Int(1))"]);
}

/// Source: Microsoft's durabletask-mssql (Scripts/logic.sql), whose procedures have parameters of its table types
/// without the schema of both, and are created by users whose default schema is dbo. (For functions "CREATE FUNCTION",
/// docs/t-sql/statements/create-function-transact-sql.md, names the user's default schema and dbo only.)
#[test]
fn a_parameter_has_a_type_of_the_procedures_schema() {
    let (e, mut s) = session();
    ok(&mut s, "CREATE SCHEMA dt");
    ok(&mut s, "CREATE SCHEMA own");
    ok(&mut s, "CREATE TYPE dt.ids AS TABLE (id int NOT NULL PRIMARY KEY)");
    ok(&mut s, "CREATE PROCEDURE dt.p @i ids READONLY AS SELECT COUNT(*) FROM @i");
    assert_eq!(rows(&mut s, "DECLARE @i dt.ids; INSERT @i VALUES (7); EXEC dt.p @i"), ["ROW(Int(1))"]);
    assert_eq!(errors(&mut s, "CREATE PROCEDURE own.p @i ids READONLY AS RETURN"), [2715]);
    ok(
        &mut s,
        "CREATE TYPE own.ids AS TABLE (id bigint); CREATE LOGIN l WITH PASSWORD = 'p';
        CREATE USER l WITH DEFAULT_SCHEMA = own; ALTER ROLE db_owner ADD MEMBER l",
    );
    let mut l = login(&e, "l", "p");
    ok(&mut l, "CREATE PROCEDURE dbo.q @i ids READONLY AS RETURN");
    assert_eq!(errors(&mut l, "CREATE PROCEDURE dt.q @i ids READONLY AS RETURN"), [59000]);
}
