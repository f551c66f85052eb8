//! Which foreign keys a statement has to look after, and the indexes that lead to their rows.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::error::{SqlError, SqlResult};
use crate::plan::table_rules::{Cascade, ForeignKeys, Lookup, Reference, Referrer};
use crate::storage::{ForeignKey, Latch, Lifetime, TableSchema};

/// Which statements a plan can be: they bear on different keys.
#[derive(Debug, Clone, Copy)]
pub struct Changes<'c> {
    pub inserts: bool,
    pub deletes: bool,
    /// The columns that are given a value.
    pub updates: &'c [usize],
}

/// The ordinals of named columns, which are known to be there.
fn ordinals(schema: &TableSchema, names: &[Arc<str>]) -> SqlResult<Vec<usize>> {
    let find = |name: &Arc<str>| {
        schema.column_named(name).ok_or_else(|| SqlError::new(207, format!("Invalid column name '{name}'.")))
    };
    names.iter().map(find).collect()
}

impl Binder<'_> {
    /// The foreign keys that a statement has to look after.
    pub fn bind_foreign_keys(&mut self, schema: &Arc<TableSchema>, changes: Changes<'_>) -> SqlResult<ForeignKeys> {
        let mut keys = ForeignKeys::default();
        for key in &schema.foreign_keys {
            let reference = self.bind_reference(schema, key)?;
            if changes.inserts || reference.columns.iter().any(|column| changes.updates.contains(column)) {
                keys.references.push(reference);
            }
        }
        if !changes.deletes && changes.updates.is_empty() {
            return Ok(keys);
        }
        for (child, key) in referring_keys(self.latch, schema) {
            let child = self.latch.schema_seen_by(self.state.spid, child.id).map_or(child, Arc::clone);
            let columns = ordinals(schema, &key.referenced_columns)?;
            if !changes.deletes && !columns.iter().any(|column| changes.updates.contains(column)) {
                continue;
            }
            keys.referrers.push(self.bind_referrer(schema, &child, &key, columns)?);
        }
        Ok(keys)
    }

    pub fn bind_reference(&mut self, schema: &Arc<TableSchema>, key: &ForeignKey) -> SqlResult<Reference> {
        let partner = match key.referenced {
            None => Arc::clone(schema),
            Some(id) => self.table_handle(id)?.schema,
        };
        Ok(Reference {
            name: Arc::clone(&key.name),
            columns: ordinals(schema, &key.columns)?,
            partner: Lookup::new(&partner, ordinals(&partner, &key.referenced_columns)?),
            same_table: partner.id == schema.id,
        })
    }

    fn bind_referrer(
        &mut self,
        schema: &Arc<TableSchema>,
        child: &Arc<TableSchema>,
        key: &ForeignKey,
        columns: Vec<usize>,
    ) -> SqlResult<Referrer> {
        let child_columns = ordinals(child, &key.columns)?;
        let cascade = if key.cascades {
            // Cascades make no circles, so this ends.
            let keys = self.bind_foreign_keys(child, Changes { inserts: false, deletes: true, updates: &[] })?;
            let has_trigger = self.has_triggers_for_delete(child);
            Some(Box::new(Cascade { keys, has_trigger }))
        } else {
            None
        };
        Ok(Referrer {
            name: Arc::clone(&key.name),
            partner: Lookup::new(schema, columns.clone()),
            columns,
            rows: Lookup::new(child, child_columns),
            same_table: child.id == schema.id,
            cascades_updates: key.cascades_updates,
            cascade,
        })
    }
}

/// The foreign keys that refer to a table, with the tables they belong to.
pub fn referring_keys(latch: &Latch<'_>, schema: &TableSchema) -> Vec<(Arc<TableSchema>, ForeignKey)> {
    let mut found = Vec::new();
    if schema.lifetime != Lifetime::Permanent {
        return found;
    }
    for table in latch.tables() {
        for key in &table.foreign_keys {
            if key.referenced.unwrap_or(table.id) == schema.id {
                found.push((Arc::clone(&table), key.clone()));
            }
        }
    }
    found
}
