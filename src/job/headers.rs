//! Headers: a small JSON object that a producer attaches to a job.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The longest that all headers of a job may be as JSON, in UTF-16 units: what the procedures take.
const MAX_UNITS: usize = 1_300;

/// What readpast's own begin with.
const RESERVED: &str = "readpast-";

/// A job's headers by name. (Boxed: few jobs have any.)
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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

    /// Adds those that are called otherwise, and replaces the others.
    #[cfg(feature = "opentelemetry")]
    pub(crate) fn extend(&mut self, others: &Headers) {
        self.0.extend((*others.0).clone());
    }

    #[cfg(feature = "opentelemetry")]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
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

/// Reads headers as SQL Server has them.
///
/// It takes for JSON some that Rust has no value for, such as the number 1e999 or half of a character (`"\ud800"`). A
/// producer in T-SQL must not be able to stop all workers with one such job, nor to hide a page of jobs from operators:
/// such a header counts as none, and where not even its name can be read, all of them.
pub(crate) fn read(json: &str) -> Option<Map<String, Value>> {
    let cannot_be_read =
        |error: serde_json::Error| tracing::warn!(%error, "cannot read a header of a job; its handler runs without it");
    let named: BTreeMap<String, Box<RawValue>> = serde_json::from_str(json).map_err(cannot_be_read).ok()?;
    let value = |(name, json): (String, Box<RawValue>)| {
        let value = serde_json::from_str(json.get()).map_err(cannot_be_read).ok()?;
        Some((name, value))
    };
    let read: Map<String, Value> = named.into_iter().filter_map(value).collect();
    (!read.is_empty()).then_some(read)
}

/// [`read`] of a member of a larger object.
pub(crate) fn read_member<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Headers>, D::Error> {
    let json = Option::<Box<RawValue>>::deserialize(deserializer)?;
    Ok(json.and_then(|json| read(json.get())).map(|headers| Headers(Box::new(headers))))
}
