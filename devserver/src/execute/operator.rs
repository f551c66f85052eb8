//! Runs the operators of a plan: each puts rows into its slots of the frame and calls `emit` for every one of them,
//! until there are no more or `emit` says stop.

use std::sync::Arc;

use crate::error::SqlResult;
use crate::execute::frame::{Emit, Flow, Frame, Run, SavedRows, SlotRow, Values};
use crate::execute::limit::limit_values;
use crate::execute::query::run_query;
use crate::execute::sort::{compare_keys, eval_keys};
use crate::execute::table_scan::{read_current, run_range, seek_range};
use crate::execute::{aggregate, join, window};
use crate::plan::query::{AnyOf, Limit, LoopKind, Operator, QueryPlan, SortKey, TableScan};
use crate::plan::scalar::{Condition, Scalar};
use crate::tsql::ast::IsolationLevel;
use crate::value::{Value, compare_nulls_first};

pub fn run_operator(operator: &Operator, run: &mut Run<'_>, frame: &mut Frame, emit: Emit<'_>) -> SqlResult<Flow> {
    match operator {
        Operator::Unit => emit(run, frame),
        Operator::Table(scan) => run_scan(scan, run, frame, emit),
        Operator::Current { slot } => {
            let (key, values) = read_current(run)?;
            frame.rows[*slot] = values.into();
            frame.target = Some(key);
            emit(run, frame)
        }
        Operator::Values { slot, rows } => {
            for row in rows {
                frame.rows[*slot] = Scalar::eval_all(row, run, frame)?.into();
                if emit(run, frame)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        }
        Operator::Derived { slot, query } => run_derived(*slot, query, run, frame, emit),
        Operator::View { slot, view, unlocked } => {
            let database = run.database;
            let is_unlocked = *unlocked || run.state.options.isolation == IsolationLevel::ReadUncommitted;
            let storage = if view.needs_latch() { run.storage()? } else { run.own_storage()? };
            if view.needs_latch() && !is_unlocked {
                storage.latch.wait_for_names(&storage.tx, |name| view.shows(name))?;
            }
            let rows = view.rows(database, &storage.latch);
            emit_each(rows, *slot, run, frame, emit)
        }
        Operator::Working { slot, working } => {
            let rows = frame.derived.get(working).map(Arc::clone).unwrap_or_default();
            emit_each(rows.iter().map(Arc::clone), *slot, run, frame, emit)
        }
        Operator::Function { slot, function } => {
            let rows = function.rows(run, frame)?;
            emit_each(rows, *slot, run, frame, emit)
        }
        Operator::Filter { input, conditions } => run_operator(input, run, frame, &mut |run, frame| {
            if Condition::all_hold(conditions, run, frame)? { emit(run, frame) } else { Ok(Flow::Continue) }
        }),
        Operator::Loop { kind, left, right, right_slots, target_on_right } => {
            run_operator(left, run, frame, &mut |run, frame| {
                let mut matched = false;
                let flow = run_operator(right, run, frame, &mut |run, frame| {
                    matched = true;
                    emit(run, frame)
                })?;
                if flow == Flow::Continue && !matched && *kind == LoopKind::Left {
                    frame.set_null(right_slots);
                    if *target_on_right {
                        frame.target = None;
                    }
                    return emit(run, frame);
                }
                Ok(flow)
            })
        }
        Operator::Hash(hash) => join::hash_join(
            hash,
            |run, frame, emit| run_operator(&hash.left, run, frame, emit),
            |run, frame, emit| run_operator(&hash.right, run, frame, emit),
            run,
            frame,
            emit,
        ),
        Operator::Top { input, slots, sort, limit } => run_top(input, slots, sort, limit, run, frame, emit),
        Operator::Window { input, slots, slot, functions } => {
            let rows = collect(input, slots, run, frame)?;
            let computed = window::compute(functions, slots, &rows, run, frame)?;
            for (row, values) in rows.into_iter().zip(computed) {
                frame.restore(slots, row);
                frame.rows[*slot] = values.into();
                if emit(run, frame)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        }
        Operator::Aggregate(aggregation) => {
            let input = |run: &mut Run<'_>, frame: &mut Frame, emit: Emit<'_>| {
                run_operator(&aggregation.input, run, frame, emit)
            };
            aggregate::run(aggregation, input, run, frame, emit)
        }
    }
}

/// Emits rows that are there already.
fn emit_each(
    rows: impl IntoIterator<Item: Into<SlotRow>>,
    slot: usize,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: Emit<'_>,
) -> SqlResult<Flow> {
    for row in rows {
        frame.rows[slot] = row.into();
        if emit(run, frame)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}

/// The rows of an operator, to be replayed.
fn collect(input: &Operator, slots: &[usize], run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<SavedRows>> {
    let mut rows = Vec::new();
    run_operator(input, run, frame, &mut |_, frame| {
        rows.push(frame.save(slots));
        Ok(Flow::Continue)
    })?;
    Ok(rows)
}

/// The rows of an operator in an order.
fn sorted(
    input: &Operator,
    slots: &[usize],
    sort: &[SortKey],
    run: &mut Run<'_>,
    frame: &mut Frame,
) -> SqlResult<Vec<SavedRows>> {
    let mut rows = Vec::new();
    run_operator(input, run, frame, &mut |run, frame| {
        rows.push((eval_keys(sort, run, frame)?, frame.save(slots)));
        Ok(Flow::Continue)
    })?;
    rows.sort_by(|(a, _), (b, _)| compare_keys(sort, a, b));
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

fn run_scan(scan: &TableScan, run: &mut Run<'_>, frame: &mut Frame, emit: Emit<'_>) -> SqlResult<Flow> {
    let Some(mut range) = seek_range(scan, run, frame)? else { return Ok(Flow::Continue) };
    let mut values: Vec<Value> = Vec::new();
    match &scan.path.any_of {
        None => return run_range(scan, &range, run, frame, emit),
        Some(AnyOf::List(list)) => values = Scalar::eval_all(list, run, frame)?,
        Some(AnyOf::Query(query)) => {
            run_query(query, run, frame, &mut |_, _, mut row| {
                values.push(row.swap_remove(0));
                Ok(Flow::Continue)
            })?;
        }
    }
    values.retain(|value| !value.is_null());
    let column = &scan.table.schema.columns[list_column(scan)];
    values.sort_by(|a, b| compare_nulls_first(a, b, column.collation));
    values.dedup_by(|a, b| compare_nulls_first(a, b, column.collation).is_eq());
    let equal = range.equal.len();
    for value in values {
        range.equal.truncate(equal);
        range.equal.push(value);
        if run_range(scan, &range, run, frame, emit)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}

/// The column that stands behind the equal ones: that of the IN list.
fn list_column(scan: &TableScan) -> usize {
    let index = scan.table.schema.index(scan.path.index).expect("an IN list is sought in an index of the table");
    index.key[scan.path.equal.len()].column
}

fn run_derived(
    slot: usize,
    query: &Arc<QueryPlan>,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: Emit<'_>,
) -> SqlResult<Flow> {
    if query.outer_slots != 0 {
        return run_query(query, run, frame, &mut |run, frame, row| {
            frame.rows[slot] = row.into();
            emit(run, frame)
        });
    }
    if let Some(rows) = frame.derived.get(&slot) {
        let rows = Arc::clone(rows);
        return emit_each(rows.iter().map(Arc::clone), slot, run, frame, emit);
    }
    // The first time the rows go on as they come, so that TOP can end it.
    let mut rows: Vec<Values> = Vec::new();
    let flow = run_query(query, run, frame, &mut |run, frame, row| {
        let row: Values = row.into();
        rows.push(Arc::clone(&row));
        frame.rows[slot] = row.into();
        emit(run, frame)
    })?;
    if flow == Flow::Continue {
        frame.derived.insert(slot, Arc::new(rows));
    }
    Ok(flow)
}

fn run_top(
    input: &Operator,
    slots: &[usize],
    sort: &[SortKey],
    limit: &Limit,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: Emit<'_>,
) -> SqlResult<Flow> {
    let (skip, take) = limit_values(limit, run, frame)?;
    if take == 0 {
        return Ok(Flow::Continue);
    }
    if sort.is_empty() {
        let mut seen = 0;
        let mut stopped_by_reader = false;
        run_operator(input, run, frame, &mut |run, frame| {
            seen += 1;
            if seen <= skip {
                return Ok(Flow::Continue);
            }
            if emit(run, frame)? == Flow::Stop {
                stopped_by_reader = true;
                return Ok(Flow::Stop);
            }
            Ok(if seen - skip >= take { Flow::Stop } else { Flow::Continue })
        })?;
        return Ok(if stopped_by_reader { Flow::Stop } else { Flow::Continue });
    }
    let rows = sorted(input, slots, sort, run, frame)?;
    for row in rows.into_iter().skip(skip).take(take) {
        frame.restore(slots, row);
        if emit(run, frame)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}
