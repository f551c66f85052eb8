//! FROM: tables, joins, derived tables, VALUES and table-valued functions.

use crate::error::SqlResult;
use crate::tsql::ast::hint::TableHint;
use crate::tsql::ast::name::{Ident, ObjectName};
use crate::tsql::ast::query::{JoinKind, TableSource};
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    /// `FROM a, b JOIN c …`; empty without FROM.
    pub(super) fn optional_from(&mut self) -> SqlResult<Vec<TableSource>> {
        if self.accept("FROM") { self.comma_list(Self::table_source) } else { Ok(Vec::new()) }
    }

    /// A table and everything joined to it. It stops at an ON that belongs to a join further out.
    pub(super) fn table_source(&mut self) -> SqlResult<TableSource> {
        self.deeper(|p| {
            let mut source = p.single_source()?;
            while p.at_join()? {
                source = p.joined_to(source)?;
            }
            Ok(source)
        })
    }

    fn at_join(&self) -> SqlResult<bool> {
        if self.is_one_of(&["PIVOT", "UNPIVOT", "TABLESAMPLE"]) {
            return Err(self.unsupported(self.keyword()));
        }
        let outer_apply = self.is("OUTER") && self.is_ahead(1, "APPLY");
        Ok(outer_apply || self.is_one_of(&["JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS"]))
    }

    /// Joins one more source to `left`; the caller has seen that a join follows.
    fn joined_to(&mut self, left: TableSource) -> SqlResult<TableSource> {
        self.count_combined()?;
        let left = Box::new(left);
        if self.is_ahead(1, "APPLY") {
            let outer = self.accept("OUTER");
            if !outer {
                self.expect("CROSS")?;
            }
            self.expect("APPLY")?;
            let right = Box::new(self.single_source()?);
            return Ok(TableSource::Apply { outer, left, right });
        }
        let kind = if self.accept("CROSS") {
            JoinKind::Cross
        } else if self.accept("LEFT") {
            JoinKind::Left
        } else if self.accept("RIGHT") {
            JoinKind::Right
        } else if self.is("FULL") {
            return Err(self.unsupported("FULL JOIN"));
        } else {
            JoinKind::Inner
        };
        let mut loops = false;
        match kind {
            JoinKind::Cross => {}
            JoinKind::Inner => {
                if self.accept("INNER") {
                    loops = self.join_hint()?;
                }
            }
            JoinKind::Left | JoinKind::Right => {
                self.accept("OUTER");
                loops = self.join_hint()?;
            }
        }
        self.expect("JOIN")?;
        if kind == JoinKind::Cross {
            let right = Box::new(self.single_source()?);
            return Ok(TableSource::Join { kind, loops, left, right, on: None });
        }
        let right = Box::new(self.table_source()?);
        self.expect("ON")?;
        let on = Some(Box::new(self.search_condition()?));
        Ok(TableSource::Join { kind, loops, left, right, on })
    }

    /// Whether LOOP stands before JOIN.
    fn join_hint(&mut self) -> SqlResult<bool> {
        if self.is_one_of(&["HASH", "MERGE", "REMOTE"]) {
            return Err(self.unsupported(format!("the join hint {}", self.keyword())));
        }
        Ok(self.accept("LOOP"))
    }

    fn single_source(&mut self) -> SqlResult<TableSource> {
        if self.is_symbol(Symbol::LeftParen) {
            return self.parenthesised_source();
        }
        if self.is_variable() {
            let name = self.variable()?;
            if self.is_symbol(Symbol::Dot) {
                return Err(self.unsupported("methods of a variable"));
            }
            let alias = self.source_alias()?;
            return Ok(TableSource::Variable { name, alias });
        }
        if self.is_one_of(&["OPENROWSET", "OPENQUERY", "OPENDATASOURCE", "OPENXML", "CONTAINSTABLE", "FREETEXTTABLE"])
            || (self.is("CHANGETABLE") && self.is_symbol_ahead(1, Symbol::LeftParen))
        {
            return Err(self.unsupported(self.keyword()));
        }
        if self.is("OPENJSON") && self.is_symbol_ahead(1, Symbol::LeftParen) {
            return self.open_json();
        }
        if self.is_symbol(Symbol::DoubleColon) {
            return Err(self.unsupported("functions with ::"));
        }
        let name = self.object_name()?;
        if self.is_symbol(Symbol::LeftParen) && self.table_hint_without_with().is_none() {
            return self.table_function(name);
        }
        if self.is("FOR") && self.is_ahead(1, "SYSTEM_TIME") {
            return Err(self.unsupported("FOR SYSTEM_TIME"));
        }
        self.named_table(name)
    }

    /// The alias and hints of a table. A hint in mere parentheses can stand before the alias.
    fn named_table(&mut self, name: ObjectName) -> SqlResult<TableSource> {
        if self.is_symbol(Symbol::LeftParen) {
            let hints = self.old_style_hints()?;
            let alias = self.source_alias()?;
            return Ok(TableSource::Table { name, alias, hints });
        }
        let alias = self.source_alias()?;
        if self.is_symbol(Symbol::LeftParen) && self.table_hint_without_with().is_some() {
            return Err(self.unsupported("a hint without WITH behind an alias"));
        }
        let hints = self.with_table_hints()?;
        Ok(TableSource::Table { name, alias, hints })
    }

    /// `(hint, …)` right behind the table. The documentation asks for WITH where there is more than one
    /// (docs/t-sql/queries/hints-transact-sql-table.md), but SQL Server goes on taking the old way of writing.
    fn old_style_hints(&mut self) -> SqlResult<Vec<TableHint>> {
        self.expect_symbol(Symbol::LeftParen)?;
        let hints = self.comma_list(Self::table_hint)?;
        self.expect_symbol(Symbol::RightParen)?;
        Ok(hints)
    }

    fn table_function(&mut self, name: ObjectName) -> SqlResult<TableSource> {
        self.expect_symbol(Symbol::LeftParen)?;
        let mut arguments = Vec::new();
        if !self.is_symbol(Symbol::RightParen) {
            arguments = self.comma_list(Self::function_argument)?;
        }
        self.expect_symbol(Symbol::RightParen)?;
        let alias = self.source_alias()?;
        let has_columns = alias.is_some() && self.is_symbol(Symbol::LeftParen);
        let columns = if has_columns { self.identifier_list()? } else { Vec::new() };
        Ok(TableSource::Function { name, arguments, alias, columns })
    }

    /// A derived table, a VALUES constructor, or joins in parentheses.
    fn parenthesised_source(&mut self) -> SqlResult<TableSource> {
        if self.is_ahead(1, "SELECT") {
            let query = Box::new(self.subquery()?);
            if self.is_one_of(&["UNION", "EXCEPT", "INTERSECT"]) {
                return Err(self.unsupported("a derived table that begins with a query in parentheses"));
            }
            self.accept("AS");
            let alias = self.identifier()?;
            let columns = if self.is_symbol(Symbol::LeftParen) { self.identifier_list()? } else { Vec::new() };
            return Ok(TableSource::Derived { query, alias, columns });
        }
        if ["INSERT", "UPDATE", "DELETE", "MERGE"].iter().any(|verb| self.is_ahead(1, verb)) {
            return Err(self.unsupported("INSERT, UPDATE, DELETE and MERGE in FROM"));
        }
        if self.is_ahead(1, "VALUES") {
            return self.values_source();
        }
        self.expect_symbol(Symbol::LeftParen)?;
        let inner = self.table_source()?;
        // Only a join can stand in parentheses; `FROM (t)` is an error.
        if !matches!(inner, TableSource::Join { .. } | TableSource::Apply { .. }) {
            return Err(self.unexpected());
        }
        self.expect_symbol(Symbol::RightParen)?;
        Ok(inner)
    }

    fn values_source(&mut self) -> SqlResult<TableSource> {
        self.expect_symbol(Symbol::LeftParen)?;
        self.expect("VALUES")?;
        let rows = self.comma_list(|p| p.deeper(|p| p.parenthesised_list(Self::expression)))?;
        self.check_row_widths(&rows)?;
        self.expect_symbol(Symbol::RightParen)?;
        self.accept("AS");
        let alias = self.identifier()?;
        if !self.is_symbol(Symbol::LeftParen) {
            let message = format!("No column name was specified for column 1 of '{alias}'.");
            return Err(self.error(8155, message));
        }
        let columns = self.identifier_list()?;
        Ok(TableSource::Values { rows, alias, columns })
    }

    pub(super) fn check_row_widths<T>(&self, rows: &[Vec<T>]) -> SqlResult<()> {
        let width = rows.first().map_or(0, Vec::len);
        if rows.iter().any(|row| row.len() != width) {
            let message = "The number of columns for each row in a table value constructor must be the same.";
            return Err(self.error(10709, message));
        }
        Ok(())
    }

    fn open_json(&mut self) -> SqlResult<TableSource> {
        self.advance();
        self.expect_symbol(Symbol::LeftParen)?;
        let json = self.expression()?;
        if self.is_symbol(Symbol::Comma) {
            return Err(self.unsupported("OPENJSON with a path"));
        }
        self.expect_symbol(Symbol::RightParen)?;
        if self.is("WITH") {
            return Err(self.unsupported("OPENJSON … WITH"));
        }
        let alias = self.source_alias()?;
        Ok(TableSource::OpenJson { json, alias })
    }

    /// `[AS] alias`.
    pub(super) fn source_alias(&mut self) -> SqlResult<Option<Ident>> {
        if self.accept("AS") || self.is_identifier() { self.identifier().map(Some) } else { Ok(None) }
    }
}
