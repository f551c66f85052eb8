//! The operators: `+ - * / %`, the bit operators, and concatenation.
//!
//! A statement asks [`binary_type`] once, when it is bound, and [`binary`] for every row; so a result column has its
//! type before there is a row. Sources: docs/t-sql/data-types/precision-scale-and-length-transact-sql.md and the pages
//! of the operators in docs/t-sql/language-elements/.

use crate::error::{SqlError, SqlResult};
use crate::value::convert::cast::convert;
use crate::value::convert::chart::check_conversion;
use crate::value::convert::error::overflow;
use crate::value::convert::number::{float_value, integer_value};
use crate::value::convert::text::split_units;
use crate::value::datetime::{DAY_1900, Day, TICKS_PER_DAY, Ticks, from_instant, instant, round_to_datetime};
use crate::value::decimal::Decimal;
use crate::value::types::{Length, MAX_BYTE_LENGTH, MAX_UNIT_LENGTH, SqlType};
use crate::value::units::joined;
use crate::value::values::Value;
use std::sync::Arc;

/// An operator with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    BitAnd,
}

impl BinaryOp {
    fn sign(self) -> char {
        match self {
            BinaryOp::Add => '+',
            BinaryOp::Subtract => '-',
            BinaryOp::Multiply => '*',
            BinaryOp::Divide => '/',
            BinaryOp::Modulo => '%',
            BinaryOp::BitAnd => '&',
        }
    }
}

/// The type of `a op b`; `+` on text is concatenation.
///
/// A NULL constant has type `int` where the other operand is a number; give it the other operand's type otherwise.
///
/// # Errors
/// A refusal of two types that do not go together, or whose result the dev server does not compute.
pub fn binary_type(op: BinaryOp, a: SqlType, b: SqlType) -> SqlResult<SqlType> {
    if op == BinaryOp::Add && a.is_character() && b.is_character() {
        return Ok(concatenated_text(a, b));
    }
    let (high, low) = if a.precedence() >= b.precedence() { (a, b) } else { (b, a) };
    let is_integral = |ty: SqlType| ty.is_integer() || ty == SqlType::Bit;
    let is_computed = match high {
        _ if op == BinaryOp::BitAnd => high.is_integer() && is_integral(low),
        // A number counts as days, and a difference of two points of time is a point of time too.
        SqlType::DateTime => {
            matches!(op, BinaryOp::Add | BinaryOp::Subtract) && (low == SqlType::DateTime || !low.is_date_or_time())
        }
        SqlType::Real | SqlType::Float => op != BinaryOp::Modulo,
        _ => high.is_integer(),
    };
    if !is_computed {
        let (a, b) = (a.message_name(), b.message_name());
        return Err(SqlError::not_supported(format!("the operator '{}' on {a} and {b}", op.sign())));
    }
    check_conversion(low, high, false)?;
    Ok(high)
}

/// `a op b`; `result` is what [`binary_type`] gave for the two types. NULL if either is NULL.
///
/// # Errors
/// 8115 on overflow, 8134 on division by zero, and the errors of converting an operand.
pub fn binary(
    op: BinaryOp,
    a: &Value,
    a_type: SqlType,
    b: &Value,
    b_type: SqlType,
    result: SqlType,
) -> SqlResult<Value> {
    if a.is_null() || b.is_null() {
        return Ok(Value::Null);
    }
    if result.is_character() {
        return concatenate_text(a, a_type, b, b_type, result);
    }
    let a = convert(a.clone(), a_type, result, None, false)?;
    let b = convert(b.clone(), b_type, result, None, false)?;
    match (&a, &b) {
        (Value::Real(a), Value::Real(b)) => float_arithmetic(op, f64::from(*a), f64::from(*b), result),
        (Value::Float(a), Value::Float(b)) => float_arithmetic(op, *a, *b, result),
        (Value::DateTime(a_day, a_ticks), Value::DateTime(b_day, b_ticks)) => {
            datetime_sum((*a_day, *a_ticks), op == BinaryOp::Subtract, (*b_day, *b_ticks))
        }
        _ => {
            let integer = |value: &Value| i128::from(value.as_i64().unwrap_or_default());
            integer_arithmetic(op, integer(&a), integer(&b), result)
        }
    }
}

fn integer_arithmetic(op: BinaryOp, a: i128, b: i128, result: SqlType) -> SqlResult<Value> {
    if b == 0 && matches!(op, BinaryOp::Divide | BinaryOp::Modulo) {
        return Err(divide_by_zero());
    }
    let number = match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Divide => a / b,
        BinaryOp::Modulo => a % b,
        BinaryOp::BitAnd => a & b,
    };
    integer_value(number, result).ok_or_else(|| overflow("expression", result))
}

fn float_arithmetic(op: BinaryOp, a: f64, b: f64, result: SqlType) -> SqlResult<Value> {
    if op == BinaryOp::Divide && b == 0.0 {
        return Err(divide_by_zero());
    }
    let number = match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        _ => a / b,
    };
    float_value(number, result).ok_or_else(|| overflow("expression", result))
}

/// The type of `-a`.
///
/// # Errors
/// A refusal of what is no number.
pub fn negative_type(a: SqlType) -> SqlResult<SqlType> {
    match a {
        // "An unsigned tinyint expression is promoted to a signed smallint" (unary-operators-negative.md).
        SqlType::TinyInt => Ok(SqlType::SmallInt),
        _ if a.is_number() => Ok(a),
        _ => Err(SqlError::not_supported(format!("the operator '-' on {}", a.message_name()))),
    }
}

/// `-a`; the type of the result is [`negative_type`]'s. NULL if the operand is NULL.
///
/// # Errors
/// 8115 on overflow, and those of [`negative_type`].
pub fn negative(a: &Value, a_type: SqlType) -> SqlResult<Value> {
    let result = negative_type(a_type)?;
    match a {
        Value::Null => Ok(Value::Null),
        Value::Decimal(v) => Ok(Value::Decimal(Box::new(Decimal { mantissa: -v.mantissa, ..**v }))),
        Value::Real(v) => Ok(Value::Real(-v)),
        Value::Float(v) => Ok(Value::Float(-v)),
        _ => {
            let number = -i128::from(a.as_i64().unwrap_or_default());
            integer_value(number, result).ok_or_else(|| overflow("expression", result))
        }
    }
}

/// The type of `+` on text.
fn concatenated_text(a: SqlType, b: SqlType) -> SqlType {
    let (a_length, b_length) = (a.text_length(), b.text_length());
    match (a, b) {
        (SqlType::Char(n), SqlType::Char(m)) => SqlType::Char(n.saturating_add(m).min(MAX_BYTE_LENGTH)),
        (SqlType::NChar(n), SqlType::NChar(m) | SqlType::Char(m)) | (SqlType::Char(n), SqlType::NChar(m)) => {
            SqlType::NChar(n.saturating_add(m).min(MAX_UNIT_LENGTH))
        }
        _ if a.is_unicode() || b.is_unicode() => SqlType::NVarChar(a_length.plus(b_length, MAX_UNIT_LENGTH)),
        _ => SqlType::VarChar(a_length.plus(b_length, MAX_BYTE_LENGTH)),
    }
}

fn concatenate_text(a: &Value, a_type: SqlType, b: &Value, b_type: SqlType, result: SqlType) -> SqlResult<Value> {
    let text = |value: &Value, ty: SqlType| {
        let to = if result.is_unicode() { SqlType::NVarChar(Length::Max) } else { SqlType::VarChar(Length::Max) };
        convert(value.clone(), ty, to, None, false)
    };
    let (a, b) = (text(a, a_type)?, text(b, b_type)?);
    let joined = joined([a.as_str().unwrap_or_default(), b.as_str().unwrap_or_default()].concat())?;
    // Only at 8,000 bytes is anything cut: otherwise the result type holds both.
    match result.length().and_then(Length::limit) {
        Some(limit) => Ok(Value::String(Arc::from(split_units(&joined, limit)?.0))),
        None => Ok(Value::String(Arc::from(joined))),
    }
}

/// A `datetime` counts as days since 1900.
fn datetime_sum(a: (Day, Ticks), subtract: bool, b: (Day, Ticks)) -> SqlResult<Value> {
    let since_1900 = instant(b.0, b.1) - i64::from(DAY_1900) * TICKS_PER_DAY as i64;
    let sum = instant(a.0, a.1) + if subtract { -since_1900 } else { since_1900 };
    let rounded = from_instant(sum).and_then(|(day, ticks)| round_to_datetime(day, ticks));
    let (day, ticks) = rounded.ok_or_else(|| overflow("expression", SqlType::DateTime))?;
    Ok(Value::DateTime(day, ticks))
}

fn divide_by_zero() -> SqlError {
    SqlError::new(8134, "Divide by zero error encountered.")
}
