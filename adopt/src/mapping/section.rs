//! Reads a section key by key, and reports mistakes with their lines.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::expression::{Value, read_value};

use super::model::{At, Set};

pub(super) struct Mistake {
    pub(super) at: usize,
    pub(super) message: String,
}

pub(super) type Read<T> = Result<T, Mistake>;

pub(super) fn missing<T>(message: &str) -> Read<T> {
    Err(Mistake { at: 0, message: message.to_string() })
}

pub(super) fn at_line(text: &str, line: usize, message: &str) -> Mistake {
    let at = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    Mistake { at, message: message.to_string() }
}

pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// A section, and those of its keys that were not read yet.
pub(super) struct Section<'t, 's> {
    text: &'t str,
    pub(super) name: &'static str,
    pub(super) table: &'s DeTable<'t>,
    known: &'static [&'static str],
}

impl<'t, 's> Section<'t, 's> {
    pub(super) fn new(
        text: &'t str,
        name: &'static str,
        table: &'s DeTable<'t>,
        known: &'static [&'static str],
    ) -> Read<Self> {
        for key in table.keys() {
            let found: &str = key.get_ref();
            if !known.contains(&found) {
                let near = known.iter().filter(|known| strsim::damerau_levenshtein(known, found) <= 2);
                let hint = match near.min_by_key(|known| strsim::damerau_levenshtein(known, found)) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("the keys are {}", known.join(", ")),
                };
                let message = format!("unknown key {}; {hint}", full(name, found));
                return Err(Mistake { at: key.span().start, message });
            }
        }
        Ok(Section { text, name, table, known })
    }

    pub(super) fn get(&self, key: &'static str) -> Option<&'s Spanned<DeValue<'t>>> {
        debug_assert!(self.known.contains(&key));
        self.table.get(key)
    }

    pub(super) fn line(&self, value: &Spanned<DeValue<'_>>) -> usize {
        line_of(self.text, value.span().start)
    }

    pub(super) fn mistake<T>(&self, key: &str, value: &Spanned<DeValue<'_>>, message: &str) -> Read<T> {
        let shown = match value.get_ref() {
            DeValue::String(text) => format!("\"{text}\""),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Boolean(truth) => truth.to_string(),
            DeValue::Array(_) => "a list".to_string(),
            DeValue::Table(_) => "a section".to_string(),
            _ => "something else".to_string(),
        };
        Err(Mistake { at: value.span().start, message: format!("{} is {shown}; {message}", full(self.name, key)) })
    }

    pub(super) fn text(&self, key: &'static str) -> Read<Option<At<String>>> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.get_ref() {
                DeValue::String(text) if !text.trim().is_empty() => {
                    Ok(Some(At { it: text.to_string(), line: self.line(value) }))
                }
                _ => self.mistake(key, value, "it must be a text in quotes"),
            },
        }
    }

    pub(super) fn texts(&self, key: &'static str) -> Read<Vec<At<String>>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let DeValue::Array(list) = value.get_ref() else {
            return Ok(self.text(key)?.into_iter().collect());
        };
        let mut texts = Vec::new();
        for one in list.iter() {
            match one.get_ref() {
                DeValue::String(text) if !text.trim().is_empty() => {
                    texts.push(At { it: text.to_string(), line: self.line(one) });
                }
                _ => return self.mistake(key, value, "it must be a text in quotes or a list of them"),
            }
        }
        if texts.is_empty() {
            return self.mistake(key, value, "it must have at least one text");
        }
        Ok(texts)
    }

    pub(super) fn is_true(&self, key: &'static str) -> Read<bool> {
        match self.get(key).map(|value| (value, value.get_ref())) {
            None => Ok(false),
            Some((_, DeValue::Boolean(true))) => Ok(true),
            Some((value, _)) => self.mistake(key, value, "it must be true or absent"),
        }
    }

    pub(super) fn value(&self, key: &'static str) -> Read<Option<At<Value>>> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match (read_value(&text.it), self.get(key)) {
            (Ok(it), _) => Ok(Some(At { it, line: text.line })),
            (Err(message), Some(place)) => self.mistake(key, place, &message),
            (Err(message), None) => Err(Mistake { at: 0, message }),
        }
    }

    pub(super) fn sets(&self, key: &'static str) -> Read<Option<Vec<Set>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let DeValue::Table(table) = value.get_ref() else {
            return self.mistake(key, value, "it must be columns with their values: { Column = \"value\" }");
        };
        let mut sets = Vec::new();
        for (column, value) in table {
            let name = column.get_ref().to_string();
            let it = match value.get_ref() {
                DeValue::String(text) => match read_value(text) {
                    Ok(value) => value,
                    Err(message) => {
                        let hint = "; a text value needs its own quotes: \"'done'\"";
                        return self.mistake(&format!("{key}.{name}"), value, &(message + hint));
                    }
                },
                DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) if number < 0 => {
                        Value::Negative(Box::new(Value::Number(number.unsigned_abs().to_string())))
                    }
                    Ok(number) => Value::Number(number.to_string()),
                    Err(_) => return self.mistake(&format!("{key}.{name}"), value, "the number is too large"),
                },
                DeValue::Boolean(truth) => Value::Number(u8::from(*truth).to_string()),
                _ => {
                    return self.mistake(
                        &format!("{key}.{name}"),
                        value,
                        "it must be an expression of T-SQL in quotes, or a number",
                    );
                }
            };
            let at = column.span().start;
            sets.push((at, Set { column: At { it: name, line: line_of(self.text, at) }, value: it }));
        }
        // Sorted as in the text, because the parser's map has another order.
        sets.sort_by_key(|(at, _)| *at);
        Ok(Some(sets.into_iter().map(|(_, set)| set).collect()))
    }
}

pub(super) fn full(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_string() } else { format!("{section}.{key}") }
}
