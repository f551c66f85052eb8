//! UPDATE: rows become others, some under new keys.

use super::database::Latch;
use super::duplicate::duplicate_error;
use super::entry_key::{EntryKey, entry_resource, row_resource};
use super::key::Key;
use super::locks::mode::LockMode;
use super::locks::resource::ObjectId;
use super::row::Row;
use super::schema::{FilterTerm, Index, TableSchema};
use super::serializable::Arrival;
use super::transaction::Transaction;
use super::write::nonclustered;
use crate::error::SqlResult;
use crate::value::Value;

/// A row and what it becomes.
#[derive(Debug, Clone)]
pub struct RowChange {
    pub key: Key,
    /// All columns.
    pub values: Vec<Value>,
    /// The same as it will be kept.
    row: Row,
}

impl RowChange {
    /// # Errors
    ///
    /// As [`Latch::insert`] for a row that cannot be kept.
    pub fn new(schema: &TableSchema, key: Key, values: Vec<Value>) -> SqlResult<RowChange> {
        let row = Row::encode(&schema.columns, &values)?;
        Ok(RowChange { key, values, row })
    }
}

/// A change of one row, worked out.
struct Update<'update> {
    old_key: &'update Key,
    new_key: Key,
    new_values: &'update [Value],
    row: Row,
    touched: Vec<TouchedEntry<'update>>,
}

/// A row's entry in an index before and after. If they are the same, an included column changes.
struct TouchedEntry<'schema> {
    index: &'schema Index,
    old: Option<EntryKey>,
    new: Option<EntryKey>,
}

impl TouchedEntry<'_> {
    /// The entry that comes into the index.
    fn arrival(&self) -> Option<&EntryKey> {
        self.new.as_ref().filter(|_| self.old != self.new)
    }

    /// The key that the row gets in a unique index and does not have yet.
    fn new_unique_key(&self) -> Option<&EntryKey> {
        let new = self.new.as_ref().filter(|_| self.index.is_unique())?;
        let keeps_it = self.old.as_ref().is_some_and(|old| old.prefix() == new.prefix());
        (!keeps_it).then_some(new)
    }
}

impl Update<'_> {
    fn moves(&self) -> bool {
        self.new_key != *self.old_key
    }

    fn takes_unique_key(&self, schema: &TableSchema) -> bool {
        let takes_row_key = self.moves() && schema.clustered().is_some_and(Index::is_unique);
        takes_row_key || self.touched.iter().any(|touched| touched.new_unique_key().is_some())
    }
}

impl Latch<'_> {
    /// Changes the rows of one UPDATE statement, and says how many were still there. Given all of them at once, unique
    /// keys may move from one row to another, as `SET id = id + 1` does it.
    ///
    /// # Errors
    ///
    /// 2627 and 2601 (duplicate key), 1946 (key too long), and as [`Latch::lock_table`].
    pub fn update_rows(&mut self, tx: &mut Transaction, table: ObjectId, changes: &[RowChange]) -> SqlResult<usize> {
        self.lock_table(tx, table, LockMode::IntentExclusive, true)?;
        let schema = self.schema_of(table)?;
        let indexed = schema.indexed_columns();
        let mut changed = 0;
        // Rows that come into a unique index under a new key wait until the others have left theirs.
        let mut newcomers: Vec<Update<'_>> = Vec::new();
        for change in changes {
            self.count_row(tx)?;
            self.lock_key(tx, &schema, row_resource(&schema, &change.key))?;
            self.check_conflict(tx, table, &change.key)?;
            let Some(update) = self.prepare(&schema, &indexed, change)? else {
                continue;
            };
            changed += 1;
            if changes.len() > 1 && update.takes_unique_key(&schema) {
                self.leave(tx, &schema, &update)?;
                newcomers.push(update);
            } else {
                self.apply(tx, &schema, update)?;
            }
        }
        for newcomer in newcomers {
            self.arrive(tx, &schema, newcomer)?;
        }
        Ok(changed)
    }

    /// Works out what an update touches; `None` if the row is not there. Most updates change few columns and leave most
    /// indexes as they are.
    fn prepare<'update>(
        &mut self,
        schema: &'update TableSchema,
        indexed: &[bool],
        change: &'update RowChange,
    ) -> SqlResult<Option<Update<'update>>> {
        let table = self.table_mut(schema.id)?;
        let Some(old) = table.live_row(&change.key) else {
            return Ok(None);
        };
        let old_values = old.values_if(schema, |column| indexed[column]);
        let has_changed = |column: usize| old_values[column] != change.values[column];
        let new_key = table.changed_row_key(&change.key, &change.values)?;
        let moves = new_key != change.key;
        let mut touched = Vec::new();
        for index in nonclustered(schema) {
            let key_changes = index.key.iter().any(|key| has_changed(key.column));
            let includes_change = index.included.iter().any(|column| has_changed(*column));
            let mut filter_columns = index.filter.iter().flat_map(|filter| &filter.terms).map(FilterTerm::column);
            if !moves && !key_changes && !includes_change && !filter_columns.any(has_changed) {
                continue;
            }
            let old = table.entry_key(index, &old_values, &change.key)?;
            let new = table.entry_key(index, &change.values, &new_key)?;
            if old != new || includes_change {
                touched.push(TouchedEntry { index, old, new });
            }
        }
        let row = change.row.clone();
        Ok(Some(Update { old_key: &change.key, new_key, new_values: &change.values, row, touched }))
    }

    /// Locks what the update touches besides the row itself, looks for duplicates, and makes the change.
    fn apply(&mut self, tx: &mut Transaction, schema: &TableSchema, update: Update<'_>) -> SqlResult<()> {
        self.claim_row_key(tx, schema, &update)?;
        for touched in &update.touched {
            self.lock_old_entry(tx, schema, touched)?;
            self.claim_entry(tx, schema, touched, update.new_values)?;
        }
        self.test_gaps_of(tx, schema, &update)?;
        let first = tx.undo.len();
        self.remove_old(tx, schema, &update)?;
        self.put_new(tx, schema, update)?;
        self.keep_versions(tx, first);
        Ok(())
    }

    /// The first half of [`Latch::apply`]: the row leaves its keys.
    fn leave(&mut self, tx: &mut Transaction, schema: &TableSchema, update: &Update<'_>) -> SqlResult<()> {
        for touched in &update.touched {
            self.lock_old_entry(tx, schema, touched)?;
        }
        let first = tx.undo.len();
        self.remove_old(tx, schema, update)?;
        self.keep_versions(tx, first);
        Ok(())
    }

    /// The second half: the row comes to its new keys.
    fn arrive(&mut self, tx: &mut Transaction, schema: &TableSchema, update: Update<'_>) -> SqlResult<()> {
        self.claim_row_key(tx, schema, &update)?;
        for touched in &update.touched {
            self.claim_entry(tx, schema, touched, update.new_values)?;
        }
        self.test_gaps_of(tx, schema, &update)?;
        let first = tx.undo.len();
        self.put_new(tx, schema, update)?;
        self.keep_versions(tx, first);
        Ok(())
    }

    fn claim_row_key(&mut self, tx: &mut Transaction, schema: &TableSchema, update: &Update<'_>) -> SqlResult<()> {
        if !update.moves() {
            return Ok(());
        }
        self.test_gap(tx, schema, schema.row_index(), &update.new_key)?;
        self.lock_key(tx, schema, row_resource(schema, &update.new_key))?;
        match schema.clustered() {
            Some(clustered) if self.table_mut(schema.id)?.live_row(&update.new_key).is_some() => {
                Err(duplicate_error(schema, clustered, update.new_values))
            }
            _ => Ok(()),
        }
    }

    fn lock_old_entry(
        &mut self,
        tx: &mut Transaction,
        schema: &TableSchema,
        touched: &TouchedEntry<'_>,
    ) -> SqlResult<()> {
        match &touched.old {
            Some(old) => self.lock_key(tx, schema, entry_resource(schema.id, touched.index, old)),
            None => Ok(()),
        }
    }

    fn claim_entry(
        &mut self,
        tx: &mut Transaction,
        schema: &TableSchema,
        touched: &TouchedEntry<'_>,
        new_values: &[Value],
    ) -> SqlResult<()> {
        let Some(new) = touched.arrival() else { return Ok(()) };
        self.test_gap(tx, schema, touched.index.id, &new.key)?;
        self.lock_key(tx, schema, entry_resource(schema.id, touched.index, new))?;
        match touched.new_unique_key() {
            Some(new) if self.table_mut(schema.id)?.has_live_entry(touched.index.id, new.prefix()) => {
                Err(duplicate_error(schema, touched.index, new_values))
            }
            _ => Ok(()),
        }
    }

    fn test_gaps_of(&mut self, tx: &mut Transaction, schema: &TableSchema, update: &Update<'_>) -> SqlResult<()> {
        if !schema.lifetime.is_shared() || !self.state_ref().locks.has_ranges() {
            return Ok(());
        }
        let mut arrivals = Vec::new();
        if update.moves() {
            let (key, resource) = (&update.new_key, row_resource(schema, &update.new_key));
            arrivals.push(Arrival { index: schema.row_index(), key, resource });
        }
        for touched in &update.touched {
            arrivals.extend(touched.arrival().map(|entry| Arrival::of_entry(schema.id, touched.index, entry)));
        }
        self.test_gaps(tx, schema, &arrivals)
    }

    fn remove_old(&mut self, tx: &mut Transaction, schema: &TableSchema, update: &Update<'_>) -> SqlResult<()> {
        if update.moves() {
            self.ghost_row(tx, schema, update.old_key)?;
        }
        for TouchedEntry { index, old, new } in &update.touched {
            if let Some(entry) = old
                && old != new
            {
                self.ghost_entry(tx, schema, index, entry)?;
            }
        }
        Ok(())
    }

    fn put_new(&mut self, tx: &mut Transaction, schema: &TableSchema, update: Update<'_>) -> SqlResult<()> {
        let moves = update.moves();
        let table = self.table_mut(schema.id)?;
        let change = if moves {
            table.put_row(&update.new_key, update.row)
        } else {
            table.replace_row(update.old_key, update.row)
        };
        tx.record(schema.lifetime, schema.id, change);
        for TouchedEntry { index, old, new } in &update.touched {
            match new {
                // An included column changes.
                new if old == new => {}
                Some(new) => self.put_entry(tx, schema, index, new)?,
                None => {}
            }
        }
        Ok(())
    }
}
