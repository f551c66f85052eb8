//! SQL_VARIANT_PROPERTY.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::{Arguments, Builtin};
use crate::value::collation::Collation;
use crate::value::convert::chart::check_conversion;
use crate::value::types::{DecimalName, SqlType};
use crate::value::values::Value;
use crate::value::variant::{of_int, of_text};

pub(super) const FUNCTIONS: &[Builtin] = &[Builtin::new(
    "SQL_VARIANT_PROPERTY",
    Exactly(2),
    |arguments| {
        check_conversion(arguments[0].ty, SqlType::Variant, false)?;
        Ok(SqlType::Variant)
    },
    property,
)];

/// Source: "SQL_VARIANT_PROPERTY" (MicrosoftDocs/sql-docs, docs/t-sql/functions/sql-variant-property-transact-sql.md).
fn property(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let base = match &arguments.values[0] {
        Value::Variant(variant) => variant.base,
        _ => arguments.types[0],
    };
    let (length, precision, scale) = base.facts();
    Ok(match arguments.text(1)?.to_ascii_lowercase().as_str() {
        "basetype" if matches!(base, SqlType::Decimal { name: DecimalName::Unknown, .. }) => {
            return Err(SqlError::not_supported(
                "SQL_VARIANT_PROPERTY(…, 'BaseType') of a computed decimal or numeric",
            ));
        }
        "basetype" => of_text(base.name()),
        "precision" => of_int(i32::from(precision)),
        "scale" => of_int(i32::from(scale)),
        "maxlength" => of_int(i32::from(length)),
        "collation" if base.is_character() => of_text(Collation::default().name()),
        "totalbytes" => return Err(SqlError::not_supported("SQL_VARIANT_PROPERTY(…, 'TotalBytes')")),
        _ => Value::Null,
    })
}
