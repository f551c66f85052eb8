//! Foreign keys as they are defined: what they refer to, and what that rules out.
//!
//! Source: "Create foreign key relationships" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/tables/create-foreign-key-relationships.md); the errors are those of
//! docs/relational-databases/errors-events/database-engine-events-and-errors-1000-to-1999.md.

use std::sync::Arc;

use crate::bind::foreign_key::referring_keys;
use crate::bind::foreign_key_definition::serves;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::plan::cached_plan::Uses;
use crate::session::client_session::Session;
use crate::storage::{ForeignKey, Latch, Lifetime, ObjectId, TableSchema};

/// 3726 and 4712: a table that another one refers to.
pub fn check_not_referenced(
    latch: &Latch<'_>,
    schema: &TableSchema,
    error: impl FnOnce() -> SqlError,
) -> SqlResult<()> {
    let is_referenced = referring_keys(latch, schema).iter().any(|(table, _)| table.id != schema.id);
    if is_referenced { Err(error()) } else { Ok(()) }
}

/// Refuses changes of an index that a foreign key needs.
pub fn check_index_not_needed(latch: &Latch<'_>, schema: &TableSchema, index: &crate::storage::Index) -> SqlResult<()> {
    for (_, key) in referring_keys(latch, schema) {
        let others = schema.indexes.iter().filter(|other| other.id != index.id);
        if serves(schema, index, &key) && !others.into_iter().any(|other| serves(schema, other, &key)) {
            return Err(SqlError::not_supported(format!(
                "changes of the index '{}', which foreign keys need",
                index.name
            )));
        }
    }
    Ok(())
}

impl Session {
    /// Looks whether every row of a table has its partners.
    pub(crate) fn look_for_partners(
        &mut self,
        table: ObjectId,
        schema: &Arc<TableSchema>,
        keys: &[ForeignKey],
        activation: &mut Activation,
    ) -> SqlResult<()> {
        if schema.lifetime != Lifetime::Permanent {
            return Ok(());
        }
        let references = self.with_binder(|binder| {
            keys.iter().map(|key| binder.bind_reference(schema, key)).collect::<SqlResult<Vec<_>>>()
        })?;
        self.with_run(Uses::Database, activation, |run| {
            let storage = run.storage()?;
            let rows = storage.latch.rows_to_rebuild(&mut storage.tx, table)?;
            for row in &rows {
                for reference in &references {
                    reference.check("ALTER TABLE", row, run)?;
                }
            }
            Ok(())
        })
    }
}
