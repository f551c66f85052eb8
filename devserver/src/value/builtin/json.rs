//! ISJSON, and the scanner of JSON texts, which hands out their pieces themselves: numbers and objects come back as they
//! are written.
//!
//! Source: docs/t-sql/functions/isjson-transact-sql.md.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arity::Exactly;
use crate::value::builtin::definition::{Arguments, Builtin};
use crate::value::builtin::result::always_int;
use crate::value::convert::text::utf16_length;
use crate::value::units::{RESERVED, from_units, units};
use crate::value::values::Value;

pub(super) const FUNCTIONS: &[Builtin] = &[Builtin::new("ISJSON", Exactly(1), always_int, is_json)];

/// 1 for an object or an array, 0 for anything else, valid scalars included.
fn is_json(arguments: &Arguments<'_>) -> SqlResult<Value> {
    let text = arguments.text(0)?;
    Ok(Value::Int(i32::from(document(&text).is_ok_and(|item| item.is_composite()))))
}

/// The value that a text is.
///
/// # Errors
/// 13609.
pub fn document(text: &str) -> SqlResult<Item<'_>> {
    Scanner { text, at: 0 }.document()
}

/// How deep objects and arrays may be nested here; SQL Server allows 128 levels.
const MAX_DEPTH: usize = 128;

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
    ///
    /// # Errors
    /// A refusal of [`RESERVED`] text.
    pub fn scalar(&self) -> SqlResult<Option<String>> {
        Ok(match self.kind {
            Kind::Text => Some(unescape(self.text)?),
            Kind::Number | Kind::Boolean => Some(self.text.to_string()),
            Kind::Null | Kind::Object | Kind::Array => None,
        })
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
        let mut scanner = Scanner { text: self.text, at: 1 };
        loop {
            scanner.blanks();
            if matches!(scanner.peek(), Some(b'}' | b']') | None) {
                return Ok(children);
            }
            let key = if self.kind == Kind::Object {
                let key = unescape(scanner.string()?)?;
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

/// The text of a JSON string that the scanner has passed.
///
/// # Errors
/// A refusal of [`RESERVED`] text.
fn unescape(text: &str) -> SqlResult<String> {
    if !text.contains('\\') {
        return Ok(text.to_string());
    }
    let mut unescaped: Vec<u16> = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            unescaped.extend(units(character.encode_utf8(&mut [0; 4])));
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
        unescaped.push(unit);
    }
    from_units(unescaped).ok_or_else(|| SqlError::not_supported(RESERVED))
}
