//! How a DDL statement changes tables: whether it may, and as one statement that the transaction can take back.

use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::plan::cell::Uses;
use crate::session::client_session::Session;
use crate::storage::{self, ObjectId};
use crate::value::now_utc;

impl Session {
    /// 3930 and 3906: nothing may be made or changed now.
    pub(crate) fn check_ddl_allowed(&self, is_temporary: bool) -> SqlResult<()> {
        if self.state.doomed {
            return Err(SqlError::new(
                3930,
                "The current transaction cannot be committed and cannot support operations that write to the log file. \
                 Roll back the transaction.",
            ));
        }
        if !is_temporary && self.database.is_read_only() {
            return Err(SqlError::new(
                3906,
                format!("Failed to update database \"{}\" because the database is read-only.", self.database.name),
            ));
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
            let storage = run.storage()?;
            f(&mut storage.latch, &mut storage.tx)
        });
        self.schema_changed();
        result
    }

    /// For the dates in the catalog views.
    pub(crate) fn note_table_change(&self, table: ObjectId) {
        self.database.catalog.write().note_table_change(table, now_utc());
    }

    /// The extended properties of a column go with it, to another name (`to`) or away.
    pub(crate) fn move_extended_properties(&mut self, table: ObjectId, column: &str, to: Option<&str>) {
        let undos = self.database.catalog.write().move_extended_properties(table, column, to);
        for undo in undos {
            self.keep_undo(undo);
        }
    }
}
