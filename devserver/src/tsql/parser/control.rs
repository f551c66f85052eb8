//! Control of flow: blocks, IF, WHILE, TRY, RETURN, labels, WAITFOR; and DECLARE.

use crate::error::SqlResult;
use crate::tsql::ast::control::VariableDeclaration;
use crate::tsql::ast::statement::{Statement, StatementKind};
use crate::tsql::lexer::token::{Symbol, TokenKind};
use crate::tsql::parser::table::TableKind;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    /// BEGIN … END, BEGIN TRY, or BEGIN TRAN.
    pub(super) fn begin(&mut self) -> SqlResult<StatementKind> {
        self.expect("BEGIN")?;
        if self.accept("TRAN") || self.accept("TRANSACTION") {
            self.transaction_name()?;
            if self.is("WITH") && self.is_ahead(1, "MARK") {
                return Err(self.unsupported("BEGIN TRANSACTION … WITH MARK"));
            }
            return Ok(StatementKind::BeginTransaction);
        }
        if self.is_one_of(&["DISTRIBUTED", "DIALOG", "CONVERSATION", "ATOMIC"]) {
            return Err(self.unsupported(format!("BEGIN {}", self.keyword())));
        }
        if self.accept("TRY") {
            return self.rest_of_try();
        }
        let statements = self.block_statements()?;
        self.expect("END")?;
        Ok(StatementKind::Block(statements))
    }

    /// The statements of a block: at least one.
    fn block_statements(&mut self) -> SqlResult<Vec<Statement>> {
        let statements = self.statements()?;
        if statements.is_empty() { Err(self.unexpected()) } else { Ok(statements) }
    }

    fn rest_of_try(&mut self) -> SqlResult<StatementKind> {
        let body = self.block_statements()?;
        self.expect_all(&["END", "TRY", "BEGIN", "CATCH"])?;
        let handler = self.statements()?;
        self.expect_all(&["END", "CATCH"])?;
        Ok(StatementKind::TryCatch { body, handler })
    }

    pub(super) fn if_statement(&mut self) -> SqlResult<StatementKind> {
        self.expect("IF")?;
        let condition = self.search_condition()?;
        let then = Box::new(self.statement()?);
        let otherwise = if self.accept_else() { Some(Box::new(self.statement()?)) } else { None };
        Ok(StatementKind::If { condition, then, otherwise })
    }

    /// ELSE, with the semicolons that may end the statement before it.
    fn accept_else(&mut self) -> bool {
        let mut distance = 0;
        while self.is_symbol_ahead(distance, Symbol::Semicolon) {
            distance += 1;
        }
        if !self.is_ahead(distance, "ELSE") {
            return false;
        }
        for _ in 0..=distance {
            self.advance();
        }
        true
    }

    pub(super) fn while_statement(&mut self) -> SqlResult<StatementKind> {
        self.expect("WHILE")?;
        let condition = self.search_condition()?;
        let body = Box::new(self.statement()?);
        Ok(StatementKind::While { condition, body })
    }

    pub(super) fn return_statement(&mut self) -> SqlResult<StatementKind> {
        self.expect("RETURN")?;
        let value = if self.at_expression() { Some(self.expression()?) } else { None };
        if value.is_some() && !self.may_return_value {
            let message = "A RETURN statement with a return value cannot be used in this context.";
            return Err(self.error(178, message));
        }
        Ok(StatementKind::Return(value))
    }

    /// Can an expression begin here? Of the reserved words only a few begin one, the others the next statement.
    fn at_expression(&self) -> bool {
        match self.token().kind {
            TokenKind::End => false,
            TokenKind::Symbol(symbol) => {
                matches!(symbol, Symbol::LeftParen | Symbol::Minus | Symbol::Plus)
            }
            TokenKind::Word { reserved: true } => self.is_one_of(&[
                "CASE",
                "COALESCE",
                "CONVERT",
                "CURRENT_TIMESTAMP",
                "CURRENT_USER",
                "LEFT",
                "NULL",
                "NULLIF",
                "RIGHT",
                "SESSION_USER",
                "SYSTEM_USER",
                "TRY_CONVERT",
                "USER",
            ]),
            _ => true,
        }
    }

    pub(super) fn declare(&mut self) -> SqlResult<StatementKind> {
        self.expect("DECLARE")?;
        if !self.is_variable() {
            return self.declare_cursor();
        }
        let has_as = self.is_ahead(1, "AS");
        if self.is_ahead(if has_as { 2 } else { 1 }, "TABLE") {
            let name = self.variable()?;
            self.accept("AS");
            self.expect("TABLE")?;
            let definition = Box::new(self.table_definition(TableKind::TypeOrVariable)?);
            return Ok(StatementKind::DeclareTable { name, definition });
        }
        let declarations = self.comma_list(|p| {
            let name = p.variable()?;
            p.accept("AS");
            let data_type = p.type_name()?;
            if p.is_one_of(&["NULL", "NOT"]) {
                return Err(p.unsupported("NULL and NOT NULL of a variable"));
            }
            let value = if p.accept_symbol(Symbol::Equal) { Some(p.expression()?) } else { None };
            Ok(VariableDeclaration { name, data_type, value })
        })?;
        Ok(StatementKind::Declare(declarations))
    }

    pub(super) fn wait_for(&mut self) -> SqlResult<StatementKind> {
        self.expect("WAITFOR")?;
        if self.is_symbol(Symbol::LeftParen) || self.is("TIME") {
            return Err(self.unsupported("WAITFOR of anything but DELAY"));
        }
        self.expect("DELAY")?;
        self.string_or_variable().map(StatementKind::WaitForDelay)
    }
}
