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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::builtin::tests::{call, int, varchar};
    use crate::value::types::Length;

    #[test]
    fn a_replacement_takes_the_type_of_what_it_replaces() {
        let short = SqlType::VarChar(Length::Limit(2));
        let function = crate::value::builtin::lookup::lookup("ISNULL").unwrap();
        let arguments = [Argument { ty: short, constant: None }, Argument { ty: SqlType::Int, constant: None }];
        assert_eq!(function.result_type(&arguments), Ok(short));
        let (text, text_type) = varchar("abc");
        let call_context =
            crate::value::builtin::definition::Call { now: (0, 0), collation: Default::default(), date_part: None };
        let cut = function.eval(&[Value::Null, text], &[short, text_type], &call_context).unwrap();
        assert_eq!(cut.as_str(), Some("ab"));
        assert_eq!(call("ISNULL", &[int(1), int(2)]), Ok("1".into()));
    }
}
