//! What INSERT, UPDATE and DELETE would change: the rows for an INSTEAD OF trigger. Nothing is changed, and constraints
//! are not looked at, but that columns without NULL get a value.
//!
//! Source: "Use the inserted and deleted Tables" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/triggers/use-the-inserted-and-deleted-tables.md): "INSERT statements must supply values
//! for all NOT NULL columns that do not have DEFAULT constraints", the same "as if the table did not have an INSTEAD OF
//! trigger".

use rustc_hash::FxHashSet;

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Flow, Frame, Run};
use crate::execute::insert::{CapturedRows, rows_to_insert};
use crate::execute::limit::row_limit;
use crate::execute::new_row::{changed_row, compute_row, new_row};
use crate::execute::operator::run_operator;
use crate::plan::cell::Plan;
use crate::plan::change::{DeletePlan, InsertPlan, UpdatePlan};
use crate::plan::query::{Operator, TableHandle};
use crate::plan::table_rules::TableRules;
use crate::storage::{ChangedRow, Key};
use crate::value::Value;

pub fn would_be_changed(
    plan: &Plan,
    is_view: bool,
    executed: Option<CapturedRows>,
    run: &mut Run<'_>,
    frame: &mut Frame,
) -> SqlResult<Vec<ChangedRow>> {
    match plan {
        Plan::Insert(plan) => inserted(plan, is_view, executed, run, frame),
        Plan::Update(plan) => updated(plan, is_view, run, frame),
        Plan::Delete(plan) => deleted(plan, is_view, run, frame),
        Plan::Merge(_) | Plan::Select(_) | Plan::Scalar(_) | Plan::Condition(_) => {
            Err(SqlError::not_supported("this statement with an INSTEAD OF trigger"))
        }
    }
}

fn inserted(
    plan: &InsertPlan,
    is_view: bool,
    executed: Option<CapturedRows>,
    run: &mut Run<'_>,
    frame: &mut Frame,
) -> SqlResult<Vec<ChangedRow>> {
    let mut changes = Vec::new();
    for values in rows_to_insert(plan, executed, run, frame)? {
        if is_view && values.iter().any(Option::is_none) {
            return Err(SqlError::not_supported("DEFAULT in an INSERT into a view with an INSTEAD OF trigger"));
        }
        let (mut row, _) = new_row(run, frame, &plan.target, values.into_iter(), false)?;
        complete(&plan.target.table, &plan.target.rules, is_view, &mut row, "INSERT", run)?;
        changes.push(ChangedRow { before: None, after: Some(row) });
    }
    Ok(changes)
}

fn updated(plan: &UpdatePlan, is_view: bool, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<ChangedRow>> {
    let mut found = Vec::new();
    find_rows(&plan.input, is_view, run, frame, &mut |frame| {
        found.push(frame.save(&plan.kept_slots));
        found.len()
    })?;
    let mut constants = vec![None; plan.assignments.len()];
    let mut changes = Vec::with_capacity(found.len());
    for row in found {
        frame.restore(&plan.kept_slots, row);
        let before = frame.rows[plan.slot].to_vec();
        let mut after = changed_row(&plan.assignments, &mut constants, &plan.table.schema, plan.slot, run, frame)?;
        complete(&plan.table, &plan.rules, is_view, &mut after, "UPDATE", run)?;
        changes.push(ChangedRow { before: Some(before), after: Some(after) });
    }
    Ok(changes)
}

fn deleted(plan: &DeletePlan, is_view: bool, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<ChangedRow>> {
    let mut changes = Vec::new();
    find_rows(&plan.input, is_view, run, frame, &mut |frame| {
        changes.push(ChangedRow { before: Some(frame.rows[plan.slot].to_vec()), after: None });
        changes.len()
    })?;
    Ok(changes)
}

/// Hands on each row of the target once; `take` says how many it has.
fn find_rows(
    input: &Operator,
    is_view: bool,
    run: &mut Run<'_>,
    frame: &mut Frame,
    take: &mut dyn FnMut(&mut Frame) -> usize,
) -> SqlResult<()> {
    let limit = row_limit(input, run);
    let mut seen: FxHashSet<Key> = FxHashSet::default();
    run_operator(input, run, frame, &mut |_, frame| {
        // The rows of a view have no place in a table.
        if !is_view {
            let Some(key) = frame.target.clone() else { return Ok(Flow::Continue) };
            frame.kept += 1;
            if !seen.insert(key) {
                return Ok(Flow::Continue);
            }
        }
        Ok(if take(frame) < limit { Flow::Continue } else { Flow::Stop })
    })?;
    Ok(())
}

fn complete(
    table: &TableHandle,
    rules: &TableRules,
    is_view: bool,
    row: &mut [Value],
    verb: &str,
    run: &mut Run<'_>,
) -> SqlResult<()> {
    if !is_view {
        return compute_row(run, &table.schema, rules, row, verb);
    }
    if rules.required.iter().any(|ordinal| row[*ordinal].is_null()) {
        return Err(SqlError::not_supported("NULL for a column without NULL of a view with an INSTEAD OF trigger"));
    }
    Ok(())
}
