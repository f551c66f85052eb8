//! A table's rows and index entries, without locks and without transactions: each change hands back what would undo it.
//!
//! Rows stand in the clustered index (or, in a heap, in the order they came); a non-clustered entry is the index key
//! followed by the row's key. Deleting leaves a ghost, see `transaction.rs`.

use std::ops::Bound;
use std::sync::Arc;

use super::entry_key::{EntryKey, check_key_length, encode_columns, entry_resource_of, row_resource};
use super::key::Key;
use super::locks::resource::{IndexId, ObjectId, Resource};
use super::row::Row;
use super::schema::{FIRST_NONCLUSTERED, Index, TableSchema};
use super::tree::Tree;
use crate::error::SqlResult;
use crate::value::Value;

/// A stored row, or what is left of it until its deletion commits.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) row: Row,
    pub(super) ghost: bool,
}

/// An entry of a non-clustered index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Where the row's key begins in the entry's key.
    pub(super) row_key_start: u16,
    pub(super) ghost: bool,
}

/// A non-clustered index.
#[derive(Debug, Clone)]
pub(super) struct IndexTree {
    pub(super) id: IndexId,
    pub(super) entries: Tree<Entry>,
    /// The entries that are no ghosts.
    live: usize,
}

/// A table with its rows.
#[derive(Debug, Clone)]
pub struct Table {
    pub(super) schema: Arc<TableSchema>,
    pub(super) rows: Tree<Record>,
    live: usize,
    /// One for each non-clustered index of the schema.
    pub(super) indexes: Vec<IndexTree>,
    /// The row id of the next row of a heap, or the uniquifier of a non-unique clustered index.
    next_row_id: u64,
    pub(super) identity: IdentityCounter,
}

/// Where the identity column of a table stands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct IdentityCounter {
    /// The last value given; `None` before the first.
    pub(super) last: Option<i64>,
    /// The first value to give, where DBCC CHECKIDENT has set another than the seed.
    pub(super) first: Option<i64>,
}

/// How to take one change back.
#[derive(Debug)]
pub(super) struct Undo {
    pub(super) table: ObjectId,
    pub(super) change: Change,
}

#[derive(Debug)]
pub(super) enum Change {
    RowInserted(Key),
    RowGhosted(Key),
    /// A row was inserted where a ghost lay, mostly the transaction's own; holds the ghost's row.
    RowRevived(Key, Row),
    /// Holds the row as it was.
    RowReplaced(Key, Row),
    EntryInserted(IndexId, Key),
    EntryGhosted(IndexId, Key),
    EntryRevived(IndexId, Key),
    TableCreated,
    TableDropped(Box<Table>),
    Truncated(Box<Table>),
    IdentityReseeded(IdentityCounter),
    SchemaReplaced(Arc<TableSchema>),
    IndexCreated(IndexId, Arc<TableSchema>),
    IndexDropped(IndexTree, Arc<TableSchema>),
}

impl Table {
    pub(super) fn new(schema: Arc<TableSchema>) -> Self {
        let nonclustered = schema.indexes.iter().filter(|index| !index.is_clustered());
        let indexes = nonclustered.map(|index| IndexTree::new(index.id)).collect();
        Table { schema, rows: Tree::default(), live: 0, indexes, next_row_id: 1, identity: IdentityCounter::default() }
    }

    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The number of rows; those that uncommitted transactions have inserted count, those they have deleted do not.
    pub fn row_count(&self) -> usize {
        self.live
    }

    /// The number of entries of an index; `None` if there is no such index.
    pub fn index_entry_count(&self, index: IndexId) -> Option<usize> {
        if index < FIRST_NONCLUSTERED {
            return (index == self.schema.row_index()).then_some(self.live);
        }
        self.tree(index).map(|tree| tree.live)
    }

    pub(super) fn tree(&self, index: IndexId) -> Option<&IndexTree> {
        self.indexes.iter().find(|tree| tree.id == index)
    }

    fn tree_mut(&mut self, index: IndexId) -> Option<&mut IndexTree> {
        self.indexes.iter_mut().find(|tree| tree.id == index)
    }

    /// The row, if it is there and no ghost.
    pub(super) fn live_row(&self, key: &Key) -> Option<&Row> {
        self.rows.get(key.as_bytes()).filter(|record| !record.ghost).map(|record| &record.row)
    }

    /// The key for a new row of these values.
    pub(super) fn new_row_key(&mut self, values: &[Value]) -> SqlResult<Key> {
        let Some(clustered) = self.schema.clustered() else {
            let id = self.next_row_id;
            self.next_row_id += 1;
            return Ok(Key::new(&id.to_be_bytes()));
        };
        check_key_length(&self.schema, clustered, values)?;
        let id = (!clustered.is_unique()).then_some(self.next_row_id);
        let key = Key::encode(|bytes| {
            encode_columns(&self.schema, clustered, values, bytes);
            bytes.extend(id.iter().flat_map(|id| id.to_be_bytes()));
        });
        if id.is_some() {
            self.next_row_id += 1;
        }
        Ok(key)
    }

    /// The key that a row gets when its values change: the row id or uniquifier stays.
    pub(super) fn changed_row_key(&self, old: &Key, values: &[Value]) -> SqlResult<Key> {
        let Some(clustered) = self.schema.clustered() else {
            return Ok(old.clone());
        };
        check_key_length(&self.schema, clustered, values)?;
        Ok(Key::encode(|bytes| {
            encode_columns(&self.schema, clustered, values, bytes);
            if !clustered.is_unique() {
                let old = old.as_bytes();
                bytes.extend_from_slice(&old[old.len() - size_of::<u64>()..]);
            }
        }))
    }

    /// The entry of a row in a non-clustered index; `None` if the index's filter keeps it out.
    pub(super) fn entry_key(&self, index: &Index, values: &[Value], row_key: &Key) -> SqlResult<Option<EntryKey>> {
        if index.filter.as_ref().is_some_and(|filter| !filter.accepts(&self.schema.columns, values)) {
            return Ok(None);
        }
        check_key_length(&self.schema, index, values)?;
        let mut row_key_start = 0;
        let key = Key::encode(|bytes| {
            encode_columns(&self.schema, index, values, bytes);
            row_key_start = bytes.len();
            bytes.extend_from_slice(row_key.as_bytes());
        });
        Ok(Some(EntryKey { key, row_key_start }))
    }

    /// Whether a unique index has a live entry that begins with `prefix`.
    pub(super) fn has_live_entry(&self, index: IndexId, prefix: &[u8]) -> bool {
        let Some(tree) = self.tree(index) else { return false };
        // Ghosts may lie before it: a key that was deleted, and inserted again with another row.
        let mut next = tree.entries.next(Bound::Included(prefix));
        while let Some((key, entry)) = next.filter(|(key, _)| key.starts_with(prefix)) {
            if !entry.ghost {
                return true;
            }
            next = tree.entries.next(Bound::Excluded(key));
        }
        false
    }

    pub(super) fn put_row(&mut self, key: &Key, row: Row) -> Change {
        self.live += 1;
        match self.rows.insert(key.as_bytes(), Record { row, ghost: false }) {
            None => Change::RowInserted(key.clone()),
            Some(before) => {
                debug_assert!(before.ghost, "the caller has looked for duplicates");
                Change::RowRevived(key.clone(), before.row)
            }
        }
    }

    pub(super) fn replace_row(&mut self, key: &Key, row: Row) -> Change {
        let record = self.rows.get_mut(key.as_bytes()).expect("the caller holds the row locked");
        Change::RowReplaced(key.clone(), std::mem::replace(&mut record.row, row))
    }

    pub(super) fn ghost_row(&mut self, key: &Key) -> Change {
        let record = self.rows.get_mut(key.as_bytes()).expect("the caller holds the row locked");
        record.ghost = true;
        self.live -= 1;
        Change::RowGhosted(key.clone())
    }

    pub(super) fn put_entry(&mut self, index: IndexId, entry: &EntryKey) -> Change {
        let tree = self.tree_mut(index).expect("the index is in the schema");
        if tree.put(entry) {
            Change::EntryRevived(index, entry.key.clone())
        } else {
            Change::EntryInserted(index, entry.key.clone())
        }
    }

    pub(super) fn ghost_entry(&mut self, index: IndexId, key: &Key) -> Change {
        let tree = self.tree_mut(index).expect("the index is in the schema");
        tree.set_ghost(key, true);
        Change::EntryGhosted(index, key.clone())
    }

    /// The lock on the key that an insert has brought into a tree; `None` if the change is no insert.
    pub(super) fn inserted_resource(&self, change: &Change) -> Option<Resource> {
        match change {
            Change::RowInserted(key) => Some(row_resource(&self.schema, key)),
            Change::EntryInserted(index, key) => {
                let entry = self.tree(*index)?.entries.get(key.as_bytes())?;
                let index = self.schema.index(*index)?;
                let row_key_start = usize::from(entry.row_key_start);
                Some(entry_resource_of(self.schema.id, index, key.as_bytes(), row_key_start))
            }
            _ => None,
        }
    }

    /// Takes away what a change has left for others to be blocked by.
    pub(super) fn remove_ghost(&mut self, change: &Change) {
        match change {
            Change::RowGhosted(key) => self.remove_row_ghost(key),
            Change::EntryGhosted(index, key) => self.remove_entry_ghost(*index, key),
            _ => {}
        }
    }

    fn remove_row_ghost(&mut self, key: &Key) {
        if self.rows.get(key.as_bytes()).is_some_and(|record| record.ghost) {
            self.rows.remove(key.as_bytes());
        }
    }

    fn remove_entry_ghost(&mut self, index: IndexId, key: &Key) {
        let Some(tree) = self.tree_mut(index) else { return };
        if tree.entries.get(key.as_bytes()).is_some_and(|entry| entry.ghost) {
            tree.entries.remove(key.as_bytes());
        }
    }

    /// Takes away the ghost at a key, if there is one.
    pub(super) fn remove_ghost_at(&mut self, index: IndexId, key: &Key) {
        if index < FIRST_NONCLUSTERED { self.remove_row_ghost(key) } else { self.remove_entry_ghost(index, key) }
    }

    /// The ghosts under the same key of a unique index as `entry`, but for one in its very place.
    pub(super) fn ghosts_beside(&self, index: IndexId, entry: &EntryKey) -> Vec<Key> {
        let mut ghosts = Vec::new();
        let Some(tree) = self.tree(index) else { return ghosts };
        let prefix = entry.prefix();
        let mut next = tree.entries.next(Bound::Included(prefix));
        while let Some((key, found)) = next.filter(|(key, _)| key.starts_with(prefix)) {
            if found.ghost && key != entry.key.as_bytes() {
                ghosts.push(Key::new(key));
            }
            next = tree.entries.next(Bound::Excluded(key));
        }
        ghosts
    }

    /// Takes one change back. Creation and drop of the table itself are the database's.
    pub(super) fn undo(&mut self, change: Change) {
        match change {
            Change::RowInserted(key) => {
                self.rows.remove(key.as_bytes());
                self.live -= 1;
            }
            Change::RowGhosted(key) => {
                let record = self.rows.get_mut(key.as_bytes()).expect("a ghost stays until its transaction ends");
                record.ghost = false;
                self.live += 1;
            }
            Change::RowRevived(key, row) => {
                self.rows.insert(key.as_bytes(), Record { row, ghost: true });
                self.live -= 1;
            }
            Change::RowReplaced(key, row) => {
                self.rows.get_mut(key.as_bytes()).expect("a changed row stays until its transaction ends").row = row;
            }
            Change::EntryInserted(index, key) => {
                if let Some(tree) = self.tree_mut(index) {
                    tree.entries.remove(key.as_bytes());
                    tree.live -= 1;
                }
            }
            Change::EntryGhosted(index, key) => {
                if let Some(tree) = self.tree_mut(index) {
                    tree.set_ghost(&key, false);
                }
            }
            Change::EntryRevived(index, key) => {
                if let Some(tree) = self.tree_mut(index) {
                    tree.set_ghost(&key, true);
                }
            }
            Change::Truncated(before) => *self = *before,
            Change::IdentityReseeded(before) => self.identity = before,
            Change::SchemaReplaced(schema) => self.schema = schema,
            Change::IndexCreated(index, schema) => {
                self.indexes.retain(|tree| tree.id != index);
                self.schema = schema;
            }
            Change::IndexDropped(tree, schema) => {
                self.indexes.push(tree);
                self.schema = schema;
            }
            Change::TableCreated | Change::TableDropped(_) => unreachable!("undone by the database"),
        }
    }
}

impl IndexTree {
    pub(super) fn new(id: IndexId) -> Self {
        IndexTree { id, entries: Tree::default(), live: 0 }
    }

    /// Adds an entry. True if its ghost lay there.
    pub(super) fn put(&mut self, entry: &EntryKey) -> bool {
        self.live += 1;
        let live = Entry { row_key_start: entry.row_key_start as u16, ghost: false };
        let before = self.entries.insert(entry.key.as_bytes(), live);
        debug_assert!(before.is_none_or(|before| before.ghost), "a row has one entry in an index");
        before.is_some()
    }

    fn set_ghost(&mut self, key: &Key, ghost: bool) {
        let entry = self.entries.get_mut(key.as_bytes()).expect("an entry stays until its transaction ends");
        entry.ghost = ghost;
        if ghost {
            self.live -= 1;
        } else {
            self.live += 1;
        }
    }

    /// The number of entries that are no ghosts.
    pub(super) fn live(&self) -> usize {
        self.live
    }
}
