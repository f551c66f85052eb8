//! Subqueries in expressions: EXISTS, IN, and those that are a value. What does not depend on the rows around it is
//! computed once.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Flow, Frame, Run, SubqueryResult};
use crate::execute::join::push_join_key;
use crate::execute::operator::run_operator;
use crate::execute::query::run_query;
use crate::plan::query::{Body, QueryPlan};
use crate::value::{Collation, Value};

/// Whether a query has any row.
pub fn exists(plan: &Arc<QueryPlan>, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<bool> {
    let address = Arc::as_ptr(plan) as usize;
    if plan.outer_slots == 0
        && let Some(SubqueryResult::Exists(found)) = frame.subqueries.get(&address)
    {
        return Ok(*found);
    }
    let mut found = false;
    match &plan.body {
        // The select list of EXISTS is not computed, and its order does not matter.
        Body::Select(select) if select.limit.is_none() => {
            run_operator(&select.input, run, frame, &mut |_, _| {
                found = true;
                Ok(Flow::Stop)
            })?;
        }
        _ => {
            run_query(plan, run, frame, &mut |_, _, _| {
                found = true;
                Ok(Flow::Stop)
            })?;
        }
    }
    if plan.outer_slots == 0 {
        frame.subqueries.insert(address, SubqueryResult::Exists(found));
    }
    Ok(found)
}

/// `value IN (SELECT …)`.
pub fn in_query(
    plan: &Arc<QueryPlan>,
    value: &Value,
    collation: Collation,
    run: &mut Run<'_>,
    frame: &mut Frame,
) -> SqlResult<Option<bool>> {
    let ty = plan.columns[0].ty;
    let address = Arc::as_ptr(plan) as usize;
    let (keys, has_null) = match frame.subqueries.get(&address) {
        Some(SubqueryResult::Set { keys, has_null }) => (Arc::clone(keys), *has_null),
        _ => {
            let (mut keys, mut has_null) = (HashSet::new(), false);
            run_query(plan, run, frame, &mut |_, _, row| {
                let mut key = Vec::new();
                if push_join_key(&row[0], ty, collation, &mut key) {
                    keys.insert(key);
                } else {
                    has_null = true;
                }
                Ok(Flow::Continue)
            })?;
            let keys = Arc::new(keys);
            if plan.outer_slots == 0 {
                frame.subqueries.insert(address, SubqueryResult::Set { keys: Arc::clone(&keys), has_null });
            }
            (keys, has_null)
        }
    };
    if keys.is_empty() && !has_null {
        return Ok(Some(false));
    }
    let mut key = Vec::new();
    if !push_join_key(value, ty, collation, &mut key) {
        return Ok(None);
    }
    Ok(if keys.contains(&key) {
        Some(true)
    } else if has_null {
        None
    } else {
        Some(false)
    })
}

/// The value of `(SELECT …)`: NULL without rows, 512 if there are several.
pub fn scalar_subquery(plan: &Arc<QueryPlan>, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Value> {
    let address = Arc::as_ptr(plan) as usize;
    if let Some(SubqueryResult::Value(value)) = frame.subqueries.get(&address) {
        return Ok(value.clone());
    }
    let mut result: Option<Value> = None;
    run_query(plan, run, frame, &mut |_, _, mut row| {
        if result.is_some() {
            return Err(SqlError::new(
                512,
                "Subquery returned more than 1 value. This is not permitted when the subquery follows =, !=, <, <= , \
                 >, >= or when the subquery is used as an expression.",
            ));
        }
        result = Some(row.swap_remove(0));
        Ok(Flow::Continue)
    })?;
    let value = result.unwrap_or(Value::Null);
    if plan.outer_slots == 0 {
        frame.subqueries.insert(address, SubqueryResult::Value(value.clone()));
    }
    Ok(value)
}
