//! The parser: tokens in, syntax tree out, by recursive descent with one token of look-ahead (a few more where T-SQL
//! needs them). This file has what all parts share: looking at tokens, names and constants, and SQL Server's
//! syntax errors. The grammar is spread by topic: `statement` decides what a statement is and hands it to `query`,
//! `dml`, `table`, `ddl`, `module`, `security`, `session` or `control`; these use `source`, `hint`,
//! `expression`, `condition` and `type_name`.

mod condition;
mod control;
mod dbcc;
mod ddl;
mod dml;
mod expression;
mod hint;
mod module;
mod query;
mod security;
mod session;
mod source;
mod statement;
mod table;
#[cfg(test)]
mod tests;
mod type_name;

use std::sync::Arc;

use super::ast::{Expr, Ident, Literal, ObjectName, ParameterDef, Predicate, Statement, UnaryOp};
use super::lexer::{Symbol, Token, TokenKind, float_value, shortened, syntax_error, tokenize};
use crate::error::{SqlError, SqlResult};

/// How deep statements, queries, parentheses and function calls can nest in one another. SQL Server's own limit depends
/// on its stack; this one keeps a debug build within half of a thread's usual 2 MiB, for the executor needs some too.
const MAX_NESTING: u32 = 64;

/// How deep queries can nest ("Maximum capacity specifications",
/// docs/sql-server/maximum-capacity-specifications-for-sql-server.md: 32 nested subqueries).
const MAX_NESTED_QUERIES: u32 = 32;

/// How many operators one outermost expression can have: `a + b + c` is a tree as deep as it is long.
const MAX_OPERATORS: u32 = 400;

/// How many joins and set operations one statement can have; SQL Server's limit is 256 tables in a SELECT.
const MAX_COMBINED: u32 = 255;

/// Parses a batch as a client sends it, or a string that is executed: no procedure, so that RETURN takes no value
/// (178). `GO` is the client's word, not T-SQL's.
///
/// # Errors
/// SQL Server's syntax errors with their line, or the refusal of T-SQL that the dev server does not know.
pub fn parse_request(text: &str) -> SqlResult<Vec<Statement>> {
    let mut parser = Parser::new(text)?;
    parser.may_return_value = false;
    parser.batch()
}

/// Parses a list of parameters as `sp_executesql` takes it: `@a int, @b nvarchar(10) OUTPUT`. It may be empty.
///
/// # Errors
/// As [`parse_request`].
pub fn parse_parameter_list(text: &str) -> SqlResult<Vec<ParameterDef>> {
    let mut parser = Parser::new(text)?;
    if parser.at_end() {
        return Ok(Vec::new());
    }
    let parameters = parser.parameters()?;
    parser.expect_end()?;
    Ok(parameters)
}

/// Parses a scalar expression that stands alone, such as a column's default.
///
/// # Errors
/// As [`parse_request`].
pub fn parse_expression(text: &str) -> SqlResult<Expr> {
    let mut parser = Parser::new(text)?;
    let expr = parser.expression()?;
    parser.expect_end()?;
    Ok(expr)
}

/// Parses a search condition that stands alone, such as that of a CHECK constraint.
///
/// # Errors
/// As [`parse_request`].
pub fn parse_predicate(text: &str) -> SqlResult<Predicate> {
    let mut parser = Parser::new(text)?;
    let condition = parser.search_condition()?;
    parser.expect_end()?;
    Ok(condition)
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    /// The index of the token to be looked at next; never past [`TokenKind::End`].
    next: usize,
    nesting: u32,
    /// How many expressions enclose the current place.
    open_expressions: u32,
    /// Operators seen in the outermost of them.
    operators: u32,
    /// Nested queries that enclose the current place.
    open_queries: u32,
    /// CASE expressions that enclose the current place.
    open_cases: u32,
    /// Joins and set operations of the current statement.
    combined: u32,
    /// RETURN may have a value, as in a procedure or function.
    may_return_value: bool,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> SqlResult<Self> {
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

    // Looking at tokens

    fn token(&self) -> &Token {
        &self.tokens[self.next]
    }

    /// The token `distance` after the current one; the end if there are not so many.
    fn ahead(&self, distance: usize) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.next + distance).min(last)]
    }

    fn line(&self) -> u32 {
        self.token().line
    }

    fn source(&self, token: &Token) -> &'t str {
        &self.text[token.start..token.end]
    }

    /// The text from a token up to the one before the current.
    fn source_from(&self, first: usize) -> Arc<str> {
        let start = self.tokens[first].start;
        let end = self.tokens[first.max(self.next.saturating_sub(1))].end;
        Arc::from(&self.text[start..end])
    }

    fn advance(&mut self) {
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
    }

    fn at_end(&self) -> bool {
        self.token().kind == TokenKind::End
    }

    fn expect_end(&self) -> SqlResult<()> {
        if self.at_end() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Is the current token this keyword? Quoted names are no keywords.
    fn is(&self, keyword: &str) -> bool {
        self.is_ahead(0, keyword)
    }

    fn is_ahead(&self, distance: usize, keyword: &str) -> bool {
        let token = self.ahead(distance);
        matches!(token.kind, TokenKind::Word { .. }) && self.source(token).eq_ignore_ascii_case(keyword)
    }

    fn is_one_of(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(keyword))
    }

    /// The current word in capitals; empty if it is no bare word.
    fn keyword(&self) -> String {
        match self.token().kind {
            TokenKind::Word { .. } => self.source(self.token()).to_ascii_uppercase(),
            _ => String::new(),
        }
    }

    fn accept(&mut self, keyword: &str) -> bool {
        let found = self.is(keyword);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, keyword: &str) -> SqlResult<()> {
        if self.accept(keyword) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn expect_all(&mut self, keywords: &[&str]) -> SqlResult<()> {
        for keyword in keywords {
            self.expect(keyword)?;
        }
        Ok(())
    }

    fn is_symbol(&self, symbol: Symbol) -> bool {
        self.is_symbol_ahead(0, symbol)
    }

    fn is_symbol_ahead(&self, distance: usize, symbol: Symbol) -> bool {
        self.ahead(distance).kind == TokenKind::Symbol(symbol)
    }

    fn accept_symbol(&mut self, symbol: Symbol) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect_symbol(&mut self, symbol: Symbol) -> SqlResult<()> {
        if self.accept_symbol(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// One or more, parted by commas.
    fn comma_list<T>(&mut self, mut item: impl FnMut(&mut Self) -> SqlResult<T>) -> SqlResult<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept_symbol(Symbol::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// One or more in parentheses, parted by commas.
    fn parenthesised_list<T>(&mut self, item: impl FnMut(&mut Self) -> SqlResult<T>) -> SqlResult<Vec<T>> {
        self.expect_symbol(Symbol::LeftParen)?;
        let items = self.comma_list(item)?;
        self.expect_symbol(Symbol::RightParen)?;
        Ok(items)
    }

    /// Every recursion of the grammar passes here, so that no input can overflow the stack.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        if self.nesting == MAX_NESTING {
            return Err(self.too_complex());
        }
        self.nesting += 1;
        let result = parse(self);
        self.nesting -= 1;
        result
    }

    /// Counts an arithmetic operator, see [`MAX_OPERATORS`].
    fn count_operator(&mut self) -> SqlResult<()> {
        self.operators += 1;
        if self.operators > MAX_OPERATORS { Err(self.too_complex()) } else { Ok(()) }
    }

    /// Counts a join or set operation, see [`MAX_COMBINED`].
    fn count_combined(&mut self) -> SqlResult<()> {
        self.combined += 1;
        if self.combined > MAX_COMBINED { Err(self.too_complex()) } else { Ok(()) }
    }

    // Errors

    /// The current token cannot stand here.
    fn unexpected(&self) -> SqlError {
        self.unexpected_at(self.next)
    }

    /// 102, or 156 for a reserved word. At the end of the text SQL Server names the last word before it, always by 102.
    fn unexpected_at(&self, index: usize) -> SqlError {
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

    fn shown(&self, token: &Token) -> String {
        match &token.kind {
            TokenKind::QuotedName(name) => shortened(name),
            TokenKind::String { value, .. } => shortened(value),
            _ => shortened(self.source(token)),
        }
    }

    /// Valid T-SQL that the syntax tree has no place for.
    fn unsupported(&self, what: impl std::fmt::Display) -> SqlError {
        SqlError::not_supported(what).at_line(self.line())
    }

    /// An error of SQL Server's at the current line.
    fn error(&self, number: i32, message: impl Into<String>) -> SqlError {
        syntax_error(number, message.into(), self.line())
    }

    fn too_complex(&self) -> SqlError {
        let message = "Some part of your SQL statement is nested too deeply. Rewrite the query or break it up into \
                       smaller queries.";
        self.error(191, message)
    }

    // Names

    fn is_identifier(&self) -> bool {
        self.is_identifier_ahead(0)
    }

    fn is_identifier_ahead(&self, distance: usize) -> bool {
        matches!(self.ahead(distance).kind, TokenKind::Word { reserved: false } | TokenKind::QuotedName(_))
    }

    fn identifier(&mut self) -> SqlResult<Ident> {
        let name = match &self.token().kind {
            TokenKind::Word { reserved: false } => Ident::from(self.source(self.token())),
            TokenKind::QuotedName(name) => name.clone(),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(name)
    }

    fn identifier_list(&mut self) -> SqlResult<Vec<Ident>> {
        self.parenthesised_list(Self::identifier)
    }

    fn is_variable(&self) -> bool {
        self.token().kind == TokenKind::Variable
    }

    fn variable(&mut self) -> SqlResult<Ident> {
        if !self.is_variable() {
            return Err(self.unexpected());
        }
        let name = Ident::from(self.source(self.token()));
        self.advance();
        Ok(name)
    }

    /// A name of up to four parts; middle parts may be left out (`tempdb..#t`).
    fn object_name(&mut self) -> SqlResult<ObjectName> {
        let mut parts = vec![Some(self.identifier()?)];
        while self.accept_symbol(Symbol::Dot) {
            let left_out = self.is_symbol(Symbol::Dot);
            parts.push(if left_out { None } else { Some(self.identifier()?) });
        }
        self.name_of_parts(parts)
    }

    /// Parts in the order written; the last one is always there.
    fn name_of_parts(&self, mut parts: Vec<Option<Ident>>) -> SqlResult<ObjectName> {
        if parts.len() > 4 {
            let written: Vec<&str> = parts.iter().map(|part| part.as_deref().unwrap_or_default()).collect();
            let message = format!(
                "The object name '{}' contains more than the maximum number of prefixes. The maximum is 3.",
                shortened(&written.join("."))
            );
            return Err(self.error(117, message));
        }
        let name = parts.pop().flatten().expect("the last part was read as an identifier");
        let schema = parts.pop().flatten();
        let database = parts.pop().flatten();
        let server = parts.pop().flatten();
        Ok(ObjectName { server, database, schema, name })
    }

    /// A name of at most three parts: what is defined is defined on this server.
    fn table_name(&mut self) -> SqlResult<ObjectName> {
        let name = self.object_name()?;
        if name.server.is_some() {
            let message = format!(
                "The object name '{}' contains more than the maximum number of prefixes. The maximum is 2.",
                name.name
            );
            return Err(self.error(117, message));
        }
        Ok(name)
    }

    /// A name of at most two parts; `statement` stands in the message.
    fn local_name(&mut self, statement: &str) -> SqlResult<ObjectName> {
        let name = self.object_name()?;
        if name.database.is_some() || name.server.is_some() {
            let message =
                format!("'{statement}' does not allow specifying the database name as a prefix to the object name.");
            return Err(self.error(166, message));
        }
        Ok(name)
    }

    // Constants

    /// An unsigned integer constant in an option or type.
    pub(super) fn unsigned(&mut self) -> SqlResult<u32> {
        if self.token().kind != TokenKind::Integer {
            return Err(self.unexpected());
        }
        let value = self.source(self.token()).parse().map_err(|_| self.unexpected())?;
        self.advance();
        Ok(value)
    }

    /// An integer constant with an optional sign.
    fn signed(&mut self) -> SqlResult<i64> {
        let negative = self.accept_symbol(Symbol::Minus);
        if self.token().kind != TokenKind::Integer {
            return Err(self.unexpected());
        }
        let digits = self.source(self.token());
        let written = if negative { format!("-{digits}") } else { digits.to_owned() };
        let value = written.parse().map_err(|_| self.unexpected())?;
        self.advance();
        Ok(value)
    }

    /// The constant at the current place, without a sign; `None` if there is none.
    fn accept_literal(&mut self) -> SqlResult<Option<Literal>> {
        let token = self.token();
        let written = self.source(token);
        let literal = match &token.kind {
            TokenKind::Integer => match written.parse::<i32>() {
                Ok(value) => Literal::Int(value),
                Err(_) => Literal::Decimal(Arc::from(written)),
            },
            TokenKind::Decimal => Literal::Decimal(Arc::from(written)),
            TokenKind::Float => Literal::Float(float_value(written, token.line)?),
            TokenKind::String { value, national } => Literal::String { value: value.clone(), national: *national },
            TokenKind::Binary(bytes) => Literal::Binary(bytes.clone()),
            TokenKind::Word { .. } if self.is("NULL") => Literal::Null,
            _ => return Ok(None),
        };
        self.advance();
        Ok(Some(literal))
    }

    /// A constant, maybe with a minus, where T-SQL allows no expression.
    fn constant(&mut self) -> SqlResult<Expr> {
        let negative = self.is_symbol(Symbol::Minus);
        if negative {
            self.advance();
            if !matches!(self.token().kind, TokenKind::Integer | TokenKind::Decimal | TokenKind::Float) {
                return Err(self.unexpected());
            }
        }
        let Some(literal) = self.accept_literal()? else {
            return Err(self.unexpected());
        };
        let constant = Expr::Literal(literal);
        if !negative {
            return Ok(constant);
        }
        Ok(Expr::Unary { op: UnaryOp::Minus, operand: Box::new(constant) })
    }

    fn constant_or_variable(&mut self) -> SqlResult<Expr> {
        if self.is_variable() { Ok(Expr::Variable(self.variable()?)) } else { self.constant() }
    }

    fn is_string(&self) -> bool {
        matches!(self.token().kind, TokenKind::String { .. })
    }

    fn string(&mut self) -> SqlResult<Arc<str>> {
        let TokenKind::String { value, .. } = &self.token().kind else {
            return Err(self.unexpected());
        };
        let value = value.clone();
        self.advance();
        Ok(value)
    }

    fn string_or_variable(&mut self) -> SqlResult<Expr> {
        if self.is_string() || self.is_variable() { self.constant_or_variable() } else { Err(self.unexpected()) }
    }

    /// `ON` (true) or `OFF`.
    fn on_or_off(&mut self) -> SqlResult<bool> {
        if self.accept("ON") {
            return Ok(true);
        }
        self.expect("OFF")?;
        Ok(false)
    }
}
