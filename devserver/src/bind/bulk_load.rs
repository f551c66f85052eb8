//! Binds INSERT BULK.
//!
//! Sources: "bcp Utility", "BULK INSERT" (MicrosoftDocs/sql-docs, docs/tools/bcp-utility.md,
//! docs/t-sql/statements/bulk-insert-transact-sql.md) for options and permissions; "Keep nulls or default values during
//! bulk import" and "Keep identity values when bulk importing data" (docs/relational-databases/import-export/).

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::insert_target::explicit_row_version;
use crate::bind::type_name::system_type;
use crate::error::{SqlError, SqlResult};
use crate::plan::bulk_load::BulkLoadPlan;
use crate::storage::Lifetime;
use crate::tsql::ast::{Ident, InsertBulk, TriggerEvent};
use crate::value::{self, Collation, SqlType};

impl Binder<'_> {
    pub fn bind_bulk_load(&mut self, insert: &InsertBulk) -> SqlResult<BulkLoadPlan> {
        let table = self.resolve_base_table(&insert.table)?;
        let schema = Arc::clone(&table.schema);
        let names: Vec<Ident> = insert.columns.iter().map(|column| Arc::clone(&column.name)).collect();
        let gives_identity = names
            .iter()
            .any(|name| schema.column_named(name).is_some_and(|ordinal| schema.columns[ordinal].identity.is_some()));
        let target = self.insert_target_with(table, Some(&names), gives_identity)?;
        let mut types = Vec::with_capacity(names.len());
        for (column, ordinal) in insert.columns.iter().zip(&target.ordinals) {
            if let Some(collation) = &column.collation {
                Collation::parse(collation)?;
            }
            let Some(ty) = system_type(&column.data_type)? else {
                return Err(SqlError::not_supported("INSERT BULK with a column of a user's type"));
            };
            check_type(ty, schema.columns[*ordinal].sql_type)?;
            types.push(ty);
        }
        let has_triggers = self.bind_triggers(&schema, &[TriggerEvent::Insert], false)?.is_some();
        if has_triggers || !target.rules.checks.is_empty() || !schema.foreign_keys.is_empty() {
            let what = "INSERT BULK into a table with triggers, CHECKs or foreign keys, which it would pass over";
            return Err(SqlError::not_supported(what));
        }
        let mut needs_alter = None;
        if schema.lifetime == Lifetime::Permanent {
            self.need("ALTER", &schema);
            needs_alter = self.needs.pop().filter(|_| gives_identity);
            self.need("INSERT", &schema);
        }
        Ok(BulkLoadPlan {
            target,
            types,
            keep_nulls: insert.keep_nulls,
            needs_alter,
            needs: std::mem::take(&mut self.needs),
            slots: self.slots,
            functions: self.called_functions(),
        })
    }
}

/// python-tds announces `nvarchar` for every column it is told no type of: the values are converted, as in an INSERT.
fn check_type(announced: SqlType, column: SqlType) -> SqlResult<()> {
    if column == SqlType::RowVersion {
        return Err(explicit_row_version());
    }
    if announced == SqlType::Variant || column == SqlType::Variant {
        return Err(SqlError::not_supported("INSERT BULK with sql_variant"));
    }
    if column.is_text_or_image() {
        return Err(SqlError::not_supported(format!("INSERT BULK with {column}")));
    }
    value::check_conversion(announced, column, false)
}
