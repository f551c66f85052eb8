//! Runs queries: the select list, DISTINCT, ORDER BY and limits over the rows of operators, and set operations.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::error::SqlResult;
use crate::execute::frame::{EmitRow, Flow, Frame, Run};
use crate::execute::limit::{limit_values, percentage, share};
use crate::execute::operator::run_operator;
use crate::execute::recursion;
use crate::execute::sort::{compare_keys, eval_keys};
use crate::plan::query::{Body, QueryPlan, SelectPlan, SetPlan};
use crate::tsql::ast::SetOperator;
use crate::value::{Value, compare_nulls_first, encode_key};

/// Computes a query and calls `emit` for each row of its result, in its order.
pub fn run_query(plan: &QueryPlan, run: &mut Run<'_>, frame: &mut Frame, emit: EmitRow<'_>) -> SqlResult<Flow> {
    match &plan.body {
        Body::Select(select) => run_select(plan, select, run, frame, emit),
        Body::Set(set) => run_set(plan, set, run, frame, emit),
        Body::Recursive(recursive) => recursion::run(recursive, run_query, run, frame, emit),
    }
}

fn project(select: &SelectPlan, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<Value>> {
    let mut row = Vec::with_capacity(select.items.len());
    for item in &select.items {
        row.push(item.eval(run, frame)?);
    }
    Ok(row)
}

fn run_select(
    plan: &QueryPlan,
    select: &SelectPlan,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: EmitRow<'_>,
) -> SqlResult<Flow> {
    let (skip, take) = limit_values(&select.limit, run, frame)?;
    let percent = percentage(&select.limit, run, frame)?;
    if take == 0 {
        return Ok(Flow::Continue);
    }
    let mut distinct = select.distinct.then(DistinctRows::default);
    if select.sort.is_empty() && percent.is_none() {
        let mut seen = 0;
        let mut stopped_by_reader = false;
        run_operator(&select.input, run, frame, &mut |run, frame| {
            let row = project(select, run, frame)?;
            if let Some(distinct) = &mut distinct
                && !distinct.is_new(plan, &row)
            {
                return Ok(Flow::Continue);
            }
            seen += 1;
            if seen <= skip {
                return Ok(Flow::Continue);
            }
            if emit(run, frame, row)? == Flow::Stop {
                stopped_by_reader = true;
                return Ok(Flow::Stop);
            }
            Ok(if seen - skip >= take { Flow::Stop } else { Flow::Continue })
        })?;
        return Ok(if stopped_by_reader { Flow::Stop } else { Flow::Continue });
    }
    let mut rows: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
    run_operator(&select.input, run, frame, &mut |run, frame| {
        let row = project(select, run, frame)?;
        if let Some(distinct) = &mut distinct
            && !distinct.is_new(plan, &row)
        {
            return Ok(Flow::Continue);
        }
        rows.push((eval_keys(&select.sort, run, frame)?, row));
        Ok(Flow::Continue)
    })?;
    rows.sort_by(|(a, _), (b, _)| compare_keys(&select.sort, a, b));
    let take = percent.map_or(take, |percent| share(percent, rows.len()));
    let mut last_keys: Option<Vec<Value>> = None;
    for (position, (keys, row)) in rows.into_iter().enumerate().skip(skip) {
        if position - skip >= take {
            let is_tie = select.limit.with_ties
                && last_keys.as_ref().is_some_and(|last| compare_keys(&select.sort, last, &keys).is_eq());
            if !is_tie {
                break;
            }
        }
        if emit(run, frame, row)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        last_keys = Some(keys);
    }
    Ok(Flow::Continue)
}

/// The rows seen so far, by their key bytes: NULLs are the same here.
#[derive(Default)]
struct DistinctRows {
    seen: HashMap<Vec<u8>, usize>,
}

fn row_key(plan: &QueryPlan, row: &[Value]) -> Vec<u8> {
    let mut key = Vec::new();
    for (value, column) in row.iter().zip(&plan.columns) {
        encode_key(value, column.ty, column.collation, false, &mut key);
    }
    key
}

impl DistinctRows {
    fn is_new(&mut self, plan: &QueryPlan, row: &[Value]) -> bool {
        let count = self.seen.entry(row_key(plan, row)).or_insert(0);
        *count += 1;
        *count == 1
    }

    fn contains(&self, plan: &QueryPlan, row: &[Value]) -> bool {
        self.seen.contains_key(&row_key(plan, row))
    }
}

fn run_set(
    plan: &QueryPlan,
    set: &SetPlan,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: EmitRow<'_>,
) -> SqlResult<Flow> {
    let (skip, take) = limit_values(&set.limit, run, frame)?;
    let mut rows: Vec<Vec<Value>> = Vec::new();
    let mut seen = DistinctRows::default();
    let mut right_rows = DistinctRows::default();
    if matches!(set.op, SetOperator::Except | SetOperator::Intersect) {
        run_query(&set.right, run, frame, &mut |_, _, row| {
            right_rows.is_new(plan, &row);
            Ok(Flow::Continue)
        })?;
    }
    run_query(&set.left, run, frame, &mut |_, _, row| {
        let keep = match set.op {
            SetOperator::UnionAll => true,
            SetOperator::Union => seen.is_new(plan, &row),
            SetOperator::Except => !right_rows.contains(plan, &row) && seen.is_new(plan, &row),
            SetOperator::Intersect => right_rows.contains(plan, &row) && seen.is_new(plan, &row),
        };
        if keep {
            rows.push(row);
        }
        Ok(Flow::Continue)
    })?;
    if matches!(set.op, SetOperator::Union | SetOperator::UnionAll) {
        run_query(&set.right, run, frame, &mut |_, _, row| {
            if set.op == SetOperator::UnionAll || seen.is_new(plan, &row) {
                rows.push(row);
            }
            Ok(Flow::Continue)
        })?;
    }
    rows.sort_by(|a, b| {
        for sort in &set.sort {
            let order = compare_nulls_first(&a[sort.column], &b[sort.column], plan.columns[sort.column].collation);
            if order.is_ne() {
                return if sort.descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    });
    for row in rows.into_iter().skip(skip).take(take) {
        if emit(run, frame, row)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}
