//! Window functions: the rows are put in order once for each function, and each row gets its value from the rows of its
//! partition or frame.

use std::cmp::Ordering;

use crate::error::{SqlError, SqlResult};
use crate::execute::aggregate::Accumulator;
use crate::execute::frame::{Frame, Run, SavedRows};
use crate::execute::sequence::next_value;
use crate::execute::sort::compare_keys;
use crate::plan::query::{FrameBound, FrameBounds, SortKey, WindowFunction, WindowKind};
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
        let mut partition = Vec::with_capacity(function.partition_by.len());
        for scalar in &function.partition_by {
            partition.push(scalar.eval(run, frame)?);
        }
        let mut order = Vec::with_capacity(function.order_by.len());
        for SortKey { scalar, .. } in &function.order_by {
            order.push(scalar.eval(run, frame)?);
        }
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
            WindowKind::NTile(tiles) => {
                self.restore(0, frame);
                let tiles = tiles.eval(run, frame)?.as_i64().unwrap_or(0);
                if tiles <= 0 {
                    return Err(SqlError::new(
                        5310,
                        "The value of the argument of the function 'ntile' must be a positive integer.",
                    ));
                }
                Ok((0..count).map(|row| Value::BigInt(tile(row as i64, count as i64, tiles))).collect())
            }
            WindowKind::Edge { value, last } => {
                let mut values = Vec::with_capacity(count);
                for (start, end) in self.frames() {
                    values.push(if start >= end {
                        Value::Null
                    } else {
                        self.restore(if *last { end - 1 } else { start }, frame);
                        value.eval(run, frame)?
                    });
                }
                Ok(values)
            }
            WindowKind::Offset { value, by, default, ahead } => {
                let mut values = Vec::with_capacity(count);
                for row in 0..count {
                    self.restore(row, frame);
                    let Some(by) = by.eval(run, frame)?.as_i64() else {
                        values.push(Value::Null);
                        continue;
                    };
                    if by < 0 {
                        return Err(SqlError::new(
                            8730,
                            "Offset parameter for Lag and Lead functions cannot be a negative value.",
                        ));
                    }
                    let by = usize::try_from(by).unwrap_or(usize::MAX);
                    let other = if *ahead { row.checked_add(by) } else { row.checked_sub(by) };
                    values.push(match (other.filter(|other| *other < count), default) {
                        (Some(other), _) => {
                            self.restore(other, frame);
                            value.eval(run, frame)?
                        }
                        (None, Some(default)) => default.eval(run, frame)?,
                        (None, None) => Value::Null,
                    });
                }
                Ok(values)
            }
            WindowKind::NextValue(sequence) => {
                (0..count).map(|_| next_value(*sequence, run).map(Value::BigInt)).collect()
            }
            ranking => Ok(self.ranks(ranking)),
        }
    }

    fn restore(&self, row: usize, frame: &mut Frame) {
        frame.restore(self.slots, self.rows[self.members[row].position].clone());
    }

    /// For each row the first row of its peers and the one behind the last.
    fn peers(&self) -> Vec<(usize, usize)> {
        let is_peer = |a: &Keyed, b: &Keyed| compare_keys(&self.function.order_by, &a.order, &b.order).is_eq();
        let mut peers = Vec::with_capacity(self.members.len());
        for group in self.members.chunk_by(is_peer) {
            let start = peers.len();
            peers.extend(std::iter::repeat_n((start, start + group.len()), group.len()));
        }
        peers
    }

    /// For each row the first row of its frame and the one behind the last.
    fn frames(&self) -> Vec<(usize, usize)> {
        let count = self.members.len() as i64;
        let FrameBounds { rows, start, end } = self.function.frame;
        let clamp = |row: i64| row.clamp(0, count) as usize;
        let mut frames = Vec::with_capacity(self.members.len());
        for (row, (first_peer, behind_peers)) in self.peers().into_iter().enumerate() {
            let first = match start {
                FrameBound::First => 0,
                FrameBound::Last => count as usize,
                FrameBound::Relative(_) if !rows => first_peer,
                FrameBound::Relative(by) => clamp(row as i64 + by),
            };
            let behind = match end {
                FrameBound::First => 0,
                FrameBound::Last => count as usize,
                FrameBound::Relative(_) if !rows => behind_peers,
                FrameBound::Relative(by) => clamp(row as i64 + by + 1),
            };
            frames.push((first, behind));
        }
        frames
    }

    fn aggregates<'c>(
        &self,
        new: &mut dyn FnMut() -> Accumulator<'c>,
        run: &mut Run<'_>,
        frame: &mut Frame,
    ) -> SqlResult<Vec<Value>> {
        let mut values: Vec<Value> = Vec::with_capacity(self.members.len());
        let mut accumulator = new();
        let mut taken = (0, 0);
        for (start, end) in self.frames() {
            // A frame that begins where the last one did only grows.
            if start != taken.0 || end < taken.1 {
                accumulator = new();
                taken = (start, start);
            } else if end == taken.1 && !values.is_empty() {
                values.push(values[values.len() - 1].clone());
                continue;
            }
            for row in taken.1..end {
                self.restore(row, frame);
                accumulator.add(run, frame)?;
            }
            taken.1 = end.max(taken.1);
            values.push(accumulator.clone().finish()?);
        }
        Ok(values)
    }

    fn ranks(&self, ranking: &WindowKind) -> Vec<Value> {
        let count = self.members.len();
        let mut values = Vec::with_capacity(count);
        let mut dense_rank = 0;
        for (row, (first, behind)) in self.peers().into_iter().enumerate() {
            dense_rank += i64::from(row == first);
            values.push(match ranking {
                WindowKind::Rank => Value::BigInt(first as i64 + 1),
                WindowKind::DenseRank => Value::BigInt(dense_rank),
                WindowKind::CumeDist => Value::Float(behind as f64 / count as f64),
                WindowKind::PercentRank if count == 1 => Value::Float(0.0),
                WindowKind::PercentRank => Value::Float(first as f64 / (count - 1) as f64),
                _ => Value::BigInt(row as i64 + 1),
            });
        }
        values
    }
}

/// The group of a row, counted from 0: the first groups are the larger ones, by one row.
fn tile(row: i64, count: i64, tiles: i64) -> i64 {
    let (size, larger) = (count / tiles, count % tiles);
    let in_larger = larger * (size + 1);
    if row < in_larger { row / (size + 1) + 1 } else { larger + (row - in_larger) / size.max(1) + 1 }
}
