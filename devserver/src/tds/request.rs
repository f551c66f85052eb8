//! What a client asks for after the login: SQL batches, remote procedure calls, transaction requests.
//!
//! [`decode`] takes a whole message apart; nothing in it runs before all of it was understood.
//! Source: MS-TDS, "2.2.6.6 RPC Request", "2.2.6.7 SQLBatch", "2.2.6.9 Transaction Manager Request".

use super::packet::{Message, PacketType, PayloadReader, ReadError, decode_utf16};
use super::wire_type::{TABLE_TYPE, WireType, read_type_info, read_value};
use crate::error::{SqlError, SqlResult};
use crate::value::{SqlType, Value};

const HEADER_QUERY_NOTIFICATIONS: u16 = 1;
const HEADER_TRANSACTION_DESCRIPTOR: u16 = 2;
const HEADER_TRACE_ACTIVITY: u16 = 3;

/// A call by number instead of by name.
const PROCEDURE_ID_SWITCH: u16 = 0xFFFF;

const OPTION_NO_METADATA: u16 = 0x0002;
const OPTION_REUSE_METADATA: u16 = 0x0004;

const PARAMETER_BY_REF: u8 = 0x01;
const PARAMETER_DEFAULT: u8 = 0x02;
const PARAMETER_ENCRYPTED: u8 = 0x08;

/// Between the calls of one message. Both are no lengths of a parameter name, which has at most 128 characters.
const BATCH_SEPARATOR: u8 = 0xFF;
const NO_EXECUTE_SEPARATOR: u8 = 0xFE;

/// SQL Server's limit of parameters in a call (error 8003).
const MAX_PARAMETERS: usize = 2100;

const TABLE_NULL: u16 = 0xFFFF;
const TABLE_END: u8 = 0x00;
const TABLE_ROW: u8 = 0x01;
const TABLE_ORDER_UNIQUE: u8 = 0x10;
const TABLE_COLUMN_ORDER: u8 = 0x11;
const COLUMN_DEFAULT: u16 = 0x0200;

/// SQL Server's limit of columns in a table.
const MAX_COLUMNS: usize = 1024;

/// Columns that are all default cost no bytes on the wire but memory here; this many cells are refused.
const MAX_TABLE_CELLS: usize = 16_000_000;

/// The names for the procedure numbers of MS-TDS 2.2.6.6 that are cursors'.
const LAST_CURSOR_PROCEDURE: u16 = 9;
const SP_PREP_EXEC_RPC: u16 = 14;
const SP_UNPREPARE: u16 = 15;

/// A message's content.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Batch(String),
    Calls(Vec<RpcCall>),
    Transaction(TransactionRequest),
}

/// A request, and the transaction the client believes to be in (0: none).
#[derive(Debug, Clone, PartialEq)]
pub struct ClientRequest {
    pub request: Request,
    pub transaction_descriptor: u64,
}

/// One remote procedure call; a message may hold several.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcCall {
    pub procedure: RpcProcedure,
    pub parameters: Vec<RpcParameter>,
    /// The client knows the result sets' columns already. Column metadata may be sent all the same.
    pub no_metadata: bool,
}

/// What is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RpcProcedure {
    /// As the client wrote it, for example `readpast.claim` or `[readpast].[claim]`.
    Name(String),
    /// sp_executesql = 10, sp_prepare = 11, sp_execute = 12, sp_prepexec = 13, sp_unprepare = 15. No other number
    /// comes.
    Id(u16),
}

/// A parameter of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcParameter {
    /// With its `@`; `None` for a positional parameter.
    pub name: Option<String>,
    /// OUTPUT.
    pub by_ref: bool,
    pub value: RpcValue,
}

/// What is passed.
#[derive(Debug, Clone, PartialEq)]
pub enum RpcValue {
    /// The parameter's declared default.
    Default,
    /// A NULL without a type: fits a parameter of every type.
    UntypedNull,
    Scalar {
        sql_type: SqlType,
        value: Value,
    },
    /// A table-valued parameter. Without columns there are no rows either: an empty table.
    Table {
        type_schema: Option<String>,
        type_name: String,
        columns: Vec<TableColumn>,
        rows: Vec<Vec<Value>>,
    },
}

/// A column of a table-valued parameter. Of a `default` column the rows hold [`Value::Null`], and the column's declared
/// default (or identity) is to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableColumn {
    pub sql_type: SqlType,
    pub default: bool,
}

/// The isolation level of a transaction request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
    Snapshot,
}

/// The start of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginTransaction {
    /// `None`: the session's current level.
    pub isolation: Option<IsolationLevel>,
    /// Empty: unnamed.
    pub name: String,
}

/// BEGIN, COMMIT, ROLLBACK and SAVE without T-SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionRequest {
    Begin(BeginTransaction),
    Commit { name: String, then_begin: Option<BeginTransaction> },
    Rollback { name: String, then_begin: Option<BeginTransaction> },
    Save { name: String },
}

/// Reads the request in a message.
pub fn decode(message: &Message) -> SqlResult<ClientRequest> {
    let mut reader = PayloadReader::new(&message.payload);
    match message.packet_type {
        PacketType::SqlBatch => {
            let transaction_descriptor = read_headers(&mut reader).map_err(ReadError::into_sql_error)?;
            let text = reader.bytes(reader.remaining()).and_then(decode_utf16).map_err(ReadError::into_sql_error)?;
            Ok(ClientRequest { request: Request::Batch(text), transaction_descriptor })
        }
        PacketType::Rpc => {
            let transaction_descriptor = read_headers(&mut reader).map_err(ReadError::into_sql_error)?;
            let calls = read_calls(&mut reader)?;
            Ok(ClientRequest { request: Request::Calls(calls), transaction_descriptor })
        }
        PacketType::TransactionManager => {
            let transaction_descriptor = read_headers(&mut reader).map_err(ReadError::into_sql_error)?;
            let request = read_transaction_request(&mut reader).map_err(ReadError::into_sql_error)?;
            if reader.remaining() > 0 {
                // A name whose length was given in characters instead of bytes would otherwise be cut in half
                // unnoticed.
                return Err(ReadError::Truncated.into_sql_error());
            }
            Ok(ClientRequest { request: Request::Transaction(request), transaction_descriptor })
        }
        PacketType::BulkLoad => Err(SqlError::not_supported("bulk load")),
        other => Err(SqlError::not_supported(format_args!("a {other:?} message after the login"))),
    }
}

/// ALL_HEADERS; gives the transaction descriptor.
fn read_headers(reader: &mut PayloadReader<'_>) -> Result<u64, ReadError> {
    let total = length_without(reader.u32()?, 4)?;
    let mut headers = PayloadReader::new(reader.bytes(total)?);
    let mut transaction_descriptor = 0;
    while headers.remaining() > 0 {
        let length = length_without(headers.u32()?, 4)?;
        let mut header = PayloadReader::new(headers.bytes(length)?);
        match header.u16()? {
            HEADER_TRANSACTION_DESCRIPTOR => transaction_descriptor = header.u64()?,
            HEADER_TRACE_ACTIVITY => {}
            HEADER_QUERY_NOTIFICATIONS => return Err(ReadError::NotSupported("query notifications".to_owned())),
            other => return Err(ReadError::NotSupported(format!("request header {other}"))),
        }
    }
    Ok(transaction_descriptor)
}

/// A length that counts itself, without itself.
fn length_without(length: u32, own_size: usize) -> Result<usize, ReadError> {
    usize::try_from(length).ok().and_then(|length| length.checked_sub(own_size)).ok_or(ReadError::Truncated)
}

fn read_calls(reader: &mut PayloadReader<'_>) -> SqlResult<Vec<RpcCall>> {
    let mut calls = Vec::new();
    while reader.remaining() > 0 {
        calls.push(read_call(reader)?);
    }
    if calls.is_empty() {
        return Err(ReadError::Truncated.into_sql_error());
    }
    Ok(calls)
}

fn read_call(reader: &mut PayloadReader<'_>) -> SqlResult<RpcCall> {
    let procedure = read_procedure(reader).map_err(ReadError::into_sql_error)?;
    let options = reader.u16().map_err(ReadError::into_sql_error)?;
    if options & OPTION_REUSE_METADATA != 0 {
        return Err(SqlError::not_supported("a remote procedure call that reuses metadata"));
    }
    let mut parameters = Vec::new();
    loop {
        match reader.peek() {
            None => break,
            Some(BATCH_SEPARATOR) => {
                reader.u8().map_err(ReadError::into_sql_error)?;
                break;
            }
            Some(NO_EXECUTE_SEPARATOR) => {
                return Err(SqlError::not_supported("a remote procedure call that is not to be executed"));
            }
            Some(_) => {}
        }
        let number = parameters.len() + 1;
        if number > MAX_PARAMETERS {
            let message = format!(
                "The incoming request has too many parameters. The server supports a maximum of {MAX_PARAMETERS} \
                 parameters. Reduce the number of parameters and resend the request."
            );
            return Err(SqlError::new(8003, message));
        }
        let name = reader.b_varchar().map_err(|error| parameter_error(error, number, ""))?;
        let parameter = read_parameter(reader, &name).map_err(|error| parameter_error(error, number, &name))?;
        parameters.push(parameter);
    }
    Ok(RpcCall { procedure, parameters, no_metadata: options & OPTION_NO_METADATA != 0 })
}

fn read_procedure(reader: &mut PayloadReader<'_>) -> Result<RpcProcedure, ReadError> {
    let mut ahead = reader.clone();
    if ahead.u16()? != PROCEDURE_ID_SWITCH {
        return Ok(RpcProcedure::Name(reader.us_varchar()?));
    }
    *reader = ahead;
    match reader.u16()? {
        1..=LAST_CURSOR_PROCEDURE => Err(ReadError::NotSupported("server cursors".to_owned())),
        SP_PREP_EXEC_RPC => Err(ReadError::NotSupported("sp_prepexecrpc".to_owned())),
        id @ 10..=SP_UNPREPARE => Ok(RpcProcedure::Id(id)),
        id => Err(ReadError::NotSupported(format!("the procedure number {id}"))),
    }
}

fn read_parameter(reader: &mut PayloadReader<'_>, name: &str) -> Result<RpcParameter, ReadError> {
    let status = reader.u8()?;
    if status & PARAMETER_ENCRYPTED != 0 {
        return Err(ReadError::NotSupported("Always Encrypted".to_owned()));
    }
    let name = if name.is_empty() { None } else { Some(name.to_owned()) };
    let by_ref = status & PARAMETER_BY_REF != 0;
    let is_default = status & PARAMETER_DEFAULT != 0;
    let value = if reader.peek() == Some(TABLE_TYPE) {
        reader.u8()?;
        read_table(reader)?
    } else {
        let wire_type = read_type_info(reader)?;
        let value = read_value(reader, &wire_type)?;
        if wire_type.is_untyped_null() {
            RpcValue::UntypedNull
        } else {
            RpcValue::Scalar { sql_type: wire_type.sql_type, value }
        }
    };
    let value = if is_default { RpcValue::Default } else { value };
    Ok(RpcParameter { name, by_ref, value })
}

/// SQL Server's errors for parameters it cannot read ("Database Engine events and errors", 8009 to 8023).
fn parameter_error(error: ReadError, number: usize, name: &str) -> SqlError {
    let place = format!(
        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is incorrect. \
         Parameter {number} (\"{name}\"): "
    );
    match error {
        ReadError::Truncated | ReadError::NotSupported(_) => error.into_sql_error(),
        ReadError::UnknownType(type_byte) => {
            SqlError::new(8009, format!("{place}Data type 0x{type_byte:02X} is unknown."))
        }
        ReadError::InvalidLength(type_byte) => SqlError::new(
            8016,
            format!("{place}Data type 0x{type_byte:02X} has an invalid data length or metadata length."),
        ),
        ReadError::InvalidValue(type_byte) => SqlError::new(
            8023,
            format!(
                "{place}The supplied value is not a valid instance of data type 0x{type_byte:02X}. Check the source \
                 data for invalid values. An example of an invalid value is data of numeric type with scale greater \
                 than precision."
            ),
        ),
    }
}

/// A table-valued parameter after its type byte (MS-TDS 2.2.5.5.5).
fn read_table(reader: &mut PayloadReader<'_>) -> Result<RpcValue, ReadError> {
    let database = reader.b_varchar()?;
    if !database.is_empty() {
        return Err(ReadError::NotSupported("a table type with a database name".to_owned()));
    }
    let type_schema = Some(reader.b_varchar()?).filter(|schema| !schema.is_empty());
    let type_name = reader.b_varchar()?;
    let columns = read_table_columns(reader)?;
    let order = read_table_options(reader, &columns)?;

    let mut rows = Vec::new();
    loop {
        match reader.u8()? {
            TABLE_END => break,
            TABLE_ROW => {}
            _ => return Err(ReadError::InvalidLength(TABLE_TYPE)),
        }
        if columns.is_empty() || rows.len() * columns.len() >= MAX_TABLE_CELLS {
            return Err(ReadError::NotSupported(format!(
                "a table-valued parameter of {} rows and {} columns",
                rows.len() + 1,
                columns.len()
            )));
        }
        let mut row = vec![Value::Null; columns.len()];
        for &index in &order {
            row[index] = read_value(reader, &columns[index].0)?;
        }
        rows.push(row);
    }
    let columns =
        columns.into_iter().map(|(wire_type, default)| TableColumn { sql_type: wire_type.sql_type, default }).collect();
    Ok(RpcValue::Table { type_schema, type_name, columns, rows })
}

/// TVP_COLMETADATA: type and "is default" of each column.
fn read_table_columns(reader: &mut PayloadReader<'_>) -> Result<Vec<(WireType, bool)>, ReadError> {
    let count = reader.u16()?;
    if count == TABLE_NULL {
        return Ok(Vec::new());
    }
    if usize::from(count) > MAX_COLUMNS {
        return Err(ReadError::InvalidLength(TABLE_TYPE));
    }
    let mut columns = Vec::new();
    for _ in 0..count {
        let _user_type = reader.u32()?;
        let flags = reader.u16()?;
        let wire_type = read_type_info(reader)?;
        let _name = reader.b_varchar()?;
        columns.push((wire_type, flags & COLUMN_DEFAULT != 0));
    }
    Ok(columns)
}

/// The optional parts between columns and rows. Gives the columns that each row carries, in the order it does.
fn read_table_options(reader: &mut PayloadReader<'_>, columns: &[(WireType, bool)]) -> Result<Vec<usize>, ReadError> {
    let mut order: Vec<usize> = (0..columns.len()).collect();
    loop {
        match reader.u8()? {
            TABLE_END => break,
            // What the client promises about order and uniqueness helps a plan and changes no result.
            TABLE_ORDER_UNIQUE => {
                let count = usize::from(reader.u16()?);
                reader.bytes(count * 3)?;
            }
            TABLE_COLUMN_ORDER => {
                order = read_column_order(reader, columns.len())?;
            }
            _ => return Err(ReadError::InvalidLength(TABLE_TYPE)),
        }
    }
    order.retain(|index| !columns[*index].1);
    Ok(order)
}

fn read_column_order(reader: &mut PayloadReader<'_>, column_count: usize) -> Result<Vec<usize>, ReadError> {
    let count = usize::from(reader.u16()?);
    if count != column_count {
        return Err(ReadError::InvalidLength(TABLE_TYPE));
    }
    let mut order = Vec::new();
    for _ in 0..count {
        let index = usize::from(reader.u16()?).checked_sub(1).ok_or(ReadError::InvalidLength(TABLE_TYPE))?;
        if index >= column_count || order.contains(&index) {
            return Err(ReadError::InvalidLength(TABLE_TYPE));
        }
        order.push(index);
    }
    Ok(order)
}

fn read_transaction_request(reader: &mut PayloadReader<'_>) -> Result<TransactionRequest, ReadError> {
    const BEGIN: u16 = 5;
    const COMMIT: u16 = 7;
    const ROLLBACK: u16 = 8;
    const SAVE: u16 = 9;
    match reader.u16()? {
        BEGIN => Ok(TransactionRequest::Begin(read_begin(reader)?)),
        COMMIT => {
            let name = read_transaction_name(reader)?;
            Ok(TransactionRequest::Commit { name, then_begin: read_then_begin(reader)? })
        }
        ROLLBACK => {
            let name = read_transaction_name(reader)?;
            Ok(TransactionRequest::Rollback { name, then_begin: read_then_begin(reader)? })
        }
        SAVE => Ok(TransactionRequest::Save { name: read_transaction_name(reader)? }),
        0 | 1 | 6 => Err(ReadError::NotSupported("distributed transactions".to_owned())),
        other => Err(ReadError::NotSupported(format!("transaction request {other}"))),
    }
}

fn read_begin(reader: &mut PayloadReader<'_>) -> Result<BeginTransaction, ReadError> {
    let isolation = match reader.u8()? {
        0 => None,
        1 => Some(IsolationLevel::ReadUncommitted),
        2 => Some(IsolationLevel::ReadCommitted),
        3 => Some(IsolationLevel::RepeatableRead),
        4 => Some(IsolationLevel::Serializable),
        5 => Some(IsolationLevel::Snapshot),
        other => return Err(ReadError::NotSupported(format!("isolation level {other}"))),
    };
    Ok(BeginTransaction { isolation, name: read_transaction_name(reader)? })
}

/// The flag "begin the next transaction at once", and how.
fn read_then_begin(reader: &mut PayloadReader<'_>) -> Result<Option<BeginTransaction>, ReadError> {
    const BEGIN_NEXT: u8 = 0x01;
    if reader.u8()? & BEGIN_NEXT == 0 {
        return Ok(None);
    }
    Ok(Some(read_begin(reader)?))
}

/// B_VARBYTE: the length is in bytes, unlike everywhere else.
fn read_transaction_name(reader: &mut PayloadReader<'_>) -> Result<String, ReadError> {
    let length = usize::from(reader.u8()?);
    reader.bytes(length).and_then(decode_utf16)
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Reset, put_b_varchar, put_us_varchar, put_utf16};
    use super::*;
    use crate::error::NOT_SUPPORTED;
    use crate::value::Length;

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
        table.extend_from_slice(&[3, 0]);
        table.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0x26, 4, 0]);
        table.extend_from_slice(&[0, 0, 0, 0, 0, 2, 0x24, 16, 0]);
        table.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0xE7, 20, 0, 0, 0, 0, 0, 0, 0]);
        table.extend_from_slice(&[TABLE_ORDER_UNIQUE, 1, 0, 1, 0, 5]);
        table.extend_from_slice(&[TABLE_COLUMN_ORDER, 3, 0, 3, 0, 2, 0, 1, 0]);
        table.push(TABLE_END);
        table.extend_from_slice(&[TABLE_ROW, 4, 0, b'a', 0, b'b', 0, 4, 7, 0, 0, 0]);
        table.extend_from_slice(&[TABLE_ROW, 0xFF, 0xFF, 0]);
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
        assert_eq!(calls[0].procedure, RpcProcedure::Name("readpast.finish".to_owned()));
        let [worker, done, items, late] = &calls[0].parameters[..] else { panic!("{calls:?}") };
        assert_eq!(worker.name.as_deref(), Some("@worker"));
        assert_eq!(worker.value, RpcValue::Scalar { sql_type: SqlType::BigInt, value: Value::BigInt(5) });
        assert_eq!((&done.name, done.by_ref), (&None, true));
        assert_eq!(done.value, RpcValue::Scalar { sql_type: SqlType::Bit, value: Value::Null });
        assert_eq!(late.value, RpcValue::Default);
        let column = |sql_type, default| TableColumn { sql_type, default };
        assert_eq!(
            items.value,
            RpcValue::Table {
                type_schema: Some("readpast".to_owned()),
                type_name: "item".to_owned(),
                columns: vec![
                    column(SqlType::Int, false),
                    column(SqlType::UniqueIdentifier, true),
                    column(SqlType::NVarChar(Length::Limit(10)), false),
                ],
                rows: vec![
                    vec![Value::Int(7), Value::Null, Value::String("ab".into())],
                    vec![Value::Null, Value::Null, Value::Null],
                ],
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
        assert_eq!(calls[0].procedure, RpcProcedure::Id(10));
        assert!(calls[0].no_metadata);
        assert_eq!(calls[0].parameters[0].value, RpcValue::UntypedNull);
        assert_eq!(calls[1].procedure, RpcProcedure::Name("p".to_owned()));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let number = |body: &[u8]| calls(body).unwrap_err().number;
        assert_eq!(number(&[0xFF, 0xFF, 2, 0, 0, 0]), NOT_SUPPORTED, "sp_cursoropen");
        assert_eq!(number(&[call_by_name("p"), vec![NO_EXECUTE_SEPARATOR]].concat()), NOT_SUPPORTED);
        let with = |type_and_value: &[u8]| [call_by_name("p"), parameter("@a", 0, type_and_value)].concat();
        assert_eq!(number(&with(&[0xF1, 0])), NOT_SUPPORTED, "xml");
        assert_eq!(number(&with(&[0x99])), 8009);
        assert_eq!(number(&with(&[0x26, 3])), 8016);
        assert_eq!(number(&with(&[0x28, 3, 0xFF, 0xFF, 0xFF])), 8023);
        let error = calls(&with(&[0x26, 3])).unwrap_err();
        assert!(error.message.contains("Parameter 1 (\"@a\"): Data type 0x26 has an invalid"), "{error}");
        let many = [call_by_name("p"), parameter("", 0, &[0x1F]).repeat(2101)].concat();
        assert_eq!(number(&many), 8003);
        let bulk = message(PacketType::BulkLoad, &[]);
        assert_eq!(decode(&bulk).unwrap_err().number, NOT_SUPPORTED);
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
        for (packet_type, body) in [(PacketType::Rpc, &rich_call()[..]), (PacketType::TransactionManager, &transaction)]
        {
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
}
