//! Runs UPDATE.
//!
//! A change first finds its rows, under their locks, and computes what becomes of them; then it changes them; then it
//! computes OUTPUT. So no statement meets its own changes.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::error::SqlResult;
use crate::execute::frame::{Flow, Frame, Run, SavedRows, Values};
use crate::execute::new_row::{changed_row, finish_row};
use crate::execute::operator::run_operator;
use crate::execute::output_clause::{prepare_output, run_output};
use crate::execute::statement_result::StatementResult;
use crate::execute::writable::{check_all_writable, lock_as_planned};
use crate::plan::change::UpdatePlan;
use crate::storage::{Key, RowChange};
use crate::value::Value;

/// `sent` gets the rows of OUTPUT for the client.
pub fn run_update(
    plan: &UpdatePlan,
    run: &mut Run<'_>,
    frame: &mut Frame,
    sent: &mut Vec<Vec<Value>>,
) -> SqlResult<StatementResult> {
    let schema = &plan.table.schema;
    check_all_writable(run, schema, &plan.output)?;
    let table = run.table_id(plan.table.place);
    let mut seen: FxHashSet<Key> = FxHashSet::default();
    let mut found: Vec<(Key, SavedRows)> = Vec::new();
    let sets_columns = plan.assignments.iter().any(|assignment| assignment.column.is_some());
    run_operator(&plan.input, run, frame, &mut |_, frame| {
        let Some(key) = frame.target.clone() else { return Ok(Flow::Continue) };
        frame.kept += 1;
        if plan.may_repeat && !seen.insert(key.clone()) {
            return Ok(Flow::Continue);
        }
        found.push((key, frame.save(&plan.kept_slots)));
        Ok(Flow::Continue)
    })?;
    if sets_columns && !found.is_empty() {
        lock_as_planned(&plan.table, run)?;
    }
    // The rows that were found are locked, so that others may go on while the new ones are computed.
    if plan.is_apart {
        run.own_storage()?.latch.let_go();
    }
    let mut changes: Vec<RowChange> = Vec::with_capacity(found.len());
    let mut saved: Vec<SavedRows> = Vec::new();
    // Old and new rows, where somebody refers to them.
    let mut moved: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
    let mut constants = vec![None; plan.assignments.len()];
    for (key, mut row) in found {
        frame.exchange(&plan.kept_slots, &mut row);
        let mut values = changed_row(&plan.assignments, &mut constants, schema, plan.slot, run, frame)?;
        if sets_columns {
            finish_row(run, frame, schema, &plan.rules, &mut values, "UPDATE")?;
        }
        if plan.foreign_keys.has_referrers() {
            moved.push((frame.rows[plan.slot].to_vec(), values.clone()));
        }
        if !plan.output.is_empty() {
            frame.exchange(&plan.kept_slots, &mut row);
            saved.push(row);
        }
        changes.push(RowChange::new(schema, key, values)?);
    }
    if sets_columns {
        let storage = run.storage_of(plan.table.place)?;
        storage.latch.update_rows(&mut storage.tx, table, &changes)?;
        for change in changes.iter().filter(|_| plan.foreign_keys.has_references()) {
            plan.foreign_keys.check_row("UPDATE", &change.values, run)?;
        }
        plan.foreign_keys.rows_updated("UPDATE", &moved, run)?;
    }
    let count = changes.len() as u64;
    prepare_output(&plan.output, run)?;
    for (change, row) in changes.into_iter().zip(saved) {
        frame.restore(&plan.kept_slots, row);
        let values: Values = change.values.into();
        for output in &plan.output {
            frame.rows[plan.rules.slot] = Arc::clone(&values).into();
            run_output(output, run, frame, sent)?;
        }
    }
    Ok(StatementResult { count, ..Default::default() })
}
