//! CREATE and ALTER of procedures, views, functions and triggers, which take the whole batch, and lists of parameters.

use std::sync::Arc;

use crate::error::SqlResult;
use crate::tsql::ast::expression::Expr;
use crate::tsql::ast::module::{
    CreateFunction, CreateProcedure, CreateTrigger, CreateView, Creation, ParameterDef, TriggerEvent,
};
use crate::tsql::ast::query::SelectStatement;
use crate::tsql::ast::statement::{Statement, StatementKind};
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    /// A statement that begins with CREATE, ALTER or CREATE OR ALTER and goes on with a procedure or view.
    pub(super) fn module(&mut self) -> SqlResult<StatementKind> {
        let or_alter = self.is_ahead(1, "OR");
        let noun = if or_alter { 3 } else { 1 };
        let creation = if or_alter {
            Creation::CreateOrAlter
        } else if self.is("ALTER") {
            Creation::Alter
        } else {
            Creation::Create
        };
        if or_alter && !self.is_ahead(2, "ALTER") {
            return Err(self.unexpected_at(self.next + 1));
        }
        if self.is_ahead(noun, "VIEW") {
            self.check_first_in_batch(if creation == Creation::Alter { "ALTER VIEW" } else { "CREATE VIEW" }, noun)?;
        } else if self.is_ahead(noun, "PROCEDURE") || self.is_ahead(noun, "PROC") {
            self.check_first_in_batch("CREATE/ALTER PROCEDURE", noun)?;
        } else if self.is_ahead(noun, "FUNCTION") {
            self.check_first_in_batch("CREATE FUNCTION", noun)?;
        } else if self.is_ahead(noun, "TRIGGER") {
            self.check_first_in_batch("CREATE TRIGGER", noun)?;
        }
        for _ in 0..noun {
            self.advance();
        }
        match self.keyword().as_str() {
            "PROCEDURE" | "PROC" => {
                self.advance();
                self.procedure(creation)
            }
            "VIEW" => {
                self.advance();
                self.view(creation)
            }
            "FUNCTION" => {
                self.advance();
                self.function(creation)
            }
            "TRIGGER" => {
                self.advance();
                if creation != Creation::Create {
                    return Err(self.unsupported("ALTER TRIGGER and CREATE OR ALTER TRIGGER"));
                }
                self.trigger()
            }
            _ => Err(self.unexpected()),
        }
    }

    fn procedure(&mut self, creation: Creation) -> SqlResult<StatementKind> {
        let name = self.local_name()?;
        let parameters = self.procedure_parameters()?;
        if self.accept("WITH") {
            self.module_options("procedure")?;
        }
        if self.is("FOR") {
            return Err(self.unsupported("FOR REPLICATION"));
        }
        self.expect("AS")?;
        if self.is("EXTERNAL") {
            return Err(self.unsupported("CLR procedures"));
        }
        self.may_return_value = true;
        let body = self.batch()?;
        Ok(StatementKind::CreateProcedure(Box::new(CreateProcedure {
            creation,
            name,
            parameters,
            body: body.into(),
            text: Arc::from(self.text),
        })))
    }

    fn trigger(&mut self) -> SqlResult<StatementKind> {
        let name = self.local_name()?;
        self.expect("ON")?;
        if self.is("DATABASE") || (self.is("ALL") && self.is_ahead(1, "SERVER")) {
            return Err(self.unsupported("DDL triggers"));
        }
        let table = self.table_name()?;
        if self.accept("WITH") {
            self.module_options("trigger")?;
        }
        let instead_of = self.accept("INSTEAD");
        if instead_of {
            self.expect("OF")?;
        } else if !self.accept("AFTER") {
            self.expect("FOR")?;
        }
        let events = self.comma_list(|p| {
            let event = match p.keyword().as_str() {
                "INSERT" => TriggerEvent::Insert,
                "UPDATE" => TriggerEvent::Update,
                "DELETE" => TriggerEvent::Delete,
                _ => return Err(p.unexpected()),
            };
            p.advance();
            Ok(event)
        })?;
        if instead_of && events[..] != [TriggerEvent::Delete] {
            return Err(self.unsupported("INSTEAD OF INSERT and INSTEAD OF UPDATE"));
        }
        self.skip_not_for_replication()?;
        self.expect("AS")?;
        if self.is("EXTERNAL") {
            return Err(self.unsupported("CLR triggers"));
        }
        let body = self.batch()?;
        if body.is_empty() {
            return Err(self.unexpected());
        }
        Ok(StatementKind::CreateTrigger(Box::new(CreateTrigger {
            name,
            table,
            instead_of,
            events,
            body: body.into(),
            text: Arc::from(self.text),
        })))
    }

    /// What stands after WITH: RECOMPILE and EXECUTE AS CALLER change no result, and others are refused.
    fn module_options(&mut self, what: &str) -> SqlResult<()> {
        self.comma_list(|p| {
            let option = p.keyword();
            match option.as_str() {
                "RECOMPILE" if what == "procedure" => p.advance(),
                "EXECUTE" | "EXEC" => {
                    p.advance();
                    p.expect("AS")?;
                    if !p.accept("CALLER") {
                        return Err(p.unsupported(format!("EXECUTE AS in a {what}")));
                    }
                }
                _ => return Err(p.unsupported(format!("the {what} option {option}"))),
            }
            Ok(())
        })?;
        Ok(())
    }

    fn function(&mut self, creation: Creation) -> SqlResult<StatementKind> {
        let name = self.local_name()?;
        self.expect_symbol(Symbol::LeftParen)?;
        let parameters = if self.is_variable() { self.parameters()? } else { Vec::new() };
        self.expect_symbol(Symbol::RightParen)?;
        self.expect("RETURNS")?;
        if self.is_variable() || self.is("TABLE") {
            return Err(self.unsupported("table-valued functions"));
        }
        let returns = self.type_name()?;
        if self.accept("WITH") {
            self.module_options("function")?;
        }
        self.accept("AS");
        if self.is("EXTERNAL") {
            return Err(self.unsupported("CLR functions"));
        }
        self.expect("BEGIN")?;
        self.may_return_value = true;
        let body = self.statements()?;
        self.expect("END")?;
        if !matches!(body.last(), Some(Statement { kind: StatementKind::Return(Some(_)), .. })) {
            let message = "The last statement included within a function must be a return statement.";
            return Err(self.error(455, message));
        }
        self.accept_symbol(Symbol::Semicolon);
        self.expect_end()?;
        let (body, text) = (body.into(), Arc::from(self.text));
        Ok(StatementKind::CreateFunction(Box::new(CreateFunction { creation, name, parameters, returns, body, text })))
    }

    fn procedure_parameters(&mut self) -> SqlResult<Vec<ParameterDef>> {
        if self.is_variable() {
            return self.parameters();
        }
        if !self.accept_symbol(Symbol::LeftParen) {
            return Ok(Vec::new());
        }
        let parameters = self.parameters()?;
        self.expect_symbol(Symbol::RightParen)?;
        Ok(parameters)
    }

    /// `@name [AS] type [NULL | NOT NULL] [= default] [OUTPUT] [READONLY], …`.
    pub(super) fn parameters(&mut self) -> SqlResult<Vec<ParameterDef>> {
        self.comma_list(|p| {
            let name = p.variable()?;
            p.accept("AS");
            let data_type = p.type_name()?;
            if p.is("VARYING") {
                return Err(p.unsupported("cursor parameters"));
            }
            if p.is("NOT") {
                return Err(p.unsupported("NOT NULL parameters"));
            }
            p.accept("NULL");
            let default = if p.accept_symbol(Symbol::Equal) { Some(p.parameter_default()?) } else { None };
            let output = p.accept("OUTPUT") || p.accept("OUT");
            let read_only = p.accept("READONLY");
            Ok(ParameterDef { name, data_type, default, output, read_only })
        })
    }

    fn parameter_default(&mut self) -> SqlResult<Expr> {
        if self.is_identifier() {
            return Err(self.unsupported("a bare word as a parameter's default"));
        }
        self.constant()
    }

    fn view(&mut self, creation: Creation) -> SqlResult<StatementKind> {
        let name = self.local_name()?;
        if self.is_symbol(Symbol::LeftParen) {
            return Err(self.unsupported("a list of columns of a view"));
        }
        if self.accept("WITH") {
            return Err(self.unsupported(format!("the view option {}", self.keyword())));
        }
        self.expect("AS")?;
        let ctes = self.common_table_expressions()?;
        let query = self.nested_query()?;
        if self.is("WITH") && self.is_ahead(1, "CHECK") {
            return Err(self.unsupported("WITH CHECK OPTION"));
        }
        self.accept_symbol(Symbol::Semicolon);
        self.expect_end()?;
        let select = SelectStatement { ctes, query, loop_joins: false };
        Ok(StatementKind::CreateView(Box::new(CreateView { creation, name, select, text: Arc::from(self.text) })))
    }
}
