//! Transaction manager requests.

use crate::tds::packet::{PayloadReader, ReadError, decode_utf16};
use crate::tds::request::call::{BeginTransaction, TransactionRequest};
use crate::tsql::ast::IsolationLevel;

pub(super) fn read_transaction_request(reader: &mut PayloadReader<'_>) -> Result<TransactionRequest, ReadError> {
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
