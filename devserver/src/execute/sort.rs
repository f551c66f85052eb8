//! Sort keys: their values, and the order of rows by them.

use std::cmp::Ordering;

use crate::error::SqlResult;
use crate::execute::frame::{Frame, Run};
use crate::plan::query::SortKey;
use crate::value::{Value, compare_nulls_first};

pub fn eval_keys(sort: &[SortKey], run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<Value>> {
    let mut keys = Vec::with_capacity(sort.len());
    for key in sort {
        keys.push(key.scalar.eval(run, frame)?);
    }
    Ok(keys)
}

/// The order of two rows by their sort keys.
pub fn compare_keys(sort: &[SortKey], a: &[Value], b: &[Value]) -> Ordering {
    for (position, key) in sort.iter().enumerate() {
        let order = compare_nulls_first(&a[position], &b[position], key.scalar.collation());
        if order.is_ne() {
            return if key.descending { order.reverse() } else { order };
        }
    }
    Ordering::Equal
}
