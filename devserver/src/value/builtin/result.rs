//! Result types that many functions share, and what several of them do to make a result.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Argument;
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;
use std::sync::Arc;

/// A text as the value of an expression of a character type, cut to the type's length.
pub(in crate::value) fn text_value(text: &str, ty: SqlType) -> SqlResult<Value> {
    match ty.length().and_then(Length::limit) {
        Some(limit) => Ok(Value::String(Arc::from(crate::value::convert::text::split_units(text, limit)?.0))),
        None => Ok(Value::String(Arc::from(text))),
    }
}

/// 8116: an argument's type is not one the function takes. `position` counts from 1.
pub fn invalid_argument(ty: SqlType, position: usize, function: &str) -> SqlError {
    let ty = ty.message_name();
    SqlError::new(8116, format!("Argument data type {ty} is invalid for argument {position} of {function} function."))
}

pub(in crate::value) fn always_int(_: &[Argument<'_>]) -> SqlResult<SqlType> {
    Ok(SqlType::Int)
}

/// `varchar` or `nvarchar` as the first argument is Unicode or not, with its length.
pub(in crate::value) fn variable_text_of_first(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    Ok(variable_text(arguments[0].ty))
}

pub(in crate::value) fn variable_text(ty: SqlType) -> SqlType {
    if ty.is_unicode() { SqlType::NVarChar(ty.text_length()) } else { SqlType::VarChar(ty.text_length()) }
}

/// The longest text of a kind that is not `(max)`, or `(max)` if `ty` is.
pub(in crate::value) fn longest_text(unicode: bool, is_max: bool) -> SqlType {
    match (unicode, is_max) {
        (true, true) => SqlType::NVarChar(Length::Max),
        (false, true) => SqlType::VarChar(Length::Max),
        (true, false) => SqlType::NVarChar(Length::Limit(crate::value::types::MAX_UNIT_LENGTH)),
        (false, false) => SqlType::VarChar(Length::Limit(crate::value::types::MAX_BYTE_LENGTH)),
    }
}
