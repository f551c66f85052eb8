//! Constants.

use crate::error::SqlResult;
use crate::tsql::ast::expression::{Expr, Literal};
use crate::tsql::lexer::token::{Symbol, TokenKind};
use crate::tsql::parser::tokens::Parser;
use std::sync::Arc;

impl<'t> Parser<'t> {
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
    pub(super) fn signed(&mut self) -> SqlResult<i64> {
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
    pub(super) fn accept_literal(&mut self) -> SqlResult<Option<Literal>> {
        let token = self.token();
        let written = self.source(token);
        let literal = match &token.kind {
            TokenKind::Integer => match written.parse::<i32>() {
                Ok(value) => Literal::Int(value),
                Err(_) => Literal::Decimal(Arc::from(written)),
            },
            TokenKind::Decimal => Literal::Decimal(Arc::from(written)),
            TokenKind::String { value, national } => Literal::String { value: value.clone(), national: *national },
            TokenKind::Binary(bytes) => Literal::Binary(bytes.clone()),
            TokenKind::Word { .. } if self.is("NULL") => Literal::Null,
            _ => return Ok(None),
        };
        self.advance();
        Ok(Some(literal))
    }

    /// A constant, maybe with a minus, where T-SQL allows no expression.
    pub(super) fn constant(&mut self) -> SqlResult<Expr> {
        let negative = self.is_symbol(Symbol::Minus);
        if negative {
            self.advance();
            let kind = &self.token().kind;
            if !matches!(kind, TokenKind::Integer | TokenKind::Decimal) {
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
        Ok(Expr::Negative(Box::new(constant)))
    }

    pub(super) fn constant_or_variable(&mut self) -> SqlResult<Expr> {
        if self.is_variable() { Ok(Expr::Variable(self.variable()?)) } else { self.constant() }
    }

    pub(super) fn is_string(&self) -> bool {
        matches!(self.token().kind, TokenKind::String { .. })
    }

    pub(super) fn string(&mut self) -> SqlResult<Arc<str>> {
        let TokenKind::String { value, .. } = &self.token().kind else {
            return Err(self.unexpected());
        };
        let value = value.clone();
        self.advance();
        Ok(value)
    }

    pub(super) fn string_or_variable(&mut self) -> SqlResult<Expr> {
        if self.is_string() || self.is_variable() { self.constant_or_variable() } else { Err(self.unexpected()) }
    }

    /// `ON` (true) or `OFF`.
    pub(super) fn on_or_off(&mut self) -> SqlResult<bool> {
        if self.accept("ON") {
            return Ok(true);
        }
        self.expect("OFF")?;
        Ok(false)
    }
}
