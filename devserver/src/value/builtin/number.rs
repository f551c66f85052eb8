//! Mathematical functions.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::convert::error::overflow;
use crate::value::convert::number::{float_value, integer_value};
use crate::value::types::SqlType;
use crate::value::values::Value;

pub(super) const FUNCTIONS: &[Builtin] = &[
    Builtin::new("ABS", Exactly(1), abs_type, abs),
    Builtin::new("CEILING", Exactly(1), ceiling_type, ceiling),
    Builtin::new("POWER", Exactly(2), power_type, power),
];

fn refused(function: &str, ty: SqlType) -> SqlError {
    SqlError::not_supported(format!("{function} of {}", ty.message_name()))
}

fn abs_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    let ty = arguments[0].ty;
    if ty.is_integer() { Ok(ty) } else { Err(refused("ABS", ty)) }
}

fn ceiling_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    match arguments[0].ty {
        ty @ (SqlType::Real | SqlType::Float) => Ok(ty),
        ty => Err(refused("CEILING", ty)),
    }
}

fn power_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    match arguments[0].ty {
        SqlType::Float => Ok(SqlType::Float),
        ty => Err(refused("POWER", ty)),
    }
}

fn abs(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let ty = arguments.types[0];
    let number = i128::from(arguments.integer(0)?).abs();
    integer_value(number, ty).ok_or_else(|| overflow("expression", ty))
}

fn ceiling(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let ty = arguments.types[0];
    float_value(arguments.float(0)?.ceil(), ty).ok_or_else(|| overflow("expression", ty))
}

fn power(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let result = arguments.float(0)?.powf(arguments.float(1)?);
    if result.is_nan() {
        return Err(SqlError::new(3623, "An invalid floating point operation occurred."));
    }
    float_value(result, SqlType::Float).ok_or_else(|| overflow("expression", SqlType::Float))
}
