//! JSON_VALUE, JSON_QUERY and ISJSON.
//!
//! A path is followed through the text by a small scanner, which hands out the pieces of the text themselves: numbers
//! and objects come back as they are written. Sources: docs/t-sql/functions/json-value-transact-sql.md,
//! json-query-transact-sql.md, isjson-transact-sql.md and
//! docs/relational-databases/json/json-path-expressions-sql-server.md.

use super::Arity::{Between, Exactly};
use super::{Arguments, Function, always_int};
use crate::error::{SqlError, SqlResult};
use crate::value::convert::utf16_length;
use crate::value::{Length, SqlType, Value};
use std::sync::Arc;

/// The longest result of JSON_VALUE, in UTF-16 units.
const MAX_VALUE: u16 = 4_000;
/// How deep objects and arrays may be nested here; SQL Server allows 128 levels.
const MAX_DEPTH: usize = 128;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("ISJSON", Exactly(1), always_int, is_json),
    Function::new("JSON_VALUE", Exactly(2), |_| Ok(SqlType::NVarChar(Length::Limit(MAX_VALUE))), json_value),
    Function::new("JSON_QUERY", Between(1, 2), |_| Ok(SqlType::NVarChar(Length::Max)), json_query),
];

/// 1 for an object or an array, 0 for anything else, valid scalars included.
fn is_json(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let text = arguments.text(0)?;
    let scanned = Scanner::new(&text).document();
    let is_composite = scanned.is_ok_and(|item| matches!(item.kind, Kind::Object | Kind::Array));
    Ok(Value::Int(i32::from(is_composite)))
}

fn json_value(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let (text, path) = (arguments.text(0)?, Path::parse(&arguments.text(1)?)?);
    let Some(found) = follow(&text, &path)? else {
        return Ok(Value::Null);
    };
    if found.is_composite() && path.strict {
        return Err(no_scalar());
    }
    let Some(scalar) = found.scalar() else { return Ok(Value::Null) };
    if utf16_length(&scalar) > usize::from(MAX_VALUE) {
        if path.strict {
            return Err(SqlError::new(13625, "String value in the specified JSON path would be truncated."));
        }
        return Ok(Value::Null);
    }
    Ok(Value::String(Arc::from(scalar)))
}

/// 13623.
pub fn no_scalar() -> SqlError {
    SqlError::new(13623, "Scalar value cannot be found in the specified JSON path.").state(2)
}

/// 13624.
pub fn no_composite() -> SqlError {
    SqlError::new(13624, "Object or array cannot be found in the specified JSON path.").state(2)
}

fn json_query(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let text = arguments.text(0)?;
    let path = if arguments.count() > 1 { Path::parse(&arguments.text(1)?)? } else { Path::default() };
    let Some(found) = follow(&text, &path)? else {
        return Ok(Value::Null);
    };
    match found.kind {
        Kind::Object | Kind::Array => Ok(Value::String(Arc::from(found.text))),
        _ if path.strict => Err(no_composite()),
        _ => Ok(Value::Null),
    }
}

// ------------------------------------------------------------------------------------------------------- path

/// A path into a JSON text; the default leads to the text itself.
#[derive(Debug, Default)]
pub struct Path {
    pub strict: bool,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
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

// ---------------------------------------------------------------------------------------------------- scanner

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Object,
    Array,
    Text,
    Number,
    Boolean,
    Null,
}

/// A value in a JSON text. The text of a string is what stands between its quotes, escapes and all.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    pub kind: Kind,
    pub text: &'a str,
}

impl<'a> Item<'a> {
    /// A scalar as text; `None` for null, objects and arrays.
    pub fn scalar(&self) -> Option<String> {
        match self.kind {
            Kind::Text => Some(unescape(self.text)),
            Kind::Number | Kind::Boolean => Some(self.text.to_string()),
            Kind::Null | Kind::Object | Kind::Array => None,
        }
    }

    pub fn is_composite(&self) -> bool {
        matches!(self.kind, Kind::Object | Kind::Array)
    }

    /// The members of an object with their keys, the elements of an array without.
    ///
    /// # Errors
    /// 13609.
    pub fn children(&self) -> SqlResult<Vec<(Option<String>, Item<'a>)>> {
        let mut children = Vec::new();
        let mut scanner = Scanner::new(self.text);
        scanner.at += 1;
        loop {
            scanner.blanks();
            if matches!(scanner.peek(), Some(b'}' | b']') | None) {
                return Ok(children);
            }
            let key = if self.kind == Kind::Object {
                let key = unescape(scanner.string()?);
                scanner.blanks();
                scanner.expect(b':')?;
                Some(key)
            } else {
                None
            };
            children.push((key, scanner.value(0)?));
            scanner.blanks();
            if scanner.peek() == Some(b',') {
                scanner.at += 1;
            }
        }
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Scanner { text, at: 0 }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// 13609 at the present place.
    fn invalid(&self) -> SqlError {
        let before = self.text.get(..self.at).unwrap_or(self.text);
        let character = self.text.get(self.at..).and_then(|rest| rest.chars().next()).unwrap_or('.');
        let position = utf16_length(before);
        SqlError::new(
            13609,
            format!(
                "JSON text is not properly formatted. Unexpected character '{character}' is found at position \
                 {position}."
            ),
        )
        .state(4)
    }

    fn expect(&mut self, wanted: u8) -> SqlResult<()> {
        if self.peek() != Some(wanted) {
            return Err(self.invalid());
        }
        self.at += 1;
        Ok(())
    }

    /// One value and nothing after it.
    fn document(&mut self) -> SqlResult<Item<'a>> {
        let item = self.value(0)?;
        self.blanks();
        if self.at < self.text.len() { Err(self.invalid()) } else { Ok(item) }
    }

    fn value(&mut self, depth: usize) -> SqlResult<Item<'a>> {
        if depth > MAX_DEPTH {
            return Err(SqlError::not_supported("JSON text that is nested more than 128 levels deep"));
        }
        self.blanks();
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => {
                self.object(depth)?;
                Kind::Object
            }
            Some(b'[') => {
                self.array(depth)?;
                Kind::Array
            }
            Some(b'"') => {
                return Ok(Item { kind: Kind::Text, text: self.string()? });
            }
            Some(b't') => self.word("true", Kind::Boolean)?,
            Some(b'f') => self.word("false", Kind::Boolean)?,
            Some(b'n') => self.word("null", Kind::Null)?,
            _ => {
                self.number()?;
                Kind::Number
            }
        };
        Ok(Item { kind, text: &self.text[start..self.at] })
    }

    fn word(&mut self, word: &str, kind: Kind) -> SqlResult<Kind> {
        for &wanted in word.as_bytes() {
            self.expect(wanted)?;
        }
        Ok(kind)
    }

    fn object(&mut self, depth: usize) -> SqlResult<()> {
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.blanks();
            self.string()?;
            self.blanks();
            self.expect(b':')?;
            self.value(depth + 1)?;
            self.blanks();
            if self.peek() != Some(b',') {
                return self.expect(b'}');
            }
            self.at += 1;
        }
    }

    fn array(&mut self, depth: usize) -> SqlResult<()> {
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            self.blanks();
            if self.peek() != Some(b',') {
                return self.expect(b']');
            }
            self.at += 1;
        }
    }

    /// What stands between two quotes.
    fn string(&mut self) -> SqlResult<&'a str> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let text = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                        Some(b'u') => {
                            self.at += 1;
                            for _ in 0..4 {
                                if !self.peek().is_some_and(|b| b.is_ascii_hexdigit()) {
                                    return Err(self.invalid());
                                }
                                self.at += 1;
                            }
                        }
                        _ => return Err(self.invalid()),
                    }
                }
                Some(0..=0x1F) | None => return Err(self.invalid()),
                Some(_) => self.at += 1,
            }
        }
    }

    fn number(&mut self) -> SqlResult<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        if self.digits()? > 1 && leading_zero {
            return Err(self.invalid());
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// At least one digit; how many there were.
    fn digits(&mut self) -> SqlResult<usize> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.invalid()) } else { Ok(self.at - start) }
    }
}

/// The text of a JSON string that the scanner has passed. Half a surrogate pair becomes the replacement character.
fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_string();
    }
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
            continue;
        }
        let unit = match characters.next() {
            Some('b') => 0x08,
            Some('f') => 0x0C,
            Some('n') => 0x0A,
            Some('r') => 0x0D,
            Some('t') => 0x09,
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                u16::from_str_radix(&digits, 16).unwrap_or(0xFFFD)
            }
            Some(other) => other.encode_utf16(&mut [0; 2])[0],
            None => break,
        };
        units.push(unit);
    }
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{call, nvarchar, varchar};

    const INFO: &str = r#"{ "info":{ "type":1, "address":{ "town":"Bristol", "county":"Avon" },
        "tags":["Sport", "Water polo"] }, "type":"Basic" }"#;

    fn value(path: &str) -> Result<String, i32> {
        call("JSON_VALUE", &[nvarchar(INFO), varchar(path)])
    }

    // The table of docs/t-sql/functions/json-value-transact-sql.md
    #[test]
    fn scalars_by_path() {
        let cases = [
            ("$", "NULL", Err(13623)),
            ("$.info.type", "1", Ok("1")),
            ("$.info.address.town", "Bristol", Ok("Bristol")),
            ("$.info.\"address\"", "NULL", Err(13623)),
            ("$.info.tags", "NULL", Err(13623)),
            ("$.info.tags[1]", "Water polo", Ok("Water polo")),
            ("$.info.type[0]", "NULL", Err(13608)),
            ("$.info.none", "NULL", Err(13608)),
        ];
        for (path, lax, strict) in cases {
            assert_eq!(value(path).as_deref(), Ok(lax), "lax {path}");
            assert_eq!(value(&format!("strict {path}")), strict.map(str::to_string), "strict {path}");
        }
        assert_eq!(value("info"), Err(13607));
        assert_eq!(value("$.info."), Err(13607));
    }

    // docs/t-sql/functions/json-query-transact-sql.md
    #[test]
    fn objects_and_arrays_come_back_as_written() {
        let query = |path: &str| call("JSON_QUERY", &[nvarchar(INFO), varchar(path)]);
        assert_eq!(query("$.info.tags").as_deref(), Ok("[\"Sport\", \"Water polo\"]"));
        assert_eq!(query("$.info.type").as_deref(), Ok("NULL"));
        assert_eq!(query("strict $.info.type"), Err(13624));
        assert_eq!(call("JSON_QUERY", &[nvarchar("[1, 2]")]).as_deref(), Ok("[1, 2]"));
    }

    #[test]
    fn texts_that_are_no_json() {
        assert_eq!(call("JSON_VALUE", &[nvarchar("{\"a\":1"), varchar("$.a")]), Err(13609));
        assert_eq!(call("JSON_VALUE", &[nvarchar("{'a':1}"), varchar("$.a")]), Err(13609));
        for (text, expected) in
            [("{}", "1"), ("[1]", "1"), ("1", "0"), ("{\"a\":01}", "0"), ("{\"a\":1,}", "0"), ("", "0"), (" [] ", "1")]
        {
            assert_eq!(call("ISJSON", &[nvarchar(text)]).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn escapes_and_exact_numbers() {
        let text = nvarchar(r#"{"k\u0065y": "a\"\u20AC\ud83d\ude00\n", "n": 1.50e+03, "t": true, "z": null, "n": 2}"#);
        let value = |path: &str| call("JSON_VALUE", &[text.clone(), varchar(path)]);
        assert_eq!(value("$.key").as_deref(), Ok("a\"€😀\n"));
        assert_eq!(value("$.n").as_deref(), Ok("1.50e+03"));
        assert_eq!(value("$.t").as_deref(), Ok("true"));
        assert_eq!(value("$.z").as_deref(), Ok("NULL"));
    }
}
