//! THROW and RAISERROR.

use crate::error::SqlResult;
use crate::tsql::ast::control::RaiseError;
use crate::tsql::ast::expression::Expr;
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::lexer::token::{Symbol, TokenKind};
use crate::tsql::parser::tokens::Parser;

/// Most substitution arguments of RAISERROR.
const MAX_RAISERROR_ARGUMENTS: usize = 20;

impl Parser<'_> {
    /// THROW alone, or with a number, a message and a state.
    pub(super) fn throw(&mut self) -> SqlResult<StatementKind> {
        self.expect("THROW")?;
        if !self.is_variable() && self.token().kind != TokenKind::Integer {
            return Ok(StatementKind::Throw(None));
        }
        let number = self.constant_or_variable()?;
        self.expect_symbol(Symbol::Comma)?;
        let message = self.string_or_variable()?;
        self.expect_symbol(Symbol::Comma)?;
        if !self.is_variable() && self.token().kind != TokenKind::Integer {
            return Err(self.unexpected());
        }
        let state = self.constant_or_variable()?;
        Ok(StatementKind::Throw(Some(Box::new((number, message, state)))))
    }

    pub(super) fn raise_error(&mut self) -> SqlResult<StatementKind> {
        self.expect("RAISERROR")?;
        self.expect_symbol(Symbol::LeftParen)?;
        let is_message = self.is_string() || self.is_variable() || self.token().kind == TokenKind::Integer;
        if !is_message {
            return Err(self.unexpected());
        }
        let message = self.constant_or_variable()?;
        self.expect_symbol(Symbol::Comma)?;
        let severity = self.integer_or_variable()?;
        self.expect_symbol(Symbol::Comma)?;
        let state = self.integer_or_variable()?;
        let mut arguments = Vec::new();
        while self.accept_symbol(Symbol::Comma) {
            arguments.push(self.constant_or_variable()?);
        }
        if arguments.len() > MAX_RAISERROR_ARGUMENTS {
            return Err(self.unsupported(format!("RAISERROR with more than {MAX_RAISERROR_ARGUMENTS} arguments")));
        }
        self.expect_symbol(Symbol::RightParen)?;
        let only_nowait = !self.accept("WITH") || self.accept("NOWAIT");
        if !only_nowait || self.is_symbol(Symbol::Comma) {
            return Err(self.unsupported("RAISERROR WITH LOG and SETERROR"));
        }
        let statement = RaiseError { message, severity, state, arguments };
        Ok(StatementKind::RaiseError(Box::new(statement)))
    }

    /// A number, maybe with a minus, or a variable.
    fn integer_or_variable(&mut self) -> SqlResult<Expr> {
        let sign = usize::from(self.is_symbol(Symbol::Minus));
        if self.is_variable() || self.ahead(sign).kind == TokenKind::Integer {
            return self.constant_or_variable();
        }
        Err(self.unexpected())
    }
}
