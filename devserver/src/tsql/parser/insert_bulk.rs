//! INSERT BULK: what a client says before it sends rows as a stream of their own.

use crate::error::SqlResult;
use crate::tsql::ast::change::{BulkColumn, InsertBulk};
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    /// After INSERT.
    pub(super) fn insert_bulk(&mut self) -> SqlResult<StatementKind> {
        self.expect("BULK")?;
        let table = self.table_name()?;
        let columns = self.parenthesised_list(|p| {
            let name = p.identifier()?;
            let data_type = p.type_name()?;
            let collation = if p.accept("COLLATE") { Some(p.identifier()?) } else { None };
            Ok(BulkColumn { name, data_type, collation })
        })?;
        let mut insert = InsertBulk {
            table,
            columns,
            check_constraints: false,
            fire_triggers: false,
            keep_nulls: false,
            table_lock: false,
            order: Vec::new(),
        };
        if self.accept("WITH") {
            self.parenthesised_list(|p| p.bulk_option(&mut insert))?;
        }
        Ok(StatementKind::InsertBulk(Box::new(insert)))
    }

    fn bulk_option(&mut self, insert: &mut InsertBulk) -> SqlResult<()> {
        if self.accept("CHECK_CONSTRAINTS") {
            insert.check_constraints = true;
        } else if self.accept("FIRE_TRIGGERS") {
            insert.fire_triggers = true;
        } else if self.accept("KEEP_NULLS") {
            insert.keep_nulls = true;
        } else if self.accept("TABLOCK") {
            insert.table_lock = true;
        } else if self.accept("ROWS_PER_BATCH") || self.accept("KILOBYTES_PER_BATCH") {
            // How much will come helps a plan and changes no result.
            self.expect_symbol(Symbol::Equal)?;
            self.unsigned()?;
        } else if self.accept("ORDER") {
            insert.order = self.parenthesised_list(|p| {
                let name = p.identifier()?;
                let descending = !p.accept("ASC") && p.accept("DESC");
                Ok((name, descending))
            })?;
        } else if self.is_identifier() {
            return Err(self.unsupported(format!("the option {} of INSERT BULK", self.keyword())));
        } else {
            return Err(self.unexpected());
        }
        Ok(())
    }
}
