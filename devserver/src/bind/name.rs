//! What the names of tables and columns mean.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::query_scope::{names_source, same_name};
use crate::catalog::catalog::DBO;
use crate::catalog::object::{Object, View};
use crate::catalog::server::{Product, TEMPDB_NAME};
use crate::catalog::system_view::SystemView;
use crate::catalog::view::list::find_compatible;
use crate::error::{SqlError, SqlResult};
use crate::plan::cached_plan::Uses;
use crate::plan::query::{TableHandle, TableLocation};
use crate::plan::scalar::Scalar;
use crate::storage::{CatalogName, ObjectId, fold};
use crate::tsql::ast::{ColumnRef, ObjectName};

/// What a table name means.
pub enum ResolvedTable {
    Table(TableHandle),
    View(Arc<View>),
    System(SystemView),
}

/// A name as messages show it: the parts as written, joined by points.
pub fn display_name(name: &ObjectName) -> String {
    let mut text = String::new();
    let parts = [&name.server, &name.database, &name.schema];
    for part in parts {
        match part {
            Some(part) => {
                text.push_str(part);
                text.push('.');
            }
            None if !text.is_empty() => text.push('.'),
            None => {}
        }
    }
    text.push_str(&name.name);
    text
}

pub fn invalid_object(name: &ObjectName) -> SqlError {
    SqlError::new(208, format!("Invalid object name '{}'.", display_name(name)))
}

/// The refusal of a name in another database or server. In Azure SQL Database "three part names referencing the tempdb
/// database and the current database are supported", no other ("T-SQL differences between SQL Server and Azure SQL
/// Database", MicrosoftDocs/sql-docs, azure-sql/database/transact-sql-tsql-differences-sql-server.md).
pub fn in_another_database(name: &ObjectName, product: Product) -> SqlError {
    let is_in_tempdb =
        name.server.is_none() && name.database.as_deref().is_some_and(|database| fold(database) == TEMPDB_NAME);
    if product.is_azure() && !is_in_tempdb {
        let name = display_name(name);
        let message = format!(
            "Reference to database and/or server name in '{name}' is not supported in this version of SQL Server."
        );
        return SqlError::new(40_515, message).severity(15);
    }
    if name.server.is_some() {
        return SqlError::not_supported("linked servers");
    }
    SqlError::not_supported(format!("the name {}: objects of other databases than the current one", display_name(name)))
}

impl Binder<'_> {
    /// The schemas in which a name without schema is looked for.
    pub(super) fn schemas_to_search(&self, name: &ObjectName) -> SqlResult<Vec<Arc<str>>> {
        if name.server.is_some() {
            return Err(in_another_database(name, self.database.server.product));
        }
        if let Some(database) = &name.database
            && fold(database) != fold(&self.database.name)
        {
            return Err(in_another_database(name, self.database.server.product));
        }
        if let Some(schema) = &name.schema {
            return Ok(vec![Arc::clone(schema)]);
        }
        let own = Arc::clone(&self.default_schema);
        if fold(&own) == DBO { Ok(vec![own]) } else { Ok(vec![own, DBO.into()]) }
    }

    /// The permanent or temporary table of a name.
    pub fn find_table(&mut self, name: &ObjectName) -> SqlResult<Option<ObjectId>> {
        self.uses = Uses::Database;
        if name.name.starts_with('#') {
            if name.database.as_deref().is_some_and(|database| fold(database) != TEMPDB_NAME) {
                return Err(SqlError::not_supported(format!("the name {}", display_name(name))));
            }
            self.uses_temporary = true;
            return Ok(self.state.temporary_table(&name.name));
        }
        for schema in self.schemas_to_search(name)? {
            self.look_at_object(&schema, &name.name);
            if let Some(id) = self.latch.find_table(&schema, &name.name) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// What another transaction is about to change is not found now: whoever binds waits for it then.
    fn look_at_object(&self, schema: &str, name: &str) {
        self.latch.look_at(self.state.spid, || CatalogName::object(schema, name));
    }

    pub fn find_object(&self, name: &ObjectName) -> SqlResult<Option<Object>> {
        let catalog = self.database.catalog.read();
        for schema in self.schemas_to_search(name)? {
            self.look_at_object(&schema, &name.name);
            if let Some(object) = catalog.object(&schema, &name.name) {
                return Ok(Some(object.clone()));
            }
        }
        Ok(None)
    }

    pub fn table_handle(&self, id: ObjectId) -> SqlResult<TableHandle> {
        match self.latch.schema_seen_by(self.state.spid, id) {
            Some(schema) => Ok(TableHandle { schema: Arc::clone(schema), place: TableLocation::Stored(id) }),
            None => Err(SqlError::new(208, "Invalid object name.")),
        }
    }

    /// A system view of the current database; through the name of another one, only what all of them show alike.
    fn find_system_view(&self, name: &ObjectName, schema: &str) -> SqlResult<Option<SystemView>> {
        if name.server.is_some() {
            return Err(in_another_database(name, self.database.server.product));
        }
        let Some(other) = name.database.as_deref().map(fold).filter(|other| *other != fold(&self.database.name)) else {
            return Ok(SystemView::find(schema, &name.name));
        };
        let is_there = self.database.server.database_id(&other).is_some();
        let is_azure = self.database.server.product.is_azure();
        let view = SystemView::find(schema, &name.name).filter(|view| is_there && view.is_of_the_server() && !is_azure);
        view.map(Some).ok_or_else(|| in_another_database(name, self.database.server.product))
    }

    /// What a name in FROM means, CTEs excepted; 208.
    pub fn resolve_table(&mut self, name: &ObjectName) -> SqlResult<ResolvedTable> {
        self.uses = Uses::Database;
        if let Some(schema) = &name.schema {
            let schema = fold(schema);
            if schema == "sys" || schema == "information_schema" {
                return match self.find_system_view(name, &schema)? {
                    Some(view) => Ok(ResolvedTable::System(view)),
                    None => Err(SqlError::not_supported(format!("the system view {}", display_name(name)))),
                };
            }
        }
        if let Some(id) = self.find_table(name)? {
            return Ok(ResolvedTable::Table(self.table_handle(id)?));
        }
        if name.name.starts_with('#') {
            return Err(invalid_object(name));
        }
        match self.find_object(name)? {
            Some(Object::View(view)) => Ok(ResolvedTable::View(view)),
            _ => match find_compatible(name.schema.as_deref(), &name.name) {
                Some(view) => Ok(ResolvedTable::System(SystemView::Catalog(view))),
                None => Err(invalid_object(name)),
            },
        }
    }

    /// A stored table that is changed; 208, and 4405-like refusals for what is no table.
    pub fn resolve_base_table(&mut self, name: &ObjectName) -> SqlResult<TableHandle> {
        match self.resolve_table(name)? {
            ResolvedTable::Table(handle) => Ok(handle),
            ResolvedTable::View(_) => Err(SqlError::not_supported(format!("changing the view {}", display_name(name)))),
            ResolvedTable::System(_) => Err(SqlError::new(259, "Ad hoc updates to system catalogs are not allowed.")),
        }
    }

    /// A column by name: in the innermost query that has one. 207, 209, 4104.
    pub fn resolve_column(&mut self, column: &ColumnRef) -> SqlResult<Scalar> {
        let name = fold(&column.name);
        let mut table_known = false;
        let mut found: Option<Scalar> = None;
        let mut distance = 0;
        'scopes: for (of, scope) in self.scopes.iter().rev().enumerate() {
            distance = of;
            for source in &scope.sources[scope.visible_from..] {
                if let Some(table) = &column.table {
                    if !names_source(table, source) {
                        continue;
                    }
                    table_known = true;
                }
                for candidate in &source.columns {
                    if !same_name(&candidate.name, &name) {
                        continue;
                    }
                    if found.is_some() {
                        return Err(SqlError::new(209, format!("Ambiguous column name '{}'.", column.name)));
                    }
                    found = Some(candidate.scalar.clone());
                }
            }
            if found.is_some() || table_known {
                break 'scopes;
            }
        }
        match found {
            Some(scalar) => {
                self.note_used(&scalar);
                if distance > 0 {
                    self.outer_columns.push(scalar.clone());
                }
                Ok(scalar)
            }
            None => Err(match &column.table {
                Some(table) if !table_known => SqlError::new(
                    4104,
                    format!(
                        "The multi-part identifier \"{}.{}\" could not be bound.",
                        display_name(table),
                        column.name
                    ),
                ),
                // Its views have fewer columns than SQL Server's.
                _ if self.reaches_system_view(column) => {
                    SqlError::not_supported(format!("the column '{}', which may be one of a system view", column.name))
                }
                _ => SqlError::new(207, format!("Invalid column name '{}'.", column.name)),
            }),
        }
    }

    fn reaches_system_view(&self, column: &ColumnRef) -> bool {
        let sources = self.scopes.iter().flat_map(|scope| &scope.sources[scope.visible_from..]);
        sources
            .filter(|source| column.table.as_ref().is_none_or(|table| names_source(table, source)))
            .any(|source| source.slots & self.system_slots != 0)
    }
}
