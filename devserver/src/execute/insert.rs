//! Runs INSERT.
//!
//! It computes all rows before it inserts the first, so that it does not meet its own.

use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Flow, Frame, Run, Values};
use crate::execute::limit::limit_values;
use crate::execute::new_row::insert_row;
use crate::execute::output_clause::run_output;
use crate::execute::query::run_query;
use crate::execute::statement_result::StatementResult;
use crate::execute::writable::{check_all_writable, lock_as_planned};
use crate::plan::change::{InsertPlan, InsertRows};
use crate::storage::{LockMode, OnDuplicateKey};
use crate::value::values::TypedRows;
use crate::value::{SqlType, Value};

/// `executed`: the rows and column types of INSERT … EXEC. `sent` gets the rows of OUTPUT for the client.
pub fn run_insert(
    plan: &InsertPlan,
    executed: Option<TypedRows>,
    run: &mut Run<'_>,
    frame: &mut Frame,
    sent: &mut Vec<Vec<Value>>,
) -> SqlResult<StatementResult> {
    let schema = &plan.target.table.schema;
    check_all_writable(run, schema, &plan.output)?;
    if plan.hints.locks_table() {
        let table = run.table_id(plan.target.table.place);
        let storage = run.storage()?;
        storage.latch.lock_table(&mut storage.tx, table, LockMode::Exclusive, true)?;
    }
    let rows = rows_to_insert(plan, executed, run, frame)?;
    if !rows.is_empty() {
        lock_as_planned(&plan.target.table, run)?;
    }
    let mut count = 0;
    let mut ignored_duplicates = false;
    let mut new_rows: Vec<Values> = Vec::new();
    for row in rows {
        let Some((inserted, _)) =
            insert_row(run, frame, &plan.target, row.into_iter(), OnDuplicateKey::AsIndexSays, "INSERT")?
        else {
            ignored_duplicates = true;
            continue;
        };
        count += 1;
        if plan.output.is_empty() && !plan.foreign_keys.has_references() {
            continue;
        }
        let inserted: Values = inserted.into();
        for output in &plan.output {
            frame.rows[plan.target.rules.slot] = Arc::clone(&inserted).into();
            run_output(output, run, frame, sent)?;
        }
        if plan.foreign_keys.has_references() {
            new_rows.push(inserted);
        }
    }
    for row in &new_rows {
        plan.foreign_keys.check_row("INSERT", row, run)?;
    }
    Ok(StatementResult { count, ignored_duplicates })
}

/// A value that is given to a column, with its type; `None` is DEFAULT.
pub(crate) type GivenValue = Option<(Value, SqlType)>;

/// The values that the statement gives to its columns, row by row.
pub(crate) fn rows_to_insert(
    plan: &InsertPlan,
    executed: Option<TypedRows>,
    run: &mut Run<'_>,
    frame: &mut Frame,
) -> SqlResult<Vec<Vec<GivenValue>>> {
    let (_, take) = limit_values(&plan.limit, run, frame)?;
    let mut rows: Vec<Vec<GivenValue>> = Vec::new();
    match (&plan.rows, executed) {
        (InsertRows::Values(list), _) => {
            for values in list {
                frame.next_values.clear();
                let mut row = Vec::with_capacity(values.len());
                for value in values {
                    row.push(match value {
                        Some(scalar) => Some((scalar.eval(run, frame)?, scalar.ty)),
                        None => None,
                    });
                }
                rows.push(row);
            }
        }
        (InsertRows::Query(query), _) => {
            run_query(query, run, frame, &mut |_, frame, row| {
                frame.next_values.clear();
                let typed = row.into_iter().zip(&query.columns).map(|(value, column)| Some((value, column.ty)));
                rows.push(typed.collect());
                Ok(Flow::Continue)
            })?;
        }
        (InsertRows::Execute, Some(executed)) => {
            for (row, types) in executed {
                if row.len() != plan.target.ordinals.len() {
                    return Err(SqlError::new(
                        213,
                        "Column name or number of supplied values does not match table definition.",
                    ));
                }
                rows.push(row.into_iter().zip(types.iter()).map(|(value, ty)| Some((value, *ty))).collect());
            }
        }
        (InsertRows::Execute, None) => {
            return Err(SqlError::not_supported("INSERT … EXEC in this place"));
        }
    }
    rows.truncate(take);
    Ok(rows)
}
