//! Paths into a JSON text, and what they lead to.
//!
//! Source: docs/relational-databases/json/json-path-expressions-sql-server.md.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::json::scanner::{Item, Kind, Scanner, unescape};
use crate::value::convert::text::utf16_length;

/// 13623.
pub fn no_scalar() -> SqlError {
    SqlError::new(13623, "Scalar value cannot be found in the specified JSON path.").state(2)
}

/// 13624.
pub fn no_composite() -> SqlError {
    SqlError::new(13624, "Object or array cannot be found in the specified JSON path.").state(2)
}

/// A path into a JSON text; the default leads to the text itself.
#[derive(Debug, Default)]
pub struct Path {
    pub strict: bool,
    pub(in crate::value) steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::value) enum Step {
    Key(String),
    Element(usize),
}

impl Path {
    /// `$."key"`.
    pub fn of_key(key: &str) -> Path {
        Path { strict: false, steps: vec![Step::Key(key.to_string())] }
    }

    /// `[lax|strict] $`, then `.key`, `."key"` and `[n]`.
    ///
    /// # Errors
    /// 13607.
    pub fn parse(text: &str) -> SqlResult<Path> {
        let invalid = |rest: &str| {
            let position = utf16_length(text) - utf16_length(rest);
            let character = rest.chars().next().unwrap_or('.');
            SqlError::new(
                13607,
                format!(
                    "JSON path is not properly formatted. Unexpected character '{character}' is found at position \
                     {position}."
                ),
            )
        };
        let trimmed = text.trim_start_matches(' ');
        let (strict, rest) = match (trimmed.strip_prefix("strict "), trimmed.strip_prefix("lax ")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => (false, trimmed),
        };
        let rest = rest.trim_start_matches(' ');
        let mut rest = rest.strip_prefix('$').ok_or_else(|| invalid(rest))?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let digits = after.bytes().take_while(u8::is_ascii_digit).count();
                let index = after[..digits].parse().map_err(|_| invalid(after))?;
                rest = after[digits..].strip_prefix(']').ok_or_else(|| invalid(&after[digits..]))?;
                steps.push(Step::Element(index));
                continue;
            }
            let after = rest.strip_prefix('.').ok_or_else(|| invalid(rest))?;
            if after.starts_with('"') {
                let mut scanner = Scanner::new(after);
                let key = scanner.string().map_err(|_| invalid(after))?;
                steps.push(Step::Key(unescape(key)));
                rest = &after[scanner.at..];
                continue;
            }
            let length = after.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_' || !b.is_ascii()).count();
            if length == 0 {
                return Err(invalid(after));
            }
            steps.push(Step::Key(after[..length].to_string()));
            rest = &after[length..];
        }
        Ok(Path { strict, steps })
    }
}

/// What a path leads to: nothing in lax mode, an error in strict mode if there is no such property.
pub fn follow<'a>(text: &'a str, path: &Path) -> SqlResult<Option<Item<'a>>> {
    // The whole text is scanned: what is found must not depend on whether the rest is JSON.
    follow_from(Scanner::new(text).document()?, path)
}

/// The same, from a value within a text.
pub fn follow_from<'a>(mut item: Item<'a>, path: &Path) -> SqlResult<Option<Item<'a>>> {
    for step in &path.steps {
        let next = match (step, item.kind) {
            (Step::Key(key), Kind::Object) => member(item.text, key)?,
            (Step::Element(index), Kind::Array) => element(item.text, *index)?,
            _ => None,
        };
        match next {
            Some(next) => item = next,
            None if path.strict => {
                return Err(SqlError::new(13608, "Property cannot be found on the specified JSON path.").state(2));
            }
            None => return Ok(None),
        }
    }
    Ok(Some(item))
}

/// The first member of an object with a key.
fn member<'a>(object: &'a str, wanted: &str) -> SqlResult<Option<Item<'a>>> {
    let mut scanner = Scanner::new(object);
    scanner.at += 1;
    loop {
        scanner.blanks();
        if scanner.peek() != Some(b'"') {
            return Ok(None);
        }
        let key = scanner.string()?;
        scanner.blanks();
        scanner.expect(b':')?;
        let value = scanner.value(0)?;
        if unescape(key) == wanted {
            return Ok(Some(value));
        }
        scanner.blanks();
        if scanner.peek() != Some(b',') {
            return Ok(None);
        }
        scanner.at += 1;
    }
}

fn element(array: &str, wanted: usize) -> SqlResult<Option<Item<'_>>> {
    let mut scanner = Scanner::new(array);
    scanner.at += 1;
    scanner.blanks();
    if scanner.peek() == Some(b']') {
        return Ok(None);
    }
    let mut index = 0;
    loop {
        let value = scanner.value(0)?;
        if index == wanted {
            return Ok(Some(value));
        }
        index += 1;
        scanner.blanks();
        if scanner.peek() != Some(b',') {
            return Ok(None);
        }
        scanner.at += 1;
    }
}
