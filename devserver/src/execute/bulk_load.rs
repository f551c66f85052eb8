//! Runs INSERT BULK: each row goes into the table as it comes from the client.

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Frame, Run};
use crate::execute::new_row::insert_row;
use crate::execute::statement_result::StatementResult;
use crate::execute::writable::{check_all_writable, lock_as_planned};
use crate::plan::bulk_load::BulkLoadPlan;
use crate::storage::OnDuplicateKey;
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
    lock_as_planned(&target.table, run)?;
    let mut result = StatementResult::default();
    while let Some(row) = next_row()? {
        let values = row.into_iter().zip(types).zip(&target.ordinals).map(|((value, ty), ordinal)| {
            // "NULL" in the data asks for the default, if there is one.
            let wants_default = value.is_null() && !plan.keep_nulls && schema.columns[*ordinal].default.is_some();
            if wants_default { None } else { Some((value, *ty)) }
        });
        let inserted =
            insert_row(run, frame, target, values, OnDuplicateKey::AsIndexSays, "INSERT").map_err(undocumented)?;
        match inserted {
            Some(_) => result.count += 1,
            None => result.ignored_duplicates = true,
        }
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
