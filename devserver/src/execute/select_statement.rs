//! Runs a SELECT statement: its rows are the result, or are assigned to variables.

use crate::error::SqlResult;
use crate::execute::frame::{Flow, Frame, Run};
use crate::execute::operator::run_operator;
use crate::execute::query::run_query;
use crate::execute::statement_result::StatementResult;
use crate::plan::query::Body;
use crate::plan::select_statement::SelectStatementPlan;
use crate::value::Value;

/// `sent` gets the rows for the client.
pub fn run_select(
    plan: &SelectStatementPlan,
    run: &mut Run<'_>,
    frame: &mut Frame,
    sent: &mut Vec<Vec<Value>>,
) -> SqlResult<StatementResult> {
    let Some(variables) = &plan.variables else {
        run_query(&plan.query, run, frame, &mut |_, frame, row| {
            frame.next_values.clear();
            sent.push(row);
            Ok(Flow::Continue)
        })?;
        return Ok(StatementResult { count: sent.len() as u64, ..Default::default() });
    };
    let mut count: usize = 0;
    if let Body::Select(select) = &plan.query.body
        && select.sort.is_empty()
        && select.limit.is_none()
        && !select.distinct
    {
        // Each assignment sees those before it, in this row and in the rows before.
        run_operator(&select.input, run, frame, &mut |run, frame| {
            for (item, place) in select.items.iter().zip(variables) {
                run.activation.values[*place] = item.eval(run, frame)?;
            }
            frame.next_values.clear();
            count += 1;
            Ok(Flow::Continue)
        })?;
        return Ok(StatementResult { count: count as u64, ..Default::default() });
    }
    run_query(&plan.query, run, frame, &mut |run, frame, row| {
        frame.next_values.clear();
        for (value, place) in row.into_iter().zip(variables) {
            run.activation.values[*place] = value;
        }
        count += 1;
        Ok(Flow::Continue)
    })?;
    Ok(StatementResult { count: count as u64, ..Default::default() })
}
