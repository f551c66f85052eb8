//! Headers: a small JSON object that a producer attaches to a job.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The longest JSON of a job's headers that the procedures accept, in UTF-16 units.
const MAX_UNITS: usize = 1_300;

const RESERVED: &str = "readpast-";

/// A job's headers by name. Boxed, because few jobs have any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Headers(Box<Map<String, Value>>);

impl Headers {
    pub(crate) fn set(&mut self, name: String, value: String) {
        self.0.insert(name, Value::String(value));
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Adds the other headers, which replace headers of the same name.
    #[cfg(feature = "opentelemetry")]
    pub(crate) fn extend(&mut self, others: &Headers) {
        self.0.extend((*others.0).clone());
    }

    #[cfg(feature = "opentelemetry")]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The size of the names and values, about.
    pub(crate) fn bytes(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + value.as_str().map_or(size_of::<Value>(), str::len)).sum()
    }

    pub(crate) fn json(&self) -> String {
        Value::Object((*self.0).clone()).to_string()
    }

    /// Rejects what the procedures would reject. The error says what is wrong and what is allowed.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(name) = self.0.keys().find(|name| name.starts_with(RESERVED)) {
            return Err(format!(
                "the header '{name}' is reserved; names that begin with {RESERVED} are readpast's own"
            ));
        }
        let units = self.json().encode_utf16().count();
        if units > MAX_UNITS {
            return Err(format!("the headers as JSON are {units} UTF-16 units; they must be at most {MAX_UNITS}"));
        }
        Ok(())
    }
}

/// Parses headers stored by SQL Server.
///
/// SQL Server accepts JSON that Rust cannot represent, such as the number 1e999 or half a surrogate pair (`"\ud800"`).
/// A T-SQL producer must not be able to stop all workers, or to hide a page of jobs from operators, with one such job.
/// Such a header is therefore ignored. If even its name cannot be read, all headers of the job are ignored.
pub(crate) fn read_headers(json: &str) -> Option<Map<String, Value>> {
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

/// [`read_headers`], for a member of a larger object.
pub(crate) fn read_member<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Headers>, D::Error> {
    let json = Option::<Box<RawValue>>::deserialize(deserializer)?;
    Ok(json.and_then(|json| read_headers(json.get())).map(|headers| Headers(Box::new(headers))))
}
