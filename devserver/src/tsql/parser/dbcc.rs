//! DBCC: of its commands CHECKIDENT only.

use std::sync::Arc;

use crate::error::SqlResult;
use crate::tsql::ast::control::CheckIdentity;
use crate::tsql::ast::expression::{Expr, Literal};
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    /// `DBCC CHECKIDENT (table, RESEED, value)`.
    pub(super) fn dbcc(&mut self) -> SqlResult<StatementKind> {
        self.expect("DBCC")?;
        if !self.is("CHECKIDENT") {
            return Err(self.unsupported(format!("DBCC {}", self.keyword())));
        }
        self.advance();
        self.expect_symbol(Symbol::LeftParen)?;
        let table = if self.is_string() || self.is_variable() {
            self.constant_or_variable()?
        } else {
            // A name in one part; what is in brackets may have dots.
            Expr::Literal(Literal::String { value: Arc::clone(&self.identifier()?), national: true })
        };
        if !self.accept_symbol(Symbol::Comma) || !self.accept("RESEED") || !self.accept_symbol(Symbol::Comma) {
            return Err(self.unsupported("DBCC CHECKIDENT without RESEED and a value"));
        }
        let value = self.constant_or_variable()?;
        self.expect_symbol(Symbol::RightParen)?;
        if self.is("WITH") && self.is_ahead(1, "NO_INFOMSGS") {
            return Err(self.unsupported("DBCC CHECKIDENT WITH NO_INFOMSGS"));
        }
        Ok(StatementKind::CheckIdentity(Box::new(CheckIdentity { table, value })))
    }
}
