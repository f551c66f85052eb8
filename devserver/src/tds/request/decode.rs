//! A message into a request: its headers, the text of a batch, the calls and their parameters.

use crate::error::{SqlError, SqlResult};
use crate::tds::packet::{Message, PacketType, PayloadReader, ReadError, decode_utf16};
use crate::tds::request::call::{ClientRequest, Request, RpcCall, RpcParameter, RpcValue};
use crate::tds::request::table::read_table;
use crate::tds::request::transaction::read_transaction_request;
use crate::tds::wire_type::number::TABLE_TYPE;
use crate::tds::wire_type::read::{read_type_info, read_value};

const HEADER_QUERY_NOTIFICATIONS: u16 = 1;
const HEADER_TRANSACTION_DESCRIPTOR: u16 = 2;
const HEADER_TRACE_ACTIVITY: u16 = 3;

/// A call by number instead of by name.
const PROCEDURE_ID_SWITCH: u16 = 0xFFFF;

/// The one option that counts. A client that knows the columns of the results may get them all the same.
const OPTION_REUSE_METADATA: u16 = 0x0004;

pub(super) const PARAMETER_BY_REF: u8 = 0x01;
pub(super) const PARAMETER_DEFAULT: u8 = 0x02;
const PARAMETER_ENCRYPTED: u8 = 0x08;

/// Between the calls of one message. Both are no lengths of a parameter name, which has at most 128 characters.
pub(super) const BATCH_SEPARATOR: u8 = 0xFF;
pub(super) const NO_EXECUTE_SEPARATOR: u8 = 0xFE;

/// SQL Server's limit of parameters in a call (error 8003).
const MAX_PARAMETERS: usize = 2100;

/// Reads the request in a message.
pub fn decode(message: &Message) -> SqlResult<ClientRequest> {
    let mut reader = PayloadReader::new(&message.payload);
    let transaction_descriptor = read_headers(&mut reader)?;
    let request = match message.packet_type {
        PacketType::SqlBatch => Request::Batch(reader.bytes(reader.remaining()).and_then(decode_utf16)?),
        PacketType::Rpc => Request::Calls(read_calls(&mut reader)?),
        PacketType::TransactionManager => {
            let request = read_transaction_request(&mut reader)?;
            if reader.remaining() > 0 {
                // A name whose length was given in characters instead of bytes would otherwise be cut in half
                // unnoticed.
                return Err(ReadError::Malformed.into());
            }
            Request::Transaction(request)
        }
        other => return Err(SqlError::not_supported(format_args!("a {other:?} message after the login"))),
    };
    Ok(ClientRequest { request, transaction_descriptor })
}

/// ALL_HEADERS; gives the transaction descriptor.
fn read_headers(reader: &mut PayloadReader<'_>) -> Result<u64, ReadError> {
    let mut headers = read_block(reader)?;
    let mut transaction_descriptor = 0;
    while headers.remaining() > 0 {
        let mut header = read_block(&mut headers)?;
        match header.u16()? {
            HEADER_TRANSACTION_DESCRIPTOR => transaction_descriptor = header.u64()?,
            HEADER_TRACE_ACTIVITY => {}
            HEADER_QUERY_NOTIFICATIONS => return Err(ReadError::NotSupported("query notifications".to_owned())),
            other => return Err(ReadError::NotSupported(format!("request header {other}"))),
        }
    }
    Ok(transaction_descriptor)
}

/// What stands behind a length that counts itself.
fn read_block<'a>(reader: &mut PayloadReader<'a>) -> Result<PayloadReader<'a>, ReadError> {
    let length = usize::try_from(reader.u32()?).ok().and_then(|length| length.checked_sub(4));
    reader.bytes(length.ok_or(ReadError::Malformed)?).map(PayloadReader::new)
}

fn read_calls(reader: &mut PayloadReader<'_>) -> SqlResult<Vec<RpcCall>> {
    let mut calls = Vec::new();
    while reader.remaining() > 0 {
        calls.push(read_call(reader)?);
    }
    if calls.is_empty() {
        return Err(ReadError::Malformed.into());
    }
    Ok(calls)
}

fn read_call(reader: &mut PayloadReader<'_>) -> SqlResult<RpcCall> {
    let procedure = read_procedure(reader)?;
    let options = reader.u16()?;
    if options & OPTION_REUSE_METADATA != 0 {
        return Err(SqlError::not_supported("a remote procedure call that reuses metadata"));
    }
    let mut parameters = Vec::new();
    loop {
        match reader.peek() {
            None => break,
            Some(BATCH_SEPARATOR) => {
                reader.u8()?;
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
        let name = reader.b_varchar()?;
        let parameter = read_parameter(reader, &name).map_err(|error| parameter_error(error, number, &name))?;
        parameters.push(parameter);
    }
    Ok(RpcCall { procedure, parameters })
}

/// The name of the procedure, also where it came as a number.
fn read_procedure(reader: &mut PayloadReader<'_>) -> Result<String, ReadError> {
    let length = reader.u16()?;
    if length != PROCEDURE_ID_SWITCH {
        return reader.text(usize::from(length));
    }
    let name = match reader.u16()? {
        1..=9 => return Err(ReadError::NotSupported("server cursors".to_owned())),
        10 => "sp_executesql",
        11 => "sp_prepare",
        12 => "sp_execute",
        13 => "sp_prepexec",
        15 => "sp_unprepare",
        id => return Err(ReadError::NotSupported(format!("the procedure number {id}"))),
    };
    Ok(name.to_owned())
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
    let value = match value {
        RpcValue::Scalar { sql_type, .. } if is_default => RpcValue::Default { sql_type: Some(sql_type) },
        _ if is_default => RpcValue::Default { sql_type: None },
        value => value,
    };
    Ok(RpcParameter { name, by_ref, value })
}

fn parameter_error(error: ReadError, number: usize, name: &str) -> SqlError {
    let ReadError::InvalidValue(type_byte) = error else { return error.into() };
    SqlError::new(
        8023,
        format!(
            "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is incorrect. Parameter \
             {number} (\"{name}\"): The supplied value is not a valid instance of data type 0x{type_byte:02X}. Check the \
             source data for invalid values. An example of an invalid value is data of numeric type with scale greater \
             than precision."
        ),
    )
}
