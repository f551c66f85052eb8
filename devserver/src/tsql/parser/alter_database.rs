//! ALTER DATABASE … SET.

use crate::error::SqlResult;
use crate::tsql::ast::database::{AlterDatabase, DatabaseOption};
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    pub(super) fn alter_database(&mut self) -> SqlResult<StatementKind> {
        self.expect("DATABASE")?;
        if self.is_one_of(&["SCOPED", "AUDIT", "ENCRYPTION"]) && !self.is_ahead(1, "SET") {
            return Err(self.unsupported(format!("ALTER DATABASE {}", self.keyword())));
        }
        let name = if self.accept("CURRENT") { None } else { Some(self.identifier()?) };
        if self.is_one_of(&["ADD", "REMOVE", "MODIFY", "COLLATE"]) {
            return Err(self.unsupported(format!("ALTER DATABASE … {}", self.keyword())));
        }
        self.expect("SET")?;
        let option = self.database_option()?;
        if self.is_symbol(Symbol::Comma) {
            return Err(self.unsupported("several options of ALTER DATABASE"));
        }
        let rolls_back_others = self.rolls_back_others()?;
        Ok(StatementKind::AlterDatabase(AlterDatabase { name, option, rolls_back_others }))
    }

    fn database_option(&mut self) -> SqlResult<DatabaseOption> {
        let name = self.keyword();
        if !self.is_identifier() {
            return Err(self.unexpected());
        }
        self.advance();
        Ok(match name.as_str() {
            "READ_ONLY" => DatabaseOption::ReadOnly(true),
            "READ_WRITE" => DatabaseOption::ReadOnly(false),
            "READ_COMMITTED_SNAPSHOT" => DatabaseOption::ReadCommittedSnapshot(self.on_or_off()?),
            "ALLOW_SNAPSHOT_ISOLATION" => DatabaseOption::AllowSnapshotIsolation(self.on_or_off()?),
            "COMPATIBILITY_LEVEL" => {
                self.expect_symbol(Symbol::Equal)?;
                DatabaseOption::CompatibilityLevel(self.unsigned()?)
            }
            _ => return Err(self.unsupported(format!("the database option {name}"))),
        })
    }

    /// `WITH ROLLBACK IMMEDIATE`, if it is there.
    fn rolls_back_others(&mut self) -> SqlResult<bool> {
        if !self.accept("WITH") {
            return Ok(false);
        }
        if !(self.accept("ROLLBACK") && self.accept("IMMEDIATE")) {
            return Err(self.unsupported("ALTER DATABASE … WITH anything but ROLLBACK IMMEDIATE"));
        }
        Ok(true)
    }
}
