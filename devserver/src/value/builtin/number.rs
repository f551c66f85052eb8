//! Mathematical functions.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::builtin::result::invalid_argument;
use crate::value::convert::cast::convert;
use crate::value::convert::error::overflow;
use crate::value::convert::number::{float_value, integer_value};
use crate::value::decimal::{Decimal, power_of_ten};
use crate::value::types::SqlType;
use crate::value::values::Value;

pub(super) const FUNCTIONS: &[Builtin] = &[
    Builtin::new("ABS", Exactly(1), abs_type, abs),
    Builtin::new("CEILING", Exactly(1), ceiling_type, ceiling),
    Builtin::new("FLOOR", Exactly(1), floor_type, floor),
    Builtin::new("POWER", Exactly(2), power_type, power),
];

/// The type in which a function calculates with its first argument: a number's own type, `float` for text.
fn number_type(ty: SqlType, function: &str) -> SqlResult<SqlType> {
    match ty {
        _ if ty.is_number() => Ok(ty.computed()),
        _ if ty.is_character() => Ok(SqlType::Float),
        _ => Err(invalid_argument(ty, 1, function)),
    }
}

fn abs_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    number_type(arguments[0].ty, "abs")
}

fn ceiling_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    number_type(arguments[0].ty, "ceiling").map(without_fraction)
}

fn floor_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    number_type(arguments[0].ty, "floor").map(without_fraction)
}

/// A decimal without a fraction (example of docs/t-sql/functions/floor-transact-sql.md).
fn without_fraction(ty: SqlType) -> SqlType {
    match ty {
        SqlType::Decimal { precision, .. } => SqlType::decimal(precision, 0),
        other => other,
    }
}

/// The type in which a power of a number is computed.
fn widened(ty: SqlType) -> SqlType {
    match ty {
        SqlType::TinyInt | SqlType::SmallInt => SqlType::Int,
        SqlType::Real => SqlType::Float,
        other => other,
    }
}

/// "Return types" in docs/t-sql/functions/power-transact-sql.md.
fn power_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    Ok(match widened(number_type(arguments[0].ty, "power")?) {
        SqlType::Decimal { scale, .. } => SqlType::decimal(38, scale),
        other => other,
    })
}

/// The first argument in the type in which the function calculates.
fn operand(arguments: &Arguments<'_>, ty: SqlType) -> SqlResult<Value> {
    convert(arguments.values[0].clone(), arguments.types[0], ty, None, false)
}

/// The first argument as it was when the call was bound.
fn bound<'a>(arguments: &Arguments<'a>) -> [Argument<'a>; 1] {
    [Argument { ty: arguments.types[0], constant: None }]
}

fn decimal_value(decimal: Option<Decimal>, ty: SqlType) -> SqlResult<Value> {
    match decimal {
        Some(decimal) => Ok(Value::Decimal(Box::new(decimal))),
        None => Err(overflow("expression", ty)),
    }
}

fn checked_float(number: f64, ty: SqlType) -> SqlResult<Value> {
    float_value(number, ty).ok_or_else(|| overflow("expression", ty))
}

fn abs(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let ty = abs_type(&bound(arguments))?;
    match operand(arguments, ty)? {
        Value::Decimal(v) => decimal_value(Some(Decimal { mantissa: v.mantissa.abs(), ..*v }), ty),
        Value::Real(v) => Ok(Value::Real(v.abs())),
        Value::Float(v) => Ok(Value::Float(v.abs())),
        other => {
            let number = i128::from(other.as_i64().unwrap_or_default()).abs();
            integer_value(number, ty).ok_or_else(|| overflow("expression", ty))
        }
    }
}

fn ceiling(arguments: &Arguments<'_>) -> SqlResult<Value> {
    to_whole(arguments, ceiling_type(&bound(arguments))?, f64::ceil, |v, unit| -(-v).div_euclid(unit))
}

fn floor(arguments: &Arguments<'_>) -> SqlResult<Value> {
    to_whole(arguments, floor_type(&bound(arguments))?, f64::floor, i128::div_euclid)
}

fn to_whole(
    arguments: &Arguments<'_>,
    ty: SqlType,
    float: fn(f64) -> f64,
    decimal: fn(i128, i128) -> i128,
) -> SqlResult<Value> {
    match &arguments.values[0] {
        Value::Decimal(v) => {
            let SqlType::Decimal { precision, scale, .. } = ty else {
                return Err(overflow("expression", ty));
            };
            decimal_value(Decimal::checked(decimal(v.mantissa, power_of_ten(v.scale)), precision, scale), ty)
        }
        _ => match operand(arguments, ty)? {
            Value::Real(v) => checked_float(float(f64::from(v)), ty),
            Value::Float(v) => checked_float(float(v), ty),
            other => Ok(other),
        },
    }
}

fn power(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let ty = power_type(&bound(arguments))?;
    let exponent = arguments.float(1)?;
    // Whole powers of integers stay exact where `float` would lose digits.
    if let (Some(base), true) = (arguments.values[0].as_i64(), exponent >= 0.0 && exponent.fract() == 0.0) {
        let exact = u32::try_from(exponent as i64).ok().and_then(|e| i128::from(base).checked_pow(e));
        return exact.and_then(|number| integer_value(number, ty)).ok_or_else(|| overflow("expression", ty));
    }
    let result = arguments.float(0)?.powf(exponent);
    if result.is_nan() {
        return Err(invalid_operation());
    }
    if !result.is_finite() {
        return Err(overflow("expression", ty));
    }
    convert(Value::Float(result), SqlType::Float, ty, None, false)
}

/// 3623.
fn invalid_operation() -> SqlError {
    SqlError::new(3623, "An invalid floating point operation occurred.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::builtin::tests::{call, int, number, typed};

    fn ok(text: &str) -> Result<String, i32> {
        Ok(text.to_string())
    }

    // docs/t-sql/functions/{abs,ceiling,floor}-transact-sql.md
    #[test]
    fn magnitudes() {
        assert_eq!(call("ABS", &[number("-1.0")]), ok("1.0"));
        assert_eq!(call("ABS", &[int(i32::MIN)]), Err(8115));
        assert_eq!(call("CEILING", &[number("123.45")]), ok("124"));
        assert_eq!(call("CEILING", &[number("-123.45")]), ok("-123"));
        assert_eq!(call("FLOOR", &[number("-123.45")]), ok("-124"));
        assert_eq!(call("FLOOR", &[int(7)]), ok("7"));
        assert_eq!(call("ABS", &[(Value::Bit(true), SqlType::Bit)]), Err(8116));
    }

    // docs/t-sql/functions/power-transact-sql.md
    #[test]
    fn powers() {
        assert_eq!(call("POWER", &[int(2), number("-100.0")]), ok("0"));
        assert_eq!(call("POWER", &[number("2.0"), int(3)]), ok("8.0"));
        assert_eq!(call("POWER", &[typed("2.5", SqlType::Float), int(3)]), ok("15.625"));
        assert_eq!(call("POWER", &[int(2), int(31)]), Err(8115));
    }
}
