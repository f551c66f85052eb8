//! ALTER DATABASE … SET.

use crate::error::SqlResult;
use crate::tsql::ast::database::{AlterDatabase, DatabaseOption, DatabaseOptionValue, Termination};
use crate::tsql::ast::name::Ident;
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

/// Database options that are ON or OFF without an equals sign.
///
/// Source: "ALTER DATABASE SET options", docs/t-sql/statements/alter-database-transact-sql-set-options.md.
const SWITCHED_OPTIONS: &[&str] = &[
    "READ_COMMITTED_SNAPSHOT",
    "ALLOW_SNAPSHOT_ISOLATION",
    "ANSI_NULL_DEFAULT",
    "ANSI_NULLS",
    "ANSI_PADDING",
    "ANSI_WARNINGS",
    "ARITHABORT",
    "AUTO_CLOSE",
    "AUTO_CREATE_STATISTICS",
    "AUTO_SHRINK",
    "AUTO_UPDATE_STATISTICS",
    "AUTO_UPDATE_STATISTICS_ASYNC",
    "CONCAT_NULL_YIELDS_NULL",
    "CURSOR_CLOSE_ON_COMMIT",
    "NUMERIC_ROUNDABORT",
    "QUOTED_IDENTIFIER",
    "RECURSIVE_TRIGGERS",
    "TRUSTWORTHY",
];

/// Database options whose name is all.
const BARE_OPTIONS: &[&str] =
    &["SINGLE_USER", "RESTRICTED_USER", "MULTI_USER", "READ_ONLY", "READ_WRITE", "ONLINE", "OFFLINE"];

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
        let options = self.comma_list(Self::database_option)?;
        let termination = if self.is("WITH") { Some(self.termination()?) } else { None };
        Ok(StatementKind::AlterDatabase(AlterDatabase { name, options, termination }))
    }

    fn database_option(&mut self) -> SqlResult<DatabaseOption> {
        let name = self.keyword();
        let option = |value| Ok(DatabaseOption { name: Ident::from(name.as_str()), value });
        let words: &[&str] = match name.as_str() {
            "RECOVERY" => &["FULL", "BULK_LOGGED", "SIMPLE"],
            "PARAMETERIZATION" => &["SIMPLE", "FORCED"],
            "DELAYED_DURABILITY" => &["DISABLED", "ALLOWED", "FORCED"],
            _ => &[],
        };
        if !words.is_empty() {
            self.advance();
            if name == "DELAYED_DURABILITY" {
                self.expect_symbol(Symbol::Equal)?;
            }
            let word = self.keyword();
            if !words.contains(&word.as_str()) {
                return Err(self.unexpected());
            }
            self.advance();
            return option(DatabaseOptionValue::Word(word.into()));
        }
        if name == "COMPATIBILITY_LEVEL" {
            self.advance();
            self.expect_symbol(Symbol::Equal)?;
            return option(DatabaseOptionValue::Number(self.unsigned()?));
        }
        if SWITCHED_OPTIONS.contains(&name.as_str()) {
            self.advance();
            let on = self.on_or_off()?;
            return option(if on { DatabaseOptionValue::On } else { DatabaseOptionValue::Off });
        }
        if BARE_OPTIONS.contains(&name.as_str()) {
            self.advance();
            return option(DatabaseOptionValue::Bare);
        }
        if !self.is_identifier() {
            return Err(self.unexpected());
        }
        Err(self.unsupported(format!("the database option {name}")))
    }

    fn termination(&mut self) -> SqlResult<Termination> {
        self.expect("WITH")?;
        if self.accept("NO_WAIT") {
            return Ok(Termination::NoWait);
        }
        self.expect("ROLLBACK")?;
        if self.accept("IMMEDIATE") {
            return Ok(Termination::RollbackImmediate);
        }
        self.expect("AFTER")?;
        let seconds = self.unsigned()?;
        self.accept("SECONDS");
        Ok(Termination::RollbackAfter(seconds))
    }
}
