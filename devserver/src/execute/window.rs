//! Window functions: the rows are put in order once for each function, and each row gets its value from the rows of its
//! partition.

use std::cmp::Ordering;

use crate::error::SqlResult;
use crate::execute::aggregate::Accumulator;
use crate::execute::frame::{Frame, Run, SavedRows};
use crate::execute::sequence::next_value;
use crate::execute::sort::{compare_keys, eval_keys};
use crate::plan::query::{WindowFunction, WindowKind};
use crate::plan::scalar::Scalar;
use crate::value::{Value, compare_nulls_first};

/// The values of the functions for each of `rows`, in the order of `rows`.
pub fn compute(
    functions: &[WindowFunction],
    slots: &[usize],
    rows: &[SavedRows],
    run: &mut Run<'_>,
    frame: &mut Frame,
) -> SqlResult<Vec<Vec<Value>>> {
    let mut results: Vec<Vec<Value>> = rows.iter().map(|_| Vec::with_capacity(functions.len())).collect();
    for function in functions {
        let column = compute_one(function, slots, rows, run, frame)?;
        for (result, value) in results.iter_mut().zip(column) {
            result.push(value);
        }
    }
    Ok(results)
}

/// A row with the values it is ordered by.
struct Keyed {
    partition: Vec<Value>,
    order: Vec<Value>,
    /// Its place in the input.
    position: usize,
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
    let mut keyed: Vec<Keyed> = Vec::with_capacity(rows.len());
    for (position, row) in rows.iter().enumerate() {
        frame.restore(slots, row.clone());
        let partition = Scalar::eval_all(&function.partition_by, run, frame)?;
        let order = eval_keys(&function.order_by, run, frame)?;
        keyed.push(Keyed { partition, order, position });
    }
    keyed.sort_by(|a, b| {
        compare_partitions(function, &a.partition, &b.partition)
            .then_with(|| compare_keys(&function.order_by, &a.order, &b.order))
    });

    let mut results = vec![Value::Null; rows.len()];
    let same_partition = |a: &Keyed, b: &Keyed| compare_partitions(function, &a.partition, &b.partition).is_eq();
    for members in keyed.chunk_by(same_partition) {
        let partition = Partition { function, members, slots, rows };
        let values = partition.values(run, frame)?;
        for (member, value) in members.iter().zip(values) {
            results[member.position] = value;
        }
    }
    Ok(results)
}

struct Partition<'p> {
    function: &'p WindowFunction,
    /// In the order of the window.
    members: &'p [Keyed],
    slots: &'p [usize],
    rows: &'p [SavedRows],
}

impl Partition<'_> {
    fn values(&self, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<Value>> {
        let count = self.members.len();
        match &self.function.kind {
            WindowKind::Aggregate(call) => self.aggregates(&mut || Accumulator::new(call), run, frame),
            WindowKind::FirstValue(value) => {
                self.restore(0, frame);
                let first = value.eval(run, frame)?;
                Ok(vec![first; count])
            }
            WindowKind::RowNumber => Ok((1..=count as i64).map(Value::BigInt).collect()),
            WindowKind::NextValue(sequence) => {
                (0..count).map(|_| next_value(*sequence, run).map(Value::BigInt)).collect()
            }
        }
    }

    fn restore(&self, row: usize, frame: &mut Frame) {
        frame.restore(self.slots, self.rows[self.members[row].position].clone());
    }

    /// For each row the one behind the last that it sees.
    fn ends(&self) -> Vec<usize> {
        let is_peer = |a: &Keyed, b: &Keyed| compare_keys(&self.function.order_by, &a.order, &b.order).is_eq();
        let mut ends = Vec::with_capacity(self.members.len());
        for group in self.members.chunk_by(is_peer) {
            let end = ends.len() + group.len();
            ends.resize(end, end);
        }
        ends
    }

    fn aggregates<'c>(
        &self,
        new: &mut dyn FnMut() -> Accumulator<'c>,
        run: &mut Run<'_>,
        frame: &mut Frame,
    ) -> SqlResult<Vec<Value>> {
        let mut values: Vec<Value> = Vec::with_capacity(self.members.len());
        let mut accumulator = new();
        let mut taken = 0;
        for end in self.ends() {
            if end == taken {
                values.push(values[values.len() - 1].clone());
                continue;
            }
            for row in taken..end {
                self.restore(row, frame);
                accumulator.add(run, frame)?;
            }
            taken = end;
            values.push(accumulator.clone().finish()?);
        }
        Ok(values)
    }
}
