//! Runs user-defined functions, within the statement that calls them.

use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::frame::{Frame, Run};
use crate::execute::permission::check_needs;
use crate::execute::select_statement::run_select;
use crate::plan::batch::{FunctionPlan, Step, StepKind};
use crate::plan::cached_plan::{BoundPlan, CachedPlan, Plan};
use crate::value::Value;

/// Procedures, triggers and functions can nest this deep.
pub const MAX_NESTING: u32 = 32;

/// 217.
pub fn nested_too_deep() -> SqlError {
    SqlError::new(
        217,
        format!("Maximum stored procedure, function, trigger, or view nesting level exceeded (limit {MAX_NESTING})."),
    )
}

enum Outcome {
    Next,
    Return(Value),
}

/// Calls the function with its arguments, which have the types of its parameters.
pub(super) fn call(plan: &FunctionPlan, arguments: Vec<Value>, run: &mut Run<'_>) -> SqlResult<Value> {
    if run.state.nest_level >= MAX_NESTING {
        return Err(nested_too_deep());
    }
    // Others have their turn, and whoever wants this to end is heard.
    let storage = run.storage()?;
    storage.latch.count_row(&storage.tx)?;
    let mut values = arguments;
    values.resize(plan.compiled.declarations.len(), Value::Null);
    let mut own = Activation { values, ..Activation::default() };
    let row_count = run.state.row_count;
    std::mem::swap(run.activation, &mut own);
    run.state.nest_level += 1;
    let result = run_steps(&plan.compiled.steps, plan.version, run);
    run.state.nest_level -= 1;
    std::mem::swap(run.activation, &mut own);
    run.state.row_count = row_count;
    match result? {
        Outcome::Return(value) => Ok(value),
        _ => Ok(Value::Null),
    }
}

/// What a cached plan has to do, if the user may.
fn bound(cached: &CachedPlan, version: u64, run: &Run<'_>) -> SqlResult<std::sync::Arc<BoundPlan>> {
    let bound = cached.kept(version).ok_or_else(|| SqlError::not_supported("a function whose tables are not there"))?;
    check_needs(&bound.needs, run.state.user, run.database)?;
    Ok(bound)
}

fn value(cached: &CachedPlan, version: u64, run: &mut Run<'_>) -> SqlResult<Value> {
    let bound = bound(cached, version, run)?;
    let Plan::Scalar(scalar) = &bound.plan else { unreachable!("the plan was made for an expression") };
    scalar.eval(run, &mut Frame::of(&bound))
}

fn holds(cached: &CachedPlan, version: u64, run: &mut Run<'_>) -> SqlResult<bool> {
    let bound = bound(cached, version, run)?;
    let Plan::Condition(condition) = &bound.plan else { unreachable!("the plan was made for a condition") };
    condition.holds(run, &mut Frame::of(&bound))
}

fn run_steps(steps: &[Step], version: u64, run: &mut Run<'_>) -> SqlResult<Outcome> {
    for step in steps {
        match run_step(step, version, run)? {
            Outcome::Next => {}
            outcome => return Ok(outcome),
        }
    }
    Ok(Outcome::Next)
}

fn run_step(step: &Step, version: u64, run: &mut Run<'_>) -> SqlResult<Outcome> {
    match &step.kind {
        StepKind::Block(steps) => return run_steps(steps, version, run),
        StepKind::If { condition, then, otherwise } => {
            let holds = holds(condition, version, run)?;
            run.state.row_count = 0;
            return match (holds, otherwise) {
                (true, _) => run_step(then, version, run),
                (false, Some(otherwise)) => run_step(otherwise, version, run),
                (false, None) => Ok(Outcome::Next),
            };
        }
        StepKind::Return(Some(cached)) => return Ok(Outcome::Return(value(cached, version, run)?)),
        StepKind::Set(place, cached) => {
            run.activation.values[*place] = value(cached, version, run)?;
            run.state.row_count = 1;
        }
        StepKind::Declare(list) => {
            for (place, cached) in list {
                if let Some(cached) = cached {
                    run.activation.values[*place] = value(cached, version, run)?;
                    run.state.row_count = 1;
                }
            }
        }
        StepKind::Query(cached) => {
            let bound = bound(cached, version, run)?;
            let Plan::Select(select) = &bound.plan else { unreachable!("a function changes nothing") };
            let result = run_select(select, run, &mut Frame::of(&bound), &mut Vec::new())?;
            run.state.row_count = result.count as i64;
        }
        _ => unreachable!("the binder has refused it"),
    }
    Ok(Outcome::Next)
}
