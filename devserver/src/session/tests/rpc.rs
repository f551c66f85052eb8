//! Remote procedure calls.

use crate::session::client_session::Session;
use crate::session::tests::harness::{login, ok, rows, run, session};
use crate::tds::request::{RpcCall, RpcParameter, RpcValue};
use crate::tds::token::ResponseWriter;
use crate::value::{Length, SqlType, Value};

fn call(s: &mut Session, procedure: &str, parameters: Vec<RpcParameter>) -> Vec<String> {
    let mut writer = ResponseWriter::for_test();
    s.run_rpc(RpcCall { procedure: procedure.to_owned(), parameters }, &mut writer);
    writer.tokens()
}

fn parameter(name: &str, by_ref: bool, sql_type: SqlType, value: Value) -> RpcParameter {
    let name = (!name.is_empty()).then(|| name.to_string());
    RpcParameter { name, by_ref, value: RpcValue::Scalar { sql_type, value } }
}

fn text(value: &str) -> RpcParameter {
    parameter("", false, SqlType::NVarChar(Length::Limit(4000)), Value::String(value.into()))
}

fn int(name: &str, by_ref: bool, value: Value) -> RpcParameter {
    parameter(name, by_ref, SqlType::Int, value)
}

#[test]
fn outputs_and_status_come_back() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE PROCEDURE p @a int, @b int OUTPUT AS SELECT @a; SET @b = @a * 2; RETURN 3");
    let parameters = vec![int("@b", true, Value::Null), int("@a", false, Value::Int(21))];
    assert_eq!(
        call(&mut s, "dbo.p", parameters),
        [
            "COLMETADATA( Int)",
            "ROW(Int(21))",
            "DONEINPROC(count=1, more)",
            "DONEINPROC(count=1, more)",
            "RETURNSTATUS(3)",
            "RETURNVALUE(0 @b Int(42))",
            "DONEPROC()"
        ]
    );
    let unknown = call(&mut s, "dbo.nobody", Vec::new());
    assert!(unknown[0].starts_with("ERROR(2812"), "{unknown:?}");
}

/// Source: MS-TDS 2.2.7.19, RETURNVALUE: the token describes the return parameter, and "Large Object output parameters
/// are reordered to appear at the end of the stream". That it comes back in the type of the client's parameter is what
/// python-tds' tests ask of SQL Server (`test_outparam_null_default`: bit and varchar(5) for int and varchar(max)).
#[test]
fn outputs_come_back_in_the_types_of_the_call() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE PROCEDURE p @a varchar(max) = 'defstr' OUTPUT, @b int = 8 OUTPUT AS SET @b += 1; SET @a += '1'; RETURN 0",
    );
    let returned = |s: &mut Session, a: RpcValue, b: RpcValue| {
        let parameters = vec![
            RpcParameter { name: None, by_ref: true, value: a },
            RpcParameter { name: None, by_ref: true, value: b },
        ];
        let tokens = call(s, "p", parameters);
        tokens.into_iter().filter(|token| token.starts_with("RETURNV") || token.starts_with("ERR")).collect::<Vec<_>>()
    };
    let default = |ty| RpcValue::Default { sql_type: Some(ty) };
    let varchar = SqlType::VarChar;
    assert_eq!(
        returned(&mut s, default(varchar(Length::Limit(5))), default(SqlType::Bit)),
        ["RETURNVALUE(0  String(\"defst\"))", "RETURNVALUE(1  Bit(true))"]
    );
    assert_eq!(
        returned(&mut s, default(varchar(Length::Max)), default(SqlType::BigInt)),
        ["RETURNVALUE(1  BigInt(9))", "RETURNVALUE(0  String(\"defstr1\"))"]
    );
    let no_number = returned(&mut s, default(SqlType::Int), default(SqlType::Int));
    assert!(no_number[0].starts_with("ERROR(8114"), "{no_number:?}");
}

#[test]
fn text_runs_with_parameters() {
    let (_e, mut s) = session();
    let parameters = vec![
        text("SET @r = @x + 1; SELECT @x"),
        text("@x int, @r int OUTPUT"),
        int("@x", false, Value::Int(1)),
        int("@r", true, Value::Null),
    ];
    let tokens = call(&mut s, "sp_executesql", parameters);
    assert!(tokens.contains(&"ROW(Int(1))".to_string()), "{tokens:?}");
    assert!(tokens.contains(&"RETURNVALUE(3 @r Int(2))".to_string()), "{tokens:?}");
    let missing = call(&mut s, "sp_executesql", vec![text("SELECT @x"), text("@x int")]);
    assert!(missing[0].starts_with("ERROR(8178"), "{missing:?}");
}

#[test]
fn a_prepared_text_runs_until_it_is_unprepared() {
    let (_e, mut s) = session();
    let prepare = vec![int("", true, Value::Null), text("@x int"), text("SELECT @x"), int("", false, Value::Int(5))];
    let tokens = call(&mut s, "sp_prepexec", prepare);
    assert!(tokens.contains(&"ROW(Int(5))".to_string()), "{tokens:?}");
    assert!(tokens.contains(&"RETURNVALUE(0  Int(1))".to_string()), "{tokens:?}");
    let execute = || vec![int("", false, Value::Int(1)), int("", false, Value::Int(6))];
    assert!(call(&mut s, "sp_execute", execute()).contains(&"ROW(Int(6))".to_string()));
    call(&mut s, "sp_unprepare", vec![int("", false, Value::Int(1))]);
    let gone = call(&mut s, "sp_execute", execute());
    assert!(gone[0].starts_with("ERROR(8179"), "{gone:?}");
}

#[test]
fn a_table_parameter_obeys_its_type() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TYPE list AS TABLE (a int NOT NULL PRIMARY KEY, b varchar(3) NULL)");
    ok(&mut s, "CREATE PROCEDURE p @l list READONLY AS SELECT a, b FROM @l ORDER BY a");
    let table = |rows: Vec<Vec<Value>>| {
        let columns = vec![SqlType::BigInt, SqlType::NVarChar(Length::Limit(10))];
        let value = RpcValue::Table { type_schema: Some("dbo".into()), type_name: "list".into(), columns, rows };
        vec![RpcParameter { name: Some("@l".into()), by_ref: false, value }]
    };
    let row = |a: i64, b: &str| vec![Value::BigInt(a), Value::String(b.into())];
    let tokens = call(&mut s, "p", table(vec![row(2, "x"), row(1, "y")]));
    let found: Vec<&String> = tokens.iter().filter(|token| token.starts_with("ROW")).collect();
    assert_eq!(found, ["ROW(Int(1), String(\"y\"))", "ROW(Int(2), String(\"x\"))"]);
    for (rows, number) in [
        (vec![row(1, "x"), row(1, "y")], "ERROR(2627"),
        (vec![row(1, "long")], "ERROR(2628"),
        (vec![vec![Value::Null, Value::Null]], "ERROR(515"),
    ] {
        let tokens = call(&mut s, "p", table(rows));
        assert!(tokens[0].starts_with(number), "{tokens:?}");
    }
    assert!(rows(&mut s, "EXEC p").is_empty());
}

/// Source: MS-TDS 2.2.5.5.5.1, TVP_TYPENAME, whose parts are texts that may be empty: clients that call a procedure by
/// name know its types no more than their users say, and send none.
#[test]
fn a_table_without_a_type_takes_that_of_the_parameter() {
    let (engine, mut s) = session();
    ok(&mut s, "CREATE TYPE dbo.list AS TABLE (id int NOT NULL PRIMARY KEY, name nvarchar(3) NOT NULL)");
    ok(&mut s, "CREATE PROCEDURE dbo.p @n int, @list dbo.list READONLY AS SELECT id, name FROM @list");
    let table = |rows| RpcParameter {
        name: Some("@list".into()),
        by_ref: false,
        value: RpcValue::Table {
            type_schema: None,
            type_name: String::new(),
            columns: vec![SqlType::BigInt, SqlType::NVarChar(Length::Limit(10))],
            rows,
        },
    };
    let row = |id, name: &str| vec![Value::BigInt(id), Value::String(name.into())];
    let n = || int("@n", false, Value::Int(1));
    let found = ["ROW(Int(1), String(\"a\"))", "ROW(Int(2), String(\"b\"))"];
    let rows_of = |tokens: Vec<String>| tokens.into_iter().filter(|token| token.starts_with("ROW")).collect::<Vec<_>>();

    let two = || table(vec![row(2, "b"), row(1, "a")]);
    assert_eq!(rows_of(call(&mut s, "dbo.p", vec![n(), two()])), found);
    let statement = || vec![text("SELECT id, name FROM @list"), text("@list dbo.list READONLY")];
    assert_eq!(rows_of(call(&mut s, "sp_executesql", [statement(), vec![two()]].concat())), found);
    for (rows, error) in [
        (vec![row(1, "x"), row(1, "y")], "ERROR(2627"),
        (vec![row(1, "long")], "ERROR(2628"),
        (vec![vec![Value::Null, Value::Null]], "ERROR(515"),
        (vec![vec![Value::BigInt(1)]], "ERROR(59000"),
    ] {
        // The last one goes to a parameter that is no table.
        let mut parameter = table(rows);
        if error == "ERROR(59000" {
            parameter.name = Some("@n".into());
        }
        let tokens = call(&mut s, "dbo.p", vec![parameter]);
        assert!(tokens[0].starts_with(error), "{tokens:?}");
    }
    // A call that fails after its table was made leaves nothing behind.
    let failing = |sql: &str| vec![text(sql), text("@list dbo.list READONLY, @n int")];
    for (procedure, parameters, error) in [
        ("dbo.p", vec![two()], "ERROR(201"),
        ("sp_executesql", [failing("SELECT 1"), vec![two()]].concat(), "ERROR(8178"),
        ("sp_executesql", [failing("SELECT FROM"), vec![two(), n()]].concat(), "ERROR(156"),
    ] {
        let tokens = call(&mut s, procedure, parameters);
        assert!(tokens[0].starts_with(error), "{tokens:?}");
        assert_eq!(s.own_tables.count(), 0, "{error}");
    }
    ok(&mut s, "CREATE LOGIN web WITH PASSWORD = 'web'; CREATE USER web; GRANT EXECUTE ON dbo.p TO web");
    let mut web = login(&engine, "web", "web");
    assert!(call(&mut web, "dbo.p", vec![n(), two()])[0].starts_with("ERROR(229"));
    ok(&mut s, "GRANT EXECUTE ON TYPE::dbo.list TO web");
    assert_eq!(rows_of(call(&mut web, "dbo.p", vec![n(), two()])), found);
}

#[test]
fn several_results_come_before_the_outputs_and_the_status() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, payload varbinary(max) NULL); INSERT t VALUES (1, 0x0102), (2, 0x03)",
    );
    ok(
        &mut s,
        "CREATE PROCEDURE p @more bit OUTPUT, @bytes bigint OUTPUT AS
         SET NOCOUNT ON;
         DECLARE @found TABLE (id int, bytes bigint);
         UPDATE t SET payload = 0x040506
         OUTPUT inserted.id, DATALENGTH(inserted.payload) INTO @found (id, bytes)
         OUTPUT deleted.id, DATALENGTH(deleted.payload) AS bytes;
         SELECT id FROM @found ORDER BY id;
         SELECT @more = 1, @bytes = SUM(bytes) FROM @found;
         RETURN 2",
    );
    let big = parameter("@bytes", true, SqlType::BigInt, Value::Null);
    let bit = parameter("@more", true, SqlType::Bit, Value::Null);
    assert_eq!(
        call(&mut s, "p", vec![bit, big]),
        [
            "COLMETADATA(id Int, bytes BigInt)",
            "ROW(Int(1), BigInt(2))",
            "ROW(Int(2), BigInt(1))",
            "DONEINPROC(more)",
            "COLMETADATA(id Int)",
            "ORDER(1)",
            "ROW(Int(1))",
            "ROW(Int(2))",
            "DONEINPROC(more)",
            "RETURNSTATUS(2)",
            "RETURNVALUE(0 @more Bit(true))",
            "RETURNVALUE(1 @bytes BigInt(6))",
            "DONEPROC()"
        ]
    );
}

/// Source: MS-TDS 2.2.7.18, RETURNSTATUS, which also carries the status of a procedure that a batch executes.
#[test]
fn a_batch_that_executes_a_procedure_gets_its_status_too() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE PROCEDURE inner_p AS RETURN 4");
    ok(&mut s, "CREATE PROCEDURE p AS EXEC inner_p; RETURN 3");
    assert_eq!(run(&mut s, "EXEC p"), ["RETURNSTATUS(3)", "DONEPROC()"]);
    assert_eq!(
        run(&mut s, "DECLARE @r int; EXEC @r = p; EXEC sp_executesql N'PRINT 1'; SELECT @r"),
        [
            "RETURNSTATUS(3)",
            "DONEPROC(more)",
            "INFO(0, 1)",
            "RETURNSTATUS(0)",
            "DONEPROC(more)",
            "COLMETADATA( Int)",
            "ROW(Int(3))",
            "DONE(count=1)"
        ]
    );
    // Text is no procedure, and what INSERT … EXEC runs answers the INSERT.
    assert_eq!(run(&mut s, "EXEC ('PRINT 1')"), ["INFO(0, 1)", "DONEPROC()"]);
    assert_eq!(run(&mut s, "DECLARE @t TABLE (a int); INSERT @t EXEC inner_p"), ["DONE(count=0)"]);
}

/// The client must know that its transaction is gone: each request names the one that it is in.
#[test]
fn a_reset_by_call_tells_of_the_rollback() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int)");
    let mut writer = ResponseWriter::for_test();
    s.run_batch("BEGIN TRAN; INSERT t VALUES (1)", &mut writer);
    assert_ne!(writer.transaction_descriptor(), 0);
    let reset = |s: &mut Session, writer: &mut ResponseWriter| {
        s.run_rpc(RpcCall { procedure: "sp_reset_connection".to_owned(), parameters: Vec::new() }, writer);
    };
    reset(&mut s, &mut writer);
    assert_eq!(writer.transaction_descriptor(), 0);
    let tokens = writer.tokens();
    assert!(tokens.iter().any(|token| token == "ENVCHANGE(10)"), "{tokens:?}");
    assert_eq!(rows(&mut s, "SELECT @@TRANCOUNT, COUNT(*) FROM t"), ["ROW(Int(0), Int(0))"]);
    let mut writer = ResponseWriter::for_test();
    reset(&mut s, &mut writer);
    assert_eq!(writer.tokens(), ["RETURNSTATUS(0)", "DONEPROC()"], "there was none");
}
