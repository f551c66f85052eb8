//! The tables that go with their session or their procedure: table variables and `#temp` tables.

use std::sync::Arc;

use crate::error::SqlResult;
use crate::execute::activation::Activation;
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

    /// Drops the `#temp` tables made at a nesting level or deeper.
    pub(crate) fn drop_temporary_tables(&mut self, level: u32) {
        let mut dropped = Vec::new();
        self.state.temporary_tables.retain(|table| {
            if table.level >= level {
                dropped.push(table.id);
            }
            table.level < level
        });
        if !dropped.is_empty() {
            self.drop_tables(&dropped);
        }
    }
}
