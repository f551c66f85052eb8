//! Remote procedure calls.

use crate::session::client_session::Session;
use crate::session::tests::harness::{check, login, session};
use crate::tds::request::{RpcCall, RpcParameter, RpcValue};
use crate::tds::token::ResponseWriter;
use crate::value::{Length, SqlType, Value};

/// The tokens of the answer.
fn call(s: &mut Session, procedure: &str, parameters: Vec<RpcParameter>) -> String {
    let mut writer = ResponseWriter::for_test();
    s.run_rpc(RpcCall { procedure: procedure.to_owned(), parameters }, &mut writer);
    writer.tokens().join(" | ")
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
    s.check("CREATE PROCEDURE p @a int, @b int OUTPUT AS SELECT @a; SET @b = @a * 2; RETURN 3");
    let parameters = vec![int("@b", true, Value::Null), int("@a", false, Value::Int(21))];
    assert_eq!(
        call(&mut s, "dbo.p", parameters),
        "COLMETADATA( Int) | ROW(21) | DONEINPROC(count=1, more) | DONEINPROC(count=1, more) | RETURNSTATUS(3) | \
         RETURNVALUE(0 @b 42) | DONEPROC()"
    );
    assert!(call(&mut s, "dbo.nobody", Vec::new()).starts_with("ERROR(2812"));
}

/// Source: MS-TDS 2.2.7.19, RETURNVALUE: the token describes the return parameter, and "Large Object output parameters
/// are reordered to appear at the end of the stream". That it comes back in the type of the client's parameter is what
/// python-tds' tests ask of SQL Server (`test_outparam_null_default`: bit and varchar(5) for int and varchar(max)).
#[test]
fn outputs_come_back_in_the_types_of_the_call() {
    let (_e, mut s) = session();
    s.check(
        "CREATE PROCEDURE p @a varchar(max) = 'defstr' OUTPUT, @b int = 8 OUTPUT AS SET @b += 1; SET @a += '1'; RETURN 0",
    );
    let mut returned = |types: [SqlType; 2]| {
        let default = |sql_type| RpcValue::Default { sql_type: Some(sql_type) };
        let parameter = |sql_type| RpcParameter { name: None, by_ref: true, value: default(sql_type) };
        call(&mut s, "p", types.map(parameter).to_vec())
    };
    let limited = returned([SqlType::VarChar(Length::Limit(5)), SqlType::Bit]);
    assert!(limited.contains("RETURNVALUE(0  'defst') | RETURNVALUE(1  Bit(true))"), "{limited}");
    let max = returned([SqlType::VarChar(Length::Max), SqlType::BigInt]);
    assert!(max.contains("RETURNVALUE(1  BigInt(9)) | RETURNVALUE(0  'defstr1')"), "{max}");
    let no_number = returned([SqlType::Int, SqlType::Int]);
    assert!(no_number.contains("ERROR(8114"), "{no_number}");
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
    let answer = call(&mut s, "sp_executesql", parameters);
    assert!(answer.contains("ROW(1)") && answer.contains("RETURNVALUE(3 @r 2)"), "{answer}");
    assert!(call(&mut s, "sp_executesql", vec![text("SELECT @x"), text("@x int")]).starts_with("ERROR(8178"));
}

#[test]
fn a_prepared_text_runs_until_it_is_unprepared() {
    let (_e, mut s) = session();
    let prepare = vec![int("", true, Value::Null), text("@x int"), text("SELECT @x"), int("", false, Value::Int(5))];
    let answer = call(&mut s, "sp_prepexec", prepare);
    assert!(answer.contains("ROW(5)") && answer.contains("RETURNVALUE(0  1)"), "{answer}");
    let execute = || vec![int("", false, Value::Int(1)), int("", false, Value::Int(6))];
    assert!(call(&mut s, "sp_execute", execute()).contains("ROW(6)"));
    call(&mut s, "sp_unprepare", vec![int("", false, Value::Int(1))]);
    assert!(call(&mut s, "sp_execute", execute()).starts_with("ERROR(8179"));
}

/// Source: MS-TDS 2.2.5.5.5.1, TVP_TYPENAME, whose parts are texts that may be empty: clients that call a procedure by
/// name know its types no more than their users say, and send none.
#[test]
fn a_table_without_a_type_takes_that_of_the_parameter() {
    let (engine, mut s) = session();
    s.check(
        "CREATE TYPE dbo.list AS TABLE (id int NOT NULL PRIMARY KEY, name nvarchar(3) NOT NULL) => ok
         CREATE PROCEDURE dbo.p @n int, @list dbo.list READONLY AS SELECT id, name FROM @list => ok",
    );
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
    let two = || table(vec![row(2, "b"), row(1, "a")]);
    let found = "ROW(1, 'a') | ROW(2, 'b')";
    assert!(call(&mut s, "dbo.p", vec![n(), two()]).contains(found));
    let text_of = |sql: &str, parameters: &str| vec![text(sql), text(parameters)];
    let select = text_of("SELECT id, name FROM @list", "@list dbo.list READONLY");
    assert!(call(&mut s, "sp_executesql", [select, vec![two()]].concat()).contains(found));
    let into_no_table = RpcParameter { name: Some("@n".into()), ..two() };
    let failing = |sql: &str| text_of(sql, "@list dbo.list READONLY, @n int");
    for (procedure, parameters, error) in [
        ("dbo.p", vec![table(vec![row(1, "x"), row(1, "y")])], "ERROR(2627"),
        ("dbo.p", vec![table(vec![row(1, "long")])], "ERROR(2628"),
        ("dbo.p", vec![table(vec![vec![Value::Null, Value::Null]])], "ERROR(515"),
        ("dbo.p", vec![into_no_table], "ERROR(59000"),
        ("dbo.p", vec![two()], "ERROR(201"),
        ("sp_executesql", [failing("SELECT 1"), vec![two()]].concat(), "ERROR(8178"),
        ("sp_executesql", [failing("SELECT FROM"), vec![two(), n()]].concat(), "ERROR(156"),
    ] {
        let answer = call(&mut s, procedure, parameters);
        assert!(answer.starts_with(error), "{answer}");
        assert_eq!(s.own_tables.count(), 0, "a call that fails leaves no table behind: {error}");
    }
    s.check("CREATE LOGIN web WITH PASSWORD = 'web'; CREATE USER web; GRANT EXECUTE ON dbo.p TO web");
    let mut web = login(&engine, "web", "web");
    assert!(call(&mut web, "dbo.p", vec![n(), two()]).starts_with("ERROR(229"));
    s.check("GRANT EXECUTE ON TYPE::dbo.list TO web");
    assert!(call(&mut web, "dbo.p", vec![n(), two()]).contains(found));
}

#[test]
fn several_results_come_before_the_outputs_and_the_status() {
    let (_e, mut s) = session();
    s.check(
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, payload varbinary(max) NULL);
             INSERT t VALUES (1, 0x0102), (2, 0x03) => ok
         CREATE PROCEDURE p @more bit OUTPUT, @bytes bigint OUTPUT AS
             SET NOCOUNT ON;
             DECLARE @found TABLE (id int, bytes bigint);
             UPDATE t SET payload = 0x040506
             OUTPUT inserted.id, DATALENGTH(inserted.payload) INTO @found (id, bytes)
             OUTPUT deleted.id, DATALENGTH(deleted.payload) AS bytes;
             SELECT id FROM @found ORDER BY id;
             SELECT @more = 1, @bytes = SUM(bytes) FROM @found;
             RETURN 2 => ok",
    );
    let big = parameter("@bytes", true, SqlType::BigInt, Value::Null);
    let bit = parameter("@more", true, SqlType::Bit, Value::Null);
    assert_eq!(
        call(&mut s, "p", vec![bit, big]),
        "COLMETADATA(id Int, bytes BigInt) | ROW(1, BigInt(2)) | ROW(2, BigInt(1)) | DONEINPROC(more) | \
         COLMETADATA(id Int) | ORDER(1) | ROW(1) | ROW(2) | DONEINPROC(more) | RETURNSTATUS(2) | \
         RETURNVALUE(0 @more Bit(true)) | RETURNVALUE(1 @bytes BigInt(6)) | DONEPROC()"
    );
}

/// Source: MS-TDS 2.2.7.18, RETURNSTATUS, which also carries the status of a procedure that a batch executes.
#[test]
fn a_batch_that_executes_a_procedure_gets_its_status_too() {
    check(
        "CREATE PROCEDURE inner_p AS RETURN 4 => ok
         CREATE PROCEDURE p AS EXEC inner_p; RETURN 3 => ok
         EXEC p => tokens RETURNSTATUS(3) | DONEPROC()
         DECLARE @r int; EXEC @r = p; EXEC sp_executesql N'PRINT 1'; SELECT @r => tokens RETURNSTATUS(3)
             | DONEPROC(more) | INFO(0, 1) | RETURNSTATUS(0) | DONEPROC(more) | COLMETADATA( Int) | ROW(3)
             | DONE(count=1)
         -- Text is no procedure, and what INSERT … EXEC runs answers the INSERT.
         EXEC ('PRINT 1') => tokens INFO(0, 1) | DONEPROC()
         DECLARE @t TABLE (a int); INSERT @t EXEC inner_p => tokens DONE(count=0)",
    );
}

/// The client must know that its transaction is gone: each request names the one that it is in.
#[test]
fn a_reset_by_call_tells_of_the_rollback() {
    let (_e, mut s) = session();
    s.check("CREATE TABLE t (a int)");
    let mut writer = ResponseWriter::for_test();
    s.run_batch("BEGIN TRAN; INSERT t VALUES (1)", &mut writer);
    assert_ne!(writer.transaction_descriptor(), 0);
    let reset = || RpcCall { procedure: "sp_reset_connection".to_owned(), parameters: Vec::new() };
    s.run_rpc(reset(), &mut writer);
    assert_eq!(writer.transaction_descriptor(), 0);
    assert!(writer.tokens().contains(&"ENVCHANGE(10)".to_owned()));
    s.check("SELECT @@TRANCOUNT, COUNT(*) FROM t => 0, 0");
    assert_eq!(call(&mut s, "sp_reset_connection", Vec::new()), "RETURNSTATUS(0) | DONEPROC()", "there was none");
}
