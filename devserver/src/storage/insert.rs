//! INSERT: a new row, with its keys claimed first.

use super::database::Latch;
use super::duplicate::duplicate_error;
use super::entry_key::{entry_resource, row_resource};
use super::key::Key;
use super::locks::mode::LockMode;
use super::locks::resource::ObjectId;
use super::row::Row;
use super::schema::{Index, TableSchema};
use super::serializable::Arrival;
use super::transaction::Transaction;
use super::write::Entries;
use crate::error::SqlResult;
use crate::value::Value;

/// What became of an insert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserted {
    Row(Key),
    /// A unique index with IGNORE_DUP_KEY has the key already.
    DuplicateIgnored,
}

/// What to do with a duplicate key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDuplicateKey {
    /// INSERT: IGNORE_DUP_KEY decides.
    AsIndexSays,
    /// UPDATE and MERGE, which IGNORE_DUP_KEY does not concern.
    Fail,
}

impl Latch<'_> {
    /// Inserts a row. The values are of their columns' types and NULL only where that is allowed.
    ///
    /// # Errors
    ///
    /// 2627 and 2601 (duplicate key), 1946 (key too long), and as [`Latch::lock_table`].
    pub fn insert(&mut self, tx: &mut Transaction, table: ObjectId, values: &[Value]) -> SqlResult<Inserted> {
        self.insert_or(tx, table, values, OnDuplicateKey::AsIndexSays)
    }

    /// As [`Latch::insert`]; MERGE knows no IGNORE_DUP_KEY.
    pub fn insert_or(
        &mut self,
        tx: &mut Transaction,
        table: ObjectId,
        values: &[Value],
        on_duplicate: OnDuplicateKey,
    ) -> SqlResult<Inserted> {
        self.count_row(tx)?;
        self.lock_table(tx, table, LockMode::IntentExclusive, true)?;
        let schema = self.schema_of(table)?;
        let key = self.table_mut(table)?.new_row_key(values)?;
        self.insert_at(tx, &schema, key, values, on_duplicate)
    }

    fn insert_at(
        &mut self,
        tx: &mut Transaction,
        schema: &TableSchema,
        key: Key,
        values: &[Value],
        on_duplicate: OnDuplicateKey,
    ) -> SqlResult<Inserted> {
        let row = Row::encode(&schema.columns, values)?;
        let entries = self.entries(schema, values, &key)?;
        if let Some(index) = self.claim_keys(tx, schema, &key, &entries)? {
            if index.options.ignore_dup_key && on_duplicate == OnDuplicateKey::AsIndexSays {
                return Ok(Inserted::DuplicateIgnored);
            }
            return Err(duplicate_error(schema, index, values));
        }
        let first = tx.undo.len();
        let change = self.table_mut(schema.id)?.put_row(&key, row);
        tx.record(schema.lifetime, schema.id, change);
        for (index, entry) in &entries {
            self.put_entry(tx, schema, index, entry)?;
        }
        self.keep_versions(tx, first);
        Ok(Inserted::Row(key))
    }

    /// Locks the keys of a new row and looks for duplicates, one after the other. Who holds X on a key knows for
    /// certain whether it is there. Gives the index that has the key already.
    fn claim_keys<'schema>(
        &mut self,
        tx: &mut Transaction,
        schema: &'schema TableSchema,
        key: &Key,
        entries: &Entries<'schema>,
    ) -> SqlResult<Option<&'schema Index>> {
        self.test_gap(tx, schema, schema.row_index(), key)?;
        self.lock_key(tx, schema, row_resource(schema, key))?;
        if let Some(clustered) = schema.clustered()
            && self.table_mut(schema.id)?.live_row(key).is_some()
        {
            return Ok(Some(clustered));
        }
        for (index, entry) in entries {
            self.test_gap(tx, schema, index.id, &entry.key)?;
            self.lock_key(tx, schema, entry_resource(schema.id, index, entry))?;
            if index.is_unique() && self.table_mut(schema.id)?.has_live_entry(index.id, entry.prefix()) {
                return Ok(Some(index));
            }
        }
        if schema.lifetime.is_shared() && self.state_ref().locks.has_ranges() {
            let mut arrivals = vec![Arrival { index: schema.row_index(), key, resource: row_resource(schema, key) }];
            arrivals.extend(entries.iter().map(|(index, entry)| Arrival::of_entry(schema.id, index, entry)));
            self.test_gaps(tx, schema, &arrivals)?;
        }
        Ok(None)
    }
}
