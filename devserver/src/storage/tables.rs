//! The tables as a statement finds them: by name, by number, with their schema.

use std::sync::Arc;

use super::database::Latch;
use super::key::Key;
use super::locks::mode::LockMode;
use super::locks::resource::{ObjectId, Resource};
use super::own_tables::is_own;
use super::row::Row;
use super::schema::{Lifetime, TableSchema, fold};
use super::table::Table;
use super::transaction::Transaction;
use crate::error::{SqlError, SqlResult};

impl Latch<'_> {
    /// A permanent table by name, without any lock.
    pub fn find_table(&self, schema: &str, name: &str) -> Option<ObjectId> {
        self.state_ref().names.get(&(fold(schema), fold(name))).copied()
    }

    /// A permanent table by name, locked in `mode` until the statement ends (IX and stronger: until the transaction
    /// ends). From here on its schema cannot change. `None` if there is no such table.
    ///
    /// # Errors
    ///
    /// As a wait for a lock can end: see [`Latch::lock_table`].
    pub fn open_table(
        &mut self,
        tx: &mut Transaction,
        schema: &str,
        name: &str,
        mode: LockMode,
    ) -> SqlResult<Option<ObjectId>> {
        let name = (fold(schema), fold(name));
        loop {
            let found = self.state().names.get(&name).copied();
            // Somebody (not this session, whose own Sch-M lock would be no obstacle) may be dropping it.
            let dropping = || {
                let id = self.state_ref().dropping.get(&name).copied();
                id.filter(|id| {
                    !self.state_ref().locks.is_free(tx.slot, Resource::Table(*id), LockMode::SchemaStability)
                })
            };
            let Some(table) = found.or_else(dropping) else {
                return Ok(None);
            };
            self.lock_table(tx, table, mode, false)?;
            // While it waited the name may have come to mean something else.
            if self.state().names.get(&name) == Some(&table) {
                return Ok(Some(table));
            }
        }
    }

    pub fn schema(&self, table: ObjectId) -> Option<&Arc<TableSchema>> {
        self.table(table).map(Table::schema)
    }

    pub fn table(&self, table: ObjectId) -> Option<&Table> {
        if is_own(table) {
            return self.own_tables_ref()?.get(table);
        }
        self.state_ref().tables.get(&table)
    }

    /// The table, which the caller knows to exist because it is locked or its own.
    pub(super) fn table_mut(&mut self, table: ObjectId) -> SqlResult<&mut Table> {
        let found = if is_own(table) {
            self.own_tables().and_then(|own| own.get_mut(table))
        } else {
            self.state().tables.get_mut(&table)
        };
        found.ok_or_else(|| no_such_table(table))
    }

    /// The schema for a running statement, which keeps it while the latch goes to others.
    pub(super) fn schema_of(&self, table: ObjectId) -> SqlResult<Arc<TableSchema>> {
        self.schema(table).cloned().ok_or_else(|| no_such_table(table))
    }

    /// The permanent tables, in the order of their numbers.
    pub fn tables(&self) -> Vec<Arc<TableSchema>> {
        self.tables_that_live(Lifetime::Permanent)
    }

    /// The tables of one lifetime, in the order of their numbers.
    pub fn tables_that_live(&self, lifetime: Lifetime) -> Vec<Arc<TableSchema>> {
        let mut tables: Vec<_> = self.state_ref().tables.values().map(|table| Arc::clone(&table.schema)).collect();
        tables.retain(|schema| schema.lifetime == lifetime);
        tables.sort_by_key(|schema| schema.id);
        tables
    }

    /// A number for a new catalog object.
    pub fn new_object_id(&mut self) -> ObjectId {
        let id = self.state().next_object_id;
        self.state().next_object_id += 1;
        id
    }

    /// The next value of the database's rowversion counter.
    pub fn next_row_version(&mut self) -> u64 {
        self.state().row_version += 1;
        self.state().row_version
    }

    /// A row by its key, without any lock.
    pub fn read(&self, table: ObjectId, key: &Key) -> Option<Row> {
        self.table(table)?.live_row(key).cloned()
    }
}

fn no_such_table(table: ObjectId) -> SqlError {
    SqlError::new(208, format!("Invalid object name '(object id {table})'."))
}
