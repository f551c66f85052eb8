//! Runs queries: the select list, DISTINCT, ORDER BY and limits over the rows of operators, and set operations.

use std::cmp::Ordering;
use std::collections::HashSet;

use crate::error::SqlResult;
use crate::execute::frame::{EmitRow, Flow, Frame, Run};
use crate::execute::limit::limit_values;
use crate::execute::operator::run_operator;
use crate::execute::recursion;
use crate::execute::sort::{compare_keys, eval_keys};
use crate::plan::query::{Body, QueryPlan, SelectPlan, SetPlan};
use crate::plan::scalar::Scalar;
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

fn run_select(
    plan: &QueryPlan,
    select: &SelectPlan,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: EmitRow<'_>,
) -> SqlResult<Flow> {
    let (skip, take) = limit_values(&select.limit, run, frame)?;
    if take == 0 {
        return Ok(Flow::Continue);
    }
    let mut distinct = select.distinct.then(DistinctRows::default);
    if select.sort.is_empty() {
        let mut seen = 0;
        let mut stopped_by_reader = false;
        run_operator(&select.input, run, frame, &mut |run, frame| {
            let row = Scalar::eval_all(&select.items, run, frame)?;
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
        let row = Scalar::eval_all(&select.items, run, frame)?;
        if let Some(distinct) = &mut distinct
            && !distinct.is_new(plan, &row)
        {
            return Ok(Flow::Continue);
        }
        rows.push((eval_keys(&select.sort, run, frame)?, row));
        Ok(Flow::Continue)
    })?;
    rows.sort_by(|(a, _), (b, _)| compare_keys(&select.sort, a, b));
    for (_, row) in rows.into_iter().skip(skip).take(take) {
        if emit(run, frame, row)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}

/// The rows seen so far, by their key bytes: NULLs are the same here.
#[derive(Default)]
struct DistinctRows {
    seen: HashSet<Vec<u8>>,
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
        self.seen.insert(row_key(plan, row))
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
    for side in [&set.left, &set.right] {
        run_query(side, run, frame, &mut |_, _, row| {
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
