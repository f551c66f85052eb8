//! ALTER, and ENABLE and DISABLE TRIGGER.

use crate::error::SqlResult;
use crate::tsql::ast::module::SwitchTriggers;
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    pub(super) fn alter(&mut self) -> SqlResult<StatementKind> {
        let noun = self.source(self.ahead(1)).to_ascii_uppercase();
        if matches!(noun.as_str(), "PROCEDURE" | "PROC" | "VIEW" | "FUNCTION" | "TRIGGER") {
            return self.module();
        }
        self.expect("ALTER")?;
        match noun.as_str() {
            "TABLE" => self.alter_table(),
            "INDEX" => self.alter_index(),
            "DATABASE" => self.alter_database(),
            "ROLE" => self.alter_role(),
            "LOGIN" => self.alter_login(),
            "AUTHORIZATION" => self.alter_authorization(),
            _ => Err(self.unsupported(format!("ALTER {noun}"))),
        }
    }

    /// `ENABLE TRIGGER names ON table`, or DISABLE.
    pub(super) fn switch_triggers(&mut self) -> SqlResult<StatementKind> {
        let enable = self.is("ENABLE");
        self.advance();
        self.expect("TRIGGER")?;
        let names =
            if self.accept("ALL") { Vec::new() } else { self.comma_list(|p| p.local_name().map(|name| name.name))? };
        self.expect("ON")?;
        if self.is("DATABASE") || (self.is("ALL") && self.is_ahead(1, "SERVER")) {
            return Err(self.unsupported("DDL triggers"));
        }
        let table = self.table_name()?;
        Ok(StatementKind::SwitchTriggers(SwitchTriggers { enable, names, table }))
    }
}
