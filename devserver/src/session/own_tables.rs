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

    /// Whether a `##temp` table that the session has made is still there.
    pub(crate) fn has_global_tables(&mut self) -> bool {
        if !self.global_tables.is_empty() {
            let latch = self.database.storage.latch();
            self.global_tables.retain(|(_, table)| latch.schema(*table).is_some());
        }
        !self.global_tables.is_empty()
    }

    /// The session ends, and with it its `##temp` tables: each as soon as nobody's locks are in the way.
    ///
    /// Source: "CREATE TABLE", temporary tables (MicrosoftDocs/sql-docs,
    /// docs/t-sql/statements/create-table-transact-sql.md).
    pub(crate) fn drop_global_tables(&mut self) {
        if !self.has_global_tables() {
            return;
        }
        let database = Arc::clone(&self.database);
        // Whoever has killed the session has not killed this.
        let place = database.storage.open_session(self.state.spid);
        let own = self.tx.take();
        let is_autocommit = own.is_none();
        let mut tx = own.unwrap_or_else(|| Transaction::begin(&place));
        tx.lock_timeout = None;
        let mut latch = database.storage.latch();
        for (name, table) in std::mem::take(&mut self.global_tables) {
            // It fails if the table is gone meanwhile, or when the server stops.
            if latch.drop_table(&mut tx, table).is_ok() {
                database.server.global_names.remove(&name, table);
            }
        }
        if is_autocommit {
            latch.commit(tx);
        } else {
            self.tx = Some(tx);
        }
        drop(latch);
        database.storage.close_session(place);
        database.changed();
    }
}
