//! CREATE, but for indexes, modules, users and databases.

use crate::error::SqlResult;
use crate::tsql::ast::database::{CreateSchema, CreateSequence};
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::ast::table::{CreateTable, CreateType};
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::table::TableKind;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    pub(super) fn create(&mut self) -> SqlResult<StatementKind> {
        let noun = self.source(self.ahead(1)).to_ascii_uppercase();
        match noun.as_str() {
            "PROCEDURE" | "PROC" | "OR" | "VIEW" | "FUNCTION" | "TRIGGER" => return self.module(),
            "SCHEMA" => return self.create_schema(),
            "ROLE" | "USER" | "LOGIN" | "DATABASE" => return self.create_principal_or_database(),
            _ => {}
        }
        self.expect("CREATE")?;
        match noun.as_str() {
            "TABLE" => self.create_table(),
            "TYPE" => self.create_type(),
            "SEQUENCE" => self.create_sequence(),
            "STATISTICS" => self.create_statistics(),
            "UNIQUE" | "CLUSTERED" | "NONCLUSTERED" | "INDEX" => self.create_index(),
            _ => Err(self.unsupported(format!("CREATE {noun}"))),
        }
    }

    fn create_table(&mut self) -> SqlResult<StatementKind> {
        self.expect("TABLE")?;
        let name = self.table_name()?;
        if self.is("AS") {
            return Err(self.unsupported("CREATE TABLE AS FILETABLE, NODE or EDGE"));
        }
        let definition = self.table_definition(TableKind::Table)?;
        self.skip_primary_filegroup()?;
        if self.is("FILESTREAM_ON") {
            return Err(self.unsupported("FILESTREAM_ON"));
        }
        if self.accept("TEXTIMAGE_ON") {
            self.primary_filegroup()?;
        }
        if self.is("WITH") && self.is_symbol_ahead(1, Symbol::LeftParen) {
            return Err(self.unsupported("table options"));
        }
        Ok(StatementKind::CreateTable(Box::new(CreateTable { name, definition })))
    }

    fn create_type(&mut self) -> SqlResult<StatementKind> {
        self.expect("TYPE")?;
        let name = self.local_name()?;
        if self.is_one_of(&["FROM", "EXTERNAL"]) {
            return Err(self.unsupported(format!("CREATE TYPE … {}", self.keyword())));
        }
        self.expect_all(&["AS", "TABLE"])?;
        let definition = self.table_definition(TableKind::TypeOrVariable)?;
        if self.is("WITH") && self.is_symbol_ahead(1, Symbol::LeftParen) {
            return Err(self.unsupported("memory-optimized table types"));
        }
        Ok(StatementKind::CreateType(Box::new(CreateType { name, definition })))
    }

    fn create_sequence(&mut self) -> SqlResult<StatementKind> {
        self.expect("SEQUENCE")?;
        let mut sequence = CreateSequence { name: self.local_name()?, data_type: None, start: None, increment: None };
        if self.accept("AS") {
            sequence.data_type = Some(self.type_name()?);
        }
        loop {
            match self.keyword().as_str() {
                "START" => {
                    self.expect_all(&["START", "WITH"])?;
                    sequence.start = Some(self.signed()?);
                }
                "INCREMENT" => {
                    self.expect_all(&["INCREMENT", "BY"])?;
                    sequence.increment = Some(self.signed()?);
                }
                "MINVALUE" | "MAXVALUE" | "CYCLE" | "NO" => {
                    return Err(self.unsupported(format!("{} of a sequence", self.keyword())));
                }
                // How many values are kept in memory changes nothing that a query could see.
                "CACHE" => {
                    self.advance();
                    if self.token().kind == crate::tsql::lexer::token::TokenKind::Integer {
                        self.unsigned()?;
                    }
                }
                _ => return Ok(StatementKind::CreateSequence(Box::new(sequence))),
            }
        }
    }

    /// CREATE SCHEMA takes the rest of its batch, in which only elements of the schema can stand.
    fn create_schema(&mut self) -> SqlResult<StatementKind> {
        self.check_first_in_batch("CREATE SCHEMA", 1)?;
        self.expect_all(&["CREATE", "SCHEMA"])?;
        if self.is("AUTHORIZATION") {
            return Err(self.unsupported("CREATE SCHEMA with the name of its owner"));
        }
        let name = self.identifier()?;
        let owner = if self.accept("AUTHORIZATION") { Some(self.identifier()?) } else { None };
        if self.is_one_of(&["CREATE", "GRANT", "DENY", "REVOKE"]) {
            return Err(self.unsupported("elements of CREATE SCHEMA"));
        }
        self.accept_symbol(Symbol::Semicolon);
        self.expect_end()?;
        Ok(StatementKind::CreateSchema(CreateSchema { name, owner }))
    }
}
