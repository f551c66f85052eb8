//! Ghosts that outlive their transaction, as in SQL Server until its cleaner has passed.
//!
//! Usually the commit of a delete takes its ghosts away at once. After [`Database::keep_ghosts`] they stay:
//! nobody sees them, and every scan reads over them. An insert of the same key takes the ghost's place. The rows of a
//! heap leave no ghosts.
//!
//! Source: "Ghost cleanup process guide" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/ghost-record-cleanup-process-guide.md).

use super::database::{Database, Latch};
use super::entry_key::EntryKey;
use super::locks::mode::LockMode;
use super::locks::resource::{ObjectId, Resource};
use super::own_tables::is_own;
use super::schema::Index;
use super::state::State;
use super::table::Change;
use super::transaction::Transaction;

impl Database {
    /// From now on committed deletes leave ghosts.
    pub fn keep_ghosts(&self) {
        self.latch().state().keep_ghosts = true;
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
        if !self.keep_ghosts {
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
}

impl Latch<'_> {
    /// A key is about to come into a unique index: what lies there of committed deletes makes place for it. Of one key
    /// SQL Server has one entry; here the row's key belongs to the entry, so that a new row's stands beside the ghost.
    pub(super) fn take_place_of_ghosts(&mut self, tx: &Transaction, table: ObjectId, index: &Index, entry: &EntryKey) {
        if !index.is_unique() || is_own(table) || !self.state_ref().keep_ghosts {
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
