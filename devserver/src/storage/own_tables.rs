//! The tables that no other session sees: table variables and table-valued parameters. They need neither locks nor the
//! latch, so that a statement over nothing else runs beside those of other sessions.

use rustc_hash::FxHashMap;

use super::locks::resource::ObjectId;
use super::schema::TableSchema;
use super::table::{Table, Undo};
use crate::error::SqlResult;

/// The table variables of a session. Their numbers are negative, those of all other tables positive.
#[derive(Debug, Default)]
pub struct OwnTables {
    tables: FxHashMap<ObjectId, Table>,
    last_id: ObjectId,
}

/// Whether the number is that of a table variable.
pub(super) fn is_own(table: ObjectId) -> bool {
    table < 0
}

impl OwnTables {
    /// Makes the table of a table variable; it is there until [`OwnTables::remove`].
    ///
    /// # Errors
    ///
    /// What an index cannot be: 1900, 1902, 1913, 1916.
    pub fn create(&mut self, mut schema: TableSchema) -> SqlResult<ObjectId> {
        // A session that lives for long comes round to numbers that are free again.
        let mut id = self.last_id;
        loop {
            id = id.checked_sub(1).unwrap_or(-1);
            if !self.tables.contains_key(&id) {
                break;
            }
        }
        self.last_id = id;
        schema.id = id;
        schema.number_indexes()?;
        self.tables.insert(id, Table::new(schema.into()));
        Ok(id)
    }

    pub fn remove(&mut self, table: ObjectId) {
        self.tables.remove(&table);
    }

    /// How many there are.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.tables.len()
    }

    pub(super) fn get(&self, table: ObjectId) -> Option<&Table> {
        self.tables.get(&table)
    }

    pub(super) fn get_mut(&mut self, table: ObjectId) -> Option<&mut Table> {
        self.tables.get_mut(&table)
    }

    /// Takes changes back, the last one first.
    pub(super) fn undo(&mut self, changes: Vec<Undo>) {
        for Undo { table, change } in changes.into_iter().rev() {
            if let Some(table) = self.tables.get_mut(&table) {
                table.undo(change);
            }
        }
    }

    /// See `transaction.rs`.
    pub(super) fn remove_ghosts(&mut self, changes: &[Undo]) {
        for Undo { table, change } in changes {
            if let Some(table) = self.tables.get_mut(table) {
                table.remove_ghost(change);
            }
        }
    }
}
