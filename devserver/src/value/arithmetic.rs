//! The operators: `+ - * / %`, the bit operators, and concatenation.
//!
//! A statement asks [`binary_type`] once, when it is bound, and [`binary`] for every row; so a result column has its
//! type before there is a row. Sources: docs/t-sql/data-types/precision-scale-and-length-transact-sql.md and the pages
//! of the operators in docs/t-sql/language-elements/.

use super::types::{MAX_PRECISION, operand_clash};
use crate::error::{SqlError, SqlResult};
use crate::value::convert::cast::convert;
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
    BitOr,
    BitXor,
}

/// An operator with one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    Plus,
    Minus,
    BitNot,
}

impl BinaryOp {
    fn name(self) -> &'static str {
        match self {
            BinaryOp::Add => "add",
            BinaryOp::Subtract => "subtract",
            BinaryOp::Multiply => "multiply",
            BinaryOp::Divide => "divide",
            BinaryOp::Modulo => "modulo",
            BinaryOp::BitAnd => "'&'",
            BinaryOp::BitOr => "'|'",
            BinaryOp::BitXor => "'^'",
        }
    }

    fn is_bitwise(self) -> bool {
        matches!(self, BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor)
    }
}

/// The type of `a op b`; `+` on text is concatenation.
///
/// A NULL constant has type `int` where the other operand is a number; give it the other operand's type otherwise.
///
/// # Errors
/// 8117 for an operand the operator does not take, 402 and 206 for two that do not go together.
pub fn binary_type(op: BinaryOp, a: SqlType, b: SqlType) -> SqlResult<SqlType> {
    if op == BinaryOp::Add && a.is_character() && b.is_character() {
        return Ok(concatenated_text(a, b));
    }
    if op == BinaryOp::Add && a.is_binary() && b.is_binary() {
        return Err(SqlError::not_supported("+ on binary values"));
    }
    if a.is_text_or_image() || b.is_text_or_image() {
        return Err(SqlError::not_supported(format!("an operator on {} and {}", a.name(), b.name())));
    }
    if a == SqlType::Variant || b == SqlType::Variant {
        return Err(SqlError::not_supported("an operator on a sql_variant"));
    }
    if op.is_bitwise() {
        return bitwise_type(op, a, b);
    }
    let high = if a.precedence() >= b.precedence() { a } else { b };
    let low = if a.precedence() >= b.precedence() { b } else { a };
    if high.is_character() || high.is_binary() {
        let is_mixed = a.is_character() != b.is_character();
        return Err(if is_mixed { incompatible(op, a, b) } else { invalid_operand(op, a) });
    }
    match high {
        SqlType::UniqueIdentifier | SqlType::RowVersion => {
            return Err(if a == b { invalid_operand(op, a) } else { incompatible(op, a, b) });
        }
        SqlType::Bit => return Err(invalid_operand(op, SqlType::Bit)),
        // A number counts as days, and a difference of two points of time is a point of time too.
        SqlType::DateTime if matches!(op, BinaryOp::Add | BinaryOp::Subtract) => {
            if low.is_date_or_time() && low != SqlType::DateTime {
                return Err(incompatible(op, a, b));
            }
            crate::value::convert::chart::check_conversion(low, high, false)?;
            return Ok(SqlType::DateTime);
        }
        _ if high.is_date_or_time() => {
            if !low.is_date_or_time() && !low.is_character() {
                return Err(operand_clash(low, high));
            }
            return Err(if low == high || low.is_character() {
                invalid_operand(op, high)
            } else {
                incompatible(op, a, b)
            });
        }
        _ => {}
    }
    crate::value::convert::chart::check_conversion(low, high, false)?;
    match high {
        SqlType::Decimal { .. } if op == BinaryOp::Modulo => Err(SqlError::not_supported("% on decimals")),
        SqlType::Decimal { .. } => Ok(decimal_result_type(op, a, b)),
        SqlType::Real | SqlType::Float if op == BinaryOp::Modulo => Err(incompatible(op, a, b)),
        _ => Ok(high),
    }
}

fn bitwise_type(op: BinaryOp, a: SqlType, b: SqlType) -> SqlResult<SqlType> {
    let is_integral = |ty: SqlType| ty.is_integer() || ty == SqlType::Bit;
    match (is_integral(a), is_integral(b)) {
        (true, true) if a == SqlType::Bit && a == b => {
            Err(SqlError::not_supported("a bit operator on two values of bit"))
        }
        (true, true) => Ok(if a.precedence() >= b.precedence() { a } else { b }),
        // "Only one expression can be binary" (docs/t-sql/language-elements/bitwise-and-transact-sql.md).
        _ if a.is_binary() || b.is_binary() => Err(SqlError::not_supported("a bit operator on a binary value")),
        (false, false) if a == b => Err(invalid_operand(op, a)),
        _ => Err(incompatible(op, a, b)),
    }
}

/// The table "Operation, result precision, result scale", with its rules for more than 38 digits.
fn decimal_result_type(op: BinaryOp, a: SqlType, b: SqlType) -> SqlType {
    // The other operand is a number of lower precedence or text, which is converted to the decimal's own type.
    let own =
        |ty: SqlType, other: SqlType| ty.exact_precision().or(other.exact_precision()).unwrap_or((MAX_PRECISION, 0));
    let ((p1, s1), (p2, s2)) = (own(a, b), own(b, a));
    let (p1, s1, p2, s2) = (i32::from(p1), i32::from(s1), i32::from(p2), i32::from(s2));
    let (precision, scale) = match op {
        BinaryOp::Multiply => (p1 + p2 + 1, s1 + s2),
        BinaryOp::Divide => {
            let scale = 6.max(s1 + p2 + 1);
            (p1 - s1 + s2 + scale, scale)
        }
        _ => (s1.max(s2) + (p1 - s1).max(p2 - s2) + 1, s1.max(s2)),
    };
    let max = i32::from(MAX_PRECISION);
    let integral = precision - scale;
    let scale = if precision <= max {
        scale
    } else {
        match op {
            BinaryOp::Multiply | BinaryOp::Divide if integral < 32 => scale.min(max - integral),
            BinaryOp::Multiply | BinaryOp::Divide => scale.min(6),
            // One digit was added for a carry; it is the first to go.
            _ => scale.min(max - (p1 - s1).max(p2 - s2)),
        }
    };
    let narrow = |number: i32| u8::try_from(number).unwrap_or(0);
    SqlType::decimal(narrow(precision.min(max)), narrow(scale))
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
    if let SqlType::Decimal { precision, scale, .. } = result {
        let a = decimal_operand(a, a_type, b_type)?;
        let b = decimal_operand(b, b_type, a_type)?;
        return decimal_arithmetic(op, a, b, precision, scale);
    }
    let a = convert(a.clone(), a_type, result, None, false)?;
    let b = convert(b.clone(), b_type, result, None, false)?;
    match (&a, &b) {
        (Value::Real(a), Value::Real(b)) => float_arithmetic(op, f64::from(*a), f64::from(*b), result),
        (Value::Float(a), Value::Float(b)) => float_arithmetic(op, *a, *b, result),
        (Value::DateTime(a_day, a_ticks), Value::DateTime(b_day, b_ticks)) => {
            datetime_sum((*a_day, *a_ticks), op == BinaryOp::Subtract, (*b_day, *b_ticks))
        }
        _ => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => integer_arithmetic(op, i128::from(a), i128::from(b), result),
            _ => Err(invalid_operand(op, result)),
        },
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
        BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
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
        BinaryOp::Divide => a / b,
        _ => return Err(incompatible(op, result, result)),
    };
    float_value(number, result).ok_or_else(|| overflow("expression", result))
}

fn decimal_operand(value: &Value, ty: SqlType, other: SqlType) -> SqlResult<Decimal> {
    if let Value::Decimal(decimal) = value {
        return Ok(**decimal);
    }
    if let Some(number) = value.as_i64() {
        // Whatever precision an integer counts as, its digits are exact.
        return Ok(Decimal { mantissa: i128::from(number), precision: MAX_PRECISION, scale: 0 });
    }
    let (precision, scale) = ty.exact_precision().or(other.exact_precision()).unwrap_or((MAX_PRECISION, 0));
    match convert(value.clone(), ty, SqlType::decimal(precision, scale), None, false)? {
        Value::Decimal(decimal) => Ok(*decimal),
        _ => Err(operand_clash(ty, other)),
    }
}

/// Exactly, in 128 bits, and then rounded to the type of the result.
fn decimal_arithmetic(op: BinaryOp, a: Decimal, b: Decimal, precision: u8, scale: u8) -> SqlResult<Value> {
    if b.mantissa == 0 && op == BinaryOp::Divide {
        return Err(divide_by_zero());
    }
    let scaled = |number: Decimal, to: u8| {
        let unit = 10_i128.checked_pow(u32::from(to.checked_sub(number.scale)?))?;
        number.mantissa.checked_mul(unit)
    };
    let sum_of = |a: Decimal, b: Decimal, to: u8| scaled(a, to)?.checked_add(scaled(b, to)?);
    let sum_scale = a.scale.max(b.scale);
    let (exact, exact_scale) = match op {
        BinaryOp::Add => (sum_of(a, b, sum_scale), sum_scale),
        BinaryOp::Subtract => (sum_of(a, Decimal { mantissa: -b.mantissa, ..b }, sum_scale), sum_scale),
        BinaryOp::Multiply => (a.mantissa.checked_mul(b.mantissa), a.scale + b.scale),
        // A quotient is cut, not rounded.
        _ => (scaled(a, scale + b.scale).map(|dividend| dividend / b.mantissa), scale),
    };
    let mantissa = exact
        .filter(|_| exact_scale.saturating_sub(scale) <= MAX_PRECISION)
        .ok_or_else(|| SqlError::not_supported("an operator on decimals of so many digits"))?;
    match (Decimal { mantissa, precision: MAX_PRECISION, scale: exact_scale }).resize(precision, scale) {
        Some(decimal) => Ok(Value::Decimal(Box::new(decimal))),
        None => Err(overflow("expression", SqlType::decimal(precision, scale))),
    }
}

/// The type of `op a`.
///
/// # Errors
/// 8117 for an operand the operator does not take.
pub fn unary_type(op: UnaryOp, a: SqlType) -> SqlResult<SqlType> {
    let (is_valid, name) = match op {
        // A plus sign changes nothing, and is taken before any type.
        UnaryOp::Plus => return Ok(a),
        UnaryOp::Minus => (a.is_number(), "minus"),
        UnaryOp::BitNot => (a.is_integer() || a == SqlType::Bit, "'~'"),
    };
    if !is_valid {
        let ty = a.message_name();
        return Err(SqlError::new(8117, format!("Operand data type {ty} is invalid for {name} operator.")));
    }
    // "An unsigned tinyint expression is promoted to a signed smallint" (unary-operators-negative.md).
    let is_negated_tinyint = op == UnaryOp::Minus && a == SqlType::TinyInt;
    Ok(if is_negated_tinyint { SqlType::SmallInt } else { a })
}

/// `op a`; the type of the result is [`unary_type`]'s. NULL if the operand is NULL.
///
/// # Errors
/// 8115 on overflow, and those of [`unary_type`].
pub fn unary(op: UnaryOp, a: &Value, a_type: SqlType) -> SqlResult<Value> {
    let result = unary_type(op, a_type)?;
    if op == UnaryOp::Plus || a.is_null() {
        return Ok(a.clone());
    }
    match (op, a) {
        (UnaryOp::Minus, Value::Decimal(v)) => Ok(Value::Decimal(Box::new(Decimal { mantissa: -v.mantissa, ..**v }))),
        (UnaryOp::Minus, Value::Real(v)) => Ok(Value::Real(-v)),
        (UnaryOp::Minus, Value::Float(v)) => Ok(Value::Float(-v)),
        (UnaryOp::BitNot, Value::Bit(v)) => Ok(Value::Bit(!v)),
        (UnaryOp::BitNot, Value::TinyInt(v)) => Ok(Value::TinyInt(!v)),
        _ => {
            let number = i128::from(a.as_i64().unwrap_or_default());
            let number = if op == UnaryOp::Minus { -number } else { !number };
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

/// 8117.
fn invalid_operand(op: BinaryOp, ty: SqlType) -> SqlError {
    let (ty, op) = (ty.message_name(), op.name());
    SqlError::new(8117, format!("Operand data type {ty} is invalid for {op} operator."))
}

/// 402.
fn incompatible(op: BinaryOp, a: SqlType, b: SqlType) -> SqlError {
    let (a, b, op) = (a.message_name(), b.message_name(), op.name());
    SqlError::new(402, format!("The data types {a} and {b} are incompatible in the {op} operator."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::literal;

    fn decimal(precision: u8, scale: u8) -> SqlType {
        SqlType::decimal(precision, scale)
    }

    fn varchar(n: u16) -> SqlType {
        SqlType::VarChar(Length::Limit(n))
    }

    /// Evaluates `a op b` on two number constants; the text of the result and its type.
    fn calculate(a: &str, op: BinaryOp, b: &str) -> Result<(String, SqlType), i32> {
        let operand = |digits: &str| {
            let (value, ty) = literal::number(digits).unwrap();
            (value, ty)
        };
        let ((a, a_type), (b, b_type)) = (operand(a), operand(b));
        let both_int = a_type.is_integer() && b_type.is_integer();
        let own = |value: &Value, ty| if both_int { ty } else { literal::operand_type(value, ty) };
        let (a_type, b_type) = (own(&a, a_type), own(&b, b_type));
        let result = binary_type(op, a_type, b_type).map_err(|e| e.number)?;
        let value = binary(op, &a, a_type, &b, b_type, result).map_err(|e| e.number)?;
        let text = convert(value, result, SqlType::VarChar(Length::Max), None, false).unwrap();
        Ok((text.as_str().unwrap().to_string(), result))
    }

    #[test]
    fn integers_stay_integers() {
        use BinaryOp::*;
        assert_eq!(calculate("7", Divide, "2"), Ok(("3".into(), SqlType::Int)));
        assert_eq!(calculate("7", Modulo, "4"), Ok(("3".into(), SqlType::Int)));
        assert_eq!(calculate("6", BitXor, "3"), Ok(("5".into(), SqlType::Int)));
        assert_eq!(calculate("2147483647", Add, "1"), Err(8115));
        assert_eq!(calculate("1", Divide, "0"), Err(8134));
        assert_eq!(calculate("1.0", Divide, "0.0"), Err(8134));
        assert_eq!(calculate("1.0", Modulo, "2.0"), Err(59_000));
    }

    // docs/t-sql/data-types/precision-scale-and-length-transact-sql.md
    #[test]
    fn decimals_have_the_documented_precision_and_scale() {
        use BinaryOp::*;
        assert_eq!(calculate("1.0", Divide, "3"), Ok(("0.333333".into(), decimal(7, 6))));
        assert_eq!(calculate("1.25", Add, "1.5"), Ok(("2.75".into(), decimal(4, 2))));
        assert_eq!(calculate("1.25", Multiply, "1.5"), Ok(("1.875".into(), decimal(6, 3))));
        assert_eq!(binary_type(Multiply, decimal(30, 20), decimal(30, 20)), Ok(decimal(38, 17)));
        assert_eq!(binary_type(Multiply, decimal(30, 10), decimal(30, 10)), Ok(decimal(38, 6)));
        assert_eq!(binary_type(Add, decimal(38, 10), decimal(38, 10)), Ok(decimal(38, 10)));
        assert_eq!(binary_type(Add, decimal(10, 2), SqlType::Int), Ok(decimal(13, 2)));
    }

    #[test]
    fn a_real_result_of_two_decimals_keeps_its_rounding() {
        let operand = |text: &str, scale| Value::Decimal(Box::new(Decimal::parse(text, 30, scale).unwrap()));
        let ty = decimal(30, 20);
        let product =
            binary(BinaryOp::Multiply, &operand("0.0000009", 20), ty, &operand("1", 20), ty, decimal(38, 17)).unwrap();
        let Value::Decimal(product) = product else { panic!("a decimal") };
        assert_eq!(product.to_string(), "0.00000090000000000");
    }

    #[test]
    fn text_is_concatenated_and_null_wins() {
        let (a, a_type) = literal::string("ab", false);
        let (b, b_type) = literal::string("日", true);
        let result = binary_type(BinaryOp::Add, a_type, b_type).unwrap();
        assert_eq!(result, SqlType::NVarChar(Length::Limit(3)));
        let joined = binary(BinaryOp::Add, &a, a_type, &b, b_type, result).unwrap();
        assert_eq!(joined.as_str(), Some("ab日"));
        assert_eq!(binary(BinaryOp::Add, &a, a_type, &Value::Null, b_type, result), Ok(Value::Null));
        let long = varchar(8000);
        assert_eq!(binary_type(BinaryOp::Add, long, varchar(1)), Ok(long));
    }

    #[test]
    fn text_beside_a_number_is_a_number() {
        let (a, a_type) = literal::string("40", false);
        let sum = binary(BinaryOp::Add, &a, a_type, &Value::Int(2), SqlType::Int, SqlType::Int);
        assert_eq!(sum, Ok(Value::Int(42)));
        let (a, a_type) = literal::string("x", false);
        let error = binary(BinaryOp::Add, &a, a_type, &Value::Int(2), SqlType::Int, SqlType::Int).unwrap_err();
        assert_eq!(error.number, 245);
    }

    #[test]
    fn operands_that_do_not_go_together() {
        use BinaryOp::*;
        let cases = [
            (Add, SqlType::Bit, SqlType::Bit, 8117, "Operand data type bit is invalid for add operator."),
            (Subtract, varchar(1), varchar(1), 8117, "Operand data type varchar is invalid for subtract operator."),
            (
                Add,
                varchar(1),
                SqlType::VarBinary(Length::Max),
                402,
                "The data types varchar and varbinary are incompatible in the add operator.",
            ),
            (Add, SqlType::DateTime2(7), SqlType::Int, 206, "Operand type clash: int is incompatible with datetime2"),
            (
                Add,
                SqlType::UniqueIdentifier,
                SqlType::Int,
                206,
                "Operand type clash: uniqueidentifier is incompatible with int",
            ),
            (
                Modulo,
                SqlType::Float,
                SqlType::Int,
                402,
                "The data types float and int are incompatible in the modulo operator.",
            ),
        ];
        for (op, a, b, number, message) in cases {
            let error = binary_type(op, a, b).unwrap_err();
            assert_eq!((error.number, error.message.as_str()), (number, message));
        }
        assert_eq!(unary_type(UnaryOp::Minus, varchar(1)).unwrap_err().number, 8117);
    }

    #[test]
    fn signs_and_complements() {
        assert_eq!(unary(UnaryOp::Minus, &Value::TinyInt(3), SqlType::TinyInt), Ok(Value::SmallInt(-3)));
        assert_eq!(unary(UnaryOp::BitNot, &Value::Int(5), SqlType::Int), Ok(Value::Int(-6)));
        assert_eq!(unary(UnaryOp::Minus, &Value::Int(i32::MIN), SqlType::Int).unwrap_err().number, 8115);
    }

    #[test]
    fn days_are_added_to_a_datetime() {
        let start = Value::DateTime(DAY_1900, 0);
        let sum = binary(BinaryOp::Add, &start, SqlType::DateTime, &Value::Int(2), SqlType::Int, SqlType::DateTime);
        assert_eq!(sum, Ok(Value::DateTime(DAY_1900 + 2, 0)));
    }
}
