//! Computes recursive common table expressions: anchors, and members that refer to the rows found last, until there
//! are no more.

use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{EmitRow, Flow, Frame, Run, Values};
use crate::plan::query::{QueryPlan, RecursivePlan};

/// How often the members run, without OPTION (MAXRECURSION).
const MAX_RECURSION: u32 = 100;

/// Computes the rows level by level.
///
/// `run_query`: how a query is run.
pub fn run(
    plan: &RecursivePlan,
    run_query: impl Fn(&QueryPlan, &mut Run<'_>, &mut Frame, EmitRow<'_>) -> SqlResult<Flow>,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: EmitRow<'_>,
) -> SqlResult<Flow> {
    let mut level: Vec<Values> = Vec::new();
    for anchor in &plan.anchors {
        run_query(anchor, run, frame, &mut |_, _, row| {
            level.push(row.into());
            Ok(Flow::Continue)
        })?;
    }
    let mut depth = 0;
    while !level.is_empty() {
        if depth > MAX_RECURSION {
            return Err(SqlError::new(
                530,
                "The statement terminated. The maximum recursion 100 has been exhausted before statement completion.",
            ));
        }
        for row in &level {
            if emit(run, frame, row.to_vec())? == Flow::Stop {
                frame.derived.remove(&plan.working);
                return Ok(Flow::Stop);
            }
        }
        frame.derived.insert(plan.working, Arc::new(level));
        let mut next: Vec<Values> = Vec::new();
        for member in &plan.members {
            run_query(member, run, frame, &mut |_, _, row| {
                next.push(row.into());
                Ok(Flow::Continue)
            })?;
        }
        level = next;
        depth += 1;
    }
    frame.derived.remove(&plan.working);
    Ok(Flow::Continue)
}
