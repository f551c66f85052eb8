//! Whether a table may be changed now.

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::Run;
use crate::plan::change::OutputPlan;
use crate::plan::query::{TableHandle, TableLocation};
use crate::storage::{Lifetime, LockMode, TableSchema};
use crate::tsql::ast::IsolationLevel;

/// 3930.
pub(crate) fn doomed() -> SqlError {
    let message = "The current transaction cannot be committed and cannot support operations that write to the log file. \
                   Roll back the transaction.";
    SqlError::new(3930, message)
}

/// 3906.
pub(crate) fn read_only(database: &str) -> SqlError {
    let message = format!("Failed to update database \"{database}\" because the database is read-only.");
    SqlError::new(3906, message)
}

/// 3906 and 3930: nothing may be changed now.
pub(crate) fn check_writable(run: &Run<'_>, schema: &TableSchema) -> SqlResult<()> {
    if schema.lifetime == Lifetime::Variable {
        return Ok(());
    }
    if run.state.doomed {
        return Err(doomed());
    }
    if schema.lifetime == Lifetime::Permanent && run.database.is_read_only() {
        return Err(read_only(&run.database.name));
    }
    Ok(())
}

/// The same for the target and for what OUTPUT writes to.
pub(crate) fn check_all_writable(run: &mut Run<'_>, schema: &TableSchema, outputs: &[OutputPlan]) -> SqlResult<()> {
    check_writable(run, schema)?;
    if schema.lifetime == Lifetime::Permanent {
        let is_snapshot = run.state.options.isolation == IsolationLevel::Snapshot;
        let database = run.database;
        let storage = run.storage()?;
        storage.latch.use_data(&mut storage.tx, is_snapshot, &database.name)?;
    }
    for into in outputs.iter().filter_map(|output| output.into.as_ref()) {
        check_writable(run, &into.table.schema)?;
        lock_as_planned(&into.table, run)?;
    }
    Ok(())
}

/// Before a statement writes its first row into a table that others can change.
pub(crate) fn lock_as_planned(table: &TableHandle, run: &mut Run<'_>) -> SqlResult<()> {
    match table.place {
        TableLocation::Stored(_) => {
            let storage = run.storage()?;
            storage.latch.lock_as_planned(&mut storage.tx, &table.schema, LockMode::IntentExclusive)
        }
        TableLocation::Variable(_) => Ok(()),
    }
}
