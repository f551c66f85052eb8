//! CREATE and ALTER of procedures and views, which take the whole batch, and lists of parameters.

use std::sync::Arc;

use super::Parser;
use crate::error::SqlResult;
use crate::tsql::ast::{
    CreateProcedure, CreateView, Creation, ExecuteAsClause, Expr, ParameterDef, SelectStatement, StatementKind,
};
use crate::tsql::lexer::Symbol;

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
            "FUNCTION" | "TRIGGER" => Err(self.unsupported(self.keyword())),
            _ => Err(self.unexpected()),
        }
    }

    fn procedure(&mut self, creation: Creation) -> SqlResult<StatementKind> {
        let name = self.local_name("CREATE/ALTER PROCEDURE")?;
        let parameters = self.procedure_parameters()?;
        let mut recompile = false;
        let mut execute_as = None;
        if self.accept("WITH") {
            loop {
                match self.keyword().as_str() {
                    "RECOMPILE" => {
                        self.advance();
                        recompile = true;
                    }
                    "EXECUTE" | "EXEC" => {
                        self.advance();
                        execute_as = Some(self.execute_as_clause()?);
                    }
                    "ENCRYPTION" | "NATIVE_COMPILATION" | "SCHEMABINDING" => {
                        return Err(self.unsupported(format!("the procedure option {}", self.keyword())));
                    }
                    _ => return Err(self.unexpected()),
                }
                if !self.accept_symbol(Symbol::Comma) {
                    break;
                }
            }
        }
        if self.is("FOR") {
            return Err(self.unsupported("FOR REPLICATION"));
        }
        self.expect("AS")?;
        if self.is("EXTERNAL") {
            return Err(self.unsupported("CLR procedures"));
        }
        let body = self.batch()?;
        Ok(StatementKind::CreateProcedure(Box::new(CreateProcedure {
            creation,
            name,
            parameters,
            recompile,
            execute_as,
            body: body.into(),
            text: Arc::from(self.text),
        })))
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

    fn execute_as_clause(&mut self) -> SqlResult<ExecuteAsClause> {
        self.expect("AS")?;
        if self.is_string() {
            return Ok(ExecuteAsClause::User(self.string()?));
        }
        let clause = match self.keyword().as_str() {
            "CALLER" => ExecuteAsClause::Caller,
            "SELF" => ExecuteAsClause::SelfUser,
            "OWNER" => ExecuteAsClause::Owner,
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(clause)
    }

    fn view(&mut self, creation: Creation) -> SqlResult<StatementKind> {
        let name = self.local_name("CREATE/ALTER VIEW")?;
        let columns = if self.is_symbol(Symbol::LeftParen) { self.identifier_list()? } else { Vec::new() };
        let mut schema_binding = false;
        if self.accept("WITH") {
            if self.is_one_of(&["ENCRYPTION", "VIEW_METADATA"]) {
                return Err(self.unsupported(format!("the view option {}", self.keyword())));
            }
            self.expect("SCHEMABINDING")?;
            schema_binding = true;
        }
        self.expect("AS")?;
        let ctes = self.common_table_expressions()?;
        let query = self.nested_query()?;
        let check_option = self.accept("WITH");
        if check_option {
            self.expect_all(&["CHECK", "OPTION"])?;
        }
        self.accept_symbol(Symbol::Semicolon);
        self.expect_end()?;
        let select = SelectStatement { ctes, query, options: Vec::new() };
        Ok(StatementKind::CreateView(Box::new(CreateView {
            creation,
            name,
            columns,
            schema_binding,
            select,
            check_option,
            text: Arc::from(self.text),
        })))
    }
}
