//! Taking a transaction's changes back, and taking its ghosts away when it commits.

use std::sync::Arc;

use super::locks::lock::Slot;
use super::locks::resource::LockOwner;
use super::state::State;
use super::table::{Change, Undo};

impl State {
    /// Applies undo records, the last one first.
    pub(super) fn undo(&mut self, changes: Vec<Undo>) {
        for undo in changes.into_iter().rev() {
            self.undo_one(undo);
        }
    }

    /// Applies undo records, but leaves ghosts of inserted keys whose range lock guards the gap before them: without
    /// the key nobody would find the lock. Returns the records of these ghosts.
    pub(super) fn undo_guarded(&mut self, slot: Slot, changes: Vec<Undo>) -> Vec<Undo> {
        let mut ghosts = Vec::new();
        for undo in changes.into_iter().rev() {
            let table = undo.table;
            match self.guarded_ghost(slot, &undo) {
                Some(ghost) => {
                    ghosts.push(undo);
                    ghosts.push(Undo { table, change: ghost });
                }
                None => self.undo_one(undo),
            }
        }
        ghosts
    }

    /// Turns what an undo record has inserted into a ghost, if a range lock is on its key.
    fn guarded_ghost(&mut self, slot: Slot, undo: &Undo) -> Option<Change> {
        let table = self.tables.get_mut(&undo.table)?;
        let resource = table.inserted_resource(&undo.change)?;
        let held = self.locks.held_mode(slot, LockOwner::Transaction, resource);
        held.filter(|mode| mode.is_range())?;
        match &undo.change {
            Change::RowInserted(key) => Some(table.ghost_row(key)),
            Change::EntryInserted(index, key) => Some(table.ghost_entry(*index, key)),
            _ => None,
        }
    }

    fn undo_one(&mut self, Undo { table, change }: Undo) {
        match change {
            Change::TableDropped(dropped) => {
                self.forget_drop(&dropped);
                self.add_name(&dropped.schema);
                self.tables.insert(table, *dropped);
            }
            Change::TableCreated => {
                if let Some(created) = self.tables.remove(&table) {
                    self.remove_name(&created.schema);
                }
            }
            Change::SchemaReplaced(before) => {
                if let Some(replaced) = self.tables.get(&table).map(|table| Arc::clone(&table.schema)) {
                    self.remove_name(&replaced);
                    self.add_name(&before);
                }
                if let Some(table) = self.tables.get_mut(&table) {
                    table.undo(Change::SchemaReplaced(before));
                }
            }
            change => {
                if let Some(table) = self.tables.get_mut(&table) {
                    table.undo(change);
                }
            }
        }
    }

    /// Takes away what the transaction has deleted, now that nobody can want it back.
    pub(super) fn remove_ghosts(&mut self, changes: &[Undo]) {
        for Undo { table, change } in changes {
            if self.keeps_ghost(*table, change) {
                continue;
            }
            let Some(table) = self.tables.get_mut(table) else {
                continue;
            };
            table.remove_ghost(change);
        }
    }

    pub(super) fn forget_drops(&mut self, changes: &[Undo]) {
        for Undo { change, .. } in changes {
            if let Change::TableDropped(dropped) = change {
                self.forget_drop(dropped);
            }
        }
    }
}
