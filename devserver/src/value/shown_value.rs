//! Values in error messages.

use crate::value::convert::bytes::hex;
use crate::value::convert::cast::convert;
use crate::value::types::{Length, SqlType};
use crate::value::values::Value;

/// A value as in "The duplicate key value is (1, abc)."; the caller adds parentheses and commas.
pub fn format_for_message(value: &Value, ty: SqlType) -> String {
    match value {
        Value::Null => "<NULL>".to_string(),
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => hex(bytes).to_ascii_lowercase(),
        Value::Uuid(id) => id.hyphenated().to_string(),
        _ => {
            // The styles of these types that are written here; SQL Server takes their style 0.
            let style = match ty {
                SqlType::Real | SqlType::Float => Some(3),
                SqlType::DateTime => Some(121),
                _ => None,
            };
            let text = convert(value.clone(), ty, SqlType::NVarChar(Length::Max), style, true);
            text.ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_as_in_2627() {
        assert_eq!(format_for_message(&Value::Int(-5), SqlType::Int), "-5");
        assert_eq!(format_for_message(&Value::Null, SqlType::Int), "<NULL>");
        assert_eq!(format_for_message(&Value::Bytes([0xAB].into()), SqlType::Binary(1)), "0xab");
    }
}
