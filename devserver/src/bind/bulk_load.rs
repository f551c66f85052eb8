//! Binds INSERT BULK.
//!
//! Sources: "bcp Utility", "BULK INSERT" (MicrosoftDocs/sql-docs, docs/tools/bcp-utility.md,
//! docs/t-sql/statements/bulk-insert-transact-sql.md) for options and permissions; "Keep nulls or default values during
//! bulk import" and "Keep identity values when bulk importing data" (docs/relational-databases/import-export/).

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::foreign_key::Changes;
use crate::bind::insert_target::explicit_row_version;
use crate::bind::type_name::system_type;
use crate::error::{SqlError, SqlResult};
use crate::plan::bulk_load::BulkLoadPlan;
use crate::plan::table_rules::ForeignKeys;
use crate::storage::{Lifetime, TableSchema, fold};
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
        let mut target = self.insert_target_with(table, Some(&names), gives_identity)?;
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
        let in_key_order = in_key_order(insert, &schema)?;

        let is_permanent = schema.lifetime == Lifetime::Permanent;
        if is_permanent {
            self.need("INSERT", &schema);
        }
        let needs = std::mem::take(&mut self.needs);
        let updated = vec![true; schema.columns.len()].into();
        let fired = self.bind_triggers(&schema, &[TriggerEvent::Insert], updated, false)?;
        if insert.fire_triggers && fired.as_ref().is_some_and(|target| target.instead_of.is_some()) {
            return Err(SqlError::not_supported("INSERT BULK that fires an INSTEAD OF trigger"));
        }
        let passes_over_triggers = fired.is_some() && !insert.fire_triggers;
        let triggers = fired.filter(|_| insert.fire_triggers);

        let changes = Changes { inserts: true, deletes: false, updates: &[] };
        let mut foreign_keys = self.bind_foreign_keys(&schema, changes)?;
        let has_constraints = !target.rules.checks.is_empty() || foreign_keys.has_references();
        let passes_over_constraints = has_constraints && !insert.check_constraints;
        if !insert.check_constraints {
            target.rules.checks.clear();
            foreign_keys = ForeignKeys::default();
        }
        let distrusts = passes_over_constraints
            && (schema.checks.iter().any(|check| !check.disabled && !check.not_trusted)
                || schema.foreign_keys.iter().any(|key| !key.disabled && !key.not_trusted));
        let needs_alter = if is_permanent && (passes_over_constraints || passes_over_triggers || gives_identity) {
            self.needs.clear();
            self.need("ALTER", &schema);
            self.needs.pop()
        } else {
            None
        };
        Ok(BulkLoadPlan {
            target,
            types,
            foreign_keys,
            keep_nulls: insert.keep_nulls,
            table_lock: insert.table_lock,
            in_key_order,
            distrusts,
            needs_alter,
            needs,
            triggers,
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

/// Whether ORDER says that the rows come in the order of the clustered index, which is compared with them; otherwise
/// "the ORDER clause is ignored".
fn in_key_order(insert: &InsertBulk, schema: &TableSchema) -> SqlResult<bool> {
    for (place, (name, _)) in insert.order.iter().enumerate() {
        let repeated = insert.order[..place].iter().any(|(other, _)| fold(other) == fold(name));
        if repeated || schema.column_named(name).is_none() {
            return Err(SqlError::not_supported(format!("the hint ORDER of INSERT BULK with the column '{name}'")));
        }
    }
    let Some(clustered) = schema.clustered() else { return Ok(false) };
    let key = clustered.key.iter().map(|key| (fold(&schema.columns[key.column].name), key.descending));
    Ok(key.eq(insert.order.iter().map(|(name, descending)| (fold(name), *descending))))
}
