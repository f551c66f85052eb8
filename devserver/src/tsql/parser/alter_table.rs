//! ALTER TABLE.

use crate::error::SqlResult;
use crate::tsql::ast::index::IndexOption;
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::ast::table::{
    AlterTable, AlterTableAction, AlterTableDrop, LockEscalation, TableConstraint, TableDefinition,
};
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::table::TableKind;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    pub(super) fn alter_table(&mut self) -> SqlResult<StatementKind> {
        self.expect("TABLE")?;
        let table = self.table_name()?;
        let action = self.alter_table_action()?;
        Ok(StatementKind::AlterTable(Box::new(AlterTable { table, action })))
    }

    fn alter_table_action(&mut self) -> SqlResult<AlterTableAction> {
        let mut check = None;
        if self.accept("WITH") {
            let checked = self.accept("CHECK");
            if !checked {
                self.expect("NOCHECK")?;
            }
            check = Some(checked);
            if !self.is("ADD") {
                return Err(self.unsupported("ALTER TABLE … WITH CHECK or NOCHECK but to ADD"));
            }
        }
        match self.keyword().as_str() {
            "ADD" => {
                self.advance();
                self.alter_table_add(check)
            }
            "CHECK" => self.alter_table_check(),
            "DROP" => {
                self.advance();
                self.alter_table_drop()
            }
            "ALTER" => {
                self.advance();
                self.alter_column()
            }
            "SET" => {
                self.advance();
                self.alter_table_set()
            }
            "REBUILD" => {
                self.advance();
                self.refuse_partition()?;
                Ok(AlterTableAction::Rebuild(self.with_index_options()?))
            }
            "SWITCH" | "ENABLE" | "DISABLE" | "NOCHECK" => {
                Err(self.unsupported(format!("ALTER TABLE … {}", self.keyword())))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn alter_table_add(&mut self, check: Option<bool>) -> SqlResult<AlterTableAction> {
        let mut definition = TableDefinition::default();
        loop {
            if self.is_one_of(&["CONSTRAINT", "DEFAULT"]) {
                let name = self.constraint_name(TableKind::Table)?;
                let kind = self.added_constraint()?;
                definition.constraints.push(TableConstraint { name, kind });
            } else {
                self.table_element(TableKind::Table, &mut definition)?;
            }
            if self.is("WITH") && self.is_ahead(1, "VALUES") {
                return Err(self.unsupported("DEFAULT … WITH VALUES"));
            }
            if !self.accept_symbol(Symbol::Comma) {
                return Ok(AlterTableAction::Add { definition, check });
            }
        }
    }

    fn alter_table_check(&mut self) -> SqlResult<AlterTableAction> {
        self.expect_all(&["CHECK", "CONSTRAINT"])?;
        let names = if self.accept("ALL") { Vec::new() } else { self.comma_list(Self::identifier)? };
        Ok(AlterTableAction::CheckConstraint(names))
    }

    /// `DROP COLUMN a, b, CONSTRAINT c`: the noun holds until the next one.
    fn alter_table_drop(&mut self) -> SqlResult<AlterTableAction> {
        let mut of_columns = false;
        let mut if_exists = false;
        let dropped = self.comma_list(|p| {
            if p.is_one_of(&["COLUMN", "CONSTRAINT"]) {
                of_columns = p.is("COLUMN");
                p.advance();
                if_exists = p.accept_if_exists()?;
            }
            let name = p.identifier()?;
            p.refuse_drop_options()?;
            Ok(if of_columns {
                AlterTableDrop::Column { name, if_exists }
            } else {
                AlterTableDrop::Constraint { name, if_exists }
            })
        })?;
        Ok(AlterTableAction::Drop(dropped))
    }

    fn alter_column(&mut self) -> SqlResult<AlterTableAction> {
        self.expect("COLUMN")?;
        let name = self.identifier()?;
        if self.is_one_of(&["ADD", "DROP"]) {
            return Err(self.unsupported("ALTER COLUMN … ADD and DROP"));
        }
        let data_type = self.type_name()?;
        let collation = if self.accept("COLLATE") { Some(self.identifier()?) } else { None };
        let nullable = self.nullability()?;
        if self.with_index_options()?.contains(&IndexOption::Online(true)) {
            return Err(self.unsupported("ALTER COLUMN … WITH (ONLINE = ON)"));
        }
        Ok(AlterTableAction::AlterColumn { name, data_type, collation, nullable })
    }

    fn alter_table_set(&mut self) -> SqlResult<AlterTableAction> {
        self.expect_symbol(Symbol::LeftParen)?;
        if !self.is("LOCK_ESCALATION") {
            return Err(self.unsupported("ALTER TABLE … SET other than LOCK_ESCALATION"));
        }
        self.advance();
        self.expect_symbol(Symbol::Equal)?;
        let escalation = match self.keyword().as_str() {
            "AUTO" => LockEscalation::Auto,
            "TABLE" => LockEscalation::Table,
            "DISABLE" => LockEscalation::Disable,
            _ => return Err(self.unexpected()),
        };
        self.advance();
        self.expect_symbol(Symbol::RightParen)?;
        Ok(AlterTableAction::SetLockEscalation(escalation))
    }

    pub(super) fn refuse_partition(&self) -> SqlResult<()> {
        if self.is("PARTITION") { Err(self.unsupported("partitions")) } else { Ok(()) }
    }
}
