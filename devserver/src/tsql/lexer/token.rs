//! What a token is.

use crate::tsql::ast::name::Ident;
use std::sync::Arc;

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
    Integer,
    Decimal,
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
    PlusEqual,
    MinusEqual,
}
