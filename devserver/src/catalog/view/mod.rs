//! The catalog views of tables, columns, constraints, modules and types, and INFORMATION_SCHEMA: lists of views, a
//! file for each subject, each view with its columns and what computes its rows.
//!
//! Source: "Catalog views" (MicrosoftDocs/sql-docs, docs/relational-databases/system-catalog-views/) and "Information
//! schema views" (docs/relational-databases/system-information-schema-views/), a page for each view. Columns about what
//! the dev server does not have (files, pages, replication, encryption) are left out; who asks for one is refused
//! (59000).

mod constraints;
mod indexes;
mod information_schema;
mod modules;
mod tables;
mod types;

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalog::catalog::Catalog;
use crate::catalog::database::Database;
use crate::catalog::system_view::{ColumnDescription, date};
use crate::error::SqlResult;
use crate::execute::frame::Run;
use crate::storage::{IndexId, Lifetime, ObjectId, TableSchema, fold};
use crate::value::{Length, SqlType, Value};

/// A view of the catalog.
pub struct CatalogView {
    schema: &'static str,
    name: &'static str,
    pub columns: &'static [ColumnDescription],
    rows: fn(&Facts<'_>) -> Vec<Vec<Value>>,
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
struct Facts<'a> {
    database: &'a Database,
    catalog: &'a Catalog,
    tables: &'a [Arc<TableSchema>],
    /// The rows or entries of each index.
    counts: HashMap<(ObjectId, IndexId), i64>,
    /// The last identity value of each table.
    identities: HashMap<ObjectId, i64>,
}

fn all() -> impl Iterator<Item = &'static CatalogView> {
    [tables::VIEWS, constraints::VIEWS, indexes::VIEWS, types::VIEWS, modules::VIEWS, information_schema::VIEWS]
        .into_iter()
        .flatten()
}

/// By folded schema and name.
pub fn find(schema: &str, name: &str) -> Option<&'static CatalogView> {
    all().find(|view| view.schema == schema && view.name == name)
}

pub fn rows(view: &CatalogView, run: &mut Run<'_>) -> SqlResult<Vec<Vec<Value>>> {
    let storage = run.storage()?;
    let tables: Vec<Arc<TableSchema>> =
        storage.latch.tables().into_iter().filter(|table| table.lifetime == Lifetime::Permanent).collect();
    let (mut counts, mut identities) = (HashMap::new(), HashMap::new());
    for schema in &tables {
        let Some(table) = storage.latch.table(schema.id) else { continue };
        counts.insert((schema.id, schema.row_index()), table.row_count() as i64);
        for index in schema.indexes.iter().filter(|index| !index.is_clustered()) {
            counts.insert((schema.id, index.id), table.index_entry_count(index.id).unwrap_or(0) as i64);
        }
        if let Some(last) = table.identity_given() {
            identities.insert(schema.id, last);
        }
    }
    let database = Arc::clone(run.database);
    let catalog = database.catalog.read();
    Ok((view.rows)(&Facts { database: &database, catalog: &catalog, tables: &tables, counts, identities }))
}

impl Facts<'_> {
    fn schema_id(&self, name: &str) -> Value {
        self.catalog.schema(name).map_or(Value::Null, |schema| Value::Int(schema.id))
    }

    /// When a table was made and last changed.
    fn dates(&self, table: ObjectId) -> (Value, Value) {
        match self.catalog.table_dates(table) {
            Some((created, modified)) => (date(created), date(modified)),
            None => (Value::Null, Value::Null),
        }
    }

    fn table(&self, id: ObjectId) -> Option<&Arc<TableSchema>> {
        self.tables.iter().find(|table| table.id == id)
    }
}

const NAME: SqlType = SqlType::NVarChar(Length::Limit(128));
const TEXT: SqlType = SqlType::NVarChar(Length::Max);
const WORD: SqlType = SqlType::NVarChar(Length::Limit(60));
const CODE: SqlType = SqlType::Char(2);
const INT: SqlType = SqlType::Int;
const BIT: SqlType = SqlType::Bit;
const TINY: SqlType = SqlType::TinyInt;
const BIG: SqlType = SqlType::BigInt;
const WHEN: SqlType = SqlType::DateTime;

const fn varchar(length: u16) -> SqlType {
    SqlType::VarChar(Length::Limit(length))
}

const fn nvarchar(length: u16) -> SqlType {
    SqlType::NVarChar(Length::Limit(length))
}

/// The columns of sys.objects, which many views begin with.
macro_rules! object_columns {
    ($($more:expr),* $(,)?) => {
        &[
            ("name", NAME), ("object_id", INT), ("principal_id", INT), ("schema_id", INT), ("parent_object_id", INT),
            ("type", CODE), ("type_desc", WORD), ("create_date", WHEN), ("modify_date", WHEN), ("is_ms_shipped", BIT),
            ("is_published", BIT), ("is_schema_published", BIT), $($more),*
        ]
    };
}

use object_columns;

/// Views of the days before schemas, which are found under `sys` and `dbo` alike.
pub fn find_compatible(schema: Option<&str>, name: &str) -> Option<&'static CatalogView> {
    let is_place = schema.is_none_or(|schema| matches!(fold(schema).as_str(), "dbo" | "sys"));
    let name = fold(name);
    (is_place && name == "sysobjects").then(|| find("sys", &name)).flatten()
}
