//! EXECUTE.

use crate::error::SqlResult;
use crate::tsql::ast::control::{Argument, ArgumentValue, Execute, ExecuteTarget};
use crate::tsql::ast::expression::{Expr, Literal};
use crate::tsql::ast::name::Ident;
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::lexer::token::{Symbol, TokenKind};
use crate::tsql::parser::tokens::Parser;
use crate::value::BinaryOp;

impl Parser<'_> {
    /// What follows EXEC, or a procedure's name that begins a batch.
    pub(super) fn execute_statement(&mut self) -> SqlResult<StatementKind> {
        if self.is("AS") {
            return Err(self.unsupported("EXECUTE AS"));
        }
        Ok(StatementKind::Execute(Box::new(self.execute()?)))
    }

    /// What follows EXEC: a call of a procedure, or text to run.
    pub(super) fn execute(&mut self) -> SqlResult<Execute> {
        if self.is_symbol(Symbol::LeftParen) {
            let text = self.executed_text()?;
            if self.is_one_of(&["AS", "AT"]) {
                return Err(self.unsupported("EXECUTE (…) AS and AT"));
            }
            return Ok(Execute { return_variable: None, target: ExecuteTarget::Text(text), arguments: Vec::new() });
        }
        let mut return_variable = None;
        if self.is_variable() && self.is_symbol_ahead(1, Symbol::Equal) {
            return_variable = Some(self.variable()?);
            self.advance();
        }
        let target = if self.is_variable() {
            ExecuteTarget::Variable(self.variable()?)
        } else {
            // `..name`, with database and schema left out, as .NET calls system procedures.
            if self.is_symbol(Symbol::Dot) && self.is_symbol_ahead(1, Symbol::Dot) {
                self.advance();
                self.advance();
            }
            ExecuteTarget::Procedure(self.object_name()?)
        };
        let arguments = self.arguments()?;
        if self.is("WITH") && (self.is_ahead(1, "RECOMPILE") || self.is_ahead(1, "RESULT")) {
            return Err(self.unsupported("EXECUTE … WITH"));
        }
        Ok(Execute { return_variable, target, arguments })
    }

    /// `('text' + @v + …)`: T-SQL allows strings and variables here, but no other expression.
    fn executed_text(&mut self) -> SqlResult<Expr> {
        self.expect_symbol(Symbol::LeftParen)?;
        self.operators = 0;
        let mut text = self.string_or_variable()?;
        while self.accept_symbol(Symbol::Plus) {
            self.count_operator()?;
            let right = self.string_or_variable()?;
            text = Expr::Binary { op: BinaryOp::Add, left: Box::new(text), right: Box::new(right) };
        }
        self.expect_symbol(Symbol::RightParen)?;
        Ok(text)
    }

    pub(super) fn arguments(&mut self) -> SqlResult<Vec<Argument>> {
        if !self.at_argument() {
            return Ok(Vec::new());
        }
        let mut named = false;
        self.comma_list(|p| {
            let mut name = None;
            if p.is_variable() && p.is_symbol_ahead(1, Symbol::Equal) {
                name = Some(p.variable()?);
                p.advance();
                named = true;
            } else if named {
                return Err(p.unsupported("an argument without name after one with a name"));
            }
            let value = p.argument_value()?;
            Ok(Argument { name, value })
        })
    }

    fn at_argument(&self) -> bool {
        match self.token().kind {
            TokenKind::End => false,
            TokenKind::Symbol(symbol) => symbol == Symbol::Minus,
            TokenKind::Word { reserved: true } => self.is_one_of(&["NULL", "DEFAULT"]),
            _ => true,
        }
    }

    fn argument_value(&mut self) -> SqlResult<ArgumentValue> {
        if self.accept("DEFAULT") {
            return Ok(ArgumentValue::Default);
        }
        if self.is_variable() {
            let name = self.variable()?;
            let output = self.accept("OUTPUT") || self.accept("OUT");
            return Ok(ArgumentValue::Variable { name, output });
        }
        let constant = if self.token().kind == TokenKind::GlobalVariable {
            let name = Ident::from(self.source(self.token()));
            self.advance();
            Expr::GlobalVariable(name)
        } else if self.is_identifier() {
            let value = self.identifier()?;
            Expr::Literal(Literal::String { value, national: true })
        } else {
            self.constant()?
        };
        if self.is_one_of(&["OUTPUT", "OUT"]) {
            return Err(self.unsupported("OUTPUT of a constant"));
        }
        Ok(ArgumentValue::Constant(constant))
    }
}
