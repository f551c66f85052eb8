//! The lexer: T-SQL text in, tokens out. Comments and white space are dropped here; whether a word is a keyword or
//! a name is decided by the parser, except that the reserved words are marked.
//!
//! `QUOTED_IDENTIFIER` is taken to be ON: `"x"` is a name. (The parser refuses to switch it off.)

use std::sync::Arc;

use super::ast::Ident;
use crate::error::{SqlError, SqlResult};

/// A token, where it stands in the text, and on which line it begins (from 1).
#[derive(Debug, Clone)]
pub struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
    pub line: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TokenKind {
    /// A bare word: a keyword or a name, `#temp` included.
    Word {
        reserved: bool,
    },
    /// `[name]` or `"name"`, unescaped; never empty.
    QuotedName(Ident),
    /// `@name`.
    Variable,
    /// `@@name`.
    GlobalVariable,
    /// `$action` and its like.
    PseudoColumn,
    Integer,
    Decimal,
    Float,
    /// `'…'` or `N'…'`, unescaped.
    String {
        value: Arc<str>,
        national: bool,
    },
    Binary(Arc<[u8]>),
    Symbol(Symbol),
    /// After the last token: the parser always has a token to look at.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symbol {
    LeftParen,
    RightParen,
    Comma,
    Semicolon,
    Colon,
    DoubleColon,
    Dot,
    Equal,
    NotEqual,
    Less,
    /// `<=` and `!>`.
    LessOrEqual,
    Greater,
    /// `>=` and `!<`.
    GreaterOrEqual,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Ampersand,
    Pipe,
    Caret,
    Tilde,
    PlusEqual,
    MinusEqual,
    StarEqual,
    SlashEqual,
    PercentEqual,
    AmpersandEqual,
    PipeEqual,
    CaretEqual,
}

/// The longest identifier, in UTF-16 units.
const MAX_IDENTIFIER: usize = 128;

/// The most digits a `numeric` constant can have.
const MAX_DIGITS: usize = 38;

/// How much of a too long or unclosed token is shown in the message.
const SHOWN_IN_MESSAGE: usize = 128;

/// T-SQL's reserved words, sorted; none of them is a name unless it is quoted.
///
/// Source: "Reserved keywords (Transact-SQL)", docs/t-sql/language-elements/reserved-keywords-transact-sql.md.
#[rustfmt::skip]
const RESERVED_WORDS: &[&str] = &[
    "ADD", "ALL", "ALTER", "AND", "ANY", "AS", "ASC", "AUTHORIZATION", "BACKUP", "BEGIN", "BETWEEN", "BREAK",
    "BROWSE", "BULK", "BY", "CASCADE", "CASE", "CHECK", "CHECKPOINT", "CLOSE", "CLUSTERED", "COALESCE", "COLLATE",
    "COLUMN", "COMMIT", "COMPUTE", "CONSTRAINT", "CONTAINS", "CONTAINSTABLE", "CONTINUE", "CONVERT", "CREATE",
    "CROSS", "CURRENT", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "CURSOR", "DATABASE",
    "DBCC", "DEALLOCATE", "DECLARE", "DEFAULT", "DELETE", "DENY", "DESC", "DISK", "DISTINCT", "DISTRIBUTED",
    "DOUBLE", "DROP", "DUMP", "ELSE", "END", "ERRLVL", "ESCAPE", "EXCEPT", "EXEC", "EXECUTE", "EXISTS", "EXIT",
    "EXTERNAL", "FETCH", "FILE", "FILLFACTOR", "FOR", "FOREIGN", "FREETEXT", "FREETEXTTABLE", "FROM", "FULL",
    "FUNCTION", "GOTO", "GRANT", "GROUP", "HAVING", "HOLDLOCK", "IDENTITY", "IDENTITYCOL", "IDENTITY_INSERT", "IF",
    "IN", "INDEX", "INNER", "INSERT", "INTERSECT", "INTO", "IS", "JOIN", "KEY", "KILL", "LEFT", "LIKE", "LINENO",
    "LOAD", "MERGE", "NATIONAL", "NOCHECK", "NONCLUSTERED", "NOT", "NULL", "NULLIF", "OF", "OFF", "OFFSETS", "ON",
    "OPEN", "OPENDATASOURCE", "OPENQUERY", "OPENROWSET", "OPENXML", "OPTION", "OR", "ORDER", "OUTER", "OVER",
    "PERCENT", "PIVOT", "PLAN", "PRIMARY", "PRINT", "PROC", "PROCEDURE", "PUBLIC", "RAISERROR", "READ",
    "READTEXT", "RECONFIGURE", "REFERENCES", "REPLICATION", "RESTORE", "RESTRICT", "RETURN", "REVERT", "REVOKE",
    "RIGHT", "ROLLBACK", "ROWCOUNT", "ROWGUIDCOL", "RULE", "SAVE", "SCHEMA", "SECURITYAUDIT", "SELECT",
    "SEMANTICKEYPHRASETABLE", "SEMANTICSIMILARITYDETAILSTABLE", "SEMANTICSIMILARITYTABLE", "SESSION_USER", "SET",
    "SETUSER", "SHUTDOWN", "SOME", "STATISTICS", "SYSTEM_USER", "TABLE", "TABLESAMPLE", "TEXTSIZE", "THEN", "TO",
    "TOP", "TRAN", "TRANSACTION", "TRIGGER", "TRUNCATE", "TRY_CONVERT", "TSEQUAL", "UNION", "UNIQUE", "UNPIVOT",
    "UPDATE", "UPDATETEXT", "USE", "USER", "VALUES", "VARYING", "VIEW", "WAITFOR", "WHEN", "WHERE", "WHILE", "WITH",
    "WRITETEXT",
];

/// Splits a batch into tokens; the last one is [`TokenKind::End`].
///
/// # Errors
/// 105 (unclosed quotation mark), 113 (unclosed comment), 103 (identifier too long), 102 (a character that T-SQL
/// does not know), 1007 and 168 (number out of range), 1038 (empty name).
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
    tokenize(text).is_ok_and(|tokens| {
        tokens.iter().any(|token| match &token.kind {
            TokenKind::QuotedName(quoted) => quoted.to_lowercase() == name,
            TokenKind::Word { .. } => text[token.start..token.end].to_lowercase() == name,
            _ => false,
        })
    })
}

/// An error of the lexer or parser: severity 15, "can be corrected by the user".
pub fn syntax_error(number: i32, message: String, line: u32) -> SqlError {
    SqlError::new(number, message).severity(15).at_line(line)
}

/// The beginning of a text that may be long, for a message.
pub fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_IN_MESSAGE).collect()
}

fn is_reserved(word: &str) -> bool {
    let upper = word.to_ascii_uppercase();
    RESERVED_WORDS.binary_search(&upper.as_str()).is_ok()
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
            '$' if second.is_some_and(begins_identifier) => {
                self.advance();
                self.advance_while(continues_identifier);
                Ok(TokenKind::PseudoColumn)
            }
            c if begins_identifier(c) => self.word(),
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
        if name.is_empty() {
            let message = "An object or column name is missing or empty. For SELECT INTO statements, verify each column \
                           has a name. For other statements, look for empty alias names. Aliases defined as \"\" or [] \
                           are not allowed. Change the alias to a valid name.";
            return Err(syntax_error(1038, message.to_owned(), line));
        }
        check_length(&name, line)?;
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
            kind = TokenKind::Float;
            self.advance();
            if matches!(self.peek(), Some('+' | '-')) {
                self.advance();
            }
            self.advance_while(is_digit);
        }
        let number = &self.text[start..self.position];
        if kind == TokenKind::Float {
            float_value(number, self.line)?;
            return Ok(kind);
        }
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
            ('<', Some('=')) | ('!', Some('>')) => Some(Symbol::LessOrEqual),
            ('>', Some('=')) | ('!', Some('<')) => Some(Symbol::GreaterOrEqual),
            ('+', Some('=')) => Some(Symbol::PlusEqual),
            ('-', Some('=')) => Some(Symbol::MinusEqual),
            ('*', Some('=')) => Some(Symbol::StarEqual),
            ('/', Some('=')) => Some(Symbol::SlashEqual),
            ('%', Some('=')) => Some(Symbol::PercentEqual),
            ('&', Some('=')) => Some(Symbol::AmpersandEqual),
            ('|', Some('=')) => Some(Symbol::PipeEqual),
            ('^', Some('=')) => Some(Symbol::CaretEqual),
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
            '|' => Symbol::Pipe,
            '^' => Symbol::Caret,
            '~' => Symbol::Tilde,
            other => {
                return Err(syntax_error(102, format!("Incorrect syntax near '{other}'."), self.line));
            }
        };
        self.advance();
        Ok(TokenKind::Symbol(one))
    }
}

fn check_length(name: &str, line: u32) -> SqlResult<()> {
    if name.encode_utf16().count() <= MAX_IDENTIFIER {
        return Ok(());
    }
    let shown = shortened(name);
    let message = format!("The identifier that starts with '{shown}' is too long. Maximum length is {MAX_IDENTIFIER}.");
    Err(syntax_error(103, message, line))
}

/// The value of a float constant. An exponent without digits counts as zero: `1e` is 1.
pub fn float_value(number: &str, line: u32) -> SqlResult<f64> {
    let mut written = number.to_owned();
    if !written.ends_with(|c: char| c.is_ascii_digit()) {
        written.push('0');
    }
    match written.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => {
            let shown = shortened(number);
            let message =
                format!("The floating point value '{shown}' is out of the range of computer representation (8 bytes).");
            Err(syntax_error(168, message, line))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        let mut kinds: Vec<TokenKind> = tokenize(text).unwrap().into_iter().map(|token| token.kind).collect();
        assert_eq!(kinds.pop(), Some(TokenKind::End));
        kinds
    }

    fn error_number(text: &str) -> i32 {
        tokenize(text).unwrap_err().number
    }

    #[test]
    fn reserved_words_are_sorted_for_the_binary_search() {
        assert!(RESERVED_WORDS.is_sorted());
    }

    #[test]
    fn names_strings_and_binaries_are_unescaped() {
        assert_eq!(kinds("[a]]b]"), [TokenKind::QuotedName("a]b".into())]);
        assert_eq!(kinds("\"a\"\"b\""), [TokenKind::QuotedName("a\"b".into())]);
        assert_eq!(kinds("'it''s'"), [TokenKind::String { value: "it's".into(), national: false }]);
        assert_eq!(kinds("N'日本'"), [TokenKind::String { value: "日本".into(), national: true }]);
        assert_eq!(kinds("0xABC"), [TokenKind::Binary(vec![0x0A, 0xBC].into())]);
        assert_eq!(kinds("0x"), [TokenKind::Binary(Vec::new().into())]);
    }

    #[test]
    fn words_are_reserved_in_any_letter_case() {
        assert_eq!(kinds("sElEcT"), [TokenKind::Word { reserved: true }]);
        assert_eq!(kinds("größe #t output"), vec![TokenKind::Word { reserved: false }; 3]);
    }

    #[test]
    fn numbers_know_their_kind() {
        assert_eq!(
            kinds("1 1. .5 1e3 1.5E-2"),
            [TokenKind::Integer, TokenKind::Decimal, TokenKind::Decimal, TokenKind::Float, TokenKind::Float]
        );
        assert_eq!(float_value("1e", 1), Ok(1.0));
        assert_eq!(float_value("1e-", 1), Ok(1.0));
    }

    #[test]
    fn comments_nest_and_lines_are_counted() {
        let tokens = tokenize("-- one\n/* two /* three\n */ */ a\n'x\ny' b").unwrap();
        let lines: Vec<u32> = tokens.iter().map(|token| token.line).collect();
        assert_eq!(lines, [3, 4, 5, 5]);
    }

    #[test]
    fn what_cannot_be_a_token_has_sql_servers_error() {
        assert_eq!(error_number("'abc"), 105);
        assert_eq!(error_number("[abc"), 105);
        assert_eq!(error_number("/* /* */"), 113);
        assert_eq!(error_number("[]"), 1038);
        assert_eq!(error_number("SELECT {"), 102);
        assert_eq!(error_number("@"), 102);
        assert_eq!(error_number("1e999"), 168);
        assert_eq!(error_number(&"9".repeat(39)), 1007);
        assert_eq!(error_number(&"a".repeat(129)), 103);
    }
}
