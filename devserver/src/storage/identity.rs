//! The counters of identity columns.

use super::database::Latch;
use super::locks::resource::ObjectId;
use super::table::Change;
use super::transaction::Transaction;
use crate::error::{SqlError, SqlResult};

impl Latch<'_> {
    /// The next identity value of a table. A rollback does not give it back.
    ///
    /// # Errors
    ///
    /// 8115 when the counter is exhausted.
    pub fn next_identity(&mut self, table: ObjectId) -> SqlResult<i64> {
        let table = self.table_mut(table)?;
        let identity = table.schema.columns.iter().find_map(|column| column.identity);
        let identity = identity.ok_or_else(|| SqlError::not_supported("an identity value without identity column"))?;
        let next = match table.identity.last {
            None => table.identity.first.unwrap_or(identity.seed),
            Some(last) => last.checked_add(identity.increment).ok_or_else(|| {
                SqlError::new(8115, "Arithmetic overflow error converting IDENTITY to data type bigint.")
            })?,
        };
        table.identity.last = Some(next);
        Ok(next)
    }

    /// A value was inserted with IDENTITY_INSERT: the counter goes on from it if it lies ahead.
    pub fn note_identity(&mut self, table: ObjectId, value: i64) {
        let Ok(table) = self.table_mut(table) else {
            return;
        };
        let Some(identity) = table.schema.columns.iter().find_map(|column| column.identity) else {
            return;
        };
        let first = table.identity.first.unwrap_or(identity.seed);
        let is_ahead = match table.identity.last {
            // An untouched counter stands one step before its seed.
            None if identity.increment > 0 => value >= first,
            None => value <= first,
            Some(last) if identity.increment > 0 => value > last,
            Some(last) => value < last,
        };
        if is_ahead {
            table.identity.last = Some(value);
        }
    }

    /// The identity counter goes on from `value`, or begins with it if no value was given yet. Returns the last value
    /// given before.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn reseed_identity(&mut self, tx: &mut Transaction, table: ObjectId, value: i64) -> SqlResult<Option<i64>> {
        let schema = self.lock_for_change(tx, table)?;
        let storage = self.table_mut(table)?;
        let before = storage.identity;
        if before.last.is_some() || storage.row_count() > 0 {
            storage.identity.last = Some(value);
        } else {
            storage.identity.first = Some(value);
        }
        tx.record(schema.lifetime, table, Change::IdentityReseeded(before));
        Ok(before.last)
    }
}
