//! Window functions: ROW_NUMBER, RANK, DENSE_RANK and aggregates over a whole partition.

use std::cmp::Ordering;

use super::aggregate::Accumulator;
use super::frame::{Frame, Run, SavedRows};
use super::operate::compare_keys;
use super::query::{SortKey, WindowFunction, WindowKind};
use crate::error::SqlResult;
use crate::value::{Value, compare_nulls_first};

/// The values of the functions for each of `rows`, in the order of `rows`.
pub fn compute(
    functions: &[WindowFunction],
    slots: &[usize],
    rows: &[SavedRows],
    run: &mut Run<'_>,
    frame: &mut Frame,
) -> SqlResult<Vec<Vec<Value>>> {
    let mut results: Vec<Vec<Value>> = vec![Vec::with_capacity(functions.len()); rows.len()];
    for function in functions {
        let column = compute_one(function, slots, rows, run, frame)?;
        for (result, value) in results.iter_mut().zip(column) {
            result.push(value);
        }
    }
    Ok(results)
}

fn compare_partitions(function: &WindowFunction, a: &[Value], b: &[Value]) -> Ordering {
    for (position, scalar) in function.partition_by.iter().enumerate() {
        let order = compare_nulls_first(&a[position], &b[position], scalar.collation());
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn compute_one(
    function: &WindowFunction,
    slots: &[usize],
    rows: &[SavedRows],
    run: &mut Run<'_>,
    frame: &mut Frame,
) -> SqlResult<Vec<Value>> {
    let mut keyed: Vec<(Vec<Value>, Vec<Value>, usize)> = Vec::with_capacity(rows.len());
    for (position, row) in rows.iter().enumerate() {
        frame.restore(slots, row.clone());
        let mut partition = Vec::with_capacity(function.partition_by.len());
        for scalar in &function.partition_by {
            partition.push(scalar.eval(run, frame)?);
        }
        let mut order = Vec::with_capacity(function.order_by.len());
        for SortKey { scalar, .. } in &function.order_by {
            order.push(scalar.eval(run, frame)?);
        }
        keyed.push((partition, order, position));
    }
    keyed.sort_by(|a, b| {
        compare_partitions(function, &a.0, &b.0).then_with(|| compare_keys(&function.order_by, &a.1, &b.1))
    });

    let mut results = vec![Value::Null; rows.len()];
    let mut start = 0;
    while start < keyed.len() {
        let length = keyed[start..]
            .iter()
            .take_while(|row| compare_partitions(function, &row.0, &keyed[start].0).is_eq())
            .count();
        let partition = &keyed[start..start + length];
        match &function.kind {
            WindowKind::Aggregate(call) => {
                let mut accumulator = Accumulator::new(call);
                for (_, _, position) in partition {
                    frame.restore(slots, rows[*position].clone());
                    accumulator.add(run, frame)?;
                }
                let value = accumulator.finish()?;
                for (_, _, position) in partition {
                    results[*position] = value.clone();
                }
            }
            ranking => number_rows(ranking, &function.order_by, partition, &mut results),
        }
        start += length;
    }
    Ok(results)
}

fn number_rows(
    ranking: &WindowKind,
    order_by: &[SortKey],
    partition: &[(Vec<Value>, Vec<Value>, usize)],
    results: &mut [Value],
) {
    let (mut rank, mut dense_rank) = (0, 0);
    for (number, (_, order, position)) in partition.iter().enumerate() {
        let is_tie = number > 0 && compare_keys(order_by, &partition[number - 1].1, order).is_eq();
        if !is_tie {
            rank = number as i64 + 1;
            dense_rank += 1;
        }
        let value = match ranking {
            WindowKind::Rank => rank,
            WindowKind::DenseRank => dense_rank,
            _ => number as i64 + 1,
        };
        results[*position] = Value::BigInt(value);
    }
}
