//! Ghosts that outlive their transaction, as in SQL Server until its cleaner has passed.
//!
//! Usually the commit of a delete takes its ghosts away at once. While [`Database::keep_ghosts`] is on they stay:
//! nobody sees them, and every scan reads over them. An insert of the same key takes the ghost's place. The rows of a
//! heap leave no ghosts.
//!
//! When it is switched off the ghosts go, but for those that somebody's lock still needs: the gap before a key is
//! guarded by the key's lock, and nobody would find it without the key. They go when a transaction ends and the lock is
//! gone.
//!
//! Source: "Ghost cleanup process guide" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/ghost-record-cleanup-process-guide.md).

use super::database::{Database, Latch};
use super::entry_key::{EntryKey, entry_resource_of, row_resource};
use super::key::Key;
use super::locks::mode::LockMode;
use super::locks::resource::{IndexId, ObjectId, Resource};
use super::own_tables::is_own;
use super::schema::{FIRST_NONCLUSTERED, HEAP, Index};
use super::state::State;
use super::table::{Change, Table};
use super::transaction::Transaction;

impl Database {
    /// Switches whether committed deletes leave ghosts; off at first.
    pub fn keep_ghosts(&self, keep: bool) {
        let mut latch = self.latch();
        let state = latch.state();
        state.ghosts.keep = keep;
        state.ghosts.ever |= keep;
        if !keep && state.ghosts.ever {
            state.clean_all_ghosts();
        }
    }

    /// How many entries and rows scans have read in all sessions, ghosts included. See
    /// [`crate::DevServer::entries_read`].
    pub fn entries_read(&self) -> u64 {
        self.latch().state_ref().entries_read
    }
}

impl State {
    /// Whether the ghost that a committed change has left stays.
    pub(super) fn keeps_ghost(&self, table: ObjectId, change: &Change) -> bool {
        if !self.ghosts.keep {
            return false;
        }
        let Some(schema) = self.tables.get(&table).map(|table| &table.schema) else { return false };
        let stays = match change {
            Change::RowGhosted(_) => schema.clustered().is_some(),
            Change::EntryGhosted(..) => true,
            _ => false,
        };
        stays && schema.lifetime.is_shared()
    }

    /// A change is about to be taken back. An insert that had taken a ghost's place leaves the ghost there again.
    pub(super) fn note_undone(&mut self, table: ObjectId, change: &Change) {
        // A ghost that is kept may stay.
        if self.ghosts.keep || !self.ghosts.ever {
            return;
        }
        let place = match change {
            Change::RowRevived(key, _) => (table, row_index(self.tables.get(&table)), key.clone()),
            Change::EntryRevived(index, key) => (table, *index, key.clone()),
            _ => return,
        };
        self.ghosts.locked.push(place);
    }

    /// A transaction has ended: ghosts that waited for its locks can go.
    pub(super) fn clean_locked_ghosts(&mut self) {
        if self.ghosts.locked.is_empty() || self.ghosts.keep {
            return;
        }
        let mut locked = std::mem::take(&mut self.ghosts.locked);
        locked.retain(|(table, index, key)| !self.clean_ghost(*table, *index, key));
        self.ghosts.locked = locked;
    }

    fn clean_all_ghosts(&mut self) {
        let mut found = Vec::new();
        for (id, table) in self.tables.iter().filter(|(_, table)| table.schema.lifetime.is_shared()) {
            found.extend(table.ghost_keys().map(|(index, key)| (*id, index, Key::new(key))));
        }
        self.ghosts.locked.append(&mut found);
        self.clean_locked_ghosts();
    }

    /// Takes a ghost away unless somebody has locked it. True if there is none any more.
    fn clean_ghost(&mut self, id: ObjectId, index: IndexId, key: &Key) -> bool {
        let Some(table) = self.tables.get_mut(&id) else { return true };
        let Some(resource) = table.ghost_resource(index, key) else { return true };
        // Who has the whole table may have ghosts in it without locks of their own.
        let is_locked = self.locks.is_held(resource) || self.locks.is_held_exclusively(Resource::Table(id));
        if !is_locked {
            table.remove_ghost_at(index, key);
        }
        !is_locked
    }
}

fn row_index(table: Option<&Table>) -> IndexId {
    table.map_or(HEAP, |table| table.schema.row_index())
}

impl Table {
    fn ghost_keys(&self) -> impl Iterator<Item = (IndexId, &[u8])> {
        let rows = self.rows.iter().filter(|(_, record)| record.ghost).map(|(key, _)| (self.schema.row_index(), key));
        let entries = self.indexes.iter().flat_map(|tree| {
            let ghosts = tree.entries.iter().filter(|(_, entry)| entry.ghost);
            ghosts.map(|(key, _)| (tree.id, key))
        });
        rows.chain(entries)
    }

    /// The lock that belongs to a ghost; `None` if there is none at the key.
    fn ghost_resource(&self, index: IndexId, key: &Key) -> Option<Resource> {
        if index < FIRST_NONCLUSTERED {
            self.rows.get(key.as_bytes()).filter(|record| record.ghost)?;
            return Some(row_resource(&self.schema, key));
        }
        let entry = self.tree(index)?.entries.get(key.as_bytes()).filter(|entry| entry.ghost)?;
        let definition = self.schema.index(index)?;
        Some(entry_resource_of(self.schema.id, definition, key.as_bytes(), usize::from(entry.row_key_start)))
    }
}

impl Latch<'_> {
    /// A key is about to come into a unique index: what lies there of committed deletes makes place for it. Of one key
    /// SQL Server has one entry; here the row's key belongs to the entry, so that a new row's stands beside the ghost.
    pub(super) fn take_place_of_ghosts(&mut self, tx: &Transaction, table: ObjectId, index: &Index, entry: &EntryKey) {
        if !index.is_unique() || is_own(table) || !self.state_ref().ghosts.ever {
            return;
        }
        let Ok(storage) = self.table_mut(table) else { return };
        let mut ghosts = storage.ghosts_beside(index.id, entry);
        ghosts.retain(|key| {
            let is_own =
                |change: &Change| matches!(change, Change::EntryGhosted(id, own) if *id == index.id && own == key);
            !tx.undo.iter().any(|undo| undo.table == table && is_own(&undo.change))
        });
        for key in &ghosts {
            storage.remove_ghost_at(index.id, key);
        }
    }

    /// Whether a lock on an entry or row would be granted at once.
    pub(super) fn is_unlocked(&self, tx: &Transaction, resource: Resource, mode: LockMode) -> bool {
        self.state_ref().locks.is_free(tx.slot, resource, mode)
    }
}
