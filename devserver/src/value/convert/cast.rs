//! CAST, CONVERT and the implicit conversions of a value.

use crate::error::SqlResult;
use crate::value::convert::bytes::{fit_bytes, to_bytes};
use crate::value::convert::chart::check_conversion;
use crate::value::convert::date_time::to_date_or_time;
use crate::value::convert::number::{to_bit, to_decimal, to_float, to_integer};
use crate::value::convert::text::{fit_text, to_text};
use crate::value::convert::uuid::to_uuid;
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;

/// Converts a value as CAST and CONVERT (`explicit`) or an assignment to a variable or parameter does. Text and
/// bytes that are too long are cut; fixed-length types are filled up.
///
/// # Errors
/// Those of [`check_conversion`], and SQL Server's errors for values that do not convert: 244, 245, 248, 8114 (not a
/// number, too large a number), 220, 232, 8115 (overflow), 241, 242 (no such date), 8169, 8170 (uniqueidentifier).
pub fn convert(value: Value, from: SqlType, to: SqlType, style: Option<i32>, explicit: bool) -> SqlResult<Value> {
    if style.is_none() && (from == to || is_as_it_must_be(&value, from, to)) {
        return Ok(value);
    }
    // Most conversions are of this kind: a small column against a constant.
    match (to, &value) {
        (SqlType::Int, Value::TinyInt(number)) => return Ok(Value::Int(i32::from(*number))),
        (SqlType::Int, Value::SmallInt(number)) => return Ok(Value::Int(i32::from(*number))),
        (SqlType::BigInt, Value::Int(number)) => return Ok(Value::BigInt(i64::from(*number))),
        _ => {}
    }
    check_conversion(from, to, explicit)?;
    if value.is_null() {
        return Ok(value);
    }
    if let Value::Variant(variant) = value {
        return convert(variant.value.clone(), variant.base, to, style, explicit);
    }
    let (from, to) = (from.successor(), to.successor());
    match to {
        SqlType::Text | SqlType::NText | SqlType::Image | SqlType::RowVersion => {
            unreachable!("they have successors, or no conversion")
        }
        SqlType::Variant => Ok(Value::variant(from, value)),
        SqlType::Bit => to_bit(&value, from),
        SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt => to_integer(&value, from, to),
        SqlType::Decimal { precision, scale, .. } => to_decimal(&value, from, precision, scale),
        SqlType::Real | SqlType::Float => to_float(&value, from, to),
        SqlType::Char(_) | SqlType::VarChar(_) | SqlType::NChar(_) | SqlType::NVarChar(_) => {
            let text = to_text(&value, from, to, style)?;
            fit_text(text, from, to)
        }
        SqlType::Binary(_) | SqlType::VarBinary(_) => {
            let bytes = to_bytes(&value, from, to, style)?;
            Ok(fit_bytes(bytes, from, to))
        }
        SqlType::Date | SqlType::Time(_) | SqlType::DateTime | SqlType::DateTime2(_) | SqlType::DateTimeOffset(_) => {
            to_date_or_time(&value, from, to, style)
        }
        SqlType::UniqueIdentifier => to_uuid(&value),
    }
}

/// Whether a value needs no more than another type's name: a text or bytes that fit. (A text has at most as many UTF-16
/// units as it has bytes here.)
pub(super) fn is_as_it_must_be(value: &Value, from: SqlType, to: SqlType) -> bool {
    let fits = |length: usize, most: Length| most.limit().is_none_or(|most| length <= most);
    match (value, from, to) {
        (Value::String(text), SqlType::NVarChar(_) | SqlType::NChar(_), SqlType::NVarChar(most)) => {
            fits(text.len(), most)
        }
        (Value::Bytes(bytes), SqlType::VarBinary(_) | SqlType::Binary(_), SqlType::VarBinary(most)) => {
            fits(bytes.len(), most)
        }
        _ => false,
    }
}
