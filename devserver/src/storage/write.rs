//! Changing rows: X locks first, then the change, then an undo record for each piece of it.
//!
//! The order of the locks is SQL Server's: IX on the table, X on the row, X on every index entry that is touched (the
//! old one, the new one, and one that only an included column changes). All that can wait or fail comes before anything
//! is changed, so that a row is never half written.
//!
//! Here are the steps that `insert.rs`, `update.rs` and `delete.rs` have in common.

use super::database::Latch;
use super::entry_key::{EntryKey, row_resource};
use super::key::Key;
use super::locks::mode::LockMode;
use super::locks::resource::{LockOwner, ObjectId, Resource};
use super::row::Row;
use super::schema::{Index, TableSchema};
use super::transaction::Transaction;
use crate::error::SqlResult;
use crate::value::Value;

/// The entries of a row, of those indexes that hold it.
pub(super) type Entries<'schema> = Vec<(&'schema Index, EntryKey)>;

pub(super) fn nonclustered(schema: &TableSchema) -> impl Iterator<Item = &Index> {
    schema.indexes.iter().filter(|index| !index.is_clustered())
}

impl Latch<'_> {
    pub(super) fn ghost_row(&mut self, tx: &mut Transaction, schema: &TableSchema, key: &Key) -> SqlResult<()> {
        let change = self.table_mut(schema.id)?.ghost_row(key);
        tx.record(schema.lifetime, schema.id, change);
        Ok(())
    }

    pub(super) fn ghost_entry(
        &mut self,
        tx: &mut Transaction,
        schema: &TableSchema,
        index: &Index,
        entry: &EntryKey,
    ) -> SqlResult<()> {
        let change = self.table_mut(schema.id)?.ghost_entry(index.id, &entry.key);
        tx.record(schema.lifetime, schema.id, change);
        Ok(())
    }

    pub(super) fn put_entry(
        &mut self,
        tx: &mut Transaction,
        schema: &TableSchema,
        index: &Index,
        entry: &EntryKey,
    ) -> SqlResult<()> {
        self.take_place_of_ghosts(tx, schema.id, index, entry);
        let change = self.table_mut(schema.id)?.put_entry(index.id, entry);
        tx.record(schema.lifetime, schema.id, change);
        Ok(())
    }

    /// The entries of a row of these values.
    pub(super) fn entries<'schema>(
        &mut self,
        schema: &'schema TableSchema,
        values: &[Value],
        key: &Key,
    ) -> SqlResult<Entries<'schema>> {
        let table = self.table_mut(schema.id)?;
        let mut entries = Vec::with_capacity(schema.indexes.len());
        for index in nonclustered(schema) {
            if let Some(entry) = table.entry_key(index, values, key)? {
                entries.push((index, entry));
            }
        }
        Ok(entries)
    }

    /// Takes X on a row and reads it; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn lock_row(&mut self, tx: &mut Transaction, table: ObjectId, key: &Key) -> SqlResult<Option<Row>> {
        self.lock_table(tx, table, LockMode::IntentExclusive, true)?;
        let schema = self.schema_of(table)?;
        self.lock_key(tx, &schema, row_resource(&schema, key))?;
        Ok(self.read(table, key))
    }

    /// Takes X on a row or an index entry; not if nobody else sees the table, nor if the whole table is locked.
    pub(super) fn lock_key(&mut self, tx: &mut Transaction, schema: &TableSchema, resource: Resource) -> SqlResult<()> {
        if !schema.lifetime.is_shared() || self.table_lock_covers(tx, schema.id, LockMode::Exclusive) {
            return Ok(());
        }
        let grant = self.acquire(tx, LockOwner::Transaction, resource, LockMode::Exclusive, tx.lock_timeout)?;
        if grant.new {
            self.count_key_lock(tx, resource);
        }
        Ok(())
    }
}
