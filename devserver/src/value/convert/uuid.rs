//! To `uniqueidentifier`.

use crate::error::{SqlError, SqlResult};
use crate::value::values::Value;
use uuid::Uuid;

pub(super) fn to_uuid(value: &Value) -> SqlResult<Value> {
    let id = match value {
        Value::Uuid(id) => Some(*id),
        Value::String(text) => parse_uuid(text),
        _ => None,
    };
    id.map(Value::Uuid).ok_or_else(|| {
        SqlError::new(8169, "Conversion failed when converting from a character string to uniqueidentifier.").state(2)
    })
}

/// 36 characters, with or without braces; what follows them is ignored
/// (docs/t-sql/data-types/uniqueidentifier-transact-sql.md, "Converting uniqueidentifier data").
fn parse_uuid(text: &str) -> Option<Uuid> {
    const LENGTH: usize = 36;
    let inner = match text.strip_prefix('{') {
        Some(rest) if rest.as_bytes().get(LENGTH) == Some(&b'}') => rest,
        Some(_) => return None,
        None => text,
    };
    // `parse_str` also reads forms without hyphens, but none of them has 36 characters.
    Uuid::parse_str(inner.get(..LENGTH)?).ok()
}
