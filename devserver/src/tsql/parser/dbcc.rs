//! DBCC: of its commands CHECKIDENT only.

use std::sync::Arc;

use crate::error::SqlResult;
use crate::tsql::ast::control::{CheckIdentity, IdentityCheck};
use crate::tsql::ast::expression::{Expr, Literal};
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    /// `DBCC CHECKIDENT (table [, NORESEED | RESEED [, value]]) [WITH NO_INFOMSGS]`.
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
        let check = if !self.accept_symbol(Symbol::Comma) {
            IdentityCheck::Correct
        } else if self.accept("NORESEED") {
            IdentityCheck::Report
        } else {
            self.expect("RESEED")?;
            if self.accept_symbol(Symbol::Comma) {
                IdentityCheck::Reseed(self.constant_or_variable()?)
            } else {
                IdentityCheck::Correct
            }
        };
        self.expect_symbol(Symbol::RightParen)?;
        let silent = self.is("WITH") && self.is_ahead(1, "NO_INFOMSGS");
        if silent {
            self.advance();
            self.advance();
        }
        Ok(StatementKind::CheckIdentity(Box::new(CheckIdentity { table, check, silent })))
    }
}
