//! The fields of a query or a form.

use std::fmt::Display;
use std::str::FromStr;

use axum::http::Uri;

use crate::failure::Failure;

/// The names and values of fields. An empty value counts as missing, because forms send all their fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl FromIterator<(String, String)> for Fields {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(fields: T) -> Fields {
        Fields(fields.into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }
}

impl Fields {
    /// Reads a query or the body of a form.
    pub fn read(text: &[u8]) -> Fields {
        form_urlencoded::parse(text).into_owned().collect()
    }

    pub fn of(uri: &Uri) -> Fields {
        Fields::read(uri.query().unwrap_or_default().as_bytes())
    }

    /// Renames the fields called `name` to `other`.
    pub fn renamed(mut self, name: &str, other: &str) -> Fields {
        for (given, _) in self.0.iter_mut().filter(|(given, _)| given == name) {
            *given = other.to_owned();
        }
        self
    }

    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// All values of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub fn required(&self, name: &str) -> Result<&str, Failure> {
        self.get(name).ok_or_else(|| Failure::bad(name, "missing", "it must be there"))
    }

    /// The number of this name, which must be there.
    pub fn number<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T, Failure> {
        self.parsed(name)?.ok_or_else(|| Failure::bad(name, "missing", "it must be a number"))
    }

    /// The value of this name, converted to another type.
    pub fn parsed<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|error: T::Err| Failure::bad(name, text, &error.to_string()))
    }
}
