//! INSERT BULK, with its rows as the bytes of their message.
//!
//! Sources: MS-TDS 2.2.6.1, "Bulk Load BCP"; "BULK INSERT" (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/bulk-insert-transact-sql.md) and "bcp Utility" (docs/tools/bcp-utility.md); the errors:
//! "Database Engine events and errors (4000 to 4999)" (docs/relational-databases/errors-events/).

use crate::session::client_session::Session;
use crate::session::tests::harness::{errors, login, ok, rows, run, session};
use crate::tds::token::ResponseWriter;
use crate::tds::wire_type::write::{put_type_info, put_value};
use crate::value::{Length, SqlType, Value};

const INT: SqlType = SqlType::Int;
const TEXT: SqlType = SqlType::NVarChar(Length::Limit(10));

fn text(value: &str) -> Value {
    Value::String(value.into())
}

/// The message with the rows.
fn payload(types: &[SqlType], rows: &[Vec<Value>]) -> Vec<u8> {
    let mut bytes = vec![0x81];
    bytes.extend_from_slice(&(types.len() as u16).to_le_bytes());
    for ty in types {
        bytes.extend_from_slice(&[0, 0, 0, 0, 9, 0]);
        put_type_info(&mut bytes, *ty);
        bytes.extend_from_slice(&[1, b'c', 0]);
    }
    for row in rows {
        bytes.push(0xD1);
        for (value, ty) in row.iter().zip(types) {
            put_value(&mut bytes, *ty, value);
        }
    }
    bytes.extend_from_slice(&[0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

fn send(s: &mut Session, payload: &[u8]) -> Vec<String> {
    let mut writer = ResponseWriter::for_test();
    let awaited = s.take_awaited_rows().expect("INSERT BULK came before");
    s.run_bulk_load(awaited, payload, &mut writer);
    writer.tokens()
}

fn load(s: &mut Session, statement: &str, types: &[SqlType], rows: &[Vec<Value>]) -> Vec<String> {
    assert_eq!(run(s, statement), ["DONE()"], "{statement}");
    send(s, &payload(types, rows))
}

#[test]
fn rows_come_in_the_next_message() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, a int NULL DEFAULT 5, b nvarchar(10) NULL, c AS id * 2,
             n int IDENTITY (10, 1), v rowversion)",
    );
    let loaded = load(
        &mut s,
        "INSERT BULK t ([id] int, [b] nvarchar(10) COLLATE SQL_Latin1_General_CP1_CI_AS)",
        &[INT, TEXT],
        &[vec![Value::Int(1), text("x")], vec![Value::Int(2), Value::Null]],
    );
    assert_eq!(loaded, ["DONE(count=2)"]);
    assert_eq!(
        rows(&mut s, "SELECT @@ROWCOUNT; SELECT id, a, b, c, n FROM t; SELECT CAST(@@IDENTITY AS int)"),
        [
            "ROW(Int(2))",
            "ROW(Int(1), Int(5), String(\"x\"), Int(2), Int(10))",
            "ROW(Int(2), Int(5), Null, Int(4), Int(11))",
            "ROW(Int(11))"
        ]
    );

    // One statement: all of its rows or none. PRIMARY KEY and NOT NULL hold always.
    let twice = [vec![Value::Int(8)], vec![Value::Int(1)]];
    let tokens = load(&mut s, "INSERT BULK t (id int)", &[INT], &twice);
    assert!(tokens[0].starts_with("ERROR(2627"), "{tokens:?}");
    assert!(load(&mut s, "INSERT BULK t (id int)", &[INT], &[vec![Value::Null]])[0].starts_with("ERROR(515"));
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM t"), ["ROW(Int(2))"]);
    ok(&mut s, "BEGIN TRANSACTION");
    load(&mut s, "INSERT BULK t (id int)", &[INT], &[vec![Value::Int(9)]]);
    assert_eq!(
        rows(&mut s, "SELECT COUNT(*) FROM t; ROLLBACK; SELECT COUNT(*) FROM t"),
        ["ROW(Int(3))", "ROW(Int(2))"]
    );
}

#[test]
fn wrong_data_is_refused() {
    let (engine, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int, b nvarchar(3) DEFAULT 'x')");
    let first = |tokens: Vec<String>| tokens[0].chars().take_while(|c| *c != ',').collect::<String>();
    let insert = "INSERT BULK t (a int, b nvarchar(3))";
    let short = SqlType::NVarChar(Length::Limit(3));
    let row = [vec![Value::Int(1), text("abc")]];
    for types in [&[INT, TEXT][..], &[short, INT], &[INT]] {
        assert_eq!(first(load(&mut s, insert, types, &[])), "ERROR(59000", "{types:?}");
    }
    assert_eq!(first(load(&mut s, insert, &[INT, short], &[vec![Value::Int(1), Value::Null]])), "ERROR(59000");
    let long = [vec![Value::Int(1), text("abcd")]];
    assert_eq!(first(load(&mut s, "INSERT BULK t (a int, b nvarchar(10))", &[INT, TEXT], &long)), "ERROR(59000");
    let whole = payload(&[INT, short], &row);
    ok(&mut s, insert);
    assert_eq!(first(send(&mut s, &whole[..whole.len() - 14])), "ERROR(4002");
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM t"), ["ROW(Int(0))"]);
    // FreeTDS sends no DONE, Microsoft's clients a shorter one.
    for cut in [13, 4] {
        ok(&mut s, insert);
        assert_eq!(send(&mut s, &whole[..whole.len() - cut]), ["DONE(count=1)"]);
    }
    // The table is another one by now.
    ok(&mut s, insert);
    let mut other = login(&engine, "sa", "secret");
    ok(&mut other, "DELETE t; ALTER TABLE t ADD c int NULL");
    assert_eq!(first(send(&mut s, &whole)), "ERROR(4891");
    // It becomes another one while the rows wait for its lock.
    ok(&mut s, insert);
    ok(&mut other, "BEGIN TRANSACTION; DELETE t WITH (TABLOCKX)");
    let changing = std::thread::spawn(move || {
        ok(&mut other, "WAITFOR DELAY '00:00:00.100'; ALTER TABLE t ADD d int NULL; COMMIT");
    });
    let tokens = send(&mut s, &whole);
    changing.join().expect("it ends");
    assert_eq!(first(tokens), "ERROR(4891");
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM t"), ["ROW(Int(0))"]);
}

#[test]
fn what_is_not_known_of_insert_bulk_is_refused() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (a int NOT NULL PRIMARY KEY, b bigint, c AS a + 1); CREATE TABLE heap (a int);
         CREATE TABLE checked (a int CHECK (a > 0)); CREATE TABLE numbered (a int IDENTITY)",
    );
    for (sql, number) in [
        ("INSERT BULK nobody (a int)", 208),
        ("INSERT BULK t (z int)", 207),
        ("INSERT BULK t (a int, a int)", 59000),
        ("INSERT BULK t (c int)", 271),
        ("INSERT BULK t (b int)", 59000),
        ("INSERT BULK t (a int); SELECT 1", 59000),
        ("IF 1 = 1 INSERT BULK t (a int)", 59000),
        ("EXEC ('INSERT BULK t (a int)')", 59000),
        ("INSERT BULK heap (a int) WITH (KEEP_NULLS)", 59000),
        ("INSERT BULK checked (a int)", 59000),
        ("INSERT BULK numbered (a int)", 59000),
        ("INSERT BULK t", 102),
    ] {
        assert_eq!(errors(&mut s, sql), [number], "{sql}");
    }
    ok(&mut s, "CREATE TRIGGER tr ON heap AFTER INSERT AS RETURN");
    assert_eq!(errors(&mut s, "INSERT BULK heap (a int)"), [59000]);
}

/// Source: SqlBulkCopy.cs of dotnet/SqlClient, `CreateInitialQuery`: what it asks for before it begins.
#[test]
fn a_bulk_copy_client_is_told_of_the_collations() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int, b nvarchar(3) COLLATE Latin1_General_BIN2); CREATE TABLE #t (c varchar(5))");
    let found = [
        "ROW(Int(1), String(\"a\"), Null, Null)",
        "ROW(Int(2), String(\"b\"), Bytes([9, 4, 0, 2, 0]), String(\"Latin1_General_BIN2\"))",
    ];
    for call in [
        "exec ..sp_tablecollations_100 N'.[t]'",
        "exec [readpast]..sp_tablecollations_100 N'[dbo].[t]'",
        "EXEC sp_tablecollations_100 N'[dbo].[t]'",
    ] {
        let asked = format!("select @@trancount; SET FMTONLY ON select * from [t] SET FMTONLY OFF {call}");
        assert_eq!(rows(&mut s, &asked)[1..], found, "{call}");
    }
    assert_eq!(
        rows(&mut s, "exec tempdb..sp_tablecollations_100 N'..[#t]'"),
        ["ROW(Int(1), String(\"c\"), Bytes([9, 4, 208, 0, 52]), String(\"SQL_Latin1_General_CP1_CI_AS\"))"]
    );
    assert!(rows(&mut s, "EXEC sp_tablecollations_100 N'nobody'").is_empty());
}
