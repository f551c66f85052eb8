//! The TOML text: each key is looked up, its value's type compared, and what is wrong named with its line.
//!
//! No message quotes the line itself or a value that may be a connection string.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Error;

use super::config::Config;
use super::keys;
use super::keys::{KEYS, Key, Kind};
use super::ranges::{refused, shown};

const SECTIONS: [&str; 5] = ["connection", "queue", "worker", "worker.retry", "metrics"];

/// What is wrong, and where in the text.
struct Mistake {
    place: Range<usize>,
    message: String,
}

/// Sets what the text sets. `file` is its name for messages, if it has one.
pub(super) fn apply(config: &mut Config, text: &str, file: Option<&str>) -> Result<(), Error> {
    let result = parse(text).and_then(|table| apply_table(config, "", table.get_ref()));
    result.map_err(placed(text, file))
}

/// Sets what one section of the text sets, whose name may have dots; nothing where there is no such section.
pub(super) fn apply_section(config: &mut Config, text: &str, section: &str) -> Result<(), Error> {
    if section.is_empty() {
        return Err(refused("the section", "empty", "the name of a section; Config::from_toml reads a whole text"));
    }
    let result = parse(text).and_then(|table| {
        let mut inside = table.get_ref();
        for name in section.split('.') {
            inside = match inside.get(name) {
                Some(value) => match value.get_ref() {
                    DeValue::Table(inner) => inner,
                    _ => return Err(not_a_section(section, value)),
                },
                None => return Ok(()),
            };
        }
        apply_table(config, "", inside)
    });
    result.map_err(placed(text, None))
}

fn parse(text: &str) -> Result<Spanned<DeTable<'_>>, Mistake> {
    let mistake = |error: toml::de::Error| Mistake {
        place: error.span().unwrap_or_default(),
        message: error.message().to_string(),
    };
    DeTable::parse(text).map_err(mistake)
}

/// A mistake as an error that names its line.
fn placed(text: &str, file: Option<&str>) -> impl Fn(Mistake) -> Error {
    move |mistake| {
        let line = text[..mistake.place.start].matches('\n').count() + 1;
        let place = match file {
            Some(file) => format!("{file}, line {line}"),
            None => format!("line {line}"),
        };
        Error::ConfigSyntax { place, message: mistake.message }
    }
}

fn not_a_section(name: &str, value: &Spanned<DeValue<'_>>) -> Mistake {
    Mistake { place: value.span(), message: format!("{name} is a section, not a single value") }
}

fn apply_table(config: &mut Config, section: &str, table: &DeTable<'_>) -> Result<(), Mistake> {
    for (key, value) in table {
        let name = if section.is_empty() { key.get_ref().to_string() } else { format!("{section}.{}", key.get_ref()) };
        match value.get_ref() {
            DeValue::Table(inner) if keys::is_section(&name) => apply_table(config, &name, inner)?,
            _ if keys::is_section(&name) => return Err(not_a_section(&name, value)),
            _ => apply_value(config, &name, key.span(), value)?,
        }
    }
    Ok(())
}

fn apply_value(
    config: &mut Config,
    name: &str,
    place: Range<usize>,
    value: &Spanned<DeValue<'_>>,
) -> Result<(), Mistake> {
    let Some(key) = keys::find(name) else {
        return Err(Mistake { place, message: unknown(name, value.get_ref()) });
    };
    let set = match (key.kind, value.get_ref()) {
        (Kind::Text, DeValue::String(text)) => Some((key.set)(config, text)),
        (Kind::Truth, DeValue::Boolean(truth)) => Some((key.set)(config, if *truth { "true" } else { "false" })),
        (Kind::Number, DeValue::Integer(number)) => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            Some(number.is_ok_and(|number| (key.set)(config, &number.to_string())))
        }
        _ => None,
    };
    if set == Some(true) {
        return Ok(());
    }
    let found = described(value.get_ref(), name.starts_with("connection."));
    Err(Mistake { place, message: format!("{name} is {found}; it must be {}", key.allowed()) })
}

fn unknown(name: &str, value: &DeValue<'_>) -> String {
    if let DeValue::Table(_) = value {
        let hint = match keys::nearest(name, SECTIONS.into_iter().zip(SECTIONS)) {
            Some(near) => format!("did you mean [{near}]?"),
            None => format!("there are [{}]", SECTIONS.join("], [")),
        };
        return format!("there is no section {}; {hint}", shown(name));
    }
    let (section, last) = keys::split(name);
    let named = |key: &'static Key| (keys::split(key.name).1, key.name);
    let near = keys::nearest(last, KEYS.iter().filter(|key| keys::split(key.name).0 == section).map(named))
        .or_else(|| keys::nearest(last, KEYS.iter().map(named)));
    let hint = match near {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")),
    };
    format!("there is no key {}; {hint}", shown(name))
}

fn described(value: &DeValue<'_>, is_secret: bool) -> String {
    match value {
        DeValue::String(_) if is_secret => "a text that is not shown here".to_string(),
        DeValue::String(text) => shown(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => "a list".to_string(),
        DeValue::Table(_) => "a section".to_string(),
    }
}
