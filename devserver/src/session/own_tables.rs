//! The tables that go with their session or their procedure: table variables and `#temp` tables.

use std::sync::Arc;

use crate::error::SqlResult;
use crate::execute::activation::Activation;
use crate::execute::session_state::TemporaryTable;
use crate::session::client_session::Session;
use crate::storage::{Lifetime, ObjectId, TableSchema, Transaction};

impl Session {
    /// The table of a table variable.
    pub(crate) fn create_table_variable(&mut self, template: &TableSchema) -> SqlResult<ObjectId> {
        self.own_tables.create(TableSchema { lifetime: Lifetime::Variable, ..template.clone() })
    }

    pub(crate) fn drop_table_variables(&mut self, activation: &mut Activation) {
        for table in activation.owned_tables.drain(..) {
            self.own_tables.remove(table);
        }
    }

    fn drop_tables(&mut self, tables: &[ObjectId]) {
        let database = Arc::clone(&self.database);
        let mut latch = database.storage.latch();
        let mut own = None;
        let tx = match &mut self.tx {
            Some(tx) => tx,
            None => own.insert(Transaction::begin(self.storage())),
        };
        for table in tables {
            // It can only fail if the table is gone already.
            let _ = latch.drop_table(tx, *table);
        }
        if let Some(tx) = own {
            latch.commit(tx);
        }
    }

    /// After a rollback: `#temp` tables whose DROP was taken back have their names again, and those that were made have
    /// none.
    pub(crate) fn undo_temporary_names(&mut self) {
        let latch = self.database.storage.latch();
        let is_there = |table: &TemporaryTable| latch.schema(table.id).is_some();
        self.state.temporary_tables.retain(is_there);
        let (mut back, gone) = self.dropped_temporary.drain(..).partition::<Vec<_>, _>(is_there);
        self.dropped_temporary = gone;
        self.state.temporary_tables.append(&mut back);
        let ended: Vec<ObjectId> =
            self.ended_temporary.iter().copied().filter(|table| latch.schema(*table).is_some()).collect();
        drop(latch);
        if !ended.is_empty() {
            self.drop_tables(&ended);
        }
    }

    /// Drops the `#temp` tables made at a nesting level or deeper.
    pub(crate) fn drop_temporary_tables(&mut self, level: u32) {
        let mut dropped = Vec::new();
        self.state.temporary_tables.retain(|table| {
            if table.level >= level {
                dropped.push(table.id);
            }
            table.level < level
        });
        let (ended, kept) = self.dropped_temporary.drain(..).partition::<Vec<_>, _>(|table| table.level >= level);
        self.dropped_temporary = kept;
        if self.tx.is_some() && !(dropped.is_empty() && ended.is_empty()) {
            self.ended_temporary.extend(dropped.iter().copied().chain(ended.iter().map(|table| table.id)));
            self.has_changed_schema = true;
        }
        if !dropped.is_empty() {
            self.drop_tables(&dropped);
        }
    }
}
