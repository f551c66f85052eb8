//! The errors of conversions.

use crate::error::SqlError;
use crate::value::types::SqlType;

/// 8115.
pub(in crate::value) fn overflow(from_name: &str, to: SqlType) -> SqlError {
    let to = to.message_name();
    SqlError::new(8115, format!("Arithmetic overflow error converting {from_name} to data type {to}.")).state(2)
}

/// 8114.
pub(super) fn error_converting(from: SqlType, to: SqlType) -> SqlError {
    let (from, to) = (from.message_name(), to.message_name());
    SqlError::new(8114, format!("Error converting data type {from} to {to}.")).state(5)
}

/// 245, or 8114 for `bigint`.
pub(super) fn not_convertible(from: SqlType, text: &str, to: SqlType) -> SqlError {
    if to == SqlType::BigInt {
        return error_converting(from, to);
    }
    let (from, to) = (from.name(), to.name());
    SqlError::new(245, format!("Conversion failed when converting the {from} value '{text}' to data type {to}."))
}

/// A text or float that an integer, a float that a real cannot hold: 244, 248 and 232 in SQL Server.
pub(super) fn too_large(from: SqlType, to: SqlType) -> SqlError {
    SqlError::not_supported(format!("the conversion of a {} that is too large for {}", from.name(), to.name()))
}

/// 242.
pub(super) fn out_of_range(from: SqlType, to: SqlType) -> SqlError {
    let (from, to) = (from.name(), to.name());
    SqlError::new(
        242,
        format!("The conversion of a {from} data type to a {to} data type resulted in an out-of-range value."),
    )
    .state(3)
}

pub(super) fn invalid_binary_style(style: i32) -> SqlError {
    SqlError::not_supported(format!("style {style} between binary and character types"))
}

pub(super) fn not_supported(from: SqlType, to: SqlType) -> SqlError {
    SqlError::not_supported(format!("conversion of a value of type {from} to {to}"))
}
