//! Runs MERGE.
//!
//! First every row of the join is looked at and the first clause whose condition holds says what becomes of it; then
//! rows are deleted, changed and inserted, in this order, so that a key can go from one row to another; then OUTPUT is
//! computed. The target's rows are read with update locks. A row that is not there is not locked unless HOLDLOCK asks
//! for it: two sessions that merge the same new key can both come to insert it, and one gets 2627, as in SQL Server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Flow, Frame, Run, SavedRows, SlotRow, Values};
use crate::execute::limit::limit_values;
use crate::execute::new_row::{changed_row, finish_row, insert_row};
use crate::execute::operator::run_operator;
use crate::execute::output_clause::run_output;
use crate::execute::statement_result::StatementResult;
use crate::execute::writable::{check_all_writable, lock_as_planned};
use crate::plan::change::{BoundAction, BoundClause, InsertTarget, MergePlan};
use crate::plan::scalar::Condition;
use crate::storage::{Key, LockMode, OnDuplicateKey, RowChange};
use crate::tsql::ast::MergeWhen;
use crate::value::{SqlType, Value};

/// What becomes of one row.
enum Change<'p> {
    Update(RowChange),
    Delete(Key),
    Insert(&'p InsertTarget, Vec<Option<(Value, SqlType)>>),
}

/// The rows to change as they are found.
struct Found<'p> {
    plan: &'p MergePlan,
    take: usize,
    /// Everything that ON matched, changed or not.
    matched: BTreeSet<Key>,
    /// The rows that are changed, and whether only deleted so far.
    changed: BTreeMap<Key, bool>,
    changes: Vec<(Change<'p>, Option<SavedRows>)>,
    /// The old rows, where somebody refers to them.
    gone: Vec<Vec<Value>>,
    moved: Vec<(Vec<Value>, Vec<Value>)>,
}

impl<'p> Found<'p> {
    /// Takes the row that stands in the frame.
    fn take_row(&mut self, when: MergeWhen, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Flow> {
        let plan = self.plan;
        let mut chosen: Option<&'p BoundClause> = None;
        for clause in plan.clauses.iter().filter(|clause| clause.when == when) {
            if Condition::all_hold(&clause.conditions, run, frame)? {
                chosen = Some(clause);
                break;
            }
        }
        let Some(clause) = chosen else { return Ok(Flow::Continue) };
        let schema = &plan.table.schema;
        let change = match (&clause.action, frame.target.clone()) {
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
            (BoundAction::Delete, Some(key)) => match self.changed.insert(key.clone(), true) {
                None => {
                    if plan.foreign_keys.has_referrers() {
                        self.gone.push(frame.rows[plan.slot].to_vec());
                    }
                    Change::Delete(key)
                }
                // Two rows of the source may delete one of the target.
                Some(true) => return Ok(Flow::Continue),
                Some(false) => return Err(changed_twice()),
            },
            (BoundAction::Update(assignments), Some(key)) => {
                if self.changed.insert(key.clone(), false).is_some() {
                    return Err(changed_twice());
                }
                let mut values = changed_row(assignments, &mut [], schema, plan.slot, run, frame)?;
                finish_row(run, frame, schema, &plan.rules, &mut values, "MERGE")?;
                if plan.foreign_keys.has_referrers() {
                    self.moved.push((frame.rows[plan.slot].to_vec(), values.clone()));
                }
                Change::Update(RowChange::new(schema, key, values)?)
            }
            (_, None) => unreachable!("only INSERT stands in WHEN NOT MATCHED"),
        };
        frame.kept += 1;
        let saved = if plan.output.is_empty() {
            None
        } else {
            frame.rows[plan.action_slot] = vec![Value::String(clause.action.name().into())].into();
            Some(frame.save(&plan.output_slots))
        };
        self.changes.push((change, saved));
        Ok(if self.changes.len() >= self.take { Flow::Stop } else { Flow::Continue })
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
    if plan.hints.table {
        let storage = run.storage()?;
        storage.latch.lock_table(&mut storage.tx, table, LockMode::Exclusive, true)?;
    }
    let (_, take) = limit_values(&plan.limit, run, frame)?;
    let mut found = Found {
        plan,
        take,
        matched: BTreeSet::new(),
        changed: BTreeMap::new(),
        changes: Vec::new(),
        gone: Vec::new(),
        moved: Vec::new(),
    };
    if take == 0 {
        return Ok(StatementResult::default());
    }
    let flow = run_operator(&plan.input, run, frame, &mut |run, frame| match frame.target.clone() {
        Some(key) => {
            found.matched.insert(key);
            found.take_row(MergeWhen::Matched, run, frame)
        }
        None => found.take_row(MergeWhen::NotMatchedByTarget, run, frame),
    })?;
    if let (Flow::Continue, Some(by_source)) = (flow, &plan.by_source) {
        frame.set_null(&plan.source_slots);
        run_operator(by_source, run, frame, &mut |run, frame| match &frame.target {
            Some(key) if !found.matched.contains(key) => found.take_row(MergeWhen::NotMatchedBySource, run, frame),
            _ => Ok(Flow::Continue),
        })?;
    }
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
    let Found { plan, changes, gone, moved, .. } = found;
    let table = run.table_id(plan.table.place);
    let mut updates: Vec<RowChange> = Vec::new();
    for (change, _) in &changes {
        match change {
            Change::Delete(key) => {
                let storage = run.storage()?;
                storage.latch.delete(&mut storage.tx, table, key)?;
            }
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
            Change::Delete(_) => None,
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
    plan.foreign_keys.rows_deleted("MERGE", &gone, run, frame)?;
    plan.foreign_keys.rows_updated("MERGE", &moved, run, frame)?;
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
