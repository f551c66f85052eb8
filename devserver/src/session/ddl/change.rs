//! How a DDL statement changes tables: whether it may, and as one statement that the transaction can take back.

use std::sync::Arc;

use crate::error::SqlResult;
use crate::execute::activation::Activation;
use crate::execute::writable::{doomed, read_only};
use crate::plan::cached_plan::Uses;
use crate::session::client_session::Session;
use crate::storage::{self, LockMode, ObjectId, TableSchema};
use crate::value::now_utc;

impl Session {
    /// 3930 and 3906: nothing may be made or changed now.
    pub(crate) fn check_ddl_allowed(&self, is_temporary: bool) -> SqlResult<()> {
        if self.state.doomed {
            return Err(doomed());
        }
        if !is_temporary && self.database.is_read_only() {
            return Err(read_only(&self.database.name));
        }
        Ok(())
    }

    /// Changes tables in the storage, as one statement.
    pub(crate) fn table_change<T>(
        &mut self,
        activation: &mut Activation,
        f: impl FnOnce(&mut storage::Latch<'_>, &mut storage::Transaction) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let result = self.with_run(Uses::Database, activation, |run| {
            let database = run.database;
            let storage = run.storage()?;
            let result = f(&mut storage.latch, &mut storage.tx);
            // Whoever gets the table's lock next must find that the plan it came with is an old one.
            database.changed();
            result
        });
        self.schema_changed();
        result
    }

    /// Changes a table under Sch-M, as one statement, from the schema that it has when the lock is granted.
    pub(crate) fn under_table_lock<T>(
        &mut self,
        table: ObjectId,
        activation: &mut Activation,
        f: impl FnOnce(&mut Session, &Arc<TableSchema>, &mut Activation) -> SqlResult<T>,
    ) -> SqlResult<T> {
        self.under_table_lock_of(LockMode::SchemaModification, table, activation, f)
    }

    pub(crate) fn under_table_lock_of<T>(
        &mut self,
        mode: LockMode,
        table: ObjectId,
        activation: &mut Activation,
        f: impl FnOnce(&mut Session, &Arc<TableSchema>, &mut Activation) -> SqlResult<T>,
    ) -> SqlResult<T> {
        self.atomically(|session| {
            session.with_run(Uses::Database, activation, |run| {
                let storage = run.storage()?;
                storage.latch.lock_table(&mut storage.tx, table, mode, true)
            })?;
            let schema = session.stored_schema(table)?;
            f(session, &schema, activation)
        })
    }

    /// For the dates in the catalog views.
    pub(crate) fn note_table_change(&self, table: ObjectId) {
        self.database.catalog.write().note_table_change(table, now_utc());
    }
}
