//! The table of settings. Each row is a line in [`Section::rows`] with a setting's name, default and allowed values.
//! The rows determine the defaults, the keys of files and of the environment, the checks, and the documentation.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::Error;

use super::connection_string::ConnectionString;
use super::memory_size::MemorySize;
use super::range_checks::{refused, shown};

pub(super) struct Setting {
    /// The key as in a TOML file, with its section: `worker.lease_ms`.
    pub(super) key: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "tests write the documentation"))]
    pub(super) default: Value,
    pub(super) allowed: Allowed,
    /// Whether the guide lists it under "Rarely needed".
    #[cfg_attr(not(test), expect(dead_code, reason = "tests write the documentation"))]
    pub(super) is_rare: bool,
}

/// A value as in a file. Times are in milliseconds.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(u64),
    Truth(bool),
}

pub(super) enum Allowed {
    /// A text that meets the rule.
    Text {
        rule: &'static str,
        is_met: fn(&str) -> bool,
    },
    Word(Vec<&'static str>),
    /// An amount of memory that meets the rule.
    Size {
        rule: &'static str,
        is_met: fn(MemorySize) -> bool,
    },
    Number {
        range: RangeInclusive<u64>,
        #[cfg_attr(not(test), expect(dead_code, reason = "tests write the documentation"))]
        unit: &'static str,
    },
    Truth,
}

impl Setting {
    /// Parses a text, if it has the setting's type.
    pub(super) fn read(&self, text: &str) -> Option<Value> {
        match &self.allowed {
            Allowed::Text { .. } => Some(Value::Text(text.to_owned())),
            Allowed::Word(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Allowed::Size { .. } => MemorySize::parse(text).map(|size| Value::Text(size.to_string())),
            Allowed::Number { .. } => text.parse().ok().map(Value::Number),
            Allowed::Truth => text.parse().ok().map(Value::Truth),
        }
    }

    /// Describes a valid value, for error messages.
    pub(super) fn written(&self) -> String {
        match &self.allowed {
            Allowed::Text { .. } => "a text in quotes".to_owned(),
            Allowed::Word(words) => words.join(" or "),
            Allowed::Size { rule, .. } => (*rule).to_owned(),
            Allowed::Number { range, .. } => format!("a whole number from {} to {}", range.start(), range.end()),
            Allowed::Truth => "true or false".to_owned(),
        }
    }

    fn check(&self, value: &Value) -> Result<(), Error> {
        match (&self.allowed, value) {
            (Allowed::Text { rule, is_met }, Value::Text(text)) if !is_met(text) => {
                Err(refused(self.key, shown(text), rule))
            }
            (Allowed::Size { rule, is_met }, Value::Text(text)) if !MemorySize::parse(text).is_some_and(is_met) => {
                Err(refused(self.key, shown(text), rule))
            }
            (Allowed::Number { range, .. }, Value::Number(number)) if !range.contains(number) => {
                Err(refused(self.key, number, format!("{} to {}", range.start(), range.end())))
            }
            _ => Ok(()),
        }
    }
}

pub(super) trait Section: Sized {
    /// Builds the section, each field by its row.
    fn rows(table: &mut Table<'_, Self>) -> Self;
}

pub(super) fn defaults<S: Section>() -> S {
    S::rows(&mut Table { section: None, visit: &mut |_, value| value, is_rare: false })
}

pub(super) fn settings<S: Section>() -> Vec<Setting> {
    let mut settings = Vec::new();
    let mut visit = |setting, value| {
        settings.push(setting);
        value
    };
    S::rows(&mut Table { section: None, visit: &mut visit, is_rare: false });
    settings
}

pub(super) fn with<S: Section>(section: &S, mut values: BTreeMap<&'static str, Value>) -> S {
    let mut visit = |setting: Setting, value| values.remove(setting.key).unwrap_or(value);
    S::rows(&mut Table { section: Some(section), visit: &mut visit, is_rare: false })
}

/// Checks each setting of a section by itself, and returns the first [`Error::Config`].
pub(super) fn check<S: Section>(section: &S) -> Result<(), Error> {
    let mut result = Ok(());
    let mut visit = |setting: Setting, value| {
        if result.is_ok() {
            result = setting.check(&value);
        }
        value
    };
    S::rows(&mut Table { section: Some(section), visit: &mut visit, is_rare: false });
    result
}

/// One pass over the rows of section `S`. Each method takes a row with its field, and returns the field's value.
pub(super) struct Table<'a, S> {
    /// The section with the current values; `None` for the defaults.
    section: Option<&'a S>,
    /// Called with each setting and its value; returns the new value.
    visit: &'a mut dyn FnMut(Setting, Value) -> Value,
    is_rare: bool,
}

impl<S> Table<'_, S> {
    /// A table for settings that the guide lists under "Rarely needed".
    pub(super) fn rare(&mut self) -> Table<'_, S> {
        Table { section: self.section, visit: &mut *self.visit, is_rare: true }
    }

    pub(super) fn part<P: Section>(&mut self, field: fn(&S) -> &P) -> P {
        P::rows(&mut Table { section: self.section.map(field), visit: &mut *self.visit, is_rare: false })
    }

    /// A field that only code can set.
    pub(super) fn in_code<T: Clone + Default>(&self, field: fn(&S) -> &T) -> T {
        self.section.map(|section| field(section).clone()).unwrap_or_default()
    }

    /// `rule` describes what `is_met` checks.
    pub(super) fn text(
        &mut self,
        key: &'static str,
        field: fn(&S) -> &str,
        default: &str,
        rule: &'static str,
        is_met: fn(&str) -> bool,
    ) -> String {
        let now = self.section.map(|section| Value::Text(field(section).to_owned()));
        self.row(key, now, Value::Text(default.to_owned()), Allowed::Text { rule, is_met }).text()
    }

    pub(super) fn connection_string(
        &mut self,
        key: &'static str,
        field: fn(&S) -> &ConnectionString,
        rule: &'static str,
    ) -> ConnectionString {
        let now = self.section.map(|section| Value::Text(field(section).reveal().to_owned()));
        let allowed = Allowed::Text { rule, is_met: |text| !text.is_empty() };
        self.row(key, now, Value::Text(String::new()), allowed).text().into()
    }

    /// A choice of words with their meanings. The first is the default.
    pub(super) fn word<T: Copy + PartialEq>(
        &mut self,
        key: &'static str,
        field: fn(&S) -> T,
        words: &[(&'static str, T)],
    ) -> T {
        let value = |(word, _): &(&str, T)| Value::Text((*word).to_owned());
        let now = self.section.and_then(|section| words.iter().find(|(_, meant)| *meant == field(section)).map(value));
        let allowed = Allowed::Word(words.iter().map(|(word, _)| *word).collect());
        let chosen = self.row(key, now, value(&words[0]), allowed).text();
        words.iter().find(|(word, _)| *word == chosen).unwrap_or(&words[0]).1
    }

    pub(super) fn truth(&mut self, key: &'static str, field: fn(&S) -> bool, default: bool) -> bool {
        let now = self.section.map(|section| Value::Truth(field(section)));
        self.row(key, now, Value::Truth(default), Allowed::Truth).truth()
    }

    pub(super) fn count(
        &mut self,
        key: &'static str,
        field: fn(&S) -> usize,
        default: u64,
        range: RangeInclusive<u64>,
        unit: &'static str,
    ) -> usize {
        let now = self.section.map(|section| field(section) as u64);
        self.number(key, now, default, range, unit).try_into().unwrap_or(usize::MAX)
    }

    pub(super) fn bytes(
        &mut self,
        key: &'static str,
        field: fn(&S) -> u64,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> u64 {
        let now = self.section.map(field);
        self.number(key, now, default, range, "bytes")
    }

    /// `rule` describes what `is_met` checks.
    pub(super) fn size(
        &mut self,
        key: &'static str,
        field: fn(&S) -> MemorySize,
        default: MemorySize,
        rule: &'static str,
        is_met: fn(MemorySize) -> bool,
    ) -> MemorySize {
        let now = self.section.map(|section| Value::Text(field(section).to_string()));
        let value = self.row(key, now, Value::Text(default.to_string()), Allowed::Size { rule, is_met }).text();
        MemorySize::parse(&value).unwrap_or(default)
    }

    /// `default_ms` and `range_ms` are in milliseconds, like the key.
    pub(super) fn time(
        &mut self,
        key: &'static str,
        field: fn(&S) -> Duration,
        default_ms: u64,
        range_ms: RangeInclusive<u64>,
    ) -> Duration {
        let now = self.section.map(field);
        let now_ms = now.map(|time| time.as_millis().try_into().unwrap_or(u64::MAX));
        let ms = self.number(key, now_ms, default_ms, range_ms, "ms");
        match now {
            Some(time) if Some(ms) == now_ms => time, // code may set a fraction of a millisecond
            _ => Duration::from_millis(ms),
        }
    }

    fn number(
        &mut self,
        key: &'static str,
        now: Option<u64>,
        default: u64,
        range: RangeInclusive<u64>,
        unit: &'static str,
    ) -> u64 {
        self.row(key, now.map(Value::Number), Value::Number(default), Allowed::Number { range, unit }).number()
    }

    fn row(&mut self, key: &'static str, now: Option<Value>, default: Value, allowed: Allowed) -> Value {
        let value = now.unwrap_or_else(|| default.clone());
        (self.visit)(Setting { key, default, allowed, is_rare: self.is_rare }, value)
    }
}

/// Converts values to fields. A value always has its setting's type, because it was read by [`Setting::read`] or comes
/// from a field.
impl Value {
    fn text(self) -> String {
        match self {
            Value::Text(text) => text,
            Value::Number(_) | Value::Truth(_) => unreachable!("this setting is a text"),
        }
    }

    fn number(self) -> u64 {
        match self {
            Value::Number(number) => number,
            Value::Text(_) | Value::Truth(_) => unreachable!("this setting is a number"),
        }
    }

    fn truth(self) -> bool {
        match self {
            Value::Truth(truth) => truth,
            Value::Text(_) | Value::Number(_) => unreachable!("this setting is true or false"),
        }
    }
}

/// The section of the kinds, whose names the user chooses.
pub(super) const KINDS: &str = "kinds";

pub(super) fn is_section(settings: &[Setting], name: &str) -> bool {
    settings.iter().any(|setting| setting.key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

pub(super) fn sections(settings: &[Setting]) -> Vec<&'static str> {
    let mut sections: Vec<&str> = settings.iter().map(|setting| split(setting.key).0).collect();
    sections.dedup();
    sections.push(KINDS);
    sections
}

/// Returns the second part of the pair whose first part is most similar to a wrong name, if any is similar enough.
pub(super) fn nearest<'a, T>(name: &str, candidates: impl Iterator<Item = (&'a str, T)>) -> Option<T> {
    // `lease` resembles `lease_ms`, and `colour` nothing.
    const LIKENESS: f64 = 0.85;
    candidates
        .map(|(candidate, meant)| (strsim::jaro_winkler(name, candidate), meant))
        .filter(|(likeness, _)| *likeness > LIKENESS)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, meant)| meant)
}

pub(super) fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}
