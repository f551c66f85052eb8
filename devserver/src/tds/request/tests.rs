use crate::error::{NOT_SUPPORTED, SqlResult};
use crate::tds::packet::{Message, PacketType, Reset, put_b_varchar, put_us_varchar, put_utf16};
use crate::tds::request::call::{BeginTransaction, Request, RpcCall, RpcValue, TransactionRequest};
use crate::tds::request::decode::{BATCH_SEPARATOR, NO_EXECUTE_SEPARATOR, PARAMETER_BY_REF, PARAMETER_DEFAULT, decode};
use crate::tds::request::table::{TABLE_END, TABLE_ROW};
use crate::tds::wire_type::number::TABLE_TYPE;
use crate::tsql::ast::IsolationLevel;
use crate::value::{Length, SqlType, Value};

const HEADERS: [u8; 22] = [22, 0, 0, 0, 18, 0, 0, 0, 2, 0, 1, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];

fn message(packet_type: PacketType, body: &[u8]) -> Message {
    let payload = [&HEADERS[..], body].concat();
    Message { packet_type, reset: Reset::No, ignored: false, payload }
}

fn utf16(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_utf16(&mut bytes, text);
    bytes
}

fn call_by_name(name: &str) -> Vec<u8> {
    let mut body = Vec::new();
    put_us_varchar(&mut body, name, u16::MAX);
    body.extend_from_slice(&[0, 0]);
    body
}

fn parameter(name: &str, status: u8, type_and_value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_b_varchar(&mut bytes, name);
    bytes.push(status);
    bytes.extend_from_slice(type_and_value);
    bytes
}

fn calls(body: &[u8]) -> SqlResult<Vec<RpcCall>> {
    match decode(&message(PacketType::Rpc, body))?.request {
        Request::Calls(calls) => Ok(calls),
        other => panic!("{other:?}"),
    }
}

/// `readpast.finish @worker bigint, @done bit OUTPUT, @items item_table, @late <default>` with two rows.
fn rich_call() -> Vec<u8> {
    let mut body = call_by_name("readpast.finish");
    body.extend(parameter("@worker", 0, &[0x26, 8, 8, 5, 0, 0, 0, 0, 0, 0, 0]));
    body.extend(parameter("", PARAMETER_BY_REF, &[0x68, 1, 0]));
    let mut table = vec![TABLE_TYPE, 0];
    put_b_varchar(&mut table, "readpast");
    put_b_varchar(&mut table, "item");
    table.extend_from_slice(&[2, 0]);
    table.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0x26, 4, 0]);
    table.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0xE7, 20, 0, 0, 0, 0, 0, 0, 0]);
    table.push(TABLE_END);
    table.extend_from_slice(&[TABLE_ROW, 4, 7, 0, 0, 0, 4, 0, b'a', 0, b'b', 0]);
    table.extend_from_slice(&[TABLE_ROW, 0, 0xFF, 0xFF]);
    table.push(TABLE_END);
    body.extend(parameter("@items", 0, &table));
    body.extend(parameter("@late", PARAMETER_DEFAULT, &[0x26, 4, 0]));
    body
}

#[test]
fn a_batch_is_read_with_its_transaction() {
    let request = decode(&message(PacketType::SqlBatch, &utf16("SELECT N'ü'"))).unwrap();
    assert_eq!(request.request, Request::Batch("SELECT N'ü'".to_owned()));
    assert_eq!(request.transaction_descriptor, 0x0201);
}

#[test]
fn a_call_is_read_with_outputs_defaults_and_a_table() {
    let calls = calls(&rich_call()).unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].procedure, "readpast.finish");
    let [worker, done, items, late] = &calls[0].parameters[..] else { panic!("{calls:?}") };
    assert_eq!(worker.name.as_deref(), Some("@worker"));
    assert_eq!(worker.value, RpcValue::Scalar { sql_type: SqlType::BigInt, value: Value::BigInt(5) });
    assert_eq!((&done.name, done.by_ref), (&None, true));
    assert_eq!(done.value, RpcValue::Scalar { sql_type: SqlType::Bit, value: Value::Null });
    assert_eq!(late.value, RpcValue::Default { sql_type: Some(SqlType::Int) });
    assert_eq!(
        items.value,
        RpcValue::Table {
            type_schema: Some("readpast".to_owned()),
            type_name: "item".to_owned(),
            columns: vec![SqlType::Int, SqlType::NVarChar(Length::Limit(10))],
            rows: vec![vec![Value::Int(7), Value::String("ab".into())], vec![Value::Null, Value::Null],],
        }
    );
}

#[test]
fn calls_by_number_and_several_calls_are_read() {
    let mut body = vec![0xFF, 0xFF, 10, 0, 2, 0];
    body.extend(parameter("", 0, &[0x1F]));
    body.push(BATCH_SEPARATOR);
    body.extend(call_by_name("p"));
    body.push(BATCH_SEPARATOR);
    let calls = calls(&body).unwrap();
    assert_eq!(calls[0].procedure, "sp_executesql");
    assert_eq!(calls[0].parameters[0].value, RpcValue::UntypedNull);
    assert_eq!(calls[1].procedure, "p");
}

#[test]
fn what_is_not_known_is_refused() {
    let number = |body: &[u8]| calls(body).unwrap_err().number;
    assert_eq!(number(&[0xFF, 0xFF, 2, 0, 0, 0]), NOT_SUPPORTED, "sp_cursoropen");
    assert_eq!(number(&[call_by_name("p"), vec![NO_EXECUTE_SEPARATOR]].concat()), NOT_SUPPORTED);
    let with = |type_and_value: &[u8]| [call_by_name("p"), parameter("@a", 0, type_and_value)].concat();
    assert_eq!(number(&with(&[0xF1, 0])), NOT_SUPPORTED, "xml");
    assert_eq!(number(&with(&[0x99])), 4002, "an unknown type");
    assert_eq!(number(&with(&[0x26, 3])), 4002, "an int of three bytes");
    let error = calls(&with(&[0x28, 3, 0xFF, 0xFF, 0xFF])).unwrap_err();
    assert_eq!(error.number, 8023);
    assert!(error.message.contains("Parameter 1 (\"@a\"): The supplied value is not a valid"), "{error}");
    let many = [call_by_name("p"), parameter("", 0, &[0x1F]).repeat(2101)].concat();
    assert_eq!(number(&many), 8003);
}

#[test]
fn transaction_requests_are_read() {
    let read = |body: &[u8]| decode(&message(PacketType::TransactionManager, body)).map(|request| request.request);
    let begin = BeginTransaction { isolation: Some(IsolationLevel::Serializable), name: "ab".to_owned() };
    assert_eq!(
        read(&[5, 0, 4, 4, b'a', 0, b'b', 0]).unwrap(),
        Request::Transaction(TransactionRequest::Begin(begin.clone()))
    );
    assert_eq!(
        read(&[7, 0, 0, 0]).unwrap(),
        Request::Transaction(TransactionRequest::Commit { name: String::new(), then_begin: None })
    );
    assert_eq!(
        read(&[8, 0, 0, 1, 4, 4, b'a', 0, b'b', 0]).unwrap(),
        Request::Transaction(TransactionRequest::Rollback { name: String::new(), then_begin: Some(begin) })
    );
    assert_eq!(
        read(&[9, 0, 2, b's', 0]).unwrap(),
        Request::Transaction(TransactionRequest::Save { name: "s".to_owned() })
    );
    assert_eq!(read(&[0, 0]).unwrap_err().number, NOT_SUPPORTED);
    assert_eq!(read(&[5, 0, 9, 0]).unwrap_err().number, NOT_SUPPORTED);
    assert_eq!(read(&[9, 0, 2, b'a', 0, b'b', 0]).unwrap_err().number, 4002, "a length in characters");
}

#[test]
fn truncated_requests_are_refused() {
    let transaction = [8, 0, 0, 1, 4, 4, b'a', 0, b'b', 0];
    for (packet_type, body) in [(PacketType::Rpc, &rich_call()[..]), (PacketType::TransactionManager, &transaction)] {
        let whole = message(packet_type, body);
        let mut accepted = Vec::new();
        for length in 0..whole.payload.len() {
            let payload = whole.payload[..length].to_vec();
            if decode(&Message { payload, packet_type, reset: Reset::No, ignored: false }).is_ok() {
                accepted.push(length);
            }
        }
        // A call may end after each of its parameters.
        let ends = if packet_type == PacketType::Rpc { 4 } else { 0 };
        assert_eq!(accepted.len(), ends, "{accepted:?}");
    }
}

#[test]
fn rows_without_bytes_do_not_fill_the_memory() {
    let mut table = vec![TABLE_TYPE, 0, 0, 0, 0, 4];
    table.extend([0, 0, 0, 0, 0, 2, 0x30, 0].repeat(1024));
    table.push(TABLE_END);
    table.extend(vec![TABLE_ROW; 20_000]);
    table.push(TABLE_END);
    let body = [call_by_name("p"), parameter("@t", 0, &table)].concat();
    assert_eq!(calls(&body).unwrap_err().number, NOT_SUPPORTED);
}
