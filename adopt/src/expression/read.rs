//! Parses expressions.
//!
//! ```text
//! predicate  = and { OR and }            and = not { AND not }          not = [ NOT ] condition
//! condition  = ( predicate ) | value comparison value | value IS [ NOT ] NULL
//!            | value [ NOT ] IN ( value, … ) | value [ NOT ] BETWEEN value AND value | value [ NOT ] LIKE value
//! value      = term { + | - term }       term = factor { * | / | % factor }
//! factor     = [ - ] literal | column | {word} | function ( … ) | ( value )
//! ```

use crate::names::bracketed;

use super::model::{Predicate, Value, WORDS};

/// The allowed functions, with their least and most arguments.
const FUNCTIONS: [(&str, usize, usize); 21] = [
    ("GETDATE", 0, 0),
    ("GETUTCDATE", 0, 0),
    ("SYSDATETIME", 0, 0),
    ("SYSUTCDATETIME", 0, 0),
    ("SYSDATETIMEOFFSET", 0, 0),
    ("NEWID", 0, 0),
    ("HOST_NAME", 0, 0),
    ("DATEADD", 3, 3),
    ("DATEDIFF", 3, 3),
    ("ISNULL", 2, 2),
    ("NULLIF", 2, 2),
    ("COALESCE", 2, 20),
    ("CONCAT", 2, 20),
    ("LEFT", 2, 2),
    ("RIGHT", 2, 2),
    ("SUBSTRING", 3, 3),
    ("LEN", 1, 1),
    ("UPPER", 1, 1),
    ("LOWER", 1, 1),
    ("ABS", 1, 1),
    ("DATALENGTH", 1, 1),
];

const DATE_PARTS: [&str; 8] = ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "WEEK"];

/// Words of T-SQL that can be column names only in brackets.
const RESERVED: [&str; 30] = [
    "SELECT", "FROM", "WHERE", "INSERT", "UPDATE", "DELETE", "MERGE", "EXEC", "EXECUTE", "DROP", "ALTER", "CREATE",
    "TABLE", "UNION", "ORDER", "GROUP", "BY", "AS", "CASE", "WHEN", "THEN", "ELSE", "END", "EXISTS", "OPTION", "SET",
    "DECLARE", "TOP", "VALUES", "WITH",
];

/// Parses a predicate. The error is the end of a sentence.
pub(crate) fn read_predicate(text: &str) -> Result<Predicate, String> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let predicate = parser.any()?;
    parser.end()?;
    Ok(predicate)
}

/// Parses a value. The error is the end of a sentence.
pub(crate) fn read_value(text: &str) -> Result<Value, String> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let value = parser.sum()?;
    parser.end()?;
    Ok(value)
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    /// A name in brackets, which is never a keyword.
    Bracketed(String),
    Number(String),
    Text(String),
    Binary(String),
    Word(String),
    Sign(&'static str),
}

const SIGNS: [&str; 16] = ["<=", ">=", "<>", "!=", "=", "<", ">", "(", ")", ",", "+", "-", "*", "/", "%", "."];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let second = rest.chars().nth(1);
        let length = match first {
            '[' | '\'' | '{' => closing(rest, first)?,
            'N' | 'n' if second == Some('\'') => 1 + closing(&rest[1..], '\'')?,
            _ if first.is_alphabetic() || first == '_' || first == '#' || first == '@' => rest
                .find(|character: char| !character.is_alphanumeric() && !"_#@$".contains(character))
                .unwrap_or(rest.len()),
            '0' if matches!(second, Some('x' | 'X')) => {
                2 + rest[2..].find(|character: char| !character.is_ascii_hexdigit()).unwrap_or(rest.len() - 2)
            }
            _ if first.is_ascii_digit() => {
                rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len())
            }
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => sign.len(),
                None => return Err(format!("{first:?} is not allowed here")),
            },
        };
        let token = &rest[..length];
        tokens.push(match first {
            '[' => Token::Bracketed(token[1..length - 1].replace("]]", "]")),
            '{' => Token::Word(token[1..length - 1].trim().to_string()),
            '\'' => Token::Text(token[1..length - 1].replace("''", "'")),
            'N' | 'n' if second == Some('\'') => Token::Text(token[2..length - 1].replace("''", "'")),
            '@' => return Err(format!("{token} is a variable; variables are not allowed")),
            _ if first.is_alphabetic() || first == '_' || first == '#' => Token::Name(token.to_string()),
            '0' if matches!(second, Some('x' | 'X')) => Token::Binary(token.to_string()),
            _ if first.is_ascii_digit() => number(token)?,
            _ => Token::Sign(SIGNS.iter().find(|sign| **sign == token).copied().unwrap_or(".")),
        });
        rest = rest[length..].trim_start();
        if token == "-" && rest.starts_with('-') || token == "/" && rest.starts_with('*') {
            return Err("a comment is not allowed here".to_string());
        }
    }
    Ok(tokens)
}

fn number(token: &str) -> Result<Token, String> {
    match token.parse::<f64>() {
        Ok(_) if !token.ends_with('.') => Ok(Token::Number(token.to_string())),
        _ => Err(format!("{token} is not a number")),
    }
}

/// The length of the token that begins with an opening character and ends with `closing`. A doubled closing character
/// is part of the token.
fn closing(text: &str, opening: char) -> Result<usize, String> {
    let end = match opening {
        '[' => ']',
        '{' => '}',
        other => other,
    };
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((position, character)) = characters.next() {
        if character == end {
            if end != '}' && characters.peek().is_some_and(|(_, next)| *next == end) {
                characters.next();
                continue;
            }
            return Ok(position + end.len_utf8());
        }
    }
    Err(format!("{opening} is not closed"))
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    /// The depth of nesting, limited so that no text overflows the stack.
    depth: usize,
}

const DEEPEST: usize = 30;

impl Parser {
    fn any(&mut self) -> Result<Predicate, String> {
        let mut parts = vec![self.all()?];
        while self.accept("OR") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Predicate::Any(parts) })
    }

    fn all(&mut self) -> Result<Predicate, String> {
        let mut parts = vec![self.not()?];
        while self.accept("AND") {
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Predicate::All(parts) })
    }

    fn not(&mut self) -> Result<Predicate, String> {
        if self.accept("NOT") {
            self.deeper()?;
            let inner = self.not()?;
            self.depth -= 1;
            return Ok(Predicate::Not(Box::new(inner)));
        }
        self.condition()
    }

    fn condition(&mut self) -> Result<Predicate, String> {
        // A bracket begins a predicate or a value. Only the following text shows which.
        if self.at_sign("(") {
            let start = self.next;
            self.next += 1;
            self.deeper()?;
            if let Ok(inner) = self.any()
                && self.accept_sign(")")
            {
                self.depth -= 1;
                return Ok(inner);
            }
            self.depth -= 1;
            self.next = start;
        }
        let left = self.sum()?;
        for sign in ["=", "<>", "!=", "<=", ">=", "<", ">"] {
            if self.accept_sign(sign) {
                let operator = if sign == "!=" { "<>" } else { sign };
                return Ok(Predicate::Compare { left, operator, right: self.sum()? });
            }
        }
        if self.accept("IS") {
            let not = self.accept("NOT");
            self.expect("NULL")?;
            return Ok(Predicate::IsNull { value: left, not });
        }
        let not = self.accept("NOT");
        if self.accept("IN") {
            return Ok(Predicate::In { value: left, list: self.arguments(1, 100)?, not });
        }
        if self.accept("BETWEEN") {
            let low = self.sum()?;
            self.expect("AND")?;
            return Ok(Predicate::Between { value: left, low, high: self.sum()?, not });
        }
        if self.accept("LIKE") {
            return Ok(Predicate::Like { value: left, pattern: self.sum()?, not });
        }
        Err(format!(
            "{} is not allowed where a comparison is expected (=, <>, <, >, IS NULL, IN, BETWEEN, LIKE)",
            self.here()
        ))
    }

    fn sum(&mut self) -> Result<Value, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.accept_one_of(&["+", "-"]) {
            left = Value::Pair { left: Box::new(left), operator, right: Box::new(self.product()?) };
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Value, String> {
        let mut left = self.factor()?;
        while let Some(operator) = self.accept_one_of(&["*", "/", "%"]) {
            left = Value::Pair { left: Box::new(left), operator, right: Box::new(self.factor()?) };
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Value, String> {
        self.deeper()?;
        let value = self.factor_inside();
        self.depth -= 1;
        value
    }

    fn factor_inside(&mut self) -> Result<Value, String> {
        if self.accept_sign("-") {
            return Ok(Value::Negative(Box::new(self.factor()?)));
        }
        if self.accept_sign("(") {
            let value = self.sum()?;
            self.expect_sign(")")?;
            return Ok(value);
        }
        let Some(token) = self.tokens.get(self.next).cloned() else {
            return Err("it ends where a value is expected".to_string());
        };
        let is_call = self.tokens.get(self.next + 1) == Some(&Token::Sign("("));
        let here = self.here();
        self.next += 1;
        match token {
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Text(text) => Ok(Value::Text(text)),
            Token::Binary(binary) => Ok(Value::Binary(binary)),
            Token::Bracketed(name) => Ok(Value::Column(name)),
            Token::Word(word) => match WORDS.iter().find(|(name, _)| *name == word) {
                Some((_, word)) => Ok(Value::Word(*word)),
                None => Err(format!(
                    "unknown word {{{word}}}; the words are {}",
                    WORDS.map(|(name, _)| format!("{{{name}}}")).join(", ")
                )),
            },
            Token::Name(name) if is_call => self.call(&name),
            Token::Name(name) if name.eq_ignore_ascii_case("NULL") => Ok(Value::Null),
            Token::Name(name) if name.eq_ignore_ascii_case("CURRENT_TIMESTAMP") => {
                Ok(Value::Call { name: "GETDATE", part: None, arguments: Vec::new() })
            }
            Token::Name(name) => {
                if let Some(word) = RESERVED.iter().find(|word| name.eq_ignore_ascii_case(word)) {
                    return Err(format!(
                        "{word} is a word of T-SQL that is not allowed here; if a column has that name, write [{name}]"
                    ));
                }
                Ok(Value::Column(name))
            }
            Token::Sign(_) => Err(format!("{here} is not allowed where a value is expected")),
        }
    }

    fn call(&mut self, name: &str) -> Result<Value, String> {
        let Some((name, least, most)) = FUNCTIONS.into_iter().find(|(known, _, _)| known.eq_ignore_ascii_case(name))
        else {
            let known = FUNCTIONS.map(|(name, _, _)| name).join(", ");
            return Err(format!("{name} is not an allowed function; the functions are {known}"));
        };
        let mut part = None;
        let (mut least, mut most) = (least, most);
        if matches!(name, "DATEADD" | "DATEDIFF") {
            self.expect_sign("(")?;
            let found = match self.tokens.get(self.next) {
                Some(Token::Name(name)) => DATE_PARTS.into_iter().find(|part| part.eq_ignore_ascii_case(name)),
                _ => None,
            };
            let Some(found) = found else {
                return Err(format!("{name} begins with one of {}", DATE_PARTS.join(", ")));
            };
            part = Some(found.to_string());
            self.next += 1;
            self.expect_sign(",")?;
            // The remaining arguments are parsed like a separate list.
            self.next -= 1;
            if let Some(token) = self.tokens.get_mut(self.next) {
                *token = Token::Sign("(");
            }
            (least, most) = (2, 2);
        }
        let arguments = self.arguments(least, most)?;
        if arguments.len() < least || arguments.len() > most {
            return Err(format!("{name} cannot have {} arguments", arguments.len()));
        }
        Ok(Value::Call { name, part, arguments })
    }

    fn arguments(&mut self, least: usize, most: usize) -> Result<Vec<Value>, String> {
        self.expect_sign("(")?;
        let mut arguments = Vec::new();
        if least == 0 && most == 0 || self.at_sign(")") {
            self.expect_sign(")")?;
            return if least == 0 { Ok(arguments) } else { Err("there is nothing between the brackets".to_string()) };
        }
        loop {
            arguments.push(self.sum()?);
            if !self.accept_sign(",") {
                self.expect_sign(")")?;
                return Ok(arguments);
            }
        }
    }

    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("it is nested deeper than {DEEPEST}"));
        }
        Ok(())
    }

    fn end(&self) -> Result<(), String> {
        match self.tokens.get(self.next) {
            None => Ok(()),
            Some(_) => Err(format!("{} is not allowed here", self.here())),
        }
    }

    fn here(&self) -> String {
        match self.tokens.get(self.next) {
            None => "the end".to_string(),
            Some(Token::Name(text) | Token::Number(text) | Token::Binary(text)) => text.clone(),
            Some(Token::Bracketed(text)) => bracketed(text),
            Some(Token::Text(text)) => format!("'{text}'"),
            Some(Token::Word(text)) => format!("{{{text}}}"),
            Some(Token::Sign(sign)) => (*sign).to_string(),
        }
    }

    fn accept(&mut self, keyword: &str) -> bool {
        let found = matches!(self.tokens.get(self.next), Some(Token::Name(name)) if name.eq_ignore_ascii_case(keyword));
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, keyword: &str) -> Result<(), String> {
        if self.accept(keyword) { Ok(()) } else { Err(format!("found {} where {keyword} is expected", self.here())) }
    }

    fn at_sign(&self, sign: &str) -> bool {
        matches!(self.tokens.get(self.next), Some(Token::Sign(found)) if *found == sign)
    }

    fn accept_sign(&mut self, sign: &str) -> bool {
        let found = self.at_sign(sign);
        self.next += usize::from(found);
        found
    }

    fn accept_one_of(&mut self, signs: &[&str]) -> Option<char> {
        let sign = signs.iter().find(|sign| self.at_sign(sign))?;
        self.next += 1;
        sign.chars().next()
    }

    fn expect_sign(&mut self, sign: &str) -> Result<(), String> {
        if self.accept_sign(sign) { Ok(()) } else { Err(format!("found {} where {sign} is expected", self.here())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::model::Terms;

    fn written(text: &str) -> String {
        let terms = Terms { column: &|name| bracketed(name), word: &|word| format!("@{word:?}") };
        read_predicate(text).map(|predicate| predicate.sql(&terms)).unwrap_or_else(|error| format!("error: {error}"))
    }

    #[test]
    fn a_predicate_is_written_anew() {
        assert_eq!(written("a is null"), "[a] IS NULL");
        assert_eq!(
            written("(status=1 or [odd]]name] <> 'it''s') and not due > dateadd(minute, -10, getutcdate())"),
            "([status] = 1 OR [odd]]name] <> 'it''s') AND NOT ([due] > DATEADD(MINUTE, (- 10), GETUTCDATE()))"
        );
        assert_eq!(
            written("a in (1, 2) and (b + 1) * 2 between 3 and 4"),
            "[a] IN (1, 2) AND (([b] + 1) * 2) BETWEEN 3 AND 4"
        );
        assert_eq!(written("a not like 'x%' and b is not null"), "[a] NOT LIKE 'x%' AND [b] IS NOT NULL");
    }

    #[test]
    fn what_is_no_predicate_is_refused() {
        for (text, part) in [
            ("", "it ends"),
            ("a", "a comparison"),
            ("a = ", "it ends"),
            ("a = 1; drop table t", "';'"),
            ("a = 1 -- x", "comment"),
            ("a = 1 /* x */", "comment"),
            ("a = (select 1)", "SELECT"),
            ("a = @x", "variable"),
            ("a = xp_cmdshell('x')", "functions"),
            ("a = 'x", "not closed"),
            ("a = 1 b", "not allowed here"),
            ("a in ()", "nothing"),
            ("a = dateadd(1, 2, 3)", "begins with"),
            ("a = {nothing}", "{error}"),
        ] {
            let error = read_predicate(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        let deep = format!("{}a = 1{}", "(".repeat(100), ")".repeat(100));
        assert!(read_predicate(&deep).is_err());
    }

    proptest::proptest! {
        /// No text makes the parser panic, and the T-SQL written from an expression is parsed to the same T-SQL.
        #[test]
        fn any_text_is_read_or_refused(
            words in proptest::collection::vec(
                proptest::sample::select(vec![
                    "a", "[b ]]c]", "1", "2.5", "'x''y'", "N'é'", "0x1F", "{error}", "{", "'", "[", "(", ")", "=", "<>", "<", "-", "--",
                    "+", "*", "/*", ",", "and", "OR", "not", "is", "NULL", "in", "between", "like", "getdate", "dateadd", "day", "é", "@x",
                ]),
                0..14,
            ),
            noise in "\\PC{0,12}",
        ) {
            let text = format!("{}{noise}", words.join(" "));
            let terms = Terms { column: &|name| bracketed(name), word: &|_| "{error}".to_string() };
            if let Ok(read) = read_predicate(&text) {
                let again = read_predicate(&read.sql(&terms)).expect("what is written can be read");
                proptest::prop_assert_eq!(again.sql(&terms), read.sql(&terms));
            }
            if let Ok(read) = read_value(&text) {
                let again = read_value(&read.sql(&terms)).expect("what is written can be read");
                proptest::prop_assert_eq!(again.sql(&terms), read.sql(&terms));
            }
        }
    }
}
