//! Settings from TOML: looks up each key, checks the value's type, and reports the line of a fault.
//!
//! No message quotes the line or a value that may be a connection string.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Error;

use super::config::Config;
use super::range_checks::{refused, shown};
use super::settings_table;
use super::settings_table::{Allowed, Setting, Value, is_section, nearest, sections, split};

struct Mistake {
    place: Range<usize>,
    message: String,
}

/// Applies the settings of the text. `file` is its name for messages, if it has one.
pub(super) fn apply(config: &mut Config, text: &str, file: Option<&str>) -> Result<(), Error> {
    let result = parse(text).and_then(|table| apply_table(config, table.get_ref()));
    result.map_err(placed(text, file))
}

/// Applies the settings of one section, whose name may have dots, if the section exists.
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
        apply_table(config, inside)
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

fn apply_table(config: &mut Config, table: &DeTable<'_>) -> Result<(), Mistake> {
    let settings = settings_table::settings::<Config>();
    let mut values = BTreeMap::new();
    read_table(&settings, "", table, &mut values)?;
    *config = settings_table::with(config, values);
    Ok(())
}

fn read_table(
    settings: &[Setting],
    section: &str,
    table: &DeTable<'_>,
    values: &mut BTreeMap<&'static str, Value>,
) -> Result<(), Mistake> {
    for (key, value) in table {
        let name = if section.is_empty() { key.get_ref().to_string() } else { format!("{section}.{}", key.get_ref()) };
        match value.get_ref() {
            DeValue::Table(inner) if is_section(settings, &name) => read_table(settings, &name, inner, values)?,
            _ if is_section(settings, &name) => return Err(not_a_section(&name, value)),
            _ => {
                let Some(setting) = settings.iter().find(|setting| setting.key == name) else {
                    return Err(Mistake { place: key.span(), message: unknown(settings, &name, value.get_ref()) });
                };
                values.insert(setting.key, read_value(setting, key.span(), value.get_ref())?);
            }
        }
    }
    Ok(())
}

fn read_value(setting: &Setting, place: Range<usize>, value: &DeValue<'_>) -> Result<Value, Mistake> {
    let read = match (&setting.allowed, value) {
        (Allowed::Text { .. } | Allowed::Word(_), DeValue::String(text)) => setting.read(text),
        (Allowed::Truth, DeValue::Boolean(truth)) => Some(Value::Truth(*truth)),
        (Allowed::Number { .. }, DeValue::Integer(number)) => {
            u64::from_str_radix(number.as_str(), number.radix()).ok().map(Value::Number)
        }
        _ => None,
    };
    read.ok_or_else(|| {
        let found = described(value, setting.key.starts_with("connection."));
        Mistake { place, message: format!("{} is {found}; it must be {}", setting.key, setting.written()) }
    })
}

fn unknown(settings: &[Setting], name: &str, value: &DeValue<'_>) -> String {
    if let DeValue::Table(_) = value {
        let sections = sections(settings);
        let hint = match nearest(name, sections.iter().map(|section| (*section, section))) {
            Some(near) => format!("did you mean [{near}]?"),
            None => format!("the sections are [{}]", sections.join("], [")),
        };
        return format!("unknown section {}; {hint}", shown(name));
    }
    let (section, last) = split(name);
    let named = |setting: &Setting| (split(setting.key).1, setting.key);
    let near = nearest(last, settings.iter().filter(|setting| split(setting.key).0 == section).map(named))
        .or_else(|| nearest(last, settings.iter().map(named)));
    let hint = match near {
        Some(near) => format!("did you mean {near}?"),
        None => format!("the keys are {}", settings.iter().map(|setting| setting.key).collect::<Vec<_>>().join(", ")),
    };
    format!("unknown key {}; {hint}", shown(name))
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
