//! What stands in the parentheses of CREATE TABLE, CREATE TYPE … AS TABLE and DECLARE @t TABLE: columns, constraints
//! and inline indexes.

use crate::error::SqlResult;
use crate::tsql::ast::index::IndexOption;
use crate::tsql::ast::name::Ident;
use crate::tsql::ast::table::{
    ColumnDefinition, ColumnKind, ConstraintKind, DefaultDefinition, Filter, Identity, IndexColumn, InlineIndex,
    TableConstraint, TableDefinition,
};
use crate::tsql::lexer::token::{Symbol, TokenKind};
use crate::tsql::parser::tokens::Parser;

/// Table types and table variables have neither named constraints nor foreign keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TableKind {
    Table,
    TypeOrVariable,
}

/// Words that begin a column property which the syntax tree has no place for.
const UNSUPPORTED_PROPERTIES: &[&str] = &["FILESTREAM", "ROWGUIDCOL", "GENERATED", "MASKED", "ENCRYPTED", "HIDDEN"];

impl Parser<'_> {
    /// Elements in parentheses. In CREATE TABLE, SQL Server allows a comma after the last one.
    pub(super) fn table_definition(&mut self, table_kind: TableKind) -> SqlResult<TableDefinition> {
        let mut definition = TableDefinition::default();
        self.expect_symbol(Symbol::LeftParen)?;
        self.table_element(table_kind, &mut definition)?;
        while self.accept_symbol(Symbol::Comma) {
            if table_kind == TableKind::Table && self.is_symbol(Symbol::RightParen) {
                break;
            }
            self.table_element(table_kind, &mut definition)?;
        }
        self.expect_symbol(Symbol::RightParen)?;
        Ok(definition)
    }

    pub(super) fn table_element(&mut self, table_kind: TableKind, definition: &mut TableDefinition) -> SqlResult<()> {
        match self.keyword().as_str() {
            "CONSTRAINT" | "PRIMARY" | "UNIQUE" | "CHECK" | "FOREIGN" => {
                let name = self.constraint_name(table_kind)?;
                let kind = self.table_constraint(table_kind)?;
                definition.constraints.push(TableConstraint { name, kind });
                Ok(())
            }
            "INDEX" => {
                let index = self.inline_index(None)?;
                definition.indexes.push(index);
                Ok(())
            }
            "PERIOD" if self.is_ahead(1, "FOR") => Err(self.unsupported("PERIOD FOR SYSTEM_TIME")),
            _ => self.column_definition(table_kind, definition),
        }
    }

    /// `CONSTRAINT name`, if it is there.
    pub(super) fn constraint_name(&mut self, table_kind: TableKind) -> SqlResult<Option<Ident>> {
        if !self.is("CONSTRAINT") {
            return Ok(None);
        }
        if table_kind == TableKind::TypeOrVariable {
            return Err(self.unexpected());
        }
        self.advance();
        self.identifier().map(Some)
    }

    fn table_constraint(&mut self, table_kind: TableKind) -> SqlResult<ConstraintKind> {
        if self.is_one_of(&["PRIMARY", "UNIQUE"]) {
            return self.key_constraint(None);
        }
        if self.is("CHECK") {
            return self.check_constraint(None);
        }
        if table_kind == TableKind::TypeOrVariable {
            return Err(self.unexpected());
        }
        self.expect_all(&["FOREIGN", "KEY"])?;
        let columns = self.identifier_list()?;
        self.references(columns)
    }

    /// A constraint after ALTER TABLE … ADD; there it can also be a default.
    pub(super) fn added_constraint(&mut self) -> SqlResult<ConstraintKind> {
        if !self.accept("DEFAULT") {
            return self.table_constraint(TableKind::Table);
        }
        let start = self.next;
        let expr = self.expression()?;
        let text = self.source_from(start);
        self.expect("FOR")?;
        let column = self.identifier()?;
        if self.is("WITH") && self.is_ahead(1, "VALUES") {
            return Err(self.unsupported("DEFAULT … FOR … WITH VALUES"));
        }
        Ok(ConstraintKind::Default { expr, text, column })
    }

    /// PRIMARY KEY or UNIQUE; `column` is the one it is written at, if it is no table constraint.
    fn key_constraint(&mut self, column: Option<&Ident>) -> SqlResult<ConstraintKind> {
        let primary = self.accept("PRIMARY");
        self.expect(if primary { "KEY" } else { "UNIQUE" })?;
        let clustered = self.clustered();
        if self.is("HASH") {
            return Err(self.unsupported("hash indexes"));
        }
        let columns = match column {
            Some(_) if self.is_symbol(Symbol::LeftParen) => self.index_columns()?,
            Some(name) => vec![IndexColumn { name: name.clone(), descending: false }],
            None => self.index_columns()?,
        };
        let options = self.with_index_options()?;
        self.skip_primary_filegroup()?;
        Ok(ConstraintKind::Key { primary, clustered, columns, options })
    }

    /// `Some(true)` for CLUSTERED, `Some(false)` for NONCLUSTERED.
    pub(super) fn clustered(&mut self) -> Option<bool> {
        if self.accept("CLUSTERED") {
            return Some(true);
        }
        self.accept("NONCLUSTERED").then_some(false)
    }

    fn check_constraint(&mut self, column: Option<Ident>) -> SqlResult<ConstraintKind> {
        self.expect("CHECK")?;
        self.skip_not_for_replication()?;
        self.expect_symbol(Symbol::LeftParen)?;
        let start = self.next;
        let condition = self.search_condition()?;
        let text = self.source_from(start);
        self.expect_symbol(Symbol::RightParen)?;
        Ok(ConstraintKind::Check { condition: Box::new(condition), text, column })
    }

    fn references(&mut self, columns: Vec<Ident>) -> SqlResult<ConstraintKind> {
        self.expect("REFERENCES")?;
        let table = self.object_name()?;
        let referenced = if self.is_symbol(Symbol::LeftParen) { self.identifier_list()? } else { Vec::new() };
        let (mut cascades, mut cascades_updates) = (false, false);
        while self.is("ON") && (self.is_ahead(1, "DELETE") || self.is_ahead(1, "UPDATE")) {
            self.advance();
            let event = self.keyword();
            self.advance();
            if self.accept("NO") {
                self.expect("ACTION")?;
            } else if self.accept("CASCADE") {
                if event == "DELETE" {
                    cascades = true;
                } else {
                    cascades_updates = true;
                }
            } else {
                return Err(self.unsupported(format!("ON {event} {}", self.keyword())));
            }
        }
        if self.is("NOT") && self.is_ahead(1, "FOR") {
            return Err(self.unsupported("NOT FOR REPLICATION"));
        }
        Ok(ConstraintKind::ForeignKey { columns, table, referenced, cascades, cascades_updates })
    }

    // Columns

    pub(super) fn column_definition(
        &mut self,
        table_kind: TableKind,
        definition: &mut TableDefinition,
    ) -> SqlResult<()> {
        let name = self.identifier()?;
        let kind = if self.accept("AS") { self.computed_column()? } else { ColumnKind::Typed(self.type_name()?) };
        let mut column = ColumnDefinition {
            name,
            kind,
            is_sparse: false,
            nullable: None,
            collation: None,
            identity: None,
            default: None,
        };
        while self.column_property(table_kind, &mut column, definition)? {}
        definition.columns.push(column);
        Ok(())
    }

    fn computed_column(&mut self) -> SqlResult<ColumnKind> {
        let start = self.next;
        let expr = self.expression()?;
        let text = self.source_from(start);
        if self.is("PERSISTED") {
            return Err(self.unsupported("PERSISTED"));
        }
        Ok(ColumnKind::Computed { expr, text })
    }

    /// Reads one property or constraint of a column; false when none follows.
    fn column_property(
        &mut self,
        table_kind: TableKind,
        column: &mut ColumnDefinition,
        definition: &mut TableDefinition,
    ) -> SqlResult<bool> {
        let name = self.constraint_name(table_kind)?;
        let keyword = self.keyword();
        const NOT_COMPUTED: &[&str] =
            &["NOT", "NULL", "CHECK", "REFERENCES", "FOREIGN", "DEFAULT", "IDENTITY", "COLLATE", "INDEX", "SPARSE"];
        if matches!(column.kind, ColumnKind::Computed { .. }) && self.is_one_of(NOT_COMPUTED) {
            return Err(self.unsupported(format!("{keyword} of a computed column")));
        }
        let is_unsupported = match keyword.as_str() {
            "SPARSE" => table_kind == TableKind::TypeOrVariable,
            _ => UNSUPPORTED_PROPERTIES.contains(&keyword.as_str()),
        };
        if is_unsupported {
            return Err(self.unsupported(format!("the column property {keyword}")));
        }
        let kind = match keyword.as_str() {
            "DEFAULT" => {
                self.column_default(name, column)?;
                return Ok(true);
            }
            "PRIMARY" | "UNIQUE" => self.key_constraint(Some(&column.name))?,
            "CHECK" => self.check_constraint(Some(column.name.clone()))?,
            "REFERENCES" | "FOREIGN" => {
                if table_kind == TableKind::TypeOrVariable {
                    return Err(self.unexpected());
                }
                if self.accept("FOREIGN") {
                    self.expect("KEY")?;
                }
                self.references(vec![column.name.clone()])?
            }
            "NULL" | "NOT" if name.is_some() => return Err(self.unsupported("a named NULL or NOT NULL")),
            _ if name.is_some() => return Err(self.unexpected()),
            "INDEX" => {
                let index = self.inline_index(Some(&column.name))?;
                definition.indexes.push(index);
                return Ok(true);
            }
            _ => return self.plain_column_property(&keyword, column),
        };
        definition.constraints.push(TableConstraint { name, kind });
        Ok(true)
    }

    fn plain_column_property(&mut self, keyword: &str, column: &mut ColumnDefinition) -> SqlResult<bool> {
        let repeated = match keyword {
            "NULL" | "NOT" => column.nullable.is_some(),
            "COLLATE" => column.collation.is_some(),
            // It stands before NULL.
            "SPARSE" => column.is_sparse || column.nullable.is_some(),
            "IDENTITY" => column.identity.is_some(),
            _ => return Ok(false),
        };
        if repeated {
            return Err(self.unexpected());
        }
        match keyword {
            "COLLATE" => {
                self.advance();
                column.collation = Some(self.identifier()?);
            }
            "SPARSE" => {
                self.advance();
                column.is_sparse = true;
            }
            "IDENTITY" => column.identity = Some(self.identity()?),
            _ => column.nullable = self.nullability()?,
        }
        Ok(true)
    }

    /// `NULL` or `NOT NULL`, if it is there.
    pub(super) fn nullability(&mut self) -> SqlResult<Option<bool>> {
        if self.accept("NULL") {
            return Ok(Some(true));
        }
        if self.accept("NOT") {
            self.expect("NULL")?;
            return Ok(Some(false));
        }
        Ok(None)
    }

    fn identity(&mut self) -> SqlResult<Identity> {
        self.expect("IDENTITY")?;
        let mut identity = Identity { seed: 1, increment: 1 };
        if self.accept_symbol(Symbol::LeftParen) {
            identity.seed = self.signed()?;
            self.expect_symbol(Symbol::Comma)?;
            identity.increment = self.signed()?;
            self.expect_symbol(Symbol::RightParen)?;
        }
        self.skip_not_for_replication()?;
        Ok(identity)
    }

    /// There is no replication whose agents it could be about.
    pub(super) fn skip_not_for_replication(&mut self) -> SqlResult<()> {
        if self.is("NOT") && self.is_ahead(1, "FOR") {
            self.expect_all(&["NOT", "FOR", "REPLICATION"])?;
        }
        Ok(())
    }

    fn column_default(&mut self, constraint: Option<Ident>, column: &mut ColumnDefinition) -> SqlResult<()> {
        if column.default.is_some() {
            return Err(self.unsupported(format!("two defaults of the column '{}'", column.name)));
        }
        self.expect("DEFAULT")?;
        let start = self.next;
        let expr = self.expression()?;
        let text = self.source_from(start);
        column.default = Some(DefaultDefinition { constraint, expr, text });
        Ok(())
    }

    // Indexes

    /// `INDEX name …`; at a column, that column is the key. A filter is allowed, see `<table_index>` in "CREATE TABLE",
    /// docs/t-sql/statements/create-table-transact-sql.md.
    fn inline_index(&mut self, column: Option<&Ident>) -> SqlResult<InlineIndex> {
        self.expect("INDEX")?;
        let name = self.identifier()?;
        let unique = self.accept("UNIQUE");
        let clustered = self.clustered().unwrap_or(false);
        if self.is_one_of(&["COLUMNSTORE", "HASH"]) {
            return Err(self.unsupported(format!("{} indexes", self.keyword())));
        }
        let columns = match column {
            Some(name) => vec![IndexColumn { name: name.clone(), descending: false }],
            None => self.index_columns()?,
        };
        let include = self.include()?;
        let filter = self.filter()?;
        let options = self.with_index_options()?;
        self.skip_primary_filegroup()?;
        Ok(InlineIndex { name, unique, clustered, columns, include, filter, options })
    }

    pub(super) fn index_columns(&mut self) -> SqlResult<Vec<IndexColumn>> {
        self.parenthesised_list(|p| {
            let name = p.identifier()?;
            let descending = p.accept("DESC");
            if !descending {
                p.accept("ASC");
            }
            Ok(IndexColumn { name, descending })
        })
    }

    pub(super) fn include(&mut self) -> SqlResult<Vec<Ident>> {
        if self.accept("INCLUDE") { self.identifier_list() } else { Ok(Vec::new()) }
    }

    pub(super) fn filter(&mut self) -> SqlResult<Option<Filter>> {
        if !self.accept("WHERE") {
            return Ok(None);
        }
        let start = self.next;
        let condition = self.filter_condition()?;
        let text = self.source_from(start);
        Ok(Some(Filter { condition, text }))
    }

    /// `WITH (options)`, if it is there.
    pub(super) fn with_index_options(&mut self) -> SqlResult<Vec<IndexOption>> {
        if !self.is("WITH") {
            return Ok(Vec::new());
        }
        if self.is_ahead(1, "FILLFACTOR") {
            self.advance();
            return Ok(vec![self.index_option()?]);
        }
        if !self.is_symbol_ahead(1, Symbol::LeftParen) {
            return Err(self.unsupported("index options without parentheses"));
        }
        self.advance();
        self.parenthesised_list(Self::index_option)
    }

    pub(super) fn index_option(&mut self) -> SqlResult<IndexOption> {
        let name = self.keyword();
        self.advance();
        self.expect_symbol(Symbol::Equal)?;
        let flag: fn(bool) -> IndexOption = match name.as_str() {
            "FILLFACTOR" => return Ok(IndexOption::FillFactor(self.unsigned()?)),
            "MAXDOP" => return self.unsigned().map(|_| IndexOption::OfStorage),
            "PAD_INDEX" | "SORT_IN_TEMPDB" | "STATISTICS_INCREMENTAL" => |_| IndexOption::OfStorage,
            "IGNORE_DUP_KEY" => IndexOption::IgnoreDupKey,
            "STATISTICS_NORECOMPUTE" => IndexOption::StatisticsNoRecompute,
            "DROP_EXISTING" => IndexOption::DropExisting,
            "ONLINE" => IndexOption::Online,
            "ALLOW_ROW_LOCKS" => IndexOption::AllowRowLocks,
            "ALLOW_PAGE_LOCKS" => IndexOption::AllowPageLocks,
            "OPTIMIZE_FOR_SEQUENTIAL_KEY" => IndexOption::OptimizeForSequentialKey,
            _ => return Err(self.unsupported(format!("the index option {name}"))),
        };
        let on = self.on_or_off()?;
        if self.is_symbol(Symbol::LeftParen) {
            return Err(self.unsupported(format!("details of the index option {name}")));
        }
        Ok(flag(on))
    }

    /// `ON [PRIMARY]` and `ON "default"` say what holds anyway; the dev server has no other filegroup.
    pub(super) fn skip_primary_filegroup(&mut self) -> SqlResult<()> {
        if self.accept("ON") { self.primary_filegroup() } else { Ok(()) }
    }

    /// `[PRIMARY]` or `"default"`.
    pub(super) fn primary_filegroup(&mut self) -> SqlResult<()> {
        let is_usual = match &self.token().kind {
            TokenKind::QuotedName(name) => ["primary", "default"].iter().any(|usual| name.eq_ignore_ascii_case(usual)),
            _ => false,
        };
        if !is_usual {
            return Err(if self.is_identifier() { self.unsupported("filegroups") } else { self.unexpected() });
        }
        self.advance();
        Ok(())
    }
}
