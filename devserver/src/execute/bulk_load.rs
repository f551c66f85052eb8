//! Runs INSERT BULK: each row goes into the table as it comes from the client.

use std::time::Duration;

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Frame, Run};
use crate::execute::new_row::insert_row;
use crate::execute::statement_result::StatementResult;
use crate::execute::writable::{check_all_writable, lock_as_planned};
use crate::plan::bulk_load::BulkLoadPlan;
use crate::storage::{LockMode, OnDuplicateKey};
use crate::value::{SqlType, Value};

/// `types`: those of the values in `next_row`, which gives one row after the other.
pub fn run_bulk_load(
    plan: &BulkLoadPlan,
    types: &[SqlType],
    next_row: &mut dyn FnMut() -> SqlResult<Option<Vec<Value>>>,
    run: &mut Run<'_>,
    frame: &mut Frame,
) -> SqlResult<StatementResult> {
    let target = &plan.target;
    let schema = &target.table.schema;
    check_all_writable(run, schema, &[])?;
    if plan.distrusts {
        // Only under Sch-M can a constraint lose its trust.
        let storage = run.storage()?;
        storage.latch.lock_as_planned(&mut storage.tx, schema, LockMode::SchemaModification)?;
        let table = run.table_id(target.table.place);
        let storage = run.storage()?;
        storage.latch.alter_schema(&mut storage.tx, table, |schema| {
            schema.checks.iter_mut().filter(|check| !check.disabled).for_each(|check| check.not_trusted = true);
            schema.foreign_keys.iter_mut().filter(|key| !key.disabled).for_each(|key| key.not_trusted = true);
        })?;
    }
    if plan.table_lock {
        lock_table(plan, run)?;
    }
    if !plan.distrusts {
        lock_as_planned(&target.table, run)?;
    }
    let mut result = StatementResult::default();
    let mut new_rows = Vec::new();
    let mut last_key = None;
    while let Some(row) = next_row()? {
        let values = row.into_iter().zip(types).zip(&target.ordinals).map(|((value, ty), ordinal)| {
            // "NULL" in the data asks for the default, if there is one.
            let wants_default = value.is_null() && !plan.keep_nulls && schema.columns[*ordinal].default.is_some();
            if wants_default { None } else { Some((value, *ty)) }
        });
        let inserted =
            insert_row(run, frame, target, values, OnDuplicateKey::AsIndexSays, "INSERT").map_err(undocumented)?;
        let Some((inserted, key)) = inserted else {
            result.ignored_duplicates = true;
            continue;
        };
        result.count += 1;
        if plan.in_key_order {
            if last_key.is_some_and(|last| key < last) {
                // 4819, with the keys of both rows in a form that is not documented.
                return Err(SqlError::not_supported("a bulk load whose rows are not in the order of its hint ORDER"));
            }
            last_key = Some(key);
        }
        if plan.foreign_keys.has_references() {
            let mut row = inserted;
            plan.foreign_keys.keep_referring(&mut row);
            new_rows.push(row);
        }
    }
    for row in &new_rows {
        plan.foreign_keys.check_row("INSERT", row, run)?;
    }
    Ok(result)
}

/// A value that is as it was announced, and does not convert to the column.
fn undocumented(error: SqlError) -> SqlError {
    match error.number {
        220 | 232 | 235 | 241 | 242 | 244 | 245 | 248 | 2628 | 8114 | 8115 | 8152 | 8169 | 8170 => {
            SqlError::not_supported(format!("a bulk load whose data gives error {}", error.number))
        }
        _ => error,
    }
}

/// TABLOCK. "A table can be loaded concurrently by multiple clients if the table has no indexes and TABLOCK is
/// specified": that mode, BU, is not known here. On a table that nobody else has a lock on, X does the same.
fn lock_table(plan: &BulkLoadPlan, run: &mut Run<'_>) -> SqlResult<()> {
    let table = run.table_id(plan.target.table.place);
    let has_indexes = !plan.target.table.schema.indexes.is_empty();
    let storage = run.storage()?;
    let timeout = storage.tx.lock_timeout;
    if !has_indexes {
        storage.tx.lock_timeout = Some(Duration::ZERO);
    }
    let locked = storage.latch.lock_table(&mut storage.tx, table, LockMode::Exclusive, true);
    storage.tx.lock_timeout = timeout;
    locked.map_err(|error| match error.number {
        1222 if !has_indexes => SqlError::not_supported(
            "TABLOCK of INSERT BULK on a table without indexes while another session has a lock on it",
        ),
        _ => error,
    })
}
