//! The parser and its place among the tokens: looking at them, how deep it has gone, and SQL Server's syntax errors.

use crate::error::{SqlError, SqlResult};
use crate::tsql::lexer::scan::tokenize;
use crate::tsql::lexer::syntax_error::{shortened, syntax_error};
use crate::tsql::lexer::token::{Symbol, Token, TokenKind};
use std::sync::Arc;

/// How deep statements, queries, parentheses and function calls can nest in one another. SQL Server's own limit depends
/// on its stack; this one keeps a debug build within half of a thread's usual 2 MiB, for the executor needs some too.
const MAX_NESTING: u32 = 64;

/// How deep queries can nest ("Maximum capacity specifications",
/// docs/sql-server/maximum-capacity-specifications-for-sql-server.md: 32 nested subqueries).
pub(super) const MAX_NESTED_QUERIES: u32 = 32;

/// How many operators one outermost expression can have: `a + b + c` is a tree as deep as it is long.
const MAX_OPERATORS: u32 = 400;

/// How many joins and set operations one statement can have; SQL Server's limit is 256 tables in a SELECT.
const MAX_COMBINED: u32 = 255;

pub(super) struct Parser<'t> {
    pub(super) text: &'t str,
    pub(super) tokens: Vec<Token>,
    /// The index of the token to be looked at next; never past [`TokenKind::End`].
    pub(super) next: usize,
    pub(super) nesting: u32,
    /// How many expressions enclose the current place.
    pub(super) open_expressions: u32,
    /// Operators seen in the outermost of them.
    pub(super) operators: u32,
    /// Nested queries that enclose the current place.
    pub(super) open_queries: u32,
    /// CASE expressions that enclose the current place.
    pub(super) open_cases: u32,
    /// Joins and set operations of the current statement.
    pub(super) combined: u32,
    /// RETURN may have a value, as in a procedure or function.
    pub(super) may_return_value: bool,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str) -> SqlResult<Self> {
        let tokens = tokenize(text)?;
        Ok(Parser {
            text,
            tokens,
            next: 0,
            nesting: 0,
            open_expressions: 0,
            operators: 0,
            open_queries: 0,
            open_cases: 0,
            combined: 0,
            may_return_value: true,
        })
    }

    pub(super) fn token(&self) -> &Token {
        &self.tokens[self.next]
    }

    /// The token `distance` after the current one; the end if there are not so many.
    pub(super) fn ahead(&self, distance: usize) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.next + distance).min(last)]
    }

    pub(super) fn line(&self) -> u32 {
        self.token().line
    }

    pub(super) fn source(&self, token: &Token) -> &'t str {
        &self.text[token.start..token.end]
    }

    /// The text from a token up to the one before the current.
    pub(super) fn source_from(&self, first: usize) -> Arc<str> {
        let start = self.tokens[first].start;
        let end = self.tokens[first.max(self.next.saturating_sub(1))].end;
        Arc::from(&self.text[start..end])
    }

    pub(super) fn advance(&mut self) {
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
    }

    pub(super) fn at_end(&self) -> bool {
        self.token().kind == TokenKind::End
    }

    pub(super) fn expect_end(&self) -> SqlResult<()> {
        if self.at_end() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Is the current token this keyword? Quoted names are no keywords.
    pub(super) fn is(&self, keyword: &str) -> bool {
        self.is_ahead(0, keyword)
    }

    pub(super) fn is_ahead(&self, distance: usize, keyword: &str) -> bool {
        let token = self.ahead(distance);
        matches!(token.kind, TokenKind::Word { .. }) && self.source(token).eq_ignore_ascii_case(keyword)
    }

    pub(super) fn is_one_of(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(keyword))
    }

    /// The current word in capitals; empty if it is no bare word.
    pub(super) fn keyword(&self) -> String {
        match self.token().kind {
            TokenKind::Word { .. } => self.source(self.token()).to_ascii_uppercase(),
            _ => String::new(),
        }
    }

    pub(super) fn accept(&mut self, keyword: &str) -> bool {
        let found = self.is(keyword);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn expect(&mut self, keyword: &str) -> SqlResult<()> {
        if self.accept(keyword) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub(super) fn expect_all(&mut self, keywords: &[&str]) -> SqlResult<()> {
        for keyword in keywords {
            self.expect(keyword)?;
        }
        Ok(())
    }

    pub(super) fn is_symbol(&self, symbol: Symbol) -> bool {
        self.is_symbol_ahead(0, symbol)
    }

    pub(super) fn is_symbol_ahead(&self, distance: usize, symbol: Symbol) -> bool {
        self.ahead(distance).kind == TokenKind::Symbol(symbol)
    }

    pub(super) fn accept_symbol(&mut self, symbol: Symbol) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn expect_symbol(&mut self, symbol: Symbol) -> SqlResult<()> {
        if self.accept_symbol(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// One or more, parted by commas.
    pub(super) fn comma_list<T>(&mut self, mut item: impl FnMut(&mut Self) -> SqlResult<T>) -> SqlResult<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept_symbol(Symbol::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// One or more in parentheses, parted by commas.
    pub(super) fn parenthesised_list<T>(&mut self, item: impl FnMut(&mut Self) -> SqlResult<T>) -> SqlResult<Vec<T>> {
        self.expect_symbol(Symbol::LeftParen)?;
        let items = self.comma_list(item)?;
        self.expect_symbol(Symbol::RightParen)?;
        Ok(items)
    }

    /// Every recursion of the grammar passes here, so that no input can overflow the stack.
    pub(super) fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        if self.nesting == MAX_NESTING {
            return Err(self.too_complex());
        }
        self.nesting += 1;
        let result = parse(self);
        self.nesting -= 1;
        result
    }

    /// Counts an arithmetic operator, see [`MAX_OPERATORS`].
    pub(super) fn count_operator(&mut self) -> SqlResult<()> {
        self.operators += 1;
        if self.operators > MAX_OPERATORS { Err(self.too_complex()) } else { Ok(()) }
    }

    /// Counts a join or set operation, see [`MAX_COMBINED`].
    pub(super) fn count_combined(&mut self) -> SqlResult<()> {
        self.combined += 1;
        if self.combined > MAX_COMBINED { Err(self.too_complex()) } else { Ok(()) }
    }

    /// The current token cannot stand here.
    pub(super) fn unexpected(&self) -> SqlError {
        self.unexpected_at(self.next)
    }

    /// 102, or 156 for a reserved word. At the end of the text SQL Server names the last word before it, always by 102.
    pub(super) fn unexpected_at(&self, index: usize) -> SqlError {
        let token = &self.tokens[index];
        match &token.kind {
            TokenKind::End if index > 0 => {
                let last = &self.tokens[index - 1];
                syntax_error(102, format!("Incorrect syntax near '{}'.", self.shown(last)), last.line)
            }
            TokenKind::Word { reserved: true } => {
                let message = format!("Incorrect syntax near the keyword '{}'.", self.shown(token));
                syntax_error(156, message, token.line)
            }
            _ => syntax_error(102, format!("Incorrect syntax near '{}'.", self.shown(token)), token.line),
        }
    }

    pub(super) fn shown(&self, token: &Token) -> String {
        match &token.kind {
            TokenKind::QuotedName(name) => shortened(name),
            TokenKind::String { value, .. } => shortened(value),
            _ => shortened(self.source(token)),
        }
    }

    /// Valid T-SQL that the syntax tree has no place for.
    pub(super) fn unsupported(&self, what: impl std::fmt::Display) -> SqlError {
        SqlError::not_supported(what).at_line(self.line())
    }

    /// An error of SQL Server's at the current line.
    pub(super) fn error(&self, number: i32, message: impl Into<String>) -> SqlError {
        syntax_error(number, message.into(), self.line())
    }

    pub(super) fn too_complex(&self) -> SqlError {
        let message = "Some part of your SQL statement is nested too deeply. Rewrite the query or break it up into \
                       smaller queries.";
        self.error(191, message)
    }
}
