//! Text into tokens.

use crate::error::{SqlError, SqlResult};
use crate::tsql::lexer::reserved_word::is_reserved;
use crate::tsql::lexer::syntax_error::{shortened, syntax_error};
use crate::tsql::lexer::token::{Symbol, Token, TokenKind};

/// The longest identifier, in UTF-16 units.
const MAX_IDENTIFIER: usize = 128;

/// The most digits a `numeric` constant can have.
const MAX_DIGITS: usize = 38;

/// Splits a batch into tokens; the last one is [`TokenKind::End`].
///
/// # Errors
/// 105 (unclosed quotation mark), 113 (unclosed comment), 103 (identifier too long), 102 (a character that T-SQL
/// does not know), 1007 (number out of range), 1038 (empty name).
pub fn tokenize(text: &str) -> SqlResult<Vec<Token>> {
    let mut lexer = Lexer { text, position: 0, line: 1 };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next_token()?;
        let finished = token.kind == TokenKind::End;
        tokens.push(token);
        if finished {
            return Ok(tokens);
        }
    }
}

/// Whether a piece of T-SQL has the name in it, with quotes or without, in any case. What cannot be read has no names.
pub fn mentions(text: &str, name: &str) -> bool {
    let name = name.to_lowercase();
    tokenize(text)
        .is_ok_and(|tokens| tokens.iter().any(|token| name_of(text, token).is_some_and(|found| found == name)))
}

/// The sequences whose values a piece of T-SQL takes (`NEXT VALUE FOR schema.name`): schema, if it is named, and name.
pub fn sequences(text: &str) -> Vec<(Option<String>, String)> {
    let tokens = tokenize(text).unwrap_or_default();
    let word = |token: &Token, word: &str| text[token.start..token.end].eq_ignore_ascii_case(word);
    let mut found = Vec::new();
    for (place, three) in tokens.windows(3).enumerate() {
        if !(word(&three[0], "NEXT") && word(&three[1], "VALUE") && word(&three[2], "FOR")) {
            continue;
        }
        let mut parts = Vec::new();
        for pair in tokens[place + 3..].chunks(2) {
            parts.extend(name_of(text, &pair[0]));
            if pair.get(1).is_none_or(|token| token.kind != TokenKind::Symbol(Symbol::Dot)) {
                break;
            }
        }
        if let Some(name) = parts.pop() {
            found.push((parts.pop(), name));
        }
    }
    found
}

/// Whether a parenthesis opens directly behind a word in a piece of T-SQL.
pub fn has_group_behind(text: &str, word: &str) -> bool {
    tokenize(text).is_ok_and(|tokens| {
        tokens.windows(2).any(|two| {
            two[1].kind == TokenKind::Symbol(Symbol::LeftParen)
                && text[two[0].start..two[0].end].eq_ignore_ascii_case(word)
        })
    })
}

/// The name that a token is, in lower case.
fn name_of(text: &str, token: &Token) -> Option<String> {
    match &token.kind {
        TokenKind::QuotedName(quoted) => Some(quoted.to_lowercase()),
        TokenKind::Word { .. } => Some(text[token.start..token.end].to_lowercase()),
        _ => None,
    }
}

/// May begin a bare identifier ("Database identifiers", docs/relational-databases/databases/database-identifiers.md).
fn begins_identifier(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '#'
}

fn continues_identifier(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '@' | '#' | '$')
}

struct Lexer<'t> {
    text: &'t str,
    position: usize,
    line: u32,
}

impl Lexer<'_> {
    fn next_token(&mut self) -> SqlResult<Token> {
        self.skip_blanks()?;
        let start = self.position;
        let line = self.line;
        let kind = self.scan()?;
        Ok(Token { kind, start, end: self.position, line })
    }

    fn rest(&self) -> &str {
        &self.text[self.position..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn peek_second(&self) -> Option<char> {
        self.rest().chars().nth(1)
    }

    fn advance(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.position += c.len_utf8();
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn advance_while(&mut self, wanted: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&wanted) {
            self.advance();
        }
    }

    /// White space, `-- …` and nested `/* … */`.
    fn skip_blanks(&mut self) -> SqlResult<()> {
        loop {
            if self.rest().starts_with("--") {
                self.advance_while(|c| c != '\n');
            } else if self.rest().starts_with("/*") {
                self.skip_block_comment()?;
            } else if self.peek().is_some_and(char::is_whitespace) {
                self.advance();
            } else {
                return Ok(());
            }
        }
    }

    fn skip_block_comment(&mut self) -> SqlResult<()> {
        let line = self.line;
        let mut open = 0u32;
        loop {
            if self.rest().starts_with("/*") {
                open += 1;
                self.position += 2;
            } else if self.rest().starts_with("*/") {
                open -= 1;
                self.position += 2;
                if open == 0 {
                    return Ok(());
                }
            } else if self.advance().is_none() {
                return Err(syntax_error(113, "Missing end comment mark '*/'.".to_owned(), line));
            }
        }
    }

    fn scan(&mut self) -> SqlResult<TokenKind> {
        let Some(c) = self.peek() else {
            return Ok(TokenKind::End);
        };
        let second = self.peek_second();
        match c {
            'N' | 'n' if second == Some('\'') => {
                self.advance();
                let value = self.delimited('\'')?;
                Ok(TokenKind::String { value: value.into(), national: true })
            }
            '\'' => {
                let value = self.delimited('\'')?;
                Ok(TokenKind::String { value: value.into(), national: false })
            }
            '[' => self.quoted_name(']'),
            '"' => self.quoted_name('"'),
            '0' if matches!(second, Some('x' | 'X')) => Ok(self.binary()),
            '0'..='9' => self.number(),
            '.' if second.is_some_and(|c| c.is_ascii_digit()) => self.number(),
            '@' => self.variable(),
            c if begins_identifier(c) => self.word(),
            '$' => Err(SqlError::not_supported("a name or a constant that begins with $")),
            _ => self.symbol(),
        }
    }

    /// What stands between a pair of quotes, with doubled closing quotes made single.
    fn delimited(&mut self, closing: char) -> SqlResult<String> {
        let line = self.line;
        self.advance();
        let start = self.position;
        let mut value = String::new();
        loop {
            match self.advance() {
                None => {
                    let shown = shortened(&self.text[start..]);
                    let message = format!("Unclosed quotation mark after the character string '{shown}'.");
                    return Err(syntax_error(105, message, line));
                }
                Some(c) if c == closing => {
                    if self.peek() != Some(closing) {
                        return Ok(value);
                    }
                    self.advance();
                    value.push(closing);
                }
                Some(c) => value.push(c),
            }
        }
    }

    fn quoted_name(&mut self, closing: char) -> SqlResult<TokenKind> {
        let line = self.line;
        let name = self.delimited(closing)?;
        check_name(&name, line)?;
        Ok(TokenKind::QuotedName(name.into()))
    }

    fn word(&mut self) -> SqlResult<TokenKind> {
        let start = self.position;
        self.advance_while(continues_identifier);
        let word = &self.text[start..self.position];
        check_length(word, self.line)?;
        Ok(TokenKind::Word { reserved: is_reserved(word) })
    }

    fn variable(&mut self) -> SqlResult<TokenKind> {
        let start = self.position;
        self.advance();
        let global = self.peek() == Some('@');
        self.advance_while(continues_identifier);
        let name = &self.text[start..self.position];
        check_length(name, self.line)?;
        let marks = if global { 2 } else { 1 };
        if name.len() == marks {
            return Err(syntax_error(102, format!("Incorrect syntax near '{name}'."), self.line));
        }
        Ok(if global { TokenKind::GlobalVariable } else { TokenKind::Variable })
    }

    /// `0x` and its digits; an odd number of digits has a zero in front.
    fn binary(&mut self) -> TokenKind {
        self.position += 2;
        let start = self.position;
        self.advance_while(|c| c.is_ascii_hexdigit());
        let mut nibbles = Vec::new();
        if (self.position - start) % 2 == 1 {
            nibbles.push(0);
        }
        for digit in self.text[start..self.position].chars() {
            nibbles.push(digit.to_digit(16).expect("only hexadecimal digits were taken") as u8);
        }
        let bytes: Vec<u8> = nibbles.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]).collect();
        TokenKind::Binary(bytes.into())
    }

    fn number(&mut self) -> SqlResult<TokenKind> {
        let start = self.position;
        let is_digit = |c: char| c.is_ascii_digit();
        let mut kind = TokenKind::Integer;
        self.advance_while(is_digit);
        if self.peek() == Some('.') {
            kind = TokenKind::Decimal;
            self.advance();
            self.advance_while(is_digit);
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            return Err(SqlError::not_supported("a constant of float"));
        }
        let number = &self.text[start..self.position];
        let digits = number.trim_start_matches('0').bytes().filter(u8::is_ascii_digit).count();
        if digits > MAX_DIGITS {
            let shown = shortened(number);
            let message = format!(
                "The number '{shown}' is out of the range for numeric representation (maximum precision {MAX_DIGITS})."
            );
            return Err(syntax_error(1007, message, self.line));
        }
        Ok(kind)
    }

    fn symbol(&mut self) -> SqlResult<TokenKind> {
        let first = self.peek().expect("the caller has seen a character");
        let second = self.peek_second();
        let two = match (first, second) {
            ('<', Some('>')) | ('!', Some('=')) => Some(Symbol::NotEqual),
            ('<', Some(second @ '<'))
            | ('>', Some(second @ '>'))
            | ('*' | '/' | '%' | '&' | '|' | '^', Some(second @ '=')) => {
                return Err(SqlError::not_supported(format!("the operator {first}{second}")));
            }
            ('<', Some('=')) | ('!', Some('>')) => Some(Symbol::LessOrEqual),
            ('>', Some('=')) | ('!', Some('<')) => Some(Symbol::GreaterOrEqual),
            ('+', Some('=')) => Some(Symbol::PlusEqual),
            ('-', Some('=')) => Some(Symbol::MinusEqual),
            (':', Some(':')) => Some(Symbol::DoubleColon),
            _ => None,
        };
        if let Some(symbol) = two {
            self.position += 2;
            return Ok(TokenKind::Symbol(symbol));
        }
        let one = match first {
            '(' => Symbol::LeftParen,
            ')' => Symbol::RightParen,
            ',' => Symbol::Comma,
            ';' => Symbol::Semicolon,
            ':' => Symbol::Colon,
            '.' => Symbol::Dot,
            '=' => Symbol::Equal,
            '<' => Symbol::Less,
            '>' => Symbol::Greater,
            '+' => Symbol::Plus,
            '-' => Symbol::Minus,
            '*' => Symbol::Star,
            '/' => Symbol::Slash,
            '%' => Symbol::Percent,
            '&' => Symbol::Ampersand,
            '|' | '^' | '~' => return Err(SqlError::not_supported(format!("the operator {first}"))),
            other => {
                return Err(syntax_error(102, format!("Incorrect syntax near '{other}'."), self.line));
            }
        };
        self.advance();
        Ok(TokenKind::Symbol(one))
    }
}

/// Names have 1 to 128 characters.
///
/// Source: "Database Identifiers" (MicrosoftDocs/sql-docs,
/// docs/relational-databases/databases/database-identifiers.md).
pub fn check_name(name: &str, line: u32) -> SqlResult<()> {
    if name.is_empty() {
        let message = "An object or column name is missing or empty. For SELECT INTO statements, verify each column has a \
                       name. For other statements, look for empty alias names. Aliases defined as \"\" or [] are not \
                       allowed. Change the alias to a valid name.";
        return Err(syntax_error(1038, message.to_owned(), line));
    }
    check_length(name, line)
}

fn check_length(name: &str, line: u32) -> SqlResult<()> {
    if name.encode_utf16().count() <= MAX_IDENTIFIER {
        return Ok(());
    }
    let shown = shortened(name);
    let message = format!("The identifier that starts with '{shown}' is too long. Maximum length is {MAX_IDENTIFIER}.");
    Err(syntax_error(103, message, line))
}
