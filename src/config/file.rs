//! Settings from TOML: looks up each key, checks the value's type, and reports the line of a fault.
//!
//! No message quotes the line or a value that may be a connection string.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::error::Error;
use crate::job::{MAX_TOKENS, MEMORY, Needs, START_WITHIN, THREADS};

use super::config::Config;
use super::kind::KindConfig;
use super::memory_size::MemorySize;
use super::out_of_memory::ALLOWED_RULE;
use super::range_checks::{refused, shown};
use super::settings_table;
use super::settings_table::{Allowed, KINDS, Setting, Value, is_section, nearest, sections, split};

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
    let mut read = Found::default();
    read_table(&settings, "", table, &mut read)?;
    *config = settings_table::with(config, read.values);
    config.worker.resources.tokens.extend(read.tokens);
    config.kinds.extend(read.kinds);
    Ok(())
}

/// The settings of a text.
#[derive(Default)]
struct Found {
    values: BTreeMap<&'static str, Value>,
    tokens: BTreeMap<String, u32>,
    kinds: BTreeMap<String, KindConfig>,
}

fn read_table(settings: &[Setting], section: &str, table: &DeTable<'_>, found: &mut Found) -> Result<(), Mistake> {
    for (key, value) in table {
        let name = if section.is_empty() { key.get_ref().to_string() } else { format!("{section}.{}", key.get_ref()) };
        match value.get_ref() {
            DeValue::Table(inner) if name == KINDS => read_kinds(inner, &mut found.kinds)?,
            DeValue::Table(inner) if is_section(settings, &name) => read_table(settings, &name, inner, found)?,
            _ if name == KINDS || is_section(settings, &name) => return Err(not_a_section(&name, value)),
            _ => match settings.iter().find(|setting| setting.key == name) {
                Some(setting) => {
                    found.values.insert(setting.key, read_value(setting, key.span(), value.get_ref())?);
                }
                None if section == RESOURCES => {
                    let tokens = read_tokens(settings, key, value.get_ref())?;
                    found.tokens.insert(key.get_ref().to_string(), tokens);
                }
                None => {
                    return Err(Mistake { place: key.span(), message: unknown(settings, &name, value.get_ref()) });
                }
            },
        }
    }
    Ok(())
}

fn read_value(setting: &Setting, place: Range<usize>, value: &DeValue<'_>) -> Result<Value, Mistake> {
    let read = match (&setting.allowed, value) {
        (Allowed::Text { .. } | Allowed::Word(_), DeValue::String(text)) => setting.read(text),
        (Allowed::Size { .. }, DeValue::String(text)) => setting.read(text),
        (Allowed::Size { .. }, DeValue::Integer(_)) => whole(value).and_then(|bytes| setting.read(&bytes.to_string())),
        (Allowed::Truth, DeValue::Boolean(truth)) => Some(Value::Truth(*truth)),
        (Allowed::Number { .. }, _) => whole(value).map(Value::Number),
        _ => None,
    };
    read.ok_or_else(|| {
        let found = described(value, setting.key.starts_with("connection."));
        Mistake { place, message: format!("{} is {found}; it must be {}", setting.key, setting.written()) }
    })
}

/// Returns a whole number that is not negative.
fn whole(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}

/// The section whose keys are settings and the names of tokens.
const RESOURCES: &str = "worker.resources";

fn read_tokens(settings: &[Setting], key: &Spanned<DeString<'_>>, value: &DeValue<'_>) -> Result<u32, Mistake> {
    let name: &str = key.get_ref();
    let mistake = |message: String| Mistake { place: key.span(), message };
    let full = shown(&format!("{RESOURCES}.{name}"));
    if name == THREADS {
        return Err(mistake(format!("unknown key {full}; a worker's threads are worker.threads")));
    }
    let tokens =
        whole(value).and_then(|tokens| u32::try_from(tokens).ok()).filter(|tokens| *tokens <= MAX_TOKENS as u32);
    tokens.ok_or_else(|| {
        let own = settings.iter().filter_map(|setting| setting.key.strip_prefix(RESOURCES)?.strip_prefix('.'));
        let hint = match nearest(name, own.map(|key| (key, key))) {
            Some(near) => format!("; did you mean {near}?"),
            None if matches!(value, DeValue::Table(_)) => "; a name with dots stands in quotes".to_owned(),
            None => String::new(),
        };
        let allowed = format!("a whole number of tokens from 0 to {MAX_TOKENS}{hint}");
        mistake(format!("{full} is {}; it must be {allowed}", described(value, false)))
    })
}

fn read_kinds(table: &DeTable<'_>, kinds: &mut BTreeMap<String, KindConfig>) -> Result<(), Mistake> {
    for (kind, value) in table {
        let name = format!("{KINDS}.{}", kind.get_ref());
        let DeValue::Table(options) = value.get_ref() else { return Err(not_a_section(&shown(&name), value)) };
        let mut config = KindConfig::default();
        for (option, value) in options {
            let name = shown(&format!("{name}.{}", option.get_ref()));
            match (option.get_ref().as_ref(), value.get_ref()) {
                ("needs", DeValue::Table(needs)) => config.needs = Some(read_needs(&name, needs, value.span())?),
                ("needs", _) => return Err(not_a_section(&name, value)),
                ("on_out_of_memory", rule) => {
                    let read = rule.as_str().and_then(|rule| rule.parse().ok());
                    let mistake = || Mistake {
                        place: option.span(),
                        message: format!("{name} is {}; it must be {ALLOWED_RULE}", described(rule, false)),
                    };
                    config.on_out_of_memory = Some(read.ok_or_else(mistake)?);
                }
                ("start_within_ms", time) => {
                    let read = whole(time).map(Duration::from_millis).filter(|time| START_WITHIN.contains(time));
                    let mistake = || Mistake {
                        place: option.span(),
                        message: format!(
                            "{name} is {}; it must be 1 to 315360000000 (ten years)",
                            described(time, false)
                        ),
                    };
                    config.start_within = Some(read.ok_or_else(mistake)?);
                }
                _ => {
                    let message = format!(
                        "unknown key {name}; the options of a kind are needs, on_out_of_memory and start_within_ms"
                    );
                    return Err(Mistake { place: option.span(), message });
                }
            }
        }
        kinds.insert(kind.get_ref().to_string(), config);
    }
    Ok(())
}

fn read_needs(name: &str, table: &DeTable<'_>, place: Range<usize>) -> Result<Needs, Mistake> {
    let mut needs = Needs::new();
    for (key, value) in table {
        let (resource, value) = (key.get_ref().as_ref(), value.get_ref());
        let refused = |allowed: &str| {
            let message = format!("{} in {name} is {}; it must be {allowed}", shown(resource), described(value, false));
            Mistake { place: key.span(), message }
        };
        if resource == MEMORY {
            let size = match value {
                DeValue::String(text) => MemorySize::parse(text),
                _ => whole(value).map(MemorySize::Bytes),
            };
            let Some(MemorySize::Bytes(bytes)) = size else { return Err(refused(ALLOWED_NEED)) };
            needs = needs.memory(bytes);
            continue;
        }
        let number = whole(value).and_then(|number| u32::try_from(number).ok());
        let number = number.ok_or_else(|| refused("a whole number"))?;
        needs = if resource == THREADS { needs.threads(number) } else { needs.token(resource, number) };
    }
    match needs.check() {
        Ok(()) => Ok(needs),
        Err(message) => Err(Mistake { place, message: format!("{name}: {message}") }),
    }
}

/// The valid memory of a job. A percentage would be of a worker's memory, and so another one on each.
const ALLOWED_NEED: &str = "a size such as \"3 GiB\", or a number of bytes";

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
