//! INSERT BULK: what a client says before it sends rows as a stream of their own.

use crate::error::SqlResult;
use crate::tsql::ast::change::{BulkColumn, InsertBulk};
use crate::tsql::ast::statement::StatementKind;
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
        let mut keep_nulls = false;
        if self.accept("WITH") {
            self.parenthesised_list(|p| {
                if !p.accept("KEEP_NULLS") {
                    return Err(p.unsupported(format!("the option {} of INSERT BULK", p.keyword())));
                }
                keep_nulls = true;
                Ok(())
            })?;
        }
        Ok(StatementKind::InsertBulk(Box::new(InsertBulk { table, columns, keep_nulls })))
    }
}
