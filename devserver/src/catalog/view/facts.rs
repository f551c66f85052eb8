//! A view of the catalog, and the facts that its rows are computed from.

use std::sync::Arc;

use crate::catalog::catalog::Catalog;
use crate::catalog::database::Database;
use crate::catalog::view::column_types::{ColumnDescription, date};
use crate::storage::{Latch, Lifetime, ObjectId, TableSchema};
use crate::value::Value;

/// A view of the catalog.
pub struct CatalogView {
    pub schema: &'static str,
    pub name: &'static str,
    pub columns: &'static [ColumnDescription],
    pub rows: fn(&Facts<'_>) -> Vec<Vec<Value>>,
}

impl std::fmt::Debug for CatalogView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

impl PartialEq for CatalogView {
    fn eq(&self, other: &CatalogView) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for CatalogView {}

/// What the views are computed from.
pub struct Facts<'a> {
    pub database: &'a Database,
    pub catalog: &'a Catalog,
    pub tables: &'a [Arc<TableSchema>],
}

impl Facts<'_> {
    /// Looks at every table, under the latch.
    pub fn with<T>(database: &Database, latch: &Latch<'_>, compute: impl FnOnce(&Facts<'_>) -> T) -> T {
        let tables: Vec<Arc<TableSchema>> =
            latch.tables().into_iter().filter(|table| table.lifetime == Lifetime::Permanent).collect();
        let catalog = database.catalog.read();
        compute(&Facts { database, catalog: &catalog, tables: &tables })
    }

    pub fn schema_id(&self, name: &str) -> Value {
        self.catalog.schema(name).map_or(Value::Null, |schema| Value::Int(schema.id))
    }

    /// When a table was made and last changed.
    pub fn dates(&self, table: ObjectId) -> (Value, Value) {
        match self.catalog.table_dates(table) {
            Some((created, modified)) => (date(created), date(modified)),
            None => (Value::Null, Value::Null),
        }
    }

    pub fn table(&self, id: ObjectId) -> Option<&Arc<TableSchema>> {
        self.tables.iter().find(|table| table.id == id)
    }
}
