//! Reads JSON objects that users have written. Errors name the JSON field instead of a Rust type.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::texts::nearest;

/// Reads an object. `fields` are the allowed ones, each with what it must be.
///
/// # Errors
///
/// The column, or the field with its value and what it must be.
pub fn read<T: DeserializeOwned>(text: &[u8], fields: &[(&str, &str)]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| what_is_wrong::<T>(text, fields).unwrap_or_else(|| error.to_string()))
}

fn what_is_wrong<T: DeserializeOwned>(text: &[u8], fields: &[(&str, &str)]) -> Option<String> {
    let object: Map<String, Value> = match serde_json::from_slice(text) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Some("it must be a JSON object: {…}".to_owned()),
        Err(error) => return Some(format!("not JSON from column {} on", error.column())),
    };
    for (name, value) in object {
        let Some((_, allowed)) = fields.iter().find(|(field, _)| *field == name) else {
            let names = fields.iter().map(|(field, _)| *field);
            return Some(match nearest(&name, names.clone()) {
                Some(near) => format!("unknown field '{name}'; did you mean '{near}'?"),
                None => {
                    format!("unknown field '{name}'; the known fields are {}", names.collect::<Vec<_>>().join(", "))
                }
            });
        };
        let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())])).to_string();
        // Only this field is tested, so an error about a missing field does not count.
        let is_wrong = |error: serde_json::Error| !error.to_string().starts_with("missing field");
        if serde_json::from_str::<T>(&alone).is_err_and(is_wrong) {
            return Some(format!("{name} is {value}; it must be {allowed}"));
        }
    }
    None
}
