//! ISNULL.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::{Argument, Arguments, Builtin};
use crate::value::convert::cast::convert;
use crate::value::convert::chart::check_conversion;
use crate::value::types::SqlType;
use crate::value::values::Value;

pub(super) const FUNCTIONS: &[Builtin] = &[Builtin::new("ISNULL", Exactly(2), is_null_type, is_null).passing_nulls()];

/// The type of the first argument, whatever the second one is
/// (docs/t-sql/functions/isnull-transact-sql.md, "Return types").
fn is_null_type(arguments: &[Argument<'_>]) -> SqlResult<SqlType> {
    if matches!(arguments[0].constant, Some(Value::Null)) {
        return Err(SqlError::not_supported("ISNULL of the constant NULL"));
    }
    check_conversion(arguments[1].ty, arguments[0].ty, false)?;
    Ok(arguments[0].ty)
}

fn is_null(arguments: &Arguments<'_>) -> SqlResult<Value> {
    if !arguments.values[0].is_null() {
        return Ok(arguments.values[0].clone());
    }
    convert(arguments.values[1].clone(), arguments.types[1], arguments.types[0], None, false)
}
