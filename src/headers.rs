//! Headers: a small JSON object that a producer attaches to a job.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The longest that all headers of a job may be as JSON, in UTF-16 units: what the procedures take.
const MAX_UNITS: usize = 1_300;

/// What readpast's own begin with.
const RESERVED: &str = "readpast-";

/// A job's headers by name. (Boxed: few jobs have any.)
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Headers(Box<Map<String, Value>>);

impl Headers {
    pub(crate) fn set(&mut self, name: String, value: String) {
        self.0.insert(name, Value::String(value));
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The value where it is text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// As the procedures take them.
    pub(crate) fn json(&self) -> String {
        Value::Object((*self.0).clone()).to_string()
    }

    /// Refuses what the procedures would refuse.
    ///
    /// # Errors
    ///
    /// What is wrong, and what is allowed.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(name) = self.0.keys().find(|name| name.starts_with(RESERVED)) {
            return Err(format!("it has a header '{name}'; names that begin with {RESERVED} are readpast's own"));
        }
        let units = self.json().encode_utf16().count();
        if units > MAX_UNITS {
            return Err(format!("its headers as JSON have {units} UTF-16 units; they must have {MAX_UNITS} at most"));
        }
        Ok(())
    }
}
