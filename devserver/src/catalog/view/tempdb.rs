//! `tempdb`, as far as #temp and ##temp tables are seen in it: those of all sessions of the current database, where
//! they stand here.

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalog::catalog::Catalog;
use crate::catalog::database::Database;
use crate::catalog::view::columns::{BIT, CODE, INT, NAME, WORD, bit, text};
use crate::catalog::view::facts::{CatalogView, Facts};
use crate::catalog::view::indexes::{INDEX_COLUMN_COLUMNS, INDEX_COLUMNS, index_columns, indexes};
use crate::catalog::view::tables::{COLUMN_COLUMNS, columns};
use crate::storage::{Latch, Lifetime, ObjectId, TableSchema};
use crate::value::Value;

/// What `tempdb` shows. The dates of #temp tables are not kept.
pub(crate) static VIEWS: &[CatalogView] = &[
    CatalogView {
        schema: "sys",
        name: "tables",
        columns: &[
            ("name", NAME),
            ("object_id", INT),
            ("principal_id", INT),
            ("schema_id", INT),
            ("parent_object_id", INT),
            ("type", CODE),
            ("type_desc", WORD),
            ("is_ms_shipped", BIT),
        ],
        rows: tables,
    },
    CatalogView { schema: "sys", name: "columns", columns: COLUMN_COLUMNS, rows: columns },
    CatalogView { schema: "sys", name: "indexes", columns: INDEX_COLUMNS, rows: indexes },
    CatalogView { schema: "sys", name: "index_columns", columns: INDEX_COLUMN_COLUMNS, rows: index_columns },
];

/// A name in `tempdb` has 128 characters: that of the table, underscores, and a number of twelve digits.
///
/// Source: "CREATE TABLE", temporary tables (MicrosoftDocs/sql-docs,
/// docs/t-sql/statements/create-table-transact-sql.md).
fn stored_name(name: &str, id: ObjectId) -> Arc<str> {
    let name_length = 116;
    format!("{name:_<name_length$}{id:012X}").into()
}

fn tables(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let rows = facts.tables.iter().map(|table| {
        vec![
            text(&table.name),
            Value::Int(table.id),
            Value::Null,
            facts.schema_id(&table.schema),
            Value::Int(0),
            text("U "),
            text("USER_TABLE"),
            bit(false),
        ]
    });
    rows.collect()
}

pub fn rows(view: &CatalogView, database: &Database, latch: &Latch<'_>) -> Vec<Vec<Value>> {
    let mut tables: Vec<Arc<TableSchema>> = latch
        .temporary_tables()
        .into_iter()
        .map(|table| {
            let name = stored_name(&table.name, table.id);
            Arc::new(TableSchema { name, ..TableSchema::clone(&table) })
        })
        .collect();
    // There is only one ##temp table of a name.
    tables.extend(latch.tables_that_live(Lifetime::Global));
    let catalog = Catalog::new();
    let (counts, identities) = (HashMap::new(), HashMap::new());
    (view.rows)(&Facts { database, catalog: &catalog, tables: &tables, counts, identities })
}
