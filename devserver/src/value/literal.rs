//! Constants in T-SQL and the types they have.
//!
//! Source: "Constants" (docs/t-sql/data-types/constants-transact-sql.md).

use super::codepage;
use super::types::{MAX_BYTE_LENGTH, MAX_PRECISION, MAX_UNIT_LENGTH};
use crate::error::{SqlError, SqlResult};
use crate::value::convert::text::utf16_length;
use crate::value::decimal::Decimal;
use crate::value::types::{DecimalName, Length, SqlType};
use crate::value::values::Value;
use std::sync::Arc;

/// A number without sign and exponent: `12` is `int`, `1.50` and what is too long for `int` are `numeric` with the digits
/// written.
pub fn number(digits: &str) -> SqlResult<(Value, SqlType)> {
    if let Ok(int) = digits.parse::<i32>() {
        return Ok((Value::Int(int), SqlType::Int));
    }
    let (integral, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let integral_digits = integral.trim_start_matches('0').len();
    // The lexer has counted the digits.
    let out_of_range = || SqlError::not_supported(format!("the number {digits}"));
    let scale = u8::try_from(fraction.len()).ok().filter(|&scale| scale <= MAX_PRECISION).ok_or_else(out_of_range)?;
    let precision = u8::try_from((integral_digits + fraction.len()).max(1)).map_err(|_| out_of_range())?;
    if precision > MAX_PRECISION {
        return Err(out_of_range());
    }
    let decimal = Decimal::parse(digits, precision, scale).ok_or_else(out_of_range)?;
    Ok((Value::Decimal(Box::new(decimal)), SqlType::Decimal { precision, scale, name: DecimalName::Numeric }))
}

/// `'text'` (`varchar`, where what Windows-1252 lacks is `?`) or `N'text'` (`nvarchar`). An empty constant has length
/// 1.
pub fn string(text: &str, unicode: bool) -> (Value, SqlType) {
    let length = utf16_length(text);
    let declared = |cap: u16| match u16::try_from(length.max(1)) {
        Ok(length) if length <= cap => Length::Limit(length),
        _ => Length::Max,
    };
    if unicode {
        return (Value::String(Arc::from(text)), SqlType::NVarChar(declared(MAX_UNIT_LENGTH)));
    }
    let value = codepage::to_varchar(text).map_or_else(|| Arc::from(text), Arc::from);
    (Value::String(value), SqlType::VarChar(declared(MAX_BYTE_LENGTH)))
}
