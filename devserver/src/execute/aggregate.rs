//! GROUP BY and the aggregate functions.
//!
//! The input's rows are put into groups by the key bytes of their GROUP BY values (NULLs are one group); each group
//! then becomes a row of its GROUP BY values followed by its aggregates.

use std::collections::{HashMap, HashSet};

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Emit, Flow, Frame, Run};
use crate::plan::query::{AggregateCall, AggregateFunction, AggregateOperator};
use crate::value::{self, BinaryOp, Value, compare, encode_key};

/// The running state of one aggregate over one group.
#[derive(Clone)]
pub struct Accumulator<'c> {
    call: &'c AggregateCall,
    count: i64,
    total: Value,
    distinct: Option<HashSet<Vec<u8>>>,
    /// STRING_AGG: the sort keys, the text and the separator before it.
    texts: Vec<(String, String)>,
}

impl<'c> Accumulator<'c> {
    pub fn new(call: &'c AggregateCall) -> Self {
        let distinct = call.distinct.then(HashSet::new);
        Accumulator { call, count: 0, total: Value::Null, distinct, texts: Vec::new() }
    }

    /// Takes the row that stands in the frame.
    pub fn add(&mut self, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<()> {
        let Some(argument) = &self.call.argument else {
            self.count += 1;
            return Ok(());
        };
        let value = argument.eval(run, frame)?;
        if value.is_null() {
            return Ok(());
        }
        if let Some(distinct) = &mut self.distinct {
            let mut key = Vec::new();
            encode_key(&value, argument.ty, argument.collation(), false, &mut key);
            if !distinct.insert(key) {
                return Ok(());
            }
        }
        self.count += 1;
        match self.call.function {
            AggregateFunction::Count | AggregateFunction::CountBig => {}
            AggregateFunction::Sum => {
                self.total = match std::mem::replace(&mut self.total, Value::Null) {
                    Value::Null => value,
                    total => value::binary(BinaryOp::Add, &total, self.call.ty, &value, self.call.ty, self.call.ty)?,
                };
            }
            AggregateFunction::Min | AggregateFunction::Max => {
                let replaces = self.total.is_null() || {
                    let order = compare(&value, &self.total, argument.collation());
                    if self.call.function == AggregateFunction::Min { order.is_lt() } else { order.is_gt() }
                };
                if replaces {
                    self.total = value;
                }
            }
            AggregateFunction::StringAgg => {
                let separator = match &self.call.separator {
                    Some(separator) => separator.eval(run, frame)?,
                    None => Value::Null,
                };
                let text = value.as_str().unwrap_or_default().to_string();
                self.texts.push((text, separator.as_str().unwrap_or_default().to_string()));
            }
        }
        Ok(())
    }

    pub fn finish(self) -> SqlResult<Value> {
        match self.call.function {
            AggregateFunction::Count => match i32::try_from(self.count) {
                Ok(count) => Ok(Value::Int(count)),
                Err(_) => {
                    Err(SqlError::new(8115, "Arithmetic overflow error converting expression to data type int.")
                        .state(2))
                }
            },
            AggregateFunction::CountBig => Ok(Value::BigInt(self.count)),
            AggregateFunction::Sum | AggregateFunction::Min | AggregateFunction::Max => Ok(self.total),
            AggregateFunction::StringAgg => {
                if self.texts.is_empty() {
                    return Ok(Value::Null);
                }
                let mut result = String::new();
                for (position, (text, separator)) in self.texts.iter().enumerate() {
                    if position > 0 {
                        result.push_str(separator);
                    }
                    result.push_str(text);
                }
                Ok(Value::String(result.into()))
            }
        }
    }
}

/// `input`: what gives the rows.
pub fn run(
    aggregation: &AggregateOperator,
    input: impl FnOnce(&mut Run<'_>, &mut Frame, Emit<'_>) -> SqlResult<Flow>,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: Emit<'_>,
) -> SqlResult<Flow> {
    let new_group = || -> Vec<Accumulator<'_>> { aggregation.calls.iter().map(Accumulator::new).collect() };
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut groups: Vec<(Vec<Value>, Vec<Accumulator<'_>>)> = Vec::new();
    if aggregation.always_a_row {
        places.insert(Vec::new(), 0);
        groups.push((Vec::new(), new_group()));
    }
    let mut key = Vec::new();
    input(run, frame, &mut |run, frame| {
        key.clear();
        let mut values = Vec::with_capacity(aggregation.group_by.len() + aggregation.calls.len());
        for scalar in &aggregation.group_by {
            let value = scalar.eval(run, frame)?;
            encode_key(&value, scalar.ty, scalar.collation(), false, &mut key);
            values.push(value);
        }
        let place = match places.get(&key) {
            Some(place) => *place,
            None => {
                places.insert(key.clone(), groups.len());
                groups.push((values, new_group()));
                groups.len() - 1
            }
        };
        for accumulator in &mut groups[place].1 {
            accumulator.add(run, frame)?;
        }
        Ok(Flow::Continue)
    })?;
    for (mut values, accumulators) in groups {
        for accumulator in accumulators {
            values.push(accumulator.finish()?);
        }
        frame.rows[aggregation.slot] = values.into();
        if emit(run, frame)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}
