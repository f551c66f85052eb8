//! Runs DELETE.
//!
//! It first finds its rows, under their locks; then it deletes them; then it computes OUTPUT. So it does not meet its
//! own changes.

use rustc_hash::FxHashSet;

use crate::error::SqlResult;
use crate::execute::frame::{Flow, Frame, Run, SavedRows};
use crate::execute::operator::run_operator;
use crate::execute::output_clause::{prepare_output, run_output};
use crate::execute::statement_result::StatementResult;
use crate::execute::writable::check_all_writable;
use crate::plan::change::DeletePlan;
use crate::storage::{ChangedRow, Key};
use crate::value::Value;

/// `sent` gets the rows of OUTPUT for the client.
pub fn run_delete(
    plan: &DeletePlan,
    run: &mut Run<'_>,
    frame: &mut Frame,
    sent: &mut Vec<Vec<Value>>,
) -> SqlResult<StatementResult> {
    check_all_writable(run, &plan.table.schema, &plan.output)?;
    let table = run.table_id(plan.table.place);
    let mut seen: FxHashSet<Key> = FxHashSet::default();
    let mut keys: Vec<Key> = Vec::new();
    let mut saved: Vec<SavedRows> = Vec::new();
    // Where somebody refers to them.
    let mut gone: Vec<Vec<Value>> = Vec::new();
    let keeps_rows = !plan.output.is_empty();
    run_operator(&plan.input, run, frame, &mut |_, frame| {
        let Some(key) = frame.target.clone() else { return Ok(Flow::Continue) };
        frame.kept += 1;
        if plan.may_repeat && !seen.insert(key.clone()) {
            return Ok(Flow::Continue);
        }
        if keeps_rows {
            saved.push(frame.save(&plan.output_slots));
        }
        if plan.foreign_keys.has_referrers() {
            gone.push(frame.rows[plan.slot].to_vec());
        }
        keys.push(key);
        Ok(Flow::Continue)
    })?;
    let storage = run.storage_of(plan.table.place)?;
    storage.latch.delete_rows(&mut storage.tx, table, &keys)?;
    plan.foreign_keys.rows_deleted("DELETE", &gone, run)?;
    prepare_output(&plan.output, run)?;
    for row in saved {
        frame.restore(&plan.output_slots, row);
        for output in &plan.output {
            run_output(output, run, frame, sent)?;
        }
    }
    Ok(StatementResult { count: keys.len() as u64, ..Default::default() })
}

/// The rows that a DELETE would delete, for its INSTEAD OF trigger.
pub fn would_be_deleted(plan: &DeletePlan, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<ChangedRow>> {
    let mut seen: FxHashSet<Key> = FxHashSet::default();
    let mut rows = Vec::new();
    run_operator(&plan.input, run, frame, &mut |_, frame| {
        let Some(key) = frame.target.clone() else { return Ok(Flow::Continue) };
        frame.kept += 1;
        if seen.insert(key) {
            rows.push(ChangedRow { before: Some(frame.rows[plan.slot].to_vec()), after: None });
        }
        Ok(Flow::Continue)
    })?;
    Ok(rows)
}
