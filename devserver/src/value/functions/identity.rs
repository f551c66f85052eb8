//! ISNULL, NEWID and NEWSEQUENTIALID.

use super::Arity::Exactly;
use super::{Argument, Arguments, Function};
use crate::error::{SqlError, SqlResult};
use crate::value::convert::{check_conversion, convert};
use crate::value::{SqlType, Value};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("ISNULL", Exactly(2), is_null_type, is_null).passing_nulls(),
    Function::new("NEWID", Exactly(0), |_| Ok(SqlType::UniqueIdentifier), |_| Ok(Value::Uuid(Uuid::new_v4()))),
    Function::new("NEWSEQUENTIALID", Exactly(0), |_| Ok(SqlType::UniqueIdentifier), |_| Ok(next_sequential())),
];

/// An id greater than all before it, in the order of `uniqueidentifier`: bytes 6, 7, 4, 5 and 0 to 3 come last in it.
fn next_sequential() -> Value {
    static FIRST: LazyLock<[u8; 16]> = LazyLock::new(|| Uuid::new_v4().to_bytes_le());
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let count = COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let mut bytes = *FIRST;
    for (place, byte) in [6, 7, 4, 5, 0, 1, 2, 3].into_iter().zip(count) {
        bytes[place] = byte;
    }
    Value::Uuid(Uuid::from_bytes_le(bytes))
}

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
    use super::super::tests::{call, call_typed, int, varchar};
    use super::*;
    use crate::value::Length;

    #[test]
    fn a_replacement_takes_the_type_of_what_it_replaces() {
        let short = SqlType::VarChar(Length::Limit(2));
        let function = super::super::lookup("ISNULL").unwrap();
        let arguments = [Argument { ty: short, constant: None }, Argument { ty: SqlType::Int, constant: None }];
        assert_eq!(function.result_type(&arguments), Ok(short));
        let (text, text_type) = varchar("abc");
        let call_context = super::super::Call { now: (0, 0), collation: Default::default(), date_part: None };
        let cut = function.eval(&[Value::Null, text], &[short, text_type], &call_context).unwrap();
        assert_eq!(cut.as_str(), Some("ab"));
        assert_eq!(call("ISNULL", &[int(1), int(2)]), Ok("1".into()));
    }

    #[test]
    fn sequential_ids_grow() {
        let mut last = next_sequential();
        for _ in 0..70_000 {
            let next = next_sequential();
            assert!(crate::value::compare(&last, &next, Default::default()).is_lt(), "{last:?} {next:?}");
            last = next;
        }
    }

    #[test]
    fn new_ids_differ() {
        let (a, _) = call_typed("NEWID", None, &[]).unwrap();
        let (b, _) = call_typed("NEWID", None, &[]).unwrap();
        assert_ne!(a, b);
    }
}
