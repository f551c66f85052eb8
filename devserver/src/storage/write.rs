//! Changing rows: X locks first, then the change, then an undo record for each piece of it.
//!
//! The order of the locks is SQL Server's: IX on the table, X on the row, X on every index entry that is touched (the
//! old one, the new one, and one that only an included column changes). All that can wait or fail comes before anything
//! is changed, so that a row is never half written.

use super::activity::IndexActivity;
use super::database::Latch;
use super::key::Key;
use super::lock_mode::LockMode;
use super::locks::{LockOwner, Resource};
use super::row::Row;
use super::schema::{FilterTerm, Index, IndexId, Lifetime, ObjectId, TableSchema, Uniqueness};
use super::serializable::Arrival;
use super::table::EntryKey;
use super::transaction::Transaction;
use crate::error::{SqlError, SqlResult};
use crate::value::{Value, format_for_message};

/// What became of an insert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserted {
    Row(Key),
    /// A unique index with IGNORE_DUP_KEY has the key already.
    DuplicateIgnored,
}

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

/// What to do with a duplicate key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDuplicateKey {
    /// INSERT: IGNORE_DUP_KEY decides.
    AsIndexSays,
    /// UPDATE and MERGE, which IGNORE_DUP_KEY does not concern.
    Fail,
}

/// The entries of a row, of those indexes that hold it.
type Entries<'schema> = Vec<(&'schema Index, EntryKey)>;

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

fn arrival<'a>(table: ObjectId, index: &Index, entry: &'a EntryKey) -> Arrival<'a> {
    Arrival { index: index.id, key: &entry.key, resource: entry_resource(table, index, entry) }
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

fn nonclustered(schema: &TableSchema) -> impl Iterator<Item = &Index> {
    schema.indexes.iter().filter(|index| !index.is_clustered())
}

pub(super) fn row_resource(schema: &TableSchema, key: &Key) -> Resource {
    Resource::key(schema.id, schema.row_index(), key.as_bytes())
}

/// What is locked of an index entry. Of a unique index it is the columns alone, so that a reader can lock a key that is
/// not there; the row's key belongs to it only where it tells entries apart.
pub(super) fn entry_resource_of(table: ObjectId, index: &Index, key: &[u8], row_key_start: usize) -> Resource {
    let bytes = if index.is_unique() { &key[..row_key_start] } else { key };
    Resource::key(table, index.id, bytes)
}

fn entry_resource(table: ObjectId, index: &Index, entry: &EntryKey) -> Resource {
    entry_resource_of(table, index, entry.key.as_bytes(), entry.row_key_start)
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
        self.count(schema, schema.row_index(), |counts| counts.inserts += 1);
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
        if schema.lifetime == Lifetime::Permanent && self.state_ref().locks.has_ranges() {
            let mut arrivals = vec![Arrival { index: schema.row_index(), key, resource: row_resource(schema, key) }];
            arrivals.extend(entries.iter().map(|(index, entry)| arrival(schema.id, index, entry)));
            self.test_gaps(tx, schema, &arrivals)?;
        }
        Ok(None)
    }

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
        if schema.lifetime != Lifetime::Permanent || !self.state_ref().locks.has_ranges() {
            return Ok(());
        }
        let mut arrivals = Vec::new();
        if update.moves() {
            let (key, resource) = (&update.new_key, row_resource(schema, &update.new_key));
            arrivals.push(Arrival { index: schema.row_index(), key, resource });
        }
        for touched in &update.touched {
            arrivals.extend(touched.arrival().map(|entry| arrival(schema.id, touched.index, entry)));
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
        self.count(schema, schema.row_index(), |counts| if moves { counts.inserts += 1 } else { counts.updates += 1 });
        for TouchedEntry { index, old, new } in &update.touched {
            match new {
                // An included column changes.
                new if old == new => self.count(schema, index.id, |counts| counts.updates += 1),
                Some(new) => self.put_entry(tx, schema, index, new)?,
                None => {}
            }
        }
        Ok(())
    }

    fn ghost_row(&mut self, tx: &mut Transaction, schema: &TableSchema, key: &Key) -> SqlResult<()> {
        let is_heap = schema.clustered().is_none();
        self.count(schema, schema.row_index(), |counts| if is_heap { counts.deletes += 1 } else { counts.ghosts += 1 });
        let change = self.table_mut(schema.id)?.ghost_row(key);
        tx.record(schema.lifetime, schema.id, change);
        Ok(())
    }

    fn ghost_entry(
        &mut self,
        tx: &mut Transaction,
        schema: &TableSchema,
        index: &Index,
        entry: &EntryKey,
    ) -> SqlResult<()> {
        self.count(schema, index.id, |counts| counts.ghosts += 1);
        let change = self.table_mut(schema.id)?.ghost_entry(index.id, &entry.key);
        tx.record(schema.lifetime, schema.id, change);
        Ok(())
    }

    fn put_entry(
        &mut self,
        tx: &mut Transaction,
        schema: &TableSchema,
        index: &Index,
        entry: &EntryKey,
    ) -> SqlResult<()> {
        self.take_place_of_ghosts(tx, schema.id, index, entry);
        self.count(schema, index.id, |counts| counts.inserts += 1);
        let change = self.table_mut(schema.id)?.put_entry(index.id, entry);
        tx.record(schema.lifetime, schema.id, change);
        Ok(())
    }

    /// Counts what is done to an index of a table that others see too.
    #[inline]
    fn count(&mut self, schema: &TableSchema, index: IndexId, count: impl FnOnce(&mut IndexActivity)) {
        if schema.lifetime == Lifetime::Permanent {
            count(self.state().activity.of(schema.id, index));
        }
    }

    /// The entries of a row of these values.
    fn entries<'schema>(
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
    fn lock_key(&mut self, tx: &mut Transaction, schema: &TableSchema, resource: Resource) -> SqlResult<()> {
        if schema.lifetime != Lifetime::Permanent || self.table_lock_covers(tx, schema.id, LockMode::Exclusive) {
            return Ok(());
        }
        if let Resource::Key { object, index, .. } = resource {
            self.state().activity.of(object, index).row_locks += 1;
        }
        let grant = self.acquire(tx, LockOwner::Transaction, resource, LockMode::Exclusive, tx.lock_timeout)?;
        if grant.new {
            self.count_key_lock(tx, resource);
        }
        Ok(())
    }
}

/// The name of a table as errors print it.
fn object_name(schema: &TableSchema) -> String {
    format!("{}.{}", schema.schema, schema.name)
}

/// A key as errors print it: `(1, abc)`.
pub(super) fn key_for_message(schema: &TableSchema, index: &Index, values: &[Value]) -> String {
    let columns = index.key.iter().map(|key| key.column);
    let texts: Vec<String> =
        columns.map(|column| format_for_message(&values[column], schema.columns[column].sql_type)).collect();
    format!("({})", texts.join(", "))
}

fn duplicate_error(schema: &TableSchema, index: &Index, values: &[Value]) -> SqlError {
    let object = object_name(schema);
    let name = &index.name;
    let key = key_for_message(schema, index, values);
    let constraint = match index.uniqueness {
        Uniqueness::PrimaryKey => "PRIMARY KEY",
        Uniqueness::UniqueConstraint => "UNIQUE KEY",
        Uniqueness::Index | Uniqueness::None => {
            let message = format!(
                "Cannot insert duplicate key row in object '{object}' with unique index '{name}'. The duplicate key \
                 value is {key}."
            );
            return SqlError::new(2601, message).severity(14);
        }
    };
    let message = format!(
        "Violation of {constraint} constraint '{name}'. Cannot insert duplicate key in object '{object}'. The duplicate \
         key value is {key}."
    );
    SqlError::new(2627, message).severity(14)
}

/// 1505: a unique index over rows that are not.
pub(super) fn duplicate_while_creating(schema: &TableSchema, index: &Index, values: &[Value]) -> SqlError {
    let message = format!(
        "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the object name '{}' and \
         the index name '{}'. The duplicate key value is {}.",
        object_name(schema),
        index.name,
        key_for_message(schema, index, values)
    );
    SqlError::new(1505, message)
}
