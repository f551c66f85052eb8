//! CREATE, ALTER and DROP INDEX.

use crate::error::SqlResult;
use crate::tsql::ast::index::{AlterIndex, CreateIndex, CreateStatistics, DropIndex, IndexOption};
use crate::tsql::ast::name::{Ident, ObjectName};
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    pub(super) fn create_index(&mut self) -> SqlResult<StatementKind> {
        let unique = self.accept("UNIQUE");
        let clustered = self.clustered().unwrap_or(false);
        if self.is("COLUMNSTORE") {
            return Err(self.unsupported("columnstore indexes"));
        }
        self.expect("INDEX")?;
        let name = self.identifier()?;
        self.expect("ON")?;
        let table = self.table_name()?;
        let columns = self.index_columns()?;
        let include = self.include()?;
        let filter = self.filter()?;
        let options = self.with_index_options()?;
        self.skip_primary_filegroup()?;
        Ok(StatementKind::CreateIndex(Box::new(CreateIndex {
            name,
            unique,
            clustered,
            table,
            columns,
            include,
            filter,
            options,
        })))
    }

    /// Of one column: there is nothing that would be estimated from more.
    fn create_statistics_of_column(&mut self) -> SqlResult<CreateStatistics> {
        self.expect("STATISTICS")?;
        let name = self.identifier()?;
        self.expect("ON")?;
        let table = self.table_name()?;
        let mut columns = self.parenthesised_list(Self::identifier)?;
        if columns.len() > 1 || self.is("WHERE") {
            return Err(self.unsupported("CREATE STATISTICS on several columns, or with a filter"));
        }
        let no_recompute = self.accept("WITH");
        if no_recompute && !self.accept("NORECOMPUTE") || self.is_symbol(Symbol::Comma) {
            return Err(self.unsupported("options of CREATE STATISTICS but NORECOMPUTE"));
        }
        Ok(CreateStatistics { name, table, column: columns.remove(0), no_recompute })
    }

    pub(super) fn create_statistics(&mut self) -> SqlResult<StatementKind> {
        Ok(StatementKind::CreateStatistics(self.create_statistics_of_column()?))
    }

    pub(super) fn alter_index(&mut self) -> SqlResult<StatementKind> {
        self.expect("INDEX")?;
        if self.is("ALL") {
            return Err(self.unsupported("ALTER INDEX ALL"));
        }
        let name = self.identifier()?;
        self.expect("ON")?;
        let table = self.table_name()?;
        if !self.accept("SET") {
            return Err(self.unsupported(format!("ALTER INDEX … {}", self.keyword())));
        }
        let options = self.parenthesised_list(Self::settable_index_option)?;
        Ok(StatementKind::AlterIndex(AlterIndex { name, table, options }))
    }

    fn settable_index_option(&mut self) -> SqlResult<IndexOption> {
        let option = self.index_option()?;
        match option {
            IndexOption::AllowRowLocks(_)
            | IndexOption::AllowPageLocks(_)
            | IndexOption::StatisticsNoRecompute(_)
            | IndexOption::OptimizeForSequentialKey(_) => Ok(option),
            _ => Err(self.unsupported(format!("ALTER INDEX … SET ({option:?})"))),
        }
    }

    pub(super) fn drop_index(&mut self) -> SqlResult<StatementKind> {
        let if_exists = self.accept_if_exists()?;
        let indexes = self.comma_list(|p| {
            if p.is_identifier_ahead(0) && p.is_symbol_ahead(1, Symbol::Dot) {
                return p.old_style_index();
            }
            let name = p.identifier()?;
            p.expect("ON")?;
            let table = p.table_name()?;
            p.refuse_drop_options()?;
            Ok((name, table))
        })?;
        Ok(StatementKind::DropIndex(DropIndex { if_exists, indexes }))
    }

    /// `[schema.]table.index`, the old way to name an index (`<drop_backward_compatible_index>` in "DROP INDEX",
    /// docs/t-sql/statements/drop-index-transact-sql.md).
    fn old_style_index(&mut self) -> SqlResult<(Ident, ObjectName)> {
        let mut parts = vec![self.identifier()?];
        while self.accept_symbol(Symbol::Dot) {
            parts.push(self.identifier()?);
        }
        let index = parts.pop().expect("at least two parts were read");
        let parts = parts.into_iter().map(Some).collect();
        Ok((index, self.name_of_parts(parts)?))
    }

    pub(super) fn refuse_drop_options(&self) -> SqlResult<()> {
        let has_options = self.is("WITH") && self.is_symbol_ahead(1, Symbol::LeftParen);
        if has_options { Err(self.unsupported("options of what is dropped")) } else { Ok(()) }
    }
}
