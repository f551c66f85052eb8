//! DELETE: rows and their entries become ghosts.

use super::database::Latch;
use super::entry_key::{entry_resource, row_resource};
use super::key::Key;
use super::locks::mode::LockMode;
use super::locks::resource::ObjectId;
use super::schema::TableSchema;
use super::transaction::Transaction;
use crate::error::SqlResult;

impl Latch<'_> {
    /// Deletes a row. False if it is not there (any more).
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn delete(&mut self, tx: &mut Transaction, table: ObjectId, key: &Key) -> SqlResult<bool> {
        Ok(self.delete_rows(tx, table, std::slice::from_ref(key))? == 1)
    }

    /// Deletes the rows of one statement, and says how many were still there.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn delete_rows(&mut self, tx: &mut Transaction, table: ObjectId, keys: &[Key]) -> SqlResult<usize> {
        self.lock_table(tx, table, LockMode::IntentExclusive, true)?;
        let schema = self.schema_of(table)?;
        let indexed = schema.indexed_columns();
        let mut deleted = 0;
        for key in keys {
            self.count_row(tx)?;
            deleted += usize::from(self.delete_row(tx, &schema, &indexed, key)?);
        }
        Ok(deleted)
    }

    fn delete_row(
        &mut self,
        tx: &mut Transaction,
        schema: &TableSchema,
        indexed: &[bool],
        key: &Key,
    ) -> SqlResult<bool> {
        let table = schema.id;
        self.lock_key(tx, schema, row_resource(schema, key))?;
        self.check_conflict(tx, table, key)?;
        let Some(row) = self.table(table).and_then(|table| table.live_row(key)) else {
            return Ok(false);
        };
        let values = row.values_if(schema, |column| indexed[column]);
        let entries = self.entries(schema, &values, key)?;
        for (index, entry) in &entries {
            self.lock_key(tx, schema, entry_resource(table, index, entry))?;
        }
        let first = tx.undo.len();
        self.ghost_row(tx, schema, key)?;
        for (index, entry) in &entries {
            self.ghost_entry(tx, schema, index, entry)?;
        }
        self.keep_versions(tx, first);
        Ok(true)
    }
}
