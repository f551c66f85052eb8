//! `sql_variant`, which is the type of SERVERPROPERTY and its like: what can become one, and how its values compare.
//!
//! Source: "sql_variant" (MicrosoftDocs/sql-docs, docs/t-sql/data-types/sql-variant-transact-sql.md).

use crate::error::SqlError;
use crate::value::collation::Collation;
use crate::value::compare::{compare, encode_key};
use crate::value::types::SqlType;
use crate::value::values::{Value, Variant};
use std::cmp::Ordering;

/// Properties are integers and names: what they are compared with is nothing else.
pub(super) fn cannot_hold(ty: SqlType) -> Option<SqlError> {
    let holds = ty.is_integer() || ty == SqlType::Bit || (ty.is_character() && !ty.is_max()) || ty == SqlType::Variant;
    (!holds).then(|| SqlError::not_supported(format!("a sql_variant of the type {ty}")))
}

/// The number of a variant; `None` for text.
fn number(variant: &Variant) -> Option<i64> {
    variant.value.as_i64()
}

/// "the value whose data type family is higher in the hierarchy chart is considered the greater": numbers stand above
/// text. Within a family the values count.
pub(super) fn compare_variants(a: &Variant, b: &Variant, collation: Collation) -> Ordering {
    match (number(a), number(b)) {
        (None, None) => compare(&a.value, &b.value, collation),
        (a, b) => a.cmp(&b),
    }
}

/// The key bytes of a value, which agree with [`compare_variants`].
pub(super) fn encode_variant(variant: &Variant, collation: Collation, out: &mut Vec<u8>) {
    match number(variant) {
        None => {
            out.push(0);
            encode_key(&variant.value, variant.base, collation, false, out);
        }
        Some(number) => {
            out.push(1);
            encode_key(&Value::BigInt(number), SqlType::BigInt, collation, false, out);
        }
    }
}
