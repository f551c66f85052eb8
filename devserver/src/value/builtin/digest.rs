//! HASHBYTES.
//!
//! Source: docs/t-sql/functions/hashbytes-transact-sql.md of MicrosoftDocs/sql-docs.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::builtin::result::invalid_argument;
use crate::value::convert::cast::convert;
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;
use md5::Digest;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Builtin] = &[Builtin::new("HASHBYTES", Exactly(2), hash_type, hash_bytes)];

fn hash_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    for (position, argument) in arguments.iter().enumerate() {
        let is_null = argument.constant.is_some_and(Value::is_null);
        let fits = argument.ty.is_character() || (position == 1 && argument.ty.is_binary());
        if !fits && !is_null {
            return Err(invalid_argument(argument.ty, position + 1, "hashbytes"));
        }
    }
    Ok(SqlType::VarBinary(Length::Limit(8000)))
}

fn hash_bytes(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let algorithm = arguments.text(0)?.to_ascii_uppercase();
    // A varchar is hashed in its code page, an nvarchar in UTF-16.
    let (value, ty) = (arguments.values[1].clone(), arguments.types[1]);
    let Value::Bytes(input) = convert(value, ty, SqlType::VarBinary(Length::Max), None, true)? else {
        return Ok(Value::Null);
    };
    if algorithm != "MD5" {
        return Err(SqlError::not_supported(format!("HASHBYTES with {algorithm}")));
    }
    Ok(Value::Bytes(Arc::from(md5::Md5::digest(&input).to_vec())))
}
