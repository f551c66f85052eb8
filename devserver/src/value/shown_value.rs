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
        _ => match convert(value.clone(), ty, SqlType::NVarChar(Length::Max), None, true) {
            Ok(text) => text.as_str().unwrap_or_default().to_string(),
            Err(_) => String::new(),
        },
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
