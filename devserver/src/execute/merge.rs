//! Runs MERGE.
//!
//! First every row of the join is looked at and the first clause whose condition holds says what becomes of it; then
//! rows are changed and inserted, in this order, so that a key can go from one row to another; then OUTPUT is computed. The target's rows are read with update locks. A row that is not there is not locked unless HOLDLOCK asks
//! for it: two sessions that merge the same new key can both come to insert it, and one gets 2627, as in SQL Server.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Flow, Frame, Run, SavedRows, SlotRow, Values};
use crate::execute::new_row::{changed_row, finish_row, insert_row};
use crate::execute::operator::run_operator;
use crate::execute::output_clause::run_output;
use crate::execute::statement_result::StatementResult;
use crate::execute::writable::{check_all_writable, lock_as_planned};
use crate::plan::change::{BoundAction, BoundClause, InsertTarget, MergePlan};
use crate::plan::scalar::Condition;
use crate::storage::{Key, LockMode, OnDuplicateKey, RowChange};
use crate::value::{SqlType, Value};

/// What becomes of one row.
enum Change<'p> {
    Update(RowChange),
    Insert(&'p InsertTarget, Vec<Option<(Value, SqlType)>>),
}

/// The rows to change as they are found.
struct Found<'p> {
    plan: &'p MergePlan,
    changed: BTreeSet<Key>,
    changes: Vec<(Change<'p>, Option<SavedRows>)>,
    /// The old and new rows, where somebody refers to them.
    moved: Vec<(Vec<Value>, Vec<Value>)>,
}

impl<'p> Found<'p> {
    /// Takes the row that stands in the frame.
    fn take_row(&mut self, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Flow> {
        let plan = self.plan;
        let target = frame.target.clone();
        let is_meant = |clause: &&BoundClause| matches!(clause.action, BoundAction::Update(_)) == target.is_some();
        let Some(clause) = plan.clauses.iter().find(is_meant) else { return Ok(Flow::Continue) };
        if !Condition::all_hold(&clause.conditions, run, frame)? {
            return Ok(Flow::Continue);
        }
        let schema = &plan.table.schema;
        let change = match (&clause.action, target) {
            (BoundAction::Insert(target, values), _) => {
                let mut row = Vec::with_capacity(values.len());
                for value in values {
                    row.push(match value {
                        Some(scalar) => Some((scalar.eval(run, frame)?, scalar.ty)),
                        None => None,
                    });
                }
                Change::Insert(target, row)
            }
            (BoundAction::Update(assignments), Some(key)) => {
                if !self.changed.insert(key.clone()) {
                    return Err(changed_twice());
                }
                let mut values = changed_row(assignments, &mut [], schema, plan.slot, run, frame)?;
                finish_row(run, frame, schema, &plan.rules, &mut values, "MERGE")?;
                if plan.foreign_keys.has_referrers() {
                    self.moved.push((frame.rows[plan.slot].to_vec(), values.clone()));
                }
                Change::Update(RowChange::new(schema, key, values)?)
            }
            (_, None) => unreachable!("a matched row has a key"),
        };
        frame.kept += 1;
        let saved = if plan.output.is_empty() { None } else { Some(frame.save(&plan.output_slots)) };
        self.changes.push((change, saved));
        Ok(Flow::Continue)
    }
}

fn changed_twice() -> SqlError {
    SqlError::new(
        8672,
        "The MERGE statement attempted to UPDATE or DELETE the same row more than once. This happens when a target row \
         matches more than one source row. A MERGE statement cannot UPDATE/DELETE the same row of the target table \
         multiple times. Refine the ON clause to ensure a target row matches at most one source row, or use the GROUP BY \
         clause to group the source rows.",
    )
}

/// `sent` gets the rows of OUTPUT for the client.
pub fn run_merge(
    plan: &MergePlan,
    run: &mut Run<'_>,
    frame: &mut Frame,
    sent: &mut Vec<Vec<Value>>,
) -> SqlResult<StatementResult> {
    let schema = &plan.table.schema;
    check_all_writable(run, schema, &plan.output)?;
    let table = run.table_id(plan.table.place);
    if plan.hints.locks_table() {
        let storage = run.storage()?;
        storage.latch.lock_table(&mut storage.tx, table, LockMode::Exclusive, true)?;
    }
    let mut found = Found { plan, changed: BTreeSet::new(), changes: Vec::new(), moved: Vec::new() };
    run_operator(&plan.input, run, frame, &mut |run, frame| found.take_row(run, frame))?;
    if !found.changes.is_empty() {
        lock_as_planned(&plan.table, run)?;
    }
    apply(found, run, frame, sent)
}

fn apply(
    found: Found<'_>,
    run: &mut Run<'_>,
    frame: &mut Frame,
    sent: &mut Vec<Vec<Value>>,
) -> SqlResult<StatementResult> {
    let Found { plan, changes, moved, .. } = found;
    let table = run.table_id(plan.table.place);
    let mut updates: Vec<RowChange> = Vec::new();
    for (change, _) in &changes {
        match change {
            Change::Update(change) => updates.push(change.clone()),
            Change::Insert(..) => {}
        }
    }
    let storage = run.storage()?;
    storage.latch.update_rows(&mut storage.tx, table, &updates)?;

    let count = changes.len() as u64;
    let mut new_rows: Vec<(Option<Values>, Option<SavedRows>)> = Vec::with_capacity(changes.len());
    for (change, saved) in changes {
        let row = match change {
            Change::Update(change) => Some(change.values.into()),
            Change::Insert(target, values) => {
                let inserted = insert_row(run, frame, target, values.into_iter(), OnDuplicateKey::Fail, "MERGE")?;
                inserted.map(|(row, _)| row.into())
            }
        };
        new_rows.push((row, saved));
    }
    if plan.foreign_keys.has_references() {
        for row in new_rows.iter().filter_map(|(row, _)| row.as_ref()) {
            plan.foreign_keys.check_row("MERGE", row, run)?;
        }
    }
    plan.foreign_keys.rows_updated("MERGE", &moved, run)?;
    for (row, saved) in new_rows {
        let Some(saved) = saved else { continue };
        frame.restore(&plan.output_slots, saved);
        for output in &plan.output {
            frame.rows[plan.rules.slot] = row.as_ref().map_or(SlotRow::Absent, |row| Arc::clone(row).into());
            run_output(output, run, frame, sent)?;
        }
    }
    Ok(StatementResult { count, ..Default::default() })
}
