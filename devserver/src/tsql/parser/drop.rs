//! DROP, but for indexes.

use crate::error::SqlResult;
use crate::tsql::ast::database::{Drop, DropKind};
use crate::tsql::ast::name::ObjectName;
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    pub(super) fn drop_object(&mut self) -> SqlResult<StatementKind> {
        self.expect("DROP")?;
        let noun = self.keyword();
        let kind = match noun.as_str() {
            "TABLE" => DropKind::Table,
            "PROCEDURE" | "PROC" => DropKind::Procedure,
            "VIEW" => DropKind::View,
            "TYPE" => DropKind::Type,
            "SCHEMA" => DropKind::Schema,
            "SEQUENCE" => DropKind::Sequence,
            "ROLE" => DropKind::Role,
            "USER" => DropKind::User,
            "LOGIN" => DropKind::Login,
            "DATABASE" => DropKind::Database,
            "FUNCTION" => DropKind::Function,
            "TRIGGER" => DropKind::Trigger,
            "INDEX" => {
                self.advance();
                return self.drop_index();
            }
            _ => return Err(self.unsupported(format!("DROP {noun}"))),
        };
        self.advance();
        let if_exists = if kind == DropKind::Login { false } else { self.accept_if_exists()? };
        let names = match kind {
            DropKind::Schema | DropKind::Role | DropKind::User | DropKind::Login => vec![self.unqualified_name()?],
            DropKind::Type => vec![self.local_name()?],
            DropKind::Database => self.comma_list(Self::unqualified_name)?,
            DropKind::Table => self.comma_list(Self::table_name)?,
            _ => self.comma_list(|p| p.local_name())?,
        };
        if kind == DropKind::Trigger && self.is("ON") {
            return Err(self.unsupported("DDL triggers"));
        }
        Ok(StatementKind::Drop(Drop { kind, if_exists, names }))
    }

    fn unqualified_name(&mut self) -> SqlResult<ObjectName> {
        let name = self.identifier()?;
        Ok(ObjectName { server: None, database: None, schema: None, name })
    }

    pub(super) fn accept_if_exists(&mut self) -> SqlResult<bool> {
        if !self.accept("IF") {
            return Ok(false);
        }
        self.expect("EXISTS")?;
        Ok(true)
    }
}
