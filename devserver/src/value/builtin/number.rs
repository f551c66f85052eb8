//! Mathematical functions.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::{Between, Exactly};
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::builtin::result::{always_float, always_int, invalid_argument};
use crate::value::convert::cast::convert;
use crate::value::convert::error::overflow;
use crate::value::convert::money::{is_money_text, money_value};
use crate::value::convert::number::{float_value, integer_value};
use crate::value::decimal::{Decimal, power_of_ten};
use crate::value::types::SqlType;
use crate::value::values::Value;

pub(super) const FUNCTIONS: &[Builtin] = &[
    Builtin::new("ABS", Exactly(1), abs_type, abs),
    Builtin::new("CEILING", Exactly(1), ceiling_type, ceiling),
    Builtin::new("FLOOR", Exactly(1), floor_type, floor),
    Builtin::new("ROUND", Between(2, 3), round_type, round),
    Builtin::new("SIGN", Exactly(1), sign_type, sign),
    Builtin::new("POWER", Exactly(2), power_type, power),
    Builtin::new("SQRT", Exactly(1), always_float, sqrt),
    Builtin::new("SQUARE", Exactly(1), always_float, square),
    Builtin::new("EXP", Exactly(1), always_float, exp),
    Builtin::new("LOG", Between(1, 2), always_float, log),
    Builtin::new("LOG10", Exactly(1), always_float, log10),
    Builtin::new("PI", Exactly(0), always_float, |_| Ok(Value::Float(std::f64::consts::PI))),
    Builtin::new("LEFT_SHIFT", Exactly(2), |arguments| shift_type(arguments, "left_shift"), |a| shift(a, true)),
    Builtin::new("RIGHT_SHIFT", Exactly(2), |arguments| shift_type(arguments, "right_shift"), |a| shift(a, false)),
    Builtin::new("ISNUMERIC", Exactly(1), always_int, is_numeric).passing_nulls(),
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

fn round_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    number_type(arguments[0].ty, "round").map(widened)
}

fn sign_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    number_type(arguments[0].ty, "sign").map(widened)
}

/// "Return types" in docs/t-sql/functions/round-transact-sql.md.
fn widened(ty: SqlType) -> SqlType {
    match ty {
        SqlType::TinyInt | SqlType::SmallInt => SqlType::Int,
        SqlType::Real => SqlType::Float,
        SqlType::SmallMoney => SqlType::Money,
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
        Some(decimal) if ty.is_money() => money_value(decimal.mantissa, ty).ok_or_else(|| overflow("expression", ty)),
        Some(decimal) => Ok(Value::Decimal(Box::new(decimal))),
        None => Err(overflow("expression", ty)),
    }
}

fn checked_float(number: f64, ty: SqlType) -> SqlResult<Value> {
    float_value(number, ty).ok_or_else(|| overflow("expression", ty))
}

/// Source: "LEFT_SHIFT" and "RIGHT_SHIFT" (MicrosoftDocs/sql-docs, docs/t-sql/functions/left-shift-transact-sql.md).
fn shift_type(arguments: &[Argument<'_>], function: &str) -> SqlResult<SqlType> {
    let ty = arguments[0].ty;
    if ty.is_binary() || ty == SqlType::Bit {
        return Err(SqlError::not_supported(format!("{function} of {}", ty.message_name())));
    }
    for (position, argument) in arguments.iter().enumerate() {
        if !argument.ty.is_integer() {
            return Err(invalid_argument(argument.ty, position + 1, function));
        }
    }
    Ok(ty)
}

/// A shift of the bits that the type has, filled up with zeros on either side.
fn shift(arguments: &Arguments<'_>, left: bool) -> SqlResult<Value> {
    let ty = arguments.types[0];
    let (Some(number), Some(amount)) = (arguments.values[0].as_i64(), arguments.values[1].as_i64()) else {
        return Ok(Value::Null);
    };
    let bits: u32 = match ty {
        SqlType::TinyInt => 8,
        SqlType::SmallInt => 16,
        SqlType::Int => 32,
        _ => 64,
    };
    let unsigned = number as u64 & (u64::MAX >> (64 - bits));
    let distance = u32::try_from(amount.unsigned_abs()).ok().filter(|distance| *distance < bits);
    let shifted =
        distance.map_or(0, |distance| if left == (amount >= 0) { unsigned << distance } else { unsigned >> distance });
    Ok(match ty {
        SqlType::TinyInt => Value::TinyInt(shifted as u8),
        SqlType::SmallInt => Value::SmallInt(shifted as i16),
        SqlType::Int => Value::Int(shifted as i32),
        _ => Value::BigInt(shifted as i64),
    })
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
        Value::Decimal(v) if ty.is_money() => {
            let unit = power_of_ten(v.scale);
            decimal_value(Some(Decimal { mantissa: decimal(v.mantissa, unit) * unit, ..**v }), ty)
        }
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

fn round(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let ty = round_type(&bound(arguments))?;
    let digits = arguments.int(1)?;
    let truncates = arguments.count() > 2 && arguments.int(2)? != 0;
    match operand(arguments, ty)? {
        Value::Decimal(v) => {
            let mantissa = round_digits(v.mantissa, i32::from(v.scale) - digits, truncates);
            decimal_value(mantissa.and_then(|m| Decimal::checked(m, v.precision, v.scale)), ty)
        }
        Value::Float(v) => {
            // Beyond 300 digits either way there is nothing left to round, or nothing left at all.
            let unit = 10f64.powi(digits.clamp(-300, 300));
            let scaled = v * unit;
            if !scaled.is_finite() {
                return Ok(Value::Float(v));
            }
            checked_float(if truncates { scaled.trunc() } else { scaled.round() } / unit, ty)
        }
        other => {
            let number = round_digits(i128::from(other.as_i64().unwrap_or_default()), -digits, truncates);
            number.and_then(|number| integer_value(number, ty)).ok_or_else(|| overflow("expression", ty))
        }
    }
}

/// Sets the last digits of a number to zero, rounding half away from zero or cutting.
fn round_digits(number: i128, digits: i32, truncates: bool) -> Option<i128> {
    if digits <= 0 {
        return Some(number);
    }
    let Some(digits) = u8::try_from(digits).ok().filter(|&digits| digits <= 38) else {
        return Some(0);
    };
    let unit = power_of_ten(digits);
    let rest = number % unit;
    let cut = number - rest;
    let rounds_up = !truncates && rest.unsigned_abs() >= unit.unsigned_abs() - rest.unsigned_abs();
    if rounds_up { cut.checked_add(unit * number.signum()) } else { Some(cut) }
}

fn sign(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let ty = sign_type(&bound(arguments))?;
    match operand(arguments, ty)? {
        Value::Decimal(v) => {
            let one = power_of_ten(v.scale);
            decimal_value(Decimal::checked(v.mantissa.signum() * one, v.precision, v.scale), ty)
        }
        Value::Float(v) => Ok(Value::Float(if v == 0.0 { 0.0 } else { v.signum() })),
        other => {
            let number = i128::from(other.as_i64().unwrap_or_default()).signum();
            integer_value(number, ty).ok_or_else(|| overflow("expression", ty))
        }
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

fn sqrt(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let number = arguments.float(0)?;
    if number < 0.0 {
        return Err(invalid_operation());
    }
    Ok(Value::Float(number.sqrt()))
}

fn square(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let number = arguments.float(0)?;
    checked_float(number * number, SqlType::Float)
}

fn exp(arguments: &Arguments<'_>) -> SqlResult<Value> {
    checked_float(arguments.float(0)?.exp(), SqlType::Float)
}

fn log(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let number = arguments.float(0)?;
    if number <= 0.0 {
        return Err(invalid_operation());
    }
    if arguments.count() == 1 {
        return Ok(Value::Float(number.ln()));
    }
    let base = arguments.float(1)?;
    if base <= 0.0 || base == 1.0 {
        return Err(invalid_operation());
    }
    checked_float(number.ln() / base.ln(), SqlType::Float)
}

fn log10(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let number = arguments.float(0)?;
    if number <= 0.0 {
        return Err(invalid_operation());
    }
    Ok(Value::Float(number.log10()))
}

/// 3623.
fn invalid_operation() -> SqlError {
    SqlError::new(3623, "An invalid floating point operation occurred.")
}

/// Sure of numbers and of texts that cannot be one. What is in between (a lone sign, currency symbols, commas) is
/// refused.
fn is_numeric(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let ty = arguments.types[0];
    let answer = match &arguments.values[0] {
        Value::Null => false,
        Value::String(text) => {
            let text = text.trim_matches(' ');
            let is_number = Decimal::parse(text, 38, 0).is_ok()
                || is_money_text(text)
                || (!text.is_empty() && text.parse::<f64>().is_ok_and(f64::is_finite));
            let cannot_be =
                text.is_empty() || text.chars().any(|c| c.is_ascii_alphabetic() && !matches!(c, 'd' | 'D' | 'e' | 'E'));
            if !is_number && !cannot_be {
                return Err(SqlError::not_supported(format!("ISNUMERIC of '{text}'")));
            }
            is_number && !cannot_be
        }
        _ => ty.is_number() || ty == SqlType::Bit,
    };
    Ok(Value::Int(i32::from(answer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::builtin::tests::{call, int, number, typed, varchar};

    fn ok(text: &str) -> Result<String, i32> {
        Ok(text.to_string())
    }

    // docs/t-sql/functions/{abs,ceiling,floor,sign}-transact-sql.md
    #[test]
    fn magnitudes() {
        assert_eq!(call("ABS", &[number("-1.0")]), ok("1.0"));
        assert_eq!(call("ABS", &[int(i32::MIN)]), Err(8115));
        assert_eq!(call("CEILING", &[number("123.45")]), ok("124"));
        assert_eq!(call("CEILING", &[number("-123.45")]), ok("-123"));
        assert_eq!(call("FLOOR", &[number("-123.45")]), ok("-124"));
        assert_eq!(call("FLOOR", &[int(7)]), ok("7"));
        assert_eq!(call("SIGN", &[number("-2.5")]), ok("-1.0"));
        assert_eq!(call("ABS", &[(Value::Bit(true), SqlType::Bit)]), Err(8116));
    }

    // docs/t-sql/functions/round-transact-sql.md
    #[test]
    fn rounding() {
        assert_eq!(call("ROUND", &[number("748.58"), int(-1)]), ok("750.00"));
        assert_eq!(call("ROUND", &[number("748.58"), int(-2)]), ok("700.00"));
        assert_eq!(call("ROUND", &[number("748.58"), int(-3)]), Err(8115));
        assert_eq!(call("ROUND", &[number("748.58"), int(-4)]), ok("0.00"));
        assert_eq!(call("ROUND", &[number("123.9995"), int(3)]), ok("124.0000"));
        assert_eq!(call("ROUND", &[number("150.75"), int(0), int(1)]), ok("150.00"));
        assert_eq!(call("ROUND", &[int(15), int(-1)]), ok("20"));
        assert_eq!(call("ROUND", &[int(15), int(2)]), ok("15"));
    }

    // docs/t-sql/functions/power-transact-sql.md
    #[test]
    fn powers_and_roots() {
        assert_eq!(call("POWER", &[int(2), number("-100.0")]), ok("0"));
        assert_eq!(call("POWER", &[number("2.0"), int(3)]), ok("8.0"));
        assert_eq!(call("POWER", &[typed("2.5", SqlType::Float), int(3)]), ok("15.625"));
        assert_eq!(call("POWER", &[int(2), int(31)]), Err(8115));
        assert_eq!(call("SQRT", &[int(9)]), ok("3"));
        assert_eq!(call("SQRT", &[int(-1)]), Err(3623));
        assert_eq!(call("LOG", &[int(8), int(2)]), ok("3"));
        assert_eq!(call("LOG", &[int(0)]), Err(3623));
    }

    #[test]
    fn numbers_are_told_from_texts() {
        assert_eq!(call("ISNUMERIC", &[varchar("-12.5")]), ok("1"));
        assert_eq!(call("ISNUMERIC", &[varchar("1e5")]), ok("1"));
        assert_eq!(call("ISNUMERIC", &[varchar("abc")]), ok("0"));
        assert_eq!(call("ISNUMERIC", &[varchar("$")]), Err(59_000));
    }
}
